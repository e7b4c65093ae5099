"""The published federated setting: budgets, calibration and the measure of noise."""

import math

import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn.kernel.privacy import Gaussian, Laplace
from taciturn.kernel.records import pack
from taciturn.problems import Box, MultinomialLogistic, NoRegulariser, Problem, public_facts
from taciturn_papers.claims.huang2019_thm2 import exact_epsilon
from taciturn_papers.reproductions.ryu2023.federated import PublishedRun, noise_magnitude

COUNTS = (3, 9, 8)


def chosen_run(form="objective", mechanism=None, per_update=0.5, updates=5):
    return PublishedRun(
        constants="mnist", form=form, mechanism=mechanism or Gaussian(), local_updates=updates,
        rounds=20, per_update=per_update, delta=1e-6,
    )  # fmt: skip


def planned(chosen):
    draw = np.random.default_rng(0)
    parts = np.split(np.arange(20), np.cumsum(COUNTS)[:-1])
    shards = pack(
        draw.standard_normal((20, 4)), draw.integers(0, 3, 20), parts,
        record_norm=1.0, precision="float32",
    )  # fmt: skip
    problem = Problem(MultinomialLogistic(3), NoRegulariser(), Box(-0.1, 0.1))
    return chosen.plan(problem, public_facts(problem, shards, clip=math.inf))


@pytest.mark.parametrize("form", ["objective", "output"])
def test_the_noise_is_the_papers_and_the_total_is_exact(form):
    chosen = chosen_run(form)
    made = planned(chosen)
    assert chosen.total == pytest.approx(exact_epsilon(100, 0.5, 1e-6), rel=1e-9)
    assert made.certificate.epsilon == pytest.approx(chosen.total, rel=1e-6)
    # Table 1 and (6.5): 2 ln(1.25/delta) (Delta/e)^2, Delta = 2 sqrt(2) / I for f_p
    sigma = math.sqrt(2 * math.log(1.25e6)) * 2 * math.sqrt(2) / 20 / 0.5
    t = np.arange(1, 21)
    step = 2 + 5 / 0.5 + np.sqrt(t)  # rho + 1/eta in the paper's units
    expected = 3 * 5 * sigma * math.sqrt(2 / math.pi) / (1 if form == "objective" else step)
    rounding = 1 if form == "objective" else 1 + 2.0**-9  # in the bound of a projected step
    expected = expected * rounding * np.ones(20)
    np.testing.assert_allclose(noise_magnitude(made, form), expected, rtol=1e-5)


def test_laplace_arms_are_calibrated_in_the_1_norm():
    chosen = chosen_run(mechanism=Laplace())
    assert chosen.total <= 100 * 0.5
    made = planned(chosen)
    scale = math.sqrt(12) * 2 * math.sqrt(2) / 20 / 0.5  # the library's bound of the 1-norm
    np.testing.assert_allclose(noise_magnitude(made, "objective"), 15 * scale, rtol=1e-3)


def test_unknown_constants_are_named():
    with pytest.raises(InputError, match="mnist, femnist"):
        PublishedRun(
            constants="cifar", form="output", mechanism=Gaussian(), local_updates=1, rounds=2,
            per_update=1.0, delta=1e-6,
        )  # fmt: skip
