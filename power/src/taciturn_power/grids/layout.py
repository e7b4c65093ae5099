"""Positions of the buses in a drawing: distances on paper resemble distances along lines."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree

from taciturn.typing import HostArray

_STEPS = 120


def layout(
    ends: Int[HostArray, "L 2"], length: Float[HostArray, " L"], nodes: int
) -> Float[HostArray, "N 2"]:
    """Return positions that make sum_{i<j} (|p_i - p_j| - d_ij)^2 / d_ij^2 small.

    d_ij is the length of the shortest path. The stress is lowered by majorisation (Gansner, Koren
    and North 2004) from the two leading coordinates of classical scaling; every step solves one
    linear system with the same matrix. Nothing is random.

    Parameters
    ----------
    length
        Desired length of every line, above 0. The network must be connected.
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
    return _rotated(_separated(places, 0.45 * float(np.min(length))))


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


def _rotated(places: HostArray) -> HostArray:
    """Turn the drawing so that it is widest from left to right."""
    centred = places - places.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned: HostArray = centred @ axes.T
    return turned
