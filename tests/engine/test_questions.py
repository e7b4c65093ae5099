"""Several questions a round, several oracles, and turns that ask nothing."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_shards, make_terms, on_lattice, plan_of
from taciturn.algorithms import NoisyGradient
from taciturn.engine import compute, records_for_door, run
from taciturn.engine.credit import credits_summation
from taciturn.engine.protocol import KEPT
from taciturn.errors import InputError
from taciturn.kernel.exact import Replay
from taciturn.kernel.privacy import Messages, Sum
from taciturn.kernel.questions import Gradient
from taciturn.problems import L2, Logistic, Problem

PROBLEM = Problem(Logistic(), L2(0.1))
KINDS = np.array([[0, 1], [-1, 0], [1, -1], [-1, -1]])


class Asks(NoisyGradient):
    """Asks by a table of kinds; its state is the sum of the answers it was told."""

    kinds: tuple = ()

    def questions(self, rounds):
        return np.array(self.kinds)

    def schedule(self, spec, rounds, noise):
        return {name: np.ones(rounds) for name in ("step_size", "momentum", "averaging")}

    def tell(self, state, inbox, turn, answer):
        return state + answer


def planned(kinds, *, observer=None, oracles=None):
    shards = make_shards(agents=3)
    oracles = oracles or (Gradient(PROBLEM.loss, 1.0), Gradient(PROBLEM.loss, 1.0))
    made = plan_of(
        Asks(PROBLEM, kinds=tuple(map(tuple, kinds))), shards, oracles,
        make_terms(observer=observer or Messages()), rounds=len(kinds),
    )  # fmt: skip
    return made, shards


def test_the_budget_is_shared_by_the_questions_that_are_asked():
    made, _ = planned(KINDS)
    asked = int(np.sum(KINDS >= 0))
    ratio = made.ledger.ratios()
    np.testing.assert_array_equal(ratio > 0, np.broadcast_to(KINDS >= 0, ratio.shape))
    sensitivity = np.max(made.ledger.sensitivity)
    moved = on_lattice(made.ledger, sensitivity) / sensitivity
    mu = math.sqrt(asked) * moved / made.multiplier
    assert made.certificate.mu == pytest.approx(mu, rel=1e-9)


def test_a_turn_without_a_question_tells_a_constant_whatever_the_data():
    made, shards = planned(KINDS)
    done = run(made, shards, runtime="simulate", keep=frozenset(KEPT))
    answers = np.asarray(done.trace.records.answer)
    assert np.all(answers[KINDS < 0] == 0)
    assert np.all(answers[KINDS >= 0] != 0)


@pytest.mark.slow
def test_both_runtimes_agree_on_several_questions_a_round_and_leave_the_planned_ledger():
    made, shards = planned(KINDS)
    both = [run(made, shards, runtime=r, seed=2) for r in ("simulate", "serial")]
    np.testing.assert_allclose(*(one.model for one in both), rtol=0, atol=1e-10)
    for one in both:
        np.testing.assert_array_equal(one.ledger.kind, made.ledger.kind)


def test_every_kind_is_answered_by_its_own_oracle():
    """Oracle 1 clips at 1e-9: only where kind 0 is asked is the exact answer of any size."""
    shards = make_shards(agents=3)
    made, _ = planned(KINDS)
    private = records_for_door(made, shards)
    oracles = (Gradient(PROBLEM.loss, 1.0), Gradient(PROBLEM.loss, 1e-9))
    answers = jnp.zeros((4, 2, 3, 3))
    _, trace = compute(made.program, Replay(oracles, private, answers), keep=frozenset())
    large = np.all(np.abs(np.asarray(trace.records.exact)) > 1e-8, axis=(2, 3))
    np.testing.assert_array_equal(large, KINDS == 0)


def test_several_questions_a_round_are_not_credited_to_summation():
    made, _ = planned([[0, 0]], observer=Sum())
    assert not credits_summation(made.program)
    assert "nothing is credited" in made.certificate.trust


@pytest.mark.parametrize("kinds", [[[2]], [[-2]], [[0.5]], [[0], [0], [7]]])
def test_a_question_that_no_oracle_answers_is_refused(kinds):
    """Such a question would otherwise be answered without noise and without a ledger entry."""
    with pytest.raises(InputError, match="a question is a whole number from -1 to 1"):
        planned(kinds)


def test_a_single_oracle_answers_kind_zero_only():
    with pytest.raises(InputError, match="from -1 to 0"):
        planned([[0], [1]], oracles=(Gradient(PROBLEM.loss, 1.0),))


def test_a_table_of_the_wrong_length_is_refused():
    shards = make_shards(agents=3)
    with pytest.raises(InputError, match="shape"):
        plan_of(Asks(PROBLEM, kinds=((0,), (0,))), shards, rounds=3)


def test_nothing_asked_costs_nothing():
    made, shards = planned([[-1], [-1]])
    done = run(made, shards, runtime="simulate")
    assert made.certificate.epsilon == 0
    assert np.all(done.model == 0)
