"""The linearised ADMM on the published schedules is Algorithm 3.1 of Ryu & Kim as printed."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.algorithms import LinearisedADMM
from taciturn.engine import compute, plan, reproduction, simulate
from taciturn.errors import InputError
from taciturn.kernel.door import Private
from taciturn.kernel.exact import Replay
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient, ProjectedStep
from taciturn.kernel.records import pack
from taciturn.problems import Box, MultinomialLogistic, NoRegulariser, Problem, public_facts
from taciturn_papers.as_published import PublishedSettings


def ragged():
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((20, 4)), draw.integers(0, 3, 20)
    parts = [np.arange(3), np.arange(3, 12), np.arange(12, 20)]
    return pack(x, y, parts, record_norm=1.0, precision="float64")


def printed(x, y, parts, noise, *, arm, rho, eta, updates, bound):
    """Algorithm 3.1 in NumPy, in the paper's units: f_p is 1/I times the sum over its records.

    `noise[t, e, p]` is xi: on the gradient in (3.2), on the solution in (3.4).
    """
    agents, d, total = len(parts), (x.shape[1], 3), len(y)
    z, dual = np.zeros((agents, *d)), np.zeros((agents, *d))  # z_p^{0,E+1}, lambda_p^1
    sent = z.copy()  # z_p^1
    solutions, asked, globals_ = [], [], []
    for t in range(len(rho)):
        w = np.mean(sent - dual / rho[t], axis=0)
        globals_.append(w)
        sums = np.zeros((2, agents, *d))
        for p, part in enumerate(parts):
            for e in range(updates):
                margins = x[part] @ z[p]
                soft = np.exp(margins - margins.max(1, keepdims=True))
                soft /= soft.sum(1, keepdims=True)
                gradient = x[part].T @ (soft - np.eye(3)[y[part]]) / total
                sums[1, p] += z[p]
                xi, c = noise[t, e, p], 1 / eta[t] + rho[t]
                inner = xi if arm == "objective" else 0.0
                v = (z[p] / eta[t] + rho[t] * w + dual[p] - gradient - inner) / c
                z[p] = np.clip(v, -bound, bound)
                if arm == "output":
                    z[p] = z[p] + xi
                sums[0, p] += z[p]
        sent = sums[0] / updates
        dual = dual + rho[t] * (w - sent)
        solutions.append(sent)
        asked.append(sums[1] / updates)
    return np.array(solutions), np.array(asked), np.array(globals_)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arm", "rule"),
    [("objective", "smooth"), ("output", "nonsmooth"), ("objective", "strongly-convex")],
)
def test_it_is_algorithm_3_1_as_printed(arm, rule):
    """On ragged shards, with (E.1) and its constants for MNIST, and all averaged outputs."""
    rounds, updates, per_update, bound, alpha = 6, 3, 0.5, 0.02, 0.1
    shards = ragged()
    problem = Problem(MultinomialLogistic(3), NoRegulariser(), Box(-bound, bound))
    settings = PublishedSettings(2.0, 5.0, 4, per_update, rule, strong_convexity=3 * alpha)
    algorithm = LinearisedADMM(problem, updates, arm, settings, "records")
    oracle = Gradient(problem.loss, math.inf)
    made = plan(
        public_facts(problem, shards, clip=math.inf), algorithm,
        (oracle if arm == "objective" else ProjectedStep(problem, math.inf),),
        Terms(3.0, 1e-5, Adjacency(ReplaceOne(), "record"), Messages()), rounds=rounds,
        precision="float64",
    )  # fmt: skip
    keep = frozenset({"answers", "messages", "publics"})
    # with all their digits: on the grid of exact sums a run differs from what is printed by 1e-8
    private = Private(shards.stacked, jnp.asarray(shards.counts, float))
    model, trace = simulate(made.program, *reproduction(made.program, private, 4), keep=keep)

    t = np.arange(1, rounds + 1)
    rho = np.minimum(1e9, 2 * 1.2 ** np.floor(t / 4) + 5 / per_update)  # (E.1)
    lipschitz = 0.5 * 9 / 20  # of f_p = (1/I) sum over at most 9 of 20 unit records
    inverse = {
        "smooth": lipschitz + np.sqrt(t) / per_update,
        "nonsmooth": np.sqrt(t),
        "strongly-convex": alpha * (t + 2) / 2,
    }[rule]
    replayed = Replay(made.program.oracles, private, trace.records.answer)
    _, exact = compute(made.program, replayed, keep=frozenset())
    xi = np.asarray(trace.records.answer) - np.asarray(exact.records.exact)
    xi *= np.array([3, 9, 8])[:, None, None] / 20  # on f_p, whose records weigh 1/I
    if arm == "output":  # (3.4): on the solution
        xi = -xi / (inverse + rho)[:, None, None, None, None]

    rows, labels = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    real = np.asarray(shards.stacked.mask) > 0
    parts = [np.arange(3), np.arange(3, 12), np.arange(12, 20)]
    solutions, asked, consensus = printed(
        rows[real], labels[real], parts, xi,
        arm=arm, rho=rho, eta=1 / inverse, updates=updates, bound=bound,
    )  # fmt: skip
    np.testing.assert_allclose(trace.messages.solution, solutions, atol=1e-12)
    weights = t if rule == "strongly-convex" else np.ones(rounds)
    mean = np.average(solutions if rule == "smooth" else asked, axis=0, weights=weights)
    np.testing.assert_allclose(model, mean.mean(0), atol=1e-12)
    if rule != "smooth":
        np.testing.assert_allclose(trace.messages.query, asked, atol=1e-12)
    used = np.average(consensus, axis=0, weights=weights)
    np.testing.assert_allclose(trace.publics.consensus_average[-1], used, atol=1e-12)
    np.testing.assert_allclose(trace.publics.consensus[:-1], consensus[1:], atol=1e-12)


def test_a_strongly_convex_schedule_needs_its_constant():
    with pytest.raises(InputError, match="strong_convexity"):
        PublishedSettings(1.0, 1.0, 10, 1.0, "strongly-convex")
