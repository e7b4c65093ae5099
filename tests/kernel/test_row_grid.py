"""Rows on a grid: what is cut, and that sums over records are those of exact arithmetic, bits."""

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn.kernel.questions import margins, record_sum
from taciturn.kernel.questions.sums import power_of_two
from taciturn.kernel.records import Shard, Shards, for_exact_sums, pack
from taciturn.kernel.records.grid import (
    DIGITS,
    Grid,
    cut,
    gathering_slack,
    on_grid,
    power_above,
    row_digits,
    whole_log2,
)

ROWS = 16
GOLDEN = (math.sqrt(5) - 1) / 2
SIZES = [(1, None), (104, None), (104, 10), (784, 10)]
WEIGHTS = ["usual", "zero", "denormal", "1e38", "1e300", "infinite", "not a number"]


def on_a_grid(features, *, rows=ROWS, norm=1.0, precision="float64", seed=0):
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((rows, features))
    shards = pack(x, np.ones(rows), [np.arange(rows)], record_norm=norm, precision=precision)
    one = for_exact_sums(shards)
    return jax.tree.map(lambda leaf: leaf[0], one)


def weights_of(kind, features, outputs, seed=1):
    shape = (features,) if outputs is None else (features, outputs)
    w = np.random.default_rng(seed).standard_normal(shape)
    if kind == "zero":
        return w * 0
    if kind == "denormal":
        return w * 1e-310
    if kind in {"1e38", "1e300"}:
        return w * float(kind)
    if kind in {"infinite", "not a number"}:
        w.flat[0] = math.inf if kind == "infinite" else math.nan
        w.flat[-1] = -math.inf if w.size > 1 else w.flat[-1]
    return w


def whole(values, quantum):
    """Numbers as whole multiples of a quantum; none of them may have a remainder."""
    units = [Fraction(float(value)) / Fraction(quantum) for value in np.asarray(values).ravel()]
    assert all(unit.denominator == 1 for unit in units)
    return np.array([unit.numerator for unit in units], object).reshape(np.shape(values))


def as_floats(units, quantum):
    """Whole multiples of a quantum as floats; every one of them must be a float."""
    exact = [Fraction(int(unit)) * Fraction(quantum) for unit in units.ravel()]
    floats = [float(value) for value in exact]
    assert all(Fraction(value) == true for value, true in zip(floats, exact, strict=True))
    return np.array(floats).reshape(units.shape)


def rational_margins(shard, weights):
    """X w~ in whole numbers: w is rounded to r digits below the power of two above its largest."""
    grid, (_, features) = shard.grid, shard.features.shape
    digits = DIGITS - grid.digits - math.ceil(whole_log2(features) / 2)
    usable = np.where(np.isfinite(weights), np.clip(weights, -(2.0**500), 2.0**500), 0.0)
    largest = max(float(np.max(np.abs(usable))), 2.0**-500)
    scale = Fraction(2) ** math.frexp(largest)[1]
    quantum = scale / 2**digits
    units = [float(Fraction(float(w)) / quantum) for w in usable.ravel()]
    rounded = [math.trunc(unit + math.copysign(GOLDEN, unit)) for unit in units]
    w = np.array(rounded, object).reshape(usable.shape)
    of_rows = Fraction(grid.unit) / 2**grid.digits
    return as_floats(whole(shard.features, of_rows) @ w, of_rows * quantum)


def rational_sum(shard, coefficients, bound):
    """X'c~ in whole numbers: c is cut to q digits, towards zero."""
    grid = shard.grid
    of_rows = Fraction(grid.unit) / 2**grid.digits
    quantum = Fraction(power_above(bound)) / 2**grid.weight_digits
    units = [math.trunc(Fraction(float(c)) / quantum) for c in coefficients.ravel()]
    c = np.array(units, object).reshape(coefficients.shape)
    mask = whole(shard.mask, 1).reshape((-1,) + (1,) * (c.ndim - 1))
    return as_floats(whole(shard.features, of_rows).T @ (c * mask), of_rows * quantum)


def coefficients_of(rows, outputs, bound, seed=2):
    shape = (rows,) if outputs is None else (rows, outputs)
    c = np.random.default_rng(seed).uniform(-bound, bound, shape)
    return c / math.sqrt(outputs or 1)


def bits(values):
    """The bits of numbers, of one zero: the sign of a zero says nothing of a record."""
    return np.asarray(np.asarray(values, np.float64) + 0.0).view(np.int64)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("features", "outputs"), SIZES)
def test_margins_are_those_of_rational_arithmetic(features, outputs, kind):
    shard, w = on_a_grid(features), weights_of(kind, features, outputs)
    true = rational_margins(shard, w)
    for asked in (margins, jax.jit(margins)):
        np.testing.assert_array_equal(bits(asked(shard, jnp.asarray(w))), bits(true))


@pytest.mark.parametrize("bound", [1.0, 0.3, 1e4])
@pytest.mark.parametrize(("features", "outputs"), SIZES)
def test_sums_over_records_are_those_of_rational_arithmetic(features, outputs, bound):
    shard = on_a_grid(features)
    shard = dataclasses.replace(shard, mask=shard.mask.at[3].set(0.0))
    c = coefficients_of(ROWS, outputs, bound)
    true = rational_sum(shard, c, bound)
    for asked in (record_sum, jax.jit(record_sum, static_argnums=2)):
        np.testing.assert_array_equal(bits(asked(shard, jnp.asarray(c), bound)), bits(true))


@pytest.mark.parametrize("norm", [1.0, 0.7, 3.0])
def test_rational_arithmetic_is_met_at_other_norms_and_in_single_precision(norm):
    shard = on_a_grid(104, norm=norm, precision="float32")
    w, c = weights_of("usual", 104, 10), coefficients_of(ROWS, 10, 1.0)
    ours = margins(shard, jnp.asarray(w, jnp.float32))
    true = rational_margins(shard, w.astype(np.float32).astype(np.float64))
    np.testing.assert_array_equal(bits(ours), bits(true))
    ours = record_sum(shard, jnp.asarray(c), 1.0)
    np.testing.assert_array_equal(bits(ours), bits(rational_sum(shard, c, 1.0)))


def test_the_last_bit_of_a_model_on_a_lattice_does_not_move_a_margin():
    """Runtimes add messages up in another order, so that models differ in their last bits."""
    shard = on_a_grid(5, rows=4)
    unit = 8 * 2.0 ** (2 + shard.grid.digits - DIGITS)  # the last digit of weights from 4 to 8
    model = np.random.default_rng(0).integers(-(2**26), 2**26, (5, 400)) * unit / 2
    model[0] = 7.0
    near = [model, np.nextafter(model, np.inf), np.nextafter(model, -np.inf)]
    ours = [bits(margins(shard, jnp.asarray(one))) for one in near]
    np.testing.assert_array_equal(ours[0], ours[1])
    np.testing.assert_array_equal(ours[0], ours[2])
    nearest = [np.rint(one / unit) for one in near]  # the planted fault: half of them lie between
    assert np.mean(nearest[1] != nearest[2]) > 0.3


MANY = 6_000


def in_another_order(shard, coefficients, order):
    rows = dataclasses.replace(
        shard, features=shard.features[order], targets=shard.targets[order], mask=shard.mask[order]
    )
    return rows, coefficients[order]


def in_blocks(shard, coefficients, bound, cuts):
    total = 0.0
    for first, last in zip([0, *cuts], [*cuts, len(coefficients)], strict=True):
        part = jax.tree.map(lambda leaf, rows=slice(first, last): leaf[rows], shard)
        total = total + record_sum(part, coefficients[first:last], bound)
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("features", "outputs"), [(104, None), (104, 10)])
def test_neither_the_order_of_the_rows_nor_their_blocks_move_a_bit(features, outputs):
    shard = on_a_grid(features, rows=MANY)
    c = jnp.asarray(coefficients_of(MANY, outputs, 1.0))
    total = bits(record_sum(shard, c, 1.0))
    w = jnp.asarray(weights_of("usual", features, outputs))
    of_rows = np.asarray(margins(shard, w))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(MANY)
        moved, theirs = in_another_order(shard, c, order)
        np.testing.assert_array_equal(bits(record_sum(moved, theirs, 1.0)), total)
        np.testing.assert_array_equal(bits(margins(moved, w)), bits(of_rows[order]))
    for cuts in ([1], [17, 4_000], [1_000, 2_000, 3_000]):
        np.testing.assert_array_equal(bits(in_blocks(shard, c, 1.0, cuts)), total)


def test_a_record_moves_a_sum_by_its_own_term_and_by_nothing_else():
    shard = on_a_grid(104, rows=MANY)
    c = jnp.asarray(coefficients_of(MANY, None, 1.0))
    without = dataclasses.replace(shard, mask=shard.mask.at[11].set(0.0))
    moved = record_sum(shard, c, 1.0) - record_sum(without, c, 1.0)
    term = np.asarray(shard.features)[11] * float(cut(c, 1.0, shard.grid.weight_digits)[11])
    np.testing.assert_array_equal(bits(moved), bits(term))
    narrow = Shard(shard.features, shard.targets, shard.mask)  # the fault: no grid
    moved = record_sum(narrow, c / 3, 1.0) - record_sum(
        dataclasses.replace(narrow, mask=without.mask), c / 3, 1.0
    )
    assert np.any(np.asarray(moved) != np.asarray(shard.features)[11] * float(c[11] / 3))


def test_a_sum_of_coefficients_that_nothing_bounds_is_refused_on_a_grid():
    shard = on_a_grid(3)
    with pytest.raises(InputError, match="clip it"):
        record_sum(shard, jnp.ones(ROWS), math.inf)
    plain = Shard(shard.features, shard.targets, shard.mask)
    assert np.all(np.isfinite(record_sum(plain, jnp.ones(ROWS), math.inf)))


POWERS = [1.0, 2.0, 0.5, 2.0**500, 2.0**-500, 2.0**37]
BETWEEN = [0.0, 1e-320, 5e-324, 0.3, 1.5, 3.999999999999999, 1e38, 1e150, 2.0**-600]


@pytest.mark.parametrize("largest", POWERS + BETWEEN)
def test_the_power_of_two_above_a_number_is_exact(largest):
    expected = math.ldexp(1.0, math.frexp(max(largest, 2.0**-500))[1])
    found = float(power_of_two(jnp.asarray(largest)))
    assert found == expected
    assert largest < found
    assert math.frexp(found)[0] == 0.5
    through_logarithms = 2.0 ** math.ceil(math.log2(max(largest, 2.0**-500)))
    if largest in POWERS:
        assert through_logarithms != found  # the planted fault: no power above a power of two


@pytest.mark.parametrize("bound", [1.0, 1.5, 0.3, 2.0**-1074, 1e300, 7.0])
def test_the_least_power_of_two_that_is_at_least_a_bound(bound):
    power = power_above(bound)
    assert Fraction(power) / 2 < Fraction(bound) <= Fraction(power)
    assert math.frexp(power)[0] == 0.5


@pytest.mark.parametrize("norm", [1.0, 0.3, 20.0])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_rows_are_cut_towards_zero_to_the_digits_of_the_grid(norm, precision):
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((50, 7))
    shards = pack(rows, np.ones(50), [np.arange(50)], record_norm=norm, precision=precision)
    shard = for_exact_sums(shards)
    given, on = np.asarray(shards.stacked.features, np.float64), np.asarray(shard.features)
    quantum = shard.grid.unit * 2.0**-shard.grid.digits
    assert np.all(np.abs(on) <= np.abs(given))
    assert np.all(np.abs(on - given) < quantum)
    assert np.all(on / quantum == np.rint(on / quantum))
    nearest = np.rint(given / quantum) * quantum
    assert np.any(np.abs(nearest) > np.abs(given))  # the planted fault: norms grow
    assert on_grid(on, shard.grid).tolist() == on.tolist()


def test_rows_are_cut_one_by_one():
    """What another record is moves no other row: its norm and the counts decide the grid alone."""
    rows = np.random.default_rng(0).standard_normal((2, 9, 4)) / 4
    rows[1, :8] = rows[0, :8]
    pair = []
    for block in rows:
        stacked = Shard(jnp.asarray(block)[None], jnp.ones((1, 9)), jnp.ones((1, 9)))
        pair.append(np.asarray(for_exact_sums(Shards(stacked, (9,), 2.0)).features))
    np.testing.assert_array_equal(pair[0][0, :8], pair[1][0, :8])
    assert np.any(pair[0][0, 8] != pair[1][0, 8])


@pytest.mark.parametrize("rows", [1, 2, 100, 6_000, 2_000_000])
@pytest.mark.parametrize("slots", [0, 20, 2_000])
def test_rows_and_weights_have_no_more_digits_than_double_precision_adds(rows, slots):
    digits = row_digits(rows, slots)
    terms = Grid(1.0, digits, rows)
    assert terms.digits + terms.weight_digits + whole_log2(rows) <= DIGITS
    assert 2 * digits + whole_log2(rows) <= DIGITS
    assert terms.of_terms(max(slots, 1)).weight_digits >= terms.weight_digits or slots > rows


def test_what_gathering_may_move_is_what_the_digits_of_the_weights_leave():
    slack, digits = gathering_slack(60_000, 500, 10), row_digits(60_000, 500)
    weights = DIGITS - digits - math.ceil(math.log2(500))
    assert slack == pytest.approx(500 * math.sqrt(10) * 2.0 ** (1 - weights), rel=1e-12)
    assert gathering_slack(60_000, 0) == 0
