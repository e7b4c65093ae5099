"""The proposal of a private power flow: everything public about the run, the network included."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from taciturn.engine import Plan
from taciturn.errors import InputError
from taciturn.proposal import Document, Extended, Part
from taciturn_power.balance.agents import Grid, Settings, grid, plan_grid
from taciturn_power.grids.network import Network, check_network
from taciturn_power.grids.relaxation import relax
from taciturn_power.grids.zones import Zones, zones_of

# by what the entries of a field stand for; those of all others stand for lines
_OF_BUSES, _OF_GENERATORS = ("numbers", "shunt", "voltage"), ("generator_bus", "generator_range")


class NetworkFacts(Part):
    """A network as content: what `taciturn_power.Network` holds, without the demand.

    Powers are per unit of `base_mva`, angles in radians; an infinite limit is none.
    """

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

    @classmethod
    def of(cls, network: Network) -> NetworkFacts:
        """Return what is public of a network.

        Notes
        -----
        **Guarantee.** The demand, which alone is private, is not read.
        """
        return cls(
            name=network.name,
            base_mva=network.base_mva,
            resistance=as_tuples(network.impedance.real),
            reactance=as_tuples(network.impedance.imag),
            **{name: as_tuples(getattr(network, name)) for name in cls._shared()},
        )

    @classmethod
    def _shared(cls) -> list[str]:
        """Return the fields that are arrays of `Network`, too."""
        return [field.name for field in fields(Network)[2:] if field.name in cls.model_fields]

    @property
    def network(self) -> Network:
        """The network with no demand anywhere, checked."""
        self._check_lengths()
        values = {name: np.array(getattr(self, name)) for name in self._shared()}
        values["generator_range"] = values["generator_range"].reshape(-1, 4)  # there may be none
        network = Network(
            name=self.name,
            base_mva=self.base_mva,
            demand=np.zeros((len(self.numbers), 2)),
            impedance=np.array(self.resistance) + 1j * np.array(self.reactance),
            **values,
        )
        check_network(network)
        return network

    def _check_lengths(self) -> None:
        buses, lines, generators = len(self.numbers), len(self.ends), len(self.generator_bus)
        needed = dict.fromkeys(_OF_BUSES, buses) | dict.fromkeys(_OF_GENERATORS, generators)
        for name in (*self._shared(), "resistance", "reactance"):
            length = len(getattr(self, name))
            if length != needed.get(name, lines):
                raise InputError(
                    f"the network has {length} entries of {name}, and needs "
                    f"{needed.get(name, lines)}"
                )
        places = (*self.generator_bus, *(place for pair in self.ends for place in pair))
        if buses < 2 or not all(0 <= place < buses for place in places):
            raise InputError(f"a generator or line names a bus that is not among the {buses}")


def check_zones(zones: tuple[int, ...], buses: int) -> None:
    """Raise `InputError` unless every bus has a zone, counted from 0 without gaps."""
    if len(zones) != buses:
        raise InputError(f"{len(zones)} zones for {buses} buses; give one for each")
    if set(zones) != set(range(max(zones) + 1)):
        raise InputError("zones are counted from 0 without gaps; number them so")


class GridProposal(Document):
    """Everything public about a private power flow.

    Attributes
    ----------
    zones
        The zone of every bus, counted from 0.
    question, rounds, local_updates, average, rho, proximal_weight
        As in `taciturn_power.Settings`; `proximal_weight` is None for the default there.
    beta
        The largest change of one demand that the run hides, per unit.
    """

    FORMAT: ClassVar[str] = "taciturn.grid"
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
        check_zones(self.zones, self.network.network.buses)
        self.settings  # noqa: B018 - checked
        return self

    @classmethod
    def of(
        cls, prepared: Grid, settings: Settings, *, beta: float, epsilon: float, delta: float
    ) -> GridProposal:
        """Return the proposal of a run on a prepared grid."""
        return cls(
            network=NetworkFacts.of(prepared.relaxation.network),
            zones=as_tuples(prepared.zones.of_bus),
            question=settings.question,
            rounds=settings.rounds,
            local_updates=settings.updates,
            average=settings.average,
            rho=settings.rho,
            proximal_weight=settings.proximal_weight,
            beta=beta,
            epsilon=epsilon,
            delta=delta,
        )

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return Settings(
            question=self.question,
            rounds=self.rounds,
            updates=self.local_updates,
            average=self.average,
            rho=self.rho,
            proximal_weight=self.proximal_weight,
        )

    def partition(self, network: Network) -> Zones:
        """Return the zones of a network with these buses."""
        return zones_of(network, np.array(self.zones))

    def plan(self, prepared: Grid | None = None) -> Plan:
        """Return the plan of the run.

        Parameters
        ----------
        prepared
            The grid with the zones' demands; None to derive it from this proposal, with no demand.
            The plan is the same.

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
        if not same or as_tuples(prepared.zones.of_bus) != self.zones:
            raise InputError(
                f"the proposal is for {self.network.name} with other lines, limits or zones than "
                "those given; propose again"
            )


def as_tuples(values: Any) -> Any:
    """Return an array, or nested lists, as nested tuples of plain numbers."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return tuple(map(as_tuples, values)) if isinstance(values, list) else values
