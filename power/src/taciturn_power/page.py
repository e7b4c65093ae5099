"""What the pages of power flow have in common: the network and its zones."""

from __future__ import annotations

import math
from collections.abc import Iterable

from taciturn.engine import Run
from taciturn.report import (
    Section,
    Table,
)
from taciturn_power.grids.figure import network_drawings
from taciturn_power.grids.network import Network
from taciturn_power.grids.zones import Zones


def how_answered(run: Run) -> str:
    """Return whether zones answered with noise, as the end of a sentence."""
    noiseless = math.isinf(run.certificate.epsilon)
    return "without noise" if noiseless else "with noise; no zone showed its demand"


def network_section(network: Network, zones: Zones, rows: list[tuple[str, str]]) -> Section:
    """Return the section that draws a network and describes its zones."""
    return Section("The network", (*network_drawings(network, zones), Table(rows)))


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
