"""Problem (D.3): the share of (D.2) that each zone holds, and its feasible set as cones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from scipy.sparse import csc_array, csr_array, eye_array, vstack

from tacit.errors import DataError, InputError
from tacit.power.relaxation import Relaxation
from tacit.power.zones import Zones
from tacit.problems import Cone, ConicSet
from tacit.typing import HostArray


@dataclass(frozen=True, eq=False)
class Part:
    """The share of one zone.

    Attributes
    ----------
    columns
        Its variables, as positions in the global vector: W of its buses V_z and their neighbours,
        c, s and flows of the lines L_z that touch it, generation at its own buses.
    rows
        Its balance rows: active, then reactive, of its buses.
    limits
        F_z of (D.3b) in these variables: every constraint of L_z, V_z and its generators.
    """

    columns: Int[HostArray, " n"]
    rows: Int[HostArray, " b"]
    limits: ConicSet


def parts(relaxation: Relaxation, zones: Zones) -> list[Part]:
    """Return the part of every zone; each zone on a tie line holds that line's variables.

    Raises
    ------
    DataError
        If the public limits within a zone contradict one another.
    """
    return [_checked_part(relaxation, zones, zone) for zone in range(zones.count)]


def _checked_part(relaxation: Relaxation, zones: Zones, zone: int) -> Part:
    try:
        return _part(relaxation, zones.of_bus == zone)
    except InputError as error:
        raise DataError(
            f"{relaxation.network.name}: no state meets all limits in zone {zone + 1}; loosen a "
            "voltage, generation, line or angle limit there"
        ) from error


def _part(relaxation: Relaxation, inside: Bool[HostArray, " N"]) -> Part:
    network, layout = relaxation.network, relaxation.layout
    line = np.flatnonzero(inside[network.ends].any(axis=1))
    pair = np.unique(relaxation.pair[line])
    generator = np.flatnonzero(inside[network.generator_bus])
    bus = np.flatnonzero(inside)
    columns = np.concatenate(
        [
            np.union1d(bus, network.ends[line].ravel()),
            layout.cosine(pair),
            layout.sine(pair),
            *(layout.flow(kind, line) for kind in range(4)),
            *(layout.generation(kind, generator) for kind in range(2)),
        ]
    )
    rows = np.concatenate([bus, bus + layout.buses])
    return Part(columns, rows, limits(relaxation, line, columns))


def limits(
    relaxation: Relaxation, line: Int[HostArray, " l"], columns: Int[HostArray, " n"]
) -> ConicSet:
    """Return the constraints of these lines, and the bounds of these variables, in these variables.

    A variable whose bounds coincide is an equality, so that the set keeps an interior beside it.
    """
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
    return ConicSet(csc_array(vstack(blocks)), np.concatenate(offsets), cones=used)
