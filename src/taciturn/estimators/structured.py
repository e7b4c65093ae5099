"""Private logistic regression whose weights have a structure: lasso, fused or generalised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.estimators.base import Fact
from taciturn.estimators.classifiers import PrivateLogisticRegression
from taciturn.estimators.ranges import Ranges
from taciturn.estimators.records import Encoding
from taciturn.features import FeatureMap
from taciturn.proposal import Structure, chain_of
from taciturn.proposal.parts import GraphSource, StructureName
from taciturn.typing import HostArray

CHAIN = "chain"


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateStructuredClassifier(PrivateLogisticRegression):
    r"""Logistic regression for two classes with structured weights, under differential privacy.

    The objective is that of `PrivateLinearModel` plus l1 |A w|_1, with w per encoded column:

    - "lasso": A = I, few weights differ from 0;
    - "fused-lasso": A = [phi; I], they are also alike along the edges of a graph of the columns;
    - "generalized-lasso": the rows of A are given.

    Parameters, attributes and the guarantee are those of `PrivateLinearModel` and
    `PrivateClassifier`: above all `epsilon`, `delta`, `bounds` and `classes`. The ridge is `l2`.

    Every fit spends its own budget, so a grid search spends once per candidate and fold.

    Parameters
    ----------
    graph
        The *public* relation between columns. For the fused lasso "chain", which joins
        neighbouring columns, or (e, 2) pairs of column numbers; for the generalised lasso the
        (m, k) rows of A. That a graph or matrix is public is a condition in the certificate.
    l1
        Weight of the structure.
    smoothing
        Strength of Laplacian smoothing, of the methods that have the option; 0 for none.
    algorithm
        A method that knows structures (`taciturn.algorithms.Method.structure`): "allowed", it
        treats the structure as a regulariser; "required", it splits it off.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> x = draw.uniform(0, 1, (4000, 3))
    >>> ill = x[:, 0] + x[:, 1] + 0.2 * draw.standard_normal(4000) > 1
    >>> model = PrivateStructuredClassifier(
    ...     epsilon=1.0, delta=1e-6, bounds=(0, 1), classes=[False, True], graph=[[0, 1]],
    ...     random_state=0,
    ... ).fit(x, ill)
    >>> model.predict([[0.1, 0.2, 0.5], [0.9, 0.8, 0.5]])
    array([False,  True])
    """

    _binary: ClassVar[bool] = True

    structure: str = "fused-lasso"
    graph: ArrayLike | str = CHAIN
    l1: float = 1e-4
    smoothing: float = 0.0

    @override
    def _feature_map(self, ranges: Ranges, names: Sequence[str] | None) -> FeatureMap | None:
        if self.features is not None and self.structure != "lasso":
            raise InputError(
                f"features={self.features!r} and the structure {self.structure!r}, which is one of "
                'the columns, do not go together; leave one out, or use structure="lasso"'
            )
        return super()._feature_map(ranges, names)

    @override
    def _options(self) -> dict[str, Any]:
        given = {"smoothing": self.smoothing} if self.smoothing else {}
        return super()._options() | given

    @override
    def _structure(self, columns: int, encoding: Encoding) -> Structure:
        """Return the structure; indicators and the constant are in no edge and no row of A."""
        edges, rows = np.empty((0, 2), int), np.empty((0, encoding.columns))
        name = self.structure
        if name == "fused-lasso":
            edges = self._edges(columns)
            name = name if len(edges) else "lasso"
        elif name == "generalized-lasso":
            rows = self._rows(columns)
            rows = np.pad(rows, ((0, 0), (0, encoding.columns - rows.shape[1])))
        elif name != "lasso":
            raise InputError(
                f"structure is {self.structure!r}; choose from {', '.join(get_args(StructureName))}"
            )
        return Structure(
            name=name,
            weight=checks.not_negative("l1", self.l1),
            ridge=checks.not_negative("l2", self.l2),
            edges=tuple(map(tuple, edges.tolist())),
            rows=tuple(map(tuple, rows.tolist())),
            source=self._source(),
        )

    def _source(self) -> GraphSource:
        if self.structure == "lasso" or (isinstance(self.graph, str) and self.graph == CHAIN):
            return "chain"
        return "given"

    def _edges(self, columns: int) -> Int[HostArray, "e 2"]:
        if isinstance(self.graph, str) and self.graph == CHAIN:
            return chain_of(columns)
        edges = np.asarray(self.graph)
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
            raise InputError('graph must be "chain" or public pairs of column numbers')
        if len(edges) and edges.max() >= columns:
            raise InputError(f"graph joins column {edges.max()}; columns are 0 to {columns - 1}")
        return edges

    def _rows(self, columns: int) -> Float[HostArray, "m k"]:
        if isinstance(self.graph, str) or np.ndim(self.graph) != 2:
            raise InputError("generalized-lasso needs the rows of A; pass them as graph=")
        rows = np.asarray(self.graph, np.float64)
        if rows.shape[1] != columns:
            raise InputError(
                f"graph has {rows.shape[1]} columns and X has {columns}; give a number for each"
            )
        return rows

    @override
    def _facts(self, indicators: Sequence[int]) -> tuple[Fact, ...]:
        facts = super()._facts(indicators)
        if self._source() == "chain":
            return facts
        return (*facts, Fact("edges or rows of the structure", "graph", True))
