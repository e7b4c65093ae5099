"""Agents divided among devices: the same run, each agent's rows and noise its own."""

import dataclasses
import functools
import json

import jax
import numpy as np
import pytest
from tests.engine.two_devices import printed

from conftest import make_plan, make_shards, make_terms, plan_of
from taciturn.algorithms import DPADMM, NIDS, NoisyGradient, Walkman
from taciturn.engine import run
from taciturn.engine.processes import Processes, report_loss
from taciturn.engine.running import check_devices
from taciturn.errors import InputError, ProcessLostError
from taciturn.kernel.door.supply import Supply
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import Sum
from taciturn.kernel.questions import Gradient, MinibatchGradient
from taciturn.kernel.records import Devices, spread_local
from taciturn.network import metropolis, ring, spanning_tree, uniform_walk
from taciturn.problems import Logistic, Problem

PROBLEM = Problem(Logistic())
KEY = b"k" * 32
METHODS = {
    "star": (NoisyGradient(PROBLEM), None, None, None),
    "sum": (NoisyGradient(PROBLEM), None, Sum(), None),
    "admm": (
        DPADMM(PROBLEM, rho=0.1, radius=None, step_rule="smooth", regulariser_at="server"), None,
        None, None,
    ),
    "gossip": (NIDS(PROBLEM), metropolis(ring(4)), None, None),
    "tree": (NoisyGradient(PROBLEM), spanning_tree(ring(4)), Sum(), None),
    "batches": (NoisyGradient(PROBLEM), None, None, 0.4),
}  # fmt: skip


def planned(name, shards, precision="float64"):
    algorithm, network, observer, rate = METHODS[name]
    question = (
        Gradient(PROBLEM.loss, 1.0) if rate is None else MinibatchGradient(PROBLEM.loss, 1.0, rate)
    )
    return plan_of(
        algorithm, shards, (question,), make_terms(50.0, observer=observer), rounds=7,
        precision=precision, network=network, multiplier=5.0,
    )  # fmt: skip


def two_devices(names):
    """Print how far each run on two devices is from that on one; run where there are two."""
    from taciturn.engine import running

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
    return printed(f"test_mesh.two_devices({names!r})")


def assert_close(gaps):
    for name, gap in gaps.items():
        # sums of whole steps are exact in whatever order they are formed
        exact = name.startswith(("sum", "tree"))
        assert gap <= (0 if exact else 1e-6 if "float32" in name else 1e-12), name


@pytest.mark.slow
def test_runs_on_two_devices_are_those_on_one_and_sums_are_equal_to_the_bit():
    assert_close(gaps_of(*METHODS))


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
    assert spread_local(own, own.counts, Devices()).counts == own.counts
    with pytest.raises(InputError, match="packed the records of other agents"):
        spread_local(own, (own.counts[0] + 1,), Devices())


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
    with pytest.raises(InputError, match="twice"):
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
