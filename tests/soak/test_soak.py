"""A few seconds of the search that `make soak` makes for hours."""

import dataclasses
import itertools

import numpy as np
import pytest
from tests.soak.search import broken, case, replay_holds, search

from taciturn.audit import replace_record
from taciturn.kernel.privacy import ReplaceOne
from taciturn.kernel.questions import AllRecords, Gradient

pytestmark = pytest.mark.slow


def test_a_short_search_finds_no_plan_that_breaks_a_law():
    assert search(itertools.count(), seconds=60, most=12) == []


def is_on_all_records(one):
    (oracle,) = one.plan.program.oracles
    questions = isinstance(oracle, Gradient) and oracle.sampling == AllRecords()
    return questions and isinstance(one.plan.terms.adjacency.relation, ReplaceOne)


def test_a_neighbour_beyond_the_record_norm_is_seen():
    one = next(filter(is_on_all_records, map(case, range(200))))
    row = np.full(one.shards.dimension, 50.0)
    wild = replace_record(one.shards, 0, 0, row, -1.0, enforce=False)
    assert broken(one) == []
    (found,) = broken(dataclasses.replace(one, neighbour=wild))
    assert "bounds and messages on replay (PrivacyError: 1 rows have a norm above 1" in found


def test_an_answer_that_moves_beyond_its_bound_is_seen_by_the_replay():
    """Planted fault: a plan for a quarter of the sensitivity."""
    one = next(filter(is_on_all_records, map(case, range(200))))
    ledger = one.plan.ledger
    less = dataclasses.replace(ledger, sensitivity=ledger.sensitivity / 4)
    assert not replay_holds(
        dataclasses.replace(one, plan=dataclasses.replace(one.plan, ledger=less))
    )


def test_a_seed_gives_the_same_case_again():
    assert case(3).plan.digest == case(3).plan.digest != case(4).plan.digest
