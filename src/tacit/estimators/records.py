"""The records that an estimator is given: their owners and encoded targets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int, Num

from tacit import checks
from tacit.errors import InputError
from tacit.problems import Draw, Persons, numbered, partition_by, random_partition
from tacit.proposal import DataFacts, Named
from tacit.tables import Form
from tacit.tables.identity import canonical
from tacit.typing import HostArray, Task


def persons_of(labels: Any, rows: int, rows_per_person: Any, draw: Draw) -> Persons | None:
    """Return whose row each row is; None where rows are protected one by one.

    Parameters
    ----------
    labels
        One per row, or None.
    rows_per_person
        K, or None.
    draw
        What chooses the K rows of a person.

    Raises
    ------
    InputError
        If only one of the two is given, K is not a whole number of at least 1, or there is not one
        label for every row; no label is repeated.

    Notes
    -----
    **Guarantee.** Labels that read as one number, 7 and 7.0 and 007, are one person, as in a table:
    a program that reads a column in parts may hold a person's label as a number in one part and as
    text in another, where somebody else's label is text.
    """
    if (labels is None) != (rows_per_person is None):
        missing = "persons= in fit" if labels is None else "rows_per_person="
        raise InputError(
            "to protect persons takes one label per row and a public number of rows that a person "
            f"has at most; give {missing} too, or neither"
        )
    if labels is None:
        return None
    most = checks.at_least("rows_per_person", rows_per_person, 1)
    values = np.asarray(labels, dtype=object)
    if values.shape != (rows,):
        raise InputError(
            f"persons has shape {values.shape}; give one label for each of the {rows} rows"
        )
    text = [str(value).strip() for value in values]
    if pd.isna(values).any() or not all(text):
        raise InputError("a row has no label in persons; give every row one")
    same = {label: canonical(label, Form()) for label in set(text)}
    return Persons(numbered(map(same.__getitem__, text)), most, draw)


def owned_rows(
    agents: Any, rows: int, persons: Persons | None = None, *, draw: Draw
) -> list[Int[HostArray, "_m"]]:
    """Return the row indices of each agent.

    Parameters
    ----------
    agents
        None for one agent who holds all rows; a whole number A to deal the rows out at random, by
        the draw; or one label per row that names its owner, compared as text.
    persons
        Given, rows are divided by person.

    Raises
    ------
    InputError
        If A is not from 1 to the number of rows, or the labels do not name an owner for every row.

    Examples
    --------
    >>> [part.tolist() for part in owned_rows(["b", "a", "b"], 3, draw=Draw.secret())]
    [[1], [0, 2]]
    """
    if agents is None:
        return [np.arange(rows)]
    if np.ndim(agents) == 0:
        if persons is not None:
            return persons.deal(checks.at_least("agents", agents, 1), draw)
        return random_partition(rows, checks.at_least("agents", agents, 1), draw=draw)
    labels = np.asarray(agents)
    if labels.shape != (rows,):
        raise InputError(
            f"agents has shape {labels.shape}; give one label for each of the {rows} rows, or a "
            "number of agents"
        )
    if pd.isna(labels).any():
        raise InputError("a row has no owner in agents; give every row a label")
    return partition_by(labels.astype(str))


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
