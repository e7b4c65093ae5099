"""Huang et al. 2019, DP-ADMM: Figures 1 to 6 and Table II on UCI Adult, run again."""

from __future__ import annotations

import time
from collections.abc import Callable

from tacit.datasets import load
from tacit_papers.reproductions.huang2019 import claims
from tacit_papers.reproductions.huang2019.figures import figures
from tacit_papers.reproductions.huang2019.measure import records
from tacit_papers.reproductions.huang2019.measured import measured_half
from tacit_papers.reproductions.huang2019.settings import Scale
from tacit_papers.reproductions.huang2019.tables import times_table, totals_table
from tacit_papers.reproductions.huang2019.text import PROBLEM, TITLE, notes, settings_of
from tacit_papers.reproductions.huang2019.timing import timings
from tacit_papers.reproductions.reproduction import Reproduction

PAPER = "huang2019"


def build(scale: Scale, report: Callable[[str], None]) -> Reproduction:
    """Return the reproduction at a scale; all but times is determined by the seeds.

    Parameters
    ----------
    report
        Called with one line before every part.
    """
    began = time.perf_counter()
    dataset = load("adult")
    halves = tuple(measured_half(kind, dataset, scale, report) for kind in scale.kinds)
    timed = timings(records(dataset, scale.records, scale.agents, seed=0), scale, report)
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        problem=PROBLEM,
        settings=settings_of(scale),
        seeds=tuple(range(scale.repetitions)),
        figures=tuple(figure for half in halves for figure in figures(half, scale)),
        tables=(
            *([times_table(timed, scale)] if timed else []),
            *(totals_table(half, scale) for half in halves if half.kind == "l2"),
        ),
        orderings=(
            *(claim for half in halves for claim in claims.orderings(half, scale)),
            *(claims.times(timed, scale) if timed else []),
        ),
        notes=notes(halves, scale),
        seconds=time.perf_counter() - began,
    )
