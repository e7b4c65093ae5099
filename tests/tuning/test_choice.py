"""A choice follows the exponential mechanism exactly, and reveals no more than its mu."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import chisquare

from taciturn.calibration import rate_of_choice
from taciturn.errors import InputError
from taciturn.kernel.noise import Label, Stream, exponential_choice
from taciturn.kernel.privacy import ReplaceOne, ZeroOut, mu_of_choice


def law(costs, rate):
    weights = np.exp(-rate * (np.asarray(costs, float) - min(costs)))
    return weights / weights.sum()


def drawn(costs, rate, count):
    stream = Stream(bytes(range(32)))
    exact = [Fraction(cost) for cost in costs]
    picks = [exponential_choice(stream, Label(k, 0, 0), exact, rate) for k in range(count)]
    return np.bincount(picks, minlength=len(costs))


@pytest.mark.parametrize("count", [400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_choices_are_as_frequent_as_the_law_says(count):
    costs, rate = [3, 5, 3.5, 9], 0.7
    found = drawn(costs, rate, count)
    assert chisquare(found, count * law(costs, rate)).pvalue > 1e-4
    # planted: the law of twice the rate
    assert chisquare(found, count * law(costs, 2 * rate)).pvalue < 1e-6


def test_costs_far_apart_leave_no_doubt_and_nonsense_is_refused():
    assert drawn([10**6, 0, 10**6], 0.5, 20).tolist() == [0, 20, 0]
    assert drawn([5, 10**9], 0.0, 200).min() > 60
    with pytest.raises(InputError, match="nothing to choose"):
        exponential_choice(Stream.fresh(), Label(0, 0, 0), [], 1.0)
    with pytest.raises(InputError, match="rate"):
        exponential_choice(Stream.fresh(), Label(0, 0, 0), [Fraction(1)], float("nan"))


def moves(relation, candidates, draw):
    """How one record moves the costs: a term of [0, 1] by another, or left out."""
    ends = draw.choice([0.0, 1.0, -1.0] if draw.random() < 0.7 else [0.5, -0.5, 1], candidates)
    return np.abs(ends) if isinstance(relation, ZeroOut) else ends


def worst(relation, rate, *, trials=300):
    """The largest mu that a test of two neighbouring data sets attains, over all tests."""
    draw, found = np.random.default_rng(0), 0.0
    for trial in range(trials):
        candidates = int(draw.integers(2, 6))
        costs = draw.uniform(0, 3 / rate, candidates)
        moved = moves(relation, candidates, draw)
        if trial % 3 == 0:  # two of them, around even odds
            costs, moved = np.array([0.0, 0.0]), np.array([0.5, -0.5])
            if isinstance(relation, ReplaceOne):
                moved *= 2
            else:
                moved = np.array([0.0, 1.0])
            costs = -moved / 2
        p, q = law(costs, rate), law(costs + moved, rate)
        for size in range(1, len(p)):
            for event in itertools.combinations(range(len(p)), size):
                one, other = p[list(event)].sum(), q[list(event)].sum()
                found = max(found, float(ndtri(one) - ndtri(other)))
    return found


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut()])
@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_no_test_of_a_choice_beats_its_mu_and_one_attains_it(relation, mu):
    rate = rate_of_choice(mu, relation)
    assert mu_of_choice(rate, relation) <= mu
    found = worst(relation, rate)
    assert 0.999 * mu <= found <= mu * (1 + 1e-9)
    # planted: a rate that takes a replaced term for one that is left out
    assert worst(relation, 2 * rate) > 1.3 * mu
