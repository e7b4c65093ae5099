"""The unit person: its bounds, what it costs at several agents, and what a certificate says."""

import math

import numpy as np
import pytest
from tests.privacy.certified import certify

from taciturn.certificates import stated
from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    Laplace,
    Ledger,
    Messages,
    ReplaceOne,
    Sum,
    TargetChange,
    ZeroOut,
    epsilon_of,
)
from taciturn.kernel.questions import bound_of
from taciturn.kernel.records import Spec

SPEC = Spec((6, 60), (4,), record_norm=1.0, gradient_bound=0.7, smoothness=1.0)
MEAN = {"kind": "mean", "coefficient": 0.7, "row": 1.0}


def person(rows=5, agents=1, relation=None):
    return Adjacency(relation or ReplaceOne(), "person", rows, agents)


def ledger(sensitivity=(1.0, 2.0, 0.5), scale=(4.0, 4.0, 1.0), mechanism=None):
    shape = (len(scale), 2, 1)
    moved, noise = (np.broadcast_to(np.reshape(v, (-1, 1, 1)), shape) for v in (sensitivity, scale))
    return Ledger(np.zeros(shape, int), moved, noise, mechanism or Gaussian())


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut(), TargetChange(0.5)])
def test_a_person_moves_a_mean_k_times_as_far_as_a_record_and_never_further_than_an_agent(relation):
    one, five, all_of_them = (
        bound_of(MEAN, SPEC, adjacency, "l2").value.ravel()
        for adjacency in (
            Adjacency(relation, "record"),
            person(5, relation=relation),
            Adjacency(relation, "agent"),
        )
    )  # fmt: skip
    np.testing.assert_allclose(five, 5 * one)
    many = person(100, relation=relation)
    most = bound_of(MEAN, SPEC, many, "l2").value.ravel()
    np.testing.assert_allclose(most, all_of_them)


def test_a_person_at_several_agents_is_charged_for_all_of_them():
    book, mus = ledger(), np.sqrt(2) * np.array([0.25, 0.5, 0.5])
    assert book.mu_across(Messages(), 1) == pytest.approx(mus.max())
    assert book.mu_across(Messages(), 2) == pytest.approx(math.hypot(mus[1], mus[2]))
    assert book.mu_across(Messages(), 9) == pytest.approx(np.linalg.norm(mus))
    # in a sum the changes add up; one of the two largest noises may be known
    assert book.mu_across(Sum(0), 2) == pytest.approx(math.sqrt(2) * 3 / math.sqrt(33))
    assert book.mu_across(Sum(1), 3) == pytest.approx(math.sqrt(2) * 3.5 / math.sqrt(17))
    assert book.mu_across(Sum(7), 3) == pytest.approx(math.sqrt(2) * 3.5)
    assert book.mu_across(Sum(1), 2) >= book.mu_per_agent(Sum(1)).max()


def test_the_certificate_knows_the_person():
    made = certify(ledger(), delta=1e-6, adjacency=person(5, 2), observer=Messages())
    assert (made.unit, stated(made)["agents_per_person"]) == ("person", 2)
    assert made.mu == pytest.approx(1.0)
    assert made.epsilon == pytest.approx(epsilon_of(1e-6, 1.0))
    assert made.epsilon > max(made.per_agent_epsilon)
    said = "\n".join(made.lines())
    assert "unit person" in said
    assert "5 places at each of up to 2 agents" in said
    assert "k times" not in said
    assert stated(made)["rows_per_person"] == 5


def test_without_persons_the_certificate_says_what_several_rows_cost():
    for mechanism, said in ((Gaussian(), "k times mu"), (Laplace(), "k times epsilon")):
        adjacency = Adjacency(ReplaceOne(), "record")
        book = ledger(mechanism=mechanism)
        made = certify(book, delta=1e-6, adjacency=adjacency, observer=Messages())
        assert f"Persons: a person with k rows is protected at {said}" in "\n".join(made.lines())
        assert "rows_per_person" not in stated(made)


def test_k_times_mu_is_what_k_rows_cost():
    """Planted fault: k rows at the mu of one would be seen, since a person's bound is k times."""
    rows, one = 4, certify(
        ledger(), delta=1e-6, adjacency=Adjacency(ReplaceOne(), "record"), observer=Messages()
    )  # fmt: skip
    moved = ledger(sensitivity=tuple(rows * np.array([1.0, 2.0, 0.5])))
    together = certify(moved, delta=1e-6, adjacency=person(rows), observer=Messages())
    assert together.mu == pytest.approx(rows * one.mu)


def test_persons_that_nothing_accounts_for_are_refused():
    for wrong in (
        lambda: Adjacency(ReplaceOne(), "person"),
        lambda: Adjacency(ReplaceOne(), "record", 5),
        lambda: Adjacency(ReplaceOne(), "agent", None, 2),
        lambda: person(0),
        lambda: person(2, 0),
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InputError, match="added Gaussian noise only"):
        certify(
            ledger(mechanism=Laplace()), delta=1e-6, adjacency=person(2, 2), observer=Messages()
        )
    sampled = Ledger(
        np.zeros((1, 1, 1), int), np.ones((1, 1, 1)), np.ones((1, 1, 1)), Gaussian(),
        0.5 * np.ones((1, 1, 1)),
    )  # fmt: skip
    with pytest.raises(InputError, match="hides no person"):
        certify(sampled, delta=1e-6, adjacency=person(), observer=Messages())
