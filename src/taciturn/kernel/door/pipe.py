"""The door behind a pipe: queries come in and noised answers go out, as numbers, never as code.

    size of the head (8 bytes, little endian) | head: JSON | arrays: bytes, as listed in the head

The process that opens the records answers; the process of the method holds none of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from io import BufferedIOBase
from typing import Any, NamedTuple

import jax
import numpy as np

from taciturn.errors import InputError
from taciturn.kernel.door.door import Live, Record, Turn, at
from taciturn.kernel.door.supply import Supply
from taciturn.kernel.questions import QUERIES
from taciturn.typing import Array, PyTree

_KINDS = ("bool", "float32", "float64", "int32", "int64")
# the most bytes of a head, whose parsed objects take some fifty times as much, and of all arrays
MOST_HEAD, _MOST_BYTES = 2**20, 2**31
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Message(NamedTuple):
    """The kind of a message, and its values."""

    kind: str
    values: Any


def write_message(pipe: BufferedIOBase, kind: str, values: Any = None) -> None:
    """Write a message: trees of lists, dictionaries, texts, numbers, arrays and queries."""
    arrays: list[bytes] = []

    def plain(value: Any) -> Any:
        if value is None or isinstance(value, str | bool | int | float):
            return value
        if isinstance(value, dict):
            return {"tree": {name: plain(part) for name, part in value.items()}}
        if isinstance(value, tuple) and type(value).__name__ in QUERIES:
            return {"query": type(value).__name__, "parts": [plain(part) for part in value]}
        if isinstance(value, list | tuple):
            return [plain(part) for part in value]
        array = np.ascontiguousarray(value)
        if array.dtype.name not in _KINDS:
            raise InputError(f"a pipe cannot carry a value of type {type(value).__name__}")
        arrays.append(array.tobytes())
        return {"array": array.dtype.name, "shape": np.shape(value)}

    head = json.dumps([kind, plain(values)]).encode()
    pipe.write(len(head).to_bytes(8, "little") + head + b"".join(arrays))
    pipe.flush()


def read_message(pipe: BufferedIOBase, most_head: int = MOST_HEAD) -> Message:
    """Return the next message; raise `InputError` if there is none, or it is malformed."""
    text = _read(pipe, int.from_bytes(_read(pipe, 8), "little"), most_head)
    room = _MOST_BYTES

    def value(plain: Any) -> Any:
        nonlocal room
        if isinstance(plain, list):
            return [value(part) for part in plain]
        if not isinstance(plain, dict):
            return plain
        if "tree" in plain:
            return {name: value(part) for name, part in plain["tree"].items()}
        if "query" in plain:
            return QUERIES[plain["query"]](*map(value, plain["parts"]))
        kind, shape = (
            np.dtype(_KINDS[_KINDS.index(plain["array"])]),
            tuple(map(int, plain["shape"])),
        )
        size = kind.itemsize * math.prod(shape)
        found, room = _read(pipe, size, room), room - size
        return np.frombuffer(found, kind).reshape(shape)

    try:
        kind, plain = json.loads(text)
        return Message(str(kind), value(plain))
    except _MALFORMED as error:
        raise InputError("the other process sent a malformed message") from error


def _read(pipe: BufferedIOBase, size: int, most: int = 8) -> bytes:
    found = pipe.read(size) if 0 <= size <= most else b""
    if len(found) != size:
        raise InputError("the other process has ended, or sent a malformed message")
    return found


def answer_all(
    door: Live, supply: Supply, asked: Callable[[], Any], answered: Callable[[Any], None]
) -> Record:
    """Answer every question of a run in its order, and return the records, leaves `(T, E, S)`.

    `asked` returns the next queries, of S agents, and `answered` receives the answers.

    **Guarantee.** Questions and noise are those of the agenda; only the numbers of a query are
    received. Every question is answered once.
    """
    # on the host, where slices need no compiled program
    turns: Any = jax.tree.map(np.asarray, supply.agenda.turns)
    rounds, places, _ = turns.question.shape
    records, length = [], supply.length()
    for start in range(0, rounds, length):
        stop = min(start + length, rounds)
        some = at(turns, slice(start, stop))
        drawn = _realised(door, some, supply.block(start, stop))
        chances = jax.tree.map(np.asarray, drawn)
        for index in range(stop - start):
            now = at(chances, index)
            of_round = []
            for place in range(places):
                turn = jax.tree.map(lambda leaf, i=index, e=place: leaf[i, e], some)
                answers, record = _answered(door, asked(), turn, now)
                answered(np.asarray(answers))
                of_round.append(record)
            records.append(_stacked(of_round))
    found: Record = _stacked(records)
    return found


@jax.jit
def _realised(door: Live, turns: Turn, raw: Any) -> PyTree:
    return door.realised(turns, raw)


@jax.jit
def _answered(door: Live, queries: PyTree, turn: Turn, chance: PyTree) -> tuple[Array, Record]:
    turn = turn._replace(question=turn.question[0])
    found: tuple[Array, Record] = door(queries, turn, chance)
    return found


def _stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)
