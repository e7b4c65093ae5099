"""Tables I to V, and the tables that we add."""

from __future__ import annotations

import math

import numpy as np

from taciturn_papers.reproductions.figure import Measured, Table
from taciturn_papers.reproductions.wang2024.arms import CENTRAL, RECAL_HOP, Outcome, arm_named
from taciturn_papers.reproductions.wang2024.as_printed import PRINTED, RECAL_PRINTED, Printed
from taciturn_papers.reproductions.wang2024.costs import CLOSE, COMPARED, MU, Scaling, power_of
from taciturn_papers.reproductions.wang2024.figures import title_of, usual
from taciturn_papers.reproductions.wang2024.runs import Cell, Solved
from taciturn_papers.reproductions.wang2024.settings import OUR_DELTA, Scale

BY_GRAPH = {"complete": "Table I", "ring": "Table II", "random": "Table III"}
FAIR = "Our table"
_PAPER_ORDERS = {
    "complete": "n ln(1/tol) messages for RECAL, n^2 for gossip, n^3 for RWADMM; PLF constant, for "
    "RWADMM n^2",
    "ring": "n ln(1/tol) messages for RECAL, n^3 for all others; PLF constant, for the others n^2",
    "random": "n ln(1/tol) messages for RECAL, m / gap for gossip; PLF constant for RECAL",
}


def scaling_tables(costs: Scaling, scale: Scale) -> tuple[Table, ...]:
    """Return Tables I to III as measured."""
    return tuple(_scaling(costs, scale, kind, name) for kind, name in BY_GRAPH.items())


def _scaling(costs: Scaling, scale: Scale, kind: str, name: str) -> Table:
    rows: list[tuple[str | Measured, ...]] = []
    for method in COMPARED:
        for agents in scale.sizes:
            one = costs[kind, method, agents]
            cells = (one.gradients, one.plf, one.messages, one.bytes, one.epsilon)
            rows.append((method, str(agents), *cells))
        fits = [
            power_of(costs, kind, method, scale.sizes, w) for w in ("gradients", "plf", "messages")
        ]
        rows.append((f"{method}: order in n", "", *(_power(p) for p in fits), "", ""))
    return Table(
        name,
        f"{name}: least squares, {kind} network, until the relative error stays below {CLOSE:g}",
        ("method", "agents", "gradients", "PLF", "messages", "bytes", "epsilon of the busiest"),
        tuple(rows),
        f"The paper: {_PAPER_ORDERS[kind]}. Measured without noise over {scale.walks} random "
        f"walks; gossip has no chance. RECAL with the paper's steps {scale.alpha:g} / (L + 1) if "
        "nothing else is said, the others with their public ones. RECAL stays below if it does "
        f"for as many hops again. Epsilon: if every answer were {MU:g}-GDP, delta {OUR_DELTA:g}. "
        f"No number: not reached on every walk, in {scale.most_rounds:,} rounds of gossip, "
        f"{10 * scale.most_rounds:,} hops of RWADMM, or {25 * scale.most_rounds:,} of RECAL "
        "(balanced: a fifth of it).",
    )


def comparison_table(cells: list[Cell], loss: str, scale: Scale) -> Table:
    """Return Table IV (linear) or V (logistic)."""
    chosen = [cell for cell in cells if cell.facts.loss == loss]
    name = "Table IV" if loss == "linear" else "Table V"
    rows = [row for cell in chosen for row in _rows(cell, scale)]
    return Table(
        name,
        f"{name}: {loss} regression, {scale.agents} agents ({scale.network}), epsilon "
        f"{scale.equal:g}",
        ("data", "method", "total epsilon", "PLF", "messages", "vectors each", "seconds",
         "relative error", "at the paper's weights", "at the paper's weights, no noise"),
        tuple(rows),
        "Relative error: |x - x*| / |x^1 - x*| at the end, with weights whose optimum is not 0, "
        "and for published methods with the paper's, where the optimum is 0 wherever the table of "
        "optima says so; c is as large as a record allows, and R the first of the settings (the "
        "orderings have the other readings). Published methods claim that epsilon and have no such "
        "guarantee. Seconds: one run in a compiled program, the published ones a NumPy loop, their "
        "share of several run together.",
    )  # fmt: skip


def _rows(cell: Cell, scale: Scale) -> list[tuple[str | Measured, ...]]:
    """Return what every method spent, sent and reached on a task, the published ones last."""
    rows: list[tuple[str | Measured, ...]] = []
    for name, budget in cell.outcomes:
        if budget == scale.at_equal and name != CENTRAL:
            one, arm = cell.outcomes[name, budget], arm_named(name, scale)
            sent = _sent(cell, name, f"{scale.equal:g}", one, arm.vectors / arm.messages)
            rows.append((*sent, one.last("relative"), "-", "-"))
    for name in PRINTED:
        runs = cell.printed[name]
        each = RECAL_HOP - 1 if name == RECAL_PRINTED else 1
        sent = _sent(cell, name, f"claims {scale.equal:g}", runs, each)
        places = [
            usual("ours", scale.equal, scale), usual("paper", scale.equal, scale),
            usual("paper", math.inf, scale),
        ]  # fmt: skip
        rows.append((*sent, *(runs.last(cell.case(name, case)[1]) for case in places)))
    return rows


def _sent(
    cell: Cell, name: str, total: str, one: Outcome | Printed, each: float
) -> tuple[str, ...]:
    return (title_of(cell), name, total, _span(one.plf), f"{one.messages:,}",
            f"{each:g}", f"{one.seconds:.2g}")  # fmt: skip


def optima_table(cells: list[Cell], scale: Scale) -> Table:
    """Return where the published weights have their optimum at 0, and ours."""
    rows = tuple(
        (
            title_of(c), c.facts.loss, f"{c.facts.agents_records:,}",
            f"{c.facts.slope:.3g}", "0" if c.facts.slope <= scale.paper_l1 else "not 0",
            f"{c.facts.norm:.3g}",
            f"{c.facts.optimum_error:.3g}",
        )
        for c in cells
    )  # fmt: skip
    return Table(
        "Optima",
        "Where the optima are",
        ("data", "loss", "records an agent", "|grad f(0)|_inf", "optimum, paper's weights",
         "norm of the optimum, our weights", "its test error, %"),
        rows,
        f"0 is the optimum with l1 weight {scale.paper_l1:g} iff |grad f(0)|_inf is at most that. "
        "Rows have norm at most 1 here; with features up to 1 and longer rows, as in the paper, "
        "MNIST linear keeps one pixel and the rest stays 0.",
    )  # fmt: skip


def fair_tables(cells: list[Cell], solved: dict[str, Solved], scale: Scale) -> tuple[Table, ...]:
    """Return test errors and objective gaps at equal totals and equal communication."""
    chosen = [
        cell
        for cell in cells
        if cell.facts.loss == "logistic" and cell.facts.name in scale.rival_sets
    ]
    if not chosen:
        return ()
    made = [_fair(chosen, what, scale) for what in ("test error, %", "objective above the optimum")]
    return (*made, _solved_table(solved, scale)) if solved else tuple(made)


def _fair(chosen: list[Cell], what: str, scale: Scale) -> Table:
    budgets = (*scale.our_budgets, scale.at_equal)
    rows: list[tuple[str | Measured, ...]] = []
    for budget in budgets:
        label = f"{budget.total:g}, {budget.delta:g}"
        for method in (name for name, at in chosen[0].outcomes if at == budget):
            outcomes = [cell.outcomes[method, budget] for cell in chosen]
            values = [o.last("wrong") if "%" in what else Measured.of(o.gaps) for o in outcomes]
            rows.append((label, method, _span(outcomes[0].plf), *values))
    if "%" in what:
        best = [Measured.computed(cell.facts.optimum_error) for cell in chosen]
        rows.append(("none", "non-private optimum", "", *best))
    part = FAIR if "%" in what else f"{FAIR}, objective"
    return Table(
        part,
        f"{part}: {what} at equal totals and equal communication (logistic)",
        ("total epsilon, delta", "method", "PLF", *(title_of(cell) for cell in chosen)),
        tuple(rows),
        "All rows but the central one send equally many numbers over the links of the network "
        "or of its spanning tree, and every link is read. With masks one "
        "colluder is counted on, for DECOR too: it sees through the noise that it shares. The "
        "central row is one trusted holder of all records, whose noise is that of the whole set.",
    )


def _solved_table(solved: dict[str, Solved], scale: Scale) -> Table:
    rows = tuple(
        (name, f"{scale.equal:g}", str(one.asked), str(one.rounds), f"{one.messages:,}",
         one.gap, one.wrong,
         f"{one.seconds:.2g}")
        for name, one in solved.items()
    )  # fmt: skip
    return Table(
        "Exact steps",
        "ADMM whose agents solve a problem when asked: ijcnn1, linear, l2 only",
        ("method", "total epsilon", "answers of an agent", "rounds", "messages",
         "objective above the optimum",
         "test error, %", "seconds, first run"),
        rows,
        "Every other round of R-ADMM (the scheme that MR-ADMM refines) steps along a gradient that "
        "an earlier answer reveals: it asks nothing, has no entry in the ledger and costs nothing, "
        f"so {scale.solver_rounds} rounds spend what half as many answers cost. Neither takes a "
        "non-smooth term with recycled rounds. The fixed-point iteration (Cyffers, Bellet and Basu "
        "2023) has an aggregator; here it adds up along the spanning tree of the ring.",
    )  # fmt: skip


def _span(values: tuple[int, ...]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _power(p: float) -> str:
    return f"n^{p:.2g}" if np.isfinite(p) else "-"
