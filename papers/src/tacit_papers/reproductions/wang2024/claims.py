"""What the paper says comes out, and what we compare beside it; decided by measured means."""

from __future__ import annotations

from itertools import pairwise

from tacit_papers.reproductions.figure import Measured
from tacit_papers.reproductions.ordering import Ordering, Pair
from tacit_papers.reproductions.wang2024.figures import BY_LOSS
from tacit_papers.reproductions.wang2024.leak import Leak
from tacit_papers.reproductions.wang2024.measured import Cell, totals
from tacit_papers.reproductions.wang2024.methods import CENTRAL, METHODS, STAR
from tacit_papers.reproductions.wang2024.published import PRINTED, RECAL_PRINTED
from tacit_papers.reproductions.wang2024.scaling import COMPARED, GRAPHS, Scaling
from tacit_papers.reproductions.wang2024.settings import (
    AT_TWELVE,
    BUDGETS,
    EQUAL,
    NAMES,
    NO_NOISE,
    Scale,
    Setting,
)
from tacit_papers.reproductions.wang2024.tables import BY_GRAPH, FAIR

_RIVALS = tuple(name for name in METHODS if name not in {"RECAL", CENTRAL})


def orderings(cells: list[Cell], losses: tuple[str, ...]) -> list[Ordering]:
    """Return the orderings of Figures 2, 3, 5, 6 and Tables IV, V, and ours."""
    found: list[Ordering] = []
    for loss in losses:
        own = [cell for cell in cells if cell.facts.loss == loss]
        found += [*_budgets(own, loss), *_published(own, loss), *_sound(own, loss)]
    return found + _fair([cell for cell in cells if cell.facts.loss == "logistic"])


def of_scaling(costs: Scaling, scale: Scale) -> list[Ordering]:
    """Return the orderings of Tables I to III; in Table I the paper's PLF is less than one's."""
    found = []
    for kind in GRAPHS:
        others = COMPARED[1:2] if kind == "complete" else COMPARED[1:]
        names = "RWADMM" if kind == "complete" else "any other"
        fewer = _scaled(costs, scale, kind, COMPARED[1:], "messages")
        lower = _scaled(costs, scale, kind, others, "plf")
        found.append(Ordering(BY_GRAPH[kind], "RECAL sends fewer messages than any other", fewer))
        found.append(Ordering(BY_GRAPH[kind], f"RECAL has a lower PLF than {names}", lower))
    return found


def _scaled(
    costs: Scaling, scale: Scale, kind: str, rivals: tuple[str, ...], what: str
) -> tuple[Pair, ...]:
    return tuple(
        Pair(f"{what}, {agents} agents", *(
            (name, Measured(getattr(costs[kind, name, agents], what), 0.0, 1))
            for name in ("RECAL", rival)
        ))
        for rival in rivals
        for agents in scale.sizes
    )  # fmt: skip


def of_leaks(found: tuple[Leak, ...]) -> list[Ordering]:
    """Return the ordering of Figure 9, and ours about the sound form."""
    exact, printed, sound = found
    last = [(one.name, one.errors[-2]) for one in (exact, printed, sound)]
    where = f"activation {exact.visits[-2]}"
    return [
        Ordering("Figure 9", "the noise of DP-RECAL keeps the attacker from the record: error "
                 "above 1e-6", (Pair(where, ("1e-6", Measured(1e-6, 0.0, 2)), last[1]),)),
        Ordering("Figure 9", "noised gradients keep the attacker from the record: error above that "
                 "of DP-RECAL as published", (Pair(where, last[1], last[2]),), "ours"),
    ]  # fmt: skip


def _budgets(own: list[Cell], loss: str) -> list[Ordering]:
    ordered = (*map(Setting, BUDGETS), NO_NOISE)
    pairs = tuple(
        Pair(NAMES[cell.facts.name], _budget(cell, loose), _budget(cell, tight))
        for cell in own
        for tight, loose in pairwise(ordered)
    )
    claim = "the larger the budget, the smaller the relative error of RECAL; none is best"
    return [Ordering(BY_LOSS[loss][0], claim, pairs)]


def _budget(cell: Cell, setting: Setting) -> tuple[str, Measured]:
    name = "no noise" if setting == NO_NOISE else f"epsilon {setting.total:g}"
    return name, cell.outcomes["RECAL", setting].last("relative")


def _published(own: list[Cell], loss: str) -> list[Ordering]:
    pairs = tuple(
        Pair(NAMES[cell.facts.name], _printed(cell, RECAL_PRINTED), _printed(cell, rival))
        for rival in PRINTED[1:]
        for cell in own
    )
    claim = f"relative error, optimum not 0: {RECAL_PRINTED} is below DP-EXTRA and DP-NIDS"
    found = [Ordering(BY_LOSS[loss][1], claim, pairs)]
    part = "Table IV" if loss == "linear" else "Table V"
    tiny = ("1e-12", Measured(1e-12, 0.0, 2))
    zero = tuple(
        Pair(NAMES[c.facts.name],
             (RECAL_PRINTED, Measured.of(c.printed[RECAL_PRINTED, EQUAL].zero)), tiny)
        for c in own
    )  # fmt: skip
    found.append(
        Ordering(part, "at the paper's weights DP-RECAL comes within 1e-12 of the optimum, 0", zero)
    )
    return found


def _printed(cell: Cell, name: str) -> tuple[str, Measured]:
    return name, cell.printed[name, EQUAL].course[-1]


def _sound(own: list[Cell], loss: str) -> list[Ordering]:
    """Return whether RECAL is ahead of every rival at equal totals, all of them sound."""
    found = []
    for what, words in (("relative", "relative error"), ("wrong", "test error")):
        pairs = tuple(
            Pair(NAMES[cell.facts.name], *(_last(cell, m, what) for m in ("RECAL", rival)))
            for rival in _RIVALS
            for cell in own
        )
        claim = f"{words} at equal totals, sound forms: RECAL is below every other"
        found.append(Ordering(BY_LOSS[loss][1], claim, pairs, "ours"))
    return found


def _last(cell: Cell, name: str, what: str) -> tuple[str, Measured]:
    return name, cell.outcomes[name, AT_TWELVE].last(what)


def _fair(own: list[Cell]) -> list[Ordering]:
    """Return whether having a server helps, at equal totals and communication."""
    pairs = tuple(
        Pair(f"{NAMES[cell.facts.name]}, epsilon {setting.total:g}",
             *((name, Measured.of(cell.outcomes[name, setting].gaps)) for name in (STAR, rival)))
        for rival in _RIVALS
        if rival != STAR
        for cell in own
        for setting in (*totals(), AT_TWELVE)
    )  # fmt: skip
    claim = f"objective above the optimum: {STAR}, is below every method without a server"
    return [Ordering(f"{FAIR}, objective", claim, pairs, "ours")] if pairs else []
