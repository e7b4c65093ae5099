"""Methods of papers: the certified optimum, the papers' own rounds, what they cost and refuse."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from taciturn.engine import plan, run
from taciturn.errors import InputError
from taciturn.kernel.privacy import Messages, Sum, Terms
from taciturn.kernel.questions import Gradient, PerturbedStep, ProximalStep
from taciturn.network import complete, grid, metropolis, ring, spanning_tree, uniform_walk
from taciturn.problems import L1, L2, ElasticNet, Logistic, Problem, Squared, minimise, public_facts
from taciturn_papers.methods import RWADMM, DIGing, FixedPointADMM, GossipADMM, RecycledADMM
from taciturn_papers_tests.made_up import make_shards

RHO = 0.5
SMOOTH = Problem(Logistic(), L2(0.05))
SPARSE = Problem(Logistic(), ElasticNet(0.02, 0.05))
LASSO = Problem(Squared(), ElasticNet(0.02, 0.05))
SHARDS = make_shards(agents=8, records=15, features=4, seed=2)


def planned(algorithm, network, rounds, *, oracle=None, epsilon=math.inf, shards=SHARDS, **terms):
    problem = algorithm.problem
    clip = math.inf if math.isinf(epsilon) else 1.0
    clip = oracle.assumptions.coefficient_bound if oracle else clip
    return plan(
        public_facts(problem, shards, clip=clip), algorithm,
        (oracle or Gradient(problem.loss, clip),), Terms(epsilon, 1e-5, **terms), rounds=rounds,
        precision="float64", network=network,
    )  # fmt: skip


def ran(*given, keep=(), shards=SHARDS, **settings):
    made = planned(*given, shards=shards, **settings)
    return run(made, shards, runtime="simulate", seed=0, keep=frozenset(keep))


def exact_step(problem, tol=1e-12):
    return ProximalStep(problem, 1.0, RHO, 1.0, tol)


WALK, MIXING = uniform_walk(grid(2, 4), 20_000, seed=0), metropolis(grid(2, 4))
CONVERGES = {
    "random walk": (RWADMM(LASSO), WALK, 20_000, None),
    "gradient tracking": (DIGing(Problem(Squared())), metropolis(ring(8)).lazy, 3000, None),
    "gossip, smooth": (GossipADMM(SMOOTH, RHO), MIXING, 800, exact_step(SMOOTH)),
    "gossip, sparse": (GossipADMM(SPARSE, RHO), MIXING, 800, exact_step(SPARSE)),
    "recycled": (RecycledADMM(SMOOTH, RHO), MIXING, 800, exact_step(SMOOTH)),
    "fixed point": (FixedPointADMM(SPARSE, RHO), None, 400, exact_step(Problem(Logistic()))),
}


@pytest.mark.parametrize("name", CONVERGES)
def test_without_noise_it_reaches_the_certified_optimum(name):
    algorithm, network, rounds, oracle = CONVERGES[name]
    model = ran(algorithm, network, rounds, oracle=oracle).model
    truth = minimise(algorithm.problem, SHARDS, tol=1e-10)
    gap = float(algorithm.problem.objective(jnp.asarray(model), SHARDS)) - truth.value
    assert abs(gap) <= 1e-8 * truth.value
    assert np.linalg.norm(model - truth.w) <= 1e-7 * np.linalg.norm(truth.w)


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


def test_rounds_of_gossip_are_those_of_zhang_and_zhu():
    shards = make_shards(agents=3, records=6, features=2, seed=5)
    mixing, oracle = metropolis(complete(3)), exact_step(SMOOTH)  # weights 1/3
    done = ran(GossipADMM(SMOOTH, RHO), mixing, 3, oracle=oracle, shards=shards, keep=["messages"])
    eta, weight = RHO / 2, 1 / 3
    x, duals = np.zeros((3, 2)), np.zeros((3, 2))
    for k in range(3):
        duals = duals + eta / 2 * weight * (3 * x - np.sum(x, axis=0))
        x = np.array([zhang_and_zhu_step(shards, i, x, duals[i], eta, weight) for i in range(3)])
        np.testing.assert_allclose(np.asarray(done.trace.messages)[k], x, atol=1e-6)


def test_recycled_rounds_ask_nothing_and_cost_nothing():
    step, mixing = exact_step(SMOOTH, 1e-6), metropolis(ring(8))
    private = {"oracle": step, "epsilon": 1.0}
    recycled = ran(RecycledADMM(SMOOTH, RHO), mixing, 20, keep=["messages"], **private)
    plain = planned(GossipADMM(SMOOTH, RHO), mixing, 10, **private)
    asked = recycled.ledger.asked
    assert np.all(asked[:, ::2])
    assert not np.any(asked[:, 1::2])
    scale = recycled.ledger.scale[asked]
    np.testing.assert_allclose(scale, plain.ledger.scale.ravel()[: scale.size])
    messages = np.asarray(recycled.trace.messages)
    assert np.max(np.abs(messages[1] - messages[0])) > 0


def test_dual_variable_perturbation_runs_by_gossip():
    oracle = PerturbedStep(ProximalStep(SMOOTH, 0.5, 1.0, 1.0, 1e-6))
    made = planned(GossipADMM(SMOOTH, 1.0), metropolis(ring(8)), 4, oracle=oracle, epsilon=3.0)
    assert made.certificate.mu is None
    assert made.certificate.epsilon == pytest.approx(3.0, rel=1e-3)
    assert np.all(np.isfinite(run(made, SHARDS, runtime="simulate", seed=0).model))


def test_rounds_of_the_fixed_point_are_those_of_the_paper_and_cost_what_their_answers_cost():
    algorithm, oracle = FixedPointADMM(SMOOTH, RHO), exact_step(Problem(Logistic()))
    noised = planned(algorithm, None, 5, oracle=oracle, epsilon=3.0, observer=Messages())
    assert noised.certificate.mu == pytest.approx(math.sqrt(5) / noised.multiplier, rel=1e-3)
    done = run(noised, SHARDS, runtime="simulate", seed=0, keep=frozenset({"answers", "models"}))
    u, z = np.zeros((8, 4)), np.zeros(4)
    for turn in range(5):
        x = np.asarray(done.trace.records.answer)[turn].reshape(8, 4)
        u += 2 * 0.5 * (x - z)
        z = u.mean(axis=0) / (1 + 0.05 / RHO)
        np.testing.assert_allclose(np.asarray(done.trace.models)[turn], z, atol=1e-12)
    # nothing is credited to summation, and a tree does without an aggregator
    summed = planned(algorithm, None, 5, oracle=oracle, epsilon=3.0, observer=Sum(1))
    assert not summed.program.summed
    assert summed.certificate.epsilon == pytest.approx(3.0)
    models = [ran(algorithm, n, 5, oracle=oracle).model for n in (None, spanning_tree(ring(8)))]
    np.testing.assert_allclose(*models, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RecycledADMM(SPARSE, RHO), "smooth regulariser"),
        (lambda: GossipADMM(Problem(Logistic(), L1(0.1)), -1.0), "rho"),
        (lambda: DIGing(SMOOTH), "takes no regulariser"),
        (lambda: FixedPointADMM(SMOOTH, RHO, 1.5), "relaxation"),
        (lambda: planned(RWADMM(SMOOTH, step=9.0), WALK, 20_000, epsilon=1.0), r"below .* = 1 / L"),
    ],
)
def test_settings_that_do_not_suit_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
