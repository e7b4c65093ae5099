"""Power flow as published: four arms whose noise follows Table 1, whatever the sensitivity is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tacit.power import Grid, Part, bundled_case, chosen_zones, grid, network, relax
from tacit.privacy import BoundedChange, Laplace, account, epsilon_of
from tacit.typing import HostArray
from tacit_papers.reproductions.figure import Budget, Measured
from tacit_papers.reproductions.ryu2023.settings import BETA, GRID_DELTA, GRID_RHO, GridRuns


class Arm(NamedTuple):
    """Where the noise is, and its law."""

    output: bool
    laplace: bool


ARMS: Mapping[str, Arm] = MappingProxyType(
    {
        "ObjG": Arm(output=False, laplace=False),
        "ObjL": Arm(output=False, laplace=True),
        "OutG": Arm(output=True, laplace=False),
        "OutL": Arm(output=True, laplace=True),
    }
)
NOISE, OBJECTIVE, APART = "noise magnitude", "objective, (per unit) squared", "consensus residual"
GAUSSIAN = math.sqrt(2 * math.log(1.25 / GRID_DELTA))


class Case(NamedTuple):
    """One curve: an arm, E, and the epsilon of one update."""

    arm: str
    updates: int
    per_update: float


def published_scale(name: str, per_update: float) -> float:
    """Return sigma or b: Table 1 is sigma^2 or 2 b^2, with sensitivity 2 beta (Obj), beta (Out)."""
    arm = ARMS[name]
    sensitivity = BETA if arm.output else 2 * BETA
    return (1.0 if arm.laplace else GAUSSIAN) * sensitivity / per_update


def variance(name: str, scale: float) -> float:
    """Return the variance of noise of this scale."""
    return 2 * scale**2 if ARMS[name].laplace else scale**2


@dataclass(frozen=True)
class Network:
    """A network in zones, and how far one demand can move a zone's gradient."""

    made: Grid

    @cached_property
    def rows(self) -> list[HostArray]:
        """a_i of every zone's own buses, dense."""
        balance = self.made.relaxation.balance
        return [balance[part.rows][:, part.columns].toarray() for part in self.made.parts]

    @cached_property
    def shared(self) -> list[HostArray]:
        """Which of a zone's variables are consensus variables."""
        holders = np.asarray(self.made.sharing.holders)
        return [holders[part.columns] > 1 for part in self.made.parts]

    def sensitivity(self, name: str, round_number: int = 1) -> float:
        """Return a bound on what one demand moves, in the norm of the arm's law.

        The gradient of (6.1) moves by 2 beta a_i. The step projects in the metric M = 1/eta + rho
        on shared variables, which is at least sqrt(t), and a projection does not expand in its own
        metric: |dz|_2 <= |dg|_2 / sqrt(t). Its 1-norm is at most sqrt(n_p) as large.
        """
        arm = ARMS[name]
        order = 1 if arm.laplace and not arm.output else 2
        longest = max(float(np.linalg.norm(a, order, axis=1).max()) for a in self.rows)
        width = math.sqrt(max(a.shape[1] for a in self.rows)) if arm.laplace else 1.0
        return 2 * BETA * longest * (width / math.sqrt(round_number) if arm.output else 1.0)

    def total(self, case: Case, rounds: int) -> float:
        """Return the epsilon that all T E answers spend at `GRID_DELTA`, at these sensitivities.

        Exact for Gaussian noise: mu^2 = sum (sensitivity / sigma)^2. For Laplace noise on
        gradients the accountant's; on solutions, whose sensitivity falls with t, the plain sum.
        """
        scale = published_scale(case.arm, case.per_update)
        ratios = [self.sensitivity(case.arm, t) / scale for t in range(1, rounds + 1)]
        arm = ARMS[case.arm]
        if not arm.laplace:
            return float(
                epsilon_of(GRID_DELTA, math.sqrt(case.updates * np.sum(np.square(ratios))))
            )
        if arm.output:
            return case.updates * sum(ratios)
        events = [(Laplace().event(1 / ratios[0]), rounds * case.updates)]
        return account(events, delta=GRID_DELTA, relation=BoundedChange(BETA)).epsilon


def prepared(name: str) -> Network:
    """Return a bundled network in its zones, for linearised steps."""
    net = network(bundled_case(name))
    return Network(grid(relax(net), chosen_zones(net, None), linearised=True))


@dataclass(frozen=True)
class Published:
    """What was measured on one network.

    Attributes
    ----------
    samples
        By case and metric: `(S, T)`, one row for each repetition.
    """

    run: GridRuns
    network: Network
    samples: dict[tuple[Case, str], Float[HostArray, "S T"]]

    def at(self, case: Case, metric: str) -> Measured:
        """Return the mean and spread of a metric after the last round."""
        return Measured.of(self.samples[case, metric][:, -1])

    def by_round(self, case: Case, metric: str) -> tuple[Measured, ...]:
        """Return a metric after every round."""
        return tuple(Measured.of(column) for column in self.samples[case, metric].T)

    def budget(self, case: Case) -> Budget:
        """Return what a run of this case spends in all."""
        return Budget(self.network.total(case, self.run.rounds), GRID_DELTA, "messages")


def cases(run: GridRuns) -> list[Case]:
    """Return all cases of a network."""
    return [Case(a, e, each) for a in ARMS for e in run.updates for each in run.per_update]


def published(run: GridRuns, report: Callable[[str], None]) -> Published:
    """Return the runs of all four arms on one network."""
    net = prepared(run.case)
    samples = {}
    for case in cases(run):
        report(f"{run.case}: {case.arm}, E = {case.updates}, epsilon {case.per_update:g}")
        found = [one_run(net, case, run.rounds, seed=seed) for seed in range(run.seeds)]
        for place, metric in enumerate((NOISE, OBJECTIVE, APART)):
            samples[case, metric] = np.stack([rows[:, place] for rows in found])
    return Published(run, net, samples)


def one_run(net: Network, case: Case, rounds: int, *, seed: int) -> Float[HostArray, "T 3"]:
    """Return (6.2), sum_p f_p(z_p) and |w - z|_2 over shared variables, after every round.

    Algorithm 3.1 with rho = 100 and eta_t = 1/sqrt(t). A zone begins a round where its last update
    ended; the mean of its updates is sent. With infinite epsilon there is no noise.
    """
    made, draw = net.made, np.random.default_rng(seed)
    public = made.relaxation.flat()
    zones = [_Zone(net, zone, case, public[part.columns]) for zone, part in enumerate(made.parts)]
    rows = []
    for t in range(1, rounds + 1):
        public = _average(made.parts, [zone.offered() for zone in zones], public)
        noise = sum(zone.round(t, public, draw) for zone in zones)
        rows.append((noise, *_looks(zones, public)))
    return np.array(rows)


class _Zone:
    """One zone in the middle of a run: its state, mean and dual."""

    def __init__(self, net: Network, zone: int, case: Case, start: HostArray) -> None:
        self.part: Part = net.made.parts[zone]
        self.a, self.tie = net.rows[zone], net.shared[zone]
        self.demand = net.made.relaxation.demand[self.part.rows]
        self.step = net.made.sets.solvers[zone].minimum
        self.case = case
        self.state, self.mean, self.dual = start, start, np.zeros_like(start)

    def offered(self) -> HostArray:
        """Return z - lambda / rho."""
        return self.mean - self.dual / GRID_RHO

    def round(self, t: int, public: HostArray, draw: np.random.Generator) -> float:
        """Make E updates, then the dual's; return the sum of |noise|."""
        around, pull, total = public[self.part.columns], math.sqrt(t), 0.0
        solutions = []
        for _ in range(self.case.updates):
            noise = self._noise(draw)
            self.state = self._updated(around, pull, noise)
            solutions.append(self.state)
            total += float(np.sum(np.abs(noise)))
        self.mean = np.mean(solutions, axis=0)
        self.dual = self.dual + self.tie * GRID_RHO * (around - self.mean)
        return total

    def _updated(self, around: HostArray, pull: float, noise: HostArray) -> HostArray:
        output = ARMS[self.case.arm].output
        slope = 2 * self.a.T @ (self.a @ self.state + self.demand)
        towards = self.tie * (GRID_RHO * around + self.dual)
        linear = pull * self.state + towards - slope - (0 if output else noise)
        solution = self.step(linear, pull + GRID_RHO * self.tie)
        return solution + noise if output else solution

    def _noise(self, draw: np.random.Generator) -> HostArray:
        if math.isinf(self.case.per_update):
            return np.zeros(len(self.state))
        scale = published_scale(self.case.arm, self.case.per_update)
        law = draw.laplace if ARMS[self.case.arm].laplace else draw.normal
        return np.asarray(law(0.0, scale, len(self.state)))


def _average(parts: tuple[Part, ...], offered: list[HostArray], like: HostArray) -> HostArray:
    """Return the average of every variable over its holders."""
    total, count = np.zeros_like(like), np.zeros_like(like)
    for part, value in zip(parts, offered, strict=True):
        total[part.columns] += value
        count[part.columns] += 1
    return total / np.maximum(count, 1)


def _looks(zones: list[_Zone], public: HostArray) -> tuple[float, float]:
    objective = sum(float(np.sum((z.a @ z.mean + z.demand) ** 2)) for z in zones)
    apart = sum(float(np.sum(z.tie * (public[z.part.columns] - z.mean) ** 2)) for z in zones)
    return objective, math.sqrt(apart)
