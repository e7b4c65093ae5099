"""Law 1 for the question of output perturbation."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROUNDED
from taciturn.audit import replace_record, zero_record
from taciturn.kernel.privacy import Adjacency, ReplaceOne, ZeroOut
from taciturn.kernel.questions import Gradient, Point, ProjectedStep, Step
from taciturn.kernel.records import pack
from taciturn.problems import (
    L1,
    L2,
    Ball,
    Box,
    ElasticNet,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Simplex,
    Squared,
    WholeSpace,
    public_facts,
)

PROBLEMS = [
    (Problem(Logistic(), L1(0.1), Box(-0.3, 0.2)), math.inf),
    (Problem(Logistic(), L2(0.5), Ball(0.4)), 0.5),
    (Problem(MultinomialLogistic(3), ElasticNet(0.1, 0.2), Box(-1.0, 1.0)), math.inf),
    (Problem(Squared(), NoRegulariser(), Simplex(1.0)), 2.0),
    (Problem(Squared(), NoRegulariser(), WholeSpace()), 2.0),
]
EXTREME = [0.0, 1e-9, 1.0, 1e3, 1e8, 1e200, 1e308, math.inf, math.nan]


def target(loss, draw):
    return int(draw.integers(0, 3)) if loss.outputs else float(draw.choice([-50.0, 50.0]))


def shards_of(loss, draw, precision="float64"):
    x = draw.standard_normal((3, 2)) * 3
    y = np.array([target(loss, draw) for _ in range(3)])
    return pack(x, y, [np.arange(3)], record_norm=1.5, precision=precision, enforce="clip")


def answer(oracle, shards, query):
    return np.asarray(oracle.exact(shards.shard(0), jnp.asarray(3.0), query))


def limit(problem, clip, shards, relation, norm="l2"):
    spec = public_facts(problem, shards, clip=clip)
    oracle = ProjectedStep(problem, clip)
    adjacency = Adjacency(relation, "record")
    made = oracle.bound(spec, adjacency, norm=norm)
    return float(made.value[0, 0, 0])


def query_of(problem, draw, size, curvature):
    shape = problem.model_shape(2)
    point, slope = (jnp.asarray(draw.standard_normal(shape)) for _ in range(2))
    return Step(point * size, slope, jnp.asarray(curvature), jnp.asarray(1 / (curvature or 1.0)))


@pytest.mark.parametrize(("problem", "clip"), PROBLEMS)
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    size=st.sampled_from(EXTREME),
    curvature=st.sampled_from([*EXTREME, 0.01, 20.0, -1.0]),
)
def test_no_neighbour_moves_the_projected_step_beyond_its_bound(
    problem, clip, seed, size, curvature
):
    """At every query: the curvature is the query's own, so no schedule has to be believed."""
    draw = np.random.default_rng(seed)
    oracle, first = ProjectedStep(problem, clip), shards_of(problem.loss, draw)
    query = query_of(problem, draw, size, curvature)
    row = draw.standard_normal(2)
    row *= 1.5 * (1 - 1e-9) / np.linalg.norm(row)
    second = replace_record(first, 0, 1, row, target(problem.loss, draw))
    ours, theirs = (answer(oracle, shards, query) for shards in (first, second))
    gone = answer(oracle, zero_record(first, 0, 1), query)
    most = limit(problem, clip, first, ReplaceOne())
    assert np.all(np.isfinite(ours))
    assert np.linalg.norm(ours - theirs) <= most * (1 + 1e-6)
    assert np.linalg.norm(ours - gone) <= limit(problem, clip, first, ZeroOut()) * (1 + 1e-6)
    wide = limit(problem, clip, first, ReplaceOne(), norm="l1")
    assert np.abs(ours - theirs).sum() <= wide * (1 + 1e-6)


def flipped_pair():
    """One record whose clipped coefficient flips from -2 to 2: the bound is attained."""
    rows, row = np.zeros((3, 2)), np.array([1.5, 0.0])
    rows[0] = row
    first = pack(
        rows, np.array([50.0, 0.0, 0.0]), [np.arange(3)],
        record_norm=1.5, precision="float64", enforce="clip",
    )  # fmt: skip
    return first, replace_record(first, 0, 0, row, -50.0)


def reach(oracle, problem):
    first, second = flipped_pair()
    query = Step(jnp.zeros(2), jnp.zeros(2), jnp.asarray(7.0), jnp.asarray(1 / 7))
    moved = np.linalg.norm(answer(oracle, first, query) - answer(oracle, second, query))
    return moved / limit(problem, 2.0, first, ReplaceOne())


def test_a_saturating_pair_reaches_the_bound_where_no_constraint_binds():
    for constraint in (WholeSpace(), Box(-1.0, 1.0)):
        problem = Problem(Squared(), NoRegulariser(), constraint)
        assert reach(ProjectedStep(problem, 2.0), problem) == pytest.approx(1 / ROUNDED)


def test_an_active_constraint_hides_some_of_the_change():
    problem = Problem(Squared(), NoRegulariser(), Box(-0.1, 0.1))
    # 7 x 0.2 of 2
    assert reach(ProjectedStep(problem, 2.0), problem) == pytest.approx(0.7 / ROUNDED)


class Expanding(ProjectedStep):
    """Planted: states the step for twice the curvature that it was taken with."""

    def exact(self, shard, count, query):
        return 2 * super().exact(shard, count, query)


def test_planted_faults_exceed_the_bound_in_the_same_check():
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    assert reach(Expanding(problem, 2.0), problem) > 1.9
    assert reach(ProjectedStep(problem, math.inf), problem) > 10  # forgets to clip


def test_the_answer_is_the_step_that_it_describes():
    draw = np.random.default_rng(1)
    for problem, clip in PROBLEMS:
        shards = shards_of(problem.loss, draw)
        query = query_of(problem, draw, 0.3, 2.5)
        gradient = answer(Gradient(problem.loss, clip), shards, Point(query.point))
        ahead = query.point - (gradient + query.slope) / 2.5
        stepped = query.point - answer(ProjectedStep(problem, clip), shards, query) / 2.5
        np.testing.assert_allclose(stepped, problem.prox(ahead, 1 / 2.5), atol=1e-12)
        assert bool(problem.constraint.contains(stepped, 1e-12))


def test_in_single_precision_rounding_stays_far_below_the_sensitivity():
    """The step is computed in float64: a large public part does not swallow a record's."""
    problem = Problem(Logistic(), NoRegulariser(), Box(-1.0, 1.0))
    shards = shards_of(problem.loss, np.random.default_rng(0), "float32")
    point = jnp.full(2, 0.5, jnp.float32)
    large = jnp.asarray(1e5, jnp.float32)
    query = Step(point, jnp.zeros(2, jnp.float32), large, 1 / large)
    gradient = answer(Gradient(problem.loss, math.inf), shards, Point(point))
    np.testing.assert_allclose(
        answer(ProjectedStep(problem, math.inf), shards, query), gradient, rtol=1e-5
    )
