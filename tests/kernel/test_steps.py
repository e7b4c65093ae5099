"""Proximal, projected and perturbed steps: what they compute, and what is refused."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from conftest import make_shards, packed
from taciturn.algorithms import ADMM, at_agents
from taciturn.audit import replace_record
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    Inside,
    Laplace,
    Ledger,
    Messages,
    ReplaceOne,
)
from taciturn.kernel.questions import (
    Centre,
    Gradient,
    OnLattice,
    PerturbedStep,
    Point,
    ProjectedStep,
    ProximalStep,
    Step,
)
from taciturn.kernel.records import pack
from taciturn.problems import (
    L1,
    L2,
    Ball,
    Box,
    ElasticNet,
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Simplex,
    Squared,
    public_facts,
)

NORM, RHO = 1.5, 0.2
LOSSES = [(Logistic(), 1.0), (Logistic(), 0.3), (HuberHinge(0.5), math.inf), (Squared(), 2.0)]


def plain(loss):
    return Problem(loss)


def step_of(problem, clip, *, tol=1e-12):
    return ProximalStep(problem, clip, RHO, NORM, tol)


def shards_of(loss, seed, records=3):
    draw = np.random.default_rng(seed)
    far = 100.0 if isinstance(loss, Squared) else 1.0
    x, y = draw.standard_normal((records, 2)) * 3, far * np.sign(draw.standard_normal(records))
    return packed(x, y, [np.arange(records)], record_norm=NORM)


@jax.jit
def exact(oracle, shard, v):
    return oracle.exact(shard, jnp.asarray(3.0), Centre(v))


def answer(oracle, shards, v):
    return np.asarray(exact(oracle, shards.shard(0), jnp.asarray(v)))


def bound(oracle, shards, relation):
    facts = public_facts(oracle.problem, shards, clip=oracle.clip)
    adjacency = Adjacency(relation, "record")
    return oracle.bound(facts, adjacency, norm="l2").value[0, 0, 0]


@pytest.mark.parametrize(("loss", "clip"), LOSSES)
@pytest.mark.parametrize("regulariser", [NoRegulariser(), L2(0.3)])
def test_the_step_solves_its_optimality_condition_to_the_certified_residual(
    loss, clip, regulariser
):
    """An independent root finder on grad f + r' + rho (w - v) = 0, written out in NumPy."""
    shards = shards_of(loss, 0)
    x, y = (np.asarray(part)[0] for part in (shards.stacked.features, shards.stacked.targets))
    v = np.array([0.7, -1.1])
    most = min(clip, loss.lipschitz)

    def slope(w):
        c = np.clip(np.asarray(loss.coefficient(jnp.asarray(x @ w), jnp.asarray(y))), -most, most)
        return x.T @ c / 3 + float(regulariser.strong_convexity) * w + RHO * (w - v)

    truth = optimize.root(slope, v, tol=1e-13).x
    assert np.max(np.abs(slope(truth))) < 1e-10
    oracle = step_of(Problem(loss, regulariser), clip)
    np.testing.assert_allclose(answer(oracle, shards, v), truth, rtol=0, atol=1e-8)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)])
def test_targets_outside_the_losss_domain_cannot_break_the_bound_of_the_step(loss):
    """The smoothness is enforced, not believed: a target of 1000 would make it 10^6 times that."""
    oracle = ProximalStep(plain(loss), 1.0, 0.5, 1.0)
    most, limit, solve = 0.0, 2 / 20 / 0.5, jax.jit(oracle.exact)
    for seed in range(60):
        draw = np.random.default_rng(seed)
        x, y = draw.standard_normal((21, 2)), 1000 * np.sign(draw.standard_normal(20))
        x /= 1.000001 * np.linalg.norm(x, axis=1, keepdims=True)
        first = packed(x[:20], y, [np.arange(20)])
        second = replace_record(first, 0, 0, x[20], -y[0])
        v, count = jnp.asarray(0.1 * draw.standard_normal(2)), jnp.asarray(20.0)
        one, two = (solve(s.shard(0), count, Centre(v)) for s in (first, second))
        most = max(most, float(jnp.linalg.norm(one - two)))
    assert most <= limit * (1 + 1e-9)


def test_a_regulariser_at_the_agents_lowers_the_bound_by_its_strong_convexity():
    first = shards_of(Squared(), 0)
    ridge = step_of(Problem(Squared(), L2(0.3)), 2.0)
    ratio = bound(step_of(plain(Squared()), 2.0), first, ReplaceOne()) / bound(
        ridge, first, ReplaceOne()
    )
    assert ratio == pytest.approx((RHO + 0.3) / RHO, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ProximalStep(plain(Logistic()), 1.0, 0.0, 1.0), "rho"),
        (lambda: ProximalStep(plain(Logistic()), 1.0, math.nan, 1.0), "rho"),
        (lambda: ProximalStep(plain(MultinomialLogistic(3)), 0.5, 1.0, 1.0), "clip"),
        (
            lambda: PerturbedStep(ProximalStep(plain(MultinomialLogistic(3)), 2.0, 1.0, 1.0)),
            "several margins",
        ),
        (
            lambda: PerturbedStep(
                ProximalStep(Problem(Logistic(), NoRegulariser(), Box(-1.0, 1.0)), 1.0, 1.0, 1.0)
            ),
            "without constraint",
        ),
        (lambda: ADMM(Problem(Logistic(), L2(1.0), Box(-1.0, 1.0)), 1.0, regulariser_at="agents"),
         "constraint"),
    ],
)  # fmt: skip
def test_what_cannot_be_bounded_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


PROBLEMS = [
    (Problem(Logistic(), L1(0.1), Box(-0.3, 0.2)), math.inf),
    (Problem(Logistic(), L2(0.5), Ball(0.4)), 0.5),
    (Problem(MultinomialLogistic(3), ElasticNet(0.1, 0.2), Box(-1.0, 1.0)), math.inf),
    (Problem(Squared(), NoRegulariser(), Simplex(1.0)), 2.0),
    (Problem(Squared()), 2.0),
]


def target(loss, draw):
    return int(draw.integers(0, 3)) if loss.outputs else float(draw.choice([-50.0, 50.0]))


def shards_with_targets(loss, draw, precision="float64"):
    x = draw.standard_normal((3, 2)) * 3
    y = np.array([target(loss, draw) for _ in range(3)])
    return pack(x, y, [np.arange(3)], record_norm=1.5, precision=precision)


def projected_answer(oracle, shards, query):
    return np.asarray(oracle.exact(shards.shard(0), jnp.asarray(3.0), query))


def query_of(problem, draw, size, curvature):
    shape = problem.model_shape(2)
    point, slope = (jnp.asarray(draw.standard_normal(shape)) for _ in range(2))
    return Step(point * size, slope, jnp.asarray(curvature), jnp.asarray(1 / (curvature or 1.0)))


def test_the_answer_is_the_step_that_it_describes():
    draw = np.random.default_rng(1)
    for problem, clip in PROBLEMS:
        shards = shards_with_targets(problem.loss, draw)
        query = query_of(problem, draw, 0.3, 2.5)
        gradient = projected_answer(Gradient(problem.loss, clip), shards, Point(query.point))
        ahead = query.point - (gradient + query.slope) / 2.5
        stepped = query.point - projected_answer(ProjectedStep(problem, clip), shards, query) / 2.5
        np.testing.assert_allclose(stepped, problem.prox(ahead, 1 / 2.5), atol=1e-12)
        assert bool(problem.constraint.contains(stepped, 1e-12))


def test_in_single_precision_rounding_stays_far_below_the_sensitivity():
    """The step is computed in float64: a large public part does not swallow a record's."""
    problem = Problem(Logistic(), NoRegulariser(), Box(-1.0, 1.0))
    shards = shards_with_targets(problem.loss, np.random.default_rng(0), "float32")
    point = jnp.full(2, 0.5, jnp.float32)
    large = jnp.asarray(1e5, jnp.float32)
    query = Step(point, jnp.zeros(2, jnp.float32), large, 1 / large)
    gradient = projected_answer(Gradient(problem.loss, math.inf), shards, Point(point))
    np.testing.assert_allclose(
        projected_answer(ProjectedStep(problem, math.inf), shards, query), gradient, rtol=1e-5
    )


PERTURBED_RHO = 2.0
PROBLEM = Problem(Logistic(), L2(0.1))
STEP = ProximalStep(at_agents(PROBLEM, "server"), 1.0, PERTURBED_RHO, 1.0, 1e-12)


def test_the_answer_makes_the_perturbed_gradient_vanish():
    """grad f(y) + b + rho (y - v) = 0, up to the small noise on the output."""
    shard = make_shards(agents=1).shard(0)
    noise = jnp.asarray(np.random.default_rng(0).standard_normal((2, 3)))
    v = jnp.asarray([0.3, -0.2, 0.5])
    added = OnLattice(noise, None)
    y = PerturbedStep(STEP).answer(shard, None, jnp.asarray(12.0), Centre(v), added)
    y = y - 1e-3 * noise[1] / PERTURBED_RHO
    slope = (
        jax.grad(lambda w: PROBLEM.local_value(w, shard, 12.0))(y)
        + noise[0]
        + PERTURBED_RHO * (y - v)
    )
    assert float(jnp.max(jnp.abs(slope))) < 1e-10


def test_in_single_precision_only_the_release_is_rounded():
    """Rounding on the way would be a residual larger than the one that is accounted for."""
    shard = make_shards(agents=1).shard(0)
    draw = np.random.default_rng(1)
    noise, v = (draw.standard_normal(shape).astype("f") for shape in ((2, 3), 3))
    oracle = PerturbedStep(dataclasses.replace(STEP, rho=0.01))

    def answer(dtype):
        data = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32).astype(dtype), shard)
        centre = Centre(jnp.asarray(v, dtype))
        count, rounded = jnp.asarray(12, dtype), OnLattice(jnp.asarray(noise, dtype), None)
        return np.asarray(oracle.answer(data, None, count, centre, rounded))

    short, long = answer("float32"), answer("float64")
    np.testing.assert_array_equal(short, long)
    assert short.dtype == np.float64  # until the door rounds what it tells


def test_other_noise_than_gaussian_inside_an_objective_is_refused():
    one = np.ones((1, 1, 1))
    inside = Inside(np.zeros(1), np.zeros(1))
    with pytest.raises(PrivacyError, match="Gaussian"):
        Ledger(np.zeros((1, 1, 1), int), one, one, Laplace(), inside=inside)
    with pytest.raises(PrivacyError, match="no mu"):
        Ledger(
            np.zeros((1, 1, 1), int), one, one, inside=inside, mechanism=Gaussian()
        ).mu_per_agent(Messages())
