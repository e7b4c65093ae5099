"""Figures 2, 3, 5, 6 and 9 and the drawing of spending, and the orderings of figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure as Drawing

from taciturn.network import Graph
from taciturn.report import STYLE, inline_svg
from taciturn_papers.reproductions.figure import (
    Budget,
    Curve,
    Figure,
    Measured,
    Panel,
    commonest_label,
    level,
)
from taciturn_papers.reproductions.ordering import Ordering, Pair
from taciturn_papers.reproductions.wang2024.arms import (
    CENTRAL,
    METHODS,
    STAR,
    STAR_MASKED,
    TREE,
    TREE_MASKED,
    Outcome,
)
from taciturn_papers.reproductions.wang2024.as_printed import PRINTED, RECAL_PRINTED, Leak
from taciturn_papers.reproductions.wang2024.costs import COMPARED, GRAPHS, Scaling
from taciturn_papers.reproductions.wang2024.runs import Cell
from taciturn_papers.reproductions.wang2024.settings import (
    AT_TWELVE,
    BUDGETS,
    DELTA,
    EQUAL,
    NAMES,
    NO_NOISE,
    Scale,
    our_budgets,
    paper_budgets,
)
from taciturn_papers.reproductions.wang2024.tables import BY_GRAPH, FAIR
from taciturn_power import layout

_LATER = 4  # the first signs of a model near 0 would fill the axis of errors
SENT = "thousands of vectors sent"
RELATIVE, WRONG = "relative error", "test error, %"
BY_LOSS = {"linear": ("Figure 2", "Figure 3"), "logistic": ("Figure 5", "Figure 6")}


def figures(cells: list[Cell], losses: tuple[str, ...]) -> tuple[Figure, ...]:
    """Return Figures 2 and 3 (linear), then 5 and 6 (logistic)."""
    made = []
    for loss in losses:
        chosen = [cell for cell in cells if cell.facts.loss == loss]
        made += [_by_budget(chosen, loss), _methods(chosen, loss)]
    return tuple(made)


def _by_budget(cells: list[Cell], loss: str) -> Figure:
    name = BY_LOSS[loss][0]
    return Figure(
        name,
        f"{name}: RECAL under different budgets ({loss} regression)",
        "How near does the token come to the optimum, and what does a budget cost? Weights small "
        "enough that the optimum is not 0. RECAL here asks for noised gradients; the dashed line "
        "is the paper's own DP-RECAL, which is not private whatever it claims.",
        "larger budgets converge faster, and a large one nearly as well as none.",
        tuple(_budget_panel(cell) for cell in cells),
    )


def _budget_panel(cell: Cell) -> Panel:
    budgets = (*paper_budgets(), NO_NOISE)
    curves = [_curve("RECAL", s, cell.outcomes["RECAL", s], "relative") for s in budgets]
    curves.append(_printed_curve(cell, RECAL_PRINTED, BUDGETS[-1]))
    return Panel(SENT, f"{NAMES[cell.facts.name]}: {RELATIVE}", tuple(curves), log_y=True)


def _methods(cells: list[Cell], loss: str) -> Figure:
    name = BY_LOSS[loss][1]
    panels = []
    for cell in cells:
        course = [_curve(m, AT_TWELVE, cell.outcomes[m, AT_TWELVE], "relative") for m in METHODS]
        course += [_printed_curve(cell, m, EQUAL) for m in PRINTED]
        wrong = [_curve(m, AT_TWELVE, cell.outcomes[m, AT_TWELVE], "wrong") for m in METHODS]
        wrong += _levels(cell)
        title = NAMES[cell.facts.name]
        panels += [
            Panel(SENT, f"{title}: {RELATIVE}", tuple(course), log_y=True),
            Panel(SENT, f"{title}: {WRONG}", tuple(wrong)),
        ]
    return Figure(
        name,
        f"{name}: methods at epsilon {EQUAL:g} ({loss} regression)",
        "All sound methods spend the same total and send equally many numbers, but for the trusted "
        "holder, who sends none. The published ones only claim that total, and send two thirds.",
        "DP-RECAL has the smallest error of all at the same budget.",
        tuple(panels),
    )


def _curve(name: str, budget: Budget, outcome: Outcome, what: str) -> Curve:
    first = _LATER if what == "wrong" else 0
    sent = tuple(float(x) for x in outcome.sent[first:])
    return Curve(name, (budget,), sent, outcome.course(what)[first:])


def _printed_curve(cell: Cell, name: str, claimed: float) -> Curve:
    one = cell.printed[name, claimed]
    sent = tuple(float(x) for x in one.sent)
    # what the links give away has no finite epsilon; of the gossip methods none is proved
    return Curve(
        f"{name}, claims epsilon {claimed:g}", (NO_NOISE,), sent, one.course, reference=True
    )


def _levels(cell: Cell) -> list[Curve]:
    sent = cell.outcomes["RECAL", AT_TWELVE].sent
    optimum = Measured.computed(cell.facts.optimum_error)
    x = (float(sent[0]), float(sent[-1]))
    return [
        level("non-private optimum", optimum, x, NO_NOISE),
        commonest_label(cell.facts.labels, x, delta=DELTA),
    ]


def leak_figure(leaks: tuple[Leak, ...]) -> Figure:
    """Return Figure 9: how well a record is read off the links."""
    curves = tuple(
        Curve(one.name, (one.budget,), tuple(map(float, one.visits)), one.errors) for one in leaks
    )
    return Figure(
        "Figure 9",
        "Figure 9: one record of ijcnn1, read off the links",
        "An agent has one record; there is no regulariser. Someone who reads every link turns what "
        "enters and leaves it into a gradient (as_published.recover), and the gradient of "
        "one record is a multiple of that record. No attack by optimisation is needed. Error: "
        "mean square difference of the record and the guess, both of norm 1.",
        "with DP-RECAL the attacker's error stays large, without noise it falls to 0.",
        (Panel("activation of the agent", "mean square error", curves, log_y=True),),
    )


def spending_svg(graph: Graph, spent: Sequence[float], asked: Sequence[int]) -> str:
    """Return an `<svg>`: agents are discs, the darker the more they spend; epsilon is written in.

    Parameters
    ----------
    spent, asked
        Exact total epsilon of each agent, and how often it was asked.
    """
    places = layout(graph.edges, np.ones(len(graph.edges)), graph.agents)
    with matplotlib.rc_context(dict(STYLE)):
        page = Drawing(figsize=(6.4, 4.6), layout="constrained")
        FigureCanvasSVG(page)
        axes = page.subplots()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.margins(0.15)
        lines = list(places[graph.edges])
        axes.add_collection(LineCollection(lines, colors="#8a929c", linewidths=1.2))
        low, high = min(spent), max(spent)
        shade = [0.35 + 0.55 * (value - low) / ((high - low) or 1) for value in spent]
        colours = matplotlib.colormaps["Blues"](shade)
        across, up = places.T
        axes.scatter(across, up, s=1500, c=colours, edgecolors="white", linewidths=1.5, zorder=3)
        for (x, y), value, count in zip(places, spent, asked, strict=True):
            text = f"{value:.3g}\n{count}x"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color="white", zorder=4)
        return inline_svg(page, f"Network of {graph.agents} agents with what each spends")


_MASKED = {TREE_MASKED, STAR_MASKED}  # their budget is for another observer
_RIVALS = tuple(name for name in METHODS if name not in {"RECAL", CENTRAL, *_MASKED})


def orderings(cells: list[Cell], losses: tuple[str, ...]) -> list[Ordering]:
    """Return the orderings of Figures 2, 3, 5, 6 and Tables IV, V, and ours."""
    found: list[Ordering] = []
    for loss in losses:
        chosen = [cell for cell in cells if cell.facts.loss == loss]
        found += [
            *_budget_orders(chosen, loss),
            *_published_orders(chosen, loss),
            *_sound_orders(chosen, loss),
        ]
    return found + _fair_orders([cell for cell in cells if cell.facts.loss == "logistic"])


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
        Pair(
            f"{what}, {agents} agents",
            _cost(costs, (kind, "RECAL", agents), what),
            _cost(costs, (kind, rival, agents), what),
        )
        for rival in rivals
        for agents in scale.sizes
    )  # fmt: skip


def _cost(costs: Scaling, place: tuple[str, str, int], what: str) -> tuple[str, Measured]:
    return place[1], Measured.of([getattr(costs[place], what)])


def of_leaks(found: tuple[Leak, ...]) -> list[Ordering]:
    """Return the ordering of Figure 9, and ours about the sound form."""
    exact, printed, sound = found
    last = [(one.name, one.errors[-2]) for one in (exact, printed, sound)]
    where = f"activation {exact.visits[-2]}"
    return [
        Ordering("Figure 9", "the noise of DP-RECAL keeps the attacker from the record: error "
                 "above 1e-6", (Pair(where, ("1e-6", Measured.computed(1e-6)), last[1]),)),
        Ordering("Figure 9", "noised gradients keep the attacker from the record: error above that "
                 "of DP-RECAL as published", (Pair(where, last[1], last[2]),), "ours"),
    ]  # fmt: skip


def _budget_orders(chosen: list[Cell], loss: str) -> list[Ordering]:
    ordered = (*paper_budgets(), NO_NOISE)
    pairs = tuple(
        Pair(NAMES[cell.facts.name], _named_budget(cell, loose), _named_budget(cell, tight))
        for cell in chosen
        for tight, loose in pairwise(ordered)
    )
    claim = "the larger the budget, the smaller the relative error of RECAL; none is best"
    return [Ordering(BY_LOSS[loss][0], claim, pairs)]


def _named_budget(cell: Cell, budget: Budget) -> tuple[str, Measured]:
    name = "no noise" if budget == NO_NOISE else f"epsilon {budget.total:g}"
    return name, cell.outcomes["RECAL", budget].last("relative")


def _published_orders(chosen: list[Cell], loss: str) -> list[Ordering]:
    pairs = tuple(
        Pair(NAMES[cell.facts.name], _printed(cell, RECAL_PRINTED), _printed(cell, rival))
        for rival in PRINTED[1:]
        for cell in chosen
    )
    claim = f"relative error, optimum not 0: {RECAL_PRINTED} is below DP-EXTRA and DP-NIDS"
    found = [Ordering(BY_LOSS[loss][1], claim, pairs)]
    part = "Table IV" if loss == "linear" else "Table V"
    tiny = ("1e-12", Measured.computed(1e-12))
    zero = tuple(
        Pair(NAMES[c.facts.name],
             (RECAL_PRINTED, Measured.of(c.printed[RECAL_PRINTED, EQUAL].zero)), tiny)
        for c in chosen
    )  # fmt: skip
    found.append(
        Ordering(part, "at the paper's weights DP-RECAL comes within 1e-12 of the optimum, 0", zero)
    )
    return found


def _printed(cell: Cell, name: str) -> tuple[str, Measured]:
    return name, cell.printed[name, EQUAL].course[-1]


def _sound_orders(chosen: list[Cell], loss: str) -> list[Ordering]:
    """Return whether RECAL is ahead of every rival at equal totals, all of them sound."""
    found = []
    for what, words in (("relative", "relative error"), ("wrong", "test error")):
        pairs = tuple(
            Pair(NAMES[cell.facts.name], _last(cell, "RECAL", what), _last(cell, rival, what))
            for rival in _RIVALS
            for cell in chosen
        )
        claim = f"{words} at equal totals, sound forms: RECAL is below every other"
        found.append(Ordering(BY_LOSS[loss][1], claim, pairs, "ours"))
    return found


def _last(cell: Cell, name: str, what: str) -> tuple[str, Measured]:
    return name, cell.outcomes[name, AT_TWELVE].last(what)


def _fair_orders(chosen: list[Cell]) -> list[Ordering]:
    """Return whether a server helps, or sums along a tree, at equal totals and communication."""
    others = [name for name in _RIVALS if name not in {STAR, TREE}]
    found = []
    for first in (STAR, TREE):
        pairs = tuple(
            Pair(
                f"{NAMES[cell.facts.name]}, epsilon {budget.total:g}",
                (first, Measured.of(cell.outcomes[first, budget].gaps)),
                (rival, Measured.of(cell.outcomes[rival, budget].gaps)),
            )
            for rival in others
            for cell in chosen
            for budget in (*our_budgets(), AT_TWELVE)
        )
        claim = f"objective above the optimum: {first}, is below every method by gossip or relay"
        found += [Ordering(f"{FAIR}, objective", claim, pairs, "ours")] if pairs else []
    return found
