"""The division of rows among agents, as `fit` is given it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from tacit import checks
from tacit.errors import InputError
from tacit.problems import partition_by, random_partition
from tacit.typing import HostArray


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
