"""Rows without a target: refused, or left out of every answer and counted all the same."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn.kernel.questions import record_sum
from taciturn.problems import NONE
from taciturn.tables import Source, load_table
from taciturn.tables.bounds import bounds_from_dict, bounds_to_dict
from taciturn.training import Request, StructureRequest, count_data, divide, proposal_for, train_on
from taciturn.training.records import Division

BOUNDS = """
source = "public"
[target]
name = "ill"
values = ["no", "yes"]
missing = {as = "leave out", spellings = ["?"]}
[columns.age]
min = 0
max = 100
"""
DRAW = np.random.default_rng(0)
AGES = np.round(DRAW.uniform(0, 100, 300), 1)
LABELS = np.where(AGES + 10 * DRAW.standard_normal(300) > 50, "yes", "no").astype(object)
HOLES = DRAW.random(300) < 0.2


def table(folder, labels, ages=AGES, bounds=BOUNDS):
    (folder / "ill.toml").write_text(bounds)
    rows = [f"{age},{label}" for age, label in zip(ages, labels, strict=True)]
    (folder / "ill.csv").write_text("\n".join(["age,ill", *rows]) + "\n")
    return load_table(Source(path=folder / "ill.csv", target="ill", bounds=folder / "ill.toml"))


def holed(labels=LABELS):
    return np.where(HOLES, np.where(np.arange(300) % 2, "", "?"), labels)


@pytest.fixture
def incomplete(tmp_path):
    return table(tmp_path, holed())


def test_without_noise_the_model_is_that_of_the_rows_with_a_target(tmp_path, incomplete):
    (tmp_path / "full").mkdir()
    complete = table(tmp_path / "full", LABELS[~HOLES], AGES[~HOLES])
    models = [
        train_on(
            one,
            Request(
                epsilon=float("inf"),
                delta=1e-5,
                rounds=2000,
                precision="float64",
                regulariser=NONE,
                features="columns",
            ),
            agents=1,
        ).model
        for one in (incomplete, complete)
    ]
    np.testing.assert_allclose(*models, atol=1e-3)


def test_such_a_row_is_counted_and_adds_nothing_to_an_answer(incomplete):
    data = divide(incomplete, 1)
    (count,), shard = data.counts, data.shards("float64").stacked
    assert count == 300
    assert int(shard.mask.sum()) == 300 - HOLES.sum()
    rows = dataclasses.replace(data, absent=None).shards("float64").stacked.features[0]
    one = dataclasses.replace(
        shard, features=shard.features[0], targets=shard.targets[0], mask=shard.mask[0]
    )
    added = record_sum(one, jnp.ones(300), 1.0)
    np.testing.assert_allclose(added, np.asarray(rows)[~HOLES].sum(0), atol=1e-6)


def test_no_target_moves_an_answer_more_than_the_loss_of_its_record(incomplete, tmp_path):
    """A neighbour gains a target: one more row under the mask, none moved, and the same counts."""
    other = holed()
    other[np.flatnonzero(HOLES)[0]] = "yes"
    (tmp_path / "other").mkdir()
    first, second = (
        divide(one, 1).shards("float64") for one in (incomplete, table(tmp_path / "other", other))
    )
    assert first.counts == second.counts
    moved = np.asarray(first.stacked.mask != second.stacked.mask)
    assert moved.sum() == 1
    same = np.asarray(first.stacked.features == second.stacked.features).all(-1)
    assert (same | moved).all()


def test_rows_without_a_target_are_refused_unless_the_bounds_leave_them_out(tmp_path):
    plain = BOUNDS.replace('{as = "leave out", spellings = ["?"]}', '["?"]')
    with pytest.raises(InputError, match=r"column 'ill', row \d+ is empty"):
        table(tmp_path, holed(), bounds=plain)


def test_an_evaluation_is_refused_since_it_counts_what_is_held_out(incomplete):
    request = Request(epsilon=1.0, delta=1e-5, evaluate=0.2)
    with pytest.raises(InputError, match="rows without a target"):
        proposal_for(count_data(Division(agents=1), incomplete), request, StructureRequest())


def test_bounds_and_conditions_state_it(incomplete):
    assert incomplete.bounds.leave_out
    assert bounds_from_dict(bounds_to_dict(incomplete.bounds)) == incomplete.bounds
    assert any("enter no answer" in line for line in incomplete.conditions)


def test_the_option_stands_in_place_of_the_bounds_either_way(tmp_path, incomplete):
    source = Source(path=tmp_path / "ill.csv", target="ill", bounds=tmp_path / "ill.toml")
    with pytest.raises(InputError, match=r"column 'ill', row \d+ is empty"):
        load_table(dataclasses.replace(source, leave_out=False))
    plain = BOUNDS.replace('{as = "leave out", spellings = ["?"]}', '["?"]')
    (tmp_path / "ill.toml").write_text(plain)
    found = load_table(dataclasses.replace(source, leave_out=True))
    np.testing.assert_array_equal(found.absent, incomplete.absent)
