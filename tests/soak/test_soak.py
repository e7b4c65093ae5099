"""A few seconds of the search that `make soak` makes for hours."""

import dataclasses
import itertools

import numpy as np
import pytest
from tests.soak.search import broken, case, search

from tacit.privacy import ReplaceOne
from tacit.problems import replace_record

pytestmark = pytest.mark.slow


def test_a_short_search_finds_no_plan_that_breaks_a_law():
    assert search(itertools.count(), seconds=60, most=12) == []


def test_a_neighbour_beyond_the_record_norm_is_told_by_its_seed(capsys):
    seeds = (seed for seed in itertools.count() if "Gradient" in case(seed).name)
    one = next(
        c for c in map(case, seeds) if isinstance(c.plan.terms.adjacency.relation, ReplaceOne)
    )
    row = np.full(one.shards.dimension, 50.0)
    wild = replace_record(one.shards, 0, 0, row, -1.0, enforce=False)
    assert broken(one) == []
    assert broken(dataclasses.replace(one, neighbour=wild)) == ["bounds and messages on replay"]
