"""The network as a drawing: buses coloured by zone, ties highlighted, placed by their lines."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree

from taciturn.engine import Run
from taciturn.report import Section, Table, drawing
from taciturn.typing import HostArray
from taciturn_power.grids.network import Network
from taciturn_power.grids.zones import Zones, ties

MOST_DRAWN = 2000  # buses; time and memory of the layout grow with their square
_MOST_NUMBERED = 150
_COLOURS = ["#1f5fa8", "#c2570c", "#2f7d4f", "#7a4fa3", "#a3223f", "#0e7c86", "#8a6d1a", "#5b6470"]
_MARKERS = "oD^s"
_STEPS = 120  # of the layout
LOOKS = len(_COLOURS) * len(_MARKERS)  # combinations of colour and marker
_TIE = "#111418"


def network_section(network: Network, zones: Zones, rows: list[tuple[str, str]]) -> Section:
    """Return the section that draws a public network, up to `MOST_DRAWN` buses, and its zones."""
    if network.buses > MOST_DRAWN:
        return Section("The network", (Table(rows),))
    tie = np.isin(np.arange(network.lines), ties(network, zones))
    places = layout(network.ends, np.where(tie, 2.5, 1.0), network.buses)  # zones stand apart

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_aspect("equal")
        ends = places[network.ends]
        tints = [_style(zone)[0] for zone in zones.of_bus[network.ends[~tie, 0]].tolist()]
        inside = LineCollection(list(ends[~tie]), colors=tints, linewidths=0.9, alpha=0.55)
        axes.add_collection(inside)
        axes.add_collection(LineCollection(list(ends[tie]), colors=_TIE, linewidths=2.0, zorder=2))
        handles = _buses(axes, places, network, zones)[:LOOKS]
        handles.append(Line2D([], [], color=_TIE, linewidth=2, label=f"ties ({tie.sum()})"))
        legend = axes.legend(
            handles=handles, frameon=False, fontsize=9, ncols=4, loc="upper center"
        )
        legend.set_bbox_to_anchor((0.5, 0.0), axes.transAxes)

    label = f"Network of {network.buses} buses in {zones.count} zones with {tie.sum()} ties"
    numbered = "Buses with their numbers" if network.buses <= _MOST_NUMBERED else "Buses"
    repeated = f" Colours and markers repeat after {LOOKS} zones." if zones.count > LOOKS else ""
    caption = (
        f"{numbered}, coloured by zone. Tie lines, which join two zones, are black. Positions "
        f"follow from the lines alone and are no map.{repeated}"
    )
    drawn = drawing(label, 6.2, draw)._replace(caption=caption)
    return Section("The network", (drawn, Table(rows)))


def _style(zone: int) -> tuple[str, str]:
    """Return colour and marker of a zone; they repeat after `LOOKS`."""
    return _COLOURS[zone % len(_COLOURS)], _MARKERS[zone // len(_COLOURS) % len(_MARKERS)]


def _buses(axes: Axes, places: HostArray, network: Network, zones: Zones) -> list[Line2D]:
    """Draw the buses, and return an entry of the legend for each zone."""
    few, entries = network.buses <= 40, []
    size = 290 if few else 150 if network.buses <= 150 else max(6.0, 150 * 150 / network.buses)
    for zone in range(zones.count):
        (tint, marker), here = _style(zone), places[zones.of_bus == zone]
        spots = axes.scatter(here[:, 0], here[:, 1], s=size, c=tint, marker=marker, zorder=3)
        spots.set(edgecolors="white", linewidths=0.8)
        label = f"zone {zone + 1} ({len(here)} buses)"
        one = Line2D([], [], color=tint, marker=marker, linestyle="", markersize=8, label=label)
        entries.append(one)
    for number, (x, y) in zip(network.numbers, places, strict=True):
        if network.buses <= _MOST_NUMBERED:
            text = axes.text(x, y, str(number), color="white", ha="center", va="center_baseline")
            text.set(fontsize=8.5 if few else 5.6, zorder=4)
    return entries


def how_answered(run: Run) -> str:
    """Return the end of a sentence: whether zones answered with noise."""
    noiseless = math.isinf(run.certificate.epsilon)
    return "without noise" if noiseless else "with noise; no zone showed its demand"


def bus_rows(network: Network, zones: Zones) -> list[tuple[str, str]]:
    """Return (name, text) of every zone: its buses, which are public."""
    return [
        (f"zone {zone + 1}", f"buses {ranges(network.numbers[zones.of_bus == zone].tolist())}")
        for zone in range(zones.count)
    ]


def ranges(numbers: Iterable[int]) -> str:
    """Return whole numbers as text, runs of three and more as ranges.

    Examples
    --------
    >>> ranges([7, 1, 2, 3, 9, 10])
    '1-3, 7, 9, 10'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(texts)


def layout(
    ends: Int[HostArray, "L 2"], length: Float[HostArray, " L"], nodes: int
) -> Float[HostArray, "N 2"]:
    """Return positions that make sum_{i<j} (|p_i - p_j| - d_ij)^2 / d_ij^2 small.

    d_ij is the length of the shortest path. The stress is lowered by majorisation (Gansner, Koren
    and North 2004) from the two leading coordinates of classical scaling; every step solves one
    linear system with the same matrix. Nothing is random.

    `length` is the desired length of every line, above 0. The network must be connected.
    """
    joined = csr_array((length, (ends[:, 0], ends[:, 1])), shape=(nodes, nodes))
    distance = shortest_path(joined.maximum(joined.T), directed=False)
    weight = 1 / np.where(distance > 0, distance, np.inf) ** 2
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    places, pull = _classical_scaling(distance), weight * distance
    for _ in range(_STEPS):
        x, y = places.T
        gap = np.hypot(np.subtract.outer(x, x), np.subtract.outer(y, y))
        gap[gap == 0] = np.inf
        ratio = np.divide(pull, gap, out=gap)
        places = inverse @ (ratio.sum(axis=1)[:, None] * places - ratio @ places)
    places = _separated(places, 0.45 * float(np.min(length)))
    centred = places - places.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned: HostArray = centred @ axes.T  # widest from left to right
    return turned


def _separated(places: HostArray, least: float) -> HostArray:
    """Push overlapping buses apart, a few times."""
    for _ in range(_STEPS):
        near = cKDTree(places).query_pairs(least, output_type="ndarray")
        step = places[near[:, 0]] - places[near[:, 1]]
        gap = np.linalg.norm(step, axis=1)
        apart = gap > 0
        push = 0.4 * (least / gap[apart] - 1)[:, None] * step[apart]
        moved = places.copy()
        np.add.at(moved, near[apart, 0], push)
        np.subtract.at(moved, near[apart, 1], push)
        places = moved
    return places


def _classical_scaling(distance: HostArray) -> HostArray:
    """Return the two leading coordinates of classical scaling."""
    centred = distance**2 - np.mean(distance**2, axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    top = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
    # coincident points would never separate; a tiny fixed spiral moves them apart
    turn = np.arange(len(distance))
    scaled: HostArray = top + 1e-3 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return scaled
