"""DECOR: its certificate against attackers who subtract what they know, and where it ends."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.calibration import mu_of
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient, Point
from taciturn.network import complete, metropolis, path, ring
from taciturn.problems import L2, Logistic, Problem, minimise
from taciturn_papers.methods import CorrelatedNoise, calibrated, decor
from taciturn_papers_tests.made_up import make_shards

AGENTS, DRAWS = 5, 40_000
UNEVEN = np.array([1.0, 0.5, 2.0, 1.0, 0.25])
SHARDS = make_shards(agents=AGENTS, records=15, features=4, seed=2)
PROBLEM = Problem(Logistic(), L2(0.05))


def realised(noise, agent, coalition, sensitivity):
    """The mu of the best attacker of one round, from the noise that is really added.

    Its statistic weighs what it sees, less what the coalition knows, by the inverse covariance that
    it estimates; mu is how far a record moves it, in its own standard deviations.
    """
    draw = np.random.default_rng(0)
    local, pairs = noise.drawn(draw, DRAWS)
    first, second = noise.graph.edges.T
    known = np.isin(first, coalition) | np.isin(second, coalition)
    honest = [one for one in range(AGENTS) if one not in coalition]
    seen = noise.added(local, pairs) - noise.added(0 * local, pairs * known[:, None])
    covariance = np.cov(seen[honest])
    shift = sensitivity * (np.array(honest) == agent)
    return math.sqrt(shift @ np.linalg.solve(covariance, shift))


@pytest.mark.slow
@pytest.mark.parametrize("graph", [ring(AGENTS), path(AGENTS)], ids=["ring", "path"])
@pytest.mark.parametrize("colluders", [0, 1, 2])
def test_no_attacker_has_more_than_the_certificate_and_the_best_has_nearly_all(graph, colluders):
    noise = CorrelatedNoise(graph, 1.0, 3.0)
    certified = noise.mu(UNEVEN, 1, colluders=colluders)
    for agent in range(AGENTS):
        others = [one for one in range(AGENTS) if one != agent]
        found = [realised(noise, agent, coalition, UNEVEN[agent])
                 for coalition in itertools.combinations(others, colluders)]  # fmt: skip
        assert 0.97 * certified[agent] < max(found) < 1.03 * certified[agent]


def test_a_certificate_that_forgets_what_a_participant_knows_is_exceeded():
    """The planted fault: the pairs of a colluder are counted on."""
    noise = CorrelatedNoise(ring(AGENTS), 1.0, 3.0)
    forgetful = noise.mu(UNEVEN, 1, colluders=0)
    assert realised(noise, 0, (1,), UNEVEN[0]) > 1.1 * forgetful[0]


def test_pairs_that_do_not_cancel_are_seen_in_the_mean(monkeypatch):
    """The planted fault: both of a pair add it."""
    noise = CorrelatedNoise(ring(AGENTS), 1.0, 3.0)

    def of_mean():
        return np.std(np.mean(noise.added(*noise.drawn(np.random.default_rng(1), DRAWS)), axis=0))

    assert of_mean() == pytest.approx(1 / math.sqrt(AGENTS), rel=0.02)
    monkeypatch.setattr(np, "subtract", np.add)
    assert of_mean() > 2 / math.sqrt(AGENTS)


def test_mu_is_that_of_the_inverse_covariance_written_out():
    """On two honest agents: (Sigma^-1)_ii = (s^2 + tau^2) / (s^2 (s^2 + 2 tau^2))."""
    noise = CorrelatedNoise(complete(3), 0.7, 2.0)
    s, t = 0.7**2, 2.0**2
    written = np.sqrt(10 * (s + t) / (s * (s + 2 * t)))
    np.testing.assert_allclose(noise.mu(np.ones(3), 10, colluders=1), written, rtol=1e-12)
    alone = CorrelatedNoise(complete(3), 0.7, 0.0)
    np.testing.assert_allclose(alone.mu(UNEVEN[:3], 4, colluders=1), 2 * UNEVEN[:3] / 0.7)
    # with pairs that hide all, what is left is the noise of the mean of the honest
    hidden = CorrelatedNoise(complete(4), 1.0, 1e4)
    np.testing.assert_allclose(hidden.mu(np.ones(4), 1, colluders=1), 1 / math.sqrt(3), rtol=1e-6)


def test_calibrated_noise_costs_its_budget_and_is_less_than_without_pairs():
    mixing, mu = metropolis(ring(8)), mu_of(1.0, 1e-5)
    noise = calibrated(mixing, np.full(8, 0.01), mu, 90, colluders=1)
    assert np.max(noise.mu(np.full(8, 0.01), 90, colluders=1)) == pytest.approx(mu, rel=1e-12)
    independent = 0.01 * math.sqrt(90) / mu
    assert 1 / math.sqrt(7) < noise.local / independent < 0.6


def gradients_of(problem):
    oracle = Gradient(problem.loss, 1.0)
    counts = jnp.asarray(SHARDS.counts, jnp.float64)

    @jax.jit
    def answers(models):
        return jax.vmap(lambda one, count, x: oracle.exact(one, count, Point(x)))(
            SHARDS.stacked, counts, models
        )

    return lambda models: np.asarray(answers(jnp.asarray(models)))


@pytest.mark.slow
def test_with_hardly_any_noise_and_small_steps_it_reaches_the_certified_optimum():
    best = minimise(PROBLEM, SHARDS, tol=1e-10)
    means = decor(
        gradients_of(PROBLEM), lambda v, step: np.asarray(PROBLEM.prox(jnp.asarray(v), step)),
        metropolis(complete(AGENTS)), CorrelatedNoise(complete(AGENTS), 1e-9, 1e-9),
        step=0.5, rounds=400, start=np.zeros(4), seed=0,
    )  # fmt: skip
    np.testing.assert_allclose(means[-1], best.w, atol=2e-3)
    assert np.linalg.norm(means[0] - best.w) > 0.1


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CorrelatedNoise(ring(4), 0.0, 1.0), "local"),
        (lambda: CorrelatedNoise(ring(4), 1.0, -1.0), "pair is -1"),
        (
            lambda: CorrelatedNoise(ring(4), 1.0, 1.0).mu(np.ones(4), 1, colluders=3),
            "another one is honest",
        ),
        (lambda: CorrelatedNoise(ring(40), 1.0, 1.0).mu(np.ones(40), 1, colluders=9), "coalitions"),
    ],
)
def test_what_cannot_be_certified_is_refused(make, text):
    with pytest.raises(InputError, match=text):
        make()
