"""A network with what each agent spends, as a drawing."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure as Drawing

from tacit.network import Graph
from tacit.power import layout
from tacit.report import STYLE, inline_svg


def spending_svg(graph: Graph, spent: Sequence[float], asked: Sequence[int]) -> str:
    """Return an `<svg>`: agents are discs, the darker the more they spend; epsilon is written in.

    Parameters
    ----------
    spent, asked
        Exact total epsilon of each agent, and how often it was asked.
    """
    places = layout(graph.edges, np.ones(len(graph.edges)), graph.agents)
    with matplotlib.rc_context(dict(STYLE)):
        page = Drawing(figsize=(6.4, 4.6), layout="constrained")
        FigureCanvasSVG(page)
        axes = page.subplots()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.margins(0.15)
        lines = list(places[graph.edges])
        axes.add_collection(LineCollection(lines, colors="#8a929c", linewidths=1.2))
        low, high = min(spent), max(spent)
        shade = [0.35 + 0.55 * (value - low) / ((high - low) or 1) for value in spent]
        colours = matplotlib.colormaps["Blues"](shade)
        axes.scatter(
            places[:, 0],
            places[:, 1],
            s=1500,
            c=colours,
            edgecolors="white",
            linewidths=1.5,
            zorder=3,
        )
        for (x, y), value, count in zip(places, spent, asked, strict=True):
            text = f"{value:.3g}\n{count}x"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color="white", zorder=4)
        return inline_svg(page, f"Network of {graph.agents} agents with what each spends")
