"""Who controls what in a power network: a line of text for each zone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tacit.power import Grid, ties

MOST_NAMED = 10  # ties of a zone


def zone_rows(grid: Grid) -> list[tuple[str, str]]:
    """Return (name, text) of every zone: its buses, its variables, the lines it shares.

    Buses and lines are public. A tie is named by its two buses, this zone's first.
    """
    return [(f"zone {zone + 1}", _zone_text(grid, zone)) for zone in range(grid.zones.count)]


def _zone_text(grid: Grid, zone: int) -> str:
    numbers = grid.relaxation.network.numbers
    own = numbers[grid.zones.of_bus == zone]
    crossing = _ties_of(grid, zone)
    named = ", ".join(crossing[:MOST_NAMED])
    more = f" and {len(crossing) - MOST_NAMED} more" if len(crossing) > MOST_NAMED else ""
    shared = f"ties {named}{more}" if crossing else "no ties"
    variables = len(grid.parts[zone].columns)
    return f"buses {ranges(own.tolist())}; {variables} variables; {shared}"


def _ties_of(grid: Grid, zone: int) -> list[str]:
    network, of_bus = grid.relaxation.network, grid.zones.of_bus
    ends = network.ends[ties(network, grid.zones)]
    ends = np.where((of_bus[ends[:, :1]] == zone), ends, ends[:, ::-1])
    inner = ends[of_bus[ends[:, 0]] == zone]
    return [f"{a}\u2013{b}" for a, b in network.numbers[inner].tolist()]


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
