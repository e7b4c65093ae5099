"""Runs of the sound methods, and what is measured of them."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacit.engine import Plan, run
from tacit.problems import Problem
from tacit.typing import HostArray
from tacit_papers.reproductions.figure import Measured
from tacit_papers.reproductions.wang2024.methods import METHODS
from tacit_papers.reproductions.wang2024.settings import Scale, Setting
from tacit_papers.reproductions.wang2024.tasks import Task, above, distances, errors

POINTS = 24


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was measured of one method on one task, over R repetitions.

    Attributes
    ----------
    sent
        `(K,)`: thousands of vectors sent at the K looks; of a central run as if it were a star.
    relative, wrong
        `(R, K)`: relative error, and test error in per cent.
    norms, gaps
        `(R,)`: of the last model, |x| and how far its objective is above the optimum.
    plf
        How often the agent asked most was asked, by repetition.
    seconds
        Of the last run, compilation included if there was only one.
    per_agent
        Exact epsilon of each agent in the first repetition.
    """

    sent: Float[HostArray, " K"]
    relative: Float[HostArray, "R K"]
    wrong: Float[HostArray, "R K"]
    norms: Float[HostArray, " R"]
    gaps: Float[HostArray, " R"]
    plf: tuple[int, ...]
    messages: int
    seconds: float
    per_agent: tuple[float, ...]

    def last(self, what: str) -> Measured:
        """Return the mean and spread of "relative" or "wrong" at the end."""
        values = {"relative": self.relative, "wrong": self.wrong}[what]
        return Measured.of(values[:, -1])

    def course(self, what: str) -> tuple[Measured, ...]:
        """Return them at every look."""
        values = {"relative": self.relative, "wrong": self.wrong}[what]
        return tuple(Measured.of(column) for column in values.T)


def trial(task: Task, problem: Problem, name: str, setting: Setting, scale: Scale) -> Outcome:
    """Return what a method achieves; repetition r draws its walk and its noise from seed r."""
    method = METHODS[name]
    rounds = method.rounds(scale)
    looks = np.unique(np.linspace(0, rounds - 1, min(POINTS, rounds)).astype(int))
    relative, wrong, norms, gaps, plf = [], [], [], [], []
    seconds = 0.0
    per_agent: tuple[float, ...] = ()
    for seed in range(scale.repetitions):
        made = method.plan(task, problem, setting, scale, seed=seed)
        done = run(
            made, task.whole if method.central else task.shards, runtime="simulate", seed=seed,
            keep=frozenset({"models"}),
        )  # fmt: skip
        models = np.asarray(done.trace.models)[looks]
        relative.append(distances(task, models))
        wrong.append(np.asarray(errors(task.test, jnp.asarray(models))))
        norms.append(float(np.linalg.norm(done.model)))
        gaps.append(above(task, problem, done.model))
        plf.append(most_asked(made))
        seconds = done.seconds
        per_agent = per_agent or tuple(made.certificate.per_agent_epsilon or ())
    return Outcome(
        sent=(looks + 1) * method.vectors / 1000,
        relative=np.array(relative),
        wrong=np.array(wrong),
        norms=np.array(norms),
        gaps=np.array(gaps),
        plf=tuple(plf),
        messages=rounds * method.messages,
        seconds=seconds,
        per_agent=per_agent,
    )


def most_asked(made: Plan) -> int:
    """Return the number of answers of the agent who gives most."""
    return int(np.max(np.sum(made.ledger.asked, axis=(1, 2))))
