"""Zones: a partition of the buses, built in, read from a file, or grown from seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from jaxtyping import Int
from scipy.sparse.csgraph import breadth_first_order, connected_components, shortest_path

from tacit import checks
from tacit.errors import DataError, InputError
from tacit.power.network import Network, adjacency
from tacit.typing import HostArray

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "case14": "1-5\n7-10, 14\n6, 11-13",
        "case118": "1-23, 25-32, 113-115, 117\n33-69, 116\n24, 70-112, 118",
    }
)


@dataclass(frozen=True, eq=False)
class Zones:
    """A partition of the buses.

    Attributes
    ----------
    of_bus
        `(N,)`: the zone of every bus, counted from 0.
    split
        Zones whose buses are not connected by lines within the zone. They are allowed, but often a
        mistake.
    """

    of_bus: Int[HostArray, " N"]
    split: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of zones."""
        return int(self.of_bus.max()) + 1


def ties(network: Network, zones: Zones) -> Int[HostArray, " T"]:
    """Return the lines whose two ends lie in different zones."""
    ends = zones.of_bus[network.ends]
    return np.flatnonzero(ends[:, 0] != ends[:, 1])


def chosen_zones(network: Network, choice: str | None) -> Zones:
    """Return the zones for a number (grown), a file name, or None (built in, else three grown).

    Raises
    ------
    InputError
        If the number is out of range or the file does not describe a partition.
    """
    if choice is None:
        text = BUILT_IN.get(network.name)
        if text is None:
            return grown_zones(network, min(3, network.buses))
        return parse_zones(network, text, source="built-in zones")
    if re.fullmatch(r"[+-]?\d+", choice.strip()):
        return grown_zones(network, int(choice))
    try:
        text = Path(choice).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"zones {choice} is no number and no file that can be read ({type(error).__name__}); "
            "give a number of zones or a text file with one zone per line"
        ) from error
    return parse_zones(network, text, source=choice)


def parse_zones(network: Network, text: str, *, source: str) -> Zones:
    """Return the zones of a text: one zone per line, bus numbers and ranges, # begins a comment.

    For example `1-5, 7` and, on the next line, `6 8-14`.

    Raises
    ------
    DataError
        If an entry is no bus number or range, or a bus is unknown, named twice or left out.
    """
    lines = [line.split("#")[0].replace(",", " ").split() for line in text.splitlines()]
    place = {number: k for k, number in enumerate(network.numbers.tolist())}
    of_bus = np.full(network.buses, -1)
    zone = -1
    for zone, entries in enumerate(filter(None, lines)):
        for number in (n for entry in entries for n in _numbers(entry, source)):
            if number not in place:
                raise DataError(f"{source}: bus {number} is not in {network.name}; remove it")
            if of_bus[place[number]] >= 0:
                raise DataError(f"{source}: bus {number} is named twice; leave it in one zone")
            of_bus[place[number]] = zone
    if np.any(of_bus < 0):
        missing = network.numbers[of_bus < 0]
        raise DataError(
            f"{source}: {len(missing)} buses are in no zone, bus {missing[0]} for one; add them"
        )
    return zones_of(network, of_bus)


def _numbers(entry: str, source: str) -> range:
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", entry)
    first = int(match.group(1)) if match else 1
    last = int(match.group(2) or first) if match else 0
    if not first <= last <= first + 10**6:
        raise DataError(f"{source}: {entry!r} is no bus number and no range; write 7 or 3-12")
    return range(first, last + 1)


def grown_zones(network: Network, count: int) -> Zones:
    """Return `count` connected zones of similar size, grown from buses that lie far apart.

    The seeds are the bus furthest from bus 1, then repeatedly the bus furthest from all seeds so
    far. The smallest zone that can grow then takes the free bus with the most lines into it. Only
    the public network is read.
    """
    count = checks.at_least("zones", count, 1)
    if count > network.buses:
        raise InputError(f"{count} zones for {network.buses} buses; ask for at most that many")
    lines = adjacency(network)
    links = ((lines + lines.T).tocsr() > 0).astype(float)
    seeds = [int(breadth_first_order(links, 0, directed=False)[0][-1])]
    for _ in range(count - 1):
        apart = shortest_path(links, unweighted=True, indices=seeds, directed=False).min(axis=0)
        seeds.append(int(apart.argmax()))
    of_bus = np.full(network.buses, -1)
    of_bus[seeds] = np.arange(count)
    while np.any(of_bus < 0):
        member = (of_bus == np.arange(count)[:, None]).astype(float)
        joining = np.where(of_bus < 0, (links @ member.T).T, 0.0)
        size = np.where(joining.max(axis=1) > 0, member.sum(axis=1), np.inf)
        smallest = int(size.argmin())
        of_bus[int(joining[smallest].argmax())] = smallest
    return zones_of(network, of_bus)


def zones_of(network: Network, of_bus: Int[HostArray, " N"]) -> Zones:
    """Return the zones of an assignment, noting which of them are not connected."""
    ends = of_bus[network.ends]
    within = adjacency(network)
    within.data = np.where(ends[:, 0] == ends[:, 1], 1.0, 0.0)
    within.eliminate_zeros()
    _, label = connected_components(within, directed=False)
    pieces = {zone: len(set(label[of_bus == zone].tolist())) for zone in set(of_bus.tolist())}
    return Zones(of_bus, tuple(sorted(zone for zone, parts in pieces.items() if parts > 1)))
