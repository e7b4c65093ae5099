"""Arrays that are dealt to agents are encoded row by row."""

import numpy as np
import pytest

import taciturn
from taciturn.errors import InputError

BOUNDS = ([0.0, -1.0], [10.0, 1.0])


def records(rows=40):
    draw = np.random.default_rng(0)
    return draw.uniform([0, -1], [10, 1], (rows, 2)), np.where(draw.random(rows) < 0.5, -1, 1)


def test_cells_are_cut_to_public_ranges_and_a_constant_follows():
    x, y = np.array([[5.0, 0.0], [40.0, -3.0]]), np.array([1, -1])
    owners = taciturn.deal(x, y, agents=1, bounds=BOUNDS)
    np.testing.assert_array_equal(owners.features, [[0, 0, 1], [1, -1, 1]])
    assert owners.record_norm == np.sqrt(3)


def test_rows_are_dealt_in_secret_unless_a_seed_or_owners_are_given():
    x, y = records()
    one, two = (taciturn.deal(x, y, agents=4, bounds=BOUNDS) for _ in range(2))
    assert any((a != b).any() for a, b in zip(one.parts, two.parts, strict=True))
    assert one.facts.dealt
    owned = taciturn.deal(x, y, agents=np.repeat(["a", "b"], 20), bounds=BOUNDS)
    assert owned.facts.counts == (20, 20)
    assert not owned.facts.dealt
    problem = taciturn.Problem(taciturn.Logistic())
    plan = taciturn.plan(problem, one.facts, epsilon=1, delta=1e-4, rounds=2)
    certificate = plan.run(two).certificate
    assert not certificate.reproduction
    assert any("bounds of the columns are public" in one for one in certificate.conditions)
    seeded = taciturn.deal(x, y, agents=4, bounds=BOUNDS, seed=5)
    assert plan.run(seeded).certificate.reproduction


def test_test_records_are_encoded_alike():
    x, y = records()
    owners = taciturn.deal(x, y, agents=2, bounds=BOUNDS, test=(x[:5], y[:5]))
    np.testing.assert_array_equal(owners.test_features, owners.features[:5])
    assert "5 test records" in repr(owners)


@pytest.mark.parametrize(
    ("x", "y", "settings", "words"),
    [
        ([[1.0, 0.0]], ["ill"], {}, "one number for each row"),
        ([[1.0, 0.0]], [1, 1], {}, "1 rows and 2 targets"),
        ([[np.nan, 0.0]], [1], {}, "missing cells"),
        ([[1.0, 0.0]], [1], {"bounds": (1.0, 1.0)}, "bounds of column 0"),
        ([[1.0, 0.0]], [1], {"agents": 2}, "2 agents"),
    ],
)
def test_arrays_that_do_not_suit_are_refused(x, y, settings, words):
    given = {"agents": 1, "bounds": BOUNDS} | settings
    with pytest.raises(InputError, match=words):
        taciturn.deal(x, y, **given)


def test_no_cell_is_quoted():
    with pytest.raises((InputError, TypeError)) as caught:
        taciturn.deal([["secret", 0.0]], [1], agents=1, bounds=BOUNDS)
    assert "secret" not in str(caught.value)


def test_a_row_of_another_does_not_move_a_row():
    x, y = records()
    moved = x.copy()
    moved[3] = [9.0, 0.9]
    first, second = (taciturn.deal(rows, y, agents=4, bounds=BOUNDS, seed=0) for rows in (x, moved))
    rows = np.flatnonzero((first.features != second.features).any(axis=1))
    assert rows.tolist() == [3]
    assert first.facts == second.facts
