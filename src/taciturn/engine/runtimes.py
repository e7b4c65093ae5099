"""The two runtimes: all agents as one compiled program, or one agent at a time.

The agents of the first may be divided among devices, of this process or of several: XLA's
partitioner divides the same program along the axis of agents. What an agent asks and answers is
computed where its records lie. Between processes travel the messages, or their partial sums, and in
the end what is kept of the trace. Every process draws the noise of its own agents, under a key of
its own from its operating system; a label spells the agent, so that no two agents share words even
under one key. In a reproduction noise follows from the seed and the agent, wherever it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.algorithms import Turn
from taciturn.engine.door import Door, Live, Raw
from taciturn.engine.network import NetworkKind, Turns
from taciturn.engine.program import Program, agent_turns, server_turns
from taciturn.engine.protocol import Keep, Trace, agent_round, at, kept_parts
from taciturn.engine.supply import Supply
from taciturn.problems import Devices
from taciturn.typing import Array, PyTree

Report: TypeAlias = Callable[[Any], None] | None


@partial(jax.jit, static_argnames=("keep", "report"))
def simulate(
    program: Program, door: Door, private: Any, *, keep: Keep, report: Report = None
) -> tuple[Array, Trace]:
    """Return the final model and the kept parts of the trace.

    `private`: the data that the door takes, agents on the first axis of every leaf; an argument,
    never a closure. `keep`: any of `KEPT`. Answers and messages cost memory T x A x dimension.
    `report`: called on the host with the number of finished rounds (and in no certain order).
    """
    return _simulate(program, door, private, keep, report)


@partial(jax.jit, static_argnames=("keep",))
def sweep(programs: Program, doors: Door, private: Any, *, keep: Keep) -> tuple[Array, Trace]:
    """Return `simulate` for every pair of a program and a door, as one compiled program.

    `programs` come from `program.stack`, leaves with a leading axis B, and `doors` differ in their
    key, leaves with a leading axis S: model and trace have leading axes `(B, S)`.
    """

    def one(program: Program, door: Door) -> tuple[Array, Trace]:
        return _simulate(program, door, private, keep, None)

    over_doors = jax.vmap(one, in_axes=(None, 0))
    return jax.vmap(over_doors, in_axes=(0, None))(programs, doors)


@cache
def _whole(devices: Devices, keep: Keep) -> Callable[..., tuple[Array, Trace]]:
    """Return `simulate` with a result that every device has; kept, or every run would compile."""
    return jax.jit(partial(simulate, keep=keep), out_shardings=devices.everywhere)


def simulate_over(
    program: Program, door: Door, private: Any, devices: Devices, *, keep: Keep
) -> tuple[Array, Trace]:
    """Return `simulate`, computed by all devices; every process has all of the result."""
    return _whole(devices, keep)(program, door, private)


def _simulate(
    program: Program, door: Door, private: Any, keep: Keep, report: Report
) -> tuple[Array, Trace]:
    turns = Turns(agent_turns(program), server_turns(program))
    length = block_length(program, door, private, turns.agents)
    body = _one_round(program, door, private, keep, report)
    first = _first(program)
    if length:
        last, trace = in_blocks(
            body, first, turns, lambda some: draw(program, door, private, some[0]), length=length
        )
    else:
        last, trace = jax.lax.scan(body, first, (turns, None))
    return _model(program, last), _spread(program, trace)


def _first(program: Program) -> PyTree:
    """Return the carry before the first round: states and inboxes."""
    network, algorithm, template = program.network, program.executed, program.template
    states = network.first_states(algorithm, template)
    return states, network.first_inboxes(algorithm, template)


def _model(program: Program, carry: PyTree) -> Array:
    return program.network.model(program.executed, *carry)


def _spread(program: Program, trace: Trace) -> Trace:
    return trace._replace(records=program.network.spread_records(trace.records))


def _one_round(
    program: Program, door: Door, private: Any, keep: Keep, report: Report
) -> Callable[[PyTree, tuple[Turns, PyTree]], tuple[PyTree, Trace]]:
    """Return one round as a step of a scan: from (turns, draws) to the kept parts."""
    network, algorithm = program.network, program.executed
    behind = network.behind(door, private)

    def body(carry: PyTree, now: tuple[Turns, PyTree]) -> tuple[PyTree, Trace]:
        turns, chances = now
        carry, (records, messages) = network.round(algorithm, behind, chances, carry, turns)
        if report is not None:
            jax.debug.callback(report, turns.server.round + 1)
        return carry, kept_parts(_model(program, carry), carry[1], records, messages, keep)

    return body


def streamed(  # noqa: PLR0913 - what is run, where, and what is kept
    program: Program,
    door: Live,
    private: Any,
    supply: Supply,
    *,
    keep: Keep,
    report: Report = None,
    devices: Devices | None = None,
) -> tuple[Array, Trace]:
    """Return `simulate` with noise and batches from a stream, a block of rounds at a time.

    A block is drawn while the program compiles, or while the one before is computed, so that two
    are in memory at most. With `devices` all of them compute, `supply` draws for this process's
    own agents, and `report` is called when a block is done.
    """
    step, begin, end = _divided(program.network.__class__, devices, keep)
    if devices is None:  # one program, which is kept, in place of one for each operation
        turns = Turns(supply.turns, _server_turns(program))
    else:
        turns = Turns(agent_turns(program), server_turns(program))
    rounds, length = program.rounds, supply.length()
    carry, traces, compiled = begin(program), [], {}

    def drawn(start: int) -> Any:
        raw = supply.block(start, min(start + length, rounds))
        if devices is None:
            return raw
        return jax.tree.map(lambda leaf: devices.array(leaf, program.agents, axis=1), raw)

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(drawn, 0)
        for start in range(0, rounds, length):
            stop = min(start + length, rounds)
            given = (program, door, private, carry, at(turns, slice(start, stop)))
            if devices is None and stop - start not in compiled:
                shapes = supply.shapes(stop - start)
                lowered = block.lower(*given, shapes, keep=keep, report=report)
                compiled[stop - start] = lowered.compile()
            raw = following.result()
            if stop < rounds:
                following = pool.submit(drawn, stop)
            carry, trace = compiled.get(stop - start, step)(*given, raw)
            traces.append(trace)
            jax.tree.leaves(carry)[0].block_until_ready()
            if devices is not None and report is not None:
                report(stop)
    trace = jax.tree.map(lambda *parts: jnp.concatenate(parts), *traces)
    return end(program, carry), _spread(program, trace)


_server_turns = jax.jit(server_turns)


@cache
def _divided(network: type[NetworkKind], devices: Devices | None, keep: Keep) -> tuple[Any, ...]:
    """Return programs that leave every part of the carry where it lay: rounds, first and last.

    They are kept, or every run would compile them.
    """
    if devices is None:
        return None, jax.jit(_first), _model
    inboxes = devices.everywhere if network.inbox_axis is None else devices.on_agents
    carry = (devices.on_agents, inboxes)
    rounds = partial(block, keep=keep, report=None)
    return (
        jax.jit(rounds, out_shardings=(carry, devices.everywhere)),
        jax.jit(_first, out_shardings=carry),
        jax.jit(_model, out_shardings=devices.everywhere),
    )


@partial(jax.jit, static_argnames=("keep", "report"))
def block(  # noqa: PLR0913 - a scan's carry and inputs beside the run's
    program: Program,
    door: Live,
    private: Any,
    carry: PyTree,
    turns: PyTree,
    raw: Raw,
    *,
    keep: Keep,
    report: Report,
) -> tuple[PyTree, Trace]:
    """Return the carry and the trace after some rounds whose random numbers are `raw`."""
    chances = realised(door, private, turns[0], raw)
    return jax.lax.scan(_one_round(program, door, private, keep, report), carry, (turns, chances))


@jax.jit
def realised(door: Live, private: Any, turns: Turn, raw: Raw) -> PyTree:
    """Return the draws of some rounds, leaves `(B, S, E, ...)`."""
    rows = private.shard.mask.shape[-1]

    def one(turn: Turn, numbers: Raw) -> PyTree:
        return door.realised(rows, private.records[turn.agent], turn, numbers)

    slots = jax.vmap(jax.vmap(one), in_axes=(-1, 0))
    return jax.vmap(slots)(turns, raw)


_one_agent = jax.jit(agent_round)


def serial(
    program: Program,
    door: Door,
    private: Any,
    *,
    keep: Keep,
    report: Report = None,
    supply: Supply | None = None,
) -> tuple[Array, Trace]:
    """Return what `simulate` returns, by a loop over rounds and agents; they agree to 1e-10.

    With a `supply`, what `streamed` returns. Slow on purpose: it is the truth that the vectorised
    runtimes are held to, and the shape that a runtime on real machines takes.
    """
    network, algorithm = program.network, program.executed
    turns, server = agent_turns(program), server_turns(program)
    first, inboxes = _first(program)
    states = [at(first, agent) for agent in range(program.agents)]
    participants = np.asarray(turns.agent[:, 0, :])
    traces = []
    for t in range(program.rounds):
        records, messages, drawn = [], [], None
        if supply is not None:
            raw = supply.block(t, t + 1)
            drawn = at(realised(cast(Live, door), private, at(turns, slice(t, t + 1)), raw), 0)
        for slot, agent in enumerate(participants[t].tolist()):
            turn = jax.tree.map(lambda x, t=t, slot=slot: x[t, :, slot], turns)
            inbox, data = network.inbox(inboxes, agent), at(private, agent)
            if drawn is not None:
                data = data._replace(chances=at(drawn, slot))
            state, message, record = _one_agent(algorithm, door, states[agent], inbox, turn, data)
            new, old = (state, message), (states[agent], inbox)
            states[agent], message = network.if_taking_part(t, new, old)
            records.append(record)
            messages.append(message)
        wire = network.sent(_stack(messages, axis=0))
        inboxes = network.deliver(algorithm, inboxes, wire, at(server, t))
        model = network.model(algorithm, _stack(states, axis=0), inboxes)
        traces.append(kept_parts(model, inboxes, _stack(records, axis=1), wire, keep))
        if report is not None:
            report(t + 1)
    return model, _spread(program, _stack(traces, axis=0))


def _stack(trees: list[PyTree], *, axis: int) -> PyTree:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=axis), *trees)


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
        last, trace = block(first, at(turns, slice(0, length)))
    else:
        cut = at(turns, slice(0, whole * length))
        shaped = jax.tree.map(lambda x: x.reshape(whole, length, *x.shape[1:]), cut)
        last, trace = jax.lax.scan(block, first, shaped)
        trace = jax.tree.map(lambda x: x.reshape(whole * length, *x.shape[2:]), trace)
    if not left:
        return last, trace
    last, rest = block(last, at(turns, slice(whole * length, None)))
    return last, jax.tree.map(lambda *parts: jnp.concatenate(parts), trace, rest)
