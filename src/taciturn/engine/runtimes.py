"""The two runtimes: all agents as one compiled program, or one agent at a time.

The agents of the first may be divided among devices, of one process or of several: XLA's
partitioner divides the program along the axis of agents. What an agent asks and answers is computed
where its records lie; between processes travel messages, or their partial sums, and finally the
kept parts of the trace. Every process draws the noise of its agents under a separate key from its
operating system; a label contains the agent, so that no two agents share random words even under
one key. In a reproduction noise follows from the seed and the agent, wherever it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.engine.network import NetworkKind, Turns
from taciturn.engine.program import Program, agent_turns, server_turns, stack
from taciturn.engine.protocol import Keep, Trace, agent_round, kept_parts
from taciturn.kernel.door import Door, Live, Private, Raw, Supply, apart, at, of_agent
from taciturn.kernel.noise import Stream
from taciturn.kernel.records import Devices
from taciturn.typing import Array, PyTree

Report: TypeAlias = Callable[[Any], None] | None


def _first(program: Program) -> PyTree:
    """Return the carry before the first round: states and inboxes."""
    network, algorithm, template = program.network, program.executed, program.template
    states = network.first_states(algorithm, template)
    return states, network.first_inboxes(algorithm, template)


def _model(program: Program, carry: PyTree) -> Array:
    return program.network.model(program.executed, *carry)


def _spread(program: Program, trace: Trace) -> Trace:
    return trace._replace(records=program.network.spread_records(trace.records))


def rounds(  # noqa: PLR0913 - a scan's carry and inputs beside the run's
    program: Program,
    door: Door,
    carry: PyTree,
    turns: Turns,
    raw: Raw | None,
    *,
    keep: Keep,
    report: Report = None,
) -> tuple[PyTree, Trace]:
    """Return the carry and the trace after some rounds with given random numbers."""
    network, algorithm = program.network, program.executed
    if not network.together:
        door = apart(door)
    chances = None if raw is None else door.realised(turns.agents, raw)

    def one_round(carry: PyTree, now: tuple[Turns, PyTree]) -> tuple[PyTree, Trace]:
        turns, chance = now
        ask = partial(door.__call__, chance=chance)
        carry, (records, messages) = network.round(algorithm, ask, carry, turns)
        if report is not None:
            jax.debug.callback(report, turns.server.round + 1)
        return carry, kept_parts(_model(program, carry), carry[1], records, messages, keep)

    return jax.lax.scan(one_round, carry, (turns, chances))


@partial(jax.jit, static_argnames=("keep",))
def compute(
    program: Program, door: Door, raw: Raw | None = None, *, keep: Keep
) -> tuple[Array, Trace]:
    """Return the final model and the kept parts of the trace of a run with given random numbers.

    A pure function, to be mapped over programs, doors and numbers. `raw`: leaves `(T, S, E, ...)`,
    as from `Supply.block`; None for a door without randomness. `keep`: any of `KEPT`; answers and
    messages take T x A x dimension numbers.
    """
    turns = Turns(agent_turns(program), server_turns(program))
    last, trace = rounds(program, door, _first(program), turns, raw, keep=keep)
    return _model(program, last), _spread(program, trace)


_rounds = jax.jit(rounds, static_argnames=("keep", "report"))
_server_turns = jax.jit(server_turns)
_begin, _end = jax.jit(_first), jax.jit(_model)


def simulate(
    program: Program,
    door: Door,
    supply: Supply,
    *,
    keep: Keep,
    report: Report = None,
    devices: Devices | None = None,
) -> tuple[Array, Trace]:
    """Return the final model and the kept parts of the trace, a block of rounds at a time.

    A block is drawn while the program compiles or the previous one is computed, so that two are in
    memory at most. `report` is called on the host with the number of finished rounds, in no certain
    order. A program that calls it cannot be cached on disk; one with the attribute `by_block` is
    therefore called after each block instead, as all are with `devices`, among which the agents are
    then divided while `supply` draws for this process's agents.
    """
    step, begin, end = _divided(program.network.__class__, devices, keep)
    by_block = devices is not None or getattr(report, "by_block", False)
    inside = None if by_block else report
    if devices is None:  # one cached program instead of one for each operation
        step = partial(_rounds, keep=keep, report=inside)
        turns = Turns(supply.agenda.turns, _server_turns(program))
    else:
        turns = Turns(agent_turns(program), server_turns(program))
    total, length = program.rounds, supply.length()
    carry, traces = begin(program), []

    def drawn(start: int) -> Any:
        raw = supply.block(start, min(start + length, total))
        if devices is None:
            return raw
        return jax.tree.map(lambda leaf: devices.array(leaf, program.agents, axis=1), raw)

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(drawn, 0)
        for start in range(0, total, length):
            stop = min(start + length, total)
            given = (program, door, carry, at(turns, slice(start, stop)))
            if devices is None:  # compile while the numbers are drawn
                shapes = supply.shapes(stop - start)
                _rounds.lower(*given, shapes, keep=keep, report=inside).compile()
            raw = following.result()
            if stop < total:
                following = pool.submit(drawn, stop)
            carry, trace = step(*given, raw)
            traces.append(trace)
            # wait, or JAX would queue all blocks and keep their random numbers in memory
            jax.tree.leaves(carry)[0].block_until_ready()
            if by_block and report is not None:
                report(stop)
    trace = jax.tree.map(lambda *parts: jnp.concatenate(parts), *traces)
    return end(program, carry), _spread(program, trace)


@cache
def _divided(network: type[NetworkKind], devices: Devices | None, keep: Keep) -> tuple[Any, ...]:
    """Return compiled functions that keep every part of the carry in place: rounds, first and last.

    Cached, since every run would compile them again.
    """
    if devices is None:
        return None, _begin, _end
    inboxes = devices.everywhere if network.inbox_axis is None else devices.on_agents
    carry = (devices.on_agents, inboxes)
    return (
        jax.jit(partial(rounds, keep=keep), out_shardings=(carry, devices.everywhere)),
        jax.jit(_first, out_shardings=carry),
        jax.jit(_model, out_shardings=devices.everywhere),
    )


_one_agent = jax.jit(agent_round)


def serial(
    program: Program, door: Door, supply: Supply, *, keep: Keep, report: Report = None
) -> tuple[Array, Trace]:
    """Return the result of `simulate` by a loop over rounds and agents; the two agree to 1e-10.

    Slow on purpose: the reference for the compiled runtime, in the form of a distributed one.
    """
    network, algorithm = program.network, program.executed
    turns, server = agent_turns(program), server_turns(program)
    first, inboxes = _first(program)
    states = [at(first, agent) for agent in range(program.agents)]
    doors = [of_agent(door, agent) for agent in range(program.agents)]
    participants = np.asarray(turns.agent[:, 0, :])
    traces = []
    for t in range(program.rounds):
        records, messages, raw = [], [], at(supply.block(t, t + 1), 0)
        for slot, agent in enumerate(participants[t].tolist()):
            turn = jax.tree.map(lambda x, t=t, slot=slot: x[t, :, slot], turns)
            inbox = network.inbox(inboxes, agent)
            given = (doors[agent], states[agent], inbox, turn, at(raw, slot))
            state, message, record = _one_agent(algorithm, *given)
            new, old = (state, message), (states[agent], inbox)
            states[agent], message = network.where_awake(t, new, old)
            records.append(record)
            messages.append(message)
        wire = network.sent(_stack(messages, axis=0))
        inboxes = network.deliver(algorithm, inboxes, wire, at(server, t))
        model = network.model(algorithm, _stack(states, axis=0), inboxes)
        traces.append(kept_parts(model, inboxes, _stack(records, axis=1), wire, keep))
        if report is not None:
            report(t + 1)
    return model, _spread(program, _stack(traces, axis=0))


def reproduction(program: Program, private: Private, seed: int) -> tuple[Live, Supply]:
    """Return the door and the seeded draws of a run, as a runtime takes them."""
    door = Live(program.oracles, program.mechanism, private)
    return door, Supply(program.agenda, Stream.seeded(seed), private.rows)


def _stack(trees: list[PyTree], *, axis: int) -> PyTree:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=axis), *trees)


_TOGETHER = 2**30  # bytes of random numbers of the runs that a sweep computes at once


def sweep(
    programs: Sequence[Program], private: Private, *, seeds: Sequence[int], keep: Keep
) -> tuple[Array, Trace]:
    """Return models `(B, S, *shape)` and traces of B programs with S seeds: all reproductions.

    Each equals that of `run` with the program and seed. One compiled program computes as many seeds
    as memory allows and maps only over what differs between the programs: a question that all ask
    in the same rounds stays a branch. Raises `InputError` if the programs differ in more than
    numbers.
    """
    leaves, tree = jax.tree.flatten(stack(programs))
    differ = [bool(np.any(np.asarray(leaf) != np.asarray(leaf[:1]))) for leaf in leaves]
    kept = [leaf if other else leaf[0] for leaf, other in zip(leaves, differ, strict=True)]
    program, axes = jax.tree.unflatten(tree, kept), tuple(0 if other else None for other in differ)
    raw = jax.tree.leaves(reproduction(programs[0], private, 0)[1].shapes(1))
    size = program.rounds * sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in raw)
    at_once = max(1, _TOGETHER // max(1, size * len(programs)))
    parts = []

    def draw(one: Program, seed: int) -> PyTree:
        block = reproduction(one, private, seed)[1].block(0, one.rounds)
        return block, np.zeros(())  # an axis to map over even if nothing is drawn

    for start in range(0, len(seeds), at_once):
        some = seeds[start : start + at_once]
        drawn = [_stack([draw(one, seed) for seed in some], axis=0) for one in programs]
        parts.append(_runs(program, private, _stack(drawn, axis=0), axes=axes, keep=keep))
    joined: tuple[Array, Trace]
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *parts)
    return joined


@partial(jax.jit, static_argnames=("axes", "keep"))
def _runs(
    program: Program, private: Private, drawn: Any, *, axes: tuple[int | None, ...], keep: Keep
) -> tuple[Array, Trace]:
    """Return models and traces of every program and seed, leaves `(B, S, ...)`."""

    def one(program: Program, drawn: Any) -> tuple[Array, Trace]:
        door = Live(program.oracles, program.mechanism, private)
        found: tuple[Array, Trace] = compute(program, door, drawn[0], keep=keep)
        return found

    mapped = jax.tree.unflatten(jax.tree.structure(program), axes)
    over_seeds = jax.vmap(one, in_axes=(None, 0))
    found: tuple[Array, Trace] = jax.vmap(over_seeds, in_axes=(mapped, 0))(program, drawn)
    return found
