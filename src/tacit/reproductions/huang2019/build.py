"""Huang et al. 2019, DP-ADMM: Figures 1 to 6 and Table II on UCI Adult, run again."""

from __future__ import annotations

import time
from collections.abc import Callable

from tacit.datasets import load
from tacit.reproductions.huang2019 import claims
from tacit.reproductions.huang2019.figures import figures
from tacit.reproductions.huang2019.measure import records
from tacit.reproductions.huang2019.measured import measured_half
from tacit.reproductions.huang2019.settings import Scale
from tacit.reproductions.huang2019.tables import times_table, totals_table
from tacit.reproductions.huang2019.text import PROBLEM, TITLE, notes, settings_of
from tacit.reproductions.huang2019.timing import timings
from tacit.reproductions.reproduction import Reproduction

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
    first, second = (measured_half(kind, dataset, scale, report) for kind in ("l1", "l2"))
    timed = timings(records(dataset, scale.records, scale.agents, seed=0), scale, report)
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        problem=PROBLEM,
        settings=settings_of(scale),
        seeds=tuple(range(scale.repetitions)),
        figures=(*figures(first, scale), *figures(second, scale)),
        tables=(times_table(timed, scale), totals_table(second, scale)),
        orderings=(
            *claims.orderings(first, scale),
            *claims.orderings(second, scale),
            *claims.times(timed, scale),
        ),
        notes=notes((first, second), scale),
        seconds=time.perf_counter() - began,
    )
