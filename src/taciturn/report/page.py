"""A page as data, rendered by one template, and the style of the drawings inside a page.

Texts are plain: the template escapes every one of them. Markup enters a page only as a `Drawing`.
"""

from __future__ import annotations

import functools
import hashlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jinja2
import numpy as np

import taciturn

# matplotlib takes half a second to import, and most commands draw nothing
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: Mapping[Any, Any] = MappingProxyType(
    {
        "svg.hashsalt": "taciturn",
        "svg.fonttype": "path",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#8a929c",
        "axes.labelcolor": "#3a424c",
        "xtick.color": "#59626d",
        "ytick.color": "#59626d",
    }
)
BLUE, ORANGE, GREY, INK = "#1f5fa8", "#c2570c", "#c9d1da", "#1d232b"


class Note(NamedTuple):
    """A paragraph in small print."""

    text: str


class Items(NamedTuple):
    """A list."""

    entries: Sequence[str]


class Table(NamedTuple):
    """Rows of texts, whose first cells are names, with a head for each column, if any.

    `look`: "pairs" of a name and a text; "numbers", which are aligned right; or "texts".
    """

    rows: Sequence[Sequence[str]]
    heads: Sequence[str] = ()
    caption: str = ""
    look: Literal["pairs", "numbers", "texts"] = "pairs"


class Drawing(NamedTuple):
    """An `<svg>` that is inserted without escaping, as from `taciturn.report.inline_svg`."""

    svg: str
    caption: str = ""


class Bars(NamedTuple):
    """A bar for each (name, first, second), shares in [0, 1]: up to `first`, and on to `second`."""

    bars: Sequence[tuple[str, float, float]]


class Details(NamedTuple):
    """Parts that a reader can unfold."""

    summary: str
    parts: Sequence[Part]


# a text is a paragraph
Part = str | Note | Items | Table | Drawing | Bars | Details


@dataclass(frozen=True)
class Section:
    """Parts below a heading, with a headline in large print.

    `frame`: "box" for a frame, "box open" for one with a red edge.
    """

    title: str
    parts: Sequence[Part]
    headline: str = ""
    frame: Literal["", "box", "box open"] = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: title, `story` in paragraphs, `stamps` in red frames, sections, footer."""

    title: str
    story: tuple[str, ...]
    stamps: tuple[str, ...] = ()
    sections: Sequence[Section]
    footer: str = ""

    def html(self) -> str:
        """Return the page as HTML without external resources.

        **Guarantee.** Every text is escaped, so a name from outside is never read as markup. Only
        the `svg` of a `Drawing` is inserted unescaped.
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
    """Return numbers as text: their one value, or the least and the largest."""
    least, most = float(np.min(values)), float(np.max(values))
    return f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}"


def drawing(label: str, height: float, draw: Callable[[Figure], object]) -> Drawing:
    """Return what `draw` puts on a figure of 8.2 by `height` inches; screen readers get `label`."""
    import matplotlib  # noqa: PLC0415 - see above
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with matplotlib.rc_context(dict(STYLE)):
        figure = Figure(figsize=(8.2, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        return Drawing(inline_svg(figure, label))


def label_axes(axes: Axes, title: str, below: str = "") -> None:
    """Write the title of a plot and the label of its horizontal axis, and draw its grid."""
    axes.set_title(title, loc="left", fontsize=9, color=INK)
    axes.set_xlabel(below)
    axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)


def inline_svg(figure: Figure, label: str) -> str:
    """Return the drawing as an `<svg>` without external references.

    File header and metadata, which name external addresses, are removed. Element ids begin with a
    digest of the label, so that those of several drawings on a page do not clash.
    """
    import matplotlib  # noqa: PLC0415 - see above

    buffer = io.StringIO()
    with matplotlib.rc_context(dict(STYLE)):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    svg = buffer.getvalue()
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    prefix = hashlib.sha256(label.encode()).hexdigest()[:8]
    body = re.sub(r'((?:\bid="|href="#|url\(#))', rf"\g<1>d{prefix}-", body)
    return body.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
