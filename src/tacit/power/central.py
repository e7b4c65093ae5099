"""The central optimum to compare with: (D.2) solved in one place, from all demand at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tacit.errors import DataError, InputError
from tacit.power.parts import limits
from tacit.power.relaxation import Relaxation
from tacit.typing import HostArray


class Optimum(NamedTuple):
    """A minimiser of (D.2) and its objective, per unit squared."""

    x: Float[HostArray, " n"]
    objective: float


def central(relaxation: Relaxation, demand: Float[HostArray, " B"]) -> Optimum:
    """Return a minimiser of (D.2) at this demand; not private.

    Raises
    ------
    DataError
        If the public limits of the network contradict one another.
    """
    layout, a = relaxation.layout, relaxation.balance
    try:
        within = limits(relaxation, np.arange(layout.lines), np.arange(layout.size))
    except InputError as error:
        raise DataError(
            f"{relaxation.network.name}: no state meets all limits of the network; loosen a "
            "voltage, generation, line or angle limit"
        ) from error
    x = within.minimum(a.T @ a, -(a.T @ demand))
    return Optimum(x, relaxation.objective(x, demand))
