"""The records that an estimator is given: their owners, feature ranges and encoded targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Num

from tacit import checks
from tacit.errors import InputError
from tacit.problems import partition_by, random_partition
from tacit.proposal import DataFacts, Named
from tacit.tables import Numeric, range_of
from tacit.typing import HostArray, Task


def owned_rows(agents: Any, rows: int, *, seed: int) -> list[Int[HostArray, "_m"]]:
    """Return the row indices of each agent.

    Parameters
    ----------
    agents
        None for one agent who holds all rows; a whole number A to divide the rows at random by
        the public `seed`; or one label per row that names its owner, compared as text.

    Raises
    ------
    InputError
        If A is not from 1 to the number of rows, or the labels do not name an owner for every row.

    Examples
    --------
    >>> [part.tolist() for part in owned_rows(["b", "a", "b"], 3, seed=0)]
    [[1], [0, 2]]
    """
    if agents is None:
        return [np.arange(rows)]
    if np.ndim(agents) == 0:
        return random_partition(rows, checks.at_least("agents", agents, 1), seed=seed)
    labels = np.asarray(agents)
    if labels.shape != (rows,):
        raise InputError(
            f"agents has shape {labels.shape}; give one label for each of the {rows} rows, or a "
            "number of agents"
        )
    if pd.isna(labels).any():
        raise InputError("a row has no owner in agents; give every row a label")
    return partition_by(labels.astype(str))


@dataclass(frozen=True, eq=False)
class Ranges:
    """The ranges [a_j, b_j] of k columns.

    Attributes
    ----------
    minimum, maximum
        (k,) each, with a_j < b_j; in the units of the columns.
    public
        Whether they were given; False if they were read off the records.
    """

    minimum: Float[HostArray, "k"]
    maximum: Float[HostArray, "k"]
    public: bool

    @property
    def width(self) -> Float[HostArray, "k"]:
        """b_j - a_j."""
        return self.maximum - self.minimum

    @property
    def middle(self) -> Float[HostArray, "k"]:
        """(a_j + b_j) / 2, what is encoded as 0."""
        return self.minimum + self.width / 2

    @property
    def record_norm(self) -> float:
        """sqrt(k + 1), the largest norm of a row of `encoded`."""
        return math.sqrt(len(self.minimum) + 1)

    def clipped(self, rows: Float[HostArray, "N k"]) -> Float[HostArray, "N k"]:
        """Return min(max(x_j, a_j), b_j)."""
        inside: HostArray = np.clip(rows, self.minimum, self.maximum)
        return inside

    def encoded(self, rows: Float[HostArray, "N k"]) -> Float[HostArray, "N k+1"]:
        """Return 2 u_j - 1 in [-1, 1] for each column, and a constant 1.

        Here u_j = (min(max(x_j, a_j), b_j) - a_j) / (b_j - a_j).

        **Guarantee.** If the ranges are public, each row is a function of one record and public
        facts. Each u_j lies in [0, 1], in floating point as well, since subtraction and division
        round monotonically, and 2 u_j is exact, so each cell lies in [-1, 1]; a row of k columns
        has norm at most sqrt(k + 1).
        """
        unit = (self.clipped(rows) - self.minimum) / self.width
        return np.concatenate([2 * unit - 1, np.ones((len(rows), 1))], axis=1)


def ranges_for(bounds: Any, rows: Float[HostArray, "N k"], what: str = "column {} of X") -> Ranges:
    """Return the ranges that `bounds` states for the columns of `rows`, or those seen in `rows`.

    Parameters
    ----------
    bounds
        A pair (a, b): each one number for all columns, or one per column. None reads the least and
        the largest value of every column off the rows, which makes a certificate conditional.
    what
        What a column is called in an error message, with {} for its number.

    Raises
    ------
    InputError
        If `bounds` is no such pair, or a range is empty, infinite or too narrow (`Numeric`).

    Examples
    --------
    >>> ranges_for((0, [1, 5]), np.zeros((3, 2))).width
    array([1., 5.])
    """
    if bounds is None:
        facts = [range_of(column, what.format(k)) for k, column in enumerate(rows.T)]
    else:
        facts = _stated(bounds, rows.shape[1])
    ends = np.array([(fact.minimum, fact.maximum) for fact in facts]).reshape(-1, 2)
    return Ranges(ends[:, 0], ends[:, 1], bounds is not None)


def _stated(bounds: Any, columns: int) -> list[Numeric]:
    try:
        low, high = (np.broadcast_to(np.asarray(end, np.float64), columns) for end in bounds)
    except (TypeError, ValueError) as error:
        raise InputError(
            "bounds must be a pair (min, max), each of them one number for all columns or "
            f"{columns} numbers, one per column"
        ) from error
    facts = []
    for number, ends in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        try:
            facts.append(Numeric(*ends))
        except InputError as error:
            raise InputError(f"bounds of column {number}: {error}") from error
    return facts


class Targets(NamedTuple):
    """Encoded targets, and the map from scores of the encoded problem to the user's units.

    Attributes
    ----------
    values
        (N,): -1 and 1, class numbers, or numbers in [-1, 1].
    loss
        The loss that suits them.
    scale, offset
        A score z of the encoded problem is `offset + scale * z` in the user's units.
    labels
        The classes in the order of the scores, sorted; None for a regression.
    public
        Whether labels or range were given; False if they were read off the records.
    """

    values: Num[HostArray, "N"]
    loss: Named
    scale: float
    offset: float
    labels: HostArray | None
    public: bool

    def facts(self, *, columns: int, record_norm: float) -> DataFacts:
        """Return the public facts about records of so many encoded columns."""
        classes = None if self.labels is None else len(self.labels)
        task: Task = "regression"
        if classes is not None:
            task = "binary" if classes == 2 else "multiclass"
        return DataFacts(
            name="records",
            task=task,
            classes=classes,
            columns=columns,
            record_norm=record_norm,
            table=None,
        )
