"""Figures 3 and 4, Table 1 and our questions, and the orderings that they decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from taciturn.kernel.privacy import epsilon_of
from taciturn_papers.reproductions.figure import (
    Curve,
    Figure,
    Measured,
    Panel,
    Table,
    level,
    ticks,
)
from taciturn_papers.reproductions.ordering import Ordering, Pair, below
from taciturn_papers.reproductions.ryu2023.power_flow import (
    APART,
    ASKED,
    ATTACK,
    DEMAND,
    GRADIENT,
    LAST_GRADIENT,
    LAST_RESIDUAL,
    NOISE,
    OBJECTIVE,
    PATIENT,
    PLACED,
    RESIDUAL,
    Answered,
    Published,
    published_scale,
    variance,
)
from taciturn_papers.reproductions.ryu2023.settings import PER_UPDATE, Trial, multiplier

NUMBERS = {"case14": "Figure 3", "case118": "Figure 4"}
TABLE = "Table 1"
_X = "epsilon of one update, as the paper counts"
_MANY = 30  # places of a curve by round


def our_part(one: Answered) -> str:
    """Return the name of our figure of one network."""
    return f"Our figure, {_short(one.run.case)}"


def published_part(one: Published) -> str:
    """Return "Figure 3" or "Figure 4", or a name for another network."""
    name = _short(one.run.case)
    return NUMBERS.get(name, f"As in Figures 3 and 4, {name}")


def _short(case: str) -> str:
    return Path(case).name


def figures(runs: Sequence[Published], answers: Sequence[Answered]) -> tuple[Figure, ...]:
    """Return the paper's two figures, then ours."""
    return (*(_published(one) for one in runs), *(_questions(one) for one in answers))


def _published(one: Published) -> Figure:
    run, name = one.run, published_part(one)
    few, many = run.updates[0], run.updates[-1]
    panels = [
        _over(one, NOISE, few, f"noise magnitude (6.2), E = {few}"),
        _over(one, OBJECTIVE, few, f"{OBJECTIVE}, E = {few}"),
        _over(one, OBJECTIVE, many, f"{OBJECTIVE}, E = {many}"),
        Panel("round", "consensus residual |Aw + Bz| of ObjG", tuple(_residuals(one)), log_y=True),
    ]
    return Figure(
        name,
        f"{name}: private power flow as published ({run.case})",
        "Three zones of a power network agree on its state; each hides its demand. Noise is added "
        "to the gradient before a zone's step (Obj) or to the step's solution (Out), normal (G) or "
        "Laplace (L), with the size of the paper's Table 1. The objective, the sum of squared "
        "imbalances at the zones' own states, is 0 at best. Totals are what these "
        "runs spend by the sensitivities that can be proved; those of Out are upper bounds.",
        "Obj adds more noise than Out, Gaussian more than Laplace; yet Obj has the smaller "
        "objective, ObjL the smallest; at E = 5 this holds for small epsilon. More local updates "
        "bring the zones closer together.",
        tuple(panels),
    )


def _over(one: Published, metric: str, updates: int, label: str) -> Panel:
    run, curves = one.run, []
    for arm in PLACED:
        found = [Trial(arm, updates, each) for each in run.per_update]
        spent = ", ".join(f"{one.budget(trial).total:.3g}" for trial in found)
        each = ", ".join(f"{x:g}" for x in run.per_update)
        curves.append(
            Curve(
                f"{arm}, E = {updates} (total epsilon {spent} at {each} an update)",
                tuple(one.budget(trial) for trial in found),
                run.per_update,
                tuple(one.at(trial, metric) for trial in found),
            )
        )
    return Panel(_X, label, tuple(curves), ticks(run.per_update), log_x=True, log_y=True)


def _residuals(one: Published) -> list[Curve]:
    run = one.run
    rounds = sorted({round(1 + k * (run.rounds - 1) / (_MANY - 1)) for k in range(_MANY)})
    curves = []
    for e in run.updates:
        for each in dict.fromkeys((run.per_update[0], run.per_update[-1])):
            trial = Trial("ObjG", e, each)
            values = one.by_round(trial, APART)
            curves.append(
                Curve(
                    f"ObjG, E = {e}, epsilon {each:g} an update",
                    (one.budget(trial),),
                    tuple(float(k) for k in rounds),
                    tuple(values[k - 1] for k in rounds),
                )
            )
    return curves


def _questions(one: Answered) -> Figure:
    demand, floor = Measured.computed(one.demand), Measured.computed(one.floor)
    x, nothing, no_noise = one.run.totals, one.budget(0.0), one.budget(math.inf)
    guess = level("guessing that there is no demand", demand, x, nothing)
    quiet = level("no noise, as many rounds", floor, x, no_noise)
    panels = [
        _asked(one, OBJECTIVE, quiet),
        _asked(one, APART),
        _asked(one, NOISE),
        _asked(one, ATTACK, guess),
        _asked(one, PATIENT, guess),
    ]
    return Figure(
        our_part(one),
        f"{our_part(one)}: what should a zone be asked, at equal total budgets?",
        "A zone can be asked for its gradient or its balance residuals in every update, or for its "
        "demand once. Everything else about it is public, so every answer is one more look at the "
        "same demand, and looks can be averaged, by the zones and by an attacker. All runs of one "
        "place on the axis spend the same total, with sensitivities that are proved. The attacker "
        "sees all messages and reads off them what a zone was told of its demand; its error is the "
        "root-mean-square over the demands that it can read. That is all the protection there is.",
        "nothing: it asks for gradients alone.",
        tuple(panels),
    )


def _asked(one: Answered, metric: str, *levels: Curve) -> Panel:
    totals = one.run.totals
    budgets = tuple(one.budget(total) for total in totals)
    curves = [
        Curve(arm, budgets, totals, tuple(one.at(arm, total, metric) for total in totals))
        for arm in ASKED
    ]
    label = metric if "error" not in metric else f"{metric}, per unit"
    return Panel("total epsilon", label, (*curves, *levels), ticks(totals), log_x=True, log_y=True)


def table(runs: Sequence[Published]) -> Table:
    """Return Table 1: variances as published, and at the sensitivities that can be proved."""
    first = runs[0].run
    rows = [
        ("published: 2 beta (Obj), beta (Out)", f"{each:g}",
         *(f"{variance(arm, published_scale(first, arm, each)):.3g}" for arm in PLACED), "")
        for each in PER_UPDATE
    ]  # fmt: skip
    for one in runs:
        rows += [
            (f"needed for {one.run.case}, first round", f"{each:g}",
             *(f"{variance(arm, needed_scale(one, arm, each)):.3g}" for arm in PLACED),
             f"{one_update(one, each):.3g}")
            for each in PER_UPDATE
        ]  # fmt: skip
    return Table(
        TABLE,
        f"{TABLE}: variance of the noise on one coordinate, beta {first.beta:g}, delta "
        f"{first.delta:g}",
        ("sensitivity", "epsilon of one update", *PLACED, "an ObjG update really costs"),
        tuple(rows),
        "The published sensitivities leave out |a_i|, how many flows and generators stand in a "
        "balance row. One demand that moves by beta moves the gradient by 2 beta |a_i|: in the "
        "2-norm for normal noise, in the 1-norm for Laplace noise, where it is largest. The last "
        "column is the exact epsilon of one ObjG update with the published noise.",
    )


def needed_scale(one: Published, arm: str, per_update: float) -> float:
    """Return the scale that the paper's calibration gives at a sensitivity that can be proved."""
    return multiplier(arm, per_update, one.run.delta) * one.network.sensitivity(arm)


def one_update(one: Published, per_update: float) -> float:
    """Return the exact epsilon of one ObjG answer with the published noise."""
    ratio = one.network.sensitivity("ObjG") / published_scale(one.run, "ObjG", per_update)
    return float(epsilon_of(one.run.delta, ratio))


_RIVALS = (("ObjG", "OutG"), ("ObjL", "OutL"))


def orderings(runs: Sequence[Published], answers: Sequence[Answered]) -> tuple[Ordering, ...]:
    """Return the orderings of Figures 3 and 4 and of Table 1, and ours."""
    return (
        *(claim for one in runs for claim in _published_orders(one)),
        *_table_orders(runs),
        *(claim for one in answers for claim in _question_orders(one)),
    )


def _published_orders(one: Published) -> list[Ordering]:
    part, run = published_part(one), one.run
    few, many = run.updates[0], run.updates[-1]
    tight = (run.per_update[0],)
    rising = tuple(
        Pair(f"{arm}, E = {few}", *_named(one, NOISE, (arm, few, more), (arm, few, less)))
        for arm in PLACED
        for less, more in pairwise(run.per_update)
    )
    closer = tuple(
        Pair(f"{arm}, epsilon {each:g} an update",
             *_named(one, APART, (arm, many, each), (arm, few, each)))
        for arm in PLACED
        for each in run.per_update
    )  # fmt: skip
    out_first = tuple((out, obj) for obj, out in _RIVALS)
    laplace_first = (("ObjL", "ObjG"), ("OutL", "OutG"))
    return [
        Ordering(part, "the smaller epsilon, the more noise", rising),
        Ordering(part, "Obj adds more noise than Out",
                 _between(one, NOISE, out_first, few, run.per_update)),
        Ordering(part, "Gaussian arms add more noise than Laplace arms",
                 _between(one, NOISE, laplace_first, few, run.per_update)),
        Ordering(part, f"E = {few}: the objective of Obj is below that of Out",
                 _between(one, OBJECTIVE, _RIVALS, few, run.per_update)),
        Ordering(part, f"E = {few}: the objective of ObjL is below that of ObjG",
                 _between(one, OBJECTIVE, (("ObjL", "ObjG"),), few, run.per_update)),
        Ordering(part, f"E = {many}: the objective of Obj is below that of Out at the smallest "
                 "epsilon", _between(one, OBJECTIVE, _RIVALS, many, tight)),
        Ordering(part, f"the zones are closer together at E = {many} than at E = {few}", closer),
    ]  # fmt: skip


def _between(
    one: Published,
    metric: str,
    rivals: Sequence[tuple[str, str]],
    updates: int,
    budgets: Sequence[float],
) -> tuple[Pair, ...]:
    return tuple(
        Pair(
            f"epsilon {each:g} an update",
            *_named(one, metric, (small, updates, each), (large, updates, each)),
        )
        for small, large in rivals
        for each in budgets
    )


def _named(
    one: Published, metric: str, small: tuple[str, int, float], large: tuple[str, int, float]
) -> tuple[tuple[str, Measured], tuple[str, Measured]]:
    first, second = (
        (f"{arm}, E = {e}, epsilon {each:g}", one.at(Trial(arm, e, each), metric))
        for arm, e, each in (small, large)
    )
    return first, second


def _table_orders(runs: Sequence[Published]) -> list[Ordering]:
    def of(arm: str, scale: float) -> tuple[str, Measured]:
        return arm, Measured.computed(variance(arm, scale))

    stated = tuple(
        Pair(f"epsilon {each:g}", of(small, published_scale(runs[0].run, small, each)),
             of(large, published_scale(runs[0].run, large, each)))
        for each in PER_UPDATE
        for small, large in pairwise(("OutL", "ObjL", "OutG", "ObjG"))
    )  # fmt: skip
    proved = tuple(
        Pair(one.run.case, of("ObjL", needed_scale(one, "ObjL", 1.0)),
             of("ObjG", needed_scale(one, "ObjG", 1.0)))
        for one in runs
    )  # fmt: skip
    return [
        Ordering(TABLE, "ObjG has the largest variance, then OutG, ObjL and OutL", stated),
        Ordering(TABLE, "with sensitivities that are proved, ObjL still needs less noise than "
                 "ObjG", proved, "ours"),
    ]  # fmt: skip


def _question_orders(one: Answered) -> list[Ordering]:
    part = our_part(one)
    looks = ((RESIDUAL, LAST_RESIDUAL), (GRADIENT, LAST_GRADIENT))
    asks = ((DEMAND, GRADIENT), (DEMAND, LAST_GRADIENT), (DEMAND, LAST_RESIDUAL))
    return [
        Ordering(part, "demand asked once has a smaller objective than gradients, and than "
                 "residuals that are not averaged", _pairs(one, OBJECTIVE, asks), "ours"),
        Ordering(part, "demand asked once has a smaller objective than averaged residuals",
                 _pairs(one, OBJECTIVE, ((DEMAND, RESIDUAL),)), "ours"),
        Ordering(part, "averaging the looks lowers the objective",
                 _pairs(one, OBJECTIVE, looks), "ours"),
        Ordering(part, "averaging the looks brings the zones closer together",
                 _pairs(one, APART, looks), "ours"),
        *_patience(one),
    ]  # fmt: skip


def _pairs(one: Answered, metric: str, rivals: Sequence[tuple[str, str]]) -> tuple[Pair, ...]:
    totals = one.run.totals
    places = [f"total epsilon {total:g}" for total in totals]
    sides = [[(m, [one.at(m, e, metric) for e in totals]) for m in both] for both in rivals]
    return tuple(pair for small, large in sides for pair in below(small, large, places))


def _patience(one: Answered) -> list[Ordering]:
    """Return what is gained by reading more than once, if the attacker did."""
    if one.run.readings == 1:
        return []
    claim = (
        "not averaging protects nothing: the mean of an attacker's readings is better than its "
        "last one"
    )
    pairs = tuple(
        Pair(
            f"{arm}, total epsilon {total:g}",
            (PATIENT, one.at(arm, total, PATIENT)),
            (ATTACK, one.at(arm, total, ATTACK)),
        )
        for arm in (LAST_RESIDUAL, LAST_GRADIENT)
        for total in one.run.totals
    )
    return [Ordering(our_part(one), claim, pairs, "ours")]
