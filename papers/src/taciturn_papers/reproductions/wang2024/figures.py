"""Figures 2, 3, 5, 6 and 9, and the drawing of spending."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
from taciturn_papers.reproductions.wang2024.arms import Outcome
from taciturn_papers.reproductions.wang2024.as_printed import (
    PRINTED,
    RECAL_PRINTED,
    WEIGHTS,
    Case,
    Leak,
    Weights,
)
from taciturn_papers.reproductions.wang2024.runs import Cell
from taciturn_papers.reproductions.wang2024.settings import NAMES, NO_NOISE, Scale
from taciturn_power import layout

_LATER = 4  # the first signs of a model near 0 would fill the axis of errors
SENT = "thousands of vectors sent"
RELATIVE, WRONG = "relative error", "test error, %"
BY_LOSS = {"linear": ("Figure 2", "Figure 3"), "logistic": ("Figure 5", "Figure 6")}


def title_of(cell: Cell) -> str:
    """Return the name of a cell's data set as readers see it."""
    return NAMES.get(cell.facts.name, cell.facts.name)


def weights_text(weights: Weights, scale: Scale) -> str:
    """Return the weights of a run as text."""
    if weights == "ours":
        return f"weights {scale.l1:g}, {scale.l2:g}"
    return f"the paper's weights {scale.paper_l1:g}, {scale.paper_l2:g}"


def usual(weights: Weights, claimed: float, scale: Scale) -> Case:
    """Return the case of the figures: the first readings of c and R."""
    return Case(weights, claimed, scale.bounds[0], scale.decays[0])


def figures(cells: list[Cell], scale: Scale) -> tuple[Figure, ...]:
    """Return Figures 2 and 3 (linear), then 5 and 6 (logistic)."""
    made = []
    for loss in scale.losses:
        chosen = [cell for cell in cells if cell.facts.loss == loss]
        made += [_by_budget(chosen, loss, scale), _methods(chosen, loss, scale)]
    return tuple(made)


def _by_budget(cells: list[Cell], loss: str, scale: Scale) -> Figure:
    name = BY_LOSS[loss][0]
    return Figure(
        name,
        f"{name}: DP-RECAL under different budgets ({loss} regression)",
        "How near does the token come to the optimum, and what does a budget cost? DP-RECAL as "
        "published, which is not private whatever it claims, at the paper's weights, whose optimum "
        "is 0, and at smaller ones. Beside it another method, the sound RECAL, which asks for "
        "noised gradients; the paper says nothing of it.",
        "larger budgets converge faster, and a large one nearly as well as none.",
        tuple(_budget_panel(cell, scale) for cell in cells),
    )


def _budget_panel(cell: Cell, scale: Scale) -> Panel:
    budgets = (*scale.paper_budgets, NO_NOISE)
    curves = [_curve("RECAL", s, cell.outcomes["RECAL", s], "relative") for s in budgets]
    curves += [
        _printed_curve(cell, RECAL_PRINTED, usual(weights, total, scale), scale)
        for weights in WEIGHTS
        for total in (*scale.budgets, math.inf)
    ]
    return Panel(SENT, f"{title_of(cell)}: {RELATIVE}", tuple(curves), log_y=True)


def _methods(cells: list[Cell], loss: str, scale: Scale) -> Figure:
    name, budget = BY_LOSS[loss][1], scale.at_equal
    panels = []
    for cell in cells:
        sound = [m for m, at in cell.outcomes if at == budget]
        course = [_curve(m, budget, cell.outcomes[m, budget], "relative") for m in sound]
        course += [
            _printed_curve(cell, m, usual(weights, scale.equal, scale), scale)
            for weights in WEIGHTS
            for m in PRINTED
        ]
        wrong = [_curve(m, budget, cell.outcomes[m, budget], "wrong") for m in sound]
        wrong += _levels(cell, budget)
        panels += [
            Panel(SENT, f"{title_of(cell)}: {RELATIVE}", tuple(course), log_y=True),
            Panel(SENT, f"{title_of(cell)}: {WRONG}", tuple(wrong)),
        ]
    return Figure(
        name,
        f"{name}: methods at epsilon {scale.equal:g} ({loss} regression)",
        "All sound methods spend the same total and send equally many numbers, but for the trusted "
        "holder, who sends none. The published ones only claim that total, and send two thirds.",
        "DP-RECAL has the smallest error of all at the same budget.",
        tuple(panels),
    )


def _curve(name: str, budget: Budget, outcome: Outcome, what: str) -> Curve:
    first = _LATER if what == "wrong" else 0
    sent = tuple(float(x) for x in outcome.sent[first:])
    return Curve(name, (budget,), sent, outcome.course(what)[first:])


def _printed_curve(cell: Cell, name: str, case: Case, scale: Scale) -> Curve:
    runs, place = cell.case(name, case)
    sent = tuple(float(x) for x in runs.sent)
    claim = "no noise" if math.isinf(case.claimed) else f"claims epsilon {case.claimed:g}"
    # what the links give away has no finite epsilon; of the gossip methods none is proved
    label = f"{name}, {claim}, {weights_text(case.weights, scale)}"
    return Curve(label, (NO_NOISE,), sent, runs.course(place), reference=True)


def _levels(cell: Cell, budget: Budget) -> list[Curve]:
    sent = cell.outcomes["RECAL", budget].sent
    optimum = Measured.computed(cell.facts.optimum_error)
    x = (float(sent[0]), float(sent[-1]))
    return [
        level("non-private optimum", optimum, x, NO_NOISE),
        commonest_label(cell.facts.labels, x, delta=budget.delta),
    ]


def leak_figure(leaks: tuple[Leak, ...]) -> Figure:
    """Return Figure 9: how well a record is read off the links."""
    curves = tuple(
        Curve(one.name, (one.budget,), tuple(map(float, one.visits)), one.errors) for one in leaks
    )
    return Figure(
        "Figure 9",
        "Figure 9: one record of ijcnn1, read off the links",
        "An agent has one record. Someone who reads every link turns what enters and leaves it "
        "into a gradient (as_published.recover), and the gradient of one record is a multiple of "
        "that record. No attack by optimisation is needed. Without a regulariser every gradient "
        "is read; with the paper's weights x is 0 in most coordinates, which hides them there: "
        f"{_share(leaks[2])} of the coordinates of gradients are read, what is not known counts "
        "as 0, and so the figure refutes nothing at these weights. Error: mean square difference "
        "of the record and the guess, both of norm 1.",
        "with DP-RECAL the attacker's error stays large, without noise it falls to 0.",
        (Panel("activation of the agent", "mean square error", curves, log_y=True),),
    )


def _share(leak: Leak) -> str:
    return f"{100 * leak.read.mean:.2g} %"


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
