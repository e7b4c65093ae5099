"""What the paper says of federated learning, and what we compare beside it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tacit_papers.reproductions.figure import Measured
from tacit_papers.reproductions.ordering import Ordering, Pair
from tacit_papers.reproductions.ryu2023.learning import (
    AVERAGED,
    CLIPPED_LOSS,
    ERROR,
    LOSS,
    OBJ,
    OUT,
    PROJECTED,
    Case,
    Learned,
    rhos,
)
from tacit_papers.reproductions.ryu2023.learning_figures import (
    BOUND,
    FIGURE_7,
    NAMES,
    bound,
    part_of,
)


def orderings(found: Sequence[Learned]) -> tuple[Ordering, ...]:
    """Return the orderings of Figures 5 to 7 and of Theorem 5.4, and ours."""
    each = [
        claim for one in found for claim in (_noise(one), *_losses(one), *_errors(one), *_ours(one))
    ]
    return (*each, *(_rho(one) for one in found), *(_bound(one) for one in found))


def _noise(one: Learned) -> Ordering:
    def size(arm: str, each: float) -> Measured:
        return Measured.computed(one.noise[Case(arm, one.run.updates[0], each)][-1])

    pairs = tuple(
        Pair(_where(one.run.updates[0], each), (OUT, size(OUT, each)), (OBJ, size(OBJ, each)))
        for each in one.run.per_update
    )
    return Ordering(part_of(one, "noise"), "ObjG adds more noise (6.5) than OutG", pairs)


def _losses(one: Learned) -> list[Ordering]:
    part, run = part_of(one, "objective"), one.run
    falling = tuple(
        Pair(
            f"{arm}, E = {e}",
            (f"epsilon {more:g}", one.at(Case(arm, e, more), LOSS)),
            (f"epsilon {less:g}", one.at(Case(arm, e, less), LOSS)),
        )
        for arm in (OBJ, OUT)
        for e in run.updates
        for less, more in pairwise(run.per_update)
    )
    updates = tuple(
        Pair(
            f"{OBJ}, epsilon {each:g} an update",
            (f"E = {many}", one.at(Case(OBJ, many, each), LOSS)),
            (f"E = {few}", one.at(Case(OBJ, few, each), LOSS)),
        )
        for each in run.per_update
        for few, many in pairwise(run.updates)
    )
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
    pairs = tuple(
        Pair(
            f"epsilon {each:g} an update",
            (f"{OBJ}, E = {many}", one.at(Case(OBJ, many, each), ERROR)),
            (f"{arm}, E = {e}", one.at(Case(arm, e, each), ERROR)),
        )
        for each in run.per_update
        for many in run.updates[1:]
        for arm, e in rivals
    )
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
        Pair(
            _where(e, each),
            (OBJ, one.at(Case(OBJ, e, each), metric)),
            (rival, one.at(Case(rival, e, each), theirs)),
        )
        for e in one.run.updates
        for each in one.run.per_update
    )


def _rho(one: Learned) -> Ordering:
    run = one.run
    table = [[one.at(Case(OUT, 1, each, rho), ERROR) for each in run.per_update]
             for rho in rhos(run)]  # fmt: skip
    across_rho = max(_range([row[k] for row in table]) for k in range(len(run.per_update)))
    across_epsilon = min(_range(row) for row in table)
    pair = Pair(
        NAMES[run.data],
        ("largest difference among rhos, at one epsilon", Measured(across_rho, 0.0, 1)),
        ("least difference among epsilons, at one rho", Measured(across_epsilon, 0.0, 1)),
    )
    claim = f"{NAMES[run.data]}: the test error of OutG depends less on rho than on epsilon"
    return Ordering(FIGURE_7, claim, (pair,))


def _range(values: list[Measured]) -> float:
    means = [value.mean for value in values]
    return max(means) - min(means)


def _bound(one: Learned) -> Ordering:
    pairs = tuple(
        Pair(
            f"epsilon {each:g} an update, after {one.run.rounds} rounds",
            ("objective, at least the gap", one.at(Case(AVERAGED, 1, each), LOSS)),
            ("bound (5.2b)", bound(one, each, 1)[-1]),
        )
        for each in one.run.per_update
    )
    return Ordering(BOUND, f"{NAMES[one.run.data]}: the gap is below the bound", pairs)


def _where(updates: int, each: float) -> str:
    return f"E = {updates}, epsilon {each:g} an update"
