"""Relay and gossip: the ledger of a walk, exchanges, reach, and what is refused."""

import dataclasses
import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taciturn
from conftest import computed, just_below, make_shards, make_terms, on_lattice, plan_of
from taciturn.algorithms import EXTRA, NIDS, RECAL, LinearisedGossipADMM, NoisyGradient, Walkman
from taciturn.audit.pairwise import rounds_that_reach
from taciturn.engine import records_for_door, run, traffic_of
from taciturn.engine.network import Gossip, neighbours_of
from taciturn.engine.program import agent_turns
from taciturn.engine.protocol import KEPT
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door.door import Live
from taciturn.kernel.door.ledgers import observed_ledger
from taciturn.network import (
    Walk,
    complete,
    cyclic_walk,
    erdos_renyi,
    grid,
    metropolis,
    path,
    ring,
    star,
    uniform_walk,
)
from taciturn.problems import L2, ElasticNet, Logistic, Problem, Squared, minimise

RIDGE = Problem(Squared(), L2(0.1))
LOGISTIC = Problem(Logistic(), L2(0.05))
EIGHT = make_shards(agents=8, records=15, features=4, seed=2)


def planned(algorithm, shards, network, *, rounds=None, terms=None, clip=1.0, precision="float64"):
    return plan_of(
        algorithm, shards, None, terms or make_terms(), clip=clip,
        rounds=rounds or network.fixed_rounds, precision=precision, network=network,
    )  # fmt: skip


def exact(algorithm, shards, network, rounds, **more):
    made = planned(
        algorithm, shards, network, rounds=rounds, terms=make_terms(math.inf), clip=math.inf, **more
    )
    return run(made, shards, runtime="simulate", keep=frozenset({"models"}))


# relay


def test_a_relay_spends_by_participation_and_the_busiest_agent_spends_the_budget():
    walk = uniform_walk(ring(4), 50, seed=1)
    made = planned(RECAL(LOGISTIC), make_shards(), walk)
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


@pytest.mark.parametrize("method", [RECAL, pytest.param(Walkman, marks=pytest.mark.slow)])
def test_a_capped_agent_passes_the_token_on_and_the_last_half_of_the_models_made_is_averaged(
    method,
):
    walk = uniform_walk(star(4), 60, seed=0).capped(6)
    made = planned(method(LOGISTIC), make_shards(), walk)
    assert np.sum(walk.awake[30:]) < np.sum(walk.awake[:30])  # by hop, the last half holds fewer
    done = run(made, make_shards(), runtime="simulate", seed=0, keep=frozenset(KEPT))
    models = np.asarray(done.trace.messages.model)[:, 0]
    for hop in np.flatnonzero(~walk.awake):
        assert np.array_equal(models[hop], models[hop - 1])
        assert np.all(np.asarray(done.trace.records.kind)[hop] == -1)
    assert done.ledger.asked.sum(axis=(1, 2)).tolist() == walk.counts.tolist()
    assert max(walk.counts) == 6
    awake = models[walk.awake]
    np.testing.assert_allclose(done.model, awake[len(awake) // 2 :].mean(axis=0), rtol=1e-9)


def test_the_noise_of_an_agent_follows_its_own_participations():
    """Two walks that visit an agent equally often draw the same noise for it."""
    turns = [
        agent_turns(planned(RECAL(LOGISTIC), make_shards(), walk).program)
        for walk in (Walk(ring(4), np.arange(8) % 4), Walk(ring(4), 3 - np.arange(8) % 4))
    ]
    seen = [
        {(int(a), int(p)) for a, p in zip(t.agent[:, 0, 0], t.participation[:, 0, 0], strict=True)}
        for t in turns
    ]
    assert seen[0] == seen[1] == {(a, p) for a in range(4) for p in range(2)}


def test_a_relay_that_asks_out_of_turn_releases_nothing():
    """Law 3's fault on a relay: an answer of an agent who did not hold the token."""
    shards = make_shards()
    made = planned(RECAL(LOGISTIC), shards, uniform_walk(ring(4), 24, seed=1))
    private = records_for_door(made, shards)

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


# gossip


@pytest.mark.parametrize("by_agent", [True, False])
def test_messages_of_gossip_are_mixed_as_by_the_matrix(by_agent):
    mixing = metropolis(grid(3, 4))
    lists = neighbours_of(mixing) if by_agent else None
    gossip = dataclasses.replace(Gossip.connect(mixing, 12, 1), neighbours=lists)
    values = jnp.asarray(np.random.default_rng(0).standard_normal((12, 3, 2)))
    flat = np.asarray(values).reshape(12, -1)
    expected = (mixing.matrix() @ flat - flat).reshape(12, 3, 2)
    np.testing.assert_allclose(gossip.differences(values), expected, atol=1e-14)
    np.testing.assert_allclose(gossip.mixed(values), expected, atol=1e-14)  # in one exchange
    assert np.all(gossip.differences(jnp.ones((12, 2)) * 0.1) == 0)
    assert neighbours_of(metropolis(star(12))) is None


@pytest.mark.slow
def test_gossip_does_not_drift_in_single_precision():
    shards = make_shards(agents=8, records=15, features=4, seed=2, precision="float32")
    truth = minimise(RIDGE, EIGHT, tol=1e-10).w
    done = exact(NIDS(RIDGE), shards, metropolis(ring(8)), 20_000, precision="float32")
    assert np.linalg.norm(done.model - truth) <= 1e-5 * np.linalg.norm(truth)


def test_linearised_admm_without_prox_is_extra_with_half_the_weights():
    free, mixing = Problem(Logistic()), metropolis(ring(8))
    ours = exact(LinearisedGossipADMM(free, step=1.0), EIGHT, mixing, 30)
    theirs = exact(EXTRA(free, step=1.0), EIGHT, mixing.lazy, 30)
    np.testing.assert_allclose(ours.model, theirs.model, atol=1e-12)


# several exchanges for one question

GRAPHS = [path(2), complete(5), grid(3, 4), erdos_renyi(9, 0.3, seed=2)]


def chebyshev(graph, exchanges):
    """P_K(W), from the eigenvalues of W by NumPy's own Chebyshev polynomials."""
    values, vectors = np.linalg.eigh(metropolis(graph).matrix().toarray())
    low, high = values[0] - 1e-13, values[-2] + 1e-13
    series = np.polynomial.Chebyshev.basis(exchanges, domain=[low, high])
    return (vectors * (series(values) / series(1.0))) @ vectors.T, 1 / series(1.0)


@pytest.mark.parametrize("exchanges", [3, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{graph.agents}-{len(graph.edges)}")
def test_exchanges_mix_by_chebyshevs_polynomial_and_leave_what_it_leaves(graph, exchanges):
    mixing, (matrix, left) = metropolis(graph, exchanges=exchanges), chebyshev(graph, exchanges)
    network = Gossip.connect(mixing, graph.agents, 1)
    moved = np.asarray(network.mixed(jnp.eye(graph.agents)))
    np.testing.assert_allclose(np.eye(graph.agents) + moved, matrix, atol=1e-8)
    np.testing.assert_allclose(moved.sum(axis=1), 0, atol=1e-12)
    others = np.linalg.eigvalsh(matrix)[:-1]
    assert np.max(np.abs(others)) <= mixing.ends[1] + 1e-9
    assert mixing.ends == pytest.approx((-left, left), abs=1e-9)
    assert metropolis(graph).spectral_gap <= mixing.spectral_gap + 1e-12
    # agreement is a fixed point to the bit
    same = jnp.broadcast_to(jnp.asarray([0.1, -7.3]), (graph.agents, 2))
    np.testing.assert_array_equal(network.mixed(same), 0)


def test_exchanges_cost_messages_and_no_privacy():
    shards = make_shards()
    once, often = (
        planned(NIDS(LOGISTIC), shards, metropolis(ring(4), exchanges=k), rounds=5) for k in (1, 4)
    )
    assert often.certificate == once.certificate
    assert often.ledger.same_as(once.ledger) is None
    assert traffic_of(often.program) == tuple(4 * n for n in traffic_of(once.program))


@pytest.mark.unchecked
def test_no_exchange_and_too_many_are_refused():
    for wrong, words in ((0, "at least 1"), (101, "at most 100.*spanning tree")):
        with pytest.raises(InputError, match=words):
            metropolis(ring(4), exchanges=wrong)


@pytest.mark.slow
@pytest.mark.parametrize("exchanges", [2, 5])
@pytest.mark.parametrize("method", [NIDS, EXTRA, LinearisedGossipADMM])
def test_without_noise_they_reach_the_certified_optimum_and_with_many_sooner(method, exchanges):
    problem = Problem(Logistic(), ElasticNet(0.02, 0.05))
    truth, far = minimise(problem, EIGHT, tol=1e-10), []
    for k in (1, exchanges):
        done = exact(method(problem), EIGHT, metropolis(path(8), exchanges=k), 2000)
        away = np.linalg.norm(np.asarray(done.trace.models) - truth.w, axis=1)
        far.append(int(np.flatnonzero(away > 1e-6)[-1]))
    assert np.linalg.norm(done.model - truth.w) <= 1e-8
    # PG-EXTRA's step follows the least eigenvalue, which two exchanges may lower
    assert exchanges == 2 or far[1] < far[0]


@pytest.mark.slow
def test_both_runtimes_agree_on_several_exchanges():
    shards = make_shards()
    made = planned(EXTRA(LOGISTIC), shards, metropolis(path(4), exchanges=3), rounds=5)
    models = [run(made, shards, runtime=kind, seed=3).model for kind in ("simulate", "serial")]
    np.testing.assert_allclose(*models, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("exchanges", [1, 2, 3])
def test_exactly_the_answers_that_can_reach_an_agent_move_what_it_hears(exchanges):
    """All records of an agent are changed, and so every answer of it, the first one included."""
    rounds, shards = 3, make_shards()
    made = planned(
        NIDS(LOGISTIC), shards, metropolis(path(4), exchanges=exchanges), rounds=rounds,
        terms=make_terms(np.inf), clip=np.inf,
    )  # fmt: skip

    def heard(shards):
        done = run(made, shards, runtime="simulate", keep=frozenset({"publics"}))
        inboxes = [np.asarray(leaf) for leaf in jax.tree.leaves(done.trace.publics)]
        return [np.concatenate([x[:rounds, j].ravel() for x in inboxes]) for j in range(4)]

    reach = rounds_that_reach(made, released=False)
    before = heard(shards)
    for i in range(4):
        targets = shards.stacked.targets.at[i].multiply(-1)
        stacked = dataclasses.replace(shards.stacked, targets=targets)
        after = heard(dataclasses.replace(shards, stacked=stacked))
        # answers of agent i in any round have reached j iff those of the first one have
        moved = [np.any(a != b) for a, b in zip(before, after, strict=True)]
        for j in range(4):
            if i != j:
                assert moved[j] == (reach[i, j] > 0), (i, j)


# what is refused


@pytest.mark.parametrize(
    ("algorithm", "network", "rounds", "words"),
    [
        (RECAL(LOGISTIC), None, 9, "RECAL needs a Walk.*given none"),
        (NIDS(LOGISTIC), cyclic_walk(ring(4), 9), 9, "a Mixing"),
        (NoisyGradient(LOGISTIC), metropolis(ring(4)), 9, "aggregator"),
        (NIDS(LOGISTIC), metropolis(ring(5)), 9, "5 agents, the data"),
        (RECAL(LOGISTIC), cyclic_walk(ring(4), 8), 9, "8 hops"),
        (RECAL(LOGISTIC), cyclic_walk(ring(4), 3), 3, "never asks"),
        (NIDS(LOGISTIC, step=9.0), metropolis(ring(4)), 2, "below 8"),
        (EXTRA(LOGISTIC, step=9.0), metropolis(star(4)), 2, "least eigenvalue of W"),
        (LinearisedGossipADMM(LOGISTIC, step=5.0), metropolis(ring(4)), 5, "below 5 = 5 / "),
        (RECAL(LOGISTIC, step=8.0), cyclic_walk(ring(4), 8), 8, r"2 / \(L \+ 1/s\)"),
        (Walkman(LOGISTIC, step=4.0), cyclic_walk(ring(4), 8), 8, "below 4 = 1 / L"),
    ],
)
def test_networks_and_steps_that_do_not_suit_are_refused_with_the_fix(
    algorithm, network, rounds, words
):
    with pytest.raises(InputError, match=words):
        planned(algorithm, make_shards(), network, rounds=rounds)


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
