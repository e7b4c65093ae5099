"""How far the noise lets a run move: radius with a ridge, steps without a server, rounds."""

import dataclasses
import math

import numpy as np
import pytest

from taciturn.algorithms import Noise, NoisyGradient, radius_of
from taciturn.algorithms.algorithm import step_within
from taciturn.algorithms.noisy_gradient import ROUNDS, rounds_to_horizon
from taciturn.algorithms.relay import pace_and_noise
from taciturn.kernel.records import Spec
from taciturn.network import complete, cyclic_walk, ring, uniform_walk
from taciturn.problems import Logistic, Problem

SMOOTHNESS, SWEEPS = 0.25, 100


def facts(columns):
    return Spec((1000,), (columns,), 1.0, gradient_bound=1.0, smoothness=SMOOTHNESS)


def horizon(columns, ratio, ridge=0.0):
    """n eta, with no limit on the step; `ratio` is sqrt(n) / nu."""
    noise = Noise(1.0, np.array([math.sqrt(SWEEPS) / ratio]))
    return SWEEPS * step_within(math.inf, facts(columns), noise, SWEEPS, ridge)


def test_a_small_ridge_and_few_columns_leave_the_radius_and_the_step_as_they_are():
    assert radius_of(facts(100), 1e-6) == radius_of(facts(100)) == 10
    assert radius_of(facts(1000), 0.25) == pytest.approx(math.sqrt(1 / (1 + math.log(1000))))
    assert horizon(100, 380.0, 1e-6) == pytest.approx(380)
    assert horizon(3072, 380.0) == pytest.approx(4 * 0.25 / 3072 * 380**2)
    silent = Noise(0.0, np.zeros(1))
    assert step_within(8.0, facts(3072), silent, SWEEPS, 1.0) == 4


def moved_by(holders, agents, noise):
    """Where Walkman as printed ends on a loss without curvature; `noise` (T, N): N runs at once."""
    mean = np.zeros(noise.shape[1])
    copy, dual = np.zeros((2, agents, noise.shape[1]))
    for holder, answer in zip(holders, noise, strict=True):
        model, before = mean, copy[holder] - dual[holder]
        copy[holder] = model + dual[holder] - answer
        dual[holder] += model - copy[holder]
        mean = mean + (copy[holder] - dual[holder] - before) / agents
    return model


@pytest.mark.parametrize(
    ("walk", "most"),
    [
        (cyclic_walk(ring(8), 2_400), (1.78, 1.0)),
        (uniform_walk(complete(8), 2_400, seed=0), (1.1, 4.3)),
        (uniform_walk(ring(8), 2_400, seed=0), (0.7, 9.8)),
    ],
    ids=["in order", "among all", "around a ring"],
)
def test_the_order_of_a_walk_decides_pace_and_noise_of_walkman_as_its_docstring_derives(walk, most):
    agents, hops = 8, 2_400
    pace, kappa = pace_and_noise(walk)
    drift = -moved_by(walk.holders, agents, np.ones((hops, 1)))[0] / (hops / agents)
    draws = np.random.default_rng(0).standard_normal((hops, 2_000))
    spread = np.var(moved_by(walk.holders, agents, draws)) / hops * agents**2 / drift**2
    assert (pace, kappa) == pytest.approx(most, rel=0.1)
    assert drift == pytest.approx(pace, rel=0.06)
    assert spread == pytest.approx(kappa, rel=0.35)


@pytest.mark.parametrize("ratio", [1e3, 1e4, 6e4, 2e5])
def test_the_default_rounds_are_the_fewest_that_reach_the_horizon(ratio):
    """`ratio` is 1 / nu of a single round, which is H for records of norm one."""

    def moved(rounds):
        noise = Noise(1.0, np.array([math.sqrt(rounds) / ratio]))
        found = NoisyGradient(Problem(Logistic())).schedule(facts(100), rounds, noise)
        return rounds * found["step_size"][0] / (1 - found["momentum"][0])

    enough = rounds_to_horizon(facts(100), 1, Noise(1.0, np.array([1 / ratio])))
    fewer = [rounds for rounds in ROUNDS if rounds < enough]
    assert moved(enough) == pytest.approx(ratio)
    assert all(moved(rounds) < 0.99 * ratio for rounds in fewer)


def test_the_default_rounds_stop_at_the_last_and_need_noise_and_a_smooth_loss():
    silent, still = Noise(0.0, np.zeros(1)), Noise(1.0, np.array([1e-9]))
    assert rounds_to_horizon(facts(100), 1, still) == ROUNDS[-1]
    assert rounds_to_horizon(facts(100), 1, silent) == ROUNDS[0]
    rough = dataclasses.replace(facts(100), smoothness=math.inf)
    assert rounds_to_horizon(rough, 1, still) == ROUNDS[0]
