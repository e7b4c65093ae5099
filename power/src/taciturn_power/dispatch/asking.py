r"""The demands of all zones, released with noise: once, or once at every step of a day.

**Neighbours.** Two days are neighbours if one unit moves by at most beta *at every step*: one
demand of a bus, both of a bus, or all of a zone. So all T answers compose.

**Division of the budget.** One unit has c demands that move together (1, 2, or all of the zone), so
the answer of a step moves by D = sqrt(c) beta, and with Gaussian noise of scale s_t it has
mu_t = D / s_t. Gaussian answers compose exactly, mu^2 = sum_t mu_t^2. With public weights w_t,

    s_t = D / mu sqrt(sum_u w_u / w_t)      so that      mu_t^2 = mu^2 w_t / sum_u w_u:

a step has a share of mu^2 in proportion to its weight. With equal weights s_t = D sqrt(T) / mu,
sqrt(T) times the noise of a single time under the same budget. For a weighted sum of variances,
sum_t a_t s_t^2, the best weights are proportional to sqrt(a_t).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn import checks
from taciturn.engine import Plan, plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Messages, TargetChange, Terms
from taciturn.kernel.questions import Targets
from taciturn.kernel.records import Origin, Shard, Shards, Spec
from taciturn.typing import HostArray
from taciturn_power.cases import Case
from taciturn_power.grids.network import Network, bounded, check_beta, check_scale
from taciturn_power.grids.zones import Zones
from taciturn_power.methods import TargetsByStep, TargetsOnce, shared_coordinates

Hidden = Literal["demand", "bus", "zone"]
HIDDEN: tuple[Hidden, ...] = ("demand", "bus", "zone")
MOST_DEMAND = 1e6  # per unit
MOST_AT_A_BUS_MW = 1e5
# a step for every minute of a day
LEAST_STEPS, MOST_STEPS = 2, 1440
_ROWS = ", which are the rows of a person"
# descriptions of the target in certificates, of one time and of a day
_TARGETS: dict[Hidden, tuple[str, str]] = {
    "demand": (
        "demand: active or reactive power of one bus, per unit",
        f"demand per unit: active or reactive power of one bus at each of {{}} steps{_ROWS}",
    ),
    "bus": (
        f"demand per unit: active and reactive power of one bus{_ROWS}",
        f"demand per unit: active and reactive power of one bus at each of {{}} steps{_ROWS}",
    ),
    "zone": (
        "demand: active and reactive power of every bus of one zone, per unit",
        "demand: active and reactive power of every bus of one zone at each of {} steps",
    ),
}


def hidden_adjacency(hide: Hidden, beta: float, steps: int | None = None) -> Adjacency:
    """Return the neighbouring relation: the demands that change together, each by beta (per unit).

    In a day they change at each of its `steps`, which are the rows of a person.
    """
    relation = TargetChange(beta, _TARGETS[hide][steps is not None].format(steps))
    if hide == "demand" and steps is None:
        return Adjacency(relation, "record")
    if hide == "zone":
        return Adjacency(relation, "agent")
    rows = (1 if hide == "demand" else 2) * (steps or 1)
    return Adjacency(relation, "person", rows_per_person=rows)


def records(network: Network, zones: Zones) -> list[HostArray]:
    """Return the indices of every zone's demands in d: active of its buses, then reactive."""
    buses = [np.flatnonzero(zones.of_bus == zone) for zone in range(zones.count)]
    return [np.concatenate([bus, bus + network.buses]) for bus in buses]


def demand_shards(
    network: Network,
    zones: Zones,
    demand: Float[HostArray, "T N 2"],
    *,
    rows_per_person: int | None = None,
) -> Shards:
    """Return the demands of the zones (per unit), `bounded`, as targets: a block for every step.

    There are no features; a single time is one step; rows of a person as in `hidden_adjacency`.
    """
    places, steps = records(network, zones), len(demand)
    width, flat = max(map(len, places)), bounded(demand).transpose(0, 2, 1).reshape(steps, -1)
    targets, mask = np.zeros((2, len(places), steps, width))
    for zone, place in enumerate(places):
        targets[zone, :, : len(place)], mask[zone, :, : len(place)] = flat[:, place], 1
    rows = (len(places), steps * width)
    shard = Shard(
        jnp.zeros((*rows, 1)), jnp.asarray(targets.reshape(rows)), jnp.asarray(mask.reshape(rows))
    )
    counts = tuple(steps * len(place) for place in places)
    return Shards(shard, counts, 1.0, Origin(rows_per_person, steps=steps))


def plan_demand(  # noqa: PLR0913 - what is asked, how it is shared, and the budget
    network: Network,
    zones: Zones,
    *,
    hide: Hidden,
    beta: float,
    epsilon: float,
    delta: float,
    weights: Float[HostArray, " T"] | None = None,
) -> Plan:
    """Return the plan in which every zone answers its demands, once, or at every step of a day.

    `weights`: for a day, public and positive: the share of mu^2 of each step, up to a factor.

    **Guarantee.** The answer of a zone at a step is its vector of demands with Gaussian noise. c
    demands change together: 1 (`demand`), 2 (`bus`), all of the zone (`zone`). Each changes by at
    most beta, so an answer moves by at most sqrt(c) beta in Euclidean norm
    (`taciturn.kernel.questions.Targets`), and no other zone's answer moves. Every step is a
    question in the ledger, and all steps compose (module docstring). The number of steps, their
    times and the weights are public. Apart from the answers only the public network is read:
    dispatch, prices, flows and files are post-processing. No demand is asked twice: under one
    budget the mean of several answers is as noisy as a single one.
    """
    check_beta(beta)
    places = records(network, zones)
    shared, width = shared_coordinates(places, 2 * network.buses), max(map(len, places))
    algorithm: TargetsOnce | TargetsByStep = TargetsOnce(shared)
    questions: tuple[Targets, ...] = (Targets(width),)
    steps = 1 if weights is None else len(weights)
    if weights is not None:
        check_steps(steps)
        different, which = np.unique(relative_noise(weights), return_inverse=True)
        algorithm = TargetsByStep(shared, tuple(which.ravel().tolist()))
        questions = tuple(Targets(width, steps, multiple) for multiple in different.tolist())
    adjacency = hidden_adjacency(hide, beta, None if weights is None else steps)
    counts = tuple(steps * len(place) for place in places)
    # there are no features, hence no gradients
    spec = Spec(counts, (1,), record_norm=1.0, gradient_bound=float("inf"), smoothness=1.0)
    planned = plan(
        spec,
        algorithm,
        questions,
        Terms(epsilon, delta, adjacency, Messages()),
        rounds=steps,
        precision="float64",
    )
    check_scale(planned)
    check_lattice(planned, most_demand(network))
    return planned


def check_steps(steps: int) -> None:
    """Raise `InputError` unless a day may have this number of steps."""
    if not LEAST_STEPS <= steps <= MOST_STEPS:
        raise InputError(
            f"the day has {steps} steps; give {LEAST_STEPS} to {MOST_STEPS} (a single time needs "
            "no series)"
        )


def relative_noise(weights: Float[HostArray, " T"]) -> Float[HostArray, " T"]:
    """Return the noise of every step relative to that of the largest weight, sqrt(max w / w_t).

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
            "weights are so far apart that the noise of a step would be infinite; bring them "
            "closer together"
        )
    return relative


def most_demand(network: Network) -> float:
    """Return a public bound on the demand of a bus, active or reactive, per unit.

    The generating capacity, at most 100 GW. (A larger demand would be clipped, which affects the
    guarantee of service and not privacy.)
    """
    ranges = np.abs(network.generator_range)
    active, reactive = ranges[:, :2].max(axis=1).sum(), ranges[:, 2:].max(axis=1).sum()
    return float(min(max(active, reactive), MOST_AT_A_BUS_MW / network.base_mva, MOST_DEMAND))


def check_lattice(planned: Plan, largest: float) -> None:
    """Raise `InputError` if answers up to `largest` (per unit) exceed the 2^51 steps of a lattice.

    Such answers would be clipped, and their noise would not be as stated.
    """
    steps = np.asarray(planned.ledger.step)
    least = float(np.min(steps[steps > 0], initial=np.inf))
    if not largest <= 2.0**51 * least:
        raise InputError(
            f"a demand of {largest:.3g} per unit, which the network could serve, cannot be "
            f"represented with so little noise (at most {2.0**51 * least:.3g} can); raise beta, or "
            "lower epsilon"
        )


def noise_of(planned: Plan, zones: Zones) -> Float[HostArray, "T N"]:
    """Return the noise's standard deviation by step and bus, per unit; public."""
    deviation: HostArray = np.asarray(planned.ledger.scale)[:, :, 0].T[:, zones.of_bus]
    return deviation


def shares(planned: Plan) -> Float[HostArray, " T"]:
    """Return the share of mu^2 of every step by the ledger; equal shares without noise."""
    squares = np.max(np.square(planned.ledger.ratios()), axis=(0, 2))
    if not np.all(np.isfinite(squares)):
        return np.full(len(squares), 1 / len(squares))
    share: HostArray = squares / np.sum(squares)
    return share


_BETA = re.compile(r"\s*([-+.\deE]+|nan|[-+]?inf)\s*(MW|MVAr|%|pu|)\s*", re.IGNORECASE)
# descriptions of the hidden unit on a page
HIDES: Mapping[Hidden, str] = MappingProxyType(
    {
        "demand": "one demand, active or reactive, of one bus",
        "bus": "the active and the reactive demand of one bus",
        "zone": "all demands of one zone",
    }
)
# beta over a typical demand: below the first it hides little, above the second noise dominates
LITTLE, MUCH = 0.1, 2.0


def read_beta(
    text: str, *, base_mva: float, largest: str | None = None, option: str = "beta"
) -> float:
    """Return beta per unit: `10MW`, `5%` of `largest`, or `0.1` per unit.

    MW also stands for MVAr. `largest` is a public bound on every demand, `200MW` or per unit: a
    share of the demand itself would make the noise depend on it. Another `option`, such as
    `largest-demand`, may not be in per cent.

    Examples
    --------
    >>> [read_beta(text, base_mva=100, largest=None) for text in ("10MW", "0.1")]
    [0.1, 0.1]
    >>> read_beta("5 %", base_mva=100, largest="200 MW")
    0.1
    """
    match = _BETA.fullmatch(text)
    try:
        number = float(match.group(1)) if match else None
    except ValueError:
        number = None
    if match is None or number is None:
        raise InputError(f"{option} is {text!r}; write 10MW, 5% or, per unit, 0.1")
    checks.positive(option, number)
    unit = match.group(2).lower()
    if unit == "%" and option != "beta":
        raise InputError(f"{option} is {text}; give it in MW or per unit")
    if unit == "%" and largest is None:
        raise InputError(
            f"beta is {text}, and its base is missing; add --largest-demand 200MW, a public bound "
            "on the demand of any bus (the demand itself is private)"
        )
    if unit == "%" and largest is not None:
        number *= read_beta(largest, base_mva=base_mva, option="largest-demand") / 100
    return checks.positive(option, number / base_mva if unit in {"mw", "mvar"} else number)


def size_warnings(case: Case, beta: float, *, bundled: bool) -> tuple[str, ...]:
    """Return a warning if beta (per unit) is small or large relative to a typical demand.

    **Guarantee.** Demands are read only for `bundled`, published cases; otherwise the comparison is
    with the generating capacity per bus, which is public.
    """
    change = beta * case.base_mva
    if bundled:
        loads = np.abs(case.bus[:, 2])
        typical, name = float(np.median(loads[loads > 0])), "the median load"
    else:
        capacity = np.sum(np.clip(case.gen[case.gen[:, 7] > 0, 8], 0, None))
        typical, name = float(capacity / len(case.bus)), "the generating capacity per bus"
    if not 0 < typical < np.inf or LITTLE * typical <= change <= MUCH * typical:
        return ()
    if change < LITTLE * typical:
        why = "larger changes of a demand are not hidden"
    else:
        why = "the noise will be larger than any demand"
    return (f"beta is {change:.3g} MW against {name} of {typical:.3g} MW: {why}",)
