"""What the paper says comes out, and what we compare beside it; decided by measured means."""

from __future__ import annotations

from itertools import pairwise

from tacit.reproductions.figure import Measured
from tacit.reproductions.ordering import Ordering, Pair
from tacit.reproductions.wang2024.figures import BY_LOSS
from tacit.reproductions.wang2024.leak import Leak
from tacit.reproductions.wang2024.measured import Cell, totals
from tacit.reproductions.wang2024.methods import CENTRAL, METHODS, STAR
from tacit.reproductions.wang2024.published import PRINTED, RECAL_PRINTED
from tacit.reproductions.wang2024.scaling import COMPARED, GRAPHS, Scaling
from tacit.reproductions.wang2024.settings import (
    AT_TWELVE,
    BUDGETS,
    EQUAL,
    NAMES,
    NO_NOISE,
    Scale,
    Setting,
)
from tacit.reproductions.wang2024.tables import BY_GRAPH, FAIR

_RIVALS = tuple(name for name in METHODS if name not in {"RECAL", CENTRAL})


def orderings(cells: list[Cell], losses: tuple[str, ...]) -> list[Ordering]:
    """Return the orderings of Figures 2, 3, 5, 6 and Tables IV, V, and ours."""
    found: list[Ordering] = []
    for loss in losses:
        own = [cell for cell in cells if cell.facts.loss == loss]
        found += [*_budgets(own, loss), *_published(own, loss), *_sound(own, loss)]
    return found + _fair([cell for cell in cells if cell.facts.loss == "logistic"])


def of_scaling(costs: Scaling, scale: Scale) -> list[Ordering]:
    """Return the orderings of Tables I to III."""
    found = []
    for kind in GRAPHS:
        for what, words in (
            ("messages", "sends fewer messages than"),
            ("plf", "has a lower PLF than"),
        ):
            for rival in COMPARED[1:]:
                pairs = tuple(
                    Pair(f"{n} agents", _once("RECAL", getattr(costs[kind, "RECAL", n], what)),
                         _once(rival, getattr(costs[kind, rival, n], what)))
                    for n in scale.sizes
                )  # fmt: skip
                found.append(Ordering(BY_GRAPH[kind], f"RECAL {words} {rival}", pairs))
    return found


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
    found = []
    for rival in PRINTED[1:]:
        pairs = tuple(
            Pair(NAMES[cell.facts.name], _printed(cell, RECAL_PRINTED), _printed(cell, rival))
            for cell in own
        )
        claim = f"relative error, optimum not 0: {RECAL_PRINTED} is below {rival}"
        found.append(Ordering(BY_LOSS[loss][1], claim, pairs))
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
    found = []
    for what, words in (("relative", "relative error"), ("wrong", "test error")):
        for rival in _RIVALS:
            pairs = tuple(
                Pair(NAMES[cell.facts.name], _last(cell, "RECAL", AT_TWELVE, what),
                     _last(cell, rival, AT_TWELVE, what))
                for cell in own
            )  # fmt: skip
            claim = f"{words} at equal totals, sound forms: RECAL is below {rival}"
            found.append(Ordering(BY_LOSS[loss][1], claim, pairs, "ours"))
    return found


def _last(cell: Cell, name: str, setting: Setting, what: str) -> tuple[str, Measured]:
    return name, cell.outcomes[name, setting].last(what)


def _fair(own: list[Cell]) -> list[Ordering]:
    """Return whether having a server helps, at equal totals and communication."""
    found = []
    for rival in METHODS:
        if rival in {STAR, CENTRAL} or not own:
            continue
        pairs = tuple(
            Pair(f"{NAMES[cell.facts.name]}, epsilon {setting.total:g}",
                 (STAR, Measured.of(cell.outcomes[STAR, setting].gaps)),
                 (rival, Measured.of(cell.outcomes[rival, setting].gaps)))
            for cell in own
            for setting in (*totals(), AT_TWELVE)
        )  # fmt: skip
        claim = f"objective above the optimum: {STAR} is below {rival}"
        found.append(Ordering(f"{FAIR}, objective", claim, pairs, "ours"))
    return found


def _once(name: str, value: float) -> tuple[str, Measured]:
    return name, Measured(value, 0.0, 1)
