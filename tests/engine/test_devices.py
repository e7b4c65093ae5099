"""Agents divided among devices and processes: one run, each agent with its own rows and noise."""

import dataclasses
import functools
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from conftest import make_plan, make_shards, make_terms, plan_of
from taciturn.algorithms import DPADMM, NIDS, NoisyGradient, Walkman
from taciturn.engine import run, running, runtimes
from taciturn.engine.processes import Processes, connect, report_loss
from taciturn.engine.running import check_devices
from taciturn.errors import InputError, ProcessLostError, TaciturnError
from taciturn.kernel.door.supply import Supply
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import Messages, Sum
from taciturn.kernel.questions import Gradient, MinibatchGradient
from taciturn.kernel.records import Devices, Shards, digest_of_all, pack, shards_of_process, spread
from taciturn.network import metropolis, ring, spanning_tree, uniform_walk
from taciturn.problems import Logistic, Problem

PROBLEM = Problem(Logistic())
KEY = b"k" * 32
# folders in which a process of its own finds this module
HERE = Path(__file__).parent
FOUND = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, sys.path)])


def printed(call):
    """What `function(arguments)` of this module prints in a process that sees two devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", f"import test_devices as t; t.{call}"], cwd=HERE.parent,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": FOUND},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@functools.cache
def methods():
    """Algorithm, network, observer and rate: made late, since JAX waits for other processes."""
    plain = NoisyGradient(PROBLEM)
    admm = DPADMM(PROBLEM, rho=0.1, radius=None, step_rule="smooth", regulariser_at="server")
    return {
        "star": (plain, None, None, None),
        "sum": (plain, None, Sum(), None),
        "admm": (admm, None, None, None),
        "gossip": (NIDS(PROBLEM), metropolis(ring(4)), None, None),
        "tree": (plain, spanning_tree(ring(4)), Sum(), None),
        "batches": (plain, None, None, 0.4),
    }


def planned(name, shards, precision="float64"):
    algorithm, network, observer, rate = methods()[name]
    question = (
        Gradient(PROBLEM.loss, 1.0) if rate is None else MinibatchGradient(PROBLEM.loss, 1.0, rate)
    )
    return plan_of(
        algorithm, shards, (question,), make_terms(50.0, observer=observer), rounds=7,
        precision=precision, network=network, multiplier=5.0,
    )  # fmt: skip


def two_devices(names):
    """Print how far each run on two devices is from that on one; run where there are two."""
    fakes = {"fresh": lambda: Stream(KEY), "seeded": Stream.seeded}
    running.Stream = type("Known", (), {n: staticmethod(f) for n, f in fakes.items()})
    gaps = {}
    for name in names:
        for precision in ("float64", "float32"):
            shards = make_shards(precision=precision)
            made = planned(name, shards, precision)
            for seed in (3, None):
                how = {"runtime": "simulate", "seed": seed, "keep": frozenset({"answers"})}
                one, two = run(made, shards, **how), run(made, shards, **how, devices=Devices())
                one.ledger.same_as(two.ledger)
                assert one.certificate == two.certificate
                gaps[f"{name} {precision} {seed}"] = float(np.max(np.abs(one.model - two.model)))
    print(json.dumps(gaps))


def walking(shards):
    return plan_of(
        Walkman(PROBLEM), shards, None, make_terms(100.0), rounds=20,
        network=uniform_walk(ring(4), 20, seed=0), multiplier=5.0,
    )  # fmt: skip


@functools.cache
def gaps_of(*names):
    return printed(f"two_devices({names!r})")


def assert_close(gaps):
    for name, gap in gaps.items():
        # sums of whole steps are exact in whatever order they are formed
        exact = name.startswith(("sum", "tree"))
        assert gap <= (0 if exact else 1e-6 if "float32" in name else 1e-12), name


@pytest.mark.slow
def test_runs_on_two_devices_are_those_on_one_and_sums_are_equal_to_the_bit():
    assert_close(gaps_of(*methods()))


def test_a_run_on_one_device_that_is_named_is_the_usual_one(shards):
    made = make_plan("noisy-gradient", shards)
    usual = run(made, shards, runtime="simulate", seed=2)
    named = run(made, shards, runtime="simulate", seed=2, devices=Devices())
    np.testing.assert_allclose(named.model, usual.model, rtol=0, atol=1e-12)
    assert named.certificate == usual.certificate


class ByPlace(Supply):
    """Planted fault: noise is drawn for an agent's place in its process, not for the agent."""

    def __init__(self, agenda, stream, rows, *, slot=None):
        super().__init__(agenda, stream, rows, slot=slot)
        agents = self._turns.agent - self._turns.agent.min()
        self._turns = self._turns._replace(agent=agents)

    def check_used(self, drawn):
        """Nothing: a run refuses such noise, and here an adversary is to find it."""


def noise_of_two_processes(supply):
    """The noise of four agents under one key, two of them drawn by each of two processes."""
    made = planned("star", make_shards())
    parts = [
        supply(made.program.agenda, Stream(KEY), 12, slot=slots).block(0, 7).steps
        for slots in (range(2), range(2, 4))
    ]
    whole = Supply(made.program.agenda, Stream(KEY), 12).block(0, 7).steps
    return np.concatenate(parts, axis=1), whole


def test_every_agent_has_its_own_noise_whichever_process_draws_it():
    divided, whole = noise_of_two_processes(Supply)
    np.testing.assert_array_equal(divided, whole)
    agents = [divided[:, agent].ravel() for agent in range(4)]
    assert all(np.any(a != b) for n, a in enumerate(agents) for b in agents[:n])


def test_one_noise_for_two_agents_is_caught():
    divided, whole = noise_of_two_processes(ByPlace)
    np.testing.assert_array_equal(divided[:, 0], divided[:, 2])
    assert np.any(divided != whole)


def test_rows_of_other_agents_are_refused_by_their_public_counts():
    own = make_shards(agents=1)
    assert shards_of_process(own, own.counts, Devices()).counts == own.counts
    with pytest.raises(InputError, match="packed the records of other agents"):
        shards_of_process(own, (own.counts[0] + 1,), Devices())


def test_rows_of_a_wrong_agent_are_caught_by_the_model_of_one_process():
    """Agents have as many records each: no count tells that two of them were exchanged."""
    shards = make_shards(agents=2)
    made = planned("star", shards)
    wrong = dataclasses.replace(
        shards, stacked=jax.tree.map(lambda leaf: leaf[::-1], shards.stacked)
    )
    alone = run(made, shards, runtime="simulate", seed=3)
    right, exchanged = (
        run(made, given, runtime="simulate", seed=3, devices=Devices(), keep=frozenset({"answers"}))
        for given in (shards, wrong)
    )
    assert_close({"star float64": float(np.max(np.abs(right.model - alone.model)))})
    first = [np.asarray(one.trace.records.answer)[0] for one in (right, exchanged)]
    assert np.max(np.abs(first[0] - first[1])) > 1e-3


def test_devices_that_do_not_suit_are_refused(shards):
    with pytest.raises(InputError, match="relay"):
        check_devices(walking(shards).program, Devices(), serial=False)
    made = planned("star", shards)
    with pytest.raises(InputError, match="leave"):
        check_devices(made.program, Devices(), serial=True)
    with pytest.raises(InputError, match="one is repeated"):
        Devices(Devices().devices * 2)


def test_processes_with_different_facts_stop_with_the_name_of_the_fact(monkeypatch):
    def gather(process, content):
        return [json.dumps({"plan": "a", "jax": "1"}).encode(), content]

    monkeypatch.setattr(Processes, "gather", gather)
    with pytest.raises(InputError, match=r"processes 0 and 1 of this run differ in jax \(1 and 2"):
        Processes(1, 2).agree({"plan": "a", "jax": "2"})


def test_a_lost_connection_is_reported_in_one_line():
    with pytest.raises(ProcessLostError, match="ended or cannot be reached"), report_loss():
        raise RuntimeError("UNAVAILABLE: failed to connect to all addresses")
    with pytest.raises(RuntimeError, match="another"), report_loss():
        raise RuntimeError("another fault")


def test_one_process_alone_waits_for_nobody():
    alone = Processes.of(None)
    assert alone.first
    assert alone.gather(b"a") == [b"a"]
    assert alone.from_first(b"a") == b"a"
    alone.agree({"plan": "a"})


# no other array of a program has an axis of so many
RECORDS = 97
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
    devices = Devices()
    rows = devices.array(np.ones((4, RECORDS, 5)), 4)
    program = jax.jit(lambda x: 2 * x, out_shardings=devices.everywhere)
    text = program.lower(rows).compile().as_text()
    print(json.dumps([kinds for kinds, _ in re.findall(SENDS, text)]))


def of_records(shape):
    return str(RECORDS) in re.findall(r"\d+", shape.partition("[")[2])


@pytest.mark.slow
def test_no_array_of_records_travels_between_devices():
    for name, (shapes, programs) in printed(f"on_two_devices({[*methods()]!r})").items():
        assert programs >= 1
        assert shapes, name  # messages travel: the search does see what does
        assert not [shape for shape in shapes if of_records(shape)], name


@pytest.mark.slow
def test_records_that_travel_are_seen_by_the_same_search():
    assert any(of_records(shape) for kinds in printed("gathered()") for shape in kinds.split())


AGENTS, ROUNDS, FEATURES, RUNS = 4, 50, 20, 12
DRAWN = "fresh keys", "seeds", "one key", "place"
HOW = {"runtime": "simulate", "keep": frozenset({"answers"})}


def empty_shards(agents=range(AGENTS), longest=0):
    """Records of zeros: an agent's answer is its noise."""
    counts = [5 + 3 * agent for agent in agents]
    ends = np.cumsum(counts)
    parts = [np.arange(end - count, end) for end, count in zip(ends, counts, strict=True)]
    rows, how = int(ends[-1]), {"record_norm": 1.0, "precision": "float64"}
    return pack(np.zeros((rows, FEATURES)), np.ones(rows), parts, longest=longest, **how)


def planned_alone(shards, rounds=ROUNDS):
    return plan_of(
        NoisyGradient(PROBLEM), shards, None, make_terms(100.0, observer=Messages()), rounds=rounds,
        multiplier=5.0,
    )  # fmt: skip


def drawn(fault):
    """Answers of some runs over their noise scale, `(R, T, A, D)`; nothing else is in them."""
    with pytest.MonkeyPatch.context() as patch:
        if fault in ("one key", "place"):  # the worst case: processes that start from one state
            keys = iter(bytes([n]) * 32 for n in range(RUNS))
            known = type("Known", (), {"fresh": staticmethod(lambda: Stream(next(keys)))})
            patch.setattr(running, "Stream", known)
        if fault == "place":
            patch.setattr(running.door, "Supply", ByPlace)
        return answered([None] * RUNS if fault != "seeds" else range(RUNS))


def answered(seeds):
    """Answers of a run for each seed, as `drawn` returns them."""
    devices = Devices()
    own = devices.local(AGENTS)
    whole = planned_alone(empty_shards())
    counts = whole.spec.counts
    shards = shards_of_process(empty_shards(own, max(counts)), counts, devices)
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


def refusals_of_process():
    """What this process is told where the two were given different things, by what differs."""
    index, devices = jax.process_index(), Devices()
    shards, told = make_shards(agents=2), {}
    made, other_way = planned_alone(shards, rounds=3), Devices(devices.devices[::-1])
    alone = make_shards(agents=1)
    cases = {
        "devices": (made, shards, other_way if index else devices, {}),
        "records": (made, make_shards(agents=2, seed=index), devices, {}),
        "plan": (planned_alone(shards, rounds=3 + index), shards, devices, {}),
        "seed": (made, shards, devices, {"seed": index}),
        "spread": (made, shards_of_process(alone, shards.counts, devices), other_way, {}),
        "ledger": (made, shards, devices, {}),
    }
    for name, (which, given, on, more) in cases.items():
        if name == "ledger" and index:
            running.door.observed_ledger = lambda ledger, _: dataclasses.replace(
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
    (Path(folder) / f"{index}.json").write_text(json.dumps(refusals_of_process()))
    os._exit(0)  # an orderly end would wait for the other one


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The noise that two processes saw, by how it was drawn, and what each was refused."""
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    call = f"import test_devices as t; t.process({{}}, {address!r}, {str(folder)!r})"
    logs = [(folder / f"{index}.txt").open("w") for index in range(2)]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", call.format(index)],
            cwd=folder,  # where no other conftest is
            env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": FOUND, "no_grpc_proxy": "*"},
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
