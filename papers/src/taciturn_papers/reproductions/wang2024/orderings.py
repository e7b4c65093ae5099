"""The orderings of figures and tables, the paper's and ours."""

from __future__ import annotations

import math
from itertools import pairwise

from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.ordering import Ordering, Pair
from taciturn_papers.reproductions.wang2024.arms import CENTRAL, METHODS, TREE, TREE_MASKED
from taciturn_papers.reproductions.wang2024.as_printed import (
    NEAR,
    PRINTED,
    RECAL_PRINTED,
    WEIGHTS,
    Case,
    Leak,
    Weights,
)
from taciturn_papers.reproductions.wang2024.costs import (
    BALANCED,
    GRAPHS,
    OUR_STEPS,
    READINGS,
    RECAL,
    RIVALS,
    Scaling,
)
from taciturn_papers.reproductions.wang2024.figures import (
    BY_LOSS,
    title_of,
    usual,
    weights_text,
)
from taciturn_papers.reproductions.wang2024.runs import Cell
from taciturn_papers.reproductions.wang2024.settings import NO_NOISE, Scale
from taciturn_papers.reproductions.wang2024.tables import BY_GRAPH, FAIR

_OTHERS = tuple(name for name in METHODS if name not in {"RECAL", CENTRAL, TREE_MASKED})
_BOUNDS = {
    "largest": "c as large as a record allows",
    "ones": "c met at ones",
    "zero": "c met at 0",
}


def orderings(cells: list[Cell], scale: Scale) -> list[Ordering]:
    """Return the orderings of Figures 2, 3, 5, 6 and Tables IV, V, and ours."""
    found: list[Ordering] = []
    for loss in scale.losses:
        chosen = [cell for cell in cells if cell.facts.loss == loss]
        found += [
            _printed_budgets(chosen, loss, scale),
            _printed_rivals(chosen, loss, scale),
            _at_zero(chosen, loss, scale),
            _without_noise(chosen, loss, scale),
            _sound_budgets(chosen, loss, scale),
            *_sound_orders(chosen, loss, scale.at_equal),
        ]
    return found + _fair_orders([cell for cell in cells if cell.facts.loss == "logistic"], scale)


def of_scaling(costs: Scaling, scale: Scale) -> list[Ordering]:
    """Return the orderings of Tables I to III; in Table I the paper's PLF is less than one's."""
    found = []
    for kind in GRAPHS:
        lower = RIVALS[:1] if kind == "complete" else RIVALS
        names = "RWADMM" if kind == "complete" else "any other"
        for what, rivals, claim in (
            ("messages", RIVALS, "RECAL sends fewer messages than any other"),
            ("plf", lower, f"RECAL has a lower PLF than {names}"),
        ):
            pairs = [
                pair
                for form in (RECAL, OUR_STEPS)
                for pair in _scaled(costs, scale, (kind, form), rivals, what)
            ]
            found.append(Ordering(BY_GRAPH[kind], claim, tuple(pairs)))
        balanced = tuple(_scaled(costs, scale, (kind, BALANCED), (RECAL,), "plf"))
        claim = "a walk that balances the token lowers the PLF of RECAL"
        found.append(Ordering(BY_GRAPH[kind], claim, balanced, "ours"))
    return found


def _scaled(
    costs: Scaling, scale: Scale, mine: tuple[str, str], rivals: tuple[str, ...], what: str
) -> list[Pair]:
    kind, form = mine
    return [
        Pair(
            f"{what}, {agents} agents",
            (form, getattr(costs[kind, form, agents], what)),
            (rival, getattr(costs[kind, rival, agents], what)),
            READINGS.get(form, ""),
        )
        for rival in rivals
        for agents in scale.sizes
    ]


def of_leaks(found: tuple[Leak, ...]) -> list[Ordering]:
    """Return the ordering of Figure 9, and ours about the sound form."""
    exact, printed, weighted, sound = found
    place = f"activation {exact.visits[-2]}"
    last = {one.name: (one.name, one.errors[-2]) for one in found}
    tiny = ("1e-6", Measured.computed(1e-6))
    readings = {"no regulariser": printed, "the paper's weights": weighted}
    return [
        Ordering(
            "Figure 9",
            "the noise of DP-RECAL keeps the attacker from the record: error above 1e-6",
            tuple(Pair(place, tiny, last[one.name], name) for name, one in readings.items()),
        ),
        Ordering(
            "Figure 9",
            "noised gradients keep the attacker from the record: error above that of DP-RECAL as "
            "published, without a regulariser",
            (Pair(place, last[printed.name], last[sound.name]),),
            "ours",
        ),
    ]


def _printed_budgets(chosen: list[Cell], loss: str, scale: Scale) -> Ordering:
    claim = "the larger the claimed budget, the nearer or sooner is DP-RECAL as published"
    pairs = tuple(
        pair
        for weights in WEIGHTS
        for tight, loose in pairwise((*scale.budgets, math.inf))
        for cell in chosen
        for pair in _nearer_and_sooner(cell, weights, (loose, tight), scale)
    )
    return Ordering(BY_LOSS[loss][0], claim, pairs)


def _nearer_and_sooner(
    cell: Cell, weights: Weights, totals: tuple[float, float], scale: Scale
) -> list[Pair]:
    """Return by the error at the end and, where runs come so near, by when they do for good."""
    runs = cell.printed[RECAL_PRINTED]
    places = [cell.case(RECAL_PRINTED, usual(weights, total, scale))[1] for total in totals]
    where, reading = title_of(cell), weights_text(weights, scale)
    measures = {"error at the end": [runs.last(at) for at in places]}
    if weights == "paper":
        soon = [Measured.of(runs.settled[:, at]) for at in places]
        measures[f"hops until it stays below {NEAR:g}"] = soon
    return [
        Pair(where, (_total(totals[0]), low), (_total(totals[1]), high), f"{reading}, {measure}")
        for measure, (low, high) in measures.items()
    ]


def _total(total: float) -> str:
    return "no noise" if math.isinf(total) else f"epsilon {total:g}"


def _printed_rivals(chosen: list[Cell], loss: str, scale: Scale) -> Ordering:
    def last(cell: Cell, name: str, case: Case) -> tuple[str, Measured]:
        runs, place = cell.case(name, case)
        return name, runs.last(place)

    def reading(weights: Weights, bound: str) -> str:
        return f"{weights_text(weights, scale)}, {_BOUNDS[bound]}"

    pairs = tuple(
        Pair(title_of(cell), last(cell, RECAL_PRINTED, case), last(cell, rival, case),
             reading(case.weights, case.bound))
        for weights in WEIGHTS
        for case in (Case(weights, scale.equal, c, scale.decays[0]) for c in scale.bounds)
        for rival in PRINTED[1:]
        for cell in chosen
    )  # fmt: skip
    claim = f"relative error: {RECAL_PRINTED} is below DP-EXTRA and DP-NIDS"
    return Ordering(BY_LOSS[loss][1], claim, pairs)


def _at_zero(chosen: list[Cell], loss: str, scale: Scale) -> Ordering:
    pairs = []
    for bound in scale.bounds:
        for decay in scale.decays:
            for cell in chosen:
                runs, place = cell.case(RECAL_PRINTED, Case("paper", scale.equal, bound, decay))
                low = (RECAL_PRINTED, runs.last(place))
                tiny = ("1e-12", Measured.computed(1e-12))
                pairs.append(Pair(title_of(cell), low, tiny, f"{_BOUNDS[bound]}, R = {decay:g}"))
    claim = "at the paper's weights DP-RECAL comes within 1e-12 of the optimum, which is 0"
    return Ordering(_table(loss), claim, tuple(pairs))


def _without_noise(chosen: list[Cell], loss: str, scale: Scale) -> Ordering:
    pairs = []
    for name in PRINTED[1:]:
        for cell in chosen:
            runs, place = cell.case(name, usual("paper", math.inf, scale))
            found = Measured.computed(float(runs.relative[0, place, -1]))  # no noise, no walk
            pairs.append(Pair(title_of(cell), (name, found), ("1e-8", Measured.computed(1e-8))))
    claim = "at the paper's weights and without noise DP-EXTRA and DP-NIDS come within 1e-8"
    return Ordering(_table(loss), claim, tuple(pairs), "ours")


def _table(loss: str) -> str:
    return "Table IV" if loss == "linear" else "Table V"


def _sound_budgets(chosen: list[Cell], loss: str, scale: Scale) -> Ordering:
    def named(cell: Cell, budget: Budget) -> tuple[str, Measured]:
        return _total(budget.total), cell.outcomes["RECAL", budget].last("relative")

    pairs = tuple(
        Pair(title_of(cell), named(cell, loose), named(cell, tight))
        for cell in chosen
        for tight, loose in pairwise((*scale.paper_budgets, NO_NOISE))
    )
    claim = "RECAL on noised gradients: the larger the budget, the smaller the relative error"
    return Ordering(BY_LOSS[loss][0], claim, pairs, "ours")


def _sound_orders(chosen: list[Cell], loss: str, budget: Budget) -> list[Ordering]:
    """Return whether RECAL is ahead of every rival at equal totals, all of them sound."""
    found = []
    for what, words in (("relative", "relative error"), ("wrong", "test error")):
        pairs = tuple(
            Pair(
                title_of(cell),
                _last(cell, "RECAL", budget, what),
                _last(cell, rival, budget, what),
            )
            for rival in _OTHERS
            for cell in chosen
            if (rival, budget) in cell.outcomes
        )
        claim = f"{words} at equal totals, sound forms: RECAL is below every other"
        found += [Ordering(BY_LOSS[loss][1], claim, pairs, "ours")] if pairs else []
    return found


def _last(cell: Cell, name: str, budget: Budget, what: str) -> tuple[str, Measured]:
    return name, cell.outcomes[name, budget].last(what)


def _fair_orders(chosen: list[Cell], scale: Scale) -> list[Ordering]:
    """Return whether sums along a tree help, at equal totals and communication."""
    pairs = tuple(
        Pair(
            f"{title_of(cell)}, epsilon {budget.total:g}",
            (TREE, Measured.of(cell.outcomes[TREE, budget].gaps)),
            (rival, Measured.of(cell.outcomes[rival, budget].gaps)),
        )
        for rival in ("RECAL", *_OTHERS)
        if rival != TREE
        for cell in chosen
        if (TREE, scale.at_equal) in cell.outcomes
        for budget in (*scale.our_budgets, scale.at_equal)
    )
    claim = f"objective above the optimum: {TREE}, is below every method by gossip or relay"
    return [Ordering(f"{FAIR}, objective", claim, pairs, "ours")] if pairs else []
