"""The two runtimes: all agents as one compiled program, or one agent at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.algorithms import Turn
from taciturn.engine.door import AheadOf, Door, Live, Prepared, Raw
from taciturn.engine.program import Program, agent_turns, server_turns
from taciturn.engine.protocol import Keep, Trace, agent_round, at, kept_parts
from taciturn.engine.supply import Supply
from taciturn.errors import InputError
from taciturn.problems import Devices
from taciturn.typing import Array, PyTree


@partial(jax.jit, static_argnames=("keep", "report"))
def simulate(
    program: Program,
    door: Door,
    private: Any,
    *,
    keep: Keep,
    report: Callable[[Any], None] | None = None,
) -> tuple[Array, Trace]:
    """Return the final model and the kept parts of the trace.

    Parameters
    ----------
    program
        The plan as arrays.
    door
        What stands between the algorithm and the data.
    private
        The data that the door takes, agents on the first axis of every leaf; an argument, never a
        closure.
    keep
        Any of `KEPT`. Answers and messages cost memory T x A x dimension.
    report
        Called on the host with the number of finished rounds (and in no certain order).
    """
    return _simulate(program, door, private, keep, report)


def sweep(
    programs: Program, doors: Door, private: Any, *, keep: Keep, devices: Devices | None = None
) -> tuple[Array, Trace]:
    """Return `simulate` for every pair of a program and a door, as one compiled program.

    Parameters
    ----------
    programs
        From `program.stack`: leaves with a leading axis B.
    doors
        Doors that differ in their key: leaves with a leading axis S.
    private
        What the doors take, on every device: in each process the records of all agents.
    devices
        Those that the runs are divided among, whole runs each, and so on a relay too. Every process
        that holds some of them makes the same call, and has the whole result. A run is the same up
        to the order of sums, which depends on how many are computed together. None: one device.

    Returns
    -------
    model, trace
        With leading axes `(B, S)`.

    Raises
    ------
    InputError
        If the devices divide neither the number of doors nor that of programs.
    """
    found: tuple[Array, Trace]
    if devices is None:
        found = _swept(programs, doors, private, keep=keep)
        return found
    plans, seeds = (jax.tree.leaves(each)[0].shape[0] for each in (programs, doors))
    number = len(devices.devices)
    if seeds % number and plans % number:
        raise InputError(
            f"{number} devices divide neither {seeds} seeds nor {plans} plans; take as many seeds "
            "that they do"
        )
    by_seed = seeds % number == 0
    found = _swept_over(devices, keep)(
        _laid(programs, devices, divided=not by_seed),
        _laid(doors, devices, divided=by_seed),
        _laid(private, devices, divided=False),
    )
    return found


def _laid(tree: PyTree, devices: Devices, *, divided: bool) -> PyTree:
    """Return arrays that every process has on all devices, or divided along their first axis."""
    sharding = devices.on_agents if divided else devices.everywhere

    def laid(leaf: Array) -> Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            words = laid(jax.random.key_data(leaf))
            keys: Array = jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
            return keys
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])

    return jax.tree.map(laid, tree)


@partial(jax.jit, static_argnames=("keep",))
def _swept(programs: Program, doors: Door, private: Any, *, keep: Keep) -> tuple[Array, Trace]:
    def one(program: Program, door: Door) -> tuple[Array, Trace]:
        return _simulate(program, door, private, keep, None)

    over_doors = jax.vmap(one, in_axes=(None, 0))
    return jax.vmap(over_doors, in_axes=(0, None))(programs, doors)


@cache
def _swept_over(devices: Devices, keep: Keep) -> Callable[..., tuple[Array, Trace]]:
    """Return the program of a sweep over devices; kept, or every sweep would compile it."""

    def whole(programs: Program, doors: Door, private: Any) -> tuple[Array, Trace]:
        found: tuple[Array, Trace] = _swept(programs, doors, private, keep=keep)
        return found

    return jax.jit(whole, out_shardings=devices.everywhere)


def _simulate(
    program: Program, door: Door, private: Any, keep: Keep, report: Callable[[Any], None] | None
) -> tuple[Array, Trace]:
    network, algorithm = program.network, program.executed
    turns = (agent_turns(program), server_turns(program))
    length = block_length(program, door, private, turns[0])
    body = _one_round(program, door, private, keep, report)
    template = program.template
    first = (network.first_states(algorithm, template), network.first_inboxes(algorithm, template))
    if length:
        last, trace = in_blocks(
            body, first, turns, lambda some: draw(program, door, private, some[0]), length=length
        )
    else:
        last, trace = jax.lax.scan(body, first, (turns, None))
    records = network.spread_records(trace.records)
    return network.model(algorithm, *last), trace._replace(records=records)


def _one_round(
    program: Program, door: Door, private: Any, keep: Keep, report: Callable[[Any], None] | None
) -> Callable[[PyTree, tuple[Any, PyTree]], tuple[PyTree, Trace]]:
    """Return one round as a step of a scan: from (turns, draws) to the kept parts."""
    network, algorithm = program.network, program.executed
    behind = network.behind(door, private)

    def body(carry: PyTree, now: tuple[Any, PyTree]) -> tuple[PyTree, Trace]:
        turn, chances = now
        opened = behind if chances is None else network.prepared(*behind, chances)
        carry, (records, messages) = network.round(algorithm, *opened, carry, *turn)
        if report is not None:
            jax.debug.callback(report, turn[1].round + 1)
        model = network.model(algorithm, *carry)
        return carry, kept_parts(model, carry[1], records, messages, keep)

    return body


def streamed(
    program: Program,
    door: Live,
    private: Any,
    supply: Supply,
    *,
    keep: Keep,
    report: Callable[[Any], None] | None = None,
) -> tuple[Array, Trace]:
    """Return `simulate` with noise and batches from a stream, a block of rounds at a time.

    A block is drawn while the program compiles, or while the one before is computed, so that two
    are in memory at most.
    """
    network, algorithm = program.network, program.executed
    carry, server = _beginning(program)
    turns, length = (supply.turns, server), supply.length()
    starts = range(0, program.rounds, length)
    compiled: dict[int, Any] = {}
    traces = []
    with ThreadPoolExecutor(1) as pool:

        def ordered(start: int) -> Any:
            return pool.submit(supply.block, start, min(start + length, program.rounds))

        following = ordered(0)
        for start in starts:
            rounds = min(length, program.rounds - start)
            some = at(turns, slice(start, start + rounds))
            if rounds not in compiled:
                shapes = supply.shapes(rounds)
                traced = block.lower(
                    program, door, private, carry, some, shapes, keep=keep, report=report
                )
                compiled[rounds] = traced.compile()
            raw = following.result()
            if start + length < program.rounds:
                following = ordered(start + length)
            carry, trace = compiled[rounds](program, door, private, carry, some, raw)
            traces.append(trace)
            jax.tree.leaves(carry)[0].block_until_ready()
    trace = jax.tree.map(lambda *parts: jnp.concatenate(parts), *traces)
    records = network.spread_records(trace.records)
    return network.model(algorithm, *carry), trace._replace(records=records)


@jax.jit
def _beginning(program: Program) -> tuple[PyTree, Turn]:
    """Return the carry before the first round, and the aggregator's turns."""
    network, algorithm, template = program.network, program.executed, program.template
    states = network.first_states(algorithm, template)
    return (states, network.first_inboxes(algorithm, template)), server_turns(program)


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
    report: Callable[[Any], None] | None,
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
    report: Callable[[Any], None] | None = None,
    supply: Supply | None = None,
) -> tuple[Array, Trace]:
    """Return what `simulate` returns, by a loop over rounds and agents; they agree to 1e-10.

    With a `supply`, what `streamed` returns. Slow on purpose: it is the truth that the vectorised
    runtimes are held to, and the shape that a runtime on real machines takes.
    """
    network, algorithm, template = program.network, program.executed, program.template
    turns, server = agent_turns(program), server_turns(program)
    first, inboxes = (
        network.first_states(algorithm, template),
        network.first_inboxes(algorithm, template),
    )
    states = [at(first, agent) for agent in range(program.agents)]
    participants = np.asarray(turns.agent[:, 0, :])
    traces = []
    for t in range(program.rounds):
        records, messages = [], []
        drawn = None if supply is None else _one_block(cast(Live, door), private, turns, supply, t)
        for slot, agent in enumerate(participants[t].tolist()):
            turn = jax.tree.map(lambda x, t=t, slot=slot: x[t, :, slot], turns)
            inbox = network.inbox(inboxes, agent)
            opened = (door, at(private, agent))
            if drawn is not None:
                opened = AheadOf(cast(Live, door)), Prepared(opened[1], at(drawn, slot))
            state, message, record = _one_agent(
                algorithm, opened[0], states[agent], inbox, turn, opened[1]
            )
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
    trace = _stack(traces, axis=0)
    return model, trace._replace(records=network.spread_records(trace.records))


def _one_block(door: Live, private: Any, turns: Turn, supply: Supply, t: int) -> PyTree:
    """Return the draws of one round, leaves `(S, E, ...)`."""
    some = at(turns, slice(t, t + 1))
    return at(realised(door, private, some, supply.block(t, t + 1)), 0)


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
