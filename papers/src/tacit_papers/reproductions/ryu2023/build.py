"""Ryu & Kim 2023: Figures 3 to 7 and Table 1, run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tacit_papers.reproductions.reproduction import Reproduction
from tacit_papers.reproductions.ryu2023 import (
    grid_claims,
    grid_figures,
    learning_claims,
    learning_figures,
)
from tacit_papers.reproductions.ryu2023.forecast import grid_seconds, learning_seconds, sentence
from tacit_papers.reproductions.ryu2023.learning import Learned, learned
from tacit_papers.reproductions.ryu2023.published import Published, published
from tacit_papers.reproductions.ryu2023.questions import Asked, asked
from tacit_papers.reproductions.ryu2023.records import Records, records
from tacit_papers.reproductions.ryu2023.settings import PARTS, Part, Scale
from tacit_papers.reproductions.ryu2023.text import PROBLEM, TITLE, notes, settings_of

PAPER = "ryu2023"
Report = Callable[[str], None]


def build(scale: Scale, report: Report, *, parts: Sequence[Part] = PARTS) -> Reproduction:
    """Return the reproduction at a scale; all but times is determined by the seeds.

    Parameters
    ----------
    report
        Called with one line before every part. But for a quick run the first lines say how long it
        will take.
    parts
        "fl" for Figures 5 to 7, "grid" for Figures 3 and 4 and Table 1.

    Raises
    ------
    DataError
        If the records of a data set are not at hand; nothing has been run then.
    """
    began = time.perf_counter()
    data = [records(run) for run in scale.learning] if "fl" in parts else []
    grids = scale.grids if "grid" in parts else ()
    if scale.name != "quick":
        _announce(scale, data, report, grids=bool(grids))
    pairs = zip(scale.learning, data, strict=False)
    learning = [learned(run, one, report) for run, one in pairs]
    flows = [published(run, report) for run in grids]
    answers = [asked(run, report) for run in grids]
    return _written(scale, parts, (learning, flows, answers), time.perf_counter() - began)


def _announce(scale: Scale, data: list[Records], report: Report, *, grids: bool) -> None:
    """Say how long the run will take, from a little of it that is run and timed."""
    expected: dict[str, float] = {
        run.data: learning_seconds(run, one) for run, one in zip(scale.learning, data, strict=False)
    }
    if grids:
        expected |= {run.case: grid_seconds(run) for run in scale.grids}
    for what, seconds in expected.items():
        report(sentence(what, seconds))
    report(sentence("all of it", sum(expected.values())))


def _written(
    scale: Scale,
    parts: Sequence[Part],
    found: tuple[list[Learned], list[Published], list[Asked]],
    seconds: float,
) -> Reproduction:
    learning, flows, answers = found
    seeds = [run.seeds for run in scale.learning] if learning else []
    seeds += [max(run.seeds, run.question_seeds) for run in scale.grids] if flows else []
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        problem=PROBLEM,
        settings=settings_of(scale, parts),
        seeds=tuple(range(max(seeds))),
        figures=(
            *(grid_figures.figures(flows, answers) if flows else ()),
            *(learning_figures.figures(learning) if learning else ()),
        ),
        tables=(grid_figures.table(flows),) if flows else (),
        orderings=(
            *(grid_claims.orderings(flows, answers) if flows else ()),
            *(learning_claims.orderings(learning) if learning else ()),
        ),
        notes=notes(scale, learning, flows, answers),
        seconds=seconds,
    )
