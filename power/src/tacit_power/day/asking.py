r"""The demands of all zones at every step of a day, each step asked for once with noise.

**What neighbouring means.** Two days are neighbours if one unit moves by at most beta *at every
step*: one demand of a bus, both of a bus, or all of a zone. So no single step is hidden by its own
noise alone, and all T answers count together.

**How the budget is shared.** One unit has c demands that move at once (1, 2, or all of the zone),
so the answer about a step moves by D = sqrt(c) beta, and Gaussian noise of scale s_t on it is worth
mu_t = D / s_t. Gaussian answers compose exactly, mu^2 = sum_t mu_t^2. With public weights w_t,

    s_t = D / mu sqrt(sum_u w_u / w_t)      so that      mu_t^2 = mu^2 w_t / sum_u w_u:

a step has a share of mu^2 in proportion to its weight. Equal weights give s_t = D sqrt(T) / mu:
every step of a day has sqrt(T) times the noise of a single moment under the same budget. If the
variances of the steps count with importances a_t, sum_t a_t s_t^2 is least with weights
proportional to sqrt(a_t).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from tacit import checks
from tacit.engine import Plan, plan
from tacit.errors import InputError
from tacit.oracles import TargetsAt
from tacit.privacy import Adjacency, Messages, TargetChange, Terms
from tacit.typing import HostArray
from tacit_power.grids.network import Network
from tacit_power.grids.zones import Zones
from tacit_power.methods import (
    TargetsByStep,
    shared_coordinates,
)
from tacit_power.moment.asking import Hidden, check_beta, check_noise, public_spec, records

# a step for every minute of a day
LEAST_STEPS, MOST_STEPS = 2, 1440
_TARGETS: dict[Hidden, str] = {
    "demand": "demand per unit: active or reactive power of one bus at each of {} steps, which "
    "are the rows of a person",
    "bus": "demand per unit: active and reactive power of one bus at each of {} steps, which are "
    "the rows of a person",
    "zone": "demand per unit: active and reactive power of every bus of one zone at each of {} "
    "steps",
}


def day_adjacency(hide: Hidden, beta: float, steps: int) -> Adjacency:
    """Return the neighbouring relation: which demands may move at every step, each by beta."""
    relation = TargetChange(beta, _TARGETS[hide].format(steps))
    if hide == "zone":
        return Adjacency(relation, "agent")
    places = steps if hide == "demand" else 2 * steps
    return Adjacency(relation, "person", rows_per_person=places)


def check_steps(steps: int) -> None:
    """Raise `InputError` unless so many steps make a day."""
    if not LEAST_STEPS <= steps <= MOST_STEPS:
        raise InputError(
            f"the day has {steps} steps; give {LEAST_STEPS} to {MOST_STEPS} (a moment alone needs "
            "no series)"
        )


def relative_noise(weights: Float[HostArray, " T"]) -> Float[HostArray, " T"]:
    """Return the noise of every step over that of the heaviest, sqrt(max w / w_t).

    Raises
    ------
    InputError
        If a weight is not a number above 0, or one is too small beside another.

    Examples
    --------
    >>> relative_noise(np.array([4.0, 1.0, 4.0])).tolist()
    [1.0, 2.0, 1.0]
    """
    for weight in weights.tolist():
        checks.positive("a weight", weight)
    with np.errstate(over="ignore"):
        relative: HostArray = np.sqrt(np.max(weights) / weights)
    if not np.all(np.isfinite(relative)):
        raise InputError(
            "weights lie so far apart that the noise of a step would be infinite; bring them "
            "closer together"
        )
    return relative


def plan_day(  # noqa: PLR0913 - what is asked, how it is shared, and the budget
    network: Network,
    zones: Zones,
    *,
    weights: Float[HostArray, " T"],
    hide: Hidden,
    beta: float,
    epsilon: float,
    delta: float,
) -> Plan:
    """Return the plan of asking every zone for its demands at every step, once each.

    Parameters
    ----------
    weights
        Public, above 0: the share of mu^2 that every step has, up to a factor.

    Raises
    ------
    InputError
        If a number is out of range, or the noise would be too large to compute with.

    Notes
    -----
    **Guarantee.** The answer of a zone about a step is its vector of demands at that step with
    Gaussian noise. Neighbours differ in c demands at every step, each by at most beta: in every
    answer by at most sqrt(c) beta in Euclidean norm (`tacit.oracles.TargetsAt`), and in no other
    zone's. Every step is a question in the ledger, and all of them compose (module docstring). The
    number of steps, their times and the weights are public and read off nothing private.
    """
    check_beta(beta)
    check_steps(len(weights))
    places = records(network, zones)
    steps, width = len(weights), max(map(len, places))
    different, asked = np.unique(relative_noise(weights), return_inverse=True)
    planned = plan(
        public_spec(tuple(steps * len(place) for place in places)),
        TargetsByStep(shared_coordinates(places, 2 * network.buses), tuple(asked.ravel().tolist())),
        tuple(TargetsAt(width, steps, multiple) for multiple in different.tolist()),
        Terms(epsilon, delta, day_adjacency(hide, beta, steps), Messages()),
        rounds=steps,
        precision="float64",
    )
    check_noise(planned, network)
    return planned


def noise_by_step(planned: Plan, zones: Zones) -> Float[HostArray, "T N"]:
    """Return the standard deviation of the noise on a demand, by step and bus, per unit; public."""
    deviation: HostArray = np.asarray(planned.ledger.scale)[:, :, 0].T[:, zones.of_bus]
    return deviation


def shares(planned: Plan) -> Float[HostArray, " T"]:
    """Return the share of mu^2 that every step has, by the ledger; equal without noise."""
    squares = np.max(np.square(planned.ledger.ratios()), axis=(0, 2))
    if not np.all(np.isfinite(squares)):
        return np.full(len(squares), 1 / len(squares))
    share: HostArray = squares / np.sum(squares)
    return share
