"""Figures 2, 3, 5, 6 and 9, from what was measured."""

from __future__ import annotations

from tacit_papers.reproductions.figure import Budget, Curve, Figure, Measured, Panel
from tacit_papers.reproductions.wang2024.leak import Leak
from tacit_papers.reproductions.wang2024.measured import Cell
from tacit_papers.reproductions.wang2024.methods import METHODS
from tacit_papers.reproductions.wang2024.published import PRINTED, RECAL_PRINTED
from tacit_papers.reproductions.wang2024.settings import (
    AT_TWELVE,
    BUDGETS,
    DELTA,
    EQUAL,
    NAMES,
    NO_NOISE,
    Setting,
)
from tacit_papers.reproductions.wang2024.trial import Outcome

OPEN = Budget(float("inf"), DELTA, "messages")  # what the links give away has no finite epsilon
_LATER = 4  # the first signs of a model near 0 would fill the axis of errors
SENT = "thousands of vectors sent"
RELATIVE, WRONG = "relative error", "test error, %"
BY_LOSS = {"linear": ("Figure 2", "Figure 3"), "logistic": ("Figure 5", "Figure 6")}


def figures(cells: list[Cell], losses: tuple[str, ...]) -> tuple[Figure, ...]:
    """Return Figures 2 and 3 (linear), then 5 and 6 (logistic)."""
    made = []
    for loss in losses:
        own = [cell for cell in cells if cell.facts.loss == loss]
        made += [_budgets(own, loss), _methods(own, loss)]
    return tuple(made)


def _budgets(cells: list[Cell], loss: str) -> Figure:
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
    settings = (*map(Setting, BUDGETS), NO_NOISE)
    curves = [_curve("RECAL", s, cell.outcomes["RECAL", s], "relative") for s in settings]
    curves.append(_printed(cell, RECAL_PRINTED, BUDGETS[-1]))
    return Panel(SENT, f"{NAMES[cell.facts.name]}: {RELATIVE}", tuple(curves), log_y=True)


def _methods(cells: list[Cell], loss: str) -> Figure:
    name = BY_LOSS[loss][1]
    panels = []
    for cell in cells:
        course = [_curve(m, AT_TWELVE, cell.outcomes[m, AT_TWELVE], "relative") for m in METHODS]
        course += [_printed(cell, m, EQUAL) for m in PRINTED]
        wrong = [_curve(m, AT_TWELVE, cell.outcomes[m, AT_TWELVE], "wrong") for m in METHODS]
        wrong.append(_level(cell))
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


def _curve(name: str, setting: Setting, outcome: Outcome, what: str) -> Curve:
    first = _LATER if what == "wrong" else 0
    sent = tuple(float(x) for x in outcome.sent[first:])
    return Curve(name, (setting.budget,), sent, outcome.course(what)[first:])


def _printed(cell: Cell, name: str, claimed: float) -> Curve:
    one = cell.printed[name, claimed]
    sent = tuple(float(x) for x in one.sent)
    # a linear pair bounds the two gossip methods from below only; without a proof: no privacy
    return Curve(f"{name}, claims epsilon {claimed:g}", (OPEN,), sent, one.course, reference=True)


def _level(cell: Cell) -> Curve:
    sent = cell.outcomes["RECAL", AT_TWELVE].sent
    level = Measured(cell.facts.optimum_error, 0.0, 1)
    ends = (float(sent[0]), float(sent[-1]))
    return Curve("non-private optimum", (OPEN,), ends, (level, level), reference=True)


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
