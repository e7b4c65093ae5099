"""The proposal of a private power flow: everything public about the run, the network included."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from tacit.engine import Plan
from tacit.errors import InputError
from tacit.power.agents import Grid, Settings, grid, plan_grid
from tacit.power.network import Network, check_network
from tacit.power.relaxation import relax
from tacit.power.zones import Zones, zones_of
from tacit.proposal import Document, Extended, Part

_PUBLIC = (
    "name", "base_mva", "numbers", "shunt", "voltage", "generator_bus", "generator_range", "ends",
    "charging", "tap", "shift", "limit", "angle",
)  # fmt: skip


class NetworkFacts(Part):
    """A network as content: what `tacit.power.Network` holds, without the demand.

    Powers are per unit of `base_mva`, angles in radians; an infinite limit is none.
    """

    name: str
    base_mva: float
    numbers: tuple[int, ...]
    shunt: tuple[tuple[float, float], ...]
    voltage: tuple[tuple[float, float], ...]
    generator_bus: tuple[int, ...]
    generator_range: tuple[tuple[float, float, float, float], ...]
    ends: tuple[tuple[int, int], ...]
    resistance: tuple[float, ...]
    reactance: tuple[float, ...]
    charging: tuple[float, ...]
    tap: tuple[float, ...]
    shift: tuple[float, ...]
    limit: tuple[Extended, ...]
    angle: tuple[tuple[Extended, Extended], ...]

    @classmethod
    def of(cls, network: Network) -> NetworkFacts:
        """Return what is public of a network.

        Notes
        -----
        **Guarantee.** The demand, which alone is private, is not read.
        """
        public = {name: _tuples(getattr(network, name)) for name in _PUBLIC}
        impedance = network.impedance
        return cls(**public, resistance=_tuples(impedance.real), reactance=_tuples(impedance.imag))

    @property
    def network(self) -> Network:
        """The network with no demand anywhere, checked."""
        buses, lines, generators = map(len, (self.numbers, self.ends, self.generator_bus))
        self._check_lengths(buses, lines, generators)
        values = {name: np.array(getattr(self, name)) for name in _PUBLIC[2:]}
        for name, width in (("shunt", 2), ("voltage", 2), ("generator_range", 4), ("angle", 2)):
            values[name] = values[name].reshape(-1, width)
        network = Network(
            name=self.name,
            base_mva=self.base_mva,
            demand=np.zeros((buses, 2)),
            impedance=np.array(self.resistance) + 1j * np.array(self.reactance),
            **values,
        )
        check_network(network)
        return network

    def _check_lengths(self, buses: int, lines: int, generators: int) -> None:
        wanted = {
            "shunt": buses, "voltage": buses, "generator_range": generators, "resistance": lines,
            "reactance": lines, "charging": lines, "tap": lines, "shift": lines, "limit": lines,
            "angle": lines,
        }  # fmt: skip
        for name, length in wanted.items():
            if len(getattr(self, name)) != length:
                raise InputError(f"the network has {len(getattr(self, name))} entries of {name}, "
                                 f"and needs {length}")  # fmt: skip
        places = (*self.generator_bus, *(place for pair in self.ends for place in pair))
        if buses < 2 or not all(0 <= place < buses for place in places):
            raise InputError(f"a generator or line names a bus that is not among the {buses}")


class GridProposal(Document):
    """Everything public about a private power flow.

    Attributes
    ----------
    zones
        The zone of every bus, counted from 0.
    question, rounds, local_updates, average, rho, proximal_weight
        As in `tacit.power.Settings`; `proximal_weight` is None for the default there.
    beta
        How far one demand may change unnoticed, per unit.
    """

    FORMAT: ClassVar[str] = "tacit.grid"
    VERSION: ClassVar[int] = 1

    network: NetworkFacts
    zones: tuple[int, ...]
    question: Literal["gradient", "residual", "demand"]
    rounds: int
    local_updates: int
    average: bool
    rho: float
    proximal_weight: float | None
    beta: float
    epsilon: Extended
    delta: float

    @model_validator(mode="after")
    def _consistent(self) -> GridProposal:
        network = self.network.network
        if len(self.zones) != network.buses:
            raise InputError(
                f"{len(self.zones)} zones for {network.buses} buses; give one for each"
            )
        if set(self.zones) != set(range(max(self.zones) + 1)):
            raise InputError("zones are counted from 0 without gaps; number them so")
        self.settings  # noqa: B018 - checked
        return self

    @classmethod
    def of(
        cls, prepared: Grid, settings: Settings, *, beta: float, epsilon: float, delta: float
    ) -> GridProposal:
        """Return the proposal of a run on a prepared grid."""
        return cls(
            network=NetworkFacts.of(prepared.relaxation.network),
            zones=_tuples(prepared.zones.of_bus),
            question=settings.question,
            rounds=settings.rounds,
            local_updates=settings.updates,
            average=settings.average,
            rho=settings.rho,
            proximal_weight=settings.pull,
            beta=beta,
            epsilon=epsilon,
            delta=delta,
        )

    @property
    def settings(self) -> Settings:
        """How the run is made."""
        return Settings(
            self.question,
            self.rounds,
            self.local_updates,
            self.average,
            self.rho,
            self.proximal_weight,
        )

    def partition(self, network: Network) -> Zones:
        """Return the zones of a network with these buses."""
        return zones_of(network, np.array(self.zones))

    def plan(self, prepared: Grid | None = None) -> Plan:
        """Return the plan of the run.

        Parameters
        ----------
        prepared
            The grid where it is at hand, with the zones' demands; None to make it of this
            proposal, without any demand. The plan is the same.

        Raises
        ------
        InputError
            If `prepared` is another grid, or no such plan exists (`plan_grid`).
        """
        if prepared is None:
            network = self.network.network
            prepared = grid(relax(network), self.partition(network))
        self.check(prepared)
        return plan_grid(
            prepared, self.settings, beta=self.beta, epsilon=self.epsilon, delta=self.delta
        )

    def check(self, prepared: Grid) -> None:
        """Raise `InputError` unless a grid has this network and these zones."""
        same = NetworkFacts.of(prepared.relaxation.network) == self.network
        if not same or _tuples(prepared.zones.of_bus) != self.zones:
            raise InputError(
                f"the proposal is for {self.network.name} with other lines, limits or zones than "
                "those given; propose again"
            )


def _tuples(values: Any) -> Any:
    """Return an array as nested tuples of plain numbers, anything else as it is."""
    if not isinstance(values, np.ndarray):
        return values
    return _nested(values.tolist())


def _nested(values: Any) -> Any:
    return tuple(map(_nested, values)) if isinstance(values, list) else values
