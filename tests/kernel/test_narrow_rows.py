"""Rows in single precision, where that holds all of their digits, change no bit of an answer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import batch_of, make_plan, make_shards
from taciturn.engine import run
from taciturn.kernel.door import opening
from taciturn.kernel.door.opening import prepared
from taciturn.kernel.privacy import Gaussian
from taciturn.kernel.questions import (
    CentredGradient,
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    Pair,
    Point,
    ProximalStep,
    Recentred,
    RowMean,
    Statistics,
    sums,
)
from taciturn.kernel.questions.centred import Around
from taciturn.kernel.records import for_exact_sums, pack
from taciturn.kernel.records.grid import Grid, on_grid, row_digits
from taciturn.problems import L2, Logistic, MultinomialLogistic, Problem, Squared

AGENTS, ROWS, COLUMNS = 7, 45, 6
NARROW = (
    Gradient(Squared(), 0.5), Gradient(Squared(), 0.5, relative_multiplier=2.0),
    MinibatchGradient(Squared(), 0.5, 0.1), MinibatchDifference(Squared(), 0.5, 0.1, spread=0.5),
    MinibatchDifference(Squared(), 0.5, 1.0, spread=0.5),
)  # fmt: skip


class AsTheyCome(Gradient):
    """A question that adds rows up in the precision in which they come."""

    def exact(self, shard, count, query):
        coefficient = self.loss.coefficient(shard.features @ query.x, shard.targets)
        return coefficient @ shard.features / count


class Prepared(Gradient):
    """A question that looks at rows before what noise is added to."""

    def private_part(self, shard, count, query):
        return self.exact(shard, count, query) + jnp.sum(shard.features)


LABELS = MultinomialLogistic(3)
AROUND = CentredGradient(Gradient(LABELS, 0.5), 1.0, 0.3)
SEVERAL = (Gradient(LABELS, 0.5), AROUND, RowMean(outputs=3))


def packed(rows=ROWS, *, record_norm=1.0, labels=False):
    draw = np.random.default_rng(0)
    everybody = AGENTS * rows
    rows_of_all = draw.standard_normal((everybody, COLUMNS))
    numbers, classes = draw.uniform(-1, 1, everybody), draw.integers(0, 3, everybody)
    return pack(
        rows_of_all, classes if labels else numbers,
        list(np.split(np.arange(everybody), AGENTS)),
        record_norm=record_norm, precision="float64",
    )  # fmt: skip


def points():
    return jnp.asarray(np.random.default_rng(1).standard_normal((AGENTS, COLUMNS)))


def answers(oracle, *, narrow, queries=0, shards=None):
    """The answers of all agents, each at its own point or all at the first agent's."""
    shard = for_exact_sums(shards or packed(), narrow=narrow)
    assert shard.narrow is narrow
    x = points() if queries == 0 else points()[0]
    asked = Pair(x, x / 2) if oracle.spread is not None else Point(x)
    counts = jnp.full(AGENTS, float(shard.mask.shape[-1]))
    exact = jax.jit(jax.vmap(oracle.exact, in_axes=(0, 0, queries)))
    return np.asarray(exact(shard, counts, asked))


# 2,160 bytes an agent: alone and cut, and two at a time with one left over
@pytest.mark.parametrize("block", [2**10, 2**12 + 2**9])
@pytest.mark.parametrize("queries", [0, None])
def test_narrow_rows_and_groups_of_agents_change_no_bit(block, queries, monkeypatch):
    oracle = NARROW[0]
    wide = answers(oracle, narrow=False, queries=queries)
    monkeypatch.setattr(sums, "_NARROW", block)
    np.testing.assert_array_equal(answers(oracle, narrow=True, queries=queries), wide)


@pytest.mark.parametrize("block", [2**7, 2**12 + 2**9])
@pytest.mark.parametrize("oracle", SEVERAL)
def test_narrow_rows_change_no_bit_with_several_outputs_or_a_centre(oracle, block, monkeypatch):
    x = jnp.asarray(np.random.default_rng(1).standard_normal((COLUMNS, 3)))
    query = Around(Point(x), x[:, 0] / 9) if oracle is AROUND else Point(x)
    counts, found = jnp.full(AGENTS, float(ROWS)), []
    for narrow in (False, True):
        shard = for_exact_sums(packed(labels=True), narrow=narrow)
        assert shard.narrow is narrow
        exact = jax.jit(jax.vmap(oracle.exact, in_axes=(0, 0, None)))
        found.append(np.asarray(exact(shard, counts, query)))
        monkeypatch.setattr(sums, "_NARROW", block)
    np.testing.assert_array_equal(*found)


def test_a_batch_of_narrow_rows_has_the_bits_of_wide_ones():
    for oracle in NARROW[2:4]:
        told = []
        for narrow in (False, True):
            shard = jax.tree.map(
                lambda leaf: leaf[0], for_exact_sums(packed(400), slots=200, narrow=narrow)
            )
            batch = batch_of(oracle, shard, jax.random.key(3))
            assert batch.features.dtype == jnp.float64
            point = points()[0]
            query = Pair(point, point / 2) if oracle is NARROW[3] else Point(point)
            told.append(np.asarray(oracle.exact(batch, jnp.asarray(400.0), query)))
        np.testing.assert_array_equal(*told)


def test_agents_under_an_axis_of_runs_have_the_bits_of_each_run(monkeypatch):
    oracle, shard = NARROW[0], for_exact_sums(packed(), narrow=True)
    counts = jnp.full(AGENTS, float(ROWS))
    every = jax.vmap(oracle.exact, in_axes=(0, 0, 0))
    runs = Point(jnp.stack([points(), -points() / 3]))
    monkeypatch.setattr(sums, "_NARROW", 2**12)
    together = jax.jit(jax.vmap(every, in_axes=(None, None, 0)))(shard, counts, runs)
    for number, found in enumerate(np.asarray(together)):
        alone = every(shard, counts, Point(runs.x[number]))
        np.testing.assert_array_equal(found, np.asarray(alone))


@pytest.fixture
def beyond_the_cache(monkeypatch):
    monkeypatch.setattr(opening, "stays_in_cache", lambda entries: False)


def test_a_run_on_narrow_rows_has_ledger_and_model_of_one_on_wide_rows(request):
    shards = make_shards()
    made = make_plan("noisy-gradient", shards)
    wide = run(made, shards, runtime="simulate", seed=1)
    request.getfixturevalue("beyond_the_cache")
    oracles, mechanism = made.program.oracles, made.program.mechanism
    assert prepared(oracles, mechanism, shards).shard.narrow
    narrow = run(made, shards, runtime="simulate", seed=1)
    narrow.ledger.same_as(wide.ledger)
    # the exponential may have another last digit elsewhere in a vector
    np.testing.assert_allclose(narrow.model, wide.model, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("beyond_the_cache")
def test_rows_are_narrow_only_where_every_question_widens_them():
    def kept(*oracles):
        return prepared(oracles, Gaussian(), packed()).shard.features.dtype

    assert all(kept(oracle) == jnp.float32 for oracle in (*NARROW, *SEVERAL))
    recentred = Recentred(NARROW[0], 1.0, 0.3)
    others = (
        AsTheyCome(Squared(), 0.5), Prepared(Squared(), 0.5), Statistics(1.0), recentred,
    )  # fmt: skip
    for other in others:
        assert kept(other) == jnp.float64
        assert kept(NARROW[0], other) == jnp.float64


@pytest.mark.parametrize("record_norm", [1.0, 3.7, 1e-20])
def test_single_precision_holds_every_digit_of_narrow_rows(record_norm):
    shards = packed(record_norm=record_norm)
    narrow, wide = (for_exact_sums(shards, narrow=kind) for kind in (True, False))
    assert narrow.features.dtype == jnp.float32
    np.testing.assert_array_equal(
        np.asarray(narrow.features, np.float64), np.asarray(wide.features)
    )


def test_rows_of_more_digits_or_beyond_the_range_of_single_precision_stay_wide():
    few = packed(4)
    assert row_digits(4) > 24
    assert for_exact_sums(few, narrow=True).features.dtype == jnp.float64
    grid = Grid(1.0, row_digits(4), 4)
    cells = on_grid(np.asarray(few.stacked.features), grid)
    assert np.any(cells.astype(np.float32) != cells)
    for norm in (1e-33, 1e33):
        rows = packed(record_norm=norm)
        assert for_exact_sums(rows, narrow=True).features.dtype == jnp.float64


def test_questions_without_sums_keep_their_precision():
    problem = Problem(Logistic(), L2(0.1))
    step = ProximalStep(problem, clip=1.0, rho=1.0, record_norm=1.0)
    kept = prepared((step,), Gaussian(), packed()).shard
    assert kept.features.dtype == jnp.float64
