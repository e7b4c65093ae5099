"""Theorems 5.3 to 5.5 of Ryu & Kim: the numbers, and that they hold above measured means."""

import math

import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn_papers.as_published import (
    RateFacts,
    nonsmooth_bound,
    smooth_bound,
    strongly_convex_bound,
)
from taciturn_papers.reproductions.portions import Portions
from taciturn_papers.reproductions.ryu2023 import theorems
from taciturn_papers.reproductions.ryu2023.settings import Scale

SMALL = Scale("quick", (), (), 60, 30)


@pytest.fixture(scope="module")
def found():
    return Portions().done(theorems.bounded(SMALL))


def test_the_bounds_hold_above_the_measured_means(found):
    assert [one.theorem for one in found[::2]] == list(theorems.BOUNDS)
    for one in found:
        bound = np.array([one.bound(int(t), stacked=True).mean for t in one.rounds])
        assert np.all(one.left.mean(axis=0) <= bound)
        assert one.left[:, -1].mean() < 0.5 * one.left[:, 0].mean()
    claims = theorems.orderings(found)
    assert {claim.verdict for claim in claims} == {"comes out"}


def test_gamma_is_at_least_twice_the_optimal_dual_and_bounds_every_dual_of_theorem_5_5(found):
    x, y = theorems.instance()
    best = np.linalg.lstsq(x.reshape(-1, 2), y.ravel(), rcond=None)[0]
    assert np.all(np.abs(best) < 1)  # interior: the optimal duals are the gradients
    duals = [x[p].T @ (x[p] @ best - y[p]) / y.size for p in range(len(x))]
    for one in found:
        assert one.facts.gamma >= 2 * np.linalg.norm(duals) * (1 - 1e-9)
    assert found[-1].facts.gamma > found[0].facts.gamma
    assert max(np.linalg.norm(x, axis=2).max(), np.abs(y).max()) <= 1


def test_the_numbers_are_those_of_the_formulas():
    facts = RateFacts(
        agents=2, dimension=3, local_updates=4, slope=0.5, diameter=6.0, variance=0.25,
        per_update=0.5, rho_first=2.0, rho_last=3.0, gamma=1.5, smoothness=8.0,
        strong_convexity=0.5,
    )  # fmt: skip
    u3 = 0.25 * 0.5**2
    first = (3 * 2 * u3 + 36 / 8) / (0.5 * 10) + (36 * (3 + 8 / 4) + 1.5**2 / 2) / 200
    second = (3 * 2 * 0.25 + 2 * 0.25 + 36 / 8) / 10 + (36 * 3 + 1.5**2 / 2 + 2 * 1.5 * 6) / 200
    third = 2 * 6 * 1.5 + 36 * 3 + 4 * 1.5**2 / 2 + 0.5 * 36 / 8 + 4 * (0.25 + 3 * 0.25) / 0.5
    assert smooth_bound(facts, 100) == pytest.approx(first)
    assert nonsmooth_bound(facts, 100) == pytest.approx(second)
    assert strongly_convex_bound(facts, 100) == pytest.approx(third / 101)


def test_missing_hypotheses_are_named():
    facts = RateFacts(
        agents=2, dimension=3, local_updates=4, slope=0.5, diameter=6.0, variance=0.0,
        per_update=math.inf, rho_first=2.0, rho_last=3.0, gamma=1.5,
    )  # fmt: skip
    with pytest.raises(InputError, match="smoothness"):
        smooth_bound(facts, 10)
    with pytest.raises(InputError, match="strong convexity"):
        strongly_convex_bound(facts, 10)
