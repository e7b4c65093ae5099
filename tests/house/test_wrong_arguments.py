"""What a caller gets wrong ends in one line, in a process whose annotations nobody checks."""

import json
import subprocess
import sys

import pytest

RUN = """
import json

import numpy as np

from taciturn.errors import InputError
from taciturn.kernel.records import pack
from taciturn.problems import *
import taciturn_power as power
from taciturn.algorithms import NoisyGradient
from taciturn.engine import plan
from taciturn.kernel.noise import Stream
from taciturn.kernel.questions import Gradient
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms

class Hinge(MarginLoss):
    smoothness = float("inf")
    def value(self, margins, targets):
        return np.maximum(0, 1 - margins * targets)
    def coefficient(self, margins, targets):
        return -targets * (margins * targets < 1)

rows, signs = np.ones((2, 1)), np.array([1.0, -1.0])
def packed(enforce):
    return pack(rows, signs, [np.arange(2)], record_norm=1.0, precision="float64", enforce=enforce)
problem = Problem(Logistic(), L2(1.0), WholeSpace())
shards = packed("clip")
TERMS = Terms(1.0, 1e-5, Adjacency(ReplaceOne(), "record"), Messages())
facts = public_facts(problem, shards, clip=0.5)
"""

CASES = {
    "packed('check')": "enforce must be",
    "packed(SECRETS)": "enforce must be",
    "minimise(Problem(Hinge(), L2(1.0), WholeSpace()), shards)": "Hinge is not smooth",
    "plan(facts, NoisyGradient(problem), Gradient(Logistic(), 0.5), TERMS, rounds=2, "
    "precision='float64')": "oracles is a Gradient",
    "power.read_case('mpc.bus = [\\n1 2 3];')": "text of several lines",
    "power.read_case('nowhere.m')": "cannot be read",
    "Stream.seeded(1.5)": "seed is 1.5; it must be a whole number",
    "Stream.seeded('7')": "seed is 7; it must be a whole number",
}


@pytest.fixture(scope="module")
def said():
    """What each call raises: the class of the error, and its text."""
    calls = "".join(
        f"try:\n    {call}\nexcept Exception as error:\n"
        "    print(json.dumps([isinstance(error, InputError), str(error)]))\n"
        for call in CASES
    )
    script = RUN + "SECRETS = [8731.25]\n" + calls
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return dict(zip(CASES, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("call", CASES)
def test_a_wrong_argument_ends_in_one_line_of_an_input_error(said, call):
    expected, line = json.loads(said[call])
    assert expected, line
    assert CASES[call] in line
    assert "\n" not in line
    assert "8731" not in line
