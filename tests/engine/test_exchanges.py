"""Several exchanges for one question: Chebyshev's polynomial, no privacy spent, and its reach."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_shards, make_terms
from taciturn.algorithms import EXTRA, NIDS, LinearisedGossipADMM
from taciturn.audit.pairwise import rounds_that_reach
from taciturn.engine import run, traffic_of
from taciturn.engine.network import Gossip
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient
from taciturn.network import complete, erdos_renyi, grid, metropolis, path, ring, star
from taciturn.problems import L2, ElasticNet, Logistic, Problem, WholeSpace, minimise, public_facts

GRAPHS = [ring(8), path(2), complete(5), star(6), grid(3, 4), erdos_renyi(9, 0.3, seed=2)]
PROBLEM = Problem(Logistic(), L2(0.05), WholeSpace())


def chebyshev(graph, exchanges):
    """P_K(W), from the eigenvalues of W by NumPy's own Chebyshev polynomials."""
    values, vectors = np.linalg.eigh(metropolis(graph).matrix().toarray())
    low, high = values[0] - 1e-13, values[-2] + 1e-13
    series = np.polynomial.Chebyshev.basis(exchanges, domain=[low, high])
    return (vectors * (series(values) / series(1.0))) @ vectors.T, 1 / series(1.0)


def planned(method, network, shards, *, rounds=5, problem=PROBLEM, terms=None, clip=1.0):
    return plan(
        public_facts(problem, shards, clip=clip), method(problem), (Gradient(problem.loss, clip),),
        terms or make_terms(), rounds=rounds, precision="float64", network=network,
    )  # fmt: skip


@pytest.mark.parametrize(
    "exchanges",
    [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(7, marks=pytest.mark.slow)],
)
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


def test_agreement_is_a_fixed_point_to_the_bit():
    network = Gossip.connect(metropolis(grid(3, 4), exchanges=5), 12, 1)
    same = jnp.broadcast_to(jnp.asarray([0.1, -7.3]), (12, 2))
    np.testing.assert_array_equal(network.mixed(same), 0)


@pytest.mark.slow
def test_one_exchange_is_the_mixing_by_the_weights():
    once = Gossip.connect(metropolis(ring(5)), 5, 1)
    values = jax.random.normal(jax.random.key(0), (5, 3))
    matrix = metropolis(ring(5)).matrix().toarray()
    np.testing.assert_allclose(once.mixed(values), (matrix - np.eye(5)) @ values, atol=1e-14)


def test_exchanges_cost_messages_and_no_privacy():
    shards = make_shards()
    once, often = (planned(NIDS, metropolis(ring(4), exchanges=k), shards) for k in (1, 4))
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
    problem = Problem(Logistic(), ElasticNet(0.02, 0.05), WholeSpace())
    shards = make_shards(agents=8, records=15, features=4, seed=2)
    truth = minimise(problem, shards, tol=1e-10)
    terms, clip, far = make_terms(np.inf), np.inf, []
    for k in (1, exchanges):
        network = metropolis(path(8), exchanges=k)
        made = planned(
            method, network, shards, rounds=2000, problem=problem, terms=terms, clip=clip
        )
        done = run(made, shards, runtime="simulate", keep=frozenset({"models"}))
        away = np.linalg.norm(np.asarray(done.trace.models) - truth.w, axis=1)
        far.append(int(np.flatnonzero(away > 1e-6)[-1]))
    assert np.linalg.norm(done.model - truth.w) <= 1e-8
    # PG-EXTRA's step follows the least eigenvalue, which two exchanges may lower
    assert exchanges == 2 or far[1] < far[0]


@pytest.mark.slow
def test_both_runtimes_agree_on_several_exchanges():
    shards = make_shards()
    made = planned(EXTRA, metropolis(path(4), exchanges=3), shards)
    models = [run(made, shards, runtime=kind, seed=3).model for kind in ("simulate", "serial")]
    np.testing.assert_allclose(*models, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("exchanges", [1, 2, 3])
def test_exactly_the_answers_that_can_reach_an_agent_move_what_it_hears(exchanges):
    """All records of an agent are changed, and so every answer of it, the first one included."""
    rounds, shards = 3, make_shards()
    made = planned(
        NIDS, metropolis(path(4), exchanges=exchanges), shards, rounds=rounds,
        terms=make_terms(np.inf), clip=np.inf,
    )  # fmt: skip

    def heard(shards, last):
        done = run(made, shards, runtime="simulate", keep=frozenset({"publics"}))
        inboxes = [np.asarray(leaf) for leaf in jax.tree.leaves(done.trace.publics)]
        return [np.concatenate([x[:last, j].ravel() for x in inboxes]) for j in range(4)]

    reach = rounds_that_reach(made, released=False)
    for i in range(4):
        targets = shards.stacked.targets.at[i].multiply(-1)
        stacked = dataclasses.replace(shards.stacked, targets=targets)
        other = dataclasses.replace(shards, stacked=stacked)
        # answers of agent i in any round have reached j iff those of the first one have
        moved = [np.any(a != b) for a, b in zip(heard(shards, 3), heard(other, 3), strict=True)]
        for j in range(4):
            if i != j:
                assert moved[j] == (reach[i, j] > 0), (i, j)
