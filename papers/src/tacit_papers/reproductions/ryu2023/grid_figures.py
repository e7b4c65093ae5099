"""Figures 3 and 4, Table 1, and our comparison of questions at equal totals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.privacy import epsilon_of
from tacit_papers.reproductions.figure import Budget, Curve, Figure, Measured, Panel, Table
from tacit_papers.reproductions.ryu2023 import published as theirs
from tacit_papers.reproductions.ryu2023 import questions as ours
from tacit_papers.reproductions.ryu2023.published import Case, Published, published_scale, variance
from tacit_papers.reproductions.ryu2023.questions import Asked
from tacit_papers.reproductions.ryu2023.settings import BETA, GRID_DELTA, PER_UPDATE

NUMBERS = {"case14": "Figure 3", "case118": "Figure 4"}
TABLE = "Table 1"
_X = "epsilon of one update, as the paper counts"
_MANY = 30  # places of a curve by round


def our_part(one: Asked) -> str:
    """Return the name of our figure of one network."""
    return f"Our figure, {one.run.case}"


def figures(runs: Sequence[Published], answers: Sequence[Asked]) -> tuple[Figure, ...]:
    """Return the paper's two figures, then ours."""
    return (*(_published(one) for one in runs), *(_questions(one) for one in answers))


def _published(one: Published) -> Figure:
    run, name = one.run, NUMBERS[one.run.case]
    few, many = run.updates[0], run.updates[-1]
    panels = [
        _over(one, theirs.NOISE, few, f"noise magnitude (6.2), E = {few}"),
        _over(one, theirs.OBJECTIVE, few, f"{theirs.OBJECTIVE}, E = {few}"),
        _over(one, theirs.OBJECTIVE, many, f"{theirs.OBJECTIVE}, E = {many}"),
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
    for arm in theirs.ARMS:
        found = [Case(arm, updates, each) for each in run.per_update]
        spent = ", ".join(f"{one.budget(case).total:.3g}" for case in found)
        each = ", ".join(f"{x:g}" for x in run.per_update)
        curves.append(
            Curve(
                f"{arm}, E = {updates} (total epsilon {spent} at {each} an update)",
                tuple(one.budget(case) for case in found),
                run.per_update,
                tuple(one.at(case, metric) for case in found),
            )
        )
    ticks = tuple((x, f"{x:g}") for x in run.per_update)
    return Panel(_X, label, tuple(curves), ticks, log_x=True, log_y=True)


def _residuals(one: Published) -> list[Curve]:
    run = one.run
    rounds = sorted({round(1 + k * (run.rounds - 1) / (_MANY - 1)) for k in range(_MANY)})
    curves = []
    for e in run.updates:
        for each in dict.fromkeys((run.per_update[0], run.per_update[-1])):
            case = Case("ObjG", e, each)
            values = one.by_round(case, theirs.APART)
            curves.append(
                Curve(
                    f"ObjG, E = {e}, epsilon {each:g} an update",
                    (one.budget(case),),
                    tuple(float(k) for k in rounds),
                    tuple(values[k - 1] for k in rounds),
                )
            )
    return curves


def _questions(one: Asked) -> Figure:
    demand = Measured.computed(one.demand)
    floor = Measured.computed(one.floor)
    ends = (one.run.totals[0], one.run.totals[-1])
    guess = Curve(
        "guessing that there is no demand", (Budget(0.0, GRID_DELTA, "messages"),),
        ends, (demand, demand), reference=True,
    )  # fmt: skip
    quiet = Curve(
        "no noise, as many rounds", (Budget(math.inf, GRID_DELTA, "messages"),),
        ends, (floor, floor), reference=True,
    )  # fmt: skip
    panels = [
        _asked(one, ours.OBJECTIVE, quiet),
        _asked(one, ours.APART),
        _asked(one, ours.NOISE),
        _asked(one, ours.ATTACK, guess),
        _asked(one, ours.PATIENT, guess),
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


def _asked(one: Asked, metric: str, *levels: Curve) -> Panel:
    totals = one.run.totals
    budgets = tuple(one.budget(total) for total in totals)
    curves = [
        Curve(arm, budgets, totals, tuple(one.at(arm, total, metric) for total in totals))
        for arm in ours.ARMS
    ]
    ticks = tuple((x, f"{x:g}") for x in totals)
    label = metric if "error" not in metric else f"{metric}, per unit"
    return Panel("total epsilon", label, (*curves, *levels), ticks, log_x=True, log_y=True)


def table(runs: Sequence[Published]) -> Table:
    """Return Table 1: variances as published, and at the sensitivities that can be proved."""
    rows = [
        ("published: 2 beta (Obj), beta (Out)", f"{each:g}",
         *(f"{variance(arm, published_scale(arm, each)):.3g}" for arm in theirs.ARMS), "")
        for each in PER_UPDATE
    ]  # fmt: skip
    for one in runs:
        rows += [
            (f"needed for {one.run.case}, first round", f"{each:g}",
             *(f"{variance(arm, needed_scale(one, arm, each)):.3g}" for arm in theirs.ARMS),
             f"{one_update(one, each):.3g}")
            for each in PER_UPDATE
        ]  # fmt: skip
    return Table(
        TABLE,
        f"{TABLE}: variance of the noise on one coordinate, beta {BETA:g}, delta {GRID_DELTA:g}",
        ("sensitivity", "epsilon of one update", *theirs.ARMS, "an ObjG update really costs"),
        tuple(rows),
        "The published sensitivities leave out |a_i|, how many flows and generators stand in a "
        "balance row. One demand that moves by beta moves the gradient by 2 beta |a_i|: in the "
        "2-norm for normal noise, in the 1-norm for Laplace noise, where it is largest. The last "
        "column is the exact epsilon of one ObjG update with the published noise.",
    )


def needed_scale(one: Published, arm: str, per_update: float) -> float:
    """Return the scale that the paper's calibration gives at a sensitivity that can be proved."""
    law = 1.0 if theirs.ARMS[arm].laplace else theirs.GAUSSIAN
    return law * one.network.sensitivity(arm) / per_update


def one_update(one: Published, per_update: float) -> float:
    """Return the exact epsilon of one ObjG answer with the published noise."""
    ratio = one.network.sensitivity("ObjG") / published_scale("ObjG", per_update)
    return float(epsilon_of(GRID_DELTA, ratio))
