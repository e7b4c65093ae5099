"""The private estimators: linear and logistic regression, classifiers, structured weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
from jaxtyping import Float, Int, Num, Shaped
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.estimators.base import PrivateLinearModel
from taciturn.estimators.ranges import Ranges, ranges_for, ranges_seen
from taciturn.estimators.records import Targets
from taciturn.estimators.validation import RowsLike, labels_in, numbers_in
from taciturn.features import COLUMNS
from taciturn.problems import Named, is_second
from taciturn.training import Structure, chain_of, labels_of, weights_by_label
from taciturn.training.parts import GraphSource, StructureName
from taciturn.typing import HostArray


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regression under differential privacy, by least squares with clipped residuals.

    The target y with public range [a, b] is clipped to it and mapped to t = 2 (y - a) / (b - a) - 1
    in [-1, 1]; the loss of a record is (z - t)^2 / 2, whose derivative z - t is clipped at `clip`
    (1/4, an eighth of the range, unless it is given). That makes it the Huber loss with threshold
    `clip`.
    Parameters, attributes and the guarantee are those of `PrivateLinearModel`: above all `epsilon`,
    `delta` and `bounds`.

    Parameters
    ----------
    target_bounds
        The *public* range (min, max) of the target. None reads it off the records: a
        `PublicFactsWarning`, and a condition in the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> ages = draw.uniform(20, 80, (4000, 1))
    >>> pressure = 100 + 0.5 * ages[:, 0] + draw.standard_normal(4000)
    >>> model = PrivateLinearRegression(
    ...     epsilon=2.0, delta=1e-6, bounds=(0, 100), target_bounds=(80, 180), random_state=0
    ... ).fit(ages, pressure)
    >>> bool(abs(model.predict([[40.0]])[0] - 120) < 3)
    True
    """

    _target_facts: ClassVar[tuple[str, str]] = ("bounds of the target", "target_bounds")

    target_bounds: tuple[float, float] | None = None

    def predict(self, X: RowsLike) -> Float[HostArray, "N"]:
        """Return the predicted target of each row; the features are clipped to the bounds first."""
        return self._scores(X)

    @override
    def _targets(self, answers: HostArray | None) -> Targets:
        ranges = self._target_ranges(answers)
        half, middle = float(ranges.width[0]) / 2, float(ranges.middle[0])
        return Targets(Named(name="squared", numbers=()), half, middle, None)

    @override
    def _encode(self, answers: HostArray, targets: Targets) -> Float[HostArray, "N"]:
        column = numbers_in(answers)[:, None]
        values: HostArray = self._target_ranges(answers).encoded(column)[:, 0]
        return values

    def _target_ranges(self, answers: HostArray | None) -> Ranges:
        if self.target_bounds is not None:
            return ranges_for(self.target_bounds, 1)
        assert answers is not None
        return ranges_seen(numbers_in(answers)[:, None], "the target")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A private linear classifier: the sign of one score for two labels, else the largest of K.

    Of two labels the second is predicted if the score is at least 0. `classes_` has them, sorted.

    Parameters
    ----------
    classes
        The *public* list of labels; every label that occurs must be in it. None reads it off the
        records: a `PublicFactsWarning`, and a condition in the certificate.
    class_weight
        *Public* weights in (0, 1] by label, which multiply the loss of a record; a label that is
        not named has weight 1. The sensitivity includes them (`taciturn.problems.ClassWeighted`).
        "balanced" is refused: it counts the records of each class.
    prior
        The *public* share of each label, instead of weights: label c then has the weight min(p) /
        p_c, so that all classes count equally. `score` counts every row equally, and
        probabilities are those of rows as they occur, so with weights `predict` returns the label
        of the largest product of weight and probability.
    """

    _target_facts: ClassVar[tuple[str, str]] = ("labels", "classes")
    _binary: ClassVar[bool] = False  # whether there may be no more than two classes

    classes: ArrayLike | None = None
    class_weight: Mapping[Any, float] | None = None
    prior: Mapping[Any, float] | None = None

    @property
    def _loss(self) -> Named | None:
        """The loss; None, as here, for the default one for the number of classes."""
        return None

    def decision_function(self, X: RowsLike) -> Float[HostArray, "N *K"]:
        """Return the score of each row: (N,) for two classes, (N, K) for K."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: RowsLike) -> Shaped[HostArray, "N"]:
        """Return the label of each row; the features are clipped to the bounds first."""
        scores = self.decision_function(X)
        chosen = is_second(scores).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: HostArray = self.classes_[chosen]
        return labels

    @override
    def _targets(self, answers: HostArray | None) -> Targets:
        labels = labels_in(answers, self.classes)
        if len(labels) < 2:
            raise InputError(
                "there is only one class; pass classes= with the public list of at least two "
                "labels, whichever of them occur in y"
            )
        if self._binary and len(labels) > 2:
            raise InputError(  # in the words that scikit-learn expects
                "Only binary classification is supported. The type of the target is multiclass; "
                "use PrivateLogisticRegression for more than two classes"
            )
        return Targets(self._loss, 1.0, 0.0, labels)

    @override
    def _encode(self, answers: HostArray, targets: Targets) -> Num[HostArray, "N"]:
        assert targets.labels is not None
        number = {label: code for code, label in enumerate(targets.labels.tolist())}
        codes = np.array([number.get(label, -1) for label in answers.tolist()])
        if np.any(codes < 0):
            raise InputError("a label of y is not in classes; list every public label there")
        return 2.0 * codes - 1 if len(number) == 2 else codes

    @override
    def _class_weight(self, targets: Targets) -> Mapping[str, float] | None:
        assert targets.labels is not None
        labels = tuple(targets.labels.tolist())
        weights = weights_by_label(labels, self.class_weight, self.prior)
        if weights is None:
            return None
        names = labels_of(targets.facts(columns=1, record_norm=1.0))
        return dict(zip(names or (), weights, strict=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._binary
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression under differential privacy, for two classes or more.

    Scores are log-odds of the classes. Under privacy they are estimated by
    `taciturn.problems.CappedExponential`, or `BoundedMultinomial` for three classes or more, whose
    bounds on the influence of a record are the least possible; without, by the likelihood. With
    `loss="logistic"` or `"multinomial"` and a `clip` below 1 or sqrt(2), the loss is *robust*
    (`taciturn.problems.ClippedLoss`), scores are not log-odds, and there is no `predict_proba`.
    Parameters, attributes and the guarantee are those of `PrivateLinearModel` and
    `PrivateClassifier`: above all `epsilon`, `delta`, `bounds` and `classes`. Every fit spends its
    own budget.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> ages = draw.uniform(20, 80, (4000, 1))
    >>> ill = ages[:, 0] + 10 * draw.standard_normal(4000) > 50
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, bounds=(0, 120), classes=[False, True], random_state=0
    ... ).fit(ages, ill)
    >>> model.predict([[30.0], [70.0]])
    array([False,  True])
    >>> model.certificate_.epsilon <= 1.0, model.certificate_.reproduction
    (True, True)
    """

    @property
    def predict_proba(self) -> Callable[[RowsLike], Float[HostArray, "N K"]]:
        """A function from rows to the probability of each class, in the order of `classes_`.

        `AttributeError`, which tells scikit-learn that there are no probabilities, if the scores
        of the fitted model are not log-odds, as with a `clip` below the loss's bound.
        """
        loss = getattr(self, "loss_", None)
        if loss is not None and not loss.log_odds:
            raise AttributeError(loss.without_probabilities("clip="))
        return self._probabilities

    def _probabilities(self, X: RowsLike) -> Float[HostArray, "N K"]:
        scores = self.decision_function(X)  # raises if the model is not fitted
        probabilities: HostArray | None = self.loss_.probabilities(scores)
        assert probabilities is not None
        return probabilities


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSVC(PrivateClassifier):
    """A linear support vector classifier under differential privacy, for two classes.

    The loss of a record is the hinge max(0, 1 - t z), t = -1 or 1, with its kink replaced by a
    parabola (`taciturn.problems.HuberHinge`). Parameters, attributes and the guarantee are those of
    `PrivateLinearModel` and `PrivateClassifier`: above all `epsilon`, `delta`, `bounds`, `classes`.

    Parameters
    ----------
    smoothing
        Half the width of the parabola, in units of the margin.
    """

    _binary: ClassVar[bool] = True

    smoothing: float = 0.5

    @property
    @override
    def _loss(self) -> Named:
        width = checks.positive("smoothing", self.smoothing)
        return Named(name="hinge", numbers=(width,))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateStructuredClassifier(PrivateLogisticRegression):
    r"""Logistic regression for two classes with structured weights, under differential privacy.

    The objective is that of `PrivateLinearModel` plus l1 |A w|_1, with w per encoded column:

    - "lasso": A = I, so few weights differ from 0;
    - "fused-lasso": A = [phi; I], so weights also agree along the edges of a graph of the columns;
    - "generalized-lasso": the rows of A are given.

    Parameters, attributes and the guarantee are those of `PrivateLinearModel` and
    `PrivateClassifier`: above all `epsilon`, `delta`, `bounds` and `classes`. The ridge is `l2`.

    Parameters
    ----------
    graph
        The *public* relation between columns. For the fused lasso "chain", which joins neighbouring
        columns, or (e, 2) pairs of column numbers; for the generalised lasso the (m, k) rows of A.
        The certificate states as a condition that a graph or matrix is public.
    l1
        Weight of the structure.
    smoothing
        Strength of Laplacian smoothing, of the methods that have the option; 0 for none.
    algorithm
        A method for structures (`taciturn.algorithms.Method.structure`): one with "allowed" treats
        the structure as a regulariser; one with "required" splits it off.
    """

    _binary: ClassVar[bool] = True

    structure: str = "fused-lasso"
    graph: ArrayLike | str = "chain"
    l1: float = 1e-4
    smoothing: float = 0.0

    @override
    def _options(self) -> dict[str, Any]:
        given = {"smoothing": self.smoothing} if self.smoothing else {}
        return super()._options() | given

    @override
    def _structure(self, columns: int, encoded: int) -> Structure:
        """Return the structure; edges and rows of A exclude indicators and the constant."""
        edges, rows, name = np.empty((0, 2), int), np.empty((0, encoded)), self.structure
        if self.features not in (None, COLUMNS) and name != "lasso":
            raise InputError(
                f"features={self.features!r} excludes the structure {name!r}, which "
                'relates columns; leave one out, or use structure="lasso"'
            )
        if name == "fused-lasso":
            edges = chain_of(columns) if self._source == "chain" else self._edges(columns)
            name = name if len(edges) else "lasso"
        elif name == "generalized-lasso":
            rows = self._rows(columns)
            rows = np.pad(rows, ((0, 0), (0, encoded - rows.shape[1])))
        elif name != "lasso":
            raise InputError(
                f"structure is {name!r}; choose from {', '.join(get_args(StructureName))}"
            )
        return Structure(
            name=name,
            weight=checks.not_negative("l1", self.l1),
            ridge=checks.not_negative("l2", self.l2),
            edges=tuple(map(tuple, edges.tolist())),
            rows=tuple(map(tuple, rows.tolist())),
            source=self._source,
        )

    @property
    def _source(self) -> GraphSource:
        chain = isinstance(self.graph, str) and self.graph == "chain"
        return "chain" if chain or self.structure == "lasso" else "given"

    def _edges(self, columns: int) -> Int[HostArray, "e 2"]:
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
