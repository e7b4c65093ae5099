"""A figure as one drawing that lies inside the page."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Drawing

from tacit.report import STYLE, inline_svg
from tacit.reproductions.figure import Curve, Figure, Panel

_COLOURS = ("#1f5fa8", "#b42318", "#2e7d4f", "#8e44ad", "#b45309", "#0e7490", "#6b7280", "#be185d")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_MANY = 30
_WIDTH, _PANEL, _LINE = 8.6, 3.0, 0.24


def figure_svg(figure: Figure) -> str:
    """Return a figure as an `<svg>` that refers to nothing outside itself.

    Panels stand two in a row; bars and bands are one standard deviation to either side. Panels with
    the same curves share a legend; curves keep their colour from panel to panel.
    """
    return inline_svg(drawing(figure), f"{figure.title}: {figure.question}")


def drawing(figure: Figure) -> Drawing:
    """Return a figure as a Matplotlib drawing."""
    legends = [[curve.legend for curve in panel.curves] for panel in figure.panels]
    looks = {name: place for place, name in enumerate(dict.fromkeys(sum(legends, [])))}
    shared = all(names == legends[0] for names in legends)
    columns = min(2, len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    below = _LINE * (len(looks) if shared else rows * max(map(len, legends)))
    with matplotlib.rc_context(dict(STYLE)):
        page = Drawing(figsize=(_WIDTH, rows * _PANEL + below), layout="constrained")
        FigureCanvasSVG(page)
        axes = np.atleast_1d(page.subplots(rows, columns)).ravel()
        for panel, place in zip(figure.panels, axes, strict=False):
            _draw(place, panel, looks)
            if not shared:
                _legend(place, panel)
        for place in axes[len(figure.panels) :]:
            place.set_axis_off()
        if shared:
            handles, labels = axes[0].get_legend_handles_labels()
            page.legend(
                handles, labels, loc="outside lower left", frameon=False, fontsize=8.5, ncols=1
            )
        # positions are settled here, so that text is laid out in this style
        page.canvas.draw()
    return page


def _draw(axes: Axes, panel: Panel, looks: dict[str, int]) -> None:
    for curve in panel.curves:
        _line(axes, curve, looks[curve.legend])
    axes.set_title(panel.y_label, loc="left", fontsize=10, color="#1d232b")
    axes.set_xlabel(panel.x_label)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.ticks:
        axes.set_xticks([x for x, _ in panel.ticks], [text for _, text in panel.ticks], fontsize=8)
        axes.minorticks_off()
    axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)


def _line(axes: Axes, curve: Curve, look: int) -> None:
    x, y = np.array(curve.x), np.array([value.mean for value in curve.y])
    spread = np.array([value.spread for value in curve.y])
    colour = _COLOURS[look % len(_COLOURS)]
    style = "--" if curve.reference else "-"
    if len(x) > _MANY:
        axes.plot(x, y, style, color=colour, label=curve.legend)
        axes.fill_between(x, y - spread, y + spread, color=colour, alpha=0.15, linewidth=0)
        return
    marker = "" if curve.reference else _MARKERS[look % len(_MARKERS)]
    # each curve a little aside, so that bars at one place can be told apart
    axes.errorbar(
        x, y, yerr=None if curve.reference else spread, fmt=f"{style}{marker}", color=colour,
        markersize=4, capsize=2.5, linewidth=1.4, elinewidth=0.9, label=curve.legend,
    )  # fmt: skip


def _legend(axes: Axes, panel: Panel) -> None:
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2 if not panel.ticks else -0.27),
        frameon=False,
        fontsize=8,
    )
