"""Linearised consensus ADMM by gossip: law 7, and its relation to PG-EXTRA."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_shards, make_terms
from taciturn.algorithms import EXTRA, LinearisedGossipADMM
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient
from taciturn.network import complete, grid, metropolis, ring
from taciturn.problems import (
    L2,
    ElasticNet,
    Logistic,
    NoRegulariser,
    Problem,
    WholeSpace,
    minimise,
    public_facts,
)

SMOOTH = Problem(Logistic(), L2(0.05), WholeSpace())
SPARSE = Problem(Logistic(), ElasticNet(0.02, 0.05), WholeSpace())
SHARDS = make_shards(agents=8, records=15, features=4, seed=2)


def ran(algorithm, problem, network, rounds):
    planned = plan(
        public_facts(problem, SHARDS, clip=1.0),
        algorithm,
        (Gradient(problem.loss, 1.0),),
        make_terms(math.inf),
        rounds=rounds,
        precision="float64",
        network=network,
    )
    return run(planned, SHARDS, runtime="simulate", seed=0)


GRAPHS = [
    pytest.param(ring(8), id="ring"),
    pytest.param(grid(2, 4), id="grid", marks=pytest.mark.slow),
    pytest.param(complete(8), id="all", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("problem", [SMOOTH, SPARSE], ids=["smooth", "sparse"])
def test_without_noise_linearised_gossip_admm_reaches_the_certified_optimum(problem, graph):
    done = ran(LinearisedGossipADMM(problem), problem, metropolis(graph), 800)
    truth = minimise(problem, SHARDS, tol=1e-10)
    gap = float(problem.objective(jnp.asarray(done.model), SHARDS)) - truth.value
    assert abs(gap) <= 1e-8 * truth.value
    assert np.linalg.norm(done.model - truth.w) <= 1e-8 * np.linalg.norm(truth.w)


def test_linearised_admm_without_prox_is_extra_with_half_the_weights():
    free = Problem(Logistic(), NoRegulariser(), WholeSpace())
    ours = ran(LinearisedGossipADMM(free, step=1.0), free, metropolis(ring(8)), 30)
    theirs = ran(EXTRA(free, step=1.0), free, metropolis(ring(8)).lazy, 30)
    np.testing.assert_allclose(ours.model, theirs.model, atol=1e-12)


def test_steps_beyond_the_limit_are_refused_with_it():
    with pytest.raises(InputError, match="below 5 = 5 / "):
        ran(LinearisedGossipADMM(SMOOTH, step=5.0), SMOOTH, metropolis(ring(8)), 5)
