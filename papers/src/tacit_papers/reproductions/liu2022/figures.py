"""Figures 1 to 4: what is shown in which, and the panels of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tacit_papers.reproductions.figure import Budget, Curve, Figure, Measured, Panel, Table
from tacit_papers.reproductions.liu2022.cases import Case, Divided
from tacit_papers.reproductions.liu2022.measure import Scores
from tacit_papers.reproductions.liu2022.methods import (
    Method,
    noisy_gradient,
    proximal,
    renyi,
    sadmm,
    vradmm,
    without_noise,
)
from tacit_papers.reproductions.liu2022.settings import DELTA, LASSO_WEIGHT, Kind, Setting

NO_NOISE = Budget(math.inf, DELTA, "messages")


@dataclass(frozen=True)
class View:
    """A figure before anything is measured."""

    id: str
    title: str
    shows: str
    kind: Kind
    methods: tuple[Method, ...]


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
class Part:
    """One data set: its cases, and the scores of every method on each of them."""

    divided: Divided
    cases: Mapping[Kind, Case]
    scores: Mapping[Kind, Mapping[str, tuple[Scores, ...]]]

    @property
    def name(self) -> str:
        """The data set's."""
        return self.divided.data.name


def figure(view: View, parts: list[Part], setting: Setting) -> Figure:
    """Return a figure: for every data set the objective gap and the test error."""
    panels = [_panel(view, part, setting, what) for part in parts for what in ("gap", "error")]
    question = "What do the methods reach at equal total (epsilon, delta)?"
    return Figure(view.id, view.title, question, view.shows, tuple(panels))


def _panel(view: View, part: Part, setting: Setting, what: str) -> Panel:
    budgets = tuple(Budget(e, DELTA, "messages") for e in setting.budgets)
    curves = []
    for method in view.methods:
        found = [getattr(each, what) for each in part.scores[view.kind][method.name]]
        if method.reference:
            curves.append(_level(method.name, found[0], setting))
        else:
            curves.append(Curve(method.name, budgets, setting.budgets, tuple(found)))
    case = part.cases[view.kind]
    if what == "error":
        curves.append(_level("optimum", Measured(case.optimum_error, 0.0, 1), setting))
    label = "objective gap" if what == "gap" else "test error (1 - accuracy)"
    ticks = tuple((e, f"{e:g}") for e in setting.budgets if e != 0.8)
    return Panel("total epsilon", f"{part.name}: {label}", tuple(curves), ticks, log_x=True)


def _level(name: str, value: Measured, setting: Setting) -> Curve:
    x = (setting.budgets[0], setting.budgets[-1])
    return Curve(name, (NO_NOISE,), x, (value, value), reference=True)


def data_table(parts: list[Part]) -> Table:
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
            f"{part.cases['fused'].gap_of_nothing:.3f}",
            f"{part.cases['fused'].commonest:.3f}",
            f"{part.cases['fused'].empty:.3f}",
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
