"""Zones as agents: public rows and sets, private demand, and the plan of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
import numpy as np
from scipy.sparse import csc_array

from taciturn import checks
from taciturn.engine import (
    Plan,
    plan,
)
from taciturn.errors import InputError
from taciturn.oracles import Oracle, Residual, TargetGradient, Targets
from taciturn.privacy import Adjacency, Messages, TargetChange, Terms
from taciturn.problems import (
    Origin,
    Shard,
    Shards,
)
from taciturn.spec import Spec
from taciturn.typing import HostArray
from taciturn_power.conic import (
    AgentSets,
)
from taciturn_power.grids.network import bounded
from taciturn_power.grids.relaxation import Relaxation
from taciturn_power.grids.zones import Part, Zones, parts
from taciturn_power.methods import (
    GeneralConsensus,
    SharedCoordinates,
    lifts,
    shared_coordinates,
)

Question = Literal["gradient", "residual", "demand"]
QUESTIONS: tuple[Question, ...] = ("gradient", "residual", "demand")
# it leaves the least error at equal total epsilon
DEFAULT_QUESTION: Question = "demand"
# per unit: far above any sensible value, far below what the solver can handle
MOST_CHANGE, MOST_NOISE = 1e6, 1e6
DEMAND = "demand: active or reactive power of one bus, per unit"


@dataclass(frozen=True, eq=False)
class Grid:
    """Problem (D.3), ready to be planned and run.

    Attributes
    ----------
    relaxation, zones, parts
        The problem, the partition of its buses, and each zone's share. Public except the demand.
    shards
        Each zone's balance rows a_i (public) with targets -d_i (private): a record is one scalar
        demand, active or reactive, of one bus.
    spec
        The public facts.
    sharing, sets
        Which zones share which coordinates, and the feasible set of each zone.
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

    Parameters
    ----------
    linearised
        Whether zones linearise their objective at every step, as published, instead of using its
        public Hessian.
    """
    held = parts(relaxation, zones)
    rows = [relaxation.balance[part.rows][:, part.columns] for part in held]
    private = [-bounded(relaxation.demand[part.rows]) for part in held]
    features, targets, mask = _padded([row.toarray() for row in rows], private)
    norm = float(np.max(np.linalg.norm(features, axis=2), initial=0.0)) * (1 + 1e-12)
    counts = tuple(len(part.rows) for part in held)
    shards = Shards(
        Shard(jnp.asarray(features), jnp.asarray(targets), jnp.asarray(mask)),
        counts,
        norm,
        Origin(),
    )
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


def _padded(
    rows: list[HostArray], targets: list[HostArray]
) -> tuple[HostArray, HostArray, HostArray]:
    """Return (features, targets, mask) padded with zeros to the largest zone."""
    height, width = (max(row.shape[k] for row in rows) for k in (0, 1))
    features = np.zeros((len(rows), height, width))
    values, mask = np.zeros((2, len(rows), height))
    for zone, (row, target) in enumerate(zip(rows, targets, strict=True)):
        features[zone, : row.shape[0], : row.shape[1]] = row
        values[zone, : len(target)], mask[zone, : len(target)] = target, 1
    return features, values, mask


@dataclass(frozen=True)
class Settings:
    """The settings of a run; all of them public.

    Attributes
    ----------
    question
        What a zone answers: the gradient or the balance residual at its iterate, in every local
        update, or its demand, once.
    average
        Whether repeated answers, all of which are noisy observations of one demand, are averaged.
    rho
        The ADMM penalty parameter.
    proximal_weight
        1/eta, the weight of |z - z_a|^2 / 2 in a local update. None: 0.01 with Hessians, otherwise
        the smoothness of the problem (below that a linearised step may diverge).
    updates, rounds
        Local updates E per round, and rounds T.
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

    Raises
    ------
    InputError
        If a number is out of range, or the noise would be too large to compute with.

    Notes
    -----
    **Guarantee.** Demand is in no constraint, so only the answers depend on it. Neighbours differ
    by at most beta in one scalar demand; the sensitivity of an answer is derived at
    `taciturn.oracles.TargetGradient`, `Residual` and `Targets`. A bus whose active and reactive
    demand both change by beta is two records: mu grows by sqrt(2). beta is per unit, hence public;
    a fraction of each demand would make the noise depend on the demand.
    """
    if not checks.positive("beta", beta) <= MOST_CHANGE:
        raise InputError(f"beta is {beta:g} per unit, beyond any demand; give at most 1e6")
    terms = Terms(epsilon, delta, Adjacency(TargetChange(beta, DEMAND), "record"), Messages())
    planned = plan(
        grid.spec,
        algorithm(grid, settings),
        (_oracle(grid, settings.question),),
        terms,
        rounds=settings.rounds,
        precision="float64",
    )
    scale = float(np.max(planned.ledger.scale))
    if not scale <= MOST_NOISE:
        raise InputError(
            f"the noise would have scale {scale:g} per unit, with which nothing can be computed; "
            "raise epsilon or lower beta"
        )
    return planned


def proximal_weight(grid: Grid, settings: Settings) -> float:
    """Return 1/eta: the weight that the settings name, or the default for this grid."""
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


def _oracle(grid: Grid, question: Question) -> Oracle:
    if question == "gradient":
        return TargetGradient()
    records = grid.shards.stacked.features.shape[1]
    return Residual(records) if question == "residual" else Targets(records)
