"""The plain runtime: the same agent functions, one agent at a time, as on separate machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.engine.door import Door
from tacit.engine.program import Program, agent_turns, server_turns
from tacit.engine.protocol import agent_round
from tacit.engine.transcript import Keep, Trace, kept_parts
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
    network, algorithm, template = program.network, program.algorithm, program.template
    turns, server = agent_turns(program), server_turns(program)
    first, inboxes = (
        network.first_states(algorithm, template),
        network.first_inboxes(algorithm, template),
    )
    states = [_at(first, agent) for agent in range(program.agents)]
    participants = np.asarray(turns.agent[:, 0, :])
    traces = []
    for t in range(program.rounds):
        records, messages = [], []
        for slot, agent in enumerate(participants[t].tolist()):
            turn = jax.tree.map(lambda x, t=t, slot=slot: x[t, :, slot], turns)
            inbox = network.inbox(inboxes, agent)
            state, message, record = _one_agent(
                algorithm, door, states[agent], inbox, turn, _at(private, agent)
            )
            new, old = (state, message), (states[agent], inbox)
            states[agent], message = network.if_taking_part(t, new, old)
            records.append(record)
            messages.append(message)
        wire = _stack(messages, axis=0)
        inboxes = network.deliver(algorithm, inboxes, wire, _at(server, t))
        model = network.model(algorithm, _stack(states, axis=0), inboxes)
        traces.append(kept_parts(model, inboxes, _stack(records, axis=1), wire, keep))
        if report is not None:
            report(t + 1)
    trace = _stack(traces, axis=0)
    return model, trace._replace(records=network.spread_records(trace.records))


def _at(tree: PyTree, index: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _stack(trees: list[PyTree], *, axis: int) -> PyTree:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=axis), *trees)
