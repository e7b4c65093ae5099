"""A private regression table of a data frame, in the manner of statsmodels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from numpy.typing import ArrayLike

from taciturn import checks
from taciturn.budget import Account
from taciturn.errors import InputError
from taciturn.kernel.privacy import Certificate
from taciturn.kernel.records import Draw
from taciturn.problems import partition_by
from taciturn.regression.printed import lines_of
from taciturn.regression.request import RegressionRequest, regression_request
from taciturn.regression.table import RegressionTable, parts_of, regression_table
from taciturn.tables import (
    Bounds,
    Report,
    Table,
    encode,
    inputs_of,
    read_bounds,
    table_conditions,
)
from taciturn.tables.bounds import bounds_from_dict
from taciturn.tables.encode import check_columns
from taciturn.training import (
    Counted,
    DataFacts,
    DividedData,
    Division,
    Request,
    StructureRequest,
    divide_records,
    proposal_for,
    train,
)
from taciturn.typing import HostArray, Precision


@dataclass(kw_only=True)
class PrivateGLM:
    """A regression with standard errors, fitted within a total privacy budget.

    Parameters
    ----------
    formula
        As `"ill ~ age + C(sex)"`, or `"Surv(days, died) ~ age"`.
    bounds
        The public facts about the columns: a bounds file, or its content.
    family, robust, cuts, largest_hazard
        As of `taciturn regress`.
    epsilon, delta, relation, observer, rounds
        The budget and the terms of every fit; `epsilon=float("inf")` fits without noise.
    account
        The account, or its name, to which every fit is charged; None for none.
    random_state
        None draws noise in secret. A number makes the fit repeatable, and not private.

    Attributes
    ----------
    table_, certificate_
        The `RegressionTable`, and the certificate of the fit.

    Notes
    -----
    **Guarantee.** That of `taciturn regress`: the table is post-processing of answers that are
    noised as the certificate states. It covers one fit; every fit spends its own budget.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": draw.uniform(20, 80, 20_000)})
    >>> frame["visits"] = draw.poisson(np.exp(-1 + 0.03 * frame.age))
    >>> glm = PrivateGLM(
    ...     formula="visits ~ age", family="poisson", epsilon=3.0, delta=1e-6, random_state=0,
    ...     observer="sum",
    ...     bounds={
    ...         "source": "public", "target": {"name": "visits", "min": 0, "max": 20},
    ...         "columns": {"age": {"min": 20, "max": 80}},
    ...     },
    ... ).fit(frame)
    >>> slope = glm.table_.to_frame().loc["age"]
    >>> bool(abs(slope.estimate - 0.03) < 3 * slope.standard_error)
    True
    """

    formula: str
    bounds: Bounds | Path | str | Mapping[str, Any]
    family: str = "gaussian"
    robust: bool = False
    cuts: Sequence[float] = ()
    largest_hazard: float = 2.0
    epsilon: float
    delta: float
    relation: str = "replace_one"
    observer: str = "messages"
    rounds: int | None = None
    account: Account | str | None = None
    random_state: int | None = None
    table_: RegressionTable = field(init=False, repr=False)
    certificate_: Certificate = field(init=False, repr=False)

    def fit(
        self, X: pd.DataFrame, y: ArrayLike | None = None, agents: ArrayLike | None = None
    ) -> PrivateGLM:
        """Fit the model to the rows of a data frame, spending the budget once.

        - `y`: The response, if it is no column of `X`.
        - `agents`: The owner of each row; None for one owner of all.
        """
        if not isinstance(X, pd.DataFrame):
            raise InputError(
                f"X is a {type(X).__name__}; give a data frame, whose columns are named"
            )
        bounds = self._bounds()
        frame = X if y is None else X.assign(**{bounds.target_name: np.asarray(y)})
        counted = counted_frame(frame, bounds, agents)
        epsilon = checks.positive("epsilon", self.epsilon, allow_infinity=True)
        wanted = RegressionRequest(
            self.formula, self.family, tuple(self.cuts), self.largest_hazard, self.robust
        )
        request = Request(
            epsilon=epsilon,
            delta=checks.delta(self.delta),
            relation=self.relation,
            observer=self.observer,
            rounds=self.rounds,
        )
        asked = regression_request(request, bounds, wanted)
        proposal = proposal_for(counted, asked, StructureRequest())
        parts_of(proposal)  # nothing may fail after the charge
        account = Account(self.account) if isinstance(self.account, str) else self.account
        training = train(counted, proposal, seed=self.random_state, account=account, trace=False)
        self.table_ = regression_table(proposal, training.plan, training.asked)
        self.certificate_ = training.certificate
        return self

    def summary(self) -> str:
        """Return the table as text, with the certificate below it."""
        if not hasattr(self, "table_"):
            raise InputError("nothing is fitted yet; call fit first")
        lines = [*lines_of(self.table_), "", *self.certificate_.lines()]
        return "\n".join(lines)

    def _bounds(self) -> Bounds:
        given = self.bounds
        if isinstance(given, Bounds):
            return given
        return (
            read_bounds(Path(given)) if isinstance(given, str | Path) else bounds_from_dict(given)
        )


def _owners(agents: ArrayLike, rows: int) -> tuple[Int[HostArray, "_m"], ...]:
    labels = np.asarray(agents)
    if labels.shape != (rows,) or pd.isna(labels).any():
        raise InputError(
            f"agents has shape {labels.shape}; give one label, not empty, for each of {rows} rows"
        )
    return tuple(partition_by(labels.astype(str)))


def counted_frame(frame: pd.DataFrame, bounds: Bounds, agents: ArrayLike | None) -> Counted:
    """Return the rows of a data frame, counted; cells are read when they are loaded."""
    check_columns(frame.columns, bounds, with_target=True)
    owners = None if agents is None else _owners(agents, len(frame))
    division = Division(agents=1 if owners is None else None)

    def load(
        division: Division, draw: Draw, precision: Precision, report: Report | None
    ) -> DividedData:
        del precision, report
        encoded = encode(frame, bounds, with_target=True)
        assert encoded.targets is not None
        table = Table(
            name=bounds.target_name,
            title="a data frame",
            source="a data frame",
            bounds=bounds,
            features=encoded.features,
            targets=encoded.targets,
            train_rows=len(frame),
            owners=owners,
            clipped=encoded.clipped,
            conditions=table_conditions(bounds, persons=False),
            absent=encoded.absent,
        )
        return divide_records(table, division, draw)

    return Counted(
        title="a data frame",
        columns=tuple(map(str, frame.columns)),
        division=division,
        facts=DataFacts.of(bounds),
        inputs=inputs_of(bounds),
        all_counts=division.counts(owners, None, len(frame)),
        owned=owners is not None,
        load=load,
    )
