"""Figures 1 to 4 and Table II, and the orderings that they decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    Arm,
    PublishedArm,
    Scores,
    SoundArm,
    accelerated_renyi,
    accelerated_sadmm,
    accelerated_vradmm,
    noisy_gradient,
    proximal,
    published,
    shortened,
)
from taciturn_papers.reproductions.liu2022.settings import Divided, Kind, Reading, Scale, Task
from taciturn_papers.reproductions.ordering import Ordering, Pair

What = Literal["gap", "error"]
_WORDS = {"gap": "objective gap", "error": "test error"}
VR, SA, RENYI = published("vradmm"), published("sadmm"), published("renyi")
OUR_VR, OUR_SA, OURS = accelerated_vradmm(), accelerated_sadmm(), noisy_gradient()
SMOOTH = published("vradmm", 2.0)
GRAPH, SHUFFLED = (published("vradmm", 2.0, along) for along in ("graph", "shuffled"))
SVRG = PublishedArm("SVRG-ADMM as published, without noise", "vradmm", reference=True)
STOC = PublishedArm("STOC-ADMM as published, without noise", "sadmm", reference=True)


@dataclass(frozen=True)
class View:
    """A figure before anything is measured."""

    id: str
    title: str
    shows: str
    kind: Kind
    arms: tuple[Arm, ...]


def views(scale: Scale) -> tuple[View, ...]:
    """Return the four figures with their competitors."""
    first: tuple[Arm, ...] = (
        VR, *(published("vradmm", v) for v in scale.smoothing), SMOOTH, SHUFFLED, GRAPH,
        *map(shortened, scale.shorter), OUR_VR, accelerated_vradmm(2.0),
    )  # fmt: skip
    return (
        View(
            "Figure 1",
            "Figure 1: smoothing, fused lasso",
            "DP-VRADMM with v = 2 and v = 3 does significantly better than with v = 0. (Shuffled "
            "columns, the graph, shorter steps and the accelerated methods are added.)",
            "fused",
            tuple({arm.name: arm for arm in first}.values()),
        ),
        View(
            "Figure 2",
            "Figure 2: graph-guided fused lasso",
            "DP-VRADMM performs much better than DP-SADMM.",
            "fused",
            (VR, SA, SVRG, STOC, OUR_VR, OUR_SA, OURS),
        ),
        View(
            "Figure 3",
            "Figure 3: the same with a ridge",
            "DP-VRADMM performs significantly better than DP-SADMM on this strongly convex "
            "problem. (As published its epochs are restarted, from a gradient without noise.)",
            "ridge",
            (VR, SA, OUR_VR, OUR_SA, OURS),
        ),
        View(
            "Figure 4",
            "Figure 4: lasso",
            "DP-VRADMM and DP-SADMM significantly outperform DP-ADMM (here Renyi-DP ADMM), and "
            "DP-VRADMM does better than DP-SADMM.",
            "lasso",
            (VR, SA, published("sadmm", 2.0), RENYI, OUR_VR, OUR_SA, accelerated_renyi(),
             proximal(), OURS),
        ),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Results:
    """One data set: its tasks, and the scores of every competitor on each of them.

    Attributes
    ----------
    scores
        By kind and competitor, under every reading at every budget. A sound arm has one reading,
        and a reference one budget.
    """

    divided: Divided
    tasks: Mapping[Kind, Task]
    scores: Mapping[Kind, Mapping[str, Sequence[Sequence[Scores]]]]

    @property
    def name(self) -> str:
        """The data set's."""
        return self.divided.data.name

    def values(self, kind: Kind, arm: Arm, what: What, reading: int) -> tuple[Measured, ...]:
        """Return one measure of a competitor at every budget."""
        under = self.scores[kind][arm.name]
        return tuple(getattr(each, what) for each in under[min(reading, len(under) - 1)])


def figure(view: View, parts: list[Results], scale: Scale) -> Figure:
    """Return a figure: for every data set the objective gap and the test error.

    What is printed is drawn under the first reading.
    """
    measures: tuple[What, ...] = ("gap", "error")
    panels = tuple(_panel(view, part, scale, what) for part in parts for what in measures)
    question = (
        "What do the methods reach at equal total (epsilon, delta)? Published: "
        f"{scale.readings[0]}."
    )
    return Figure(view.id, view.title, question, view.shows, panels)


def _panel(view: View, part: Results, scale: Scale, what: What) -> Panel:
    budgets = tuple(Budget(e, scale.delta) for e in scale.budgets)
    no_noise, curves = Budget(math.inf, scale.delta), []
    for arm in view.arms:
        found = part.values(view.kind, arm, what, 0)
        if isinstance(arm, PublishedArm) and arm.reference:
            curves.append(level(arm.name, found[0], scale.budgets, no_noise))
        else:
            marks = _not_private(view, arm, scale.readings[0])
            curves.append(Curve(arm.name, budgets, scale.budgets, found, marks))
    task = part.tasks[view.kind]
    if what == "error":
        optimum = Measured.computed(task.optimum_error)
        labels = np.asarray(task.test.stacked.targets[0])
        curves += [
            level("optimum", optimum, scale.budgets, no_noise),
            commonest_label(labels, scale.budgets, delta=scale.delta, percent=False),
        ]
    label = "objective gap" if what == "gap" else "test error (1 - accuracy)"
    labelled = ticks(e for e in scale.budgets if e != 0.8)
    return Panel("total epsilon", f"{part.name}: {label}", tuple(curves), labelled, log_x=True)


def _not_private(view: View, arm: Arm, reading: Reading) -> tuple[str, ...]:
    if isinstance(arm, SoundArm):
        return ()
    restarts = arm.method == "vradmm" and view.kind == "ridge"
    found = {"gradient of the restarts": restarts, "noise": reading.noise == "theorems"}
    return tuple(name for name, true in found.items() if true)


def tables(parts: list[Results], scale: Scale) -> tuple[Table, ...]:
    """Return Table II as it was run, the gaps under every reading, and when smoothing pays."""
    return (data_table(parts, scale), readings_table(parts, scale), roughness_table(parts))


def data_table(parts: list[Results], scale: Scale) -> Table:
    """Return Table II as it was run."""
    rows = []
    for part in parts:
        data, task = part.divided.data, part.tasks["fused"]
        batch, weight, ridge = data.row
        rows.append((
            part.name if data.in_paper else f"{part.name} (not in the paper)",
            f"{len(part.divided.train[1]):,}",
            f"{len(part.divided.test[1]):,}",
            f"{batch}",
            f"{weight:g}",
            f"{ridge:g}",
            f"{len(part.divided.edges)} (at {part.divided.graph_weight:g})",
            f"{task.gap_of_nothing:.3f}",
            f"{task.commonest:.3f}",
            f"{task.empty:.3f}",
        ))  # fmt: skip
    return Table(
        "table2",
        "Table II: data sets and regularisers",
        ("data", "training", "test", "batch b", "lambda_1", "lambda_2", "edges of phi (at weight)",
         "gap of the model 0", "error of the commoner label", "empty test records"),
        tuple(rows),
        f"Figure 4 has lambda_1 = {scale.lasso_weight:g} everywhere. A gap that is not below that "
        "of the model 0, which asks nothing, is of no use; shown is that of Figure 1. There is no "
        "intercept: an empty record has the margin 0 and counts as wrong for every method.",
    )  # fmt: skip


def readings_table(parts: list[Results], scale: Scale) -> Table:
    """Return the gaps of the fused lasso under every reading at the least and largest budget."""
    arms = (VR, SMOOTH, *map(shortened, scale.shorter), SA)
    ends = ((0, min(scale.budgets)), (-1, max(scale.budgets)))
    rows: list[tuple[str | Measured, ...]] = []
    for part in parts:
        for place, reading in enumerate(scale.readings):
            found = [part.values("fused", arm, "gap", place) for arm in arms]
            ends_of = [values[end] for values in found for end, _ in ends]
            rows.append((part.name, str(reading), *ends_of))
    names = [f"{arm.name}, epsilon {e:g}" for arm in arms for _, e in ends]
    return Table(
        "readings",
        "Readings: gaps of the published algorithms, fused lasso",
        ("data", "reading", *names),
        tuple(rows),
        "The paper gives neither rho nor the number of epochs; gamma is 1 in Section V-B and 1 + "
        "eta rho |A'A| in Property 2. A shorter step needs no smoothing.",
    )


def roughness_table(parts: list[Results]) -> Table:
    """Return whether smoothing should pay, by the rule in docs/how-to/structures.md."""
    return Table(
        "roughness",
        "Roughness: does smoothing pay by a public rule?",
        ("data", "columns in order", "columns shuffled", "along the graph", "v by the rule"),
        tuple((part.name, *part.divided.roughness) for part in parts),
        "Roughness is the sum of (x_i - x_j)^2 over neighbours, by |x|^2, at the optimum x on the "
        "public records; 2 for weights at random on a ring. The rule takes the v at which (1 + v "
        "roughness) tr(Q_v^-1) / d is least, which is 0 from a roughness of 2 on.",
    )


@dataclass(frozen=True)
class Comparison:
    """One competitor is better than another, in one figure and one measure."""

    figure: str
    kind: Kind
    what: What
    better: Arm
    worse: Arm
    whose: Literal["paper", "ours"]

    def decided(self, parts: list[Results], scale: Scale) -> Ordering:
        """Return the claim with the numbers that decide it, at every data set and budget."""
        arms = (self.better, self.worse)
        printed = any(isinstance(arm, PublishedArm) for arm in arms)
        pairs = tuple(
            Pair(f"{part.name}, epsilon {e:g}", (arms[0].name, low), (arms[1].name, high), name)
            for place, name in enumerate(_names(scale.readings) if printed else ("",))
            for part in parts
            for e, low, high in zip(
                scale.budgets,
                *(part.values(self.kind, arm, self.what, place) for arm in arms),
                strict=True,
            )
        )
        return Ordering(self.figure, sentence(self.what, *arms), pairs, self.whose)


def _names(readings: Sequence[Reading]) -> tuple[str, ...]:
    return tuple(map(str, readings))


def sentence(what: What, better: Arm, worse: Arm) -> str:
    """Return the claim in words."""
    return f"{_WORDS[what]}: {better.name} is better than {worse.name}"


def comparisons(scale: Scale) -> tuple[Comparison, ...]:
    """Return the orderings of the paper, then ours."""
    both: tuple[What, ...] = ("gap", "error")
    figures: tuple[tuple[str, Kind], ...] = (
        ("Figure 2", "fused"), ("Figure 3", "ridge"), ("Figure 4", "lasso")
    )  # fmt: skip
    theirs: tuple[tuple[str, Kind, Arm, Arm], ...] = (
        *(("Figure 1", "fused", published("vradmm", v), VR) for v in scale.smoothing if v != 1),
        *((name, kind, VR, SA) for name, kind in figures),
        *(("Figure 4", "lasso", arm, RENYI) for arm in (VR, SA, published("sadmm", 2.0))),
    )
    ours: tuple[tuple[str, Kind, Arm, Arm], ...] = (
        *(("Figure 1", "fused", published("vradmm", v), VR) for v in scale.smoothing if v == 1),
        *(("Figure 1", "fused", shortened(each), SMOOTH) for each in scale.shorter),
        ("Figure 1", "fused", SMOOTH, SHUFFLED),
        ("Figure 1", "fused", GRAPH, SMOOTH),
        ("Figure 1", "fused", accelerated_vradmm(2.0), OUR_VR),
        *((name, kind, OUR_SA, OUR_VR) for name, kind in figures),
        *((name, kind, arm, VR) for name, kind in figures for arm in (OUR_VR, OUR_SA, OURS)),
        *((name, kind, OURS, OUR_SA) for name, kind in figures),
        ("Figure 4", "lasso", OUR_SA, accelerated_renyi()),
        ("Figure 4", "lasso", OUR_SA, proximal()),
    )
    return (
        *(Comparison(n, k, what, a, b, "paper") for n, k, a, b in theirs for what in both),
        *(Comparison(n, k, "gap", a, b, "ours") for n, k, a, b in ours),
    )


def orderings(parts: list[Results], scale: Scale) -> tuple[Ordering, ...]:
    """Return the orderings of the paper, and ours, decided."""
    return tuple(comparison.decided(parts, scale) for comparison in comparisons(scale))
