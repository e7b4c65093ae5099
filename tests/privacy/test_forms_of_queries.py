"""A bound holds at every query of its form: another form is another question, and is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from taciturn.errors import InputError
from taciturn.kernel.questions import ProximalStep, Recentred
from taciturn.problems import L2, Logistic, Problem, WholeSpace

FORMS = Path(__file__).with_name("forms.py")


@pytest.fixture(scope="module")
def found():
    """What was said of queries of the right form and of others."""
    ended = subprocess.run([sys.executable, str(FORMS)], capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def test_a_question_is_answered_at_queries_of_its_form(found):
    assert len(found["right"]) >= 12
    assert [pair for pair in found["right"] if pair[1]] == []


def test_a_query_of_another_form_is_refused(found):
    assert len(found["wrong"]) >= 23
    allowed = ("this question is asked with",)
    assert [pair for pair in found["wrong"] if not pair[1].startswith(allowed)] == []


def test_a_step_around_a_centre_is_built_for_the_rows_there():
    """Before: built for shorter rows, its iteration expands, 25 times the bound."""
    smooth = Problem(Logistic(), L2(0.1), WholeSpace())
    with pytest.raises(InputError, match=r"assumes rows of norm 0\.03"):
        Recentred(ProximalStep(smooth, 1.0, 0.01, 0.03), 1.0, 0.3)
    Recentred(ProximalStep(smooth, 1.0, 0.01, 1.1), 1.0, 0.3)
