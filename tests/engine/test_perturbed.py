"""Noise inside the objective: what is computed, what is planned, what an attack sees."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_shards, make_terms
from taciturn.algorithms import ADMM, at_agents
from taciturn.audit import audit_perturbed
from taciturn.engine import run
from taciturn.engine.credit import credits_summation
from taciturn.engine.planning import plan
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    Inside,
    Laplace,
    Ledger,
    Messages,
    PerturbedAnswer,
    ReplaceOne,
    Sum,
    Terms,
    account,
)
from taciturn.kernel.questions import Centre, OnLattice, PerturbedStep, ProximalStep
from taciturn.problems import L1, L2, Logistic, Problem, WholeSpace, public_facts

RHO = 2.0
PROBLEM = Problem(Logistic(), L2(0.1), WholeSpace())
STEP = ProximalStep(at_agents(PROBLEM, "server"), 1.0, RHO, 1.0, 1e-12)


def planned(shards, *, observer=None, rounds=5, epsilon=1.0):
    return plan(
        public_facts(PROBLEM, shards, clip=1.0),
        ADMM(PROBLEM, RHO, regulariser_at="server"),
        (PerturbedStep(STEP),),
        make_terms(epsilon, observer=observer),
        rounds=rounds,
        precision="float64",
    )


def test_the_answer_makes_the_perturbed_gradient_vanish():
    """grad f(y) + b + rho (y - v) = 0, up to the small noise on the output."""
    shard = make_shards(agents=1).shard(0)
    noise = jnp.asarray(np.random.default_rng(0).standard_normal((2, 3)))
    v = jnp.asarray([0.3, -0.2, 0.5])
    added = OnLattice(noise, None)
    y = PerturbedStep(STEP).answer(shard, None, jnp.asarray(12.0), Centre(v), added)
    y = y - 1e-3 * noise[1] / RHO
    slope = jax.grad(lambda w: PROBLEM.local_value(w, shard, 12.0))(y) + noise[0] + RHO * (y - v)
    assert float(jnp.max(jnp.abs(slope))) < 1e-10


def test_in_single_precision_only_the_release_is_rounded():
    """Rounding on the way would be a residual larger than the one that is accounted for."""
    shard = make_shards(agents=1).shard(0)
    draw = np.random.default_rng(1)
    noise, v = (draw.standard_normal(shape).astype("f") for shape in ((2, 3), 3))
    oracle = PerturbedStep(dataclasses.replace(STEP, rho=0.01))

    def answer(dtype):
        data = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32).astype(dtype), shard)
        centre = Centre(jnp.asarray(v, dtype))
        count, rounded = jnp.asarray(12, dtype), OnLattice(jnp.asarray(noise, dtype), None)
        return np.asarray(oracle.answer(data, None, count, centre, rounded))

    short, long = answer("float32"), answer("float64")
    np.testing.assert_array_equal(short, long)
    assert short.dtype == np.float64  # until the door rounds what it tells


@pytest.mark.slow
def test_the_certificate_is_that_of_the_events_of_the_worst_agent():
    shards = make_shards()
    made = planned(shards)
    jacobian = math.log1p(0.25 / (12 * RHO))
    event = PerturbedAnswer(made.multiplier, jacobian, 2 * 12 * 1e-12 / 1e-3)
    cost = account([(event, 5)], delta=1e-5, relation=ReplaceOne()).epsilon
    assert made.certificate.epsilon == pytest.approx(cost, rel=1e-9)
    assert made.certificate.epsilon == pytest.approx(1.0, rel=1e-5)
    assert made.certificate.mu is None
    assert made.ledger.scale[0, 0, 0] == pytest.approx(made.multiplier * 2 / 12)


@pytest.mark.slow
def test_a_run_leaves_the_planned_ledger_and_both_runtimes_agree():
    shards = make_shards()
    made = planned(shards)
    models = [run(made, shards, runtime=r, seed=1).model for r in ("simulate", "serial")]
    np.testing.assert_allclose(*models, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_summation_is_not_credited():
    made = planned(make_shards(), observer=Sum())
    assert not credits_summation(made.program)
    assert "inside an objective" in made.certificate.trust
    assert made.certificate.epsilon == pytest.approx(planned(make_shards()).certificate.epsilon)


@pytest.mark.slow
def test_a_budget_that_the_hessian_alone_exceeds_is_refused_with_the_fix():
    weak = PerturbedStep(dataclasses.replace(STEP, rho=0.01))
    shards = make_shards()
    with pytest.raises(InputError, match="larger rho"):
        plan(
            public_facts(PROBLEM, shards, clip=1.0),
            ADMM(PROBLEM, 0.01, regulariser_at="server"),
            (weak,),
            make_terms(0.1),
            rounds=20,
            precision="float64",
        )


@pytest.mark.parametrize(
    ("oracles", "adjacency", "words"),
    [
        ((PerturbedStep(STEP), STEP), Adjacency(ReplaceOne(), "record"), "only question"),
        ((PerturbedStep(STEP),), Adjacency(ReplaceOne(), "agent"), "one record"),
        (
            (PerturbedStep(dataclasses.replace(STEP, problem=Problem(
                Logistic(), L1(0.1), WholeSpace()))),),
            Adjacency(ReplaceOne(), "record"),
            "smooth",
        ),
    ],
)  # fmt: skip
def test_what_no_law_is_known_for_is_refused(oracles, adjacency, words):
    with pytest.raises(InputError, match=words):
        plan(
            public_facts(PROBLEM, make_shards(), clip=1.0),
            ADMM(PROBLEM, RHO, regulariser_at="server"),
            oracles,
            Terms(1.0, 1e-5, adjacency, Messages()),
            rounds=2,
            precision="float64",
        )


def test_other_noise_than_gaussian_inside_an_objective_is_refused():
    one = np.ones((1, 1, 1))
    inside = Inside(np.zeros(1), np.zeros(1))
    with pytest.raises(PrivacyError, match="Gaussian"):
        Ledger(np.zeros((1, 1, 1), int), one, one, Laplace(), inside=inside)
    with pytest.raises(PrivacyError, match="no mu"):
        Ledger(
            np.zeros((1, 1, 1), int), one, one, inside=inside, mechanism=Gaussian()
        ).mu_per_agent(Messages())


@pytest.mark.slow
def test_an_attack_stays_below_the_certificate_and_sees_some_of_it():
    seen = audit_perturbed(epsilon=4.0, runs=2000, seed=0)
    assert seen.consistent
    assert 0.5 < seen.epsilon < seen.claimed < 4.0


@pytest.mark.slow
def test_halved_noise_inside_an_objective_is_caught():
    assert not audit_perturbed(epsilon=4.0, runs=4000, seed=0, fault="halved-noise").consistent
