"""Queries that several questions share: a point, and a centre."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float

from tacit.typing import Array


class Centre(NamedTuple):
    """A question about the point near `v` at which f_i is small: `v`, of the model's shape."""

    v: Float[Array, "..."]


class Point(NamedTuple):
    """A question about f_i at one point: `x`, of the model's shape."""

    x: Float[Array, "..."]
