"""Bins, hats and Fourier features: what they are, their norms, and what names mean."""

import math

import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn.features import Inputs, feature_map_named

TABLE = Inputs(("age", "city=a", "city=b", "pay", "(intercept)"), 2.0, numbers=(0, 3), constant=4)


def rows_of(count=500, seed=0):
    draw = np.random.default_rng(seed)
    city = draw.integers(0, 2, count)
    ages, pays = draw.uniform(-1, 1, (2, count))
    return np.column_stack([ages, city, 1 - city, pays, np.ones(count)])


def test_a_number_is_in_the_bin_that_its_range_divided_into_equal_parts_says():
    bins = feature_map_named("bins:4", TABLE)
    values = [-1.0, -0.51, -0.5, -1e-9, 0.0, 0.49, 0.5, 0.99, 1.0]
    rows = rows_of(len(values))
    rows[:, 0] = values
    found = bins.apply(rows)
    np.testing.assert_array_equal(found[:, :5], rows)
    assert found[:, 5:9].argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 3]
    assert np.all(found[:, 5:].reshape(len(values), 2, 4).sum(axis=2) == 1)
    assert bins.names[5:9] == ("age bin 0", "age bin 1", "age bin 2", "age bin 3")


def test_a_number_between_two_nodes_gives_them_its_share_of_the_way():
    hats = feature_map_named("hats:5", TABLE)
    values = [-1.0, -0.75, -0.5, 0.1, 1.0]
    rows = rows_of(len(values))
    rows[:, 0] = values
    found = hats.apply(rows)
    np.testing.assert_array_equal(found[:, :5], rows)
    nodes = [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0.8, 0.2, 0]]
    np.testing.assert_allclose(found[:, 5:10], [*nodes, [0, 0, 0, 0, 1]], atol=1e-15)
    assert hats.names[5:7] == ("age hat 0", "age hat 1")


def test_a_model_of_hats_is_any_function_that_is_linear_between_the_nodes():
    heights, numbers = np.array([3.0, -1.0, 0.5, 2.0]), np.linspace(-1, 1, 101)
    rows = rows_of(len(numbers))
    rows[:, 0] = numbers
    scores = feature_map_named("hats:4", TABLE).apply(rows)[:, 5:9] @ heights
    np.testing.assert_allclose(scores, np.interp(numbers, np.linspace(-1, 1, 4), heights))


@pytest.mark.parametrize("name", ["bins:3", "hats:3"])
def test_numbers_outside_their_range_are_in_an_outer_bin_or_at_an_outer_node(name):
    rows = rows_of(2)
    rows[:, 0] = -7.0, 7.0
    found = feature_map_named(name, TABLE).apply(rows)
    assert found[:, 5:8].tolist() == [[1, 0, 0], [0, 0, 1]]


def search(features):
    """The largest norm of a row of features, over random rows and corners of their ranges."""
    rows = rows_of(4000)
    corners = rows_of(4000, seed=1)
    corners[:, [0, 3]] = np.sign(corners[:, [0, 3]])
    return max(np.linalg.norm(features.apply(some), axis=1).max() for some in (rows, corners))


@pytest.mark.parametrize(
    "name", ["bins:2", "bins:10", "hats:2", "hats:10", "fourier:2", "fourier:200"]
)
def test_the_bound_on_the_norm_is_reached_and_not_exceeded(name):
    features = feature_map_named(name, TABLE)
    assert search(features) == pytest.approx(features.record_norm, rel=1e-12)


def test_a_bound_that_forgets_the_bins_is_exceeded():
    """The planted fault."""
    assert search(feature_map_named("bins:10", TABLE)) > TABLE.record_norm + 0.1


def test_inner_products_of_fourier_features_are_the_kernel():
    features = feature_map_named("fourier:20000", TABLE)
    rows = rows_of(6)
    found = features.apply(rows)
    assert np.all(found[:, -1] == 1)
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    kernel = np.exp(-((distances / features.bandwidth) ** 2) / 2)
    assert np.abs(found[:, :-1] @ found[:, :-1].T - kernel).max() < 5 / math.sqrt(10_000)


def test_features_are_the_same_for_everybody():
    one, other = (feature_map_named("fourier:64", TABLE) for _ in range(2))
    np.testing.assert_array_equal(one.apply(rows_of()), other.apply(rows_of()))


@pytest.mark.parametrize("name", ["bins:5", "hats:5", "fourier:8"])
def test_features_have_a_name_each(name):
    features = feature_map_named(name, TABLE)
    assert features.apply(rows_of(3)).shape == (3, len(set(features.names)))
    assert features.columns == len(features.names)


NONSENSE = (
    *("", "wavelets", "bins", "bins:", "bins:x", "bins:-2", "bins:1", "bins:1.5"),
    *("hats", "hats:1", "hats:0"),
    *("fourier:7", "fourier:0", "scattering:2"),
)


@pytest.mark.parametrize("name", NONSENSE)
def test_names_that_say_nothing_are_refused_in_one_line(name):
    with pytest.raises(InputError) as told:
        feature_map_named(name, TABLE)
    assert "\n" not in str(told.value)


def test_bins_need_a_number_and_inputs_must_agree():
    with pytest.raises(InputError, match="number"):
        feature_map_named("bins:3", Inputs(("a",), 1.0))
    with pytest.raises(InputError, match="columns"):
        Inputs(("a", "b"), 1.0, numbers=(2,))
    with pytest.raises(InputError, match="numbers"):
        Inputs(("a", "b"), 1.0, picture=(2, 2, 1))


@pytest.mark.parametrize(("columns", "count"), [(5, 10), (105, 1000)])
def test_fourier_features_of_a_row_do_not_depend_on_which_rows_stand_beside_it(columns, count):
    """Planted fault: a product of matrices in double precision, whose order follows their size."""
    names = tuple(map(str, range(columns)))
    features = feature_map_named(f"fourier:{count}", Inputs(names, math.sqrt(columns)))
    rows = np.random.default_rng(0).uniform(-1, 1, (4_100, columns))
    whole = features.apply(rows)
    for some in (slice(1), slice(130), slice(999), slice(4_097), slice(1, None), slice(17, 90)):
        assert np.array_equal(features.apply(rows[some]), whole[some])
    phases = (rows[:, None] * features._frequencies[None, :2]).sum(axis=-1)
    assert np.allclose(whole[:, 0:4:2], np.cos(phases) * math.sqrt(2 / count), rtol=0, atol=1e-6)
