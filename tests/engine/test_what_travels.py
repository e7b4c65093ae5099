"""What the compiled program of a divided run sends between devices: messages, and never a record.

XLA divides the program by itself, and where it finds no better way it gathers an array on every
device. Were that the records, they would travel to other processes.
"""

import functools
import json
import re

import numpy as np
import pytest
from tests.engine.two_devices import printed

import conftest  # noqa: F401 - beside this file's folder where it is run by itself
from conftest import make_shards
from taciturn.engine import run, runtimes
from taciturn.kernel.records import Devices

# no other array of a program has an axis of so many
RECORDS, BATCH = 97, 0.4
SENDS = r"= (.*?) (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)[\w-]*\("
SEEN = []


def listened(made, spoil=None):
    """Return a maker of compiled programs, whose text is read whenever one is called."""

    @functools.wraps(made)
    def listening(program):
        def called(*arguments):
            SEEN.append(program.lower(*arguments).compile().as_text())
            return program(*arguments)

        return called

    def making(*given):
        programs = made(*given)
        several = isinstance(programs, tuple)
        return tuple(map(listening, programs)) if several else listening(programs)

    return making


def sent(name, seed):
    """The shapes of all arrays that a run of this method sends between two devices."""
    from test_mesh import planned

    SEEN.clear()
    shards = make_shards(records=RECORDS, features=5)
    made = planned(name, shards)
    run(made, shards, runtime="simulate", seed=seed, devices=Devices())
    found = {
        shape for text in SEEN for kinds, _ in re.findall(SENDS, text)
        for shape in re.findall(r"\w+\[[\d,]*\]", kinds)
    }  # fmt: skip
    return sorted(found), len(SEEN)


def on_two_devices(names):
    """Print what each method sends; run where there are two devices."""
    runtimes._divided = listened(runtimes._divided)
    print(json.dumps({f"{name} {seed}": sent(name, seed) for name in names for seed in (None, 1)}))


def gathered():
    """Print what a program sends that needs all agents' records at once, as a planted fault."""
    import jax

    devices = Devices()
    rows = devices.array(np.ones((4, RECORDS, 5)), 4)
    program = jax.jit(lambda x: 2 * x, out_shardings=devices.everywhere)
    text = program.lower(rows).compile().as_text()
    print(json.dumps([kinds for kinds, _ in re.findall(SENDS, text)]))


def of_records(shape):
    return str(RECORDS) in re.findall(r"\d+", shape.partition("[")[2])


@pytest.mark.slow
def test_no_array_of_records_travels_between_devices():
    for name, (shapes, programs) in printed(
        "test_what_travels.on_two_devices(['star', 'sum', 'admm', 'gossip', 'tree', 'batches'])"
    ).items():
        assert programs >= 1
        assert shapes, name  # messages travel: the search does see what does
        assert not [shape for shape in shapes if of_records(shape)], name


@pytest.mark.slow
def test_records_that_travel_are_seen_by_the_same_search():
    assert any(
        of_records(shape)
        for kinds in printed("test_what_travels.gathered()")
        for shape in kinds.split()
    )
