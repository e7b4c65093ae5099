"""A figure as one drawing that lies inside the page."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from taciturn.report import STYLE, inline_svg
from taciturn.typing import HostArray
from taciturn_papers.reproductions.figure import Curve, Figure, Panel

_COLOURS = ("#1f5fa8", "#b42318", "#2e7d4f", "#8e44ad", "#b45309", "#0e7490", "#6b7280", "#be185d",
            "#65a30d", "#3730a3")  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_MANY = 30
_PLAIN = FuncFormatter(lambda value, _: f"{value:g}")
_WITHIN, _FEW = 0.7, 2.5  # decades on a logarithmic axis
_WIDTH, _PANEL, _LINE = 8.6, 3.0, 0.24


def figure_svg(figure: Figure) -> str:
    """Return a figure as an `<svg>` that refers to nothing outside itself.

    Panels stand two in a row and share one legend; curves keep their colour from panel to panel.
    Bars and bands are one standard deviation to either side.
    """
    return inline_svg(drawing(figure), f"{figure.title}: {figure.question}")


def drawing(figure: Figure) -> Drawing:
    """Return a figure as a Matplotlib drawing."""
    names = [curve.legend for panel in figure.panels for curve in panel.curves]
    looks = {name: place for place, name in enumerate(dict.fromkeys(names))}
    columns = min(2, len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    with matplotlib.rc_context(dict(STYLE)):
        height = rows * _PANEL + _LINE * len(looks)
        page = Drawing(figsize=(_WIDTH, height), layout="constrained")
        FigureCanvasSVG(page)
        axes = np.atleast_1d(page.subplots(rows, columns)).ravel()
        for panel, place in zip(figure.panels, axes, strict=False):
            _draw(place, panel, looks)
        for place in axes[len(figure.panels) :]:
            place.set_axis_off()
        _legend(page, axes)
    return page


def _legend(page: Drawing, axes: HostArray) -> None:
    """Draw one legend for all panels: each curve once."""
    found = [place.get_legend_handles_labels() for place in axes]
    handles = {name: h for some, names in found for h, name in zip(some, names, strict=True)}
    page.legend(
        handles.values(), handles.keys(), loc="outside lower left", frameon=False, fontsize=8.5,
        ncols=1,
    )  # fmt: skip


def _draw(axes: Axes, panel: Panel, looks: dict[str, int]) -> None:
    for curve in panel.curves:
        _line(axes, curve, looks[curve.legend])
    axes.set_title(panel.y_label, loc="left", fontsize=10, color="#1d232b")
    axes.set_xlabel(panel.x_label)
    _horizontal(axes, panel)
    if panel.log_y:
        axes.set_yscale("log")
        _label_decades(axes)
    axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)


def _horizontal(axes: Axes, panel: Panel) -> None:
    if panel.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_PLAIN)
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif all(float(x).is_integer() for curve in panel.curves for x in curve.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.ticks:
        axes.set_xticks([x for x, _ in panel.ticks], [text for _, text in panel.ticks], fontsize=8)
        axes.xaxis.set_minor_locator(NullLocator())


def _label_decades(axes: Axes) -> None:
    """Label a logarithmic axis in plain numbers, more of them the fewer decades it spans."""
    low, high = axes.get_ylim()
    decades = math.log10(high / low)
    axes.yaxis.set_major_formatter(_PLAIN)
    axes.yaxis.set_minor_formatter(_PLAIN if decades < _FEW else NullFormatter())
    if decades < _WITHIN:
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_minor_locator(NullLocator())
    elif decades < _FEW:
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))


def _line(axes: Axes, curve: Curve, look: int) -> None:
    x, y = np.array(curve.x), np.array([value.mean for value in curve.y])
    spread = np.array([value.spread for value in curve.y])
    free = curve.at(0).total == 0  # what asks no record looks the same in every figure
    colour = "#1d232b" if free else _COLOURS[look % len(_COLOURS)]
    style = ":" if free else "--" if curve.reference else "-"
    if len(x) > _MANY:
        axes.plot(x, y, style, color=colour, label=curve.legend)
        axes.fill_between(x, y - spread, y + spread, color=colour, alpha=0.15, linewidth=0)
        return
    marker = "" if curve.reference else _MARKERS[look % len(_MARKERS)]
    axes.errorbar(
        x, y, yerr=None if curve.reference else spread, fmt=f"{style}{marker}", color=colour,
        markersize=4, capsize=2.5, linewidth=1.4, elinewidth=0.9, label=curve.legend,
    )  # fmt: skip
