"""Zones: a partition of the buses, and the part of problem (D.3) of each zone as a conic set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csc_array, csr_array, eye_array, vstack
from scipy.sparse.csgraph import breadth_first_order, connected_components, shortest_path

from taciturn import checks
from taciturn.errors import DataError, InputError
from taciturn.typing import HostArray
from taciturn_power.conic import Cone, ConicSet
from taciturn_power.grids.network import Network, adjacency
from taciturn_power.grids.relaxation import Relaxation

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "case14": "1-5\n7-10, 14\n6, 11-13",
        "case118": "1-23, 25-32, 113-115, 117\n33-69, 116\n24, 70-112, 118",
    }
)


@dataclass(frozen=True, eq=False)
class Zones:
    """A partition of the buses.

    `of_bus` counts zones from 0. The zones in `split` are not connected by internal lines, which is
    allowed but often a mistake.
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
    """Return the zones for a number (grown), a file name, or None (built in, or three grown).

    Raises `InputError` if the number is out of range or the file does not describe a partition.
    """
    if choice is None:
        text = BUILT_IN.get(network.name)
        # another case of that name may number its buses differently
        first, last = int(network.numbers.min()), int(network.numbers.max())
        if text is None or (first, last) != (1, network.buses):
            return grown_zones(network, min(3, network.buses))
        return parse_zones(network, text, source="built-in zones")
    if re.fullmatch(r"[+-]?\d+", choice.strip()):
        return grown_zones(network, int(choice))
    try:
        text = Path(choice).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"zones {choice} is neither a number nor a readable file ({type(error).__name__}); "
            "give a number of zones or a text file with one zone per line"
        ) from error
    return parse_zones(network, text, source=choice)


def parse_zones(network: Network, text: str, *, source: str) -> Zones:
    """Return the zones of a text: one zone per line, bus numbers and ranges, # begins a comment.

    For example `1-5, 7` and, on the next line, `6 8-14`.

    Raises `DataError` if an entry is no bus number or range, or a bus is unknown, named twice or
    left out.
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
            f"{source}: {len(missing)} buses are in no zone, for example bus {missing[0]}; add them"
        )
    return zones_of(network, of_bus)


def _numbers(entry: str, source: str) -> range:
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", entry)
    first = int(match.group(1)) if match else 1
    last = int(match.group(2) or first) if match else 0
    if not first <= last <= first + 10**6:
        raise DataError(f"{source}: {entry!r} is no bus number or range; write 7 or 3-12")
    return range(first, last + 1)


def grown_zones(network: Network, count: int) -> Zones:
    """Return `count` connected zones of similar size, grown from buses that are far apart.

    The seeds are the bus farthest from the first one, then repeatedly the bus farthest from all
    seeds. The smallest zone that can grow then takes the free bus with the most lines into it.
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


def check_zones(zones: tuple[int, ...], buses: int) -> None:
    """Raise `InputError` unless every bus has a zone, counted from 0 without gaps."""
    if len(zones) != buses:
        raise InputError(f"{len(zones)} zones for {buses} buses; give one for each")
    if set(zones) != set(range(max(zones) + 1)):
        raise InputError("zones are counted from 0 without gaps; number them so")


@dataclass(frozen=True, eq=False)
class Part:
    """The part of one zone.

    - `columns`: Its variables, as positions in the global vector: W of its buses V_z and their
      neighbours, c, s and flows of the lines L_z that touch it, generation at its own buses.
    - `rows`: Its balance rows: active, then reactive, of its buses.
    - `limits`: F_z of (D.3b) in these variables: every constraint of L_z, V_z and its generators.
    """

    columns: Int[HostArray, " n"]
    rows: Int[HostArray, " b"]
    limits: ConicSet


def parts(relaxation: Relaxation, zones: Zones) -> list[Part]:
    """Return the part of every zone; each zone on a tie line holds that line's variables.

    Raises `DataError` if the public limits within a zone contradict one another.
    """
    network, layout, found = relaxation.network, relaxation.layout, []
    for zone in range(zones.count):
        bus = np.flatnonzero(zones.of_bus == zone)
        line = np.flatnonzero(np.isin(network.ends, bus).any(axis=1))
        pair = np.unique(relaxation.pair[line])
        generator = np.flatnonzero(np.isin(network.generator_bus, bus))
        columns = np.concatenate(
            [
                np.union1d(bus, network.ends[line].ravel()),
                layout.cosine(pair),
                layout.sine(pair),
                *(layout.flow(kind, line) for kind in range(4)),
                *(layout.generation(kind, generator) for kind in range(2)),
            ]
        )
        held = limits(relaxation, line, columns, f"in zone {zone + 1}")
        found.append(Part(columns, np.concatenate([bus, bus + layout.buses]), held))
    return found


def limits(
    relaxation: Relaxation,
    line: Int[HostArray, " l"],
    columns: Int[HostArray, " n"],
    where: str = "of the network",
) -> ConicSet:
    """Return the constraints of these lines, and the bounds of these variables, in these variables.

    A variable whose bounds coincide gives an equality, so that the set has a relative interior.

    Raises `DataError` if the limits contradict one another.
    """
    matrix, offset, cones = limit_rows(relaxation, line, columns)
    try:
        return ConicSet(matrix, offset, cones=cones)
    except InputError as error:
        raise DataError(
            f"{relaxation.network.name}: no state meets all limits {where}; loosen a voltage, "
            "generation, line or angle limit there"
        ) from error


def limit_rows(
    relaxation: Relaxation, line: Int[HostArray, " l"], columns: Int[HostArray, " n"]
) -> tuple[csc_array, Float[HostArray, " N"], list[Cone]]:
    """Return A, b and K of `limits`, which says b - A x in K."""
    lines, count = relaxation.layout.lines, len(columns)
    here = np.isin(np.arange(lines), line)
    lower, upper = relaxation.lower[columns], relaxation.upper[columns]
    fixed = lower == upper
    below, above = np.isfinite(lower) & ~fixed, np.isfinite(upper) & ~fixed
    unit = csr_array(eye_array(count))
    flows = relaxation.equal[np.tile(here, 4)][:, columns]
    angle = relaxation.angle[here[relaxation.angle_line]][:, columns]
    blocks = [flows, unit[fixed], -unit[below], unit[above], angle]
    offsets = [np.zeros(flows.shape[0]), lower[fixed], -lower[below], upper[above]]
    offsets.append(np.zeros(angle.shape[0]))
    sizes: list[int] = []
    for cone in relaxation.cones:
        owned = here[cone.line]
        rows = np.repeat(owned, cone.dimension)
        blocks.append(-cone.rows[rows][:, columns])
        offsets.append(cone.constant[rows])
        sizes += [cone.dimension] * int(owned.sum())
    zero = flows.shape[0] + int(fixed.sum())
    plain = int(below.sum() + above.sum()) + angle.shape[0]
    cones: list[Cone] = [("zero", zero), ("nonnegative", plain)]
    cones += [("second_order", size) for size in sizes]
    used = [(kind, size) for kind, size in cones if size]
    return csc_array(vstack(blocks)), np.concatenate(offsets), used
