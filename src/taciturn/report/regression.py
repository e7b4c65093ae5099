"""The page of a regression table: the table, a forest plot, certificate and account."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from taciturn.regression import RegressionTable
from taciturn.regression.printed import NOTE, cells_of, heads_of, spans, title_of
from taciturn.report.page import BLUE, GREY, INK, Drawing, Note, Page, Part, Section, Table, drawing
from taciturn.report.training import UNPROTECTED, run_page, settings_section
from taciturn.training import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ROWS = 60


def regression_page(table: RegressionTable, training: Training) -> Page:
    """Return the page of a table, written for readers who know regression and not privacy."""
    private = math.isfinite(training.certificate.epsilon)
    agents = len(training.proposal.counts)
    done = "estimated from" if table.refused is None else "could not be estimated from"
    about = (
        f"The coefficients of {table.formula} {'were ' if table.refused is None else ''}{done} "
        f"{table.records:,} records of {'one agent' if agents == 1 else f'{agents} agents'}. "
    )
    about += (
        "No number on this page says much about any one of them: noise was added to every answer "
        "of an agent, and the standard errors include it."
        if private
        else "NOT PRIVATE: this table is a function of the records alone, and nothing of it may "
        "leave where they may be seen."
    )
    return run_page(
        training,
        title=title_of(table),
        story=about,
        warnings=(*training.all_warnings, *training.failures),
        sections=(
            *regression_sections(table),
            settings_section(training.proposal, training.plan, training.certificate),
        ),
        unprotected=(*UNPROTECTED, "In full: docs/explanation/threat-model.md."),
        holds=f"numbers in {'' if private else 'not-private-'}coefficients.json",
    )


def regression_sections(table: RegressionTable) -> tuple[Section, ...]:
    """Return the section with the coefficients, or with the reason why there are none."""
    if table.refused is not None:
        return (Section("No table", (table.refused,)),)
    compared = ", ".join(f"{name} with {one}" for name, one in table.references.items())
    notes = [NOTE, *(f"{line}." for line in table.notes)]
    notes += [f"Categories are compared: {compared}."] if compared else []
    heads, cells, effect = heads_of(table), cells_of(table), table.family.effect
    parts: list[Part] = [
        Table([row[:7] for row in cells], heads[:7], look="numbers"),
        *map(Note, notes),
    ]
    if effect is not None:
        ratios = [[row[0], *row[7:]] for row in cells if row[7]]
        parts.append(Table(ratios, ["", *heads[7:]], look="numbers"))
    plot = [forest(table)] if spans(table) else []
    return (Section("Coefficients", (*parts, *plot)),)


def forest(table: RegressionTable) -> Drawing:
    """Draw the estimate and the interval of every term, effects on a scale of logarithms."""
    rows, effect = spans(table)[:_MOST_ROWS], table.family.effect

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for place, (_, low, middle, high) in enumerate(reversed(rows)):
            axes.plot([low, high], [place, place], color=BLUE, linewidth=1.6)
            axes.plot([middle], [place], color=BLUE, marker="s", markersize=5)
        axes.axvline(0.0 if effect is None else 1.0, color=INK, linewidth=0.8, linestyle=":")
        if effect is not None:
            axes.set_xscale("log")
            for kind in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
                kind(lambda value, _: f"{value:.3g}")
        axes.set_yticks(range(len(rows)), [name[:40] for name, *_ in reversed(rows)])
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.set_xlabel(f"{effect or 'coefficient'}, with its 95 % interval")
        axes.grid(axis="x", color=GREY, linewidth=0.6)

    return drawing("Estimates and their intervals", 0.9 + 0.28 * len(rows), draw)
