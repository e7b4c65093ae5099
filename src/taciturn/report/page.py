"""A page as data: its title, sections, tables, drawings and notes; one template renders all pages.

Texts are plain: the template escapes every one of them. Markup enters a page only as a `Drawing`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jinja2
import numpy as np

import taciturn


class Note(NamedTuple):
    """A paragraph in small print."""

    text: str


class Items(NamedTuple):
    """A list."""

    entries: Sequence[str]


class Table(NamedTuple):
    """Rows of texts, of which the first cell is the name, and a head for each column, if any.

    `look`: "pairs" of a name and a text; "numbers", which stand to the right; or "texts".
    """

    rows: Sequence[Sequence[str]]
    heads: Sequence[str] = ()
    caption: str = ""
    look: Literal["pairs", "numbers", "texts"] = "pairs"


class Drawing(NamedTuple):
    """An `<svg>` that is put into the page as it is, as from `taciturn.report.inline_svg`."""

    svg: str
    caption: str = ""


class Bars(NamedTuple):
    """A bar for each (name, first, second), shares in [0, 1]: up to `first`, and on to `second`."""

    bars: Sequence[tuple[str, float, float]]


class Details(NamedTuple):
    """Parts that are shown when a reader opens them."""

    summary: str
    parts: Sequence[Part]


# a text is a paragraph
Part = str | Note | Items | Table | Drawing | Bars | Details


@dataclass(frozen=True)
class Section:
    """Parts under a heading, with a headline in large print.

    `frame`: "box" for a frame, "box open" for one with a red edge.
    """

    title: str
    parts: Sequence[Part]
    headline: str = ""
    frame: Literal["", "box", "box open"] = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: paragraphs below the title, warnings in red frames, sections.

    The footer follows the version of the library at the end.
    """

    title: str
    story: tuple[str, ...]
    stamps: tuple[str, ...] = ()
    sections: Sequence[Section]
    footer: str = ""

    def html(self) -> str:
        """Return the page as HTML that loads nothing from elsewhere.

        **Guarantee.** Every text is escaped, wherever it stands, so names from outside are shown
        and not run; only the `svg` of a `Drawing` is not.
        """
        return _template().render(page=self, version=taciturn.__version__)


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("taciturn", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for kind in (Note, Items, Table, Drawing, Bars, Details):
        environment.tests[kind.__name__.lower()] = lambda part, kind=kind: isinstance(part, kind)
    return environment.get_template("page.html.jinja")


def percent(fraction: float) -> str:
    """Return a fraction as text in per cent."""
    return f"{100 * fraction:.2f} %"


def spread(values: Any) -> str:
    """Return one number, or the least and the largest."""
    least, most = float(np.min(values)), float(np.max(values))
    return f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}"
