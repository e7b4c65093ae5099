"""One self-contained page about a reproduction, for people who have not read the paper."""

from __future__ import annotations

from html import escape
from pathlib import Path

import tacit
from tacit.report import document, json_text, list_of, section, table_of, write_folder
from tacit_papers.reproductions.draw import figure_svg
from tacit_papers.reproductions.figure import Curve, Figure, Table
from tacit_papers.reproductions.ordering import RULE, Ordering
from tacit_papers.reproductions.reproduction import STAMP, Picture, Reproduction, plain

_ORACLE = (
    "Losses and errors are oracle metrics: computed from the records without noise, outside every "
    "budget. They can be shown because the data set is published."
)


def page(made: Reproduction) -> str:
    """Return the page as HTML; it loads nothing from elsewhere."""
    return document(
        made.headline,
        [
            f"<h1>{escape(made.headline)}</h1>",
            _paragraphs(made.problem, first="lead"),
            f'<p class="stamp">{escape(STAMP)}</p>',
            _outcome(made),
            *(_figure(made, figure) for figure in made.figures),
            *(_picture(picture) for picture in made.pictures),
            *(_table(made, table) for table in made.tables),
            _orderings(made),
            section("Notes", list_of((*made.notes, _ORACLE))),
            section("Settings", table_of(made.settings)),
            _footer(made),
        ],
    )


def _paragraphs(texts: tuple[str, ...], *, first: str) -> str:
    kinds = [f' class="{first}"', *[""] * len(texts)]
    return "".join(f"<p{k}>{escape(t)}</p>" for k, t in zip(kinds, texts, strict=False))


def _outcome(made: Reproduction) -> str:
    text = f'<p class="figures">{escape(made.outcome)}</p><p class="small">{escape(RULE)}</p>'
    return section("What came out", text).replace("<section>", '<section class="box">', 1)


def _orderings(made: Reproduction) -> str:
    theirs, ours = made.claims(), made.claims(whose="ours")
    added = "" if not ours else f"<p>Comparisons that we add:</p>{_verdicts(ours)}"
    stated = f"<p>Orderings that the paper states:</p>{_verdicts(theirs)}"
    return section("Every ordering", stated + added)


def _verdicts(orderings: list[Ordering]) -> str:
    rows = [[o.part, o.claim, o.verdict, o.count] for o in orderings]
    table = _grid(("where", "claim", "verdict", "comparisons"), rows)
    return f'<div class="small">{table}</div>'


def _figure(made: Reproduction, figure: Figure) -> str:
    values = "".join(
        f"<h3>{escape(panel.y_label)}</h3>{_values(panel.curves, panel.x_label)}"
        for panel in figure.panels
        if all(len(curve.x) <= 10 for curve in panel.curves)
    )
    return section(
        figure.title,
        f"<p>{escape(figure.question)}</p>"
        f'<p class="small">The paper: {escape(figure.paper_shows)}</p>'
        + figure_svg(figure)
        + _evidence(made, figure.id)
        + (f"<details><summary>All numbers</summary>{values}</details>" if values else ""),
    )


def _picture(picture: Picture) -> str:
    return section(picture.title, f"<p>{escape(picture.text)}</p>{picture.html}")


def _evidence(made: Reproduction, part: str) -> str:
    parts = []
    for ordering in [*made.claims(part), *made.claims(part, whose="ours")]:
        whose = "" if ordering.whose == "paper" else "Ours: "
        pairs = list_of(str(pair) for pair in ordering.pairs)
        parts.append(
            f"<details><summary>{escape(whose + ordering.claim)}: "
            f"<strong>{escape(ordering.verdict)}</strong>, {escape(ordering.count)}</summary>"
            f"{pairs}</details>"
        )
    return "".join(parts)


def _values(curves: tuple[Curve, ...], x_label: str) -> str:
    rows = [
        [curve.legend, f"{x:g}", str(curve.at(place)), str(value)]
        for curve in curves
        for place, (x, value) in enumerate(zip(curve.x, curve.y, strict=True))
    ]
    return _grid(("curve", x_label, "budget", "measured"), rows)


def _table(made: Reproduction, table: Table) -> str:
    rows = [[str(cell) for cell in row] for row in table.rows]
    note = f'<p class="small">{escape(table.note)}</p>'
    return section(table.title, _grid(table.columns, rows) + note + _evidence(made, table.id))


def _grid(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _footer(made: Reproduction) -> str:
    return (
        f'<footer class="small">tacit {tacit.__version__}, {made.seconds:.0f} s'
        f"{escape(f' on {made.machine}' if made.machine else '')}; every number is in results.json."
        "</footer>"
    )


def write(made: Reproduction, out: Path, *, force: bool) -> None:
    """Write results.json and index.html into the folder `out`, whole or not at all.

    Raises
    ------
    InputError
        If the folder is not empty and `force` is not given, or cannot be written to.
    """
    texts = {"results.json": json_text(plain(made)), "index.html": page(made)}
    write_folder(texts, out, force=force)
