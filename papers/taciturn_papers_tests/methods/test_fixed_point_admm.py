"""ADMM as a fixed-point iteration: the certified optimum, the paper's own rounds, what it costs."""

import math

import jax
import numpy as np
import pytest

from taciturn.engine import plan, run
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Sum, Terms
from taciturn.kernel.questions import ProximalStep
from taciturn.network import ring, spanning_tree
from taciturn.problems import L2, ElasticNet, Logistic, Problem, minimise, public_facts
from taciturn_papers.methods import FixedPointADMM
from taciturn_papers_tests.made_up import make_shards

RHO, ROUNDS = 0.5, 5
ALONE = Problem(Logistic())
SHARDS = make_shards(agents=6, records=15, features=4, seed=2)


def planned(problem, *, rounds=ROUNDS, epsilon=math.inf, observer=None, network=None):
    return plan(
        public_facts(problem, SHARDS, clip=1.0), FixedPointADMM(problem, RHO),
        (ProximalStep(ALONE, 1.0, RHO, 1.0, 1e-12),),
        Terms(epsilon, 1e-5, Adjacency(ReplaceOne(), "record"), observer or Messages()),
        rounds=rounds, precision="float64", network=network,
    )  # fmt: skip


@pytest.mark.parametrize(
    "problem",
    [
        Problem(Logistic(), L2(0.05)),
        pytest.param(Problem(Logistic(), ElasticNet(0.02, 0.05)), marks=pytest.mark.slow),
    ],
    ids=["smooth", "sparse"],
)
def test_without_noise_it_reaches_the_certified_optimum(problem):
    best = minimise(problem, SHARDS, tol=1e-10)
    model = run(planned(problem, rounds=150), SHARDS, runtime="simulate", seed=0).model
    np.testing.assert_allclose(model, best.w, atol=1e-7)


def test_rounds_are_those_of_the_paper_and_cost_what_their_answers_cost():
    problem = Problem(Logistic(), L2(0.05))
    noised = planned(problem, epsilon=3.0)
    assert noised.certificate.mu == pytest.approx(math.sqrt(ROUNDS) / noised.multiplier, rel=1e-3)
    done = run(noised, SHARDS, runtime="simulate", seed=0, keep=frozenset({"answers", "models"}))
    u, z = np.zeros((6, 4)), np.zeros(4)
    for turn in range(ROUNDS):
        x = np.asarray(done.trace.records.answer)[turn].reshape(6, 4)
        u += 2 * 0.5 * (x - z)
        z = u.mean(axis=0) / (1 + 0.05 / RHO)
        np.testing.assert_allclose(np.asarray(done.trace.models)[turn], z, atol=1e-12)


def test_nothing_is_credited_to_summation_and_a_tree_does_without_an_aggregator():
    problem = Problem(Logistic(), L2(0.05))
    summed = planned(problem, epsilon=3.0, observer=Sum(1))
    assert not summed.program.summed
    assert summed.certificate.epsilon == pytest.approx(3.0)
    models = [
        run(planned(problem, network=network), SHARDS, runtime="simulate", seed=0).model
        for network in (None, spanning_tree(ring(6)))
    ]
    np.testing.assert_allclose(*models, atol=1e-12)
    assert not jax.numpy.isnan(models[0]).any()


def test_a_relaxation_beyond_1_is_refused():
    with pytest.raises(InputError, match="relaxation"):
        FixedPointADMM(ALONE, RHO, 1.5)
