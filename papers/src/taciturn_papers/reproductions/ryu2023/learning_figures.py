"""Figures 5, 6 and 7 and the bound of Theorem 5.4, and the orderings that they decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

from taciturn_papers.as_published.rate_bounds import nonsmooth_bound
from taciturn_papers.reproductions.figure import (
    Curve,
    Figure,
    Measured,
    Panel,
    commonest_label,
    level,
    listed,
    ticks,
)
from taciturn_papers.reproductions.ordering import Ordering, Pair
from taciturn_papers.reproductions.ryu2023.federated import schedules
from taciturn_papers.reproductions.ryu2023.learning import (
    AVERAGED,
    CLIPPED_LOSS,
    ERROR,
    LOSS,
    Learned,
)
from taciturn_papers.reproductions.ryu2023.settings import OBJ, OUT, PROJECTED, Trial

NUMBERS = {"mnist": "Figure 5", "femnist": "Figure 6"}
FIGURE_7, BOUND = "Figure 7", "Our figure, Theorem 5.4"
_X = "epsilon of one update, as the paper counts"


def figures(found: Sequence[Learned]) -> tuple[Figure, ...]:
    """Return the figures of all data sets."""
    each = [figure for one in found for figure in (_noise(one), _loss(one), _error(one))]
    bounded = [one for one in found if OBJ in one.run.arms]
    return (*each, _rhos(found), *([_bounds(bounded)] if bounded else []))


def part_of(one: Learned, row: str) -> str:
    """Return "Figure 5, objective", say."""
    return f"{NUMBERS.get(one.run.data, f'Our figure, {one.name}')}, {row}"


def _figure(one: Learned, row: str, question: str, shows: str, panels: Sequence[Panel]) -> Figure:
    name = part_of(one, row)
    return Figure(name, f"{name} ({one.name})", question, shows, tuple(panels))


def _noise(one: Learned) -> Figure:
    question = (
        "How much noise is added? (6.5) is the mean size of a coordinate of the noise, summed over "
        "agents and updates of a round. For ObjG it lies on the gradient, for OutG on the solution "
        "of a step, which the step size rho + 1/eta shortens: in units of the gradient, and of "
        "privacy, both have the same noise."
    )
    curves = [
        Curve(_label(trial), (one.budget(trial),), _x(one), _drawn(one, trial))
        for arm in _plain(one)
        for trial in _trials(one, arm, one.run.updates[0])
    ]
    panel = Panel("round", "noise magnitude (6.5)", tuple(curves), log_y=True)
    return _figure(
        one, "noise", question, "ObjG adds more noise than OutG, because its sensitivity is "
        "greater.", [panel],
    )  # fmt: skip


def _drawn(one: Learned, trial: Trial) -> tuple[Measured, ...]:
    """Return the expectation of (6.5) at the rounds that are drawn; nothing is sampled for it."""
    return tuple(Measured.computed(one.noise(trial)[k - 1]) for k in one.rounds)


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
    over = [(arm, e) for arm in _plain(one) for e in run.updates]
    over += [(PROJECTED, run.updates[0])] if PROJECTED in run.arms else []
    ends = dict.fromkeys((run.updates[0], run.updates[-1]))
    by_round = [
        Curve(_label(trial), (one.budget(trial),), _x(one), one.by_round(trial, metric))
        for arm in _plain(one)
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
        level(f"no noise, E = {e}", one.at(quiet, metric), x, one.budget(quiet))
        for e in one.run.updates
        for quiet in [Trial(one.run.arms[0], e, math.inf)]
    ]
    return [*lines, _commonest(one, x)] if metric == ERROR else lines


def _commonest(one: Learned, x: Sequence[float]) -> Curve:
    return commonest_label(one.one.test_labels, x, delta=one.run.delta)


def _rhos(found: Sequence[Learned]) -> Figure:
    panels = []
    for one in found:
        curves = []
        for rho in schedules(one.run):
            swept = [Trial(OUT, one.run.updates[0], each, rho) for each in one.run.per_update]
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
            for trial in _trials(one, OUT, one.run.updates[0])
        )
        label = f"{one.name}: {ERROR}"
        panels.append(Panel(_X, label, tuple(curves), places, log_x=True))
    return Figure(
        FIGURE_7,
        f"{FIGURE_7}: output perturbation under other choices of rho",
        "Is output perturbation held back by the parameter rho? (E.1) is the schedule of all other "
        "runs; beside it stand a hundredth of it and constants, at the least E.",
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
    few = one.run.updates[0]
    for each in ends:
        trial = Trial(AVERAGED, few, each)
        budget = (one.budget(trial),)
        curves.append(Curve(_label(trial), budget, x, one.by_round(trial, LOSS)))
        for e in dict.fromkeys((few, one.run.updates[-1])):
            label = f"bound (5.2b), E = {e}, epsilon {each:g} an update"
            spent = (one.budget(Trial(AVERAGED, e, each)),)
            curves.append(Curve(label, spent, x, bound(one, each, e), reference=True))
    label = f"{one.name}: objective, and the bound on its gap"
    return Panel("round", label, tuple(curves), log_y=True)


def bound(one: Learned, per_update: float, updates: int) -> tuple[Measured, ...]:
    """Return (5.2b) after each of the measured rounds."""
    facts = one.facts(Trial(AVERAGED, updates, per_update))
    return tuple(Measured.computed(nonsmooth_bound(facts, int(t))) for t in one.rounds)


def _plain(one: Learned) -> list[str]:
    return [arm for arm in one.run.arms if arm != PROJECTED]


def _trials(one: Learned, arm: str, updates: int) -> list[Trial]:
    return [Trial(arm, updates, each) for each in one.run.per_update]


def _label(trial: Trial) -> str:
    rho = "" if trial.rho == "(E.1)" else f", rho {trial.rho}"
    return f"{trial.arm}, E = {trial.updates}{rho}, epsilon {trial.per_update:g} an update"


def _x(one: Learned) -> tuple[float, ...]:
    return tuple(float(k) for k in one.rounds)


def orderings(found: Sequence[Learned]) -> tuple[Ordering, ...]:
    """Return the orderings of Figures 5 to 7 and of Theorem 5.4, and ours."""
    each = [claim for one in found for claim in (*_noise_order(one), *_losses(one), *_ours(one))]
    bounds = [_below_bound(one) for one in found if OBJ in one.run.arms]
    return (*each, *(_rho(one) for one in found), *bounds)


def _noise_order(one: Learned) -> list[Ordering]:
    few = one.run.updates[0]

    def size(arm: str, each: float) -> tuple[str, Measured]:
        return arm, Measured.computed(one.noise(Trial(arm, few, each))[-1])

    pairs = tuple(
        Pair(_where(few, each), size(out, each), size(obj, each))
        for obj, out in one.rivals
        for each in one.run.per_update
    )
    return _claimed(part_of(one, "noise"), "ObjG adds more noise (6.5) than OutG", pairs)


def _claimed(
    part: str, claim: str, pairs: tuple[Pair, ...], whose: Literal["paper", "ours"] = "paper"
) -> list[Ordering]:
    """Return the claim, if what it compares was run."""
    return [Ordering(part, claim, pairs, whose)] if pairs else []


def _losses(one: Learned) -> list[Ordering]:
    run = one.run
    at = partial(_named, one)
    falling = tuple(
        Pair(f"{arm}, E = {e}", at(LOSS, f"epsilon {more:g}", Trial(arm, e, more)),
             at(LOSS, f"epsilon {less:g}", Trial(arm, e, less)))
        for arm in _plain(one)
        for e in run.updates
        for less, more in pairwise(run.per_update)
    )  # fmt: skip
    updates = tuple(
        Pair(f"{obj}, epsilon {each:g} an update", at(LOSS, f"E = {many}", Trial(obj, many, each)),
             at(LOSS, f"E = {few}", Trial(obj, few, each)))
        for obj in _plain(one) if obj.startswith("Obj")
        for each in run.per_update
        for few, many in pairwise(run.updates)
    )  # fmt: skip
    errors = tuple(
        Pair(f"epsilon {each:g} an update", at(ERROR, f"{obj}, E = {many}", Trial(obj, many, each)),
             at(ERROR, f"{arm}, E = {e}", Trial(arm, e, each)))
        for obj, out in one.rivals
        for each in run.per_update
        for many in run.updates[1:]
        for arm, e in [*((out, e) for e in run.updates), (obj, run.updates[0])]
    )  # fmt: skip
    part = part_of(one, "objective")
    return [
        *_claimed(part, "the smaller epsilon, the larger the objective", falling),
        *_claimed(part, "the objective of ObjG is below that of OutG",
                  _against(one, one.rivals, LOSS)),
        *_claimed(part, "more local updates, smaller objective of ObjG (at a larger total epsilon)",
                  updates),
        *_claimed(part_of(one, "test error"), "ObjG with several local updates has a smaller test "
                  "error than OutG, or ObjG with one", errors),
    ]  # fmt: skip


def _ours(one: Learned) -> list[Ordering]:
    """Return what objective perturbation owes to feasible releases alone."""
    part = part_of(one, "objective")
    projected = [(OBJ, PROJECTED)] if {OBJ, PROJECTED} <= {*one.run.arms} else []
    return [
        *_claimed(part, "at equal gradient noise: ObjG is below OutG that projects after every "
                  "noise", _against(one, projected, LOSS), "ours"),
        *_claimed(part, "at equal gradient noise: ObjG is below OutG whose release is projected "
                  "once", _against(one, one.rivals, CLIPPED_LOSS), "ours"),
    ]  # fmt: skip


def _against(
    one: Learned, rivals: Sequence[tuple[str, str]], theirs: str
) -> tuple[Pair, ...]:  # fmt: skip
    """Return the comparisons within the sets of the run, and within a box that binds."""
    run, found = one.run, []
    boxes = {f"u = {listed(run.box)}": None, f"u = {run.binding_box}": run.binding_box}
    for reading, box in list(boxes.items())[: 1 + bool(run.binding_box)]:
        for mine, rival in rivals:
            few = box is not None or rival == PROJECTED
            for e in run.updates[:1] if few else run.updates:
                for each in run.per_update:
                    both = [Trial(arm, e, each, box=box) for arm in (mine, rival)]
                    found.append(
                        Pair(_where(e, each), _named(one, LOSS, mine, both[0]),
                             _named(one, theirs, rival, both[1]), reading)
                    )  # fmt: skip
    return tuple(found)


def _named(one: Learned, metric: str, name: str, trial: Trial) -> tuple[str, Measured]:
    return name, one.at(trial, metric)


def _rho(one: Learned) -> Ordering:
    """Return the claim of Figure 7, from the two differences within each repetition."""
    run = one.run
    errors = np.array([[one.at(Trial(OUT, run.updates[0], each, rho), ERROR).values
                        for each in run.per_update] for rho in schedules(run)])  # fmt: skip
    across_rho = np.max(np.ptp(errors, axis=0), axis=0)
    across_epsilon = np.min(np.ptp(errors, axis=1), axis=0)
    pair = Pair(
        one.name,
        ("largest difference among rhos, at one epsilon", Measured.of(across_rho)),
        ("least difference among epsilons, at one rho", Measured.of(across_epsilon)),
    )
    claim = f"{one.name}: the test error of OutG depends less on rho than on epsilon"
    return Ordering(FIGURE_7, claim, (pair,))


def _below_bound(one: Learned) -> Ordering:
    few = one.run.updates[0]
    pairs = tuple(
        Pair(
            f"epsilon {each:g} an update, after {one.run.rounds} rounds",
            ("objective, at least the gap", one.at(Trial(AVERAGED, few, each), LOSS)),
            ("bound (5.2b)", bound(one, each, few)[-1]),
        )
        for each in one.run.per_update
    )
    return Ordering(BOUND, f"{one.name}: the gap is below the bound", pairs)


def _where(updates: int, each: float) -> str:
    return f"E = {updates}, epsilon {each:g} an update"
