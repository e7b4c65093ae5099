"""Law 5 on sampled batches: a lower bound on epsilon from outputs, below what is certified."""

import math

import numpy as np
import pytest
from scipy import stats

from taciturn.audit import audit_sampled, epsilon_lower_bound
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, ReplaceOne, ZeroOut

RELATIONS = [ReplaceOne(), ZeroOut()]


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
def test_dp_sgd_stays_below_its_certificate_and_is_seen_to_spend_some_of_it(relation):
    # 2,000 runs prove 0.2 to 0.7 of it, by the seed
    seen = audit_sampled(Adjacency(relation, "record"), rate=0.2, epsilon=2.0, runs=20_000, seed=0)
    assert seen.consistent
    assert seen.claimed == pytest.approx(2.0, rel=1e-4)
    assert 0.4 < seen.epsilon < 2.0


@pytest.mark.parametrize("relation", RELATIONS)
def test_amplification_claimed_for_a_full_batch_is_caught(relation):
    adjacency = Adjacency(relation, "record")
    seen = audit_sampled(adjacency, rate=0.2, epsilon=2.0, runs=2000, seed=0, fault="full-batch")
    assert not seen.consistent
    assert seen.epsilon > 1.2 * seen.claimed


def test_at_rate_one_the_attack_is_that_on_plain_noise():
    adjacency = Adjacency(ReplaceOne(), "record")
    seen = audit_sampled(adjacency, rate=1.0, epsilon=2.0, runs=2000, seed=0)
    assert seen.consistent
    assert seen.epsilon > 0.4


def test_the_bound_covers_the_truth_at_its_confidence():
    """Randomised response: epsilon is log 3, and at most 5 % of 400 bounds exceed it."""
    draw = np.random.default_rng(0)
    bounds = [
        epsilon_lower_bound(
            draw.choice([1.0, -1.0], 300, p=[0.75, 0.25]),
            draw.choice([1.0, -1.0], 300, p=[0.25, 0.75]),
            delta=1e-5, threshold=0.0, confidence=0.95,
        )
        for _ in range(400)
    ]  # fmt: skip
    assert sum(bound > math.log(3) for bound in bounds) <= 20
    assert np.mean(bounds) > 0.6


def test_the_bound_matches_clopper_pearson_by_another_route():
    first = np.r_[np.full(80, 1.0), np.full(20, -1.0)]
    second = np.r_[np.full(90, -0.5), np.full(10, 1.0)]
    low = stats.binomtest(80, 100).proportion_ci(0.975, "exact").low
    high = stats.binomtest(10, 100).proportion_ci(0.975, "exact").high
    truth = math.log((low - 0.01) / high)
    ours = epsilon_lower_bound(first, second, delta=0.01, threshold=0.7, confidence=0.95)
    assert ours == pytest.approx(truth, rel=1e-9)
    # a useless attacker proves no epsilon, and a backwards one neither
    scores = np.random.default_rng(0).normal(size=(2, 200))
    options = {"delta": 1e-5, "threshold": 0.0, "confidence": 0.95}
    assert epsilon_lower_bound(*scores, **options) == 0.0
    assert epsilon_lower_bound(np.full(99, -1.0), np.full(99, 1.0), **options) == 0.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"runs": 10**9}, "at most"), ({"epsilon": math.inf}, "finite"), ({"rate": 0.0}, "rate")],
)
def test_an_impossible_attack_on_batches_names_the_limit(changes, words):
    options = {"rate": 0.2, "epsilon": 2.0, "runs": 10, "seed": 0} | changes
    with pytest.raises(InputError, match=words):
        audit_sampled(Adjacency(ReplaceOne(), "record"), **options)
