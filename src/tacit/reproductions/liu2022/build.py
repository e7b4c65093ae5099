"""From settings to the reproduction: Figures 1 to 4, orderings and notes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tacit.reproductions.figure import Budget, Curve, Figure, Panel
from tacit.reproductions.liu2022 import measure
from tacit.reproductions.liu2022.measure import Arm, Case, Divided, Kind, Scores
from tacit.reproductions.liu2022.settings import DELTA, STRENGTHS, Data, Setting
from tacit.reproductions.ordering import Ordering, Pair
from tacit.reproductions.reproduction import Reproduction

Report = Callable[[str], None]
_PLAIN, _SADMM, _SHUFFLED = "DP-VRADMM, v = 0", "DP-SADMM", "DP-VRADMM, v = 2, columns shuffled"


@dataclass(frozen=True, eq=False)
class _Part:
    """One data set of one figure: scores by method, one for each budget."""

    figure: str
    data: str
    scores: Mapping[str, tuple[Scores, ...]]


def build(setting: Setting, report: Report) -> Reproduction:
    """Return Figures 1 to 4 on the data sets that are at hand, at honest totals."""
    began = time.perf_counter()
    parts = [part for data in setting.data for part in _on(data, setting, report)]
    return Reproduction(
        paper="liu2022",
        title="Liu et al. 2022, Laplacian smoothing stochastic ADMM",
        problem=_PROBLEM,
        settings=_settings(setting),
        seeds=tuple(range(setting.seeds)),
        figures=tuple(_figure(name, parts, setting) for name in _TITLES),
        tables=(),
        orderings=_orderings(parts, setting),
        notes=_NOTES,
        seconds=time.perf_counter() - began,
    )


def _on(data: Data, setting: Setting, report: Report) -> list[_Part]:
    parts = measure.divided(data, setting)
    shuffle = np.random.default_rng(0).permutation(parts.train[0].shape[1])
    smoothed = {f"DP-VRADMM, v = {v:g}": measure.vradmm(v) for v in STRENGTHS}
    plain, both = {_PLAIN: measure.vradmm(0.0)}, {_SADMM: measure.sadmm}
    lasso = {"Renyi-DP ADMM": measure.renyi, "DP proximal SGD": measure.proximal}
    report(f"{data.name}: Figures 1 and 2, graph-guided fused lasso")
    fused = _scored(data, parts, "fused", plain | both | smoothed, setting)
    control = _scored(
        data, parts, "fused", {_SHUFFLED: measure.vradmm(STRENGTHS[0])}, setting, order=shuffle
    )
    report(f"{data.name}: Figure 3, with a ridge")
    ridge = _scored(data, parts, "ridge", plain | both, setting)
    report(f"{data.name}: Figure 4, lasso")
    last = _scored(data, parts, "lasso", plain | both | lasso, setting)
    first = {name: value for name, value in fused.items() if name != _SADMM} | control
    second = {name: fused[name] for name in (_PLAIN, _SADMM)}
    found = {"figure1": first, "figure2": second, "figure3": ridge, "figure4": last}
    return [_Part(name, data.name, scores) for name, scores in found.items()]


def _scored(
    data: Data,
    parts: Divided,
    kind: Kind,
    arms: Mapping[str, Arm],
    setting: Setting,
    *,
    order: np.ndarray | None = None,
) -> dict[str, tuple[Scores, ...]]:
    subject: Case = measure.case(data, parts, kind, order)
    return {
        name: tuple(measure.scores(subject, arm, e, setting) for e in setting.budgets)
        for name, arm in arms.items()
    }


def _figure(name: str, parts: list[_Part], setting: Setting) -> Figure:
    title, shows = _TITLES[name]
    here = [part for part in parts if part.figure == name]
    panels = [_panel(part, setting, what) for part in here for what in ("gap", "error")]
    question = "What do the methods reach at equal total (epsilon, delta)?"
    return Figure(name, title, question, shows, tuple(panels))


def _panel(part: _Part, setting: Setting, what: str) -> Panel:
    budgets = tuple(Budget(e, DELTA, "messages") for e in setting.budgets)
    curves = tuple(
        Curve(name, budgets, setting.budgets, tuple(getattr(s, what) for s in scores))
        for name, scores in part.scores.items()
    )
    label = "objective gap" if what == "gap" else "test error"
    return Panel("total epsilon", f"{part.data}: {label}", curves, log_x=True)


def _orderings(parts: list[_Part], setting: Setting) -> tuple[Ordering, ...]:
    claims = [
        ("figure1", "smoothing lowers the objective gap", "DP-VRADMM, v = 2", _PLAIN, "paper"),
        ("figure1", "it lowers it in shuffled order too", _SHUFFLED, _PLAIN, "ours"),
        *((f"figure{k}", "DP-VRADMM has the smaller objective gap than DP-SADMM", _PLAIN, _SADMM,
           "paper") for k in (2, 3, 4)),
        ("figure4", "DP-SADMM has a smaller gap than Renyi-DP ADMM", _SADMM, "Renyi-DP ADMM",
         "paper"),
        ("figure4", "DP-SADMM has a smaller gap than DP proximal SGD", _SADMM, "DP proximal SGD",
         "ours"),
    ]  # fmt: skip
    made = []
    for figure, claim, low, high, whose in claims:
        pairs = tuple(
            Pair(f"{part.data}, epsilon {e:g}", (low, part.scores[low][k].gap),
                 (high, part.scores[high][k].gap))
            for part in parts if part.figure == figure
            for k, e in enumerate(setting.budgets)
        )  # fmt: skip
        made.append(Ordering(figure, claim, pairs, "paper" if whose == "paper" else "ours"))
    return tuple(made)


def _settings(setting: Setting) -> tuple[tuple[str, str], ...]:
    rows = "; ".join(
        f"{d.name}: batch {d.batch}, lambda_1 {d.weight:g}, lambda_2 {d.ridge:g}"
        for d in setting.data
    )
    return (
        ("data", rows),
        ("budgets", ", ".join(f"{e:g}" for e in setting.budgets) + f"; delta {DELTA:g}"),
        ("epochs", f"{setting.epochs} of 2 n / b inner steps, the same steps for every method"),
        ("records", f"at most {setting.records}"),
        ("step sizes", "from public facts (SplittingADMM), not the paper's, which are not given"),
    )


_TITLES = {
    "figure1": (
        "Figure 1: smoothing",
        "DP-VRADMM with v = 2 and v = 3 does better than with v = 0.",
    ),
    "figure2": (
        "Figure 2: graph-guided fused lasso",
        "DP-VRADMM does much better than DP-SADMM.",
    ),
    "figure3": (
        "Figure 3: graph-guided logistic regression",
        "DP-VRADMM does much better than DP-SADMM for strongly convex problems too.",
    ),
    "figure4": (
        "Figure 4: lasso",
        "DP-VRADMM and DP-SADMM do better than DP-ADMM, which is here Renyi-DP ADMM.",
    ),
}
_PROBLEM = (
    "One data holder fits a logistic regression whose weights are sparse and alike along a graph "
    "of the columns: f(x) + lambda_1 |y|_1 subject to [phi; I] x = y. The methods ask noised "
    "mini-batch gradients (DP-SADMM), or one noised full gradient an epoch and noised differences "
    "from it (DP-VRADMM).",
    "Every point is certified at its total budget for the observer of every message. Batches are "
    "drawn as Poisson samples, which is what the numerical accountant covers.",
)
_NOTES = (
    "covtype and bio-train are not at hand; ijcnn1 and Adult stand in, with settings of our own.",
    "The graph phi is learned by scikit-learn's graphical lasso from the first tenth of the "
    "training records, which are declared public and not trained on.",
    "DP-VRADMM restarts nothing: the published restart uses an un-noised gradient, and with "
    "[phi; I] it would not converge (claims liu2022/thm1 and liu2022/thm4-rank).",
    "The noise is that of the accountant for both questions of DP-VRADMM, not sigma^2 of Theorems "
    "1 and 2, whose constants are not given or whose conditions are never met.",
)
