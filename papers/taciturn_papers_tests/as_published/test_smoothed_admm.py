"""DP-VRADMM and DP-SADMM as printed, beside the sound forms and formulas written out."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.algorithms import SADMM, VRADMM, variance_reduction
from taciturn.engine import plan, run
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient
from taciturn.problems import (
    Logistic,
    NoRegulariser,
    Problem,
    WholeSpace,
    fused_lasso,
    lasso,
    public_facts,
)
from taciturn_papers.as_published import Constants, PublishedADMM, graph_smoother, smoother
from taciturn_papers.as_published.smoothed_admm import poisson
from taciturn_papers_tests.made_up import make_shards

EDGES = np.array([[0, 1], [1, 2], [3, 4]])


def constants(noise=0.0, rho=1.0, norm=0.0, step=1.0):
    return Constants(*jnp.array([[noise], [rho], [norm], [step]]))


def sound(problem, shards, algorithm, oracles, rounds):
    bare = Problem(problem.loss, NoRegulariser(), WholeSpace())
    facts = public_facts(bare, shards, clip=math.inf)
    terms = Terms(math.inf, 1e-5, Adjacency(ReplaceOne(), "record"), Messages())
    made = plan(facts, algorithm, oracles, terms, rounds=rounds, precision="float64")
    return np.asarray(run(made, shards, runtime="simulate", keep=frozenset()).model)


@pytest.mark.parametrize("strength", [0.0, 2.0])
def test_on_all_records_without_noise_the_printed_methods_are_those_of_the_library(strength):
    shards = make_shards(agents=1, records=30, features=5)
    problem = fused_lasso(Logistic(), EDGES, 5, weight=0.02)
    matrix = jnp.asarray(smoother(5, strength))
    given = constants(rho=0.3, norm=problem.forward.norm_squared())
    plain = PublishedADMM(problem, "sadmm", 30, 10, 2, matrix, 1 + 4 * strength)
    ours = plain.run(shards.shard(0), given, [0])[0, 0]
    algorithm = SADMM(problem, strength, rho=0.3, step_rule="published")
    theirs = sound(problem, shards, algorithm, (Gradient(Logistic(), math.inf),), 20)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    oracles, noise = variance_reduction(
        Logistic(), clip=math.inf, spread=math.inf, rate=1.0, inner=10
    )
    reduced = VRADMM(
        problem, strength, rho=0.3, step_rule="published", inner=10, snapshot_noise=noise
    )
    theirs = sound(problem, shards, reduced, oracles, 22)
    ours = dataclasses.replace(plain, method="vradmm").run(shards.shard(0), given, [0])[0, 0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_the_strongly_convex_forms_follow_their_formulas():
    shards = make_shards(agents=1, records=20, features=3)
    problem, rho, ridge = lasso(Logistic(), 3, weight=0.1, ridge=0.5), 0.2, 0.5
    rows, targets = (np.asarray(part[0]) for part in
                     (shards.stacked.features, shards.stacked.targets))  # fmt: skip

    def slope(x):
        return -(targets / (1 + np.exp(targets * (rows @ x)))) @ rows / 20 + ridge * x

    def step(x, dual, eta):
        y = np.sign(x + dual) * np.maximum(abs(x + dual) - 0.1 / rho, 0)
        new = x - eta * (slope(x) + rho * (x - y + dual))
        return new, dual + new - y

    x, dual, seen = np.zeros(3), np.zeros(3), []
    for t in range(4):  # gamma = 1: eta = 2 / (mu (t + 1)), mean weighted by t
        x, dual = step(x, dual, 2 / (ridge * (t + 1)))
        seen.append((t + 1) * x)
    plain = PublishedADMM(problem, "sadmm", 20, 4, 1).run(shards.shard(0), constants(rho=rho), [0])
    np.testing.assert_allclose(plain[0, 0], np.sum(seen, axis=0) / 10, rtol=1e-4, atol=1e-6)
    anchor = np.zeros(3)
    for _ in range(2):  # both epochs begin at the anchor and the multiplier there
        x, dual, seen = anchor, -slope(anchor) / rho, []
        for _ in range(4):
            x, dual = step(x, dual, 0.7)
            seen.append(x)
        anchor = np.mean(seen, axis=0)
    reduced = PublishedADMM(problem, "vradmm", 20, 4, 2)
    found = reduced.run(shards.shard(0), constants(rho=rho, step=0.7), [0])[0, 0]
    np.testing.assert_allclose(found, anchor, rtol=1e-4, atol=1e-6)


def test_one_noise_of_the_given_deviation_is_added_to_a_step_of_both_methods():
    shards = make_shards(agents=1, records=20, features=3)
    problem, seeds = lasso(Logistic(), 3, weight=1e-6), range(400)
    for method in ("sadmm", "vradmm"):
        one = PublishedADMM(problem, method, 20, 1, 1)
        noisy = one.run(shards.shard(0), constants(noise=0.3, rho=1e-3), seeds)[0]
        quiet = one.run(shards.shard(0), constants(rho=1e-3), [0])[0, 0]
        assert np.std(noisy - quiet) == pytest.approx(0.3, rel=0.1)


def test_batches_hold_each_record_with_the_same_probability_and_none_twice():
    drawn = poisson(1000, 10, 2000, [0])
    sizes = drawn.taken[0].sum(axis=1)
    assert sizes.mean() == pytest.approx(10, abs=0.3)
    assert sizes.var() == pytest.approx(9.9, rel=0.15)
    for row in drawn.places[0, :50]:
        assert len(set(row.tolist())) == len(row)
    often = np.bincount(drawn.places[0][drawn.taken[0]], minlength=1000)
    assert often.var() == pytest.approx(20 * 0.99, rel=0.2)
    crowded = poisson(12, 9, 5, [1])
    assert all(len(set(row.tolist())) == len(row) for row in crowded.places[0])


def test_smoothing_along_the_ring_is_the_fourier_formula_and_a_graph_keeps_the_mean():
    waves = 1 / (1 + 2 * 1.5 * (1 - np.cos(2 * math.pi * np.arange(7) / 7)))
    x = np.random.default_rng(0).standard_normal(7)
    np.testing.assert_allclose(
        smoother(7, 1.5) @ x, np.fft.ifft(np.fft.fft(x) * waves).real, atol=1e-12
    )
    kept = graph_smoother(EDGES, 5, 3.0) @ x[:5]
    assert kept[:3].mean() == pytest.approx(x[:3].mean())
    assert kept[:3].std() < x[:3].std()
