"""A power network per unit: public elements and private demand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Complex, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from taciturn import checks
from taciturn.documents import Extended, Part
from taciturn.engine import Plan
from taciturn.errors import DataError, InputError
from taciturn.typing import HostArray
from taciturn_power.cases import Case

_ISOLATED = 4
# per unit; the largest published networks are below 50, and their admittances below 10^4
_LARGEST, _LARGEST_ADMITTANCE = 1e6, 1e8
# the base, in MVA, at which optimal power flow is solved
SOLVER_MVA = 100.0
# fields with an entry for each bus, and for each generator; all others are per line
_OF_BUSES, _OF_GENERATORS = ("numbers", "shunt", "voltage"), ("generator_bus", "generator_range")
_RIGHT_ANGLE = 90.0  # degrees; a larger limit on an angle difference means no limit


@dataclass(frozen=True, eq=False)
class Network:
    """The elements in service; powers per unit of `base_mva`, angles in radians.

    - `numbers`: The bus numbers of the file; all other fields count buses from 0.
    - `demand`: `(N, 2)`: active and reactive demand, the only private data.
    - `shunt`: `(N, 2)`: conductance g^s and susceptance b^s.
    - `voltage`: `(N, 2)`: least and largest magnitude.
    - `generator_bus`, `generator_range`: `(G,)` and `(G, 4)`: least and largest active, least and
      largest reactive power.
    - `ends`: `(L, 2)`: from bus and to bus of every line.
    - `impedance`, `charging`, `tap`, `shift`: `(L,)`: r + ix, total charging susceptance, tap
      ratio, phase shift.
    - `limit`: `(L,)`: thermal limit of apparent power; infinite if there is none.
    - `angle`: `(L, 2)`: least and largest angle difference; infinite if there is none.
    """

    name: str
    base_mva: float
    numbers: Int[HostArray, " N"]
    demand: Float[HostArray, "N 2"]
    shunt: Float[HostArray, "N 2"]
    voltage: Float[HostArray, "N 2"]
    generator_bus: Int[HostArray, " G"]
    generator_range: Float[HostArray, "G 4"]
    ends: Int[HostArray, "L 2"]
    impedance: HostArray
    charging: Float[HostArray, " L"]
    tap: Float[HostArray, " L"]
    shift: Float[HostArray, " L"]
    limit: Float[HostArray, " L"]
    angle: Float[HostArray, "L 2"]

    @property
    def resistance(self) -> Float[HostArray, " L"]:
        """The real part of the impedance."""
        return self.impedance.real

    @property
    def reactance(self) -> Float[HostArray, " L"]:
        """The imaginary part of the impedance."""
        return self.impedance.imag

    @property
    def buses(self) -> int:
        """Number of buses, N."""
        return len(self.numbers)

    @property
    def lines(self) -> int:
        """Number of lines, L, parallel ones included."""
        return len(self.ends)


def network(case: Case) -> Network:
    """Return the network of a case, without isolated buses and elements out of service.

    Raises `DataError` if a bus number repeats or is unknown, or as `check_network`.
    """
    bus = case.bus[case.bus[:, 1] != _ISOLATED]
    numbers = bus[:, 0].astype(int)
    values, counts = np.unique(numbers, return_counts=True)
    if len(numbers) < 2 or counts.max() > 1:
        what = (
            "fewer than two buses" if len(numbers) < 2 else f"bus {values[counts.argmax()]} twice"
        )
        raise DataError(f"{case.name}: mpc.bus has {what}; give every bus one row")
    place = {number: k for k, number in enumerate(numbers.tolist())}
    gen = case.gen[(case.gen[:, 7] > 0) & _in_service(case, case.gen[:, :1], place)]
    branch = case.branch[(case.branch[:, 10] > 0) & _in_service(case, case.branch[:, :2], place)]
    ends = np.array([[place[int(k)] for k in row] for row in branch[:, :2]], int).reshape(-1, 2)
    net = Network(
        name=case.name,
        base_mva=case.base_mva,
        numbers=numbers,
        demand=bounded(bus[:, 2:4] / case.base_mva),
        shunt=bus[:, 4:6] / case.base_mva,
        voltage=bus[:, [12, 11]],
        generator_bus=np.array([place[int(k)] for k in gen[:, 0]], int),
        generator_range=gen[:, [9, 8, 4, 3]] / case.base_mva,
        ends=ends,
        impedance=branch[:, 2] + 1j * branch[:, 3],
        charging=branch[:, 4],
        tap=np.where(branch[:, 8] == 0, 1.0, branch[:, 8]),
        shift=np.deg2rad(branch[:, 9]),
        limit=np.where(branch[:, 5] == 0, np.inf, branch[:, 5] / case.base_mva),
        angle=_angles(branch),
    )
    check_network(net)
    return net


F = TypeVar("F", bound="Facts")


class Facts(Part):
    """The attributes of an object of arrays, as tuples."""

    @classmethod
    def of(cls: type[F], one: object) -> F:
        """Return the fields of an object. **Guarantee.** No other attribute is read."""
        return cls(**{name: as_tuples(getattr(one, name)) for name in cls.model_fields})


class NetworkFacts(Facts):
    """A `taciturn_power.Network` without its demand."""

    name: str
    base_mva: float
    numbers: tuple[int, ...]
    shunt: tuple[tuple[float, float], ...]
    voltage: tuple[tuple[float, float], ...]
    generator_bus: tuple[int, ...]
    generator_range: tuple[tuple[Extended, Extended, Extended, Extended], ...]
    ends: tuple[tuple[int, int], ...]
    resistance: tuple[float, ...]
    reactance: tuple[float, ...]
    charging: tuple[float, ...]
    tap: tuple[float, ...]
    shift: tuple[float, ...]
    limit: tuple[Extended, ...]
    angle: tuple[tuple[Extended, Extended], ...]

    @property
    def network(self) -> Network:
        """The network with zero demand, checked."""
        buses, lines, generators = len(self.numbers), len(self.ends), len(self.generator_bus)
        needed = dict.fromkeys(_OF_BUSES, buses) | dict.fromkeys(_OF_GENERATORS, generators)
        names = [name for name in type(self).model_fields if name not in {"name", "base_mva"}]
        values = {name: np.array(getattr(self, name)) for name in names}
        for name, column in values.items():
            if len(column) != needed.get(name, lines):
                raise InputError(
                    f"the network has {len(column)} entries of {name}, and needs "
                    f"{needed.get(name, lines)}"
                )
        places = [*values["generator_bus"], *values["ends"].ravel()]
        if buses < 2 or not all(0 <= place < buses for place in places):
            raise InputError(f"a generator or line names a bus that is not among the {buses}")
        values["generator_range"] = values["generator_range"].reshape(-1, 4)  # there may be none
        impedance = values.pop("resistance") + 1j * values.pop("reactance")
        demand = np.zeros((buses, 2))
        network = Network(self.name, self.base_mva, demand=demand, impedance=impedance, **values)
        check_network(network)
        return network


def as_tuples(values: Any) -> Any:
    """Return an array, or nested lists, as nested tuples of plain numbers."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return tuple(map(as_tuples, values)) if isinstance(values, list) else values


def in_solver_units(net: Network) -> Network:
    """Return the network per unit of `SOLVER_MVA`.

    A solver's accuracy is absolute for small numbers, and case files have any base.
    """
    factor = net.base_mva / SOLVER_MVA
    if factor == 1:
        return net
    powers = ("demand", "shunt", "generator_range", "limit", "charging")
    scaled = {name: factor * getattr(net, name) for name in powers}
    return replace(net, base_mva=SOLVER_MVA, impedance=net.impedance / factor, **scaled)


def bounded(demand: HostArray) -> HostArray:
    """Return demands clipped to 10^6 per unit, with NaN replaced by 0.

    **Guarantee.** Differences of demands do not grow, so neighbours stay neighbours; and no demand
    need be refused, which would reveal it.
    """
    inside: HostArray = np.clip(np.nan_to_num(demand, nan=0.0), -_LARGEST, _LARGEST)
    return inside


def check_beta(beta: float) -> None:
    """Raise `InputError` unless beta (per unit) is a change that a demand may have."""
    if not checks.positive("beta", beta) <= _LARGEST:
        raise InputError(f"beta is {beta:g} per unit, beyond any demand; give at most 1e6")


def check_scale(planned: Plan) -> None:
    """Raise `InputError` if the noise of a plan is too large to compute with."""
    scale = float(np.max(planned.ledger.scale))
    if not scale <= _LARGEST:
        raise InputError(
            f"the noise would have scale {scale:g} per unit, too large to compute with; raise "
            "epsilon or lower beta"
        )


def generators_in_service(case: Case) -> Bool[HostArray, " G"]:
    """Return which rows of `gen` are in service, at a bus in service."""
    buses = case.bus[case.bus[:, 1] != _ISOLATED, 0]
    at: Bool[HostArray, " G"] = (case.gen[:, 7] > 0) & np.isin(case.gen[:, 0], buses)
    return at


def lines_in_service(case: Case) -> Bool[HostArray, " L"]:
    """Return which rows of `branch` are in service, between buses in service."""
    buses = case.bus[case.bus[:, 1] != _ISOLATED, 0]
    between: Bool[HostArray, " L"] = np.all(np.isin(case.branch[:, :2], buses), axis=1)
    return between & (case.branch[:, 10] > 0)


def _in_service(case: Case, buses: HostArray, place: dict[int, int]) -> HostArray:
    """Return which rows name buses in service only; raise if a bus is unknown."""
    unknown = ~np.isin(buses, case.bus[:, 0])
    if np.any(unknown):
        raise DataError(
            f"{case.name}: bus {buses[unknown][0]:g} is named by a generator or a line but not in "
            "mpc.bus; add it there or correct the number"
        )
    inside: HostArray = np.all(np.isin(buses, list(place)), axis=1)
    return inside


def _angles(branch: HostArray) -> HostArray:
    """Return the limits of the angle difference; 0 to 0, and right angles, mean none."""
    if branch.shape[1] < 13:
        return np.tile([-np.inf, np.inf], (len(branch), 1))
    least, most = branch[:, 11], branch[:, 12]
    none = (least == 0) & (most == 0)
    low = np.where(none | (least <= -_RIGHT_ANGLE), -np.inf, np.deg2rad(least))
    high = np.where(none | (most >= _RIGHT_ANGLE), np.inf, np.deg2rad(most))
    return np.stack([low, high], axis=1)


def check_network(net: Network) -> None:
    """Raise `DataError` unless the network is connected and its numbers are sensible.

    The demand is not checked: a refusal would reveal it.
    """
    where = net.name
    if not net.lines or np.any(net.impedance == 0) or np.any(net.ends[:, 0] == net.ends[:, 1]):
        raise DataError(
            f"{where}: a line needs two buses and r or x above 0; correct mpc.branch, "
            "or the tables of lines"
        )
    sizes = {
        "shunt": (net.shunt, _LARGEST),
        "voltage limit": (net.voltage, _LARGEST),
        "line charging": (net.charging, _LARGEST),
        "tap ratio": (net.tap, _LARGEST),
        "phase shift": (net.shift, _LARGEST),
        "impedance": (net.impedance, _LARGEST),
        "admittance (1/impedance)": (1 / net.impedance, _LARGEST_ADMITTANCE),
    }
    for name, (values, most) in sizes.items():
        if not np.all(np.abs(values) <= most):  # NaN included
            raise DataError(
                f"{where}: a value of {name} is infinite or above {most:g} per unit of "
                f"{net.base_mva:g} MVA; correct the case file"
            )
    ranges = (net.voltage, net.generator_range[:, :2], net.generator_range[:, 2:])
    if any(np.any(pair[:, 0] > pair[:, 1]) for pair in (*ranges, net.angle)):
        raise DataError(f"{where}: a lower limit lies above its upper limit; swap the two")
    if np.any(net.voltage[:, 0] < 0) or np.any(net.limit < 0) or np.any(net.tap <= 0):
        raise DataError(f"{where}: a voltage, a rating or a tap ratio is below 0; correct it")
    islands, label = connected_components(adjacency(net), directed=False)
    if islands > 1:
        alone = net.numbers[label == np.bincount(label).argmin()]
        raise DataError(
            f"{where}: the network falls into {islands} islands (bus {alone[0]} is in a small "
            "one); give each island its own file, or take its buses out of service (type 4 in "
            "mpc.bus)"
        )


def adjacency(net: Network) -> coo_array:
    """Return the sparse `(N, N)` matrix of the lines between buses."""
    one = np.ones(net.lines)
    return coo_array((one, (net.ends[:, 0], net.ends[:, 1])), shape=(net.buses,) * 2)


class Admittance(NamedTuple):
    """The four entries of every line's matrix Y_l: currents (I_from, I_to) = Y_l (V_from, V_to)."""

    ff: Complex[HostArray, " L"]
    ft: Complex[HostArray, " L"]
    tf: Complex[HostArray, " L"]
    tt: Complex[HostArray, " L"]


def admittance(network: Network) -> Admittance:
    """Return Y_l of every line, per unit: appendix D of Ryu and Kim 2023, the standard pi model.

    With y = 1/(r + ix), charging b, tap ratio tau and phase shift theta,

        Y_ff = (y + i b/2) / tau^2,          Y_ft = -y / (tau exp(-i theta)),
        Y_tf = -y / (tau exp(i theta)),      Y_tt = y + i b/2.
    """
    y = 1 / network.impedance
    diagonal = y + 0.5j * network.charging
    ratio = network.tap * np.exp(1j * network.shift)
    return Admittance(diagonal / network.tap**2, -y / np.conj(ratio), -y / ratio, diagonal)
