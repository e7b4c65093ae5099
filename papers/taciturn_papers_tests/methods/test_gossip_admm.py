"""Consensus ADMM by gossip: the certified optimum, what is asked, Zhang & Zhu's own rounds."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from taciturn.engine import plan, run
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import PerturbedStep, ProximalStep
from taciturn.network import complete, grid, metropolis, ring
from taciturn.problems import L1, L2, ElasticNet, Logistic, Problem, minimise, public_facts
from taciturn_papers.methods import GossipADMM, RecycledADMM
from taciturn_papers_tests.made_up import make_shards

RHO = 0.5
SMOOTH = Problem(Logistic(), L2(0.05))
SPARSE = Problem(Logistic(), ElasticNet(0.02, 0.05))
SHARDS = make_shards(agents=8, records=15, features=4, seed=2)


def make_terms(epsilon):
    return Terms(epsilon, 1e-5, Adjacency(ReplaceOne(), "record"), Messages())


def ran(algorithm, oracle, problem, network, rounds, *, epsilon=math.inf, shards=SHARDS):
    planned = plan(
        public_facts(problem, shards, clip=1.0), algorithm, (oracle,), make_terms(epsilon),
        rounds=rounds, precision="float64", network=network,
    )  # fmt: skip
    return run(planned, shards, runtime="simulate", seed=0, keep=frozenset({"messages"}))


def exact_step(problem, tol=1e-12):
    return ProximalStep(problem, 1.0, RHO, 1.0, tol)


GRAPHS = [
    pytest.param(ring(8), id="ring"),
    pytest.param(grid(2, 4), id="grid", marks=pytest.mark.slow),
    pytest.param(complete(8), id="all", marks=pytest.mark.slow),
]
CASES = [(GossipADMM, SMOOTH), (GossipADMM, SPARSE), (RecycledADMM, SMOOTH)]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("method", "problem"), CASES, ids=["smooth", "sparse", "recycled"])
def test_without_noise_gossip_admm_reaches_the_certified_optimum(method, problem, graph):
    done = ran(method(problem, RHO), exact_step(problem), problem, metropolis(graph), 800)
    truth = minimise(problem, SHARDS, tol=1e-10)
    gap = float(problem.objective(jnp.asarray(done.model), SHARDS)) - truth.value
    assert abs(gap) <= 1e-8 * truth.value
    assert np.linalg.norm(done.model - truth.w) <= 1e-8 * np.linalg.norm(truth.w)


def zhang_and_zhu_step(shards, i, x, dual, eta, weight):
    """Their argmin by a general solver, with the term that makes the curvature rho put in."""
    rows, y = np.asarray(shards.shard(i).features), np.asarray(shards.shard(i).targets)
    others = [j for j in range(3) if j != i]

    def value(w):
        consensus = sum(np.sum((w - (x[i] + x[j]) / 2) ** 2) for j in others)
        staying = np.sum((w - x[i]) ** 2) * (1 - 2 * weight) * RHO / 2
        fit = np.mean(np.logaddexp(0, -y * (rows @ w))) + 0.025 * w @ w
        return fit + 2 * dual @ w + eta * weight * consensus + staying

    return scipy.optimize.minimize(value, x[i], tol=1e-12).x


def test_rounds_are_those_of_zhang_and_zhu():
    shards = make_shards(agents=3, records=6, features=2, seed=5)
    mixing = metropolis(complete(3))  # weights 1/3
    done = ran(GossipADMM(SMOOTH, RHO), exact_step(SMOOTH), SMOOTH, mixing, 3, shards=shards)
    eta, weight = RHO / 2, 1 / 3
    x, duals = np.zeros((3, 2)), np.zeros((3, 2))
    for k in range(3):
        duals = duals + eta / 2 * weight * (3 * x - np.sum(x, axis=0))
        x = np.array([zhang_and_zhu_step(shards, i, x, duals[i], eta, weight) for i in range(3)])
        np.testing.assert_allclose(np.asarray(done.trace.messages)[k], x, atol=1e-6)


def test_recycled_rounds_ask_nothing_and_cost_nothing():
    step, mixing = exact_step(SMOOTH, 1e-6), metropolis(ring(8))
    recycled = ran(RecycledADMM(SMOOTH, RHO), step, SMOOTH, mixing, 20, epsilon=1.0)
    plain = ran(GossipADMM(SMOOTH, RHO), step, SMOOTH, mixing, 10, epsilon=1.0)
    asked = recycled.ledger.asked
    assert np.all(asked[:, ::2])
    assert not np.any(asked[:, 1::2])
    scale = recycled.ledger.scale[asked]
    np.testing.assert_allclose(scale, plain.ledger.scale.ravel()[: scale.size])
    messages = np.asarray(recycled.trace.messages)
    assert np.max(np.abs(messages[1] - messages[0])) > 0


@pytest.mark.slow
def test_dual_variable_perturbation_runs_by_gossip():
    oracle = ProximalStep(SMOOTH, 0.5, 1.0, 1.0, 1e-6)
    planned = plan(
        public_facts(SMOOTH, SHARDS, clip=0.5), GossipADMM(SMOOTH, 1.0), (PerturbedStep(oracle),),
        make_terms(3.0), rounds=4, precision="float64", network=metropolis(ring(8)),
    )  # fmt: skip
    assert planned.certificate.mu is None
    assert planned.certificate.epsilon == pytest.approx(3.0, rel=1e-3)
    assert np.all(np.isfinite(run(planned, SHARDS, runtime="simulate", seed=0).model))


def test_settings_that_do_not_suit_are_refused():
    with pytest.raises(InputError, match="smooth regulariser"):
        RecycledADMM(SPARSE, RHO)
    with pytest.raises(InputError, match="rho"):
        GossipADMM(Problem(Logistic(), L1(0.1)), -1.0)
