"""Queries that several questions share: a point, a centre, and a step of a day."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int

from taciturn.typing import Array


class AtStep(NamedTuple):
    """A question about one step, counted from 0; one beyond the last means the last."""

    step: Int[Array, ""]


class Centre(NamedTuple):
    """A question about the point near `v` at which f_i is small: `v`, of the model's shape."""

    v: Float[Array, "..."]


class Point(NamedTuple):
    """A question about f_i at one point: `x`, of the model's shape."""

    x: Float[Array, "..."]
