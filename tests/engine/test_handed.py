"""Who listens on the way between the processes of a holder learns nothing of their records."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import numpy as np
import pytest
from tests.engine.test_mesh import Store

from tacit.engine.processes import Processes, shared_draw
from tacit.errors import InputError
from tacit.problems import Draw, digest_of_all, pack


def met(store, work, count=2):
    """Return what each of several processes returns, which meet at one store."""
    parties = [Processes(index, count, store) for index in range(count)]
    with ThreadPoolExecutor(count) as pool:
        return [one.result(60) for one in [pool.submit(work, party) for party in parties]]


def heard(store):
    return "\n".join(f"{name} {text}" for name, text in store.said.items())


def shards_of(parts):
    rows = np.eye(4)
    return pack(rows, np.ones(4), parts, record_norm=1.0, precision="float64", enforce="clip")


def test_all_processes_have_the_draw_of_the_first_and_nobody_else_has():
    store, draws = Store(), [Draw.secret() for _ in range(3)]
    found = met(store, lambda process: shared_draw(draws[process.index], process), 3)
    assert {draw.key for draw in found} == {draws[0].key}
    assert all(draw.key.hex() not in heard(store) for draw in draws)


def test_a_listener_who_guesses_the_records_cannot_tell_whether_it_guessed_right():
    """Six ways to deal four records to two agents: the plain digest named the one that was."""
    ways = {(min(a, b), max(a, b)) for a, b, *_ in permutations(range(4))}
    guesses = {
        way: digest_of_all(shards_of([np.array(way), np.setdiff1d(np.arange(4), way)]))
        for way in ways
    }
    store, truth = Store(), guesses[0, 2]

    def compared(process):
        digests = process.blinded([truth, None])
        process.agree("records", {"records": digests})
        return digests

    first, second = met(store, compared)
    assert first == second
    assert first[1] is None
    found = [way for way, guess in guesses.items() if guess in heard(store)]
    hashed = [hashlib.sha256(guess.encode()).hexdigest() for guess in guesses.values()]
    assert not found
    assert not any(text in heard(store) for text in hashed)
    # planted fault: plain digests
    met(store, lambda process: process.agree("plain", {"records": truth}))
    assert [way for way, guess in guesses.items() if guess in heard(store)] == [(0, 2)]


def test_processes_with_other_records_are_refused_under_the_same_key():
    store = Store()

    def compared(process):
        mine = hashlib.sha256(bytes([process.index])).hexdigest()
        return process.agree("files", {"files": process.blinded([mine])})

    with pytest.raises(InputError, match="differ in files;"):
        met(store, compared)
    said = [json.loads(text) for name, text in store.said.items() if "/files/" in name]
    assert len({str(each) for each in said}) == 2
