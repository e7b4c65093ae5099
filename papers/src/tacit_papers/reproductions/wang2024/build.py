"""Wang et al. 2024, DP-RECAL: Tables I to V and Figures 2 to 9, run again."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tacit.datasets import load
from tacit.network import ring, uniform_walk
from tacit_papers.reproductions.gallery import gallery_html
from tacit_papers.reproductions.reproduction import Picture, Reproduction
from tacit_papers.reproductions.wang2024 import claims
from tacit_papers.reproductions.wang2024.figures import figures, leak_figure
from tacit_papers.reproductions.wang2024.images import images
from tacit_papers.reproductions.wang2024.leak import Leak, leaks
from tacit_papers.reproductions.wang2024.measured import Cell, measured
from tacit_papers.reproductions.wang2024.scaling import scaling
from tacit_papers.reproductions.wang2024.settings import AGENTS, AT_TWELVE, EQUAL, Scale
from tacit_papers.reproductions.wang2024.spending import spending_svg
from tacit_papers.reproductions.wang2024.tables import (
    comparison_table,
    fair_tables,
    optima_table,
    scaling_tables,
)
from tacit_papers.reproductions.wang2024.text import PROBLEM, TITLE, notes, settings_of

PAPER = "wang2024"


def build(scale: Scale, report: Callable[[str], None]) -> Reproduction:
    """Return the reproduction at a scale; all but times is determined by the seeds.

    Parameters
    ----------
    report
        Called with one line before every part.
    """
    began = time.perf_counter()
    cells, solved = measured(scale, report)
    costs = scaling(scale, report)
    leaked = _leaked()
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        problem=PROBLEM,
        settings=settings_of(scale),
        seeds=tuple(range(scale.repetitions)),
        figures=(*figures(cells, scale.losses), leak_figure(leaked)),
        tables=(
            *fair_tables(cells, solved, scale),
            *(comparison_table(cells, loss) for loss in scale.losses),
            optima_table(cells),
            *scaling_tables(costs, scale),
        ),
        orderings=(
            *claims.orderings(cells, scale.losses),
            *claims.of_leaks(leaked),
            *claims.of_scaling(costs, scale),
        ),
        notes=notes(scale),
        seconds=time.perf_counter() - began,
        pictures=(
            _spending(cells[0], scale),
            *(_attacked(name, report) for name in scale.images),
        ),
    )


def _attacked(name: str, report: Callable[[str], None]) -> Picture:
    """Return the pictures of Figures 4, 7 and 8."""
    report(f"Figures 4, 7 and 8: {name}")
    made = images(load(name), seed=0, quick=True)
    return Picture(made.id, made.title, made.question, gallery_html(made), made.to_dict())


def _leaked() -> tuple[Leak, ...]:
    """Return the attack on one record of each agent, a positive one first."""
    data = load("ijcnn1")
    chosen = np.flatnonzero(data.targets == 1)[:AGENTS]
    rows = data.features[chosen]
    return leaks(rows / np.linalg.norm(rows, axis=1, keepdims=True), data.targets[chosen])


def _spending(cell: Cell, scale: Scale) -> Picture:
    outcome = cell.outcomes["RECAL", AT_TWELVE]
    graph = ring(AGENTS)
    counts = uniform_walk(graph, scale.hops, seed=0).counts
    return Picture(
        "Spending",
        "Who spends what on a random walk",
        f"RECAL at total epsilon {EQUAL:g}: exact epsilon of each agent, and how often it was "
        "asked. The budget binds for the agent asked most; the others spend less. Counts are fixed "
        "by a public walk before a record is touched.",
        spending_svg(graph, outcome.per_agent, counts.tolist()),
        {"epsilon": list(outcome.per_agent), "asked": counts.tolist()},
    )
