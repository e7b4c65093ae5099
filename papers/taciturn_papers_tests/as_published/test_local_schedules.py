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
from taciturn_papers.as_published import LocalUpdates, PublishedSettings, Round, box, rounds


def ragged():
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((20, 4)), draw.integers(0, 3, 20)
    parts = [np.arange(3), np.arange(3, 12), np.arange(12, 20)]
    return pack(x, y, parts, record_norm=1.0, precision="float64")


def printed(x, y, parts, noise, *, form, rho, inverse, updates, bound):
    """Algorithm 3.1 in the paper's units; `noise[t, e, p]` is xi on the gradient of f_p."""
    given = [iter(noise[:, :, p].reshape(-1, *noise.shape[3:])) for p in range(len(parts))]

    def gradient(p, z):
        margins = x[parts[p]] @ z
        soft = np.exp(margins - margins.max(1, keepdims=True))
        soft /= soft.sum(1, keepdims=True)
        return x[parts[p]].T @ (soft - np.eye(3)[y[parts[p]]]) / len(y)

    run = LocalUpdates(
        agents=len(parts), updates=updates, start=np.zeros((x.shape[1], 3)), rho=rho,
        inverse_step=inverse, gradient=gradient, noise=lambda p: next(given[p]), within=box(bound),
        form=form,
    )  # fmt: skip
    done = [Round(*map(np.copy, one)) for one in rounds(run)]
    return [np.array(part) for part in zip(*done, strict=True)][:3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arm", "rule"),
    [("objective", "smooth"), ("output", "nonsmooth"), ("objective", "strongly-convex")],
)
def test_it_is_algorithm_3_1_as_printed(arm, rule):
    """On ragged shards, with (E.1) and its constants for MNIST, and all averaged outputs."""
    last, updates, per_update, bound, alpha = 6, 3, 0.5, 0.02, 0.1
    shards = ragged()
    problem = Problem(MultinomialLogistic(3), NoRegulariser(), Box(-bound, bound))
    settings = PublishedSettings(2.0, 5.0, 4, per_update, rule, strong_convexity=3 * alpha)
    algorithm = LinearisedADMM(problem, updates, arm, settings, "records")
    oracle = Gradient(problem.loss, math.inf)
    made = plan(
        public_facts(problem, shards, clip=math.inf), algorithm,
        (oracle if arm == "objective" else ProjectedStep(problem, math.inf),),
        Terms(3.0, 1e-5, Adjacency(ReplaceOne(), "record"), Messages()), rounds=last,
        precision="float64",
    )  # fmt: skip
    keep = frozenset({"answers", "messages", "publics"})
    # with all their digits: on the grid of exact sums a run differs from what is printed by 1e-8
    private = Private(shards.stacked, jnp.asarray(shards.counts, float))
    model, trace = simulate(made.program, *reproduction(made.program, private, 4), keep=keep)

    t = np.arange(1, last + 1)
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

    rows, labels = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    real = np.asarray(shards.stacked.mask) > 0
    parts = [np.arange(3), np.arange(3, 12), np.arange(12, 20)]
    consensus, solutions, asked = printed(
        rows[real], labels[real], parts, xi,
        form=arm, rho=rho, inverse=inverse, updates=updates, bound=bound,
    )  # fmt: skip
    np.testing.assert_allclose(trace.messages.solution, solutions, atol=1e-12)
    weights = t if rule == "strongly-convex" else np.ones(last)
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
