"""How many messages and numbers a run sends; nothing is computed for it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from taciturn.engine.network import Traffic
from taciturn.engine.program import Program, agent_turns
from taciturn.engine.protocol import at
from taciturn.typing import PyTree


class Shapes(NamedTuple):
    """Shapes and types of an agent's state, its message and its inbox."""

    state: PyTree
    message: PyTree
    inbox: PyTree


def shapes_of(program: Program) -> Shapes:
    """Return what an agent keeps, sends and hears in a round, as shapes."""
    algorithm: Any = program.executed
    network: Any = program.network
    template = program.template

    def once() -> Shapes:
        turn = at(jax.tree.map(lambda leaf: leaf[0, :, 0], agent_turns(program)), 0)
        inbox = network.inbox(network.first_inboxes(algorithm, template), 0)
        state = algorithm.receive(algorithm.start(template), inbox, turn)
        shape = program.oracles[0].answer_shape(template.shape)
        state = algorithm.tell(state, inbox, turn, jnp.zeros(shape, turn.scale.dtype))
        state, message = algorithm.send(state, inbox, turn)
        return Shapes(state, message, inbox)

    shapes: Shapes = jax.eval_shape(once)
    return shapes


def traffic_of(program: Program) -> Traffic:
    """Return the messages that all agents, and an aggregator, send in a run, and their numbers."""
    shapes = shapes_of(program)
    return program.network.traffic(_size(shapes.message), _size(shapes.inbox), program.rounds)


def _size(tree: PyTree) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))
