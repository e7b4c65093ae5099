"""Who listens on the way between the processes of a holder learns nothing of their records."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import permutations
from threading import Barrier

import numpy as np
import pytest

from conftest import packed
from taciturn.engine.processes import Processes
from taciturn.errors import InputError
from taciturn.kernel.records import Draw, digest_of_all


@dataclass(frozen=True)
class Threads(Processes):
    """One of several processes, which are threads here; `heard` is what travels between them."""

    board: dict = field(default_factory=dict)
    barrier: Barrier = None
    heard: list = field(default_factory=list)

    def gather(self, content):
        self.board[self.index] = content
        self.heard.append(content)
        self.barrier.wait()
        found = [self.board[index] for index in range(self.count)]
        self.barrier.wait()
        return found


def met(heard, work, count=2):
    """Return what each of several processes returns."""
    board, barrier = {}, Barrier(count)
    parties = [Threads(index, count, board, barrier, heard) for index in range(count)]
    with ThreadPoolExecutor(count) as pool:
        return [one.result(60) for one in [pool.submit(work, party) for party in parties]]


def text_of(heard):
    return "\n".join(each.decode("latin-1") for each in heard)


def shards_of(parts):
    rows = np.eye(4)
    return packed(rows, np.ones(4), parts)


def test_all_processes_have_the_draw_of_the_first_and_nobody_else_has():
    heard, draws = [], [Draw.secret() for _ in range(3)]
    found = met(heard, lambda process: process.share_draw(draws[process.index]), 3)
    assert {draw.key for draw in found} == {draws[0].key}
    assert len(heard) >= 6
    for draw in draws:
        assert draw.key not in b"\n".join(heard)
        assert draw.key.hex() not in text_of(heard)


def test_a_listener_who_guesses_the_records_cannot_tell_whether_it_guessed_right():
    """Six ways to deal four records to two agents: the plain digest named the one that was."""
    ways = {(min(a, b), max(a, b)) for a, b, *_ in permutations(range(4))}
    guesses = {
        way: digest_of_all(shards_of([np.array(way), np.setdiff1d(np.arange(4), way)]))
        for way in ways
    }
    heard, truth = [], guesses[0, 2]
    met(heard, lambda process: process.agree_on_records("records", [truth, None]))
    compared = text_of(heard)
    assert '"records"' in compared
    assert not [way for way, guess in guesses.items() if guess in compared]
    hashed = [hashlib.sha256(guess.encode()).hexdigest() for guess in guesses.values()]
    assert not any(text in compared for text in hashed)
    # planted fault: plain digests
    met(heard, lambda process: process.agree({"records": truth}))
    assert [way for way, guess in guesses.items() if guess in text_of(heard)] == [(0, 2)]


def test_processes_with_other_records_are_refused_under_the_same_key():
    heard = []

    def compared(process):
        mine = hashlib.sha256(bytes([process.index])).hexdigest()
        return process.agree_on_records("files", [mine])

    with pytest.raises(InputError, match="differ in files;"):
        met(heard, compared)
    assert len({each for each in heard if b'"files"' in each}) == 2
    # and equal ones are not
    met(heard, lambda process: process.agree_on_records("files", ["a"]))
