"""Figures 1 to 4 and Table II, and the orderings that they decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from taciturn_papers.reproductions.figure import (
    Budget,
    Curve,
    Figure,
    Measured,
    Panel,
    Table,
    commonest_label,
    level,
    ticks,
)
from taciturn_papers.reproductions.liu2022.arms import (
    Scores,
    StructuredArm,
    noisy_gradient,
    proximal,
    renyi,
    sadmm,
    vradmm,
    without_noise,
)
from taciturn_papers.reproductions.liu2022.settings import (
    DELTA,
    LASSO_WEIGHT,
    Divided,
    Kind,
    Scale,
    Task,
)
from taciturn_papers.reproductions.ordering import Ordering, below

NO_NOISE = Budget(math.inf, DELTA)


@dataclass(frozen=True)
class View:
    """A figure before anything is measured."""

    id: str
    title: str
    shows: str
    kind: Kind
    arms: tuple[StructuredArm, ...]


VIEWS = (
    View(
        "Figure 1",
        "Figure 1: smoothing, fused lasso",
        "DP-VRADMM with v = 2 and v = 3 does significantly better than with v = 0. (The shuffled "
        "columns are our control.)",
        "fused",
        (
            vradmm("published"),
            vradmm("published", 2.0),
            vradmm("published", 3.0),
            vradmm("published", 2.0, shuffled=True),
        ),
    ),
    View(
        "Figure 1, public steps",
        "Figure 1 with public step sizes",
        "nothing of these steps, which are ours: chosen from public facts before any record is "
        "seen.",
        "fused",
        (vradmm("public"), vradmm("public", 2.0), vradmm("public", 2.0, shuffled=True)),
    ),
    View(
        "Figure 2",
        "Figure 2: graph-guided fused lasso",
        "DP-VRADMM performs much better than DP-SADMM.",
        "fused",
        (
            vradmm("published"),
            sadmm("published"),
            vradmm("public"),
            sadmm("public"),
            noisy_gradient(),
            without_noise(vradmm("public"), "SVRG-ADMM"),
            without_noise(sadmm("public"), "STOC-ADMM"),
        ),
    ),
    View(
        "Figure 3",
        "Figure 3: the same with a ridge",
        "DP-VRADMM performs significantly better than DP-SADMM on this strongly convex problem.",
        "ridge",
        (
            vradmm("published"),
            sadmm("published"),
            vradmm("public"),
            sadmm("public"),
            noisy_gradient(),
        ),
    ),
    View(
        "Figure 4",
        "Figure 4: lasso",
        "DP-VRADMM and DP-SADMM significantly outperform DP-ADMM (here Renyi-DP ADMM), and "
        "DP-VRADMM does better than DP-SADMM.",
        "lasso",
        (
            vradmm("published"),
            sadmm("published"),
            sadmm("published", 2.0),
            renyi("published"),
            vradmm("public"),
            sadmm("public"),
            sadmm("public", 2.0),
            renyi("public"),
            proximal(),
            noisy_gradient(),
        ),
    ),
)


@dataclass(frozen=True, eq=False)
class Results:
    """One data set: its tasks, and the scores of every competitor on each of them."""

    divided: Divided
    tasks: Mapping[Kind, Task]
    scores: Mapping[Kind, Mapping[str, tuple[Scores, ...]]]

    @property
    def name(self) -> str:
        """The data set's."""
        return self.divided.data.name


def figure(view: View, parts: list[Results], scale: Scale) -> Figure:
    """Return a figure: for every data set the objective gap and the test error."""
    panels = [_panel(view, part, scale, what) for part in parts for what in ("gap", "error")]
    question = "What do the methods reach at equal total (epsilon, delta)?"
    return Figure(view.id, view.title, question, view.shows, tuple(panels))


def _panel(view: View, part: Results, scale: Scale, what: str) -> Panel:
    budgets = tuple(Budget(e, DELTA) for e in scale.budgets)
    curves = []
    for arm in view.arms:
        found = [getattr(each, what) for each in part.scores[view.kind][arm.name]]
        if arm.reference:
            curves.append(level(arm.name, found[0], scale.budgets, NO_NOISE))
        else:
            curves.append(Curve(arm.name, budgets, scale.budgets, tuple(found)))
    task = part.tasks[view.kind]
    if what == "error":
        optimum = Measured.computed(task.optimum_error)
        labels = np.asarray(task.test.stacked.targets[0])
        curves += [
            level("optimum", optimum, scale.budgets, NO_NOISE),
            commonest_label(labels, scale.budgets, delta=DELTA, percent=False),
        ]
    label = "objective gap" if what == "gap" else "test error (1 - accuracy)"
    labelled = ticks(e for e in scale.budgets if e != 0.8)
    return Panel("total epsilon", f"{part.name}: {label}", tuple(curves), labelled, log_x=True)


def data_table(parts: list[Results]) -> Table:
    """Return Table II as it was run."""
    rows = tuple(
        (
            part.name if part.divided.data.in_paper else f"{part.name} (not in the paper)",
            f"{len(part.divided.train[1]):,}",
            f"{len(part.divided.test[1]):,}",
            f"{part.divided.data.batch}",
            f"{part.divided.data.weight:g}",
            f"{part.divided.data.ridge:g}",
            f"{len(part.divided.edges)} (at {part.divided.graph_weight:g})",
            f"{part.tasks['fused'].gap_of_nothing:.3f}",
            f"{part.tasks['fused'].commonest:.3f}",
            f"{part.tasks['fused'].empty:.3f}",
        )
        for part in parts
    )
    return Table(
        "table2",
        "Table II: data sets and regularisers",
        ("data", "training", "test", "batch b", "lambda_1", "lambda_2", "edges of phi (at weight)",
         "gap of the model 0", "error of the commoner label", "empty test records"),
        rows,
        f"Figure 4 has lambda_1 = {LASSO_WEIGHT:g} everywhere. A gap that is not below that "
        "of the model 0, which asks nothing, is of no use; shown is that of Figure 1. There is no "
        "intercept: an empty record has the margin 0 and counts as wrong for every method.",
    )  # fmt: skip


What = Literal["gap", "error"]
_WORDS = {"gap": "objective gap", "error": "test error"}
_FIGURES: tuple[tuple[str, Kind], ...] = (
    ("Figure 2", "fused"),
    ("Figure 3", "ridge"),
    ("Figure 4", "lasso"),
)
VR, SA = vradmm("published"), sadmm("published")
OUR_VR, OUR_SA, OURS = vradmm("public"), sadmm("public"), noisy_gradient()
SMOOTH, SHUFFLED = vradmm("published", 2.0), vradmm("published", 2.0, shuffled=True)
OUR_SMOOTH, OUR_SHUFFLED = vradmm("public", 2.0), vradmm("public", 2.0, shuffled=True)


@dataclass(frozen=True)
class Comparison:
    """One competitor is better than another, in one figure and one measure."""

    figure: str
    kind: Kind
    what: What
    better: StructuredArm
    worse: StructuredArm
    whose: Literal["paper", "ours"]

    def decided(self, parts: list[Results], scale: Scale) -> Ordering:
        """Return the claim with the numbers that decide it, at every data set and budget."""
        sides = [
            (m.name, [getattr(s, self.what) for p in parts for s in p.scores[self.kind][m.name]])
            for m in (self.better, self.worse)
        ]
        places = [f"{part.name}, epsilon {e:g}" for part in parts for e in scale.budgets]
        claim = sentence(self.what, self.better, self.worse)
        return Ordering(self.figure, claim, below(sides[0], sides[1], places), self.whose)


def sentence(what: What, better: StructuredArm, worse: StructuredArm) -> str:
    """Return the claim in words."""
    return f"{_WORDS[what]}: {better.name} is better than {worse.name}"


def _both(
    figure: str, kind: Kind, better: StructuredArm, worse: StructuredArm
) -> tuple[Comparison, ...]:
    return tuple(
        Comparison(figure, kind, what, better, worse, "paper") for what in ("gap", "error")
    )


def _ours(figure: str, kind: Kind, better: StructuredArm, worse: StructuredArm) -> Comparison:
    return Comparison(figure, kind, "gap", better, worse, "ours")


PAPERS_COMPARISONS = (
    *_both("Figure 1", "fused", SMOOTH, VR),
    *_both("Figure 1", "fused", vradmm("published", 3.0), VR),
    *(claim for figure, kind in _FIGURES for claim in _both(figure, kind, VR, SA)),
    *_both("Figure 4", "lasso", VR, renyi("published")),
    *_both("Figure 4", "lasso", SA, renyi("published")),
    *_both("Figure 4", "lasso", sadmm("published", 2.0), renyi("published")),
)
OUR_COMPARISONS = (
    *(_ours(figure, kind, OUR_SA, OUR_VR) for figure, kind in _FIGURES),
    *(_ours(figure, kind, OUR_SA, VR) for figure, kind in _FIGURES),
    *(_ours(figure, kind, OURS, OUR_SA) for figure, kind in _FIGURES),
    *(_ours(figure, kind, OURS, VR) for figure, kind in _FIGURES),
    _ours("Figure 1", "fused", SMOOTH, SHUFFLED),
    _ours("Figure 1, public steps", "fused", OUR_SMOOTH, OUR_VR),
    _ours("Figure 1, public steps", "fused", OUR_SMOOTH, OUR_SHUFFLED),
    _ours("Figure 4", "lasso", OUR_SA, sadmm("public", 2.0)),
    _ours("Figure 4", "lasso", OUR_SA, renyi("public")),
    _ours("Figure 4", "lasso", OUR_SA, proximal()),
)


def orderings(parts: list[Results], scale: Scale) -> tuple[Ordering, ...]:
    """Return the orderings of the paper, and ours, decided."""
    return tuple(
        comparison.decided(parts, scale) for comparison in (*PAPERS_COMPARISONS, *OUR_COMPARISONS)
    )
