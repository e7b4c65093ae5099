"""Trees with an axis of agents, or of rounds: parts of them, and functions mapped over agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from taciturn.typing import Array, PyTree


def at(tree: PyTree, index: int | slice | Array | None) -> PyTree:
    """Return what a tree holds at an index, or a slice, of the first axis; None adds an axis."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def over_agents(function: Callable[..., Any], agents: int, *axes: Any) -> Callable[..., Any]:
    """Return a function mapped over agents; of one agent without the gathers of a mapping.

    `axes`: for every argument 0, or a tree of 0 and None where parts are the same for all agents.
    """
    if agents > 1:
        return jax.vmap(function, in_axes=axes)

    def of_one(*given: Any) -> Any:
        alone = jax.tree.map(
            lambda axis, part: part if axis is None else at(part, 0),
            axes,
            given,
            is_leaf=lambda axis: axis is None,
        )
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], function(*alone))

    return of_one
