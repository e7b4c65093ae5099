"""The demands of all zones, asked for once with noise: what optimal power flow works on."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacit import checks
from tacit.engine import Plan, plan
from tacit.errors import InputError
from tacit.oracles import Targets
from tacit.privacy import Adjacency, Messages, TargetChange, Terms
from tacit.problems import Origin, Shard, Shards
from tacit.spec import Spec
from tacit.typing import HostArray
from tacit_power.grids.network import Network, bounded
from tacit_power.grids.zones import Zones
from tacit_power.methods import (
    TargetsOnce,
    shared_coordinates,
)

Hidden = Literal["demand", "bus", "zone"]
HIDDEN: tuple[Hidden, ...] = ("demand", "bus", "zone")
# per unit: far above any sensible value, far below what the solver can handle
MOST_CHANGE, MOST_NOISE, MOST_DEMAND = 1e6, 1e6, 1e6
MOST_AT_A_BUS_MW = 1e5
_TARGETS: dict[Hidden, str] = {
    "demand": "demand: active or reactive power of one bus, per unit",
    "bus": "demand per unit: active and reactive power of one bus, which are the rows of a person",
    "zone": "demand: active and reactive power of every bus of one zone, per unit",
}


def hidden_adjacency(hide: Hidden, beta: float) -> Adjacency:
    """Return the neighbouring relation: which demands may move at once, each by beta (per unit).

    One scalar demand; the pair (P, Q) of a bus; or all demands of a zone.
    """
    relation = TargetChange(beta, _TARGETS[hide])
    if hide == "bus":
        return Adjacency(relation, "person", rows_per_person=2)
    return Adjacency(relation, "record" if hide == "demand" else "agent")


def records(network: Network, zones: Zones) -> list[HostArray]:
    """Return the places of every zone's demands in d: active of its buses, then reactive."""
    buses = [np.flatnonzero(zones.of_bus == zone) for zone in range(zones.count)]
    return [np.concatenate([bus, bus + network.buses]) for bus in buses]


def demand_shards(
    network: Network,
    zones: Zones,
    demand: Float[HostArray, "T N 2"],
    *,
    rows_per_person: int | None = None,
) -> Shards:
    """Return the zones' demands (per unit), `bounded`, as targets: a block for every step.

    There are no features. A moment is a day of one step. Where a bus is what is hidden, its demands
    are the rows of a person (`hidden_adjacency`).
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
    return Shards(shard, counts, 1.0, Origin(rows_per_person))


def plan_demand(
    network: Network, zones: Zones, *, hide: Hidden, beta: float, epsilon: float, delta: float
) -> Plan:
    """Return the plan of asking every zone for its demands, once.

    Raises
    ------
    InputError
        If a number is out of range, or the noise would be too large to compute with.

    Notes
    -----
    **Guarantee.** The answer of a zone is its vector of demands with Gaussian noise. Demands that
    move together are c in number: 1 (`demand`), 2 (`bus`), all of the zone (`zone`). Each moves by
    at most beta, so the answer by at most sqrt(c) beta in Euclidean norm
    (`tacit.oracles.Targets`), and no other zone's answer moves. The network is public and is all
    that is read beside the answers: dispatch, prices, flows and files are post-processing. Nothing
    is asked twice. A second look would cost as much noise in each as the mean of both saves
    (noise variances of equal looks under one budget grow with their number), so one look is the
    mean of any number.
    """
    check_beta(beta)
    places = records(network, zones)
    counts = tuple(map(len, places))
    planned = plan(
        public_spec(counts),
        TargetsOnce(shared_coordinates(places, 2 * network.buses)),
        (Targets(max(counts)),),
        Terms(epsilon, delta, hidden_adjacency(hide, beta), Messages()),
        rounds=1,
        precision="float64",
    )
    check_noise(planned, network)
    return planned


def check_beta(beta: float) -> None:
    """Raise `InputError` unless beta (per unit) is a change that a demand may have."""
    if not checks.positive("beta", beta) <= MOST_CHANGE:
        raise InputError(f"beta is {beta:g} per unit, beyond any demand; give at most 1e6")


def public_spec(counts: tuple[int, ...]) -> Spec:
    """Return the public facts about zones with so many demands each: there are no features."""
    return Spec(
        counts=counts,
        shape=(1,),
        record_norm=1.0,
        gradient_bound=float("inf"),
        smoothness=1.0,
    )


def check_noise(planned: Plan, network: Network) -> None:
    """Raise `InputError` if the noise of a plan is too large, or too small, to compute with."""
    scale = float(np.max(planned.ledger.scale))
    if not scale <= MOST_NOISE:
        raise InputError(
            f"the noise would have scale {scale:g} per unit, with which nothing can be computed; "
            "raise epsilon or lower beta"
        )
    check_lattice(planned, most_demand(network))


def most_demand(network: Network) -> float:
    """Return a public bound on the demand of a bus, active or reactive, per unit.

    It is the total that can be generated. Where that is not limited, 100 GW: more than any bus
    takes. (A larger demand would be clipped, which breaks the promise and not the privacy.)
    """
    ranges = np.abs(network.generator_range)
    active, reactive = ranges[:, :2].max(axis=1).sum(), ranges[:, 2:].max(axis=1).sum()
    return float(min(max(active, reactive), MOST_AT_A_BUS_MW / network.base_mva, MOST_DEMAND))


def check_lattice(planned: Plan, largest: float) -> None:
    """Raise `InputError` if answers up to `largest` (per unit) do not fit on the lattice.

    An answer has at most 2^51 steps; a larger one is clipped, and would no longer be the demand
    with noise of the stated size.
    """
    steps = np.asarray(planned.ledger.step)
    least = float(np.min(steps[steps > 0], initial=np.inf))
    if not largest <= 2.0**51 * least:
        raise InputError(
            f"a demand of {largest:.3g} per unit, which the network could serve, does not fit "
            f"beside so little noise (at most {2.0**51 * least:.3g} does); raise beta, or lower "
            "epsilon"
        )


def noise_of(planned: Plan, zones: Zones) -> Float[HostArray, " N"]:
    """Return the standard deviation of the noise on each demand of every bus, per unit; public."""
    by_zone = np.asarray(planned.ledger.scale).reshape(zones.count, -1).max(axis=1)
    deviation: HostArray = by_zone[zones.of_bus]
    return deviation
