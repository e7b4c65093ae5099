"""The plain runtime: the same agent functions, one agent at a time, as on separate machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tacit.door import Door
from tacit.program import Program, agent_turns, server_turns
from tacit.protocol import agent_round
from tacit.runtime.star import Keep, first_carry, kept_parts, mean_over_agents
from tacit.transcript import Trace
from tacit.typing import Array, PyTree

_one_agent = jax.jit(agent_round)


def serial(
    program: Program,
    door: Door,
    private: Any,
    *,
    keep: Keep,
    report: Callable[[Any], None] | None = None,
) -> tuple[Array, Trace]:
    """Return what `simulate` returns, by a loop over rounds and agents; they agree to 1e-10.

    Slow on purpose: it is the truth that the vectorised runtime is held to, and the shape that a
    runtime on real machines takes.
    """
    turns, server = agent_turns(program), server_turns(program)
    states, public = first_carry(program)
    agents = [_at(states, agent) for agent in range(program.agents)]
    traces = []
    for t in range(program.rounds):
        records, messages = [], []
        for agent in range(program.agents):
            mine = jax.tree.map(lambda x, t=t, agent=agent: x[t, :, agent], turns)
            agents[agent], message, record = _one_agent(
                program.algorithm, door, agents[agent], public, mine, _at(private, agent)
            )
            records.append(record)
            messages.append(message)
        wire = _stack(messages, axis=0)
        public = program.algorithm.combine(public, mean_over_agents(wire), _at(server, t))
        traces.append(kept_parts(program, public, _stack(records, axis=1), wire, keep))
        if report is not None:
            report(t + 1)
    return program.algorithm.model(public), _stack(traces, axis=0)


def _at(tree: PyTree, index: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _stack(trees: list[PyTree], *, axis: int) -> PyTree:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=axis), *trees)
