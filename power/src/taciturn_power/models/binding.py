"""Which limits bind at a dispatch: of generators, of lines, and of angle differences."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from taciturn_power.grids.network import Network
from taciturn_power.models.dispatch import Dispatch

# a limit binds where less than this share of it is left
_BINDS = 1e-4


class Bound(NamedTuple):
    """The limit of a line that binds, and its size: MVA of a rating, degrees of an angle."""

    kind: Literal["rating", "angle"]
    limit: float


def binding(dispatch: Dispatch, network: Network) -> list[str]:
    """Return the limits that bind, as text: generators first, then lines.

    A generator binds where its power with its reserve is at a limit, a line as in `binding_lines`.
    """
    low, high = network.generator_range[:, :2].T * network.base_mva
    power, reserve = dispatch.generation[:, 0], dispatch.reserve
    room = _BINDS * np.maximum(1.0, np.abs(power))
    bus = network.numbers[network.generator_bus]
    names = [
        f"generator at {bus[g]}: {side} {limit[g]:.4g} MW"
        for side, limit, near in (
            ("most", high, high - power - reserve <= room),
            ("least", low, power - reserve - low <= room),
        )
        for g in np.flatnonzero(near & (low < high))
    ]
    ends = network.numbers[network.ends]
    units = {"rating": " MVA", "angle": "° between its ends"}
    return names + [
        f"line {ends[line, 0]}–{ends[line, 1]}: {bound.limit:.4g}{units[bound.kind]}"
        for line, bound in enumerate(binding_lines(dispatch, network))
        if bound
    ]


def binding_lines(dispatch: Dispatch, network: Network) -> list[Bound | None]:
    """Return of every line the limit that binds, if one does.

    The rating binds where the flow with its margin reaches it, the limit of the angle difference
    where the difference does; in DC a margin of m MW is one of m x tau / baseMVA radians.
    """
    limit = network.limit * network.base_mva
    left = limit - np.abs(dispatch.flow).max(axis=1) - dispatch.margin
    rated = np.isfinite(limit) & (left <= _BINDS * np.where(np.isfinite(limit), limit, 1))
    apart = np.diff(dispatch.angle[network.ends[:, ::-1]], axis=1)[:, 0]
    margin = np.abs(network.impedance.imag * network.tap) * dispatch.margin / network.base_mva
    low, high = network.angle.T
    most, least = high - apart - margin, apart - low - margin
    # one is infinite where there is none; a limit of 0 has no share
    at_most = most <= _BINDS * np.maximum(np.where(np.isfinite(high), np.abs(high), 0), 1e-3)
    at_least = least <= _BINDS * np.maximum(np.where(np.isfinite(low), np.abs(low), 0), 1e-3)
    angle = np.rad2deg(np.where(at_most, high, low))
    return [
        Bound("rating", float(limit[k]))
        if rated[k]
        else Bound("angle", float(angle[k]))
        if at_most[k] or at_least[k]
        else None
        for k in range(network.lines)
    ]
