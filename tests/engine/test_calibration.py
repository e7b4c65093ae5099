"""The noise of a plan: its certificate is within the budget, and close to it."""

import math

import numpy as np
import pytest

from taciturn.algorithms import NoisyGradient
from taciturn.engine import plan
from taciturn.errors import PrivacyError
from taciturn.kernel.privacy import Adjacency, Laplace, Messages, ReplaceOne, Terms, ZeroOut
from taciturn.kernel.questions import Gradient, MinibatchGradient
from taciturn.problems import Logistic, Problem, facts_from

PROBLEM = Problem(Logistic())
CLOSE = 1e-6
# the search for the multiplier ended where the certificate was above the budget by 3.1e-8
OVERSHOT = (
    0.02317868891267864, 5125, 0.06711938486691368, 0.0004919224950758323, ReplaceOne(), None, 30,
)  # fmt: skip


def planned(rate, rounds, epsilon, delta, relation, law, columns, multiplier=None):
    return plan(
        facts_from(PROBLEM, (500,) * 10, features=columns, record_norm=1.0, clip=1.0),
        NoisyGradient(PROBLEM), (MinibatchGradient(PROBLEM.loss, 1.0, rate),),
        Terms(epsilon, delta, Adjacency(relation, "record"), Messages()), rounds=rounds,
        precision="float64", mechanism=law, multiplier=multiplier,
    )  # fmt: skip


def drawn(seed, *, quick=False):
    """Return a random sampled plan's settings; quick ones have an accountant that takes 0.3 s."""
    random = np.random.default_rng(seed)

    def between(least, most):
        return math.exp(random.uniform(math.log(least), math.log(most)))

    removed = bool(random.random() < 0.5)
    laplace = removed and (quick or bool(random.random() < 0.4))
    return (
        between(5e-3 if quick else 5e-4, 0.9), int(between(300 if quick else 1, 8_000)),
        between(0.03, 0.6 if quick else 8.0), between(1e-9, 1e-3),
        ZeroOut() if removed else ReplaceOne(), Laplace() if laplace else None,
        int(random.integers(2, 120)),
    )  # fmt: skip


def assert_spends_its_budget(made, epsilon):
    assert made.certificate.epsilon <= epsilon
    assert made.certificate.epsilon >= epsilon * (1 - CLOSE)


@pytest.mark.parametrize("seed", range(3))
def test_a_sampled_plan_spends_its_budget_to_a_millionth_and_never_more(seed):
    setting = drawn(seed, quick=True)
    assert_spends_its_budget(planned(*setting), setting[2])


def test_a_search_that_ends_above_the_budget_goes_on_until_it_is_within():
    assert_spends_its_budget(planned(*OVERSHOT), OVERSHOT[2])


@pytest.mark.slow
def test_few_rounds_on_large_batches_of_long_rows_are_planned():
    assert_spends_its_budget(planned(0.0008, 7500, 0.05, 1e-7, ZeroOut(), None, 105), 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 15, 3))
def test_of_many_random_sampled_plans_all_spend_their_budget_to_a_millionth(start):
    for seed in range(start, start + 3):
        setting = drawn(1_000 + seed)
        assert_spends_its_budget(planned(*setting), setting[2])


def test_the_multiplier_of_an_earlier_plan_gives_the_same_noise():
    first = planned(*OVERSHOT)
    again = planned(*OVERSHOT, multiplier=first.multiplier)
    assert again.multiplier == first.multiplier
    assert again.certificate == first.certificate


def test_the_multiplier_of_a_plan_on_another_lattice_is_raised_by_its_rounding():
    first = planned(*OVERSHOT)
    less = first.multiplier * (1 - 2e-6)
    again = planned(*OVERSHOT, multiplier=less)
    assert less < again.multiplier < less * (1 + 1e-5)
    assert again.certificate.epsilon <= OVERSHOT[2]


def test_a_multiplier_that_is_too_small_is_refused_and_a_larger_one_is_kept():
    first = planned(*OVERSHOT)
    with pytest.raises(PrivacyError, match="would spend epsilon"):
        planned(*OVERSHOT, multiplier=first.multiplier * 0.999)
    with pytest.raises(PrivacyError, match="would spend epsilon"):
        planned(*OVERSHOT, multiplier=0.0)
    more = planned(*OVERSHOT, multiplier=1.5 * first.multiplier)
    assert more.multiplier == 1.5 * first.multiplier


def test_gaussian_answers_on_all_records_keep_the_noise_of_the_exact_curve():
    for epsilon in (0.01, 0.3, 1.0, 8.0, 40.0):
        made = plan(
            facts_from(PROBLEM, (500,) * 10, features=30, record_norm=1.0, clip=1.0),
            NoisyGradient(PROBLEM), (Gradient(PROBLEM.loss, 1.0),),
            Terms(epsilon, 1e-6, Adjacency(ReplaceOne(), "record"), Messages()), rounds=50,
            precision="float64",
        )  # fmt: skip
        assert_spends_its_budget(made, epsilon)
