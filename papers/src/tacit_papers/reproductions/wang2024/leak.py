"""Figure 9: what the links tell of an agent with one record."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tacit.algorithms import RECAL
from tacit.engine import plan, run
from tacit.network import ring, uniform_walk
from tacit.oracles import Gradient
from tacit.problems import Logistic, NoRegulariser, Problem, WholeSpace, pack, public_facts
from tacit.typing import HostArray
from tacit_papers.as_published import Setting as Printing
from tacit_papers.as_published import dp_recal, recover, unprox_none
from tacit_papers.reproductions.figure import Budget, Measured
from tacit_papers.reproductions.wang2024.published import RECAL_PRINTED, noise
from tacit_papers.reproductions.wang2024.settings import AGENTS, DELTA, EQUAL, Setting

VISITS, REPETITIONS = 12, 5


@dataclass(frozen=True, eq=False)
class Leak:
    """How far off the guesses are, by activation of the agent."""

    name: str
    budget: Budget
    visits: tuple[int, ...]
    errors: tuple[Measured, ...]


def leaks(features: Float[HostArray, "N D"], targets: Float[HostArray, " N"]) -> tuple[Leak, ...]:
    """Return the attack on RECAL without noise, DP-RECAL as published, and the sound form.

    Agent 0 of a ring has the first record; the loss is logistic, without a regulariser.
    """
    printed = [_printed(features, targets, total) for total in (math.inf, EQUAL)]
    return (*printed, _sound(features, targets))


def _printed(features: HostArray, targets: HostArray, claimed: float) -> Leak:
    def gradient(agent: int, point: HostArray) -> HostArray:
        row, y = features[agent], targets[agent]
        slope: HostArray = -y * row / (1 + np.exp(y * (row @ point)))
        return slope

    errors = []
    for seed in range(REPETITIONS):
        walk = uniform_walk(ring(AGENTS), 40 * VISITS, seed=seed)
        plf = walk.privacy_leakage_frequency
        quiet = Printing(1.0, 0.0, 1.0)
        loud = noise(RECAL_PRINTED, 1.0, 0.25, EQUAL, plf)
        setting = quiet if math.isinf(claimed) else loud
        links = dp_recal(
            gradient, lambda v: v, walk, features.shape[1], setting, variant="A", seed=seed
        )
        found = recover(links, walk, setting.alpha, unprox_none).gradients
        mine = found[np.flatnonzero(walk.holders == 0)[:VISITS]]
        errors.append(_errors(mine, features[0]))
    name = "RECAL, exact gradients" if math.isinf(claimed) else (
        f"{RECAL_PRINTED}, claims epsilon {claimed:g}"
    )  # fmt: skip
    return _leak(name, Budget(math.inf, DELTA, "messages"), errors)


def _sound(features: HostArray, targets: HostArray) -> Leak:
    """Return the same for noised gradients: the links tell the answers and no more."""
    problem = Problem(Logistic(), NoRegulariser(), WholeSpace())
    setting = Setting(EQUAL)
    owners = [np.array([agent]) for agent in range(AGENTS)]
    shards = pack(
        features[:AGENTS], targets[:AGENTS], owners, record_norm=1.0, precision="float64",
        enforce="clip",
    )  # fmt: skip
    errors = []
    for seed in range(REPETITIONS):
        walk = uniform_walk(ring(AGENTS), 40 * VISITS, seed=seed)
        made = plan(
            public_facts(problem, shards, clip=1.0), RECAL(problem),
            (Gradient(problem.loss, 1.0),), setting.terms, rounds=len(walk.holders),
            precision="float64", network=walk,
        )  # fmt: skip
        done = run(made, shards, runtime="simulate", seed=seed, keep=frozenset({"answers"}))
        hops = np.flatnonzero(walk.holders == 0)[:VISITS]
        answers = np.asarray(done.trace.records.answer)[hops, 0, 0]
        errors.append(_errors(answers, features[0]))
    return _leak("RECAL, noised gradients", setting.budget, errors)


def _errors(gradients: HostArray, record: HostArray) -> HostArray:
    """Return the error of +-g/|g| as a guess of the record, the better sign taken."""
    guesses = gradients / np.linalg.norm(gradients, axis=1, keepdims=True)
    truth = record / np.linalg.norm(record)
    both = [np.mean((sign * guesses - truth) ** 2, axis=1) for sign in (1, -1)]
    errors: HostArray = np.maximum(np.minimum(*both), 1e-33)
    return errors


def _leak(name: str, budget: Budget, errors: list[HostArray]) -> Leak:
    columns = np.array(errors).T
    places = tuple(range(1, len(columns) + 1))
    return Leak(name, budget, places, tuple(Measured.of(column) for column in columns))
