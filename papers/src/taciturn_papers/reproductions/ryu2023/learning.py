"""Federated learning under noise: every arm at every budget, with what it spends and achieves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from taciturn.typing import HostArray
from taciturn_papers.as_published.rate_bounds import RateFacts
from taciturn_papers.reproductions.figure import Budget
from taciturn_papers.reproductions.portions import Portion, Results, Work
from taciturn_papers.reproductions.ryu2023.federated import (
    Records,
    budget_of,
    noise_magnitude,
    noise_scale,
    rho_of,
    schedules,
    scores,
    simulated,
)
from taciturn_papers.reproductions.ryu2023.settings import (
    OBJ,
    OUT,
    PROJECTED,
    Learning,
    Sampled,
    Trial,
)

AVERAGED = "ObjG, averaged"
LOSS, ERROR = "objective", "test error, %"
CLIPPED_LOSS, AT_BOX = "objective of the projected release", "share of weights at the box"
METRICS = (LOSS, ERROR, CLIPPED_LOSS, AT_BOX)
_NEAR = 0.99  # of the box: a mean over agents counts as lying on it from here on
_PAPERS = {"mnist": "MNIST", "femnist": "FEMNIST"}


@dataclass(frozen=True)
class Learned(Sampled):
    """What was measured on one data set.

    Attributes
    ----------
    rounds
        `(L,)`: after how many rounds the metrics were measured.
    samples
        By trial and metric: `(S, L)`, one row for each repetition.
    """

    run: Learning
    one: Records
    rounds: Int[HostArray, " L"]
    samples: dict[tuple[Trial, str], Float[HostArray, "S L"]]

    @property
    def name(self) -> str:
        """MNIST or FEMNIST, or the name of a file."""
        data = self.run.data
        return _PAPERS.get(data, Path(data.rpartition(":")[0] or data).name)

    @property
    def rivals(self) -> list[tuple[str, str]]:
        """Obj and Out with the same law, as many as were run."""
        both = [(f"Obj{law}", f"Out{law}") for law in "GL"]
        return [pair for pair in both if {*pair} <= {*self.run.arms}]

    def budget(self, trial: Trial) -> Budget:
        """Return what a run of this trial spends in all."""
        return budget_of(self.run, trial)

    def noise(self, trial: Trial) -> Float[HostArray, " T"]:
        """Return (6.5) in every round."""
        return noise_magnitude(self.run, self.one, trial)

    def facts(self, trial: Trial) -> RateFacts:
        """Return what the bound (5.2b) is made of."""
        return rate_facts(self.run, self.one, trial)


Case = tuple[tuple[str, ...], tuple[Trial, ...]]


def cases(run: Learning) -> list[Case]:
    """Return trials that differ in epsilon alone, each time with the arms that they are run for."""
    few, first = run.updates[0], run.arms[0]

    def noised(e: int, **named: Any) -> tuple[Trial, ...]:
        return tuple(Trial(first, e, each, **named) for each in run.per_update)

    found: list[Case] = []
    for e in run.updates:
        found.append((tuple(a for a in run.arms if a != PROJECTED or e == few), noised(e)))
        found.append(((first,), (Trial(first, e, math.inf),)))
    for rho in list(schedules(run))[0 if OUT not in run.arms else 1 :]:
        found.append(((OUT,), noised(few, rho=rho)))
    if run.binding_box:
        found.append((run.arms, noised(few, box=run.binding_box)))
    return found


def learned(run: Learning, one: Records) -> Work[Learned]:
    """Return the measurements of one data set."""
    looks = np.unique(np.geomspace(1, run.rounds, run.looks).round().astype(int))

    def portion(arms: tuple[str, ...], trials: tuple[Trial, ...]) -> Portion:
        first = trials[0]
        where = f"rho {first.rho}" if first.box is None else f"box {first.box:g}"
        noise = "" if math.isfinite(first.per_update) else ", no noise"
        title = f"{run.data}: {', '.join(arms)}, E = {first.updates}, {where}{noise}"
        runs = partial(_measured, run, one, looks, arms, trials)
        return Portion(title, (run, arms, trials), runs)

    def whole(results: Results) -> Learned:
        samples = {}
        for arms, trials in cases(run):
            for name, values in results[run, arms, trials].items():
                arm, _, metric = name.partition("/")
                for trial, rows in zip(trials, values, strict=True):
                    samples[trial._replace(arm=arm), metric] = rows
        return Learned(run, one, looks, samples)

    return Work(tuple(portion(*case) for case in cases(run)), whole)


def _measured(
    run: Learning, one: Records, looks: HostArray, arms: tuple[str, ...], trials: tuple[Trial, ...]
) -> dict[str, HostArray]:
    """Return every metric, `(B, S, L)`, by arm and metric.

    Where no constraint acted in the runs of the first arm, other arms with the same law are those
    runs, noise for noise, and are not run again.
    """
    found: dict[str, HostArray] = {}
    done: dict[str, tuple[dict[str, HostArray], HostArray]] = {}  # by law
    for arm in arms:
        law = arm.removesuffix(PROJECTED[4:])[-1]
        known, free = done.get(law, ({}, np.zeros(len(trials), bool)))
        left = [trial._replace(arm=arm) for trial, f in zip(trials, free, strict=True) if not f]
        values = {metric: rows.copy() for metric, rows in known.items()}
        if left:
            new, unconstrained = _runs(run, one, looks, left)
            values = values or new
            for metric, rows in new.items():
                if metric in values:
                    values[metric][~free] = rows
            done.setdefault(law, (new, unconstrained))
        found |= {f"{arm}/{metric}": values[metric] for metric in METRICS}
        if arm == OBJ:
            found[f"{AVERAGED}/{LOSS}"] = values[AVERAGED]
    return found


def _runs(
    run: Learning, one: Records, looks: HostArray, trials: Sequence[Trial]
) -> tuple[dict[str, HostArray], HostArray]:
    """Return every metric of one arm, `(B, S, L)`, and in which trials no constraint acted."""
    seeds = run.seeds if math.isfinite(trials[0].per_update) else 1
    width = trials[0].box or min(run.box)
    rows: dict[str, list[HostArray]] = {metric: [] for metric in (*METRICS, AVERAGED)}
    average, free = np.zeros((), np.float32), np.zeros(0, bool)
    for t, done in enumerate(simulated(run, one, trials, seeds), 1):
        average = average + (done.asked.mean(axis=0) - average) / np.float32(t)  # (5.2c)
        free = np.asarray(done.free.reshape(len(trials), seeds).all(axis=1))
        if t in looks:
            values = _metrics(one, done.solutions.mean(axis=0), width)
            values[AVERAGED] = scores(one, average)[0]
            for metric, each in values.items():
                rows[metric].append(each.reshape(len(trials), seeds))
    return {metric: np.stack(each, axis=2) for metric, each in rows.items()}, free


def _metrics(one: Records, model: HostArray, width: float) -> dict[str, HostArray]:
    """Return the metrics of releases `(J, R, K)`; one is projected into the narrowest set."""
    loss, error = scores(one, model)
    clipped = np.clip(model, -width, width)
    within = loss if np.array_equal(clipped, model) else scores(one, clipped)[0]
    near = np.mean(np.abs(model) >= _NEAR * width, axis=(0, 2))
    return dict(zip(METRICS, (loss, error, within, near), strict=True))


def rate_facts(run: Learning, one: Records, trial: Trial) -> RateFacts:
    r"""Return what (5.2b) is made of, from public facts alone.

    U_1 is (I_p / I) R sqrt(2) of the largest agent, and gamma is 2 sqrt(P) U_1. That is enough:
    with n = -sum_q grad f_q(w*), which lies in the normal cone of W at w*, the duals grad f_p(w*) +
    n / P are optimal and no longer in all than the gradients themselves, so at most sqrt(P) U_1.
    It is also enough for the mean zbar of the agents' averaged solutions z_p, F(zbar) <= sum_p
    f_p(z_p) + sqrt(P) U_1 |z - zbar|, and |z - zbar| <= |z - w| for every w: the left-hand side of
    the theorem is at least F(zbar) - F*.
    """
    agents, rho = len(one.counts), rho_of(run, trial)
    slope = max(one.counts) / one.total * run.record_norm * math.sqrt(2)
    size = math.prod(one.shape)
    return RateFacts(
        agents=agents,
        dimension=size,
        local_updates=trial.updates,
        slope=slope,
        diameter=math.sqrt(agents * size) * 2 * max(run.box),
        variance=noise_scale(run, one, trial) ** 2,
        per_update=trial.per_update,
        rho_first=float(rho[0]),
        rho_last=float(rho[-1]),
        gamma=2 * math.sqrt(agents) * slope,
    )
