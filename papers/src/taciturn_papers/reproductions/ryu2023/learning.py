"""Federated learning under noise: every arm at every budget, with what it spends and achieves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float, Int

from taciturn.algorithms import LinearisedADMM
from taciturn.engine import Plan
from taciturn.kernel.privacy import Gaussian
from taciturn.problems import public_facts
from taciturn.typing import Array, HostArray
from taciturn_papers.as_published.local_schedules import Form, PublishedSettings
from taciturn_papers.as_published.rate_bounds import RateFacts
from taciturn_papers.reproductions.arms import repeated
from taciturn_papers.reproductions.figure import Budget
from taciturn_papers.reproductions.portions import (
    Arrays,
    Portion,
    Results,
    Work,
    arrays_of,
    record_of,
)
from taciturn_papers.reproductions.ryu2023.federated import (
    CONSTANTS,
    PublishedRun,
    Records,
    noise_magnitude,
    scores,
)
from taciturn_papers.reproductions.ryu2023.settings import (
    DELTA,
    RECORD_NORM,
    Learning,
    Sampled,
    Trial,
)

OBJ, OUT, PROJECTED = "ObjG", "OutG", "OutG, projected"
FORMS: Mapping[str, Form] = MappingProxyType(
    {OBJ: "objective", OUT: "output", PROJECTED: "projected-output"}
)
AVERAGED = "ObjG, averaged"
SCHEDULE = "(E.1)"
LOSS, ERROR = "objective", "test error, %"
CLIPPED_LOSS, AT_BOX = "objective of the projected release", "share of weights at the box"
METRICS = (LOSS, ERROR, CLIPPED_LOSS, AT_BOX)
_NOISE = "noise"
_MOST = 1.5e9  # bytes of models that are kept at a time
_NEAR = 0.99  # of the box: a mean over agents counts as lying on it from here on


@dataclass(frozen=True)
class Learned(Sampled):
    """What was measured on one data set.

    Attributes
    ----------
    rounds
        `(L,)`: after how many rounds the metrics were measured.
    samples
        By trial and metric: `(S, L)`, one row for each repetition.
    noise
        By trial: (6.5), `(T,)`.
    facts
        What the bound (5.2b) is made of, for the averaged cases.
    """

    run: Learning
    one: Records
    rounds: Int[HostArray, " L"]
    samples: dict[tuple[Trial, str], Float[HostArray, "S L"]]
    noise: dict[Trial, Float[HostArray, " T"]]
    facts: dict[Trial, RateFacts]

    def budget(self, trial: Trial) -> Budget:
        """Return what a run of this trial spends in all."""
        return Budget(run_of(self.run, trial).total, DELTA)


def run_of(run: Learning, trial: Trial) -> PublishedRun:
    """Return the run of a trial; PublishedRun.total is its exact total epsilon."""
    return PublishedRun(
        constants=run.data,
        form=FORMS.get(trial.arm, "objective"),
        mechanism=Gaussian(),
        local_updates=trial.updates,
        rounds=run.rounds,
        per_update=trial.per_update,
        delta=DELTA,
        rho=_schedules(run.data)[trial.rho],
        averaged=trial.arm == AVERAGED,
    )


def _schedules(data: str) -> dict[str, tuple[float, float, int]]:
    """Return c_1, c_2 and T_c of every schedule of Figure 7."""
    first, private, period = CONSTANTS[data]
    constant = {f"{rho:g}": (rho, 0.0, period) for rho in (0.1, 1.0, 10.0)}
    constant = {name: (rho, none, 10**9) for name, (rho, none, _) in constant.items()}
    return {
        SCHEDULE: (first, private, period),
        "(E.1) / 100": (first / 100, private / 100, period),
        **constant,
    }


def rhos(run: Learning) -> tuple[str, ...]:
    """Return the names of the schedules of Figure 7."""
    return tuple(_schedules(run.data))


def trials(run: Learning) -> list[list[Trial]]:
    """Return all cases, those of one compiled program together."""
    groups = [
        [Trial(arm, e, each) for each in run.per_update] for arm in FORMS for e in run.updates
    ]
    groups += [[Trial(OBJ, e, math.inf)] for e in run.updates]
    groups += [[Trial(AVERAGED, 1, each) for each in run.per_update]]
    groups += [[Trial(OUT, 1, each, rho) for each in run.per_update] for rho in rhos(run)[1:]]
    return groups


def learned(run: Learning, one: Records) -> Work[Learned]:
    """Return the measurements of one data set."""
    rounds = np.unique(np.geomspace(1, run.rounds, run.looks).round().astype(int))
    parts = [part for group in trials(run) for part in _portions(run, one, group)]

    def whole(results: Results) -> Learned:
        found = Learned(run, one, rounds, {}, {}, {})
        for part in parts:
            _write_down(found, part, results[run, part])
        return found

    return Work(tuple(portion(run, one, rounds, part) for part in parts), whole)


def planned(run: Learning, one: Records, trial: Trial) -> Plan:
    """Return the plan of a trial; its settings are forgotten, for its schedules are computed.

    Plans that differ in numbers alone then share one compiled program.
    """
    facts = public_facts(one.problem, one.shards, clip=math.inf)
    made = run_of(run, trial).plan(one.problem, facts)
    algorithm = made.program.algorithm
    assert isinstance(algorithm, LinearisedADMM)
    settings = PublishedSettings(1.0, 0.0, 1, 1.0, "nonsmooth", averaged=trial.arm == AVERAGED)
    plain = dataclasses.replace(algorithm, settings=settings)
    return dataclasses.replace(made, program=dataclasses.replace(made.program, algorithm=plain))


def _portions(run: Learning, one: Records, group: Sequence[Trial]) -> list[tuple[Trial, ...]]:
    """Return the cases in portions whose models fit into memory."""
    each = run.rounds * run.seeds * one.size * 4
    most = max(1, int(_MOST // each))
    return [tuple(group[start : start + most]) for start in range(0, len(group), most)]


def portion(
    run: Learning, one: Records, rounds: Int[HostArray, " L"], part: tuple[Trial, ...]
) -> Portion:
    """Return cases of one compiled program: their metrics `(B, S, L)`, noise, and public facts."""
    first = part[0]

    def compute() -> dict[str, HostArray]:
        plans = [planned(run, one, trial) for trial in part]
        seeds = range(run.seeds) if math.isfinite(first.per_update) else range(1)
        _, trace = repeated(plans, one.shards, seeds=seeds, keep=frozenset({"models"}))
        found = _metrics(one, trace.models[:, :, rounds - 1])
        if not math.isfinite(first.per_update):
            return found
        form = FORMS.get(first.arm, "objective")
        found[_NOISE] = np.array([noise_magnitude(made, form) for made in plans])
        facts = [arrays_of(rate_facts(one, *each)) for each in zip(part, plans, strict=True)]
        return found | {name: np.array([each[name] for each in facts]) for name in facts[0]}

    title = f"{run.data}: {first.arm}, E = {first.updates}, rho {first.rho}"
    return Portion(title, (run, part), compute)


def _write_down(found: Learned, part: tuple[Trial, ...], results: Arrays) -> None:
    """Add what the cases of a portion achieve."""
    for place, trial in enumerate(part):
        for metric in METRICS:
            found.samples[trial, metric] = results[metric][place]
        if math.isfinite(trial.per_update):
            found.noise[trial] = results[_NOISE][place]
            one = {name: values[place] for name, values in results.items()}
            found.facts[trial] = record_of(RateFacts, one)


def _metrics(one: Records, models: Float[Array, "B S L D K"]) -> dict[str, HostArray]:
    shape = models.shape[:3]
    flat = models.reshape(-1, *models.shape[3:])
    loss, error = scores(one, flat)
    clipped, _ = scores(one, one.problem.constraint.project(flat))
    near = np.mean(np.abs(np.asarray(flat)) >= _NEAR * one.box, axis=(1, 2))
    values = zip(METRICS, (loss, error, clipped, near), strict=True)
    return {name: value.reshape(shape) for name, value in values}


def rate_facts(one: Records, trial: Trial, made: Plan) -> RateFacts:
    r"""Return what (5.2b) is made of, from public facts alone.

    U_1 is (I_p / I) R sqrt(2) of the largest agent, and gamma is 2 sqrt(P) U_1. That is enough:
    with n = -sum_q grad f_q(w*), which lies in the normal cone of W at w*, the duals grad f_p(w*) +
    n / P are optimal and no longer in all than the gradients themselves, so at most sqrt(P) U_1.
    It is also enough for the mean zbar of the agents' averaged solutions z_p, F(zbar) <= sum_p
    f_p(z_p) + sqrt(P) U_1 |z - zbar|, and |z - zbar| <= |z - w| for every w: the left-hand side of
    the theorem is at least F(zbar) - F*.
    """
    agents, weight = one.shards.agents, made.schedules["weight"]
    slope = float(np.max(weight)) / agents * RECORD_NORM * math.sqrt(2)
    scale = float(np.max(weight[:, :, None] * made.ledger.scale)) / agents
    return RateFacts(
        agents=agents,
        dimension=one.size,
        local_updates=trial.updates,
        slope=slope,
        diameter=math.sqrt(agents * one.size) * 2 * one.box,
        variance=scale**2,
        per_update=trial.per_update,
        rho_first=float(made.schedules["rho"][0]) / agents,
        rho_last=float(made.schedules["rho"][-1]) / agents,
        gamma=2 * math.sqrt(agents) * slope,
    )
