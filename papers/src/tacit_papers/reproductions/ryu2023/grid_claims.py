"""What the paper says of power flow, and what we compare beside it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tacit_papers.reproductions.figure import Measured
from tacit_papers.reproductions.ordering import Ordering, Pair
from tacit_papers.reproductions.ryu2023 import published as theirs
from tacit_papers.reproductions.ryu2023.grid_figures import NUMBERS, TABLE, needed_scale, our_part
from tacit_papers.reproductions.ryu2023.published import Case, Published, published_scale, variance
from tacit_papers.reproductions.ryu2023.questions import (
    APART,
    ATTACK,
    DEMAND,
    GRADIENT,
    LAST_GRADIENT,
    LAST_RESIDUAL,
    OBJECTIVE,
    PATIENT,
    RESIDUAL,
    Asked,
)
from tacit_papers.reproductions.ryu2023.settings import PER_UPDATE

_RIVALS = (("ObjG", "OutG"), ("ObjL", "OutL"))


def orderings(runs: Sequence[Published], answers: Sequence[Asked]) -> tuple[Ordering, ...]:
    """Return the orderings of Figures 3 and 4 and of Table 1, and ours."""
    return (
        *(claim for one in runs for claim in _published(one)),
        *_table(runs),
        *(claim for one in answers for claim in _asked(one)),
    )


def _published(one: Published) -> list[Ordering]:
    part, run = NUMBERS[one.run.case], one.run
    few, many = run.updates[0], run.updates[-1]
    tight = (run.per_update[0],)
    rising = tuple(
        Pair(f"{arm}, E = {few}", *_named(one, theirs.NOISE, (arm, few, more), (arm, few, less)))
        for arm in theirs.ARMS
        for less, more in pairwise(run.per_update)
    )
    closer = tuple(
        Pair(f"{arm}, epsilon {each:g} an update",
             *_named(one, theirs.APART, (arm, many, each), (arm, few, each)))
        for arm in theirs.ARMS
        for each in run.per_update
    )  # fmt: skip
    noise, objective = theirs.NOISE, theirs.OBJECTIVE
    out_first = tuple((out, obj) for obj, out in _RIVALS)
    laplace_first = (("ObjL", "ObjG"), ("OutL", "OutG"))
    return [
        Ordering(part, "the smaller epsilon, the more noise", rising),
        Ordering(part, "Obj adds more noise than Out",
                 _between(one, noise, out_first, few, run.per_update)),
        Ordering(part, "Gaussian arms add more noise than Laplace arms",
                 _between(one, noise, laplace_first, few, run.per_update)),
        Ordering(part, f"E = {few}: the objective of Obj is below that of Out",
                 _between(one, objective, _RIVALS, few, run.per_update)),
        Ordering(part, f"E = {few}: the objective of ObjL is below that of ObjG",
                 _between(one, objective, (("ObjL", "ObjG"),), few, run.per_update)),
        Ordering(part, f"E = {many}: the objective of Obj is below that of Out at the smallest "
                 "epsilon", _between(one, objective, _RIVALS, many, tight)),
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
        (f"{arm}, E = {e}, epsilon {each:g}", one.at(Case(arm, e, each), metric))
        for arm, e, each in (small, large)
    )
    return first, second


def _table(runs: Sequence[Published]) -> list[Ordering]:
    def of(arm: str, scale: float) -> tuple[str, Measured]:
        return arm, Measured.computed(variance(arm, scale))

    stated = tuple(
        Pair(f"epsilon {each:g}", of(small, published_scale(small, each)),
             of(large, published_scale(large, each)))
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


def _asked(one: Asked) -> list[Ordering]:
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


def _pairs(one: Asked, metric: str, rivals: Sequence[tuple[str, str]]) -> tuple[Pair, ...]:
    return tuple(
        Pair(
            f"total epsilon {total:g}",
            (small, one.at(small, total, metric)),
            (large, one.at(large, total, metric)),
        )
        for small, large in rivals
        for total in one.run.totals
    )


def _patience(one: Asked) -> list[Ordering]:
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
