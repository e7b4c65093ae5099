"""One agent's round, the same under every door, network and runtime."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tacit.algorithms import Algorithm, Turn
from tacit.engine.door import Door
from tacit.typing import PyTree


def agent_round(
    algorithm: Algorithm, door: Door, state: PyTree, inbox: PyTree, turns: Turn, private: Any
) -> tuple[PyTree, PyTree, PyTree]:
    """Return `(state, message, records)` after receive, E times (ask, door, tell), send.

    Parameters
    ----------
    turns
        The E turns of this round, every leaf with a leading axis E.
    private
        What the door is opened with; nothing else here touches it.

    Returns
    -------
    records
        The door's records, stacked over the E questions.
    """
    first, last = _at(turns, 0), _at(turns, -1)
    state = algorithm.receive(state, inbox, first)

    def question(state: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        query = algorithm.ask(state, inbox, turn)
        answer, record = door(private, query, turn)
        return algorithm.tell(state, inbox, turn, answer), record

    if turns.question.shape[0] == 1:  # a scan of length one costs its loop and gains nothing
        state, record = question(state, first)
        records = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], record)
    else:
        state, records = jax.lax.scan(question, state, turns)
    state, message = algorithm.send(state, inbox, last)
    return state, message, records


def _at(turns: Turn, index: int) -> Turn:
    return Turn(*jax.tree.map(lambda leaf: leaf[index], tuple(turns)))
