"""Power flow: as published, with noise by Table 1, and three questions at equal total budgets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from taciturn.kernel.privacy import Laplace, TargetChange, account, epsilon_of
from taciturn.typing import HostArray
from taciturn_papers.attacks import infer_demand
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.portions import Portion, Results, Work
from taciturn_papers.reproductions.ryu2023.settings import GridRuns, Sampled, Trial, multiplier
from taciturn_power import (
    Flow,
    Grid,
    Part,
    Question,
    Settings,
    chosen_case,
    chosen_zones,
    grid,
    network,
    relax,
    solve_privately,
)


class Placement(NamedTuple):
    """Where the noise is, and its law."""

    output: bool
    laplace: bool


PLACED: Mapping[str, Placement] = MappingProxyType(
    {
        "ObjG": Placement(output=False, laplace=False),
        "ObjL": Placement(output=False, laplace=True),
        "OutG": Placement(output=True, laplace=False),
        "OutL": Placement(output=True, laplace=True),
    }
)
NOISE, OBJECTIVE, APART = "noise magnitude", "objective, (per unit) squared", "consensus residual"


def published_scale(run: GridRuns, name: str, per_update: float) -> float:
    """Return sigma or b: Table 1 is sigma^2 or 2 b^2, with sensitivity 2 beta (Obj), beta (Out)."""
    sensitivity = run.beta if PLACED[name].output else 2 * run.beta
    return multiplier(name, per_update, run.delta) * sensitivity


def variance(name: str, scale: float) -> float:
    """Return the variance of noise of this scale."""
    return 2 * scale**2 if PLACED[name].laplace else scale**2


@dataclass(frozen=True)
class Zoned:
    """A network in zones, and how far one demand can move a zone's gradient."""

    made: Grid
    run: GridRuns

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
        on shared variables, which is at least 1/eta_t, and a projection does not expand in its own
        metric: |dz|_2 <= eta_t |dg|_2. Its 1-norm is at most sqrt(n_p) as large.
        """
        arm = PLACED[name]
        order = 1 if arm.laplace and not arm.output else 2
        longest = max(float(np.linalg.norm(a, order, axis=1).max()) for a in self.rows)
        width = math.sqrt(max(a.shape[1] for a in self.rows)) if arm.laplace else 1.0
        step = self.run.step / math.sqrt(round_number)
        return 2 * self.run.beta * longest * (width * step if arm.output else 1.0)

    def total(self, trial: Trial) -> float:
        """Return the epsilon that all T E answers spend at delta, at these sensitivities.

        Exact for Gaussian noise: mu^2 = sum (sensitivity / sigma)^2. For Laplace noise on
        gradients the accountant's; on solutions, whose sensitivity falls with t, the plain sum.
        """
        rounds, delta = self.run.rounds, self.run.delta
        scale = published_scale(self.run, trial.arm, trial.per_update)
        ratios = [self.sensitivity(trial.arm, t) / scale for t in range(1, rounds + 1)]
        arm = PLACED[trial.arm]
        if not arm.laplace:
            return float(epsilon_of(delta, math.sqrt(trial.updates * np.sum(np.square(ratios)))))
        if arm.output:
            return trial.updates * sum(ratios)
        events = [(Laplace().event(1 / ratios[0]), rounds * trial.updates)]
        return account(events, delta=delta, relation=TargetChange(self.run.beta)).epsilon


def linearised(run: GridRuns) -> Zoned:
    """Return a network in its zones, for linearised steps."""
    return Zoned(_zoned(run, linearised=True), run)


def _zoned(run: GridRuns, *, linearised: bool = False) -> Grid:
    net = network(chosen_case(run.case))
    zones = chosen_zones(net, None if run.zones == "given" else run.zones)
    return grid(relax(net), zones, linearised=linearised)


@dataclass(frozen=True)
class Published(Sampled):
    """What was measured on one network.

    Attributes
    ----------
    samples
        By trial and metric: `(S, T)`, one row for each repetition.
    """

    run: GridRuns
    network: Zoned
    samples: dict[tuple[Trial, str], Float[HostArray, "S T"]]

    def budget(self, trial: Trial) -> Budget:
        """Return what a run of this trial spends in all."""
        return Budget(self.network.total(trial), self.run.delta)


def grid_trials(run: GridRuns) -> list[Trial]:
    """Return all cases of a network."""
    return [Trial(a, e, each) for a in PLACED for e in run.updates for each in run.per_update]


def published(run: GridRuns) -> Work[Published]:
    """Return the runs of all four arms on one network."""
    net = linearised(run)

    def portion(trial: Trial) -> Portion:
        title = f"{run.case}: {trial.arm}, E = {trial.updates}, epsilon {trial.per_update:g}"
        return Portion(title, (run, trial), partial(_published_runs, net, run, trial))

    def whole(results: Results) -> Published:
        samples = {
            (trial, metric): rows
            for trial in grid_trials(run)
            for metric, rows in results[run, trial].items()
        }
        return Published(run, net, samples)

    return Work(tuple(map(portion, grid_trials(run))), whole)


def _published_runs(net: Zoned, run: GridRuns, trial: Trial) -> dict[str, HostArray]:
    """Return every metric of a trial, `(S, T)`."""
    seeds = range(run.seeds)
    found = np.stack([published_run(net, trial, seed=seed) for seed in seeds])
    metrics = (NOISE, OBJECTIVE, APART)
    return {metric: found[:, :, place] for place, metric in enumerate(metrics)}


def published_run(net: Zoned, trial: Trial, *, seed: int) -> Float[HostArray, "T 3"]:
    """Return (6.2), sum_p f_p(z_p) and |w - z|_2 over shared variables, after every round.

    Algorithm 3.1 with a constant rho and eta_t = step / sqrt(t). A zone begins a round where its
    last update ended; the mean of its updates is sent. With infinite epsilon there is no noise.
    """
    made, draw = net.made, np.random.default_rng(seed)
    public = made.relaxation.flat()
    zones = [_Zone(net, zone, trial, public[part.columns]) for zone, part in enumerate(made.parts)]
    rows = []
    for t in range(1, net.run.rounds + 1):
        public = _average(made.parts, [zone.offered() for zone in zones], public)
        noise = sum(zone.round(t, public, draw) for zone in zones)
        rows.append((noise, *_looks(zones, public)))
    return np.array(rows)


class _Zone:
    """One zone in the middle of a run: its state, mean and dual."""

    def __init__(self, net: Zoned, zone: int, trial: Trial, start: HostArray) -> None:
        self.part: Part = net.made.parts[zone]
        self.a, self.tie = net.rows[zone], net.shared[zone]
        self.demand = net.made.relaxation.demand[self.part.rows]
        self.step = net.made.sets.solvers[zone].minimum
        self.trial, self.run = trial, net.run
        self.state, self.mean, self.dual = start, start, np.zeros_like(start)

    def offered(self) -> HostArray:
        """Return z - lambda / rho."""
        return self.mean - self.dual / self.run.rho

    def round(self, t: int, public: HostArray, draw: np.random.Generator) -> float:
        """Make E updates, then the dual's; return the sum of |noise|."""
        around, pull, total = public[self.part.columns], math.sqrt(t) / self.run.step, 0.0
        solutions = []
        for _ in range(self.trial.updates):
            noise = self._noise(draw)
            self.state = self._updated(around, pull, noise)
            solutions.append(self.state)
            total += float(np.sum(np.abs(noise)))
        self.mean = np.mean(solutions, axis=0)
        self.dual = self.dual + self.tie * self.run.rho * (around - self.mean)
        return total

    def _updated(self, around: HostArray, pull: float, noise: HostArray) -> HostArray:
        output = PLACED[self.trial.arm].output
        slope = 2 * self.a.T @ (self.a @ self.state + self.demand)
        towards = self.tie * (self.run.rho * around + self.dual)
        linear = pull * self.state + towards - slope - (0 if output else noise)
        solution = self.step(linear, pull + self.run.rho * self.tie)
        return solution + noise if output else solution

    def _noise(self, draw: np.random.Generator) -> HostArray:
        if math.isinf(self.trial.per_update):
            return np.zeros(len(self.state))
        scale = published_scale(self.run, self.trial.arm, self.trial.per_update)
        law = draw.laplace if PLACED[self.trial.arm].laplace else draw.normal
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


ATTACK, PATIENT = "error of the attacker's last reading", "error of the mean of its readings"
READABLE = "share of the demands that can be read"
_QUIET = "no noise"


class Asking(NamedTuple):
    """A question, and whether the zones average the looks that its answers are."""

    question: Question
    average: bool


ASKED: dict[str, Asking] = {
    "demand, asked once": Asking("demand", average=True),
    "residual, averaged": Asking("residual", average=True),
    "residual, last look": Asking("residual", average=False),
    "gradient, averaged": Asking("gradient", average=True),
    "gradient, last look": Asking("gradient", average=False),
}
DEMAND, RESIDUAL, LAST_RESIDUAL, GRADIENT, LAST_GRADIENT = ASKED


@dataclass(frozen=True)
class Answered:
    """What was measured on one network.

    Attributes
    ----------
    samples
        By arm, total epsilon and metric: `(S,)`.
    floor
        The objective without noise after as many rounds.
    demand
        Root-mean-square of the true demand, per unit: the error of guessing 0.
    readable
        The share of the demands that an attacker's last reading determines, over all runs.
    """

    run: GridRuns
    samples: dict[tuple[str, float, str], Float[HostArray, " S"]]
    floor: float
    demand: float
    readable: float

    def at(self, arm: str, total: float, metric: str) -> Measured:
        """Return the mean and spread of a metric after the last round."""
        return Measured.of(self.samples[arm, total, metric])

    def budget(self, total: float) -> Budget:
        """Return the budget of a run."""
        return Budget(total, self.run.delta)


def answered(run: GridRuns) -> Work[Answered]:
    """Return every question's runs on one network, at every total."""
    made = with_hessians(run)
    cases = [(name, total) for name in ASKED for total in run.totals]

    def portion(name: str, total: float) -> Portion:
        runs = partial(_question_runs, made, run, name, total)
        return Portion(f"{run.case}: {name}, total epsilon {total:g}", (run, name, total), runs)

    def quiet() -> dict[str, HostArray]:
        return {OBJECTIVE: flow_of(made, run, DEMAND, math.inf, seed=0).objective}

    def whole(results: Results) -> Answered:
        samples = {
            (*case, metric): values
            for case in cases
            for metric, values in results[run, *case].items()
            if metric != READABLE
        }
        readable = [share for case in cases for share in results[run, *case][READABLE]]
        floor = float(results[run, _QUIET][OBJECTIVE][-1])
        demand = float(np.sqrt(np.mean(made.relaxation.demand**2)))
        return Answered(run, samples, floor, demand, float(np.mean(readable)))

    last = Portion(f"{run.case}: {_QUIET}", (run, _QUIET), quiet)
    return Work((*(portion(*case) for case in cases), last), whole)


def _question_runs(made: Grid, run: GridRuns, name: str, total: float) -> dict[str, HostArray]:
    """Return every metric of a question at a total, and the share that can be read, `(S,)`."""
    found = [question_run(made, run, name, total, seed=s) for s in range(run.question_seeds)]
    several = {metric: np.array([values[metric] for values, _ in found]) for metric in found[0][0]}
    return several | {READABLE: np.array([share for _, share in found])}


def with_hessians(run: GridRuns) -> Grid:
    """Return a network in its zones, with public Hessians."""
    return _zoned(run)


def flow_of(made: Grid, run: GridRuns, name: str, total: float, *, seed: int) -> Flow:
    """Return one run of an arm that spends `total`; infinite for a run without noise."""
    question, average = ASKED[name]
    settings = Settings(question, run.question_rounds, average=average)
    return solve_privately(made, settings, beta=run.beta, epsilon=total, delta=run.delta, seed=seed)


def question_run(
    made: Grid, run: GridRuns, name: str, total: float, *, seed: int
) -> tuple[dict[str, float], float]:
    """Return the metrics of one run, and the share of the demands that can be read."""
    flow = flow_of(made, run, name, total, seed=seed)
    last, patient, readable = attacked(flow, run.readings)
    values = {
        NOISE: float(np.sum(flow.noise)),
        OBJECTIVE: float(flow.objective[-1]),
        APART: float(flow.consensus_residual[-1]),
        ATTACK: last,
        PATIENT: patient,
    }
    return values, readable


def attacked(flow: Flow, readings: int) -> tuple[float, float, float]:
    """Return the errors of the last reading and of the mean of several, and the share readable.

    Readings are of rounds that lie evenly up to the last one.
    """
    rounds = np.unique(np.linspace(0, flow.settings.rounds - 1, readings).round().astype(int))
    found = [infer_demand(flow, int(k)) for k in rounds]
    looks = np.sum([seen.readable for seen in found], axis=0)
    total = np.sum([seen.demand * seen.readable for seen in found], axis=0)
    truth = flow.grid.relaxation.demand
    gap = (total / np.maximum(looks, 1) - truth)[looks > 0]
    return found[-1].error, float(np.sqrt(np.mean(gap**2))), float(np.mean(found[-1].readable))
