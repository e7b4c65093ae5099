"""Liu et al. 2022, stochastic ADMM with Laplacian smoothing: Figures 1 to 4, run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from tacit_papers.reproductions.liu2022 import measure
from tacit_papers.reproductions.liu2022.cases import Case, case, divided, reordered
from tacit_papers.reproductions.liu2022.claims import orderings
from tacit_papers.reproductions.liu2022.figures import VIEWS, Part, data_table, figure
from tacit_papers.reproductions.liu2022.measure import Scores
from tacit_papers.reproductions.liu2022.methods import Method
from tacit_papers.reproductions.liu2022.settings import Data, Kind, Setting
from tacit_papers.reproductions.liu2022.text import PROBLEM, TITLE, notes, settings_of
from tacit_papers.reproductions.reproduction import Reproduction

PAPER = "liu2022"
_KINDS: tuple[Kind, ...] = ("fused", "ridge", "lasso")


def build(setting: Setting, report: Callable[[str], None]) -> Reproduction:
    """Return Figures 1 to 4 on the data sets at hand; all but times is determined by the seeds.

    Parameters
    ----------
    report
        Called with one line before every part.
    """
    began = time.perf_counter()
    parts = [_measured(data, setting, report) for data in setting.data]
    decided = orderings(parts, setting)
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        problem=PROBLEM,
        settings=settings_of(setting),
        seeds=tuple(range(setting.seeds)),
        figures=tuple(figure(view, parts, setting) for view in VIEWS),
        tables=(data_table(parts),),
        orderings=decided,
        notes=notes(decided, setting),
        seconds=time.perf_counter() - began,
    )


def _measured(data: Data, setting: Setting, report: Callable[[str], None]) -> Part:
    report(f"{data.name}: graph of the columns")
    parts = divided(data, setting)
    order = np.random.default_rng(0).permutation(parts.train[0].shape[1])
    known: dict[str, tuple[float, ...]] = {}
    cases: dict[Kind, Case] = {}
    scores: dict[Kind, dict[str, tuple[Scores, ...]]] = {}
    for kind in _KINDS:
        report(f"{data.name}, {kind}: optimum without privacy")
        cases[kind], scores[kind] = case(parts, kind), {}
        for method in _methods(kind):
            report(f"{data.name}, {kind}: {method.name}")
            given = method.order == "given"
            subject = cases[kind] if given else reordered(cases[kind], parts, order)
            found = measure.scored(subject, method, setting, known)
            scores[kind][method.name] = found.scores
            if not method.reference:
                known[method.asks] = found.multipliers
    return Part(parts, cases, scores)


def _methods(kind: Kind) -> Iterator[Method]:
    """Return every method that some figure shows for this kind of problem, once."""
    seen = {m.name: m for view in VIEWS if view.kind == kind for m in view.methods}
    return iter(seen.values())
