"""A run of private power flow, what it achieved, and the optimum to compare it with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from taciturn.engine import ChargedTo, Run, run
from taciturn.errors import DataError, InputError, TaciturnError
from taciturn.typing import HostArray
from taciturn_power.balance.agents import Grid, Settings
from taciturn_power.balance.proposal import GridProposal
from taciturn_power.conic import (
    ConicSet,
)
from taciturn_power.grids.relaxation import Relaxation
from taciturn_power.grids.zones import limits


@dataclass(frozen=True, eq=False)
class Flow:
    """A finished run.

    Attributes
    ----------
    grid, proposal, run
        The problem, its proposal, and the run with its certificate.
    consensus_residual
        `(T,)`: after each round, the norm of all differences between a zone's variable and its
        average, divided by the norm of the averages.
    violation
        `(T,)`: the largest violation of a public constraint by the averages, per unit (equations
        divided by the norm of their row).
    objective
        `(T,)`: (D.2a) at the averages and the true demand, per unit squared. Computed from
        the demand without noise, outside the certificate.
    noise
        `(T,)`: the expectation of (6.2), the sum of |noise| over all coordinates of all answers of
        a round: sigma sqrt(2/pi) for each.
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
    def beta(self) -> float:
        """How far one demand may change unnoticed, per unit."""
        return self.proposal.beta

    @property
    def state(self) -> Float[HostArray, " n"]:
        """The released state of the network, the averages after the last round."""
        return self.run.model


def solve_privately(
    grid: Grid,
    settings: Settings,
    *,
    beta: float,
    epsilon: float,
    delta: float,
    seed: int | None,
) -> Flow:
    """Plan and run power flow among zones; epsilon may be infinite, for a run without noise.

    The plan is that of the `GridProposal` of these settings.

    Raises
    ------
    InputError
        If a number is out of range, or if the cone solver fails in a zone.
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
    """Return the run of a proposal on the grid it was written for.

    Parameters
    ----------
    account
        What the run is charged to (`taciturn.engine.run`); None charges it nowhere.
    release
        Called with the run before anything is computed from its answers.

    Raises
    ------
    InputError
        If the grid is another one, the account cannot hold the run, or the cone solver fails in a
        zone.
    """
    planned = proposal.plan(grid)
    keep = frozenset({"models", "messages"})
    try:
        with _unlogged():
            finished = run(
                planned, grid.shards, runtime="simulate", seed=seed, keep=keep, account=account
            )
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        # an exception of a host callback arrives as either; ValueError from a compiled program
        if isinstance(error, TaciturnError) or "callback" not in str(error):
            raise
        raise InputError(
            "the cone solver failed in a zone; use other zones, less noise (a larger epsilon, a "
            "smaller beta), or check the limits of the case"
        ) from error
    if release is not None:
        release(finished)
    states = np.asarray(finished.trace.models)
    relaxation = grid.relaxation
    return Flow(
        grid=grid,
        proposal=proposal,
        run=finished,
        consensus_residual=_residual(grid, states, np.asarray(finished.trace.messages)),
        violation=np.array([relaxation.violation(x) for x in states]),
        objective=np.array([relaxation.objective(x, relaxation.demand) for x in states]),
        noise=_noise(grid, proposal.settings, finished),
    )


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep JAX from logging the traceback of a step that fails: the error itself is reported."""
    log = logging.getLogger("jax._src.callback")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def _residual(grid: Grid, states: HostArray, messages: HostArray) -> HostArray:
    total = np.zeros(len(states))
    for zone, part in enumerate(grid.parts):
        apart = messages[:, zone, part.columns] - states[:, part.columns]
        total += np.sum(apart**2, axis=1)
    size: HostArray = np.linalg.norm(states, axis=1)
    return np.sqrt(total) / np.maximum(size, np.finfo(float).tiny)


def _noise(grid: Grid, settings: Settings, finished: Run) -> HostArray:
    width = [len(p.columns if settings.question == "gradient" else p.rows) for p in grid.parts]
    each = finished.ledger.scale * finished.ledger.asked * np.sqrt(2 / np.pi)
    return np.asarray(np.einsum("ate,a->t", each, np.array(width, float)))


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
    a = relaxation.balance
    x = central_limits(relaxation).minimum(a.T @ a, -(a.T @ demand))
    return Optimum(x, relaxation.objective(x, demand))


def central_limits(relaxation: Relaxation) -> ConicSet:
    """Return the public limits of the whole network as one set.

    Raises
    ------
    DataError
        If they contradict one another.
    """
    layout = relaxation.layout
    try:
        return limits(relaxation, np.arange(layout.lines), np.arange(layout.size))
    except InputError as error:
        raise DataError(
            f"{relaxation.network.name}: no state meets all limits of the network; loosen a "
            "voltage, generation, line or angle limit"
        ) from error
