"""One self-contained page about a reproduction, for people who have not read the paper."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from taciturn.report import (
    Details,
    Drawing,
    Items,
    Note,
    Page,
    Section,
    Table,
    json_text,
    write_folder,
)
from taciturn_papers.reproductions.draw import figure_svg
from taciturn_papers.reproductions.figure import Curve, Figure
from taciturn_papers.reproductions.figure import Table as Measurements
from taciturn_papers.reproductions.ordering import RULE, Ordering
from taciturn_papers.reproductions.reproduction import STAMP, Reproduction, plain

_ORACLE = (
    "Losses and errors are oracle metrics: computed from the records without noise, outside every "
    "budget. They can be shown because the data set is published."
)


def page(made: Reproduction) -> str:
    """Return the page as HTML; it loads nothing from elsewhere."""
    machine = f" on {made.machine}" if made.machine else ""
    return Page(
        title=made.headline,
        story=made.problem,
        stamps=(STAMP,),
        sections=(
            Section("What came out", (Note(RULE),), made.outcome, "box"),
            *(_figure(made, figure) for figure in made.figures),
            *(Section(one.title, (one.text, Drawing(one.html))) for one in made.pictures),
            *(_table(made, table) for table in made.tables),
            _orderings(made),
            Section("Notes", (Items((*made.notes, _ORACLE)),)),
            Section("Settings", (Table(made.settings),)),
        ),
        footer=f"{made.seconds:.0f} s{machine}; every number is in results.json.",
    ).html()


def _orderings(made: Reproduction) -> Section:
    theirs, ours = made.claims(), made.claims(whose="ours")
    added = ("Comparisons that we add:", _verdicts(ours)) if ours else ()
    stated = ("Orderings that the paper states:", _verdicts(theirs))
    return Section("Every ordering", (*stated, *added))


def _verdicts(orderings: list[Ordering]) -> Table:
    rows = [[o.part, o.claim, o.verdict, o.count] for o in orderings]
    return Table(rows, ("where", "claim", "verdict", "comparisons"), look="texts")


def _figure(made: Reproduction, figure: Figure) -> Section:
    values = [
        _values(panel.curves, panel.x_label, panel.y_label)
        for panel in figure.panels
        if all(len(curve.x) <= 10 for curve in panel.curves)
    ]
    return Section(
        figure.title,
        (
            figure.question,
            Note(f"The paper: {figure.paper_shows}"),
            Drawing(figure_svg(figure)),
            *_evidence(made, figure.id),
            *([Details("All numbers", values)] if values else []),
        ),
    )


def _evidence(made: Reproduction, part: str) -> list[Details]:
    return [
        Details(
            f"{'' if one.whose == 'paper' else 'Ours: '}{one.claim}: {one.verdict}, {one.count}",
            (
                Items(
                    [f"{pair}: {state}" for pair, state in zip(one.pairs, one.states, strict=True)]
                ),
            ),
        )
        for one in [*made.claims(part), *made.claims(part, whose="ours")]
    ]


def _values(curves: tuple[Curve, ...], x_label: str, y_label: str) -> Table:
    rows = [
        [curve.legend, f"{x:g}", str(curve.at(place)), str(value)]
        for curve in curves
        for place, (x, value) in enumerate(zip(curve.x, curve.y, strict=True))
    ]
    return Table(rows, ("curve", x_label, "budget", "measured"), y_label, look="texts")


def _table(made: Reproduction, table: Measurements) -> Section:
    rows = [[str(cell) for cell in row] for row in table.rows]
    parts = (Table(rows, table.columns, look="texts"), Note(table.note))
    return Section(table.title, (*parts, *_evidence(made, table.id)))


def write(made: Reproduction, out: Path, *, force: bool, curves: bool = False) -> None:
    """Write results.json and index.html into the folder `out`, whole or not at all.

    With `curves` also curves.csv and curves.parquet: every value of every repetition of every
    curve, a row each.

    Raises
    ------
    InputError
        If the folder is not empty and `force` is not given, or cannot be written to.
    """
    texts = {"results.json": json_text(plain(made)), "index.html": page(made)}
    write_folder(texts, out, force=force)
    if curves:
        table = values_of(made)
        table.to_csv(out / "curves.csv", index=False)
        table.to_parquet(out / "curves.parquet", index=False)


def values_of(made: Reproduction) -> pd.DataFrame:
    """Return the curves of a reproduction, a row for each value of each repetition.

    Columns: figure, panel, curve, x, x_label, repetition, value, epsilon (in all), delta and
    observer; the repetition of an exact number is empty.
    """
    rows = [
        {
            "figure": figure.id,
            "panel": panel.y_label,
            "curve": curve.label,
            "x_label": panel.x_label,
            "x": x,
            "repetition": None if measured.exact else repetition,
            "value": value,
            "epsilon": curve.at(place).total,
            "delta": curve.at(place).delta,
            "observer": curve.at(place).observer,
        }
        for figure in made.figures
        for panel in figure.panels
        for curve in panel.curves
        for place, (x, measured) in enumerate(zip(curve.x, curve.y, strict=True))
        for repetition, value in enumerate(measured.values)
    ]
    return pd.DataFrame(rows).astype({"repetition": "Int64"})
