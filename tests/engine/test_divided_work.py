"""Work that processes take from one queue: each piece once, and all results in every process."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tacit.engine import Processes
from tacit.errors import InputError, ProcessLostError


class Store:
    """The store of a coordinator, for processes that are threads here."""

    def __init__(self):
        self.said, self.lock = {}, threading.Lock()

    def key_value_increment(self, name, by):
        with self.lock:
            self.said[name] = self.said.get(name, 0) + by
            return self.said[name]

    def key_value_set(self, name, text):
        with self.lock:
            self.said[name] = text

    key_value_set_bytes = key_value_set

    def key_value_dir_get(self, room):
        with self.lock:
            return [(name, text) for name, text in self.said.items() if name.startswith(room)]

    def key_value_try_get_bytes(self, name):
        return self.said[name]


class Forgetful(Store):
    """Planted fault: the queue begins anew for whoever asks."""

    def key_value_increment(self, name, by):
        return super().key_value_increment(f"{name} {threading.get_ident()}", by)


def divided(store, count=3, pieces=12):
    """What each of some processes returns, and which of the pieces was done how often."""
    done, meeting = [0] * pieces, threading.Barrier(count)

    def piece(number):
        done[number] += 1
        return bytes([number])

    def one(index):
        processes = Processes(index, count, store)
        meeting.wait()
        return processes.divided("work", [lambda n=n: piece(n) for n in range(pieces)])

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count))), done


def test_each_piece_is_done_once_and_every_process_has_all_results_in_order():
    found, done = divided(Store())
    assert found == [[bytes([number]) for number in range(12)]] * 3
    assert done == [1] * 12


def test_a_queue_that_gives_a_piece_twice_is_seen():
    _, done = divided(Forgetful())
    assert done != [1] * 12


def test_more_processes_than_pieces_wait_and_a_second_queue_begins_anew():
    store = Store()
    found, done = divided(store, count=3, pieces=1)
    assert (found, done) == ([[bytes([0])]] * 3, [1])
    alone = Processes(0, 1, Store())
    for answer in (b"a", b"b"):
        assert alone.divided("work", [lambda answer=answer: answer]) == [answer]


def test_an_error_in_a_piece_ends_those_that_wait_for_it():
    store, begun = Store(), threading.Event()

    def fails():
        begun.set()
        raise InputError("there is no such file")

    def first():
        processes = Processes(1, 2, store)
        with processes.together():
            processes.divided("work", [fails])

    def second():
        begun.wait()
        Processes(0, 2, store).divided("work", [fails])

    with ThreadPoolExecutor(2) as pool:
        failing, waiting = pool.submit(first), pool.submit(second)
        with pytest.raises(InputError):
            failing.result()
        with pytest.raises(ProcessLostError, match="process 1 of this run stopped: there is no"):
            waiting.result()
