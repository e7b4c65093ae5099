"""Queries of algorithms: points and centres, of the model's shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from jaxtyping import Float

from tacit.problems import Shard
from tacit.typing import Array

# an answer without noise, of (shard, count, query)
Exact: TypeAlias = Callable[[Shard, Float[Array, ""], Any], Float[Array, "..."]]


class Centre(NamedTuple):
    """A question about the point near `v` at which f_i is small: `v`, of the model's shape."""

    v: Float[Array, "..."]


class Point(NamedTuple):
    """A question about f_i at one point: `x`, of the model's shape."""

    x: Float[Array, "..."]
