"""Figures 5, 6 and 7 and the bound of Theorem 5.4, and the orderings that they decide."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from taciturn_papers.as_published.rate_bounds import nonsmooth_bound
from taciturn_papers.reproductions.figure import (
    Budget,
    Curve,
    Figure,
    Measured,
    Panel,
    commonest_label,
    level,
    ticks,
)
from taciturn_papers.reproductions.ordering import Ordering, Pair
from taciturn_papers.reproductions.ryu2023.learning import (
    AVERAGED,
    CLIPPED_LOSS,
    ERROR,
    FORMS,
    LOSS,
    OBJ,
    OUT,
    PROJECTED,
    SCHEDULE,
    Learned,
    rhos,
)
from taciturn_papers.reproductions.ryu2023.settings import DELTA, Trial

NUMBERS = {"mnist": "Figure 5", "femnist": "Figure 6"}
FIGURE_7, BOUND = "Figure 7", "Our figure, Theorem 5.4"
NAMES = {"mnist": "MNIST", "femnist": "FEMNIST"}
_OPEN = Budget(math.inf, DELTA)
_X = "epsilon of one update, as the paper counts"


def figures(found: Sequence[Learned]) -> tuple[Figure, ...]:
    """Return the figures of all data sets."""
    each = [figure for one in found for figure in (_noise(one), _loss(one), _error(one))]
    return (*each, _rhos(found), _bounds(found))


def part_of(one: Learned, row: str) -> str:
    """Return "Figure 5, objective", say."""
    return f"{NUMBERS[one.run.data]}, {row}"


def _figure(one: Learned, row: str, question: str, shows: str, panels: Sequence[Panel]) -> Figure:
    name = part_of(one, row)
    return Figure(name, f"{name} ({NAMES[one.run.data]})", question, shows, tuple(panels))


def _noise(one: Learned) -> Figure:
    question = (
        "How much noise is added? (6.5) is the mean size of a coordinate of the noise, summed over "
        "agents and updates of a round. For ObjG it lies on the gradient, for OutG on the solution "
        "of a step, which the step size rho + 1/eta shortens: in units of the gradient, and of "
        "privacy, both have the same noise."
    )
    curves = [
        Curve(_label(trial), (one.budget(trial),), _x(one), _drawn(one, trial))
        for arm in (OBJ, OUT)
        for trial in _trials(one, arm, one.run.updates[0])
    ]
    panel = Panel("round", "noise magnitude (6.5)", tuple(curves), log_y=True)
    return _figure(
        one, "noise", question, "ObjG adds more noise than OutG, because its sensitivity is "
        "greater.", [panel],
    )  # fmt: skip


def _drawn(one: Learned, trial: Trial) -> tuple[Measured, ...]:
    """Return the expectation of (6.5) at the rounds that are drawn; nothing is sampled for it."""
    return tuple(Measured.computed(one.noise[trial][k - 1]) for k in one.rounds)


def _loss(one: Learned) -> Figure:
    question = (
        "What does privacy cost in training? The objective is the mean loss of all training "
        "records at the mean of the agents' last solutions. The first panel has the paper's "
        "budget, of one update; the second what the whole run spends, which grows with E and T. "
        "Curves of Obj and Out coincide where no weight reaches the box."
    )
    shows = (
        "the objective rises as epsilon falls; that of ObjG is below that of OutG; more local "
        "updates E lower it."
    )
    return _figure(one, "objective", question, shows, _metric(one, LOSS))


def _error(one: Learned) -> Figure:
    question = "How often is the label of a test image wrong? Axes as for the objective."
    shows = "ObjG with several local updates has a much smaller test error than the others."
    return _figure(one, "test error", question, shows, _metric(one, ERROR))


def _metric(one: Learned, metric: str) -> list[Panel]:
    run = one.run
    over = [(arm, e) for arm in FORMS for e in run.updates]
    ends = dict.fromkeys((run.updates[0], run.updates[-1]))
    by_round = [
        Curve(_label(trial), (one.budget(trial),), _x(one), one.by_round(trial, metric))
        for arm in (OBJ, OUT)
        for e in ends
        for trial in [Trial(arm, e, run.per_update[0])]
    ]
    curves = [_over(one, arm, e, metric) for arm, e in over]
    exact = [_over(one, arm, e, metric, exact=True) for arm, e in over]
    totals = [x for curve in exact for x in curve.x]
    return [
        Panel(_X, metric, (*curves, *_levels(one, metric, run.per_update)),
              ticks(run.per_update), log_x=True),
        Panel("total epsilon of the whole run", metric,
              (*exact, *_levels(one, metric, totals)), log_x=True),
        Panel("round", f"{metric}, by round", tuple(by_round)),
    ]  # fmt: skip


def _over(one: Learned, arm: str, updates: int, metric: str, *, exact: bool = False) -> Curve:
    found = _trials(one, arm, updates)
    spent = tuple(one.budget(trial) for trial in found)
    return Curve(
        f"{arm}, E = {updates} ({totals(one, found)})",
        spent,
        tuple(budget.total for budget in spent) if exact else one.run.per_update,
        tuple(one.at(trial, metric) for trial in found),
    )


def totals(one: Learned, found: Sequence[Trial]) -> str:
    """Return "total epsilon 0.4, 9 at 0.05, 1 an update"."""
    spent = ", ".join(f"{one.budget(trial).total:.3g}" for trial in found)
    each = ", ".join(f"{trial.per_update:g}" for trial in found)
    return f"total epsilon {spent} at {each} an update"


def _levels(one: Learned, metric: str, x: Sequence[float]) -> list[Curve]:
    """Return the runs without noise, and beside errors what no record is needed for."""
    lines = [
        level(f"no noise, E = {e}", one.at(Trial(OBJ, e, math.inf), metric), x, _OPEN)
        for e in one.run.updates
    ]
    return [*lines, _commonest(one, x)] if metric == ERROR else lines


def _commonest(one: Learned, x: Sequence[float]) -> Curve:
    return commonest_label(np.asarray(one.one.test.targets), x, delta=DELTA)


def _rhos(found: Sequence[Learned]) -> Figure:
    panels = []
    for one in found:
        curves = []
        for rho in rhos(one.run):
            swept = [Trial(OUT, 1, each, rho) for each in one.run.per_update]
            curves.append(
                Curve(
                    f"OutG, rho {rho}",
                    tuple(one.budget(trial) for trial in swept),
                    one.run.per_update,
                    tuple(one.at(trial, ERROR) for trial in swept),
                )
            )
        curves.append(_commonest(one, one.run.per_update))
        places = tuple(
            (trial.per_update, f"{trial.per_update:g}\n(total {one.budget(trial).total:.3g})")
            for trial in _trials(one, OUT, 1)
        )
        label = f"{NAMES[one.run.data]}: {ERROR}"
        panels.append(Panel(_X, label, tuple(curves), places, log_x=True))
    return Figure(
        FIGURE_7,
        f"{FIGURE_7}: output perturbation under other choices of rho, E = 1",
        "Is output perturbation held back by the parameter rho? (E.1) is the schedule of all other "
        "runs; beside it a hundredth of it, and constants.",
        "its test error depends on epsilon much more than on rho.",
        tuple(panels),
    )


def _bounds(found: Sequence[Learned]) -> Figure:
    return Figure(
        BOUND,
        f"{BOUND}: the bound on the expected gap",
        "Theorem 5.4 bounds the expected gap between the objective at the averaged outputs and its "
        "least value. The objective itself is drawn, which is at least the gap because losses are "
        "not below 0. How tight is the bound?",
        "the rate: gaps fall as 1 / sqrt(T), with constants that fall with E.",
        tuple(_bound(one) for one in found),
    )


def _bound(one: Learned) -> Panel:
    x, curves = _x(one), []
    ends = dict.fromkeys((one.run.per_update[0], one.run.per_update[-1]))
    for each in ends:
        trial = Trial(AVERAGED, 1, each)
        budget = (one.budget(trial),)
        curves.append(Curve(_label(trial), budget, x, one.by_round(trial, LOSS)))
        for e in dict.fromkeys((1, one.run.updates[-1])):
            label = f"bound (5.2b), E = {e}, epsilon {each:g} an update"
            spent = (one.budget(Trial(AVERAGED, e, each)),)
            curves.append(Curve(label, spent, x, bound(one, each, e), reference=True))
    label = f"{NAMES[one.run.data]}: objective, and the bound on its gap"
    return Panel("round", label, tuple(curves), log_y=True)


def bound(one: Learned, per_update: float, updates: int) -> tuple[Measured, ...]:
    """Return (5.2b) after each of the measured rounds."""
    facts = one.facts[Trial(AVERAGED, 1, per_update)]
    facts = dataclasses.replace(facts, local_updates=updates)
    return tuple(Measured.computed(nonsmooth_bound(facts, int(t))) for t in one.rounds)


def _trials(one: Learned, arm: str, updates: int) -> list[Trial]:
    return [Trial(arm, updates, each) for each in one.run.per_update]


def _label(trial: Trial) -> str:
    rho = "" if trial.rho == SCHEDULE else f", rho {trial.rho}"
    return f"{trial.arm}, E = {trial.updates}{rho}, epsilon {trial.per_update:g} an update"


def _x(one: Learned) -> tuple[float, ...]:
    return tuple(float(k) for k in one.rounds)


def orderings(found: Sequence[Learned]) -> tuple[Ordering, ...]:
    """Return the orderings of Figures 5 to 7 and of Theorem 5.4, and ours."""
    each = [
        claim
        for one in found
        for claim in (_noise_order(one), *_losses(one), *_errors(one), *_ours(one))
    ]
    return (*each, *(_rho(one) for one in found), *(_below_bound(one) for one in found))


def _noise_order(one: Learned) -> Ordering:
    def size(arm: str, each: float) -> Measured:
        return Measured.computed(one.noise[Trial(arm, one.run.updates[0], each)][-1])

    pairs = tuple(
        Pair(_where(one.run.updates[0], each), (OUT, size(OUT, each)), (OBJ, size(OBJ, each)))
        for each in one.run.per_update
    )
    return Ordering(part_of(one, "noise"), "ObjG adds more noise (6.5) than OutG", pairs)


def _losses(one: Learned) -> list[Ordering]:
    part, run = part_of(one, "objective"), one.run
    at = partial(_named, one, LOSS)
    falling = tuple(
        Pair(f"{arm}, E = {e}", at(f"epsilon {more:g}", arm, e, more),
             at(f"epsilon {less:g}", arm, e, less))
        for arm in (OBJ, OUT)
        for e in run.updates
        for less, more in pairwise(run.per_update)
    )  # fmt: skip
    updates = tuple(
        Pair(f"{OBJ}, epsilon {each:g} an update", at(f"E = {many}", OBJ, many, each),
             at(f"E = {few}", OBJ, few, each))
        for each in run.per_update
        for few, many in pairwise(run.updates)
    )  # fmt: skip
    return [
        Ordering(part, "the smaller epsilon, the larger the objective", falling),
        Ordering(part, "the objective of ObjG is below that of OutG",
                 _against(one, OUT, LOSS, LOSS)),
        Ordering(part, "more local updates, smaller objective of ObjG (at a larger total epsilon)",
                 updates),
    ]  # fmt: skip


def _errors(one: Learned) -> list[Ordering]:
    run = one.run
    rivals = [(OUT, e) for e in run.updates] + [(OBJ, run.updates[0])]
    at = partial(_named, one, ERROR)
    pairs = tuple(
        Pair(f"epsilon {each:g} an update", at(f"{OBJ}, E = {many}", OBJ, many, each),
             at(f"{arm}, E = {e}", arm, e, each))
        for each in run.per_update
        for many in run.updates[1:]
        for arm, e in rivals
    )  # fmt: skip
    claim = "ObjG with several local updates has a smaller test error than OutG, or ObjG with one"
    return [Ordering(part_of(one, "test error"), claim, pairs)]


def _ours(one: Learned) -> list[Ordering]:
    """Return what objective perturbation owes to feasible releases alone."""
    part = part_of(one, "objective")
    return [
        Ordering(part, "at equal gradient noise: ObjG is below OutG that projects after every "
                 "noise", _against(one, PROJECTED, LOSS, LOSS), "ours"),
        Ordering(part, "at equal gradient noise: ObjG is below OutG whose release is projected "
                 "once", _against(one, OUT, LOSS, CLIPPED_LOSS), "ours"),
    ]  # fmt: skip


def _against(one: Learned, rival: str, metric: str, theirs: str) -> tuple[Pair, ...]:
    return tuple(
        Pair(_where(e, each), _named(one, metric, OBJ, OBJ, e, each),
             _named(one, theirs, rival, rival, e, each))
        for e in one.run.updates
        for each in one.run.per_update
    )  # fmt: skip


def _named(
    one: Learned, metric: str, name: str, arm: str, updates: int, per_update: float
) -> tuple[str, Measured]:
    return name, one.at(Trial(arm, updates, per_update), metric)


def _rho(one: Learned) -> Ordering:
    run = one.run
    table = [[one.at(Trial(OUT, 1, each, rho), ERROR) for each in run.per_update]
             for rho in rhos(run)]  # fmt: skip
    across_rho = max(_range([row[k] for row in table]) for k in range(len(run.per_update)))
    across_epsilon = min(_range(row) for row in table)
    pair = Pair(
        NAMES[run.data],
        ("largest difference among rhos, at one epsilon", Measured.computed(across_rho)),
        ("least difference among epsilons, at one rho", Measured.computed(across_epsilon)),
    )
    claim = f"{NAMES[run.data]}: the test error of OutG depends less on rho than on epsilon"
    return Ordering(FIGURE_7, claim, (pair,))


def _range(values: list[Measured]) -> float:
    means = [value.mean for value in values]
    return max(means) - min(means)


def _below_bound(one: Learned) -> Ordering:
    pairs = tuple(
        Pair(
            f"epsilon {each:g} an update, after {one.run.rounds} rounds",
            ("objective, at least the gap", one.at(Trial(AVERAGED, 1, each), LOSS)),
            ("bound (5.2b)", bound(one, each, 1)[-1]),
        )
        for each in one.run.per_update
    )
    return Ordering(BOUND, f"{NAMES[one.run.data]}: the gap is below the bound", pairs)


def _where(updates: int, each: float) -> str:
    return f"E = {updates}, epsilon {each:g} an update"
