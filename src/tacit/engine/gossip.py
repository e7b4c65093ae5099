"""Gossip: each agent hears how its neighbours' messages differ from its own."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
from typing_extensions import override

from tacit.algorithms import GossipAlgorithm, Turn
from tacit.engine.door import Door
from tacit.engine.exchange import Exchange, rounds_of_all
from tacit.engine.program import Program
from tacit.engine.wiring import Gossip
from tacit.typing import Array, PyTree


class Gossiping(Exchange):
    """Agent i hears sum_j w_ij (m_j - m_i); all are asked in every round."""

    @override
    def first_heard(self, program: Program) -> PyTree:
        first = _algorithm(program).first_inbox(program.template)
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (program.agents, *x.shape)), first)

    @override
    def inbox(self, heard: PyTree, agent: int) -> PyTree:
        return jax.tree.map(lambda x: x[agent], heard)

    @override
    def round(
        self, program: Program, door: Door, private: Any, carry: PyTree, turns: Turn, server: Turn
    ) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        states, heard = carry
        states, messages, records = rounds_of_all(
            program, door, private, states, heard, turns, axis=0
        )
        heard = self.deliver(program, heard, messages, server)
        return (states, heard), (records, messages)

    @override
    def deliver(self, program: Program, heard: PyTree, messages: PyTree, server: Turn) -> PyTree:
        return jax.tree.map(lambda m: differences(cast(Gossip, program.wiring), m), messages)

    @override
    def model(self, program: Program, states: PyTree, heard: PyTree) -> Array:
        models = jax.vmap(_algorithm(program).model)(states)
        mean: Array = jnp.mean(models, axis=0)
        return mean


def differences(wiring: Gossip, messages: Array) -> Array:
    """Return sum_j w_ij (m_j - m_i) for every agent i, `(A, ...)`.

    What an edge brings to its two ends differs in sign alone, so that the sum over all agents is 0
    up to rounding, and every flow is exactly 0 at agreement.
    """
    ones = (1,) * (messages.ndim - 1)
    if wiring.beside is not None:  # a scatter of edges costs several times these gathers
        flows = (
            weights.reshape(-1, *ones) * (messages[others] - messages)
            for others, weights in zip(wiring.beside.neighbours, wiring.beside.weights, strict=True)
        )
        return sum(flows, jnp.zeros_like(messages))
    width = wiring.weights.reshape(-1, *ones)
    flow = width * (messages[wiring.second] - messages[wiring.first])
    return jnp.zeros_like(messages).at[wiring.first].add(flow).at[wiring.second].add(-flow)


def _algorithm(program: Program) -> GossipAlgorithm:
    return cast(GossipAlgorithm, program.algorithm)  # the plan saw to it
