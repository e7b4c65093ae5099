"""Load inference: an attack that recovers the demand from the messages of a run.

The attacker reads every message and knows everything public: the network, the settings, the
algorithm. A zone's new state z minimises

    |A z - y|^2 / 2 + sum_k metric_k z_k^2 / 2 - linear'z     over its public set C,

where y is the zone's noisy answer about its demand (y = -demand without noise) and everything but y
follows from messages. Let the columns of N span the directions orthogonal to the gradients of all
active constraints. Stationarity gives

    N'A'y = N'(A'A z + metric z - linear),

linear equations that determine y if N'A' has full rank. The noise in y is then the only protection
of the demand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import null_space

from taciturn.errors import InputError
from taciturn.typing import HostArray
from taciturn_power import Flow, Part, proximal_weight
from taciturn_power.conic import ConicSet

_ACTIVE = 1e-5  # slack, per unit, below which a constraint counts as active
_SOLID = 1e-6  # relative size of singular values that are used


@dataclass(frozen=True, eq=False)
class Inference:
    """The outcome of the attack.

    Attributes
    ----------
    demand
        `(2N,)`: the estimated demand, per unit; 0 where it is not determined.
    readable
        `(2N,)`: whether the messages of this round determine it.
    error
        Root-mean-square error over the readable entries; needs the true demand.
    """

    demand: Float[HostArray, " B"]
    readable: Bool[HostArray, " B"]
    error: float


def infer_demand(flow: Flow, round_index: int) -> Inference:
    """Return the demand estimated from the messages up to a round (counted from 0).

    Raises
    ------
    InputError
        If the run made several local updates per round, of which only the mean is sent, or
        linearised steps.
    """
    if flow.settings.updates != 1 or not flow.grid.sets.has_hessians:
        raise InputError("the attack reads runs with one local update and the public Hessian")
    truth = flow.grid.relaxation.demand
    demand, readable = np.zeros_like(truth), np.zeros(len(truth), bool)
    for zone, part in enumerate(flow.grid.parts):
        rows, known = _read(flow, zone, round_index)
        demand[part.rows], readable[part.rows] = -rows, known
    gap = (demand - truth)[readable]
    error = float(np.sqrt(np.mean(gap**2))) if gap.size else float("nan")
    return Inference(demand, readable, error)


def _read(flow: Flow, zone: int, last: int) -> tuple[HostArray, HostArray]:
    """Return the targets in one zone's update, and which of them are determined."""
    grid, settings = flow.grid, flow.settings
    part = grid.parts[zone]
    a = grid.relaxation.balance[part.rows][:, part.columns].toarray()
    before, dual, average, z = _history(flow, zone, last)
    weight = proximal_weight(grid, settings)
    tie = np.asarray(grid.sharing.holders)[part.columns] > 1
    linear = weight * before + tie * (settings.rho * average + dual)
    slope = a.T @ (a @ z) + (weight + settings.rho * tie) * z - linear
    free = null_space(_active(part.limits, z)) if part.columns.size else np.zeros((0, 0))
    u, size, vt = np.linalg.svd(free.T @ a.T, full_matrices=False)
    solid = size > _SOLID * max(1.0, float(size.max(initial=0.0)))
    rows = vt[solid].T @ ((u.T @ (free.T @ slope))[solid] / size[solid])
    determined = np.sum(vt[solid] ** 2, axis=0) > 1 - 1e-6
    return np.where(determined, rows, 0.0), determined


def _history(flow: Flow, zone: int, last: int) -> tuple[HostArray, HostArray, HostArray, HostArray]:
    """Return the zone's previous state, its dual, the averages it received, and its new state."""
    part: Part = flow.grid.parts[zone]
    sent = np.asarray(flow.run.trace.messages)[:, zone, part.columns]
    first = flow.grid.relaxation.flat()[None, part.columns]
    averages = np.concatenate([first, np.asarray(flow.run.trace.models)[:, part.columns]])
    tie = np.asarray(flow.grid.sharing.holders)[part.columns] > 1
    drift = np.sum(averages[1 : last + 1] - sent[:last], axis=0)
    before = first[0] if last == 0 else sent[last - 1]
    return before, flow.settings.rho * tie * drift, averages[last], sent[last]


def _active(limits: ConicSet, z: HostArray) -> HostArray:
    """Return the gradients of the constraints that hold with equality at z, as rows."""
    matrix = limits.matrix.toarray()
    slack = limits.offset - matrix @ z
    rows, start = [], 0
    for kind, size in limits.cones:
        block, left = matrix[start : start + size], slack[start : start + size]
        start += size
        if kind == "second_order":
            rows.append(_tangent(block, left))
        else:
            rows.append(block[(left <= _ACTIVE) | (kind == "zero")])
    return np.concatenate(rows)


def _tangent(block: HostArray, left: HostArray) -> HostArray:
    """Return the gradient of t - |u| where it is active; the whole block at the tip."""
    length = float(np.linalg.norm(left[1:]))
    if left[0] - length > _ACTIVE:
        return block[:0]
    if length <= _ACTIVE:
        return block
    tangent: HostArray = (block[0] - left[1:] @ block[1:] / length)[None]
    return tangent
