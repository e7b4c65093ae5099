"""Two real processes of one run, by the engine: what they hold, draw, refuse and release."""

import dataclasses
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from conftest import make_shards, make_terms, plan_of
from taciturn.algorithms import NoisyGradient
from taciturn.engine import run, running
from taciturn.engine.processes import connect
from taciturn.errors import TaciturnError
from taciturn.kernel.door.supply import Supply
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import Messages
from taciturn.kernel.records import Devices, Shards, digest_of_all, pack, spread, spread_local
from taciturn.problems import Logistic, Problem

PROBLEM = Problem(Logistic())
AGENTS, ROUNDS, FEATURES, RUNS = 4, 50, 20, 12
DRAWN = "fresh keys", "seeds", "one key", "place"
HOW = {"runtime": "simulate", "keep": frozenset({"answers"})}


def empty_shards(agents=range(AGENTS), longest=0):
    """Records of zeros: an agent's answer is its noise."""
    counts = [5 + 3 * agent for agent in agents]
    ends = np.cumsum(counts)
    parts = [np.arange(end - count, end) for end, count in zip(ends, counts, strict=True)]
    rows, how = int(ends[-1]), {"record_norm": 1.0, "precision": "float64", "enforce": "clip"}
    return pack(np.zeros((rows, FEATURES)), np.ones(rows), parts, longest=longest, **how)


def planned(shards, rounds=ROUNDS):
    return plan_of(
        NoisyGradient(PROBLEM), shards, None, make_terms(100.0, observer=Messages()), rounds=rounds,
        multiplier=5.0,
    )  # fmt: skip


class ByPlace(Supply):
    """Planted fault: noise is drawn for an agent's place in its process, not for the agent."""

    def __init__(self, program, stream, rows, *, slot=None):
        super().__init__(program, stream, rows, slot=slot)
        agents = self._turns.agent - self._turns.agent.min()
        self._turns = self._turns._replace(agent=agents)

    def check_used(self, drawn):
        """Nothing: a run refuses such noise, and here an adversary is to find it."""


def drawn(fault):
    """Answers of some runs over their noise scale, `(R, T, A, D)`; nothing else is in them."""
    with pytest.MonkeyPatch.context() as patch:
        if fault in ("one key", "place"):  # the worst case: processes that start from one state
            keys = iter(bytes([n]) * 32 for n in range(RUNS))
            known = type("Known", (), {"fresh": staticmethod(lambda: Stream(next(keys)))})
            patch.setattr(running, "Stream", known)
        if fault == "place":
            patch.setattr(running, "Supply", ByPlace)
        return answered([None] * RUNS if fault != "seeds" else range(RUNS))


def answered(seeds):
    """Answers of a run for each seed, as `drawn` returns them."""
    devices = Devices()
    own = devices.local(AGENTS)
    whole = planned(empty_shards())
    counts = whole.spec.counts
    shards = spread_local(empty_shards(own, max(counts)), counts, devices)
    scale = np.moveaxis(np.asarray(whole.ledger.scale), 0, 1)  # (T, A, E)
    seen = []
    for seed in seeds:
        finished = run(whole, shards, devices=devices, seed=seed, **HOW)
        answers = np.asarray(finished.trace.records.answer).reshape(ROUNDS, AGENTS, 1, FEATURES)
        seen.append((answers / scale[..., None])[:, :, 0])
    return np.stack(seen)


def suspicions(noise):
    """What an adversary who sees every answer, or their sum, finds beside independent noise."""
    runs, rounds, agents, features = noise.shape
    size, found = runs * rounds * features, []
    for name, values, variance in (
        ("an agent's variance", np.var(noise, axis=(0, 1, 3)), 1.0),
        ("the variance of the sum", np.var(noise.sum(axis=2)), agents),
    ):  # relative errors of variances are near sqrt(2 / n): five of them
        if np.max(np.abs(values / variance - 1)) > 5 * np.sqrt(2 / size):
            found.append(name)
    by_agent = np.moveaxis(noise, 2, 0).reshape(agents, -1)
    pairs = np.corrcoef(by_agent) - np.eye(agents)
    if np.max(np.abs(pairs)) > 5 / np.sqrt(size):
        found.append("two agents")
    by_round = np.moveaxis(noise, (0, 1), (2, 3)).reshape(agents * features, -1)
    for lag in (1, 2, rounds):  # of one agent, in another round or in another run
        product = np.mean(by_round[:, lag:] * by_round[:, :-lag])
        if abs(product) > 5 / np.sqrt(by_round[:, lag:].size):
            found.append(f"answers {lag} apart")
    whole = np.round(noise.reshape(-1, features), 9)
    if len(np.unique(whole, axis=0)) < len(whole):
        found.append("an answer's noise twice")
    return found


def refusals():
    """What this process is told where the two were given different things, by what differs."""
    index, devices = jax.process_index(), Devices()
    shards, told = make_shards(agents=2), {}
    made, other_way = planned(shards, rounds=3), Devices(devices.devices[::-1])
    alone = make_shards(agents=1)
    cases = {
        "devices": (made, shards, other_way if index else devices, {}),
        "records": (made, make_shards(agents=2, seed=index), devices, {}),
        "plan": (planned(shards, rounds=3 + index), shards, devices, {}),
        "seed": (made, shards, devices, {"seed": index}),
        "spread": (made, spread_local(alone, shards.counts, devices), other_way, {}),
        "ledger": (made, shards, devices, {}),
    }
    for name, (which, given, on, more) in cases.items():
        if name == "ledger" and index:
            running.observed_ledger = lambda ledger, _: dataclasses.replace(
                ledger, kind=ledger.kind - 1
            )
        try:
            run(which, given, runtime="simulate", devices=on, **more)
        except TaciturnError as error:
            told[name] = [type(error).__name__, str(error)]
        else:
            told[name] = ["released", ""]
    return told


def process(index, address, folder):
    """One of two processes: do what the tests are about, and write what came of it."""
    connect(address, 2, index)
    np.savez(Path(folder) / f"{index}.npz", **{fault: drawn(fault) for fault in DRAWN})
    (Path(folder) / f"{index}.json").write_text(json.dumps(refusals()))
    os._exit(0)  # an orderly end would wait for the other one


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The noise that two processes saw, by how it was drawn, and what each was refused."""
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), *filter(None, sys.path)])
    call = f"import test_processes as t; t.process({{}}, {address!r}, {str(folder)!r})"
    logs = [(folder / f"{index}.txt").open("w") for index in range(2)]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", call.format(index)],
            cwd=folder,  # where no other conftest is
            env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path, "no_grpc_proxy": "*"},
            stdin=subprocess.PIPE,
            stderr=errors,
        )
        for index, errors in enumerate(logs)
    ]
    try:
        codes = [one.wait(300) for one in started]
    finally:
        for one, log in zip(started, logs, strict=True):
            one.kill()
            one.communicate()
            log.close()
    assert codes == [0, 0], (folder / "1.txt").read_text()[-2000:]
    noise = [dict(np.load(folder / f"{index}.npz")) for index in range(2)]
    return noise, [json.loads((folder / f"{index}.json").read_text()) for index in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("drawing", ["fresh keys", "seeds", "one key"])
def test_noise_of_agents_in_two_processes_is_independent_and_never_repeated(two, drawing):
    first, second = (noise[drawing] for noise in two[0])
    np.testing.assert_array_equal(first, second)
    assert suspicions(first) == []


@pytest.mark.slow
def test_noise_by_the_place_in_a_process_is_caught_in_the_sum_and_between_agents(two):
    found = suspicions(two[0][0]["place"])
    assert {"the variance of the sum", "two agents"} <= set(found)
    assert "an agent's variance" not in found


@pytest.mark.slow
def test_what_two_processes_have_differently_is_refused_by_both(two):
    first, second = two[1]
    for told in (first, second):
        for name in ("devices", "records", "plan", "seed"):
            assert told[name][0] != "released"
            assert f"differ in {name}" in told[name][1]
        assert "spread over other devices" in told["spread"][1]
    # a model is released by nobody if one of the observed ledgers is not the planned one
    assert second["ledger"][0] == "PrivacyError"
    assert first["ledger"][0] == "ProcessLostError"


def test_records_of_all_agents_are_compared_and_those_of_one_process_are_not():
    shards = make_shards()
    changed = Shards(
        jax.tree.map(lambda leaf: leaf.at[3, 2].multiply(0.5), shards.stacked),
        shards.counts, shards.record_norm,
    )  # fmt: skip
    assert digest_of_all(shards) == digest_of_all(make_shards())
    assert digest_of_all(shards) != digest_of_all(changed)
    assert spread(shards, Devices()).counts == shards.counts
