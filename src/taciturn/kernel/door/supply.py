"""The random numbers of a run: exact noise and batches, drawn from a stream on the host.

They depend on the plan and the stream only, so that they can be drawn while the program compiles
and while earlier rounds run. No code here reads a record, or writes a random number to a file.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from taciturn.errors import PrivacyError
from taciturn.kernel.door.door import Raw, Turn
from taciturn.kernel.noise import Label, Stream
from taciturn.kernel.noise.stream import Use
from taciturn.kernel.privacy import Mechanism, NoNoise
from taciturn.kernel.questions import Oracle
from taciturn.typing import HostArray

# the most bytes of a block; one block is used while the next one is drawn
_BLOCK = 2**26
_WORKERS = 2
# the largest relative difference between two ways of adding up the size of the same noise
_SAME = 1e-9


class Agenda(NamedTuple):
    """All questions of a run: turns with leaves `(T, E, S)`, and the `shape` of models."""

    turns: Turn
    oracles: tuple[Oracle, ...]
    mechanism: Mechanism
    shape: tuple[int, ...]

    def numbers(self, rows: int, rounds: int, *, runs: tuple[int, ...] = ()) -> Any:
        """Return the shapes of the random numbers of some rounds, a `Raw` of `(B, S, E, ...)`.

        `rows`: the padded number of records of an agent. With several `runs`, the numbers of an
        answer have a leading axis.
        """
        _, places, slots = self.turns.question.shape
        front: tuple[int, ...] = (rounds, slots, places)
        shaped: Any = jax.ShapeDtypeStruct
        sizes = [oracle.sampling.words(rows) for oracle in self.oracles]
        words = tuple(shaped((*front, *runs, size), np.uint64) if size else None for size in sizes)
        if isinstance(self.mechanism, NoNoise):
            return Raw(None, words, None)
        asked = self.oracles[0]
        shape = asked.noise.shape(asked.answer_shape(self.shape))
        return Raw(shaped((*front, *runs, *shape), np.int64), words, shaped(front, np.float64))


class Supply:
    """The draws of a run, a block of rounds at a time.

    **Guarantee.** Every question of every agent has separate words (`Label`: round, agent, place in
    the round), and all of its numbers are drawn; turns without a question have zeros. The stream
    serves this supply only, and a round is drawn once.

    `rows`: the padded number of records of an agent. `slot`: the slot, or range of slots, to draw
    for; None for all. Raises `PrivacyError` if the stream has served another run.
    """

    def __init__(
        self, agenda: Agenda, stream: Stream, rows: int, *, slot: int | range | None = None
    ) -> None:
        stream.claim()
        self._stream, self._rows, self._undrawn = stream, rows, 0
        self._one_at_a_time = threading.Lock()
        turns = agenda.turns
        if slot is not None:
            slots = range(slot, slot + 1) if isinstance(slot, int) else slot
            turns = jax.tree.map(lambda leaf: leaf[..., slots.start : slots.stop], turns)
        self._turns = jax.tree.map(np.asarray, turns)
        _check_agents(self._turns.agent)
        self._sizes = np.zeros(self._turns.question.shape)
        self.agenda = agenda._replace(turns=turns)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError(
            "a supply is neither pickled nor copied: a copy would draw the noise of its rounds "
            "again; give every run a new supply"
        )

    def length(self) -> int:
        """Return the number of rounds of a block, preferring a divisor of all rounds."""
        rounds = len(self._turns.question)
        leaves = jax.tree.leaves(self.shapes(1))
        size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
        most = max(1, min(rounds, _BLOCK // max(size, 1)))
        fits = [n for n in range(most, most // 2, -1) if rounds % n == 0]
        return fits[0] if fits else most

    def shapes(self, rounds: int) -> Raw:
        """Return the shapes of a block of `rounds` rounds, leaves `(B, S, E, ...)`."""
        raw: Raw = self.agenda.numbers(self._rows, rounds)
        return raw

    def block(self, first: int, last: int) -> Any:
        """Return the draws of the rounds from `first` up to, not including, `last`.

        Raises `PrivacyError` if one of them was drawn before: two answers would share their noise.
        """
        return self._drawn(first, last, ())

    def check_used(self, sizes: HostArray, *, first: int = 0) -> None:
        """Raise `PrivacyError` unless each answer had the noise that was drawn for it.

        `sizes`: the `Mechanism.size` of the noise of every answer of the rounds from `first` on, as
        recorded by the door, of the S agents that were asked or of all A, `(B, E, S)` or
        `(B, E, A)`. Code between supply and door could use the noise of one answer for another, and
        the difference of two answers with the same noise is exact.
        """
        used, rounds = np.asarray(sizes, np.float64), slice(first, first + len(sizes))
        agent, mine = self._turns.agent[rounds], self._turns.question[rounds] >= 0
        drawn = self._sizes[rounds]
        if used.shape != agent.shape:
            used = np.take_along_axis(used, agent, axis=-1)
        if not np.all(~mine | (np.abs(used - drawn) <= _SAME * drawn)):
            raise PrivacyError(
                "an answer had other noise than was drawn for it, so two may share theirs; nothing "
                "is released, and what was charged stays charged"
            )

    def repeated(self, runs: int) -> Any:
        """Return the draws of several runs of the same program, leaves `(runs, T, S, E, ...)`.

        The numbers of an answer in all runs are drawn together, as those of one longer answer.
        """
        raw = self._drawn(0, len(self._turns.question), (runs,))
        steps, words = jax.tree.map(lambda leaf: np.moveaxis(leaf, 3, 0), (raw.steps, raw.words))
        every = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (runs, *leaf.shape)), raw.scale)
        return Raw(steps, words, every)

    def _drawn(self, first: int, last: int, runs: tuple[int, ...]) -> Any:
        with self._one_at_a_time:
            if first < self._undrawn:
                raise PrivacyError(
                    f"the noise of round {first} was drawn before, and two answers with equal "
                    "noise reveal their difference exactly; draw rounds in their order, "
                    "each once"
                )
            self._undrawn = max(first, last)
        shapes = self.agenda.numbers(self._rows, last - first, runs=runs)
        raw = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        if not jax.tree.leaves(raw):
            return raw
        tasks = self._tasks(raw, first, last)
        if len(tasks) == 1:  # such as a hop of a relay, where threads would cost more than the draw
            tasks[0]()
            return raw
        with ThreadPoolExecutor(_WORKERS) as pool:
            for task in [pool.submit(task) for task in tasks]:
                task.result()
        return raw

    def _tasks(self, raw: Raw, first: int, last: int) -> list[Callable[[], None]]:
        """Return the tasks that fill a block, for the workers."""
        question = self._turns.question[first:last]
        # (round, slot, local): consecutive agents, whose words are drawn together, are adjacent
        places = np.argwhere(question >= 0)[:, [0, 2, 1]]
        scales = self._scales(first, last)[places[:, 0], places[:, 2], places[:, 1]]
        # the sampler takes one scale: answers of equal scale are drawn together
        order = np.argsort(scales, kind="stable")
        starts = np.flatnonzero(np.diff(scales[order])) + 1
        tasks: list[Callable[[], None]] = []
        for same in np.split(order, starts) if order.size else []:
            for part in np.array_split(same, min(_WORKERS, len(same))):
                drawn_at = float(scales[part[0]])
                tasks.append(partial(self._fill, raw, places[part], first, drawn_at))
        return tasks

    def _scales(self, first: int, last: int) -> HostArray:
        """Return the noise scales of some rounds in steps of the lattice, `(B, E, S)`."""
        scales: HostArray = np.asarray(self._turns.scale[first:last], np.float64) / np.ldexp(
            1.0, self._turns.exponent[first:last]
        )
        return scales

    def _fill(self, raw: Raw, places: HostArray, first: int, scale: float) -> None:
        rounds, slots, local = places.T
        now = first + rounds, local, slots
        parts = (now[0].tolist(), self._turns.agent[now].tolist(), local.tolist())
        labels = [Label(*place) for place in zip(*parts, strict=True)]
        if raw.steps is not None and raw.scale is not None and scale > 0:
            count = math.prod(raw.steps.shape[3:])
            drawn = self.agenda.mechanism.integers(self._stream, labels, count, scale)
            raw.steps[tuple(places.T)] = drawn.reshape(len(labels), *raw.steps.shape[3:])
            noise = np.abs(np.ldexp(drawn.astype(np.float64), self._turns.exponent[now][:, None]))
            sizes = noise if self.agenda.mechanism.norm == "l1" else np.square(noise)
            self._sizes[now] = np.sum(sizes, axis=-1)
            raw.scale[tuple(places.T)] = scale
        kinds = self._turns.question[now]
        for number, words in enumerate(raw.words):
            mine = np.flatnonzero(kinds == number)
            if words is not None and mine.size:
                some, shape = [labels[index] for index in mine], words.shape[3:]
                drawn = self._stream.words(some, Use.BATCH, math.prod(shape))
                words[tuple(places[mine].T)] = drawn.reshape(len(some), *shape)


def _check_agents(agents: HostArray) -> None:
    """Raise `PrivacyError` if a round asks an agent twice at one place, with the same noise."""
    some = np.sort(agents.reshape(-1, agents.shape[-1]), axis=-1)
    if np.any(some[:, 1:] == some[:, :-1]):
        raise PrivacyError(
            "an agent is asked twice at one place of a round, and both answers would have the same "
            "noise; give each agent its own place"
        )
