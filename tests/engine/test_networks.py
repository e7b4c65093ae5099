"""Relay and gossip: laws 3, 7, 9 and 10, and what is refused."""

import dataclasses
import functools
import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taciturn
from conftest import computed, floating_types, just_below, make_shards, make_terms, on_lattice
from taciturn.algorithms import EXTRA, NIDS, RECAL, NoisyGradient, Walkman
from taciturn.engine import behind_the_door, run, sweep
from taciturn.engine.network import Gossip, neighbours_of
from taciturn.engine.planning import plan
from taciturn.engine.program import agent_turns
from taciturn.engine.protocol import KEPT
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door.door import Live
from taciturn.kernel.door.ledgers import observed_ledger
from taciturn.kernel.privacy import Sum
from taciturn.kernel.questions import Gradient
from taciturn.network import (
    Walk,
    complete,
    cyclic_walk,
    grid,
    metropolis,
    ring,
    star,
    uniform_walk,
)
from taciturn.problems import (
    L2,
    Ball,
    ElasticNet,
    Logistic,
    Problem,
    Squared,
    WholeSpace,
    minimise,
    public_facts,
)

RIDGE = Problem(Squared(), L2(0.1), WholeSpace())
LASSO = Problem(Squared(), ElasticNet(0.02, 0.05), WholeSpace())
LOGISTIC = Problem(Logistic(), L2(0.05), WholeSpace())
TOKENS, GOSSIPS = (RECAL, Walkman), (NIDS, EXTRA)


def network_for(method, graph, rounds, cap=None):
    if method not in GOSSIPS:
        return dataclasses.replace(uniform_walk(graph, rounds, seed=0), cap=cap)
    return metropolis(graph)


def planned(algorithm, shards, network, *, rounds, problem=LOGISTIC, terms=None, clip=1.0, **more):
    return plan(
        public_facts(problem, shards, clip=clip),
        algorithm,
        (Gradient(problem.loss, clip),),
        terms or make_terms(),
        rounds=rounds,
        precision=more.pop("precision", "float64"),
        network=network,
    )


def exact(algorithm, problem, shards, network, rounds):
    made = planned(
        algorithm, shards, network,
        rounds=rounds, problem=problem, terms=make_terms(math.inf), clip=math.inf,
    )  # fmt: skip
    return run(made, shards, runtime="simulate", keep=frozenset({"models"}))


EIGHT = make_shards(agents=8, records=15, features=4, seed=2)
PROBLEMS = {"ridge": RIDGE, "lasso": LASSO, "logistic": LOGISTIC}


@functools.cache
def truth_of(problem):
    return minimise(PROBLEMS[problem], EIGHT, tol=1e-10)


def reaches_the_optimum(method, problem, graph):
    rounds = 20_000 if method in TOKENS else 1500
    network = network_for(method, graph, rounds)
    subject, truth = PROBLEMS[problem], truth_of(problem)
    done = exact(method(subject), subject, EIGHT, network, rounds)
    gap = float(subject.objective(jnp.asarray(done.model), EIGHT)) - truth.value
    assert abs(gap) <= 1e-8 * truth.value
    assert np.linalg.norm(done.model - truth.w) <= 1e-8 * np.linalg.norm(truth.w)


@pytest.mark.parametrize("problem", ["lasso", "logistic"])
@pytest.mark.parametrize("method", [*TOKENS, *GOSSIPS], ids=lambda m: m.__name__)
def test_without_noise_relay_and_gossip_reach_the_certified_optimum(method, problem):
    reaches_the_optimum(method, problem, grid(2, 4))


@pytest.mark.slow
@pytest.mark.parametrize("graph", [ring(8), complete(8)], ids=["ring", "complete"])
@pytest.mark.parametrize("problem", ["lasso", "logistic"])
@pytest.mark.parametrize("method", [*TOKENS, *GOSSIPS], ids=lambda m: m.__name__)
def test_without_noise_they_reach_it_on_other_graphs_too(method, problem, graph):
    reaches_the_optimum(method, problem, graph)


def test_a_cyclic_route_needs_less_noise_than_a_random_walk_of_as_many_hops():
    """It has the least possible PLF, and the multiplier grows as its square root."""
    walks = cyclic_walk(ring(4), 400), uniform_walk(ring(4), 400, seed=0)
    made = [planned(RECAL(LOGISTIC), make_shards(), walk, rounds=400) for walk in walks]
    assert walks[0].privacy_leakage_frequency == 100 < walks[1].privacy_leakage_frequency
    by_hand = np.sqrt(100 / walks[1].privacy_leakage_frequency)
    assert made[0].multiplier / made[1].multiplier == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", [*TOKENS, *GOSSIPS], ids=lambda m: m.__name__)
def test_constraints_are_met(method):
    held = Problem(Logistic(), L2(0.01), Ball(0.3))
    rounds = 16_000 if method in TOKENS else 800
    done = exact(method(held), held, EIGHT, network_for(method, ring(8), rounds), rounds)
    truth = minimise(held, EIGHT, tol=1e-10)
    assert np.linalg.norm(done.model) <= 0.3 * (1 + 1e-9)
    np.testing.assert_allclose(done.model, truth.w, atol=1e-7)


class Forgetful(RECAL):
    """Planted: the sum of duals is not updated."""

    def send(self, state, inbox, turn):
        state, token = super().send(state, inbox, turn)
        return state, token._replace(duals=inbox.duals)


class Stubborn(NIDS):
    """Planted: the dual is never moved, which leaves plain mixing of gradient steps."""

    def receive(self, state, inbox, turn):
        return super().receive(state, inbox, turn)._replace(dual=state.dual)


@pytest.mark.parametrize("method", [Forgetful, Stubborn])
def test_a_method_without_its_correction_does_not_pass_as_converged(method):
    """Law 7's fault."""
    rounds = 5000
    walk = uniform_walk(ring(8), rounds, seed=0)
    network = walk if issubclass(method, RECAL) else metropolis(ring(8))
    done = exact(method(RIDGE), RIDGE, EIGHT, network, rounds)
    assert not np.linalg.norm(done.model - truth_of("ridge").w) < 1e-4


SETTINGS = [
    (RECAL, lambda: uniform_walk(ring(4), 24, seed=1)),
    (RECAL, lambda: uniform_walk(star(4), 24, seed=0).capped(4)),
    (Walkman, lambda: cyclic_walk(ring(4), 14)),
    (NIDS, lambda: metropolis(ring(4))),
    (EXTRA, lambda: metropolis(star(4)).lazy),
]
NAMES = ["recal", "recal-capped", "walkman", "nids", "extra"]


def small(index, **more):
    method, network = SETTINGS[index]
    network = network()
    rounds = network.fixed_rounds or 7
    return planned(method(LOGISTIC), make_shards(), network, rounds=rounds, **more)


QUICK = ("recal-capped", "nids")
CASES = [
    pytest.param(index, id=name, marks=() if name in QUICK else pytest.mark.slow)
    for index, name in enumerate(NAMES)
]


@pytest.mark.slow
@pytest.mark.parametrize("index", CASES)
def test_both_runtimes_agree_to_1e_10_on_every_network(index):
    made, shards = small(index), make_shards()
    ours, theirs = (
        run(made, shards, runtime=kind, seed=3, keep=frozenset(KEPT))
        for kind in ("simulate", "serial")
    )
    for one, other in zip(*(jax.tree.leaves(r.trace) for r in (ours, theirs)), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.model, theirs.model, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(5), ids=NAMES)
def test_a_float32_plan_stays_in_float32_on_every_network(index):
    shards = make_shards(precision="float32")
    method, network = SETTINGS[index]
    network = network()
    rounds = network.fixed_rounds or 7
    made = planned(method(LOGISTIC), shards, network, rounds=rounds, precision="float32")
    private = behind_the_door(made, shards)
    models, trace = sweep([made.program], private, seeds=(0, 1), keep=frozenset(KEPT))
    trace = trace._replace(records=trace.records._replace(drawn=None))  # which no run returns
    assert floating_types((models, trace)) == {np.dtype("float32")}
    assert np.all(np.isfinite(models))


def test_a_relay_spends_by_participation_and_the_busiest_agent_spends_the_budget():
    walk = uniform_walk(ring(4), 50, seed=1)
    made = planned(RECAL(LOGISTIC), make_shards(), walk, rounds=50)
    asked = made.ledger.asked.sum(axis=(1, 2))
    assert asked.tolist() == walk.counts.tolist()
    mus = np.array(made.certificate.per_agent_mu)
    moved = on_lattice(made.ledger, 2 * 1.0 / 12)
    by_hand = np.sqrt(walk.counts) * moved / made.ledger.scale[made.ledger.asked].max()
    np.testing.assert_allclose(mus, by_hand, rtol=1e-12)
    assert just_below(made.certificate.epsilon, 1.0)
    assert np.argmax(mus) == np.argmax(walk.counts)
    gossip = planned(NIDS(LOGISTIC), make_shards(), metropolis(ring(4)), rounds=50)
    assert np.all(gossip.ledger.asked)


@pytest.mark.slow
@pytest.mark.parametrize("method", TOKENS)
def test_with_a_cap_the_last_half_of_the_models_that_were_made_is_averaged(method):
    walk = uniform_walk(ring(4), 60, seed=0).capped(6)
    made = planned(method(LOGISTIC), make_shards(), walk, rounds=60)
    assert np.sum(walk.awake[30:]) < 6  # by hop, the last half holds few models
    done = run(made, make_shards(), runtime="simulate", seed=0, keep=frozenset(KEPT))
    models = np.asarray(done.trace.messages.model)[:, 0]
    awake = models[walk.awake]
    np.testing.assert_allclose(done.model, awake[len(awake) // 2 :].mean(axis=0), rtol=1e-9)


@pytest.mark.slow
def test_a_capped_agent_passes_the_token_on_and_answers_nothing():
    walk = uniform_walk(star(4), 40, seed=0).capped(5)
    made = planned(RECAL(LOGISTIC), make_shards(), walk, rounds=40)
    done = run(made, make_shards(), runtime="simulate", seed=0, keep=frozenset(KEPT))
    assert not np.all(walk.awake)
    tokens = np.asarray(done.trace.messages.model)[:, 0]
    for hop in np.flatnonzero(~walk.awake):
        assert np.array_equal(tokens[hop], tokens[hop - 1])
        assert np.all(np.asarray(done.trace.records.kind)[hop] == -1)
    assert done.ledger.asked.sum(axis=(1, 2)).tolist() == walk.counts.tolist()
    assert max(walk.counts) == 5


def test_the_noise_of_an_agent_follows_its_own_participations():
    """Two walks that visit an agent equally often draw the same noise for it."""
    turns = [
        agent_turns(planned(RECAL(LOGISTIC), make_shards(), walk, rounds=8).program)
        for walk in (Walk(ring(4), np.arange(8) % 4), Walk(ring(4), 3 - np.arange(8) % 4))
    ]
    seen = [
        {(int(a), int(p)) for a, p in zip(t.agent[:, 0, 0], t.participation[:, 0, 0], strict=True)}
        for t in turns
    ]
    assert seen[0] == seen[1] == {(a, p) for a in range(4) for p in range(2)}


def test_a_relay_that_asks_out_of_turn_releases_nothing():
    """Law 3's fault on a relay: an answer of an agent who did not hold the token."""
    made, shards = small(0), make_shards()
    private = behind_the_door(made, shards)

    class Eager(Live):
        def __call__(self, queries, turn, chance):
            answer, record = super().__call__(queries, turn, chance)
            return answer, record._replace(kind=jnp.where(turn.round == 3, -1, 0))

    _, trace = computed(made.program, private, door=Eager)
    observed = observed_ledger(made.ledger, trace.records)
    with pytest.raises(PrivacyError, match="round 3"):
        made.ledger.same_as(observed)
    network = made.program.network
    backwards = dataclasses.replace(network, holders=network.holders[::-1])
    other = dataclasses.replace(made.program, network=backwards)
    with pytest.raises(PrivacyError):
        run(dataclasses.replace(made, program=other), shards, runtime="simulate")


@pytest.mark.slow
@pytest.mark.parametrize("by_agent", [True, False])
def test_messages_of_gossip_are_mixed_as_by_the_matrix(by_agent):
    graph = grid(3, 4)
    mixing = metropolis(graph)
    lists = neighbours_of(mixing) if by_agent else None
    gossip = dataclasses.replace(Gossip.connect(mixing, 12, 1), neighbours=lists)
    values = jnp.asarray(np.random.default_rng(0).standard_normal((12, 3, 2)))
    flat = np.asarray(values).reshape(12, -1)
    expected = (mixing.matrix() @ flat - flat).reshape(12, 3, 2)
    np.testing.assert_allclose(gossip.differences(values), expected, atol=1e-14)
    assert np.all(gossip.differences(jnp.ones((12, 2)) * 0.1) == 0)
    assert neighbours_of(metropolis(star(12))) is None


def test_gossip_does_not_drift_in_single_precision():
    shards = make_shards(agents=8, records=15, features=4, seed=2, precision="float32")
    made = planned(
        NIDS(RIDGE), shards, metropolis(ring(8)),
        rounds=20_000, problem=RIDGE, terms=make_terms(math.inf), clip=math.inf,
        precision="float32",
    )  # fmt: skip
    model = run(made, shards, runtime="simulate").model
    assert np.linalg.norm(model - truth_of("ridge").w) <= 1e-5 * np.linalg.norm(truth_of("ridge").w)


def test_without_an_aggregator_nothing_is_credited_to_summation():
    summed = small(3, terms=make_terms(observer=Sum()))
    alone = small(3)
    np.testing.assert_allclose(summed.ledger.scale, alone.ledger.scale)
    assert summed.certificate.observer == "sum"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda s: planned(RECAL(LOGISTIC), s, None, rounds=9), "RECAL needs a Walk.*given none"),
        (lambda s: planned(NIDS(LOGISTIC), s, cyclic_walk(ring(4), 9), rounds=9), "a Mixing"),
        (
            lambda s: planned(NoisyGradient(LOGISTIC), s, metropolis(ring(4)), rounds=9),
            "aggregator",
        ),
        (lambda s: planned(NIDS(LOGISTIC), s, metropolis(ring(5)), rounds=9), "5 agents, the data"),
        (lambda s: planned(RECAL(LOGISTIC), s, cyclic_walk(ring(4), 8), rounds=9), "8 hops"),
        (lambda s: planned(RECAL(LOGISTIC), s, cyclic_walk(ring(4), 3), rounds=3), "never asks"),
        (lambda s: planned(NIDS(LOGISTIC, step=9.0), s, metropolis(ring(4)), rounds=2), "below 8"),
        (
            lambda s: planned(EXTRA(LOGISTIC, step=9.0), s, metropolis(star(4)), rounds=2),
            "least eigenvalue of W",
        ),
        (
            lambda s: planned(RECAL(LOGISTIC, step=8.0), s, cyclic_walk(ring(4), 8), rounds=8),
            r"2 / \(L \+ 1/s\)",
        ),
        (
            lambda s: planned(Walkman(LOGISTIC, step=4.0), s, cyclic_walk(ring(4), 8), rounds=8),
            "below 4 = 1 / L",
        ),
    ],
)
def test_networks_and_steps_that_do_not_suit_are_refused_with_the_fix(make, words):
    with pytest.raises(InputError, match=words):
        make(make_shards())


@pytest.mark.unchecked
def test_a_network_that_is_none_is_refused_with_what_to_pass():
    with pytest.raises(InputError, match=r"pass None \(an aggregator\), a taciturn.network.Tree"):
        planned(NIDS(LOGISTIC), make_shards(), "ring", rounds=2)


KIND_TEST = re.compile(
    r"isinstance\([^)]*\b(Mixing|Walk|Tree|Star|OnTree|Gossip|Relay|NetworkKind)\b|type\(network\)"
)


def kind_tests(source):
    return [line for line in source.splitlines() if KIND_TEST.search(line)]


def test_only_one_place_asks_which_kind_a_network_is():
    root = Path(taciturn.__file__).parent
    asking = {p.name for p in root.rglob("*.py") if kind_tests(p.read_text())}
    assert asking == {"program.py"}
    assert kind_tests("if isinstance(plan.network, Mixing | Walk):")  # a planted one
