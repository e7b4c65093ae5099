"""The page and the files of counted tables: tables by groups, survival curves, certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from taciturn.counting import (
    Cell,
    CountedTables,
    GroupedTable,
    SurvivalCurves,
    noised_counts,
    printed,
)
from taciturn.report.page import (
    GREY,
    INK,
    Details,
    Drawing,
    Note,
    Page,
    Part,
    Section,
    Table,
    drawing,
)
from taciturn.report.results import json_text
from taciturn.report.save import certificate_text, write_folder
from taciturn.report.training import UNPROTECTED, run_page, settings_section
from taciturn.training import Training
from taciturn.training.evaluation import noise_variance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COUNTING_FILES = ("noised.json", "counts.json", "counts.csv", "proposal.json", "report.html")
_COLOURS = ("#1f5fa8", "#c2570c", "#2f7d4f", "#7a3f98", "#59626d", "#a8871f")
_MOST_CURVES, _MOST_TICKS = 6, 8


def save_noised(training: Training, out: Path, *, force: bool) -> Path:
    """Write the noised counts and the certificate of a run; return the certificate's path."""
    proposal = training.proposal
    values = {
        "tables": proposal.data.features,
        "records": sum(proposal.counts),
        "noised": noised_counts(proposal, training.model).tolist(),
        "noise": math.sqrt(noise_variance(training.plan)),
    }
    added = write_folder(
        {"noised.json": json_text(values)},
        out,
        force=force,
        obsolete=COUNTING_FILES,
        certificate=certificate_text(training),
    )
    assert added is not None
    return added


def counting_page(counted: CountedTables, training: Training) -> Page:
    """Return the page of counted tables, for readers who know such tables and not privacy."""
    private = math.isfinite(training.certificate.epsilon)
    agents = len(training.proposal.counts)
    about = (
        f"{counted.records:,} records of {'one agent' if agents == 1 else f'{agents} agents'}, "
        "counted in tables. "
    )
    about += (
        "No number on this page says much about any one of them: noise was added to every count "
        "of an agent, intervals and tests include it, and all tables follow from these counts "
        f"({printed.noise_text(counted)})."
        if private
        else "NOT PRIVATE: these counts are functions of the records alone, and nothing of them "
        "may leave where they may be seen."
    )
    return run_page(
        training,
        title=printed.title_of(counted),
        story=about,
        warnings=(*training.all_warnings, *training.failures),
        sections=(
            *counting_sections(counted),
            settings_section(training.proposal, training.plan, training.certificate),
        ),
        unprotected=(*UNPROTECTED, "In full: docs/explanation/threat-model.md."),
        holds="numbers in counts.json",
    )


def counting_sections(counted: CountedTables) -> tuple[Section, ...]:
    """Return a section for tables by the same groups, and one for each survival time."""
    return tuple(
        _survival(part) if isinstance(part, SurvivalCurves) else _tables(part)
        for part in printed.grouped_tables(counted.found)
    )


def _tables(tables: tuple[GroupedTable, ...]) -> Section:
    several = tables[0].test is not None
    title = f"Characteristics by {tables[0].group}" if several else "Tables"
    heads = printed.heads_of(tables[0])
    shown = _rows(tables, _short, tests=several)
    intervals = Table(_rows(tables, printed.interval_text), heads, look="numbers")
    return Section(
        title,
        (
            Table(shown, [*heads, *(["p"] if several else [])], look="numbers"),
            Note(f"{printed.NOTE[0].upper()}{printed.NOTE[1:]}."),
            Details("95 % intervals of the shares, in per cent", (intervals,)),
        ),
    )


def _short(cell: Cell) -> str:
    if cell.hidden:
        return printed.cell_text(cell)
    return f"{cell.number:,} ({100 * cell.share:.1f} %)"


def _rows(
    tables: tuple[GroupedTable, ...], text: Callable[[Cell], str], *, tests: bool = False
) -> list[list[str]]:
    """Return the rows of tables, each below its name, with its p-value if there are `tests`."""
    rows = []
    for table in tables:
        p = [] if table.test is None else [printed.p_text(table.test).removeprefix("= ")]
        rows.append([printed.name_of(table), *[""] * len(table.groups), *(p if tests else [])])
        for name, cells in zip(table.rows, table.cells, strict=True):
            rows.append([f"\u2003{name}", *map(text, cells), *([""] if tests else [])])
    return rows


def _survival(curves: SurvivalCurves) -> Section:
    parts: list[Part] = [survival_figure(curves)]
    test = printed.words_of_test(curves.test, "log-rank")
    parts += [f"Equal hazards in all groups: {test}."] if test else []
    for curve in curves.curves:
        rows = printed.curve_rows(curve)
        caption = printed.median_text(curve)
        parts.append(Table(rows, printed.CURVE_HEADS, caption=caption, look="numbers"))
        early = printed.ends_early(curve, curves)
        parts += [Note(early + ".")] if early else []
    parts.append(Note(f"{printed.GRID_NOTE[0].upper()}{printed.GRID_NOTE[1:]}."))
    return Section(f"Survival: {curves.title}", parts)


def survival_figure(curves: SurvivalCurves) -> Drawing:
    """Draw step curves with their bands, and the numbers at risk below them."""
    shown = curves.curves[:_MOST_CURVES]

    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(
            2, 1, sharex=True, gridspec_kw={"height_ratios": [12, 1 + len(shown)]}
        )
        for curve, colour in zip(shown, _COLOURS, strict=False):
            times = (0.0, *curve.times)
            bands = [(1.0, *curve.low), (1.0, *curve.high)]
            upper.fill_between(times, *bands, step="post", color=colour, alpha=0.15, linewidth=0)
            upper.step(
                times, (1.0, *curve.survival), where="post", color=colour, linewidth=1.8,
                label=curve.group,
            )  # fmt: skip
        upper.set_ylim(0, 1.02)
        upper.set_xlim(0, curves.ends[-1])
        upper.set_ylabel("survival, with 95 % bands")
        upper.axhline(0.5, color=INK, linewidth=0.6, linestyle=":")
        upper.grid(axis="y", color=GREY, linewidth=0.5)
        if len(shown) > 1:
            upper.legend(frameon=False, title=curves.group)
        _numbers_at_risk(lower, curves)

    return drawing(f"Survival curves of {curves.title}", 4.4 + 0.28 * len(shown), draw)


def _numbers_at_risk(axes: Axes, curves: SurvivalCurves) -> None:
    shown = curves.curves[:_MOST_CURVES]
    starts = (0.0, *curves.ends[:-1])
    every = max(1, math.ceil(len(starts) / _MOST_TICKS))
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_yticks(range(len(shown)), [curve.group[:24] for curve in shown])
    axes.set_title("number at risk", loc="left", fontsize=9, color=INK)
    for place, (curve, colour) in enumerate(zip(shown, _COLOURS, strict=False)):
        for k in range(0, len(curve.times), every):
            align = "left" if k == 0 else "center"
            axes.text(
                starts[k], place, f"{curve.at_risk[k]:,}", ha=align, va="center", fontsize=9,
                color=colour,
            )  # fmt: skip
    axes.set_xticks([starts[k] for k in range(0, len(starts), every)])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("time, at the starts of intervals")
