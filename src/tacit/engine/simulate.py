"""The vectorised simulator: a run is one compiled program; agents, seeds, budgets are axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from tacit.engine.ahead import block_length, draw, in_blocks, prepared
from tacit.engine.door import Door
from tacit.engine.program import Program, agent_turns, server_turns
from tacit.engine.transcript import Keep, Trace, kept_parts
from tacit.typing import Array, PyTree


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
        What the door is opened with, agents on the first axis of every leaf; an argument, never a
        closure.
    keep
        Any of `transcript.KEPT`. Answers and messages cost memory T x A x dimension.
    report
        Called on the host with the number of finished rounds (and in no certain order).
    """
    return _simulate(program, door, private, keep, report)


@partial(jax.jit, static_argnames=("keep",))
def sweep(programs: Program, doors: Door, private: Any, *, keep: Keep) -> tuple[Array, Trace]:
    """Return `simulate` for every pair of a program and a door, as one compiled program.

    Parameters
    ----------
    programs
        From `program.stack`: leaves with a leading axis B.
    doors
        Doors that differ in their key: leaves with a leading axis S.

    Returns
    -------
    model, trace
        With leading axes `(B, S)`.
    """

    def one(program: Program, door: Door) -> tuple[Array, Trace]:
        return _simulate(program, door, private, keep, None)

    over_doors = jax.vmap(one, in_axes=(None, 0))
    return jax.vmap(over_doors, in_axes=(0, None))(programs, doors)


def _simulate(
    program: Program, door: Door, private: Any, keep: Keep, report: Callable[[Any], None] | None
) -> tuple[Array, Trace]:
    network, algorithm = program.network, program.algorithm
    turns = (agent_turns(program), server_turns(program))
    length = block_length(program, door, private, turns[0])
    behind = network.behind(door, private)

    def body(carry: PyTree, now: tuple[Any, PyTree]) -> tuple[PyTree, Trace]:
        turn, chances = now
        opened = behind if chances is None else prepared(*behind, chances)
        carry, (records, messages) = network.round(algorithm, *opened, carry, *turn)
        if report is not None:
            jax.debug.callback(report, turn[1].round + 1)
        model = network.model(algorithm, *carry)
        return carry, kept_parts(model, carry[1], records, messages, keep)

    template = program.template
    first = (network.first_states(algorithm, template), network.first_inboxes(algorithm, template))
    if length:
        draws = partial(_draws, program, door, private)
        last, trace = in_blocks(body, first, turns, draws, length=length)
    else:
        last, trace = jax.lax.scan(body, first, (turns, None))
    records = network.spread_records(trace.records)
    return network.model(algorithm, *last), trace._replace(records=records)


def _draws(program: Program, door: Door, private: Any, turns: Any) -> PyTree:
    return draw(program, door, private, turns[0])
