"""How far the noise lets a run move: the radius with a ridge, and steps without a server."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_terms, packed, plan_of
from taciturn.algorithms import LinearisedGossipADMM, Noise, radius_of
from taciturn.algorithms import gossip as gossip_module
from taciturn.algorithms.algorithm import step_within
from taciturn.algorithms.relay import pace_and_noise
from taciturn.engine import run
from taciturn.kernel.records import Spec
from taciturn.network import complete, cyclic_walk, metropolis, ring, uniform_walk
from taciturn.problems import L2, Logistic, Problem, minimise

SMOOTHNESS, SWEEPS = 0.25, 100
WORSE = 1.02


def facts(columns):
    return Spec((1000,), (columns,), 1.0, gradient_bound=1.0, smoothness=SMOOTHNESS)


def horizon(columns, ratio, ridge=0.0):
    """n eta, with no limit on the step; `ratio` is sqrt(n) / nu."""
    noise = Noise(1.0, np.array([math.sqrt(SWEEPS) / ratio]))
    return SWEEPS * step_within(math.inf, facts(columns), noise, SWEEPS, ridge)


def excess(curvature, solution, ridge, ratio, moved):
    """The exact expected excess of gradient steps on a quadratic, the last half averaged."""
    step, bend = moved / SWEEPS, curvature + ridge
    powers = (1 - step * bend)[:, None] ** np.arange(SWEEPS + 1)
    best = curvature * solution / bend
    tail = SWEEPS // 2
    bias = -best * np.mean(powers[:, tail + 1 :], axis=1)
    sums = np.cumsum(powers[:, :SWEEPS], axis=1)  # of the first j + 1 powers
    left = np.arange(SWEEPS, 0, -1)  # iterates that the noise of a round is in
    early = np.maximum(left - tail, 0)
    before = np.where(early > 0, sums[:, np.maximum(early - 1, 0)], 0)
    weights = step / tail * (sums[:, left - 1] - before)
    variance = SWEEPS / ratio**2 * np.sum(weights**2, axis=1)
    return 0.5 * float(np.sum(bend * (bias**2 + variance)))


def spectra(columns):
    """Curvatures and a solution: alike in every direction, and falling as 1 / i."""
    falling = 1 / np.arange(1, columns + 1)
    return {
        "alike": (np.full(columns, SMOOTHNESS / columns), 2.0),
        "falling": (SMOOTHNESS * falling / np.sum(falling), 1.0),
    }


def still_pays(columns, ratio, ridge, horizons):
    """Whether every further part of the way to the horizon lowers the excess."""
    kinds = spectra(columns)
    chosen = ["falling"] if ridge else list(kinds)
    for kind in chosen:
        curvature, solution = kinds[kind]
        way = horizons(columns, ratio, ridge) * np.array([0.1, 0.2, 0.4, 0.7, 1.0])
        values = [excess(curvature, solution, ridge, ratio, moved) for moved in way]
        if any(later > WORSE * sooner for sooner, later in itertools.pairwise(values)):
            return False
    return True


def plain(columns, ratio, ridge):
    """The horizon of a radius of sqrt(d) / R, whatever the ridge and the columns."""
    del columns, ridge
    return ratio


CASES = [(784, 380.0, 0.0), (3072, 380.0, 0.0), (784, 1000.0, 1e-3), (3072, 1000.0, 1e-3)]


def test_every_part_of_the_way_to_the_horizon_pays_for_its_noise():
    assert all(still_pays(*case, horizon) for case in CASES)


def test_it_does_not_at_a_radius_that_knows_neither_ridge_nor_columns():
    failed = [case for case in CASES if not still_pays(*case, plain)]
    assert CASES[1] in failed
    assert CASES[3] in failed


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


@pytest.mark.slow
@pytest.mark.parametrize(("ridge", "falling"), [(3e-3, True), (0.0, False)])
def test_a_longer_run_by_gossip_is_not_worse_than_a_shorter_one(ridge, falling, monkeypatch):
    """Rows whose directions fall off, with a ridge; and rows alike in every direction."""
    agents, records, columns = 4, 150, 400
    draw = np.random.default_rng(0)
    x = draw.standard_normal((agents * records, columns))
    x = x / np.sqrt(np.arange(1, columns + 1)) if falling else x
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.sign(x @ draw.standard_normal(columns))
    owners = np.split(np.arange(agents * records), agents)
    shards = packed(x, y, owners)
    problem = Problem(Logistic(), L2(ridge))
    least = minimise(problem, shards, tol=1e-6).value if ridge else 0.0

    def gap(rounds):
        made = plan_of(
            LinearisedGossipADMM(problem), shards, None, make_terms(2.0), rounds=rounds,
            network=metropolis(ring(agents)),
        )  # fmt: skip
        models = [run(made, shards, runtime="simulate", seed=seed).model for seed in range(4)]
        return np.mean([float(problem.objective(jnp.asarray(w), shards)) for w in models]) - least

    short, long = gap(10), gap(100)
    assert long <= WORSE * short

    def without(limit, spec, noise, sweeps, ridge):
        return min(limit / 2, 1 / (spec.record_norm * noise.of_mean * math.sqrt(sweeps)))

    monkeypatch.setattr(gossip_module, "step_within", without)
    assert gap(100) > WORSE * gap(10)
