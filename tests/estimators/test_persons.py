"""Persons in the estimators: K places for each, whoever holds the rows."""

import numpy as np
import pytest
from sklearn.base import clone

from taciturn.errors import InputError
from taciturn.estimators import PrivateLogisticRegression
from taciturn.estimators.records import persons_of

BUDGET = {"epsilon": 1.0, "delta": 1e-4, "bounds": (0, 1), "classes": [0, 1], "rounds": 2}
DRAW = np.random.default_rng(0)
X, Y = DRAW.uniform(0, 1, (120, 2)), DRAW.integers(0, 2, 120)
PERSONS = np.repeat(np.arange(40), 3)


def fitted(persons, agents=None, **settings):
    model = clone(PrivateLogisticRegression(**BUDGET, **settings))
    return model.fit(X, Y, agents=agents, persons=persons)


def test_a_person_is_the_unit_of_a_fit():
    model = fitted([f"zq{k}" for k in PERSONS], agents=4, rows_per_person=2)
    assert model.plan_.spec.counts == (20, 20, 20, 20)
    said = "\n".join(model.certificate_.lines())
    assert model.certificate_.unit == "person"
    assert "number of persons of each agent" in said
    assert "zq" not in said


def test_labels_that_read_as_one_number_are_one_person():
    """Planted fault: labels as texts, by which 40 persons were 80, with twice the places."""
    mixed = [f"{k:03d}" if row % 2 else float(k) for row, k in enumerate(PERSONS)]
    assert fitted(mixed, rows_per_person=2).plan_.spec.counts == (80,)


SECRET = ["HIV+8731", *["b"] * 119]
REFUSED = {
    "no K": ({"persons": PERSONS}, "rows_per_person="),
    "no persons": ({"persons": None, "rows_per_person": 2}, "persons= in fit"),
    "too few": ({"persons": SECRET[:7], "rows_per_person": 2}, "120 rows"),
    "a missing one": ({"persons": [None, *SECRET[1:]], "rows_per_person": 2}, "no label"),
    "too many agents": (
        {"persons": PERSONS, "rows_per_person": 2, "agents": 41},
        "41 agents cannot share 40 persons",
    ),
    "M alone": ({"persons": None, "agents_per_person": 2}, "agents-per-person"),
    "a person at two agents": (
        {"persons": SECRET, "rows_per_person": 2, "agents": [0, 1] * 60}, "agents_per_person",
    ),
    "batches": (
        {"persons": PERSONS, "rows_per_person": 2, "algorithm": "dp-sgd"}, "rows of a person",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bad", REFUSED)
def test_what_makes_no_sense_is_refused_and_nobody_is_named(bad):
    settings, expected = REFUSED[bad]
    with pytest.raises(InputError, match=expected) as error:
        fitted(**settings)
    assert "8731" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_persons_at_several_agents_are_charged_for_all_of_them():
    once = fitted(PERSONS, agents=3, rows_per_person=1)
    owners = [0, 1, 2] * 40
    thrice = fitted(PERSONS, agents=owners, rows_per_person=1, agents_per_person=3)
    assert thrice.certificate_.mu == pytest.approx(once.certificate_.mu, rel=1e-5)
    ratio = thrice.plan_.multiplier / once.plan_.multiplier
    assert ratio == pytest.approx(np.sqrt(3), rel=1e-5)


def test_a_label_that_reads_as_the_same_number_is_the_same_person():
    labels = [7, "7", 7.0, " 007", np.int64(7), "8", "Jos\u00e9", "Jose\u0301"]
    assert persons_of(labels, len(labels), 2).tolist() == [0, 0, 0, 0, 0, 1, 2, 2]
