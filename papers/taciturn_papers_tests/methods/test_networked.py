"""Random-walk ADMM and gradient tracking: the certified optimum, caps, what is refused."""

import math

import numpy as np
import pytest

from taciturn.engine import plan, run
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient
from taciturn.network import grid, metropolis, ring, uniform_walk
from taciturn.problems import L2, ElasticNet, Logistic, Problem, Squared, minimise, public_facts
from taciturn_papers.methods import RWADMM, DIGing
from taciturn_papers_tests.made_up import make_shards

LASSO = Problem(Squared(), ElasticNet(0.02, 0.05))
LOGISTIC = Problem(Logistic(), L2(0.05))
SHARDS = make_shards(agents=8, records=15, features=4, seed=2)


def planned(algorithm, problem, shards, network, rounds, *, epsilon, clip):
    return plan(
        public_facts(problem, shards, clip=clip), algorithm, (Gradient(problem.loss, clip),),
        Terms(epsilon, 1e-5, Adjacency(ReplaceOne(), "record"), Messages()), rounds=rounds,
        precision="float64", network=network,
    )  # fmt: skip


def noiseless_model(algorithm, problem, network, rounds):
    exact = planned(algorithm, problem, SHARDS, network, rounds, epsilon=math.inf, clip=math.inf)
    return run(exact, SHARDS, runtime="simulate").model


def test_the_random_walk_admm_reaches_the_optimum_where_degrees_differ():
    walk = uniform_walk(grid(2, 4), 20_000, seed=0)
    model, truth = (
        noiseless_model(RWADMM(LASSO), LASSO, walk, 20_000),
        minimise(LASSO, SHARDS, tol=1e-10),
    )
    assert np.linalg.norm(model - truth.w) <= 1e-8 * np.linalg.norm(truth.w)
    with pytest.raises(InputError, match=r"below .* = 1 / L"):
        planned(RWADMM(LOGISTIC, step=9.0), LOGISTIC, SHARDS, walk, 20_000, epsilon=1.0, clip=1.0)


def test_gradient_tracking_reaches_the_optimum_of_smooth_problems():
    smooth = Problem(Squared())
    model = noiseless_model(DIGing(smooth), smooth, metropolis(ring(8)).lazy, 3000)
    truth = minimise(smooth, SHARDS, tol=1e-10)
    assert np.linalg.norm(model - truth.w) <= 1e-8 * np.linalg.norm(truth.w)
    with pytest.raises(InputError, match="takes no regulariser"):
        DIGing(LOGISTIC)
