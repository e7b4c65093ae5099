"""A run whose agents are divided among devices, of this process or of several.

The program is that of one device: XLA's partitioner divides it along the axis of agents. What an
agent asks and answers is computed where its records lie. Between processes travel the messages, or
their partial sums, and in the end what is kept of the trace.

Every process draws the noise of its own agents, under a key of its own from its operating system,
so that no key travels; a label spells the agent, so that no two agents share words even under one
key. In a reproduction noise follows from the seed and the agent, wherever it is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from taciturn.engine.door import Door, Live
from taciturn.engine.network import NetworkKind
from taciturn.engine.program import Program, agent_turns, server_turns
from taciturn.engine.protocol import Keep, Trace, at
from taciturn.engine.runtimes import block, simulate
from taciturn.engine.supply import Supply
from taciturn.errors import InputError
from taciturn.problems import Devices
from taciturn.typing import Array, PyTree


def check_devices(program: Program, devices: Devices, *, serial: bool) -> None:
    """Raise `InputError` unless this program's agents can be divided among the devices."""
    if serial:
        raise InputError("the runtime serial is for one device; leave devices out, or it")
    if not program.network.together:
        raise InputError(
            "on a relay one agent answers after another, so that several processes gain nothing; "
            "run it in one"
        )
    devices.local(program.agents)


def simulate_over(
    program: Program, door: Door, private: Any, devices: Devices, *, keep: Keep
) -> tuple[Array, Trace]:
    """Return `simulate`, computed by all devices; every process has all of the result."""
    done: tuple[Array, Trace] = _whole(devices, keep)(program, door, private)
    return done


@cache
def _whole(devices: Devices, keep: Keep) -> Callable[..., tuple[Array, Trace]]:
    """Return the program of a whole run; kept, or every run would compile it."""

    def whole(program: Program, door: Door, private: Any) -> tuple[Array, Trace]:
        result: tuple[Array, Trace] = simulate(program, door, private, keep=keep)
        return result

    return jax.jit(whole, out_shardings=devices.everywhere)


def streamed_over(
    program: Program,
    private: Any,
    supply: Supply,
    devices: Devices,
    *,
    keep: Keep,
    report: Callable[[Any], None] | None = None,
) -> tuple[Array, Trace]:
    """Return `streamed`, computed by all devices.

    Parameters
    ----------
    supply
        The random numbers of this process's own agents.
    report
        Called when a block of rounds is done.
    """
    network, door = program.network, Live(program.oracles, program.mechanism, None)
    kind = network.__class__  # what the programs below are kept by
    carry, step = _first(kind, devices)(program), _step(kind, devices, keep)
    turns, length = (agent_turns(program), server_turns(program)), supply.length()
    traces = []

    def drawn(start: int) -> Any:
        raw = supply.block(start, min(start + length, program.rounds))
        return jax.tree.map(lambda leaf: devices.array(leaf, program.agents, axis=1), raw)

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(drawn, 0)
        for start in range(0, program.rounds, length):
            end = min(start + length, program.rounds)
            raw = following.result()
            if end < program.rounds:
                following = pool.submit(drawn, end)
            carry, trace = step(program, door, private, carry, at(turns, slice(start, end)), raw)
            traces.append(trace)
            jax.tree.leaves(carry)[0].block_until_ready()
            if report is not None:
                report(end)
    trace = jax.tree.map(lambda *parts: jnp.concatenate(parts), *traces)
    records = network.spread_records(trace.records)

    def released(program: Program, carry: PyTree) -> Array:
        return program.network.model(program.executed, *carry)

    model = jax.jit(released, out_shardings=devices.everywhere)(program, carry)
    return model, trace._replace(records=records)


def _carry_shardings(network: type[NetworkKind], devices: Devices) -> tuple[Any, Any]:
    """Return how states and inboxes lie."""
    return devices.on_agents, devices.everywhere if network.one_public else devices.on_agents


@cache
def _first(network: type[NetworkKind], devices: Devices) -> Callable[[Program], PyTree]:
    """Return what makes the first states and inboxes, on the devices."""

    def first(program: Program) -> PyTree:
        network, algorithm, template = program.network, program.executed, program.template
        states = network.first_states(algorithm, template)
        return states, network.first_inboxes(algorithm, template)

    return jax.jit(first, out_shardings=_carry_shardings(network, devices))


@cache
def _step(
    network: type[NetworkKind], devices: Devices, keep: Keep
) -> Callable[..., tuple[PyTree, Trace]]:
    """Return the program of some rounds, which leaves every part of the carry where it lay."""

    def some(*given: Any) -> tuple[PyTree, Trace]:
        done: tuple[PyTree, Trace] = block(*given, keep=keep, report=None)
        return done

    shardings = (_carry_shardings(network, devices), devices.everywhere)
    return jax.jit(some, out_shardings=shardings)
