"""What a caller gets wrong ends in one line, where nobody checks the annotations."""

import numpy as np
import pytest

import taciturn_power as power
from taciturn.algorithms import NoisyGradient
from taciturn.engine import plan
from taciturn.errors import InputError
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import pack
from taciturn.problems import L2, Logistic, Problem, WholeSpace, minimise, public_facts
from taciturn.problems.losses import MarginLoss


class Hinge(MarginLoss):
    smoothness = float("inf")

    def value(self, margins, targets):
        return np.maximum(0, 1 - margins * targets)

    def coefficient(self, margins, targets):
        return -targets * (margins * targets < 1)


def packed():
    rows = (np.ones((2, 1)), np.array([1.0, -1.0]), [np.arange(2)])
    return pack(*rows, record_norm=1.0, precision="float64")


def planned(questions):
    problem = Problem(Logistic(), L2(1.0), WholeSpace())
    terms = Terms(1.0, 1e-5, Adjacency(ReplaceOne(), "record"), Messages())
    facts = public_facts(problem, packed(), clip=0.5)
    return plan(facts, NoisyGradient(problem), questions, terms, rounds=2, precision="float64")


CASES = {
    "Hinge is not smooth": lambda: minimise(Problem(Hinge(), L2(1.0), WholeSpace()), packed()),
    "oracles is a Gradient": lambda: planned(Gradient(Logistic(), 0.5)),
    "text of several lines": lambda: power.read_case("mpc.bus = [\n1 2 3];"),
    "cannot be read": lambda: power.read_case("nowhere.m"),
    "seed is 1.5; it must be a whole number": lambda: Stream.seeded(1.5),
    "seed is 7; it must be a whole number": lambda: Stream.seeded("7"),
}


@pytest.mark.unchecked
@pytest.mark.parametrize("words", CASES)
def test_a_wrong_argument_ends_in_one_line_of_an_input_error(words):
    with pytest.raises(InputError) as caught:
        CASES[words]()
    line = str(caught.value)
    assert words in line
    assert "\n" not in line
    assert "8731" not in line
