"""Newton's method on noised derivatives: its limit, its covariance, and what it refuses."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_terms
from taciturn.algorithms import METHODS
from taciturn.algorithms.newton import LEAST, layout_of, newton
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import Messages, Sum
from taciturn.kernel.questions import Derivatives, Point
from taciturn.kernel.records import for_exact_sums, pack
from taciturn.problems import (
    L1,
    L2,
    Ball,
    CappedExponential,
    CumulativeLogistic,
    DiscreteCloglog,
    DiscreteLogistic,
    Logistic,
    MultinomialLogistic,
    PiecewiseExponential,
    Poisson,
    Problem,
    Squared,
    Survival,
    minimise,
    public_facts,
    survival_target,
)
from taciturn.regression import fit

NORM, COLUMNS = 2.0, 4
TRUTH = np.array([0.5, -0.8, 0.0, 0.3])
HIGHEST = 8.0


def records(loss, count, seed=0):
    """Rows of norm 2 at most, the last entry 1, and responses of the loss's own model."""
    draw = np.random.default_rng(seed)
    rows = np.ones((count, COLUMNS))
    rows[:, 1:] = draw.uniform(-1, 1, (count, COLUMNS - 1))
    scores = rows @ TRUTH
    if isinstance(loss, Poisson):
        found = np.minimum(draw.poisson(np.exp(scores)), HIGHEST) / HIGHEST * 2 - 1
    elif isinstance(loss, Squared):
        found = np.clip(scores / 4 + 0.1 * draw.standard_normal(count), -1, 1)
    else:
        found = np.where(draw.random(count) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
    return rows, found


def shards_of(loss, count, parts=(1,), seed=0):
    rows, targets = records(loss, count, seed)
    ends = np.cumsum([count * part // sum(parts) for part in parts])[:-1]
    return pack(
        rows, targets, np.split(np.arange(count), ends), record_norm=NORM, precision="float64"
    )


def planned(loss, shards, *, rounds=6, covariance="model", l2=None, **terms):
    problem = Problem(loss) if l2 is None else Problem(loss, L2(l2))
    clip = min(loss.lipschitz, 1.0)
    if isinstance(loss, Poisson):
        clip = loss.lipschitz
    spec = public_facts(problem, shards, clip=clip)
    method = newton(problem, spec, clip, rounds, covariance)
    terms = make_terms(**terms)
    return plan(spec, method, method.asks, terms, rounds=rounds, precision="float64"), method


def last_of(finished):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[-1], finished.trace.publics)


def fitted(loss, shards, seed=0, **given):
    return fit_of(*planned(loss, shards, **given), shards, seed)


def fit_of(made, method, shards, seed):
    finished = run(made, shards, runtime="simulate", seed=seed, keep=frozenset({"publics"}))
    return fit(made, method, last_of(finished))


@pytest.mark.parametrize("parts", [(1,), (1, 3, 6)])
@pytest.mark.parametrize(
    "loss", [Logistic(), CappedExponential(), Poisson(0.0, HIGHEST), Squared()], ids=repr
)
def test_without_noise_the_limit_is_the_optimum_of_all_records_whatever_the_sizes(loss, parts):
    shards = shards_of(loss, 600, parts)
    together = shards_of(loss, 600)
    found = fitted(loss, shards, rounds=25, epsilon=math.inf)
    best = minimise(Problem(loss), together).w
    np.testing.assert_allclose(found.estimate, best, atol=1e-7)
    assert not found.refused
    assert not np.any(found.by_noise)


def test_a_regulariser_is_part_of_the_optimum():
    shards = shards_of(Logistic(), 400)
    found = fitted(Logistic(), shards, rounds=25, epsilon=math.inf, l2=0.1)
    best = minimise(Problem(Logistic(), L2(0.1)), shards).w
    np.testing.assert_allclose(found.estimate, best, atol=1e-7)


@pytest.mark.parametrize("covariance", ["model", "dispersion", "robust"])
def test_the_covariance_is_that_of_estimates_over_repetitions(covariance):
    """Of fresh records and fresh noise: variances within their error over 150 repetitions."""
    loss = Squared() if covariance == "dispersion" else Logistic()
    made = planned(
        loss, shards_of(loss, 20_000), rounds=7, covariance=covariance, epsilon=3.0, delta=1e-6
    )
    found = [fit_of(*made, shards_of(loss, 20_000, seed=seed), seed) for seed in range(150)]
    assert not any(one.refused for one in found)
    spread = np.var([one.estimate for one in found], axis=0)
    stated = np.mean([np.diag(one.by_sampling + one.by_noise) for one in found], axis=0)
    np.testing.assert_allclose(stated, spread, rtol=3.5 * math.sqrt(2 / 150))
    truth = TRUTH / 4 if covariance == "dispersion" else TRUTH
    away = np.mean([one.estimate for one in found], axis=0) - truth
    assert np.all(np.abs(away) < 3.5 * np.sqrt(spread / 150))


def test_noise_that_hides_the_second_derivatives_is_found_out():
    loss = Logistic()
    assert fitted(loss, shards_of(loss, 500), epsilon=0.5, delta=1e-5).refused
    assert not fitted(loss, shards_of(loss, 50_000), epsilon=3.0, delta=1e-6).refused


def test_the_last_round_has_most_of_the_budget_and_all_of_them_are_accounted_for():
    made, method = planned(Logistic(), shards_of(Logistic(), 5000), epsilon=1.0, delta=1e-6)
    scales = np.asarray(made.ledger.scale)[0, :, 0]
    shares = (scales[-1] / scales) ** 2
    np.testing.assert_allclose(shares, [LEAST] * 3 + [LEAST, 1 / 4, 1])
    moved = made.ledger.sensitivity[0, :, 0]
    assert made.certificate.mu == pytest.approx(np.linalg.norm(moved / scales), rel=1e-6)
    assert [question.second for question in method.asks] == [method.asks[0].second] * 6


@pytest.mark.parametrize("observer", [Messages(), Sum()])
def test_sites_add_their_noises_only_where_messages_are_seen(observer):
    """Under sum five sites together have the noise of one."""
    shards = shards_of(Logistic(), 20_000, (1, 1, 1, 1, 1))
    found = fitted(Logistic(), shards, epsilon=3.0, delta=1e-6, observer=observer)
    alone = fitted(Logistic(), shards_of(Logistic(), 20_000), epsilon=3.0, delta=1e-6)
    ratio = np.diag(found.by_noise) / np.diag(alone.by_noise)
    assert np.all((ratio > 3.5) & (ratio < 7)) if observer == Messages() else np.all(ratio < 1.9)


def test_what_it_cannot_solve_is_refused():
    shards = shards_of(Logistic(), 100)
    spec = public_facts(Problem(Logistic()), shards, clip=1.0)
    for problem in (Problem(Logistic(), L1(0.1)), Problem(Logistic(), constraint=Ball(1.0))):
        with pytest.raises(InputError, match="newton knows"):
            newton(problem, spec, 1.0, 6, "model")
    with pytest.raises(InputError, match="at least 3"):
        newton(Problem(Logistic()), spec, 1.0, 2, "robust")
    with pytest.raises(InputError, match="no weight of squares"):
        newton(Problem(MultinomialLogistic(3)), spec, 1.0, 6, "dispersion")
    method = newton(Problem(Logistic()), spec, 1.0, 6, "model")
    with pytest.raises(InputError, match="6 rounds"):
        method.questions(5)


def test_a_step_moves_the_score_of_no_row_by_more_than_three():
    made, method = planned(Logistic(), shards_of(Logistic(), 200), epsilon=0.1, delta=1e-6)
    finished = run(
        made, shards_of(Logistic(), 200), runtime="simulate", seed=1, keep=frozenset({"models"})
    )
    models = np.concatenate([np.zeros((1, COLUMNS)), np.asarray(finished.trace.models)])
    assert np.all(np.linalg.norm(np.diff(models, axis=0), axis=1) * NORM <= 3 * (1 + 1e-9))
    assert "newton" in METHODS
    assert dataclasses.is_dataclass(method)


SEVERAL = [
    MultinomialLogistic(3),
    CumulativeLogistic(4),
    PiecewiseExponential(1.0, 2.0, (0.3, 0.6)),
    DiscreteLogistic(1.0, 2.0, (0.3, 0.6)),
    DiscreteCloglog(1.0, 2.0, (0.3, 0.6)),
]


@pytest.mark.parametrize("loss", SEVERAL, ids=repr)
def test_sums_of_several_margins_are_exact_in_any_order_and_of_any_part(loss):
    draw, count = np.random.default_rng(0), 1000
    rows = np.column_stack([draw.uniform(-1, 1, (count, COLUMNS - 1)), np.ones(count)])
    targets = draw.integers(0, 3, count)
    if isinstance(loss, Survival):
        leaving = draw.choice([0.1, 0.3, 0.7, 1.0], count)
        targets = survival_target(np.zeros(count), leaving, draw.random(count) < 0.5)
    shards = pack(rows, targets, [np.arange(count)], record_norm=NORM, precision="float64")
    shard = jax.tree.map(lambda leaf: leaf[0], for_exact_sums(shards))
    layout = layout_of(loss, COLUMNS, ())
    question = Derivatives(loss, loss.lipschitz, 1.0, 1.0, layout)
    query = Point(jnp.asarray(draw.standard_normal((COLUMNS, loss.outputs))))
    sums = jax.jit(lambda some: question._sums(some, query.x))

    def of(order, mask):
        moved = jax.tree.map(lambda leaf: leaf[order], shard)
        return sums(dataclasses.replace(moved, mask=moved.mask * mask))

    whole, some = np.arange(count), (np.arange(count) % 3 == 0).astype(float)
    every = of(whole, np.ones(count))
    shuffled = of(draw.permutation(count), np.ones(count))
    parts = jax.tree.map(jnp.add, of(whole, some), of(whole, 1 - some))
    for other in (shuffled, parts):
        for one, two in zip(every, other, strict=True):
            np.testing.assert_array_equal(one, two)
    assert layout.size == every[1].shape[0]
