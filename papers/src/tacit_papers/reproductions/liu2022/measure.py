"""Plans at equal totals, runs, and what is measured of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.engine import Plan, Terms, plan
from tacit.privacy import Adjacency, Messages, ReplaceOne
from tacit.problems import NoRegulariser, Problem, WholeSpace, public_facts
from tacit_papers.reproductions.arms import repeated
from tacit_papers.reproductions.figure import Measured
from tacit_papers.reproductions.liu2022.cases import Case
from tacit_papers.reproductions.liu2022.methods import Method
from tacit_papers.reproductions.liu2022.settings import CLIP, DELTA, Setting


@dataclass(frozen=True)
class Scores:
    """Objective gap and test error over the seeds, at one budget."""

    gap: Measured
    error: Measured


@dataclass(frozen=True)
class Scored:
    """A method on one case: its scores, and the noise multipliers, one for each budget."""

    scores: tuple[Scores, ...]
    multipliers: tuple[float, ...]


Known = Mapping[str, tuple[float, ...]]


def scored(case: Case, method: Method, setting: Setting, known: Known) -> Scored:
    """Return a method's scores at every budget, all budgets and seeds as one compiled program.

    Parameters
    ----------
    known
        Multipliers of methods that were measured before, by what they ask.
    """
    plans = planned(case, method, setting, known)
    seeds = range(setting.seeds)
    models = np.asarray(repeated(plans, case.train, seeds=seeds, keep=frozenset())[0], np.float64)
    scores = tuple(
        Scores(Measured.of(case.gaps(each)), Measured.of(case.errors(each))) for each in models
    )
    return Scored(scores, tuple(made.multiplier for made in plans))


def planned(case: Case, method: Method, setting: Setting, known: Known) -> list[Plan]:
    """Return a plan for every budget, delta 5e-4, replace-one; for a reference one without noise.

    A multiplier that is known spares the search for it; the certificate is computed afresh.
    """
    clip = math.inf if method.reference else CLIP
    algorithm, oracles, rounds = method.made(case, setting.epochs, clip)
    bare = Problem(case.problem.loss, NoRegulariser(), WholeSpace())
    facts = public_facts(bare, case.train, clip=clip)
    budgets = (math.inf,) if method.reference else setting.budgets
    found: Sequence[float | None] = (None,) * len(budgets)
    if not method.reference:
        found = known.get(method.asks, found)
    return [
        plan(
            facts,
            algorithm,
            oracles,
            Terms(budget, DELTA, Adjacency(ReplaceOne(), "record"), Messages()),
            rounds=rounds,
            precision="float32",
            multiplier=multiplier,
        )
        for budget, multiplier in zip(budgets, found, strict=True)
    ]
