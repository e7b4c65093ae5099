"""Products of zero cones, nonnegative orthants and second-order cones, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from taciturn import checks
from taciturn.errors import InputError
from taciturn.typing import HostArray

Cone: TypeAlias = tuple[Literal["zero", "nonnegative", "second_order"], int]
KINDS = ("zero", "nonnegative", "second_order")


@final
@dataclass(frozen=True, eq=False)
class ProductCone:
    """K = K_1 x K_2 x ..., with its Euclidean projection and a derivative of that.

    - `nonnegative`: Coordinates of all nonnegative orthants.
    - `second_order`: Coordinates of the second-order cones {(t, y) : |y|_2 <= t}, t first, one
      `(count, size)` array for each size.
    - `zero`: Coordinates of all zero cones.
    """

    rows: int
    zero: HostArray
    nonnegative: HostArray
    second_order: tuple[HostArray, ...]

    def violation(self, w: Float[HostArray, "N"]) -> float:
        """Return max of |w_k| on zero cones, -w_k on orthants and |y|_2 - t, at least 0."""
        worst = [0.0, np.abs(w[self.zero]).max(initial=0.0), -w[self.nonnegative].min(initial=0.0)]
        for group in self.second_order:
            t, _, length = _split(w[group])
            worst.append((length - t).max())
        return float(np.max(worst))  # a NaN is kept

    def project(self, w: Float[HostArray, "N"]) -> Float[HostArray, "N"]:
        """Return argmin_{s in K} |s - w|_2.

        (t, y) with |y| > |t| goes to (t + |y|) / 2 (1, y / |y|); inside the cone it stays, and
        below its polar it goes to 0.
        """
        s = np.zeros_like(w)
        s[self.nonnegative] = np.maximum(w[self.nonnegative], 0)
        for group in self.second_order:
            t, y, length = _split(w[group])
            outside = (
                np.column_stack([length, y]) * ((t + length) / (2 * _nonzero(length)))[:, None]
            )
            s[group] = np.where((length <= t)[:, None], w[group], outside)
            s[group[length <= -t]] = 0
        return s

    def derivative(self, w: Float[HostArray, "N"]) -> sp.csc_array:
        """Return an element of the generalised Jacobian of `project` at w, `(N, N)`.

        With u = y / |y| it is [[1, u'], [u, (1 + t/|y|) I - (t/|y|) u u']] / 2 outside a
        second-order cone and its polar, the identity inside, 0 in the polar.
        """
        rows, columns = [self.nonnegative], [self.nonnegative]
        values = [(w[self.nonnegative] > 0).astype(float)]
        for group in self.second_order:
            size = group.shape[1]
            rows.append(np.repeat(group, size, axis=1).ravel())
            columns.append(np.tile(group, size).ravel())
            values.append(_second_order_derivative(w[group]).ravel())
        where = (np.concatenate(rows), np.concatenate(columns))
        return sp.csc_array((np.concatenate(values), where), shape=(self.rows, self.rows))


def product_cone(cones: Sequence[Cone]) -> ProductCone:
    """Return the product of `cones`, pairs (kind, number of rows), in the order of the rows.

    Raises `InputError` if a kind is unknown or a size is no whole number above 0.

    Examples
    --------
    >>> product_cone([("second_order", 3), ("nonnegative", 1)]).project(np.array([0.0, 3, 4, -1]))
    array([2.5, 1.5, 2. , 0. ])
    """
    plain: dict[str, list[HostArray]] = {kind: [np.zeros(0, int)] for kind in KINDS[:2]}
    by_size: dict[int, list[HostArray]] = {}
    start = 0
    for kind, given in cones:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is no cone; use one of {', '.join(KINDS)}")
        size = checks.at_least(f"the size of a {kind} cone", given, 1)
        block = np.arange(start, start + size)
        home = by_size.setdefault(size, []) if kind == "second_order" else plain[kind]
        home.append(block)
        start += size
    groups = tuple(np.stack(blocks) for blocks in by_size.values())
    zero, nonnegative = (np.concatenate(plain[kind]) for kind in KINDS[:2])
    return ProductCone(start, zero, nonnegative, groups)


def _split(w: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    return w[:, 0], w[:, 1:], np.linalg.norm(w[:, 1:], axis=1)


def _nonzero(length: HostArray) -> HostArray:
    return np.where(length > 0, length, 1.0)


def _second_order_derivative(w: HostArray) -> HostArray:
    t, y, length = _split(w)
    u, ratio = y / _nonzero(length)[:, None], t / _nonzero(length)
    eye = np.eye(w.shape[1])
    outside = np.empty((*w.shape, w.shape[1]))
    outside[:, 0, 0] = 0.5
    outside[:, 0, 1:] = outside[:, 1:, 0] = u / 2
    inner = (1 + ratio)[:, None, None] * eye[1:, 1:]
    outside[:, 1:, 1:] = (inner - ratio[:, None, None] * u[:, :, None] * u[:, None, :]) / 2
    outside[length <= t] = eye
    outside[length <= -t] = 0
    return outside
