"""Drawings inside a page: their style, and the curves of a training."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Mapping
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from taciturn.report.page import Drawing
from taciturn.report.results import error_name
from taciturn.training import Training

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
_REFERENCE, _BASELINE = "#b45309", "#59626d"


def drawing(label: str, height: float, draw: Callable[[Figure], object]) -> Drawing:
    """Return what `draw` puts on a figure of 8.2 by `height` inches; screen readers get a label."""
    import matplotlib  # noqa: PLC0415 - as said above
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with matplotlib.rc_context(dict(STYLE)):
        figure = Figure(figsize=(8.2, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        return Drawing(inline_svg(figure, label))


def label_axes(axes: Axes, title: str, below: str = "") -> None:
    """Write the title of a plot and what is below it, and draw its grid."""
    axes.set_title(title, loc="left", fontsize=9, color=INK)
    axes.set_xlabel(below)
    axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)


def curves_drawing(training: Training) -> Drawing:
    """Return test error (in per cent) and test loss of the released model by round.

    The non-private optimum, where it was computed, is a dashed line; that of the baseline
    (`taciturn.training.Assessment`) a dotted one.
    """
    best = training.nonprivate if training.dataset.public else None
    number = training.dataset.task == "regression"
    factor, unit = (1, "units of the target") if number else (100, "%")

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        if training.assessment is not None:
            level = factor * training.assessment.baseline_error
            left.axhline(level, color=_BASELINE, linestyle=":", label="baseline")
        title = f"test {error_name(training)}, {unit}"
        panels = ((left, title, "test_error", factor), (right, "test loss", "test_loss", 1))
        for axes, title, name, by in panels:
            values = by * training.curves[name]
            rounds, marker = np.arange(1, len(values) + 1), "o" if len(values) <= 30 else ""
            axes.plot(
                rounds, values, color=BLUE, marker=marker, markersize=3.5, label="released model"
            )
            if best is not None:
                level = by * getattr(best, name)
                axes.axhline(level, color=_REFERENCE, linestyle="--", label="non-private optimum")
            label_axes(axes, title, "round")
            axes.locator_params(axis="x", integer=True)
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False, fontsize=9)

    return drawing("Test error and test loss of the released model after every round", 3.1, draw)


def inline_svg(figure: Figure, label: str) -> str:
    """Return the drawing as an `<svg>` that refers to nothing outside itself.

    The file header and the metadata, which name outside addresses, are left out. Names of its
    parts begin with a digest of the label, so that several drawings can stand on one page.
    """
    import matplotlib  # noqa: PLC0415 - as said above

    buffer = io.StringIO()
    with matplotlib.rc_context(dict(STYLE)):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    svg = buffer.getvalue()
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    prefix = hashlib.sha256(label.encode()).hexdigest()[:8]
    body = re.sub(r'((?:\bid="|href="#|url\(#))', rf"\g<1>d{prefix}-", body)
    return body.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
