"""Many rows are worked on in blocks, which change no bit of an answer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.kernel.questions import Around, CentredGradient, Gradient, Point, sums
from taciturn.kernel.records import for_exact_sums, pack
from taciturn.problems import MultinomialLogistic, Squared

ROWS, COLUMNS = 997, 7  # in blocks of 19 rows: the last two begin before the end of others


def shard_and_count(targets, *, narrow=False):
    draw = np.random.default_rng(0)
    shards = pack(
        draw.standard_normal((ROWS, COLUMNS)), targets, [np.arange(ROWS)],
        record_norm=1.0, precision="float64", enforce="clip",
    )  # fmt: skip
    return jax.tree.map(lambda leaf: leaf[0], for_exact_sums(shards, narrow=narrow)), jnp.asarray(
        float(ROWS)
    )


def question(kind):
    draw = np.random.default_rng(1)
    vector = jnp.asarray(draw.standard_normal(COLUMNS))
    if kind == "centred":
        centre = jnp.asarray(draw.uniform(-0.3, 0.3, COLUMNS))
        return CentredGradient(Gradient(Squared(), 0.5), 1.0, 0.3), Around(Point(vector), centre)
    if kind == "classes":
        matrix = jnp.asarray(draw.standard_normal((COLUMNS, 3)))
        return Gradient(MultinomialLogistic(3), 1.0), Point(matrix)
    return Gradient(Squared(), 0.5), Point(vector)


def answered(kind, *, narrow=False):
    draw = np.random.default_rng(2)
    targets = draw.integers(0, 3, ROWS) if kind == "classes" else draw.uniform(-1, 1, ROWS)
    oracle, query = question(kind)
    return np.asarray(jax.jit(oracle.exact)(*shard_and_count(targets, narrow=narrow), query))


def in_blocks(monkeypatch):
    monkeypatch.setattr(sums, "_AT_ONCE", 0)
    monkeypatch.setattr(sums, "_BLOCK", 2**10)
    monkeypatch.setattr(sums, "_LONGER", 1)


@pytest.mark.parametrize("kind", ["plain", "centred"])
def test_blocks_of_rows_change_no_bit_of_an_answer(kind, monkeypatch):
    at_once = answered(kind)
    in_blocks(monkeypatch)
    np.testing.assert_array_equal(answered(kind), at_once)


def test_blocks_of_rows_change_no_answer_of_many_classes(monkeypatch):
    at_once = answered("classes")
    in_blocks(monkeypatch)
    # the exponential has another last digit elsewhere in a vector, and a coefficient is then cut
    np.testing.assert_allclose(answered("classes"), at_once, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["plain", "centred", "classes"])
def test_rows_that_two_blocks_share_are_seen_if_both_count_them(kind, monkeypatch):
    at_once = answered(kind)
    in_blocks(monkeypatch)
    monkeypatch.setattr(sums, "_not_before", lambda first, places: places >= 0)
    assert np.max(np.abs(answered(kind) - at_once)) > 1e-4
