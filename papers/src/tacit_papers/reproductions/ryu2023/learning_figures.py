"""Figures 5, 6 and 7, and the bound of Theorem 5.4 beside what was measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tacit_papers.as_published import nonsmooth_bound
from tacit_papers.reproductions.figure import Budget, Curve, Figure, Measured, Panel
from tacit_papers.reproductions.ryu2023.learning import (
    ARMS,
    AVERAGED,
    ERROR,
    LOSS,
    OBJ,
    OUT,
    SCHEDULE,
    Case,
    Learned,
    rhos,
)
from tacit_papers.reproductions.ryu2023.settings import DELTA

NUMBERS = {"mnist": "Figure 5", "femnist": "Figure 6"}
FIGURE_7, BOUND = "Figure 7", "Our figure, Theorem 5.4"
NAMES = {"mnist": "MNIST", "femnist": "FEMNIST"}
_OPEN = Budget(math.inf, DELTA, "messages")
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
        Curve(_label(case), (one.budget(case),), _x(one), _drawn(one, case))
        for arm in (OBJ, OUT)
        for case in _cases(one, arm, one.run.updates[0])
    ]
    panel = Panel("round", "noise magnitude (6.5)", tuple(curves), log_y=True)
    return _figure(
        one, "noise", question, "ObjG adds more noise than OutG, because its sensitivity is "
        "greater.", [panel],
    )  # fmt: skip


def _drawn(one: Learned, case: Case) -> tuple[Measured, ...]:
    """Return the expectation of (6.5) at the rounds that are drawn; nothing is sampled for it."""
    return tuple(Measured.computed(one.noise[case][k - 1]) for k in one.rounds)


def _loss(one: Learned) -> Figure:
    question = (
        "What does privacy cost in training? The objective is the mean loss of all training "
        "records at the mean of the agents' last solutions. On the left the budget is the paper's, "
        "for one update; on the right it is what the whole run spends, which grows with E and T. "
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
    over = [(arm, e) for arm in ARMS for e in run.updates]
    each = tuple((x, f"{x:g}") for x in run.per_update)
    ends = dict.fromkeys((run.updates[0], run.updates[-1]))
    by_round = [
        Curve(_label(case), (one.budget(case),), _x(one), one.by_round(case, metric))
        for arm in (OBJ, OUT)
        for e in ends
        for case in [Case(arm, e, run.per_update[0])]
    ]
    curves = [_over(one, arm, e, metric) for arm, e in over]
    exact = [_over(one, arm, e, metric, exact=True) for arm, e in over]
    totals = [x for curve in exact for x in curve.x]
    return [
        Panel(_X, metric, (*curves, *_quiet(one, metric, run.per_update)), each, log_x=True),
        Panel("total epsilon of the whole run", metric,
              (*exact, *_quiet(one, metric, (min(totals), max(totals)))), log_x=True),
        Panel("round", f"{metric}, by round", tuple(by_round)),
    ]  # fmt: skip


def _over(one: Learned, arm: str, updates: int, metric: str, *, exact: bool = False) -> Curve:
    found = _cases(one, arm, updates)
    spent = tuple(one.budget(case) for case in found)
    return Curve(
        f"{arm}, E = {updates} ({totals(one, found)})",
        spent,
        tuple(budget.total for budget in spent) if exact else one.run.per_update,
        tuple(one.at(case, metric) for case in found),
    )


def totals(one: Learned, found: Sequence[Case]) -> str:
    """Return "total epsilon 0.4, 9 at 0.05, 1 an update"."""
    spent = ", ".join(f"{one.budget(case).total:.3g}" for case in found)
    each = ", ".join(f"{case.per_update:g}" for case in found)
    return f"total epsilon {spent} at {each} an update"


def _quiet(one: Learned, metric: str, x: Sequence[float]) -> list[Curve]:
    """Return the references without noise."""
    ends = (min(x), max(x))
    levels = [(e, one.at(Case(OBJ, e, math.inf), metric)) for e in one.run.updates]
    return [
        Curve(f"no noise, E = {e}", (_OPEN,), ends, (level, level), reference=True)
        for e, level in levels
    ]


def _rhos(found: Sequence[Learned]) -> Figure:
    panels = []
    for one in found:
        curves = []
        for rho in rhos(one.run):
            cases = [Case(OUT, 1, each, rho) for each in one.run.per_update]
            curves.append(
                Curve(
                    f"OutG, rho {rho}",
                    tuple(one.budget(case) for case in cases),
                    one.run.per_update,
                    tuple(one.at(case, ERROR) for case in cases),
                )
            )
        ticks = tuple(
            (case.per_update, f"{case.per_update:g}\n(total {one.budget(case).total:.3g})")
            for case in _cases(one, OUT, 1)
        )
        label = f"{NAMES[one.run.data]}: {ERROR}"
        panels.append(Panel(_X, label, tuple(curves), ticks, log_x=True))
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
        case = Case(AVERAGED, 1, each)
        budget = (one.budget(case),)
        curves.append(Curve(_label(case), budget, x, one.by_round(case, LOSS)))
        for e in dict.fromkeys((1, one.run.updates[-1])):
            label = f"bound (5.2b), E = {e}, epsilon {each:g} an update"
            spent = (one.budget(Case(AVERAGED, e, each)),)
            curves.append(Curve(label, spent, x, bound(one, each, e), reference=True))
    label = f"{NAMES[one.run.data]}: objective, and the bound on its gap"
    return Panel("round", label, tuple(curves), log_y=True)


def bound(one: Learned, per_update: float, updates: int) -> tuple[Measured, ...]:
    """Return (5.2b) after each of the measured rounds."""
    facts = one.facts[Case(AVERAGED, 1, per_update)]
    facts = dataclasses.replace(facts, local_updates=updates)
    return tuple(Measured.computed(nonsmooth_bound(facts, int(t))) for t in one.rounds)


def _cases(one: Learned, arm: str, updates: int) -> list[Case]:
    return [Case(arm, updates, each) for each in one.run.per_update]


def _label(case: Case) -> str:
    rho = "" if case.rho == SCHEDULE else f", rho {case.rho}"
    return f"{case.arm}, E = {case.updates}{rho}, epsilon {case.per_update:g} an update"


def _x(one: Learned) -> tuple[float, ...]:
    return tuple(float(k) for k in one.rounds)
