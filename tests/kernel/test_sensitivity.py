"""Law 1: on neighbouring shards and adversarial queries an answer moves by at most its bound."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import ROUNDED, batch_of
from taciturn.algorithms.newton import layout_of
from taciturn.kernel.privacy import Adjacency, ReplaceOne, ZeroOut
from taciturn.kernel.questions import (
    Around,
    Centre,
    CentredGradient,
    Derivatives,
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    Oracle,
    Pair,
    Point,
    PoissonBatches,
    ProjectedStep,
    ProximalStep,
    Recentred,
    Statistics,
    Step,
)
from taciturn.kernel.records import Shard, Shards, for_exact_sums
from taciturn.problems import (
    L1,
    L2,
    Ball,
    Box,
    CumulativeLogistic,
    DiscreteCloglog,
    DiscreteLogistic,
    ElasticNet,
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    PiecewiseExponential,
    Poisson,
    Problem,
    Simplex,
    Squared,
    facts_from,
    survival_target,
)

RECORDS, FEATURES, NORM, TRIALS = 4, 2, 1.5, 600
NEAR = NORM * (1 - 1e-9)
EXTREME = [0.0, 1.0, 50.0, 1e3, 1e8, 1e308, math.inf, math.nan]
RHO, KAPPA = 0.2, 0.3


def plain(loss):
    return Problem(loss)


def on_circle(draw, *shape):
    rows = draw.standard_normal((*shape, FEATURES))
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True) * NEAR


class Neighbours(NamedTuple):
    """Many pairs of data sets that differ in the first record, and a query for each pair."""

    rows: np.ndarray  # (N, M, D)
    targets: np.ndarray  # (N, M)
    other_row: np.ndarray  # (N, D)
    other_target: np.ndarray  # (N,)
    query: Any


def random_neighbours(case, draw, trials):
    """Rows of full norm; the first is replaced by its negative, its own row or any other one."""
    rows = on_circle(draw, trials, RECORDS)
    if case.problem.loss.outputs:
        targets = draw.integers(0, 3, (trials, RECORDS)).astype(np.int32)
        opposite = (targets[:, 0] + draw.integers(0, 3, trials).astype(np.int32)) % 3
    else:
        targets = case.far * draw.choice([-1.0, 1.0], (trials, RECORDS))
        opposite = targets[:, 0] * draw.choice([-1.0, 1.0], trials)
    choice = draw.integers(0, 3, (trials, 1))
    other = np.select(
        [choice == 0, choice == 1], [-rows[:, 0], rows[:, 0]], on_circle(draw, trials)
    )
    return Neighbours(rows, targets, other, opposite, case.ask(case, draw, rows[:, 0]))


def survivors(case, draw, trials):
    """As `random_neighbours`, with times and events as targets."""
    tried = random_neighbours(case, draw, trials)

    def times(*shape):
        size = math.prod(shape)
        entry, leaving = (
            draw.choice(some, size) for some in ([0.0, 0.1, 0.5], [0.05, 0.4, 0.9, 1.0])
        )
        return survival_target(entry, leaving, draw.random(size) < 0.5).reshape(shape)

    return tried._replace(targets=times(trials, RECORDS), other_target=times(trials))


def along_or_anywhere(case, draw, rows, sizes):
    """Vectors of every size, half of them along the row that is replaced."""
    trials, outputs = len(rows), case.problem.loss.outputs
    if outputs is None:
        away, along = draw.standard_normal((trials, FEATURES)), rows
    else:
        away = draw.standard_normal((trials, FEATURES, outputs))
        along = rows[:, :, None] * np.array([1.0, 1.0, -2.0])
    chosen = (draw.random(trials) < 0.5).reshape((trials,) + (1,) * (away.ndim - 1))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(chosen, away, along) * draw.choice(sizes, trials).reshape(chosen.shape)


def points(case, draw, rows):
    return Point(along_or_anywhere(case, draw, rows, EXTREME))


def centres(case, draw, rows):
    # a minimiser is exact to a part of the query; larger ones: `test_rounding`
    return Centre(along_or_anywhere(case, draw, rows, [0.0, 1.0, 1e3]))


def steps(case, draw, rows):
    """The curvature is the query's own, so no schedule has to be believed."""
    place, slope = (along_or_anywhere(case, draw, rows, size) for size in (EXTREME, [0.0, 1.0]))
    curvature = draw.choice([*EXTREME, 7.0, 0.01, -1.0], len(rows))
    with np.errstate(divide="ignore"):
        return Step(place, slope, curvature, np.where(curvature == 0, 1.0, 1 / curvature))


def arounds(case, draw, rows):
    """Points around centres of every size, some of them the row that is replaced, or beside it."""
    choice = draw.integers(0, 3, (len(rows), 1))
    away = along_or_anywhere(case, draw, rows, [*EXTREME[:5], 1e300, *EXTREME[6:]])
    centre = np.select([choice == 0, choice == 1], [rows, rows * (1 - 1e-7)], away)
    return Around(points(case, draw, rows), centre)


def half_spaces(case, draw, trials):
    """Terms of a difference share a half-space, so opposite ones lie almost on its border."""
    angle = draw.uniform(0, 2 * math.pi, trials)
    turn = np.stack([np.cos(angle), np.sin(angle)]), np.stack([-np.sin(angle), np.cos(angle)])
    row, other = (
        NEAR * (sign * math.cos(0.05) * turn[0] + math.sin(0.05) * turn[1]).T for sign in (1, -1)
    )
    rows, targets = on_circle(draw, trials, RECORDS), np.tile([0.0, 100, 5, -5], (trials, 1))
    rows[:, 0] = row
    query = Pair(100 * turn[1].T, -100 * turn[1].T)
    return Neighbours(rows, targets, other, np.zeros(trials), query)


class Case(NamedTuple):
    """A question, and how much of its bound the search must reach.

    `slack` is what a minimiser may be off, and `problem` and `clip` are those of the public facts.
    """

    oracle: Oracle
    problem: Problem
    clip: float
    ask: Callable[..., Any] = points
    reached: float = 0.9
    far: float = 100.0
    slack: float = 0.0
    on_grid: bool = False
    neighbours: Callable[..., Neighbours] = random_neighbours


def gradient(loss, clip, reached=0.9):
    return Case(Gradient(loss, clip), plain(loss), clip, reached=reached, far=1.0)


def projected(problem, clip, reached=0.0):
    return Case(ProjectedStep(problem, clip), problem, clip, steps, reached / ROUNDED)


def proximal(loss, clip, tol, reached=0.0):
    oracle = ProximalStep(plain(loss), clip, RHO, NORM, tol)
    far = 1e4 if isinstance(loss, Squared) else 1.0
    return Case(oracle, plain(loss), clip, centres, reached / ROUNDED, far, 2e-9)


def derivatives(loss, clip, reached, *, neighbours=random_neighbours, **given):
    """Of terms over the number of records of these shards."""
    oracle = Derivatives(loss, clip, float(RECORDS), 1.5, layout_of(loss, FEATURES, ()), **given)
    case = Case(oracle, plain(loss), clip, reached=reached, on_grid=True)
    return case._replace(neighbours=neighbours)


def centred(oracle):
    def ask(*given):
        query = arounds(*given)
        exact = isinstance(getattr(oracle, "inner", None), ProximalStep)
        return query._replace(inner=centres(*given)) if exact else query

    return Case(oracle, SQUARED, 2.0, ask, 0.9, on_grid=True)


SQUARED = plain(Squared())
CASES = {
    # a coefficient of the whole Lipschitz constant needs an infinite margin
    "gradient, logistic": gradient(Logistic(), 1.0, 0.8),
    "gradient, clipped logistic": gradient(Logistic(), 0.5),
    "gradient, huber": gradient(HuberHinge(0.5), math.inf),
    "gradient, classes": gradient(MultinomialLogistic(3), 0.7),
    "gradient, unclipped classes": gradient(MultinomialLogistic(3), math.inf, 0.8),
    "gradient, squared": Case(Gradient(Squared(), 2.0), SQUARED, 2.0),
    "batch": Case(MinibatchGradient(Squared(), 2.0, 0.5), SQUARED, 2.0),
    "difference": Case(
        MinibatchDifference(Squared(), 2.0, 0.5, spread=4.0), SQUARED, 2.0, neighbours=half_spaces
    ),
    "clipped difference": Case(
        MinibatchDifference(Squared(), 2.0, 0.5, spread=1.0), SQUARED, 2.0, neighbours=half_spaces
    ),
    # on both sides of Y = sqrt(2) R
    "statistics, 1": Case(Statistics(1.0), SQUARED, math.inf),
    "statistics, 4": Case(Statistics(4.0), SQUARED, math.inf),
    "derivatives, logistic": derivatives(Logistic(), 1.0, 0.65),
    "derivatives, squared": derivatives(Squared(), 2.0, 0.85, squares=0.3),
    "derivatives, counts": derivatives(Poisson(0.0, 3.0), 3.0, 0.55),
    "derivatives, scores": derivatives(Squared(), 2.0, 0.85, of_scores=True),
    "derivatives, classes": derivatives(MultinomialLogistic(3), math.inf, 0.5),
    "derivatives, ordered": derivatives(CumulativeLogistic(4), math.inf, 0.5),
    "derivatives, ordered scores": derivatives(CumulativeLogistic(4), 1.0, 0.5, of_scores=True),
    **{
        f"derivatives, {type(loss).__name__}": derivatives(
            loss, math.inf, 0.5, neighbours=survivors
        )
        for loss in (
            PiecewiseExponential(1.0, 2.0, (0.3, 0.6)),
            DiscreteLogistic(1.0, 2.0, (0.3, 0.6)),
            DiscreteCloglog(1.0, 2.0, (0.3, 0.6)),
        )
    },
    # in the form that makes no rows, and on rows that are formed
    "centred": centred(CentredGradient(Gradient(Squared(), 2.0), NORM, KAPPA)),
    "centred batch": centred(Recentred(MinibatchGradient(Squared(), 2.0, 0.5), NORM, KAPPA)),
    "centred step": centred(
        Recentred(ProximalStep(SQUARED, 2.0, RHO, math.hypot(1.0, KAPPA), 1e-9), NORM, KAPPA)
    ),
    "projected, box": projected(Problem(Logistic(), L1(0.1), Box(-0.3, 0.2)), math.inf),
    "projected, ball": projected(Problem(Logistic(), L2(0.5), Ball(0.4)), 0.5),
    "projected, classes": projected(
        Problem(MultinomialLogistic(3), ElasticNet(0.1, 0.2), Box(-1.0, 1.0)), math.inf
    ),
    "projected, simplex": projected(Problem(Squared(), NoRegulariser(), Simplex(1.0)), 2.0),
    "projected, free": projected(SQUARED, 2.0, 0.999),
    "proximal, logistic": proximal(Logistic(), 0.3, 1e-9),
    "proximal, huber": proximal(HuberHinge(0.5), math.inf, 0.5),
    "proximal, squared": proximal(Squared(), 2.0, 1e-9, 0.99),
}


def bound(case, relation, norm="l2"):
    spec = facts_from(case.problem, (RECORDS,), features=FEATURES, record_norm=NORM, clip=case.clip)
    made = case.oracle.bound(spec, Adjacency(relation, "record"), norm=norm)
    return float(made.value[0, 0, 0])


def moved(case, *, trials=TRIALS, seed=0):
    """How far answers move where the first record is replaced, or absent; in either norm."""
    tried = case.neighbours(case, np.random.default_rng(seed), trials)
    first = Shard(*map(jnp.asarray, tried[:2]), jnp.ones((trials, RECORDS)))
    second = dataclasses.replace(
        first,
        features=first.features.at[:, 0].set(tried.other_row),
        targets=first.targets.at[:, 0].set(tried.other_target),
    )
    if case.on_grid:  # as a door opens them
        counts = (RECORDS,) * trials
        first, second = (for_exact_sums(Shards(s, counts, NORM)) for s in (first, second))
    gone = dataclasses.replace(first, mask=first.mask.at[:, 0].set(0.0))

    @jax.jit
    @jax.vmap
    def between(shards, query, key):
        here, there, without = (
            case.oracle.exact(batch_of(case.oracle, shard, key), jnp.asarray(float(RECORDS)), query)
            for shard in shards
        )
        apart = jnp.stack([jnp.ravel(here - there), jnp.ravel(here - without)])
        return jnp.linalg.norm(apart, axis=1), jnp.sum(jnp.abs(apart), axis=1)

    keys = jax.random.split(jax.random.key(seed), trials)
    query = jax.tree.map(jnp.asarray, tried.query)
    short, long = between((first, second, gone), query, keys)
    return {
        relation: (np.asarray(short)[:, k], np.asarray(long)[:, k])
        for k, relation in enumerate((ReplaceOne(), ZeroOut()))
    }


@pytest.mark.parametrize("name", CASES)
def test_no_neighbour_moves_an_answer_beyond_its_bound_and_some_reach_it(name):
    """Law 1 with saturation; an answer that is not finite would exceed every bound."""
    case = CASES[name]
    for relation, (short, long) in moved(case).items():
        most = bound(case, relation)
        assert np.all(short <= most * (1 + 1e-9) + case.slack)
        assert np.all(long <= bound(case, relation, "l1") * (1 + 1e-9) + 2 * case.slack)
        assert np.max(short) >= case.reached * most


def test_a_bound_is_the_papers_number():
    """2 R c / m, times the batch's divisor or the spread; half of it where a record is absent."""
    numbers = {
        "gradient, squared": 2 * NORM * 2 / RECORDS,
        "batch": 2 * NORM * 2 / (0.5 * RECORDS),
        "clipped difference": 2 * NORM * 1.0 / (0.5 * RECORDS),
        "proximal, squared": 2 * NORM * 2 / RECORDS / RHO * ROUNDED,
    }
    for name, number in numbers.items():
        assert bound(CASES[name], ReplaceOne()) == pytest.approx(number)
        assert bound(CASES[name], ZeroOut()) == pytest.approx(number / 2)


class UnclippedTargets(Statistics):
    """Planted fault: targets as they are."""

    def exact(self, shard, count, query):
        return Statistics(1e9).exact(shard, count, query)


class UnboundedCurvature(Derivatives):
    """Planted fault: second derivatives are not limited to those of the loss."""

    def weights(self, at, targets):
        return 9 * super().weights(at, targets)


class OwnSize(Gradient):
    """Planted fault: divides by the batch's own size, at times 1, in place of the public q m."""

    def exact(self, shard, count, query):
        return Gradient(self.loss, self.clip).exact(shard, jnp.sum(shard.mask) + 1e-9, query)


class ClipsEachGradient(Gradient):
    """Planted fault: a difference of clipped gradients, which is not clipped itself."""

    def exact(self, shard, count, query):
        parts = [Gradient(self.loss, self.clip).exact(shard, count, Point(x)) for x in query]
        return (parts[0] - parts[1]) / self.sampling.rate


class Expanding(ProjectedStep):
    """Planted fault: states the step for twice the curvature that it was taken with."""

    def exact(self, shard, count, query):
        return 2 * super().exact(shard, count, query)


class TooNear(CentredGradient):
    """Planted fault: records at the centre are thrown far."""

    def _distances(self, shard, centre):
        return super()._distances(shard, centre) / 2


class Unlimited(Derivatives):
    """Planted fault: terms are not scaled down, and so as long as the loss makes them."""

    def slope(self, record_norm):
        return 1e3

    def largest(self, record_norm):
        return 1e3


class TooLong(Recentred):
    """Planted fault: the difference to the centre is not made short."""

    def _rows(self, shard, centre):
        return 2 * super()._rows(shard, centre)


FAULTS = {
    "centred": TooNear(Gradient(Squared(), 2.0), NORM, KAPPA),
    "centred batch": TooLong(MinibatchGradient(Squared(), 2.0, 0.5), NORM, KAPPA),
    "gradient, squared": Gradient(Squared(), math.inf),
    "statistics, 1": UnclippedTargets(1.0),
    "derivatives, PiecewiseExponential": Unlimited(
        PiecewiseExponential(1.0, 40.0, (0.3, 0.6)),
        math.inf,
        float(RECORDS),
        1.5,
        layout_of(PiecewiseExponential(1.0, 2.0, (0.3, 0.6)), FEATURES, ()),
    ),
    "derivatives, squared": UnboundedCurvature(Squared(), 2.0, float(RECORDS), 1.5, squares=0.3),
    "derivatives, scores": Derivatives(Squared(), 1e3, float(RECORDS), 1.5, of_scores=True),
    "batch": OwnSize(Squared(), 2.0, PoissonBatches(0.5)),
    "clipped difference": ClipsEachGradient(Squared(), 2.0, PoissonBatches(0.5), spread=1.0),
    "projected, free": Expanding(SQUARED, 2.0),
    "proximal, squared": ProximalStep(SQUARED, math.inf, RHO, NORM, 1e-9),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_question_with_a_fault_exceeds_its_bound_in_the_same_search(name):
    """No clipping of coefficients, targets or differences; a private divisor; a wrong step."""
    case = CASES[name]
    short, _ = moved(case._replace(oracle=FAULTS[name]))[ReplaceOne()]
    assert np.nanmax(short) > 1.2 * bound(case, ReplaceOne())


def test_targets_outside_the_losss_domain_cannot_break_the_bound():
    """The Lipschitz constant is enforced, not believed: here with targets of +-1000."""
    case = CASES["gradient, logistic"]._replace(far=1000.0)
    short, _ = moved(case)[ReplaceOne()]
    assert np.all(short <= bound(case, ReplaceOne()) * (1 + 1e-9))


def test_an_active_constraint_hides_some_of_the_change():
    problem = Problem(Squared(), NoRegulariser(), Box(-0.1, 0.1))
    zero = np.zeros((1, FEATURES))
    rows = np.zeros((1, RECORDS, FEATURES))
    rows[0, 0, 0] = NORM

    def flipped(case, draw, trials):
        query = Step(zero, zero, np.array([7.0]), np.array([1 / 7]))
        return Neighbours(rows, np.array([[50.0, 0, 0, 0]]), rows[:, 0], np.array([-50.0]), query)

    case = projected(problem, 2.0)._replace(neighbours=flipped)
    (short,), _ = moved(case, trials=1)[ReplaceOne()]
    assert short == pytest.approx(7 * 0.2)  # of 7 times the way from one side to the other


@pytest.mark.parametrize("loss", [HuberHinge(0.5), MultinomialLogistic(3)])
def test_the_unclipped_gradient_is_the_derivative_of_the_mean_loss(loss):
    draw, problem = np.random.default_rng(3), plain(loss)
    case = gradient(loss, math.inf)
    tried = random_neighbours(case, draw, 1)
    shard = Shard(*(jnp.asarray(part[0]) for part in tried[:2]), jnp.ones(RECORDS))
    x, count = jnp.asarray(draw.standard_normal(problem.model_shape(FEATURES))), jnp.asarray(4.0)
    truth = jax.grad(lambda w: problem.local_value(w, shard, count))(x)
    np.testing.assert_allclose(
        Gradient(loss, math.inf).exact(shard, count, Point(x)), truth, atol=1e-12
    )
