"""A balanced state by consensus of zones: agents, proposal, run and optimum."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import model_validator
from scipy.sparse import csc_array

from taciturn import checks
from taciturn.documents import Document, Extended
from taciturn.engine import ChargedTo, Plan, Run, plan, run
from taciturn.errors import InputError, TaciturnError
from taciturn.kernel.privacy import Adjacency, Messages, TargetChange, Terms
from taciturn.kernel.questions import Oracle, Residual, TargetGradient, Targets
from taciturn.kernel.records import Origin, Shard, Shards, Spec
from taciturn.typing import HostArray
from taciturn_power.conic import AgentSets, ConicSet
from taciturn_power.grids.network import (
    Network,
    NetworkFacts,
    as_tuples,
    bounded,
    check_beta,
    check_scale,
)
from taciturn_power.grids.relaxation import Relaxation, relax
from taciturn_power.grids.zones import Part, Zones, check_zones, limits, parts, zones_of
from taciturn_power.methods import GeneralConsensus, SharedCoordinates, lifts, shared_coordinates

Question = Literal["gradient", "residual", "demand"]
QUESTIONS: tuple[Question, ...] = ("gradient", "residual", "demand")
# the least error at equal total epsilon
DEFAULT_QUESTION: Question = "demand"
DEMAND = "demand: active or reactive power of one bus, per unit"


@dataclass(frozen=True, eq=False)
class Grid:
    """Problem (D.3), ready to be planned and run.

    - `shards`: Each zone's balance rows a_i (public) with targets -d_i (private): a record is one
      scalar demand, active or reactive, of one bus. Beside these only the demand in `relaxation` is
      private.
    - `sharing`, `sets`: Which zones share which coordinates, and the feasible set of each zone.
    """

    relaxation: Relaxation
    zones: Zones
    parts: tuple[Part, ...]
    shards: Shards
    spec: Spec
    sharing: SharedCoordinates
    sets: AgentSets


def grid(relaxation: Relaxation, zones: Zones, *, linearised: bool = False) -> Grid:
    """Return the zones of a relaxed power flow as agents.

    If `linearised`, zones linearise their objective at every step, as in the paper, instead of
    using its public Hessian.
    """
    held = parts(relaxation, zones)
    rows = [relaxation.balance[part.rows][:, part.columns] for part in held]
    features = np.zeros((len(held), *(max(row.shape[k] for row in rows) for k in (0, 1))))
    targets, mask = np.zeros((2, *features.shape[:2]))
    for zone, (part, row) in enumerate(zip(held, rows, strict=True)):
        features[zone, : row.shape[0], : row.shape[1]] = row.toarray()
        targets[zone, : row.shape[0]] = -bounded(relaxation.demand[part.rows])
        mask[zone, : row.shape[0]] = 1
    norm = float(np.max(np.linalg.norm(features, axis=2), initial=0.0)) * (1 + 1e-12)
    counts = tuple(len(part.rows) for part in held)
    shard = Shard(jnp.asarray(features), jnp.asarray(targets), jnp.asarray(mask))
    shards = Shards(shard, counts, norm, Origin())
    hessians = None if linearised else [csc_array(row.T @ row) for row in rows]
    spec = Spec(
        counts=counts,
        shape=(features.shape[2],),
        record_norm=norm,
        gradient_bound=float("inf"),
        smoothness=max(float(np.linalg.norm((row @ row.T).toarray(), 2)) for row in rows),
    )
    sharing = shared_coordinates([part.columns for part in held], relaxation.layout.size)
    sets = AgentSets([part.limits for part in held], hessians)
    return Grid(relaxation, zones, tuple(held), shards, spec, sharing, sets)


@dataclass(frozen=True)
class Settings:
    """The public settings of a run.

    - `question`: What a zone answers: the gradient or the balance residual at its iterate, in every
      local update, or its demand, once.
    - `average`: Whether repeated answers, noisy observations of one demand, are averaged.
    - `proximal_weight`: 1/eta, the weight of |z - z_a|^2 / 2 in a local update. None: 0.01 with
      Hessians, otherwise the smoothness of the problem (below that a linearised step may diverge).
    - `updates`, `rounds`: Local updates E per round, and rounds T.
    """

    question: Question
    rounds: int
    updates: int = 1
    average: bool = True
    rho: float = 0.3
    proximal_weight: float | None = None

    def __post_init__(self) -> None:
        if self.question not in QUESTIONS:
            raise InputError(f"question is {self.question!r}; choose from {', '.join(QUESTIONS)}")
        checks.at_least("rounds", self.rounds, 1)
        checks.at_least("local-updates", self.updates, 1)


def plan_grid(grid: Grid, settings: Settings, *, beta: float, epsilon: float, delta: float) -> Plan:
    """Return the plan of a run that hides a change of one demand by up to `beta` (per unit).

    **Guarantee.** Demand is in no constraint, so only the answers depend on it. Neighbours differ
    by at most beta in one scalar demand; the sensitivity of an answer is derived at
    `taciturn.kernel.questions.TargetGradient`, `Residual` and `Targets`. A bus whose active and
    reactive demand both change by beta is two records: mu grows by sqrt(2). beta is per unit, hence
    public; a fraction of each demand would make the noise depend on the demand.
    """
    check_beta(beta)
    terms = Terms(epsilon, delta, Adjacency(TargetChange(beta, DEMAND), "record"), Messages())
    records = grid.shards.stacked.features.shape[1]
    oracles: dict[Question, Oracle] = {
        "gradient": TargetGradient(),
        "residual": Residual(records),
        "demand": Targets(records),
    }
    planned = plan(
        grid.spec,
        algorithm(grid, settings),
        (oracles[settings.question],),
        terms,
        rounds=settings.rounds,
        precision="float64",
    )
    check_scale(planned)
    return planned


def proximal_weight(grid: Grid, settings: Settings) -> float:
    """Return 1/eta of the settings, or the default for this grid."""
    if settings.proximal_weight is not None:
        return settings.proximal_weight
    return 0.01 if grid.sets.has_hessians else grid.spec.smoothness


def algorithm(grid: Grid, settings: Settings) -> GeneralConsensus:
    """Return the method with these settings."""
    features = grid.shards.stacked.features
    return GeneralConsensus(
        sharing=grid.sharing,
        features=features,
        lift=jnp.asarray(lifts(np.asarray(features))) if settings.question == "gradient" else None,
        sets=grid.sets,
        first=jnp.asarray(grid.relaxation.flat()),
        rho=settings.rho,
        proximal_weight=proximal_weight(grid, settings),
        question="targets" if settings.question == "demand" else settings.question,
        average=settings.average,
        updates=settings.updates,
    )


# fields of `Settings` that a proposal has under the same name
_SETTINGS = ("question", "rounds", "average", "rho", "proximal_weight")


class GridProposal(Document):
    """Everything public about a private power flow.

    - `zones`: Of every bus, counted from 0.
    - `question`, `rounds`, `local_updates`, `average`, `rho`, `proximal_weight`: As in
      `taciturn_power.Settings`.
    - `beta`: The largest change of one demand that the run hides, per unit.
    """

    FORMAT: ClassVar[str] = "taciturn.grid"
    VERSION: ClassVar[int] = 1

    network: NetworkFacts
    zones: tuple[int, ...]
    question: Question
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
            local_updates=settings.updates,
            **{name: getattr(settings, name) for name in _SETTINGS},
            beta=beta,
            epsilon=epsilon,
            delta=delta,
        )

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return Settings(
            updates=self.local_updates, **{name: getattr(self, name) for name in _SETTINGS}
        )

    def partition(self, network: Network) -> Zones:
        """Return the zones of a network with these buses."""
        return zones_of(network, np.array(self.zones))

    def plan(self, prepared: Grid | None = None) -> Plan:
        """Return the plan of the run, which does not depend on demand.

        `prepared`: the grid, if it has been built already; a different grid is refused.
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


@dataclass(frozen=True, eq=False)
class Flow:
    """A finished run.

    - `consensus_residual`: `(T,)`: after each round, the norm of all differences between a zone's
      variable and its average, divided by the norm of the averages.
    - `violation`: `(T,)`: the largest violation of a public constraint by the averages, per unit
      (equations divided by the norm of their row).
    - `objective`: `(T,)`: (D.2a) at the averages and the true demand, per unit squared. Computed
      from the demand without noise, outside the certificate.
    - `noise`: `(T,)`: the expectation of (6.2), the sum of |noise| over all coordinates of all
      answers of a round: sigma sqrt(2/pi) for each.
    """

    grid: Grid
    proposal: GridProposal
    run: Run
    consensus_residual: Float[HostArray, " T"]
    violation: Float[HostArray, " T"]
    objective: Float[HostArray, " T"]
    noise: Float[HostArray, " T"]

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.proposal.settings

    @property
    def state(self) -> Float[HostArray, " n"]:
        """The released state of the network, the averages after the last round."""
        return self.run.model


def solve_privately(
    grid: Grid, settings: Settings, *, beta: float, epsilon: float, delta: float, seed: int | None
) -> Flow:
    """Plan and run a power flow by consensus; an infinite epsilon means no noise.

    Raises `InputError` if a number is out of range, or if the cone solver fails in a zone.
    """
    proposal = GridProposal.of(grid, settings, beta=beta, epsilon=epsilon, delta=delta)
    return run_proposal(grid, proposal, seed=seed)


def run_proposal(
    grid: Grid,
    proposal: GridProposal,
    *,
    seed: int | None,
    account: ChargedTo | None = None,
    release: Callable[[Run], None] | None = None,
) -> Flow:
    """Return the run of a proposal on its grid.

    `release` is called with the run before anything is computed from its answers.

    Raises `InputError` if the grid differs from the proposal's, the account cannot cover the run,
    or the cone solver fails in a zone.
    """
    planned = proposal.plan(grid)
    keep = frozenset({"models", "messages"})
    try:
        with _silent_callbacks():
            finished = run(
                planned, grid.shards, runtime="simulate", seed=seed, keep=keep, account=account
            )
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        # exceptions of host callbacks arrive as either, from compiled programs as ValueError
        if isinstance(error, TaciturnError) or "callback" not in str(error):
            raise
        raise InputError(
            "the cone solver failed in a zone; use other zones, less noise (a larger epsilon, a "
            "smaller beta), or check the limits of the case"
        ) from error
    if release is not None:
        release(finished)
    states, messages = np.asarray(finished.trace.models), np.asarray(finished.trace.messages)
    relaxation, gradient = grid.relaxation, proposal.question == "gradient"
    # squared distance of the zones' copies from the averages, by round
    apart, size = np.zeros(len(states)), np.linalg.norm(states, axis=1)
    for zone, part in enumerate(grid.parts):
        difference = messages[:, zone, part.columns] - states[:, part.columns]
        apart += np.sum(difference**2, axis=1)
    width = np.array([len(p.columns if gradient else p.rows) for p in grid.parts], float)
    each = finished.ledger.scale * finished.ledger.asked * np.sqrt(2 / np.pi)
    return Flow(
        grid=grid,
        proposal=proposal,
        run=finished,
        consensus_residual=np.sqrt(apart) / np.maximum(size, np.finfo(float).tiny),
        violation=np.array([relaxation.violation(x) for x in states]),
        objective=np.array([relaxation.objective(x, relaxation.demand) for x in states]),
        noise=np.asarray(np.einsum("ate,a->t", each, width)),
    )


@contextmanager
def _silent_callbacks() -> Iterator[None]:
    """Keep JAX from logging the traceback of a failed callback, since its error is raised."""
    log = logging.getLogger("jax._src.callback")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


class Optimum(NamedTuple):
    """A minimiser of (D.2) and its objective, per unit squared."""

    x: Float[HostArray, " n"]
    objective: float


def central(relaxation: Relaxation, demand: Float[HostArray, " B"]) -> Optimum:
    """Return a minimiser of (D.2) at this demand; not private.

    Raises `DataError` if the public limits of the network contradict one another.
    """
    a = relaxation.balance
    x = central_limits(relaxation).minimum(a.T @ a, -(a.T @ demand))
    return Optimum(x, relaxation.objective(x, demand))


def central_limits(relaxation: Relaxation) -> ConicSet:
    """Return the public limits of the whole network as one set.

    Raises `DataError` if they contradict one another.
    """
    layout = relaxation.layout
    return limits(relaxation, np.arange(layout.lines), np.arange(layout.size))
