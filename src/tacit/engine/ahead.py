"""Drawing noise and batches of many rounds at once, before the first of them is run.

A generator's rounds are a loop of a dozen tiny operations: for one answer they cost more than the
answer. Over a block of rounds they are vectorised. The keys, hence the draws, are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp

from tacit.algorithms import Turn
from tacit.engine.door import AheadOf, Door, Live, Prepared
from tacit.engine.program import Program
from tacit.typing import Array, PyTree

# bytes that are drawn at once; a sweep draws as many for each of its runs
_BLOCK = 2**21
# below so many rounds a block there is little to gain
_LEAST = 8


def block_length(program: Program, door: Door, private: Any, turns: Turn) -> int:
    """Return how many rounds are drawn at once; 0 if none are, because the door draws nothing.

    It divides the number of rounds if a number down to half as large does: what is left over is
    compiled a second time.
    """
    if not program.network.draws_ahead:
        return 0
    one = jax.tree.map(lambda leaf: leaf[:1], turns)
    leaves = jax.tree.leaves(jax.eval_shape(lambda: draw(program, door, private, one)))
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    most = min(_BLOCK // max(size, 1), program.rounds)
    if not leaves or most < min(_LEAST, program.rounds):
        return 0
    fits = [n for n in range(most, most // 2, -1) if program.rounds % n == 0]
    return fits[0] if fits else most


def draw(program: Program, door: Door, private: Any, turns: Turn) -> PyTree:
    """Return what the door draws ahead for some rounds, leaves `(B, A, E, ...)`."""

    def one(turn: Turn, data: Any) -> PyTree:
        return door.ahead(data, turn, program.template.shape)

    questions = jax.vmap(one, in_axes=(0, None))
    agents = jax.vmap(questions, in_axes=(-1, 0))
    return jax.vmap(agents, in_axes=(0, None))(turns, private)


def prepared(door: Door, private: Any, chances: PyTree) -> tuple[Door, Any]:
    """Return the door and what it is opened with in a round whose draws are `chances`."""
    return AheadOf(cast(Live, door)), Prepared(private, chances)


def in_blocks(
    step: Callable[[PyTree, tuple[PyTree, PyTree]], tuple[PyTree, PyTree]],
    first: PyTree,
    turns: PyTree,
    draws: Callable[[PyTree], PyTree],
    *,
    length: int,
) -> tuple[PyTree, PyTree]:
    """Return `jax.lax.scan` of `step` over (turns, draws of the turns), a block at a time."""

    def block(carry: PyTree, some: PyTree) -> tuple[PyTree, PyTree]:
        return jax.lax.scan(step, carry, (some, draws(some)))

    rounds = jax.tree.leaves(turns)[0].shape[0]
    whole, left = divmod(rounds, length)
    if whole == 1:
        last, trace = block(first, _part(turns, slice(0, length)))
    else:
        cut = _part(turns, slice(0, whole * length))
        shaped = jax.tree.map(lambda x: x.reshape(whole, length, *x.shape[1:]), cut)
        last, trace = jax.lax.scan(block, first, shaped)
        trace = jax.tree.map(lambda x: x.reshape(whole * length, *x.shape[2:]), trace)
    if not left:
        return last, trace
    last, rest = block(last, _part(turns, slice(whole * length, None)))
    return last, jax.tree.map(_joined, trace, rest)


def _part(tree: PyTree, rounds: slice) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[rounds], tree)


def _joined(one: Array, other: Array) -> Array:
    return jnp.concatenate([one, other])
