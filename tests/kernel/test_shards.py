import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.audit import replace_record, zero_record
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.records import (
    Shard,
    Shards,
    check_norms,
    clip_rows,
    pack,
    row_norms,
)
from taciturn.kernel.records import shards as shards_module
from taciturn.kernel.records.memory import aligned_zeros, jax_array
from taciturn.problems import L2, Logistic, MultinomialLogistic, Problem, Squared


def packed(features, targets, parts, **changes):
    options = {"record_norm": 1.0, "precision": "float64"} | changes
    return pack(features, targets, [np.asarray(part) for part in parts], **options)


def small(**changes):
    random = np.random.default_rng(0)
    features, targets = random.normal(size=(9, 3)), random.choice([-1.0, 1.0], 9)
    parts = [[0, 4, 7], [1], [2, 3, 5, 6, 8]]
    return features, targets, parts, packed(features, targets, parts, **changes)


def test_norms_of_rows_of_every_size_are_those_of_scaled_arithmetic():
    draw = np.random.default_rng(3)
    sizes = 10.0 ** draw.uniform(-300, 300, (400, 1))
    rows = np.concatenate([draw.standard_normal((400, 5)) * sizes, 1e-160 * np.eye(5), np.eye(5)])
    mixed = np.array([[1e-170, 3e-101, 4e-101, 0, 0], [1e-300, 0, 0, 0, 1e100], [0, 0, 0, 0, 0]])
    rows = np.concatenate([rows, mixed])
    truth = np.array([math.hypot(*row) for row in rows.tolist()])
    np.testing.assert_allclose(row_norms(rows), truth, rtol=1e-15, atol=0)
    np.testing.assert_array_equal(row_norms(rows[None]), row_norms(rows)[None])
    assert np.all(np.isnan(row_norms(np.array([[np.nan, 1.0], [1e-200, np.nan]]))))


def test_an_array_of_ones_own_shares_no_memory():
    values = aligned_zeros((7, 3), np.float64)
    own = jax_array(values)
    values[0, 0] = 5.0
    assert float(np.asarray(own)[0, 0]) == 0.0
    assert jax_array(values, np.float32).dtype == np.float32
    assert float(np.asarray(jax_array([1e300], np.float32))[0]) == math.inf


def adversarial_rows(bound):
    """Return rows whose rounding tends to lengthen them, and rows just around the bound."""
    random = np.random.default_rng(0)
    even = np.ones((40, 1)) * np.linspace(0.9, 1.1, 7) / np.sqrt(7)
    wide = random.normal(size=(3000, 7))
    unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    around = unit * (1 + random.integers(-4, 5, (3000, 1)) * 6e-8)
    huge = np.array([[1e300] * 7, [1e-300] * 7, [0.0] * 7, [1e30] + [0.0] * 6])
    return np.concatenate([even * bound, unit * bound, around * bound, huge])


def long_norms(rows):
    return np.sqrt((rows.astype(np.longdouble) ** 2).sum(-1))


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("bound", [1.0, 0.1, 1 / 3, 255.0])
def test_stored_norms_never_exceed_the_bound(precision, bound):
    rows = adversarial_rows(bound)
    stored = clip_rows(rows, bound, precision)
    assert stored.dtype == precision
    wide = stored.astype(np.float64)
    norms = [np.linalg.norm(wide, axis=1), np.sqrt((wide**2).sum(1)), row_norms(wide)]
    assert max(n.max() for n in norms) <= bound
    assert long_norms(wide).max() <= np.longdouble(bound)
    kept = long_norms(rows) >= bound
    assert row_norms(wide[kept]).min() >= bound * (1 - 1e-6)


def test_a_plain_cast_would_exceed_the_bound():
    rows = adversarial_rows(0.1)[:6000]
    plain = rows * np.minimum(1, 0.1 / np.linalg.norm(rows, axis=1, keepdims=True))
    cast = plain.astype(np.float32)
    assert long_norms(cast).max() > np.longdouble(0.1)
    with pytest.raises(PrivacyError, match="norm above"):
        check_norms(Shard(jnp.asarray(cast), jnp.zeros(6000), jnp.ones(6000)), 0.1)


def test_one_row_beyond_the_norm_does_not_have_the_others_looked_at_again(monkeypatch):
    """The time of another look at all of them would tell that there is one."""
    looked, norms = [], shards_module._upper_norms
    monkeypatch.setattr(
        shards_module, "_upper_norms", lambda rows: looked.append(len(rows)) or norms(rows)
    )
    draw = np.random.default_rng(0)
    inside = draw.standard_normal((200, 5)) / 100
    for _ in range(20):  # some are still beyond it once they are rounded
        looked.clear()
        clip_rows(np.concatenate([inside, 50 * draw.standard_normal((1, 5))]), 1.0, "float32")
        assert sum(looked) <= 201 + 8
        if len(looked) > 1:
            return
    pytest.fail("no row was beyond the norm after rounding")


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_enforcing_twice_changes_nothing_and_axis_rows_are_exact(precision):
    once = clip_rows(adversarial_rows(1.0), 1.0, precision)
    np.testing.assert_array_equal(clip_rows(once, 1.0, precision), once)
    np.testing.assert_array_equal(clip_rows(np.eye(4) * 3, 1.0, precision), np.eye(4))


def test_a_row_that_the_precision_cannot_hold_is_refused():
    with pytest.raises(InputError, match="out of the range of float32"):
        clip_rows(np.array([[1e50, 1.0]]), 1e100, "float32")


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_packed_rows_are_the_clipped_rows_in_their_places(precision):
    features, targets, parts, shards = small(precision=precision)
    assert shards.counts == (3, 1, 5)
    assert (shards.agents, shards.dimension) == (3, 3)
    for agent, part in enumerate(parts):
        shard, size = shards.shard(agent), len(part)
        norms = np.linalg.norm(features[part], axis=1, keepdims=True)
        expected = features[part] / np.maximum(1, norms)
        np.testing.assert_allclose(shard.features[:size], expected, rtol=1e-6)
        np.testing.assert_array_equal(shard.targets[:size], targets[part])
        assert not np.any(shard.features[size:])
        np.testing.assert_array_equal(shard.mask, np.arange(5) < size)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(shard)} == {precision}


def test_many_small_agents_are_packed_together_and_not_one_by_one(monkeypatch):
    """Planted fault: a call for every agent, which costs more than its few rows do."""
    sizes = []

    def counted(rows, *given):
        sizes.append(len(rows))
        return clip_rows(rows, *given)

    monkeypatch.setattr(shards_module, "clip_rows", counted)
    rows = adversarial_rows(1.0)[:3_000]
    parts = np.split(np.random.default_rng(0).permutation(3_000), np.arange(3, 3_000, 3))
    together = packed(rows, np.zeros(3_000), parts).stacked.features
    assert sizes == [3_000]
    alone = [packed(rows, np.zeros(3_000), [part]).stacked.features[0] for part in parts[:20]]
    assert np.array_equal(np.asarray(together)[:20], np.stack(alone))


def test_integer_targets_stay_integers():
    shards = packed(np.ones((3, 1)), np.array([2, 0, 1], np.uint8), [[0], [1, 2]])
    assert shards.stacked.targets.dtype == np.int32
    np.testing.assert_array_equal(shards.stacked.targets, [[2, 0], [0, 1]])


def with_junk(shards, mask):
    """Return the shards with four more rows of ones per agent, under the given mask."""
    data = jax.tree.map(np.asarray, shards.stacked)
    ends = [(0, 0), (0, 4)]
    longer = Shard(
        features=jnp.asarray(np.pad(data.features, [*ends, (0, 0)], constant_values=1)),
        targets=jnp.asarray(np.pad(data.targets, ends, constant_values=1)),
        mask=jnp.asarray(np.pad(data.mask, ends, constant_values=mask)),
    )
    return Shards(longer, shards.counts, shards.record_norm)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Logistic(), Squared(), MultinomialLogistic(classes=3)])
def test_the_objective_and_gradient_are_means_of_means_without_padding(loss):
    random = np.random.default_rng(1)
    features = random.normal(size=(9, 3)) * 0.3
    targets = random.integers(0, 3, 9) if loss.outputs else random.choice([-1.0, 1.0], 9)
    parts = [[0, 4, 7], [1], [2, 3, 5, 6, 8]]
    shards = packed(features, targets, parts, record_norm=10.0)
    problem = Problem(loss, L2(0.4))
    w = jnp.asarray(random.normal(size=problem.model_shape(3)))

    def reference(w):
        values = [
            jnp.mean(loss.value(jnp.asarray(features[p]) @ w, jnp.asarray(targets[p])))
            for p in parts
        ]
        return sum(values) / 3

    value, gradient = jax.jit(jax.value_and_grad(reference))(w)
    value = float(value) + 0.2 * np.sum(np.square(w))
    both = jax.jit(lambda problem, w, s: (problem.objective(w, s), problem.gradient(w, s)))
    for same in (shards, with_junk(shards, 0.0)):
        ours, slope = both(problem, w, same)
        assert float(ours) == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(slope, gradient, atol=1e-14)
    assert abs(float(both(problem, w, with_junk(shards, 1.0))[0]) - value) > 1e-2


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([[0, 1], [1, 2]], "row 1 is used 2 times"),
        ([[0, 0]], "row 0 is used 2 times"),
        ([[0], []], "agent 1 has no records"),
        ([], "no parts"),
        ([[0, 3]], r"rows 0\.\.2"),
        ([[-1]], r"rows 0\.\.2"),
        ([[0.5]], "integer row indices"),
    ],
)
def test_parts_that_break_disjointness_or_name_no_rows_are_refused(parts, message):
    with pytest.raises(InputError, match=message):
        packed(np.ones((3, 2)), np.ones(3), parts)


@pytest.mark.parametrize(
    ("features", "targets", "changes", "message"),
    [
        (np.array([[1.0], [np.nan]]), np.ones(2), {}, "row 1, column 0"),
        (np.array([[1.0], [np.inf]]), np.ones(2), {}, "row 1, column 0"),
        (np.ones((2, 1)), np.array([1.0, np.nan]), {}, "target is NaN"),
        (np.ones((2, 1)), np.ones(3), {}, "shape"),
        (np.ones(2), np.ones(2), {}, "shape"),
        (np.ones((2, 1)), np.array([True, False]), {}, "bool"),
        (np.ones((2, 1)), np.ones(2), {"record_norm": 0.0}, "record_norm"),
    ],
)
@pytest.mark.unchecked
def test_data_that_cannot_be_packed_are_refused(features, targets, changes, message):
    with pytest.raises(InputError, match=message):
        packed(features, targets, [[0, 1]], **changes)


def difference(a, b):
    return [
        np.argwhere(np.asarray(x) != np.asarray(y))
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    ]


def test_a_replaced_record_changes_one_row_only():
    shards = small()[3]
    other = replace_record(shards, 2, 4, np.array([0.6, 0.0, 0.1]), 1.0)
    features, targets, mask = difference(shards.stacked, other.stacked)
    assert {tuple(place[:2]) for place in features} == {(2, 4)}
    assert {tuple(place) for place in targets} <= {(2, 4)}
    assert not mask.size
    np.testing.assert_array_equal(other.stacked.features[2, 4], [0.6, 0.0, 0.1])
    assert other.counts == shards.counts


def test_a_replacement_outside_the_bound_is_refused_unless_planted():
    shards = small()[3]
    with pytest.raises(InputError, match="clip_rows"):
        replace_record(shards, 0, 0, np.full(3, 2.0), 1.0)
    with pytest.raises(InputError, match="clip_rows"):
        replace_record(shards, 0, 0, np.full(3, np.nan), 1.0)
    planted = replace_record(shards, 0, 0, np.full(3, 2.0), 1.0, enforce=False)
    with pytest.raises(PrivacyError, match="1 rows"):
        check_norms(planted.stacked, planted.record_norm)
    check_norms(shards.stacked, shards.record_norm)


@pytest.mark.parametrize(("agent", "index"), [(3, 0), (-1, 0), (1, 1), (0, -1)])
def test_a_record_that_does_not_exist_cannot_be_changed(agent, index):
    shards = small()[3]
    with pytest.raises(InputError, match=r"there is no agent|has no record"):
        zero_record(shards, agent, index)
    with pytest.raises(InputError, match=r"there is no agent|has no record"):
        replace_record(shards, agent, index, np.zeros(3), 1.0)
