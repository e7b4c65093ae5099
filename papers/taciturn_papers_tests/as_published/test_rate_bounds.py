"""Theorems 5.3 to 5.5 of Ryu & Kim: the numbers, and that they hold above measured means."""

import math

import jax
import numpy as np
import pytest

from taciturn.algorithms import LinearisedADMM
from taciturn.engine import plan, records_for_door, sweep
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import pack
from taciturn.problems import Box, NoRegulariser, Problem, Squared, minimise, public_facts
from taciturn_papers.as_published import (
    PublishedSettings,
    RateFacts,
    nonsmooth_bound,
    running_average,
    smooth_bound,
    strongly_convex_bound,
)
from taciturn_papers.claims.huang2019_thm2 import exact_epsilon

AGENTS, RECORDS, WIDTH, UPDATES, ROUNDS, RUNS = 3, 30, 1.0, 4, 60, 60
PER_UPDATE, DELTA = 1.0, 1e-2
BOUNDS = {
    "smooth": smooth_bound,
    "nonsmooth": nonsmooth_bound,
    "strongly-convex": strongly_convex_bound,
}


def instance():
    """Regression in the plane whose optimum lies inside the box; the clip never acts there."""
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (AGENTS * RECORDS, 2))
    y = np.clip(x @ [0.5, -0.3] + 0.3 * draw.standard_normal(len(x)), -1, 1)
    parts = np.split(np.arange(len(x)), AGENTS)
    shards = pack(x, y, parts, record_norm=1.0, precision="float64")
    return shards, Problem(Squared(), NoRegulariser(), Box(-WIDTH, WIDTH))


SLOPE = 1 + math.sqrt(2) * WIDTH  # |x| |x'z - y| within the box


def curvatures(shards):
    """The least and the largest eigenvalue of the Hessians of f_p = f_i / A."""
    x = np.asarray(shards.stacked.features)
    values = np.linalg.eigvalsh(np.einsum("ijk,ijl->ikl", x, x) / RECORDS / AGENTS)
    return values.min(), values.max()


def planned(rule, per_update):
    shards, problem = instance()
    alpha, _ = curvatures(shards)
    settings = PublishedSettings(
        0.5, 0.05, 50, per_update, rule, strong_convexity=float(AGENTS * alpha)
    )
    total = math.inf
    if per_update < math.inf:
        total = exact_epsilon(ROUNDS * UPDATES, per_update, DELTA)
    return plan(
        public_facts(problem, shards, clip=SLOPE),
        LinearisedADMM(problem, UPDATES, settings=settings), (Gradient(problem.loss, SLOPE),),
        Terms(total, DELTA, Adjacency(ReplaceOne(), "record"), Messages()), rounds=ROUNDS,
        precision="float64",
    )  # fmt: skip


def histories(made, shards):
    """Messages and public values of many runs, runs on the first axis."""
    private = records_for_door(made, shards)
    keep = frozenset({"messages", "publics"})
    _, trace = sweep([made.program], private, seeds=range(RUNS), keep=keep)
    return jax.tree.map(lambda leaf: leaf[0], (trace.messages, trace.publics))


def largest_dual(made, optimal, messages, publics):
    """Gamma: the largest of twice the norm of the optimal duals and those of all rounds."""
    start = np.zeros((RUNS, 1, 2))
    inbox = np.concatenate([start, np.asarray(publics.consensus)[:, :-1]], axis=1)
    moves = inbox[:, :, None] - np.asarray(messages.solution)
    duals = np.cumsum(made.schedules["rho"][:, None, None] * moves, axis=1) / AGENTS
    return max(2 * np.linalg.norm(optimal), np.linalg.norm(duals, axis=(2, 3)).max())


def left_sides(made, shards, messages, publics, *, optimum, gamma):
    """(5.1b), (5.2b), (5.3b) after every round of every run."""
    x, y = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    local = messages.solution if messages.query is None else messages.query
    values = []
    for points, used in zip(np.asarray(local), publics.consensus_average, strict=True):
        z = running_average(points, made.schedules["averaging"])
        residual = np.einsum("ijk,tik->tij", x, z) - y
        value = 0.5 * np.mean(residual**2, axis=(1, 2)) - optimum
        apart = np.linalg.norm(np.asarray(used)[:, None] - z, axis=(1, 2))
        values.append(value + gamma * apart)
    return np.array(values)


def measured(rule, per_update):
    """The left-hand sides in the paper's units, and the facts."""
    shards, problem = instance()
    alpha, steep = curvatures(shards)
    made = planned(rule, per_update)
    best = minimise(problem, shards, tol=1e-10)
    assert np.all(np.abs(best.w) < WIDTH)  # interior: the optimal dual is the gradient
    local = [problem.local_gradient(best.w, shards.shard(i), RECORDS) for i in range(AGENTS)]
    messages, publics = histories(made, shards)
    gamma = largest_dual(made, np.asarray(local) / AGENTS, messages, publics)
    facts = RateFacts(
        agents=AGENTS, dimension=2, local_updates=UPDATES, slope=SLOPE / AGENTS,
        diameter=math.sqrt(AGENTS) * 2 * math.sqrt(2) * WIDTH,
        variance=float((made.ledger.scale[0, 0, 0] / AGENTS) ** 2), per_update=per_update,
        rho_first=made.schedules["rho"][0] / AGENTS, rho_last=made.schedules["rho"][-1] / AGENTS,
        gamma=float(gamma), smoothness=float(steep) if rule != "smooth" else 1.0 / AGENTS,
        strong_convexity=float(alpha),
    )  # fmt: skip
    values = left_sides(made, shards, messages, publics, optimum=best.value, gamma=gamma)
    return values, facts


@pytest.mark.parametrize("rule", sorted(BOUNDS))
def test_the_bounds_hold_above_the_measured_means(rule):
    values, facts = measured(rule, PER_UPDATE)
    assert facts.variance == pytest.approx(
        2 * math.log(1.25 / DELTA) * (2 * facts.slope / RECORDS / PER_UPDATE) ** 2
    )
    mean = np.mean(values, axis=0)
    bound = np.array([BOUNDS[rule](facts, t) for t in range(1, ROUNDS + 1)])
    assert np.all(mean <= bound)
    assert mean[-1] < mean[0]


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
