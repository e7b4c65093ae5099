r"""The dispatches of a day, step after step: post-processing of answers, and what they promise.

**What is promised.** Let y_t be the answers of step t, s_t the demands that the dispatch is made
for (the answers, or the answers smoothed), d_t the true ones and n_t = y_t - d_t the noise. With
1 + L limits to keep in each of T steps, the events

    |1'n_t| <= z |sigma_t|   and   |(X n_t)_l| <= z s_tl   for every limited line l, at every step

are slabs of one Gaussian vector, so all hold at once with probability at least
(2 Phi(z) - 1)^(T (1 + L)) (Sidak 1967; see `taciturn_power.models.dc`), and z is set so that this
is 1 - eta. On them d_t is off from s_t by s_t - d_t = (s_t - y_t) + n_t, the first part known:

    |1'(s_t - d_t)| <= |1'(s_t - y_t)| + z |sigma_t|,   and with X likewise for every line.

The limits are tightened by the right-hand sides. So for every true day, fixed before the noise is
drawn, the probability over the noise that *any* step has a dispatch marked as promised that does
not serve its demand is at most eta. No bias of the smoothing enters: the noise is that of the
answers, and smoothing can only ask for more room than it, never for less. (Room by the smaller
errors of smoothed demands would promise what rests on their bias, which nobody knows.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from taciturn.typing import HostArray
from taciturn_power.models.dc import restored, solve_dc, widest
from taciturn_power.models.dc_network import DcModel, state_at
from taciturn_power.models.dispatch import Dispatch, attempted
from taciturn_power.models.recourse import Tightening, line_spread, multiplier_of, of_multiplier


class Step(NamedTuple):
    """What one step of the day is dispatched as.

    Attributes
    ----------
    dispatch
        None if there is none, or the solver stopped short of its accuracy.
    kept
        The multiplier of the noise that limits were tightened by; less than is needed where the
        answers leave no dispatch with more, and then nothing is promised.
    served
        `(N,)`: the active demand that it is made for, per unit.
    moved
        By how much that differs from the demand it was to be made for, per unit, in all.
    """

    dispatch: Dispatch | None
    kept: float
    served: Float[HostArray, " N"]
    moved: float


def needed_by_day(model: DcModel, eta: float, steps: int) -> float:
    """Return z with (2 Phi(z) - 1)^(T (1 + L)) = 1 - eta.

    It grows slowly with the steps: 3.64 for one and 4.68 for 96, of case118 and eta 0.05.
    """
    return multiplier_of(eta, steps * (1 + len(model.limited)) - 1)


def dispatched(
    model: DcModel,
    answers: Float[HostArray, "T N"],
    noise: Float[HostArray, "T N"],
    planned: Float[HostArray, "T N"],
    needed: float,
) -> list[Step]:
    """Return the steps' dispatches for the demands `planned`, with room where `needed` is above 0.

    Parameters
    ----------
    answers, noise
        The noised active demands and their standard deviations, per unit; the latter a size for
        every bus times a factor for every step.
    planned
        The answers, or the answers smoothed.
    """
    spread = line_spread(model, noise[0]) if needed > 0 else np.zeros(model.network.lines)
    steps = []
    for answered, deviation, demand in zip(answers, noise, planned, strict=True):
        tight = None
        if needed > 0:
            factor = deviation[0] / noise[0, 0]
            whole = float(np.linalg.norm(deviation))
            tight = _beside(model, demand - answered, needed * whole, needed * factor * spread)
            tight = tight._replace(multiplier=tight.reserve / whole)
        steps.append(_step(model, demand, deviation, tight, needed))
    return steps


def _beside(
    model: DcModel, known: Float[HostArray, " N"], reserve: float, margin: Float[HostArray, " L"]
) -> Tightening:
    """Return room for noise of these sizes beside a known difference of the demands."""
    total = float(np.sum(known))
    flow = state_at(model, total / len(known) - known, shifted=False).flow
    return Tightening(0.0, reserve + abs(total), margin + np.abs(flow))


def _step(
    model: DcModel,
    demand: HostArray,
    deviation: HostArray,
    tight: Tightening | None,
    needed: float,
) -> Step:
    """Return the dispatch with as much room as there is, or for the nearest demands with one."""
    if tight is not None:
        found = attempted(lambda: solve_dc(model, demand, tight))
        if found is not None:
            return Step(found, needed, demand, 0.0)
        most = attempted(lambda: widest(model, demand, deviation)) or 0.0
        most = min(most, 0.99 * needed)  # what is known beside the noise had no room
        if most > 0:
            less = of_multiplier(model, deviation, most)
            found = attempted(lambda: solve_dc(model, demand, less))
            if found is not None:
                return Step(found, most, demand, 0.0)
    found = attempted(lambda: solve_dc(model, demand))
    if found is not None:
        return Step(found, 0.0, demand, 0.0)
    near = attempted(lambda: restored(model, demand))
    if near is None:
        return Step(None, 0.0, demand, 0.0)
    return Step(near[0], 0.0, near[1], float(np.sum(np.abs(near[1] - demand))))
