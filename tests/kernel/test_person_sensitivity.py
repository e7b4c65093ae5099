"""Law 1 for persons: rows of one person, replaced together, move an answer by at most its bound."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
from tests.attacks.subjects import PERSON, Trials, ratios, subject_named

from taciturn.audit.neighbours import CHANGED, Search
from taciturn.kernel.privacy import ReplaceOne, ZeroOut
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import Draw, Persons, pack
from taciturn.problems import MultinomialLogistic, Squared

# how near to 1 the norm of a record is
NEAR = 1 - 1e-9
M, D = 6, 4


def opposite(name):
    """Return pairs whose first K records differ, all so that the answer moves the same way."""
    draw = np.random.default_rng(5)
    subject = subject_named(name, M, ReplaceOne(), unit="person")
    classes = isinstance(subject.problem.loss, MultinomialLogistic)
    rows = draw.standard_normal((1, M, D))
    rows *= NEAR / np.linalg.norm(rows, axis=2, keepdims=True)
    targets = draw.integers(0, 10, (1, M)) if classes else np.ones((1, M))
    rows[:, :PERSON] = rows[:, :1]
    others, other_targets = rows.copy(), targets.copy()
    one = rows[0, 0].copy()
    query = np.zeros((1, *subject.shape(D)))
    away = np.linalg.svd(one[None])[2][1]
    if classes:  # both rows are sure of the second class by what they share, and differ else
        query[0] = 1e6 * away[:, None] * np.eye(10)[1]
        targets[:, :PERSON], other_targets[:, :PERSON] = 0, 0
        rows[:, :PERSON] = NEAR * (math.cos(0.01) * one + math.sin(0.01) * away)
        others[:, :PERSON] = NEAR * (math.sin(0.01) * away - math.cos(0.01) * one)
    elif name == "row mean":
        others[:, :PERSON] *= -1
    else:
        targets[:, :PERSON], other_targets[:, :PERSON] = -1e4, 1e4
    if name == "statistics":
        others[:, :PERSON] = one / 2 + math.sqrt(3) / 2 * away * NEAR
    asked = subject.ask(query, np.zeros_like(query))
    return subject, Trials(rows, targets, others, other_targets, np.ones((1, M)), asked)


QUESTIONS = (
    "gradient",
    pytest.param("gradient, ten classes", marks=pytest.mark.slow),
    pytest.param("centred gradient", marks=pytest.mark.slow),
    pytest.param("statistics", marks=pytest.mark.slow),
    pytest.param("projected step", marks=pytest.mark.slow),
    pytest.param("proximal step", marks=pytest.mark.slow),
    pytest.param("row mean", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_rows_of_a_person_together_reach_the_bound_and_no_more(name):
    subject, trials = opposite(name)
    planned = subject.planned(M, D, "float64")
    moved = float(ratios(subject, planned, trials)[0])
    assert 0.9 <= moved <= 1
    # planted fault: the bound of one row
    of_one = dataclasses.replace(subject, unit="record").planned(M, D, "float64")
    assert float(ratios(subject, of_one, trials)[0]) > 1


class CountsRows(Gradient):
    """Planted fault: divides by how many rows there are, which only the persons know."""

    def exact(self, shard, count, query):
        return super().exact(shard, count, query) * count / jnp.maximum(jnp.sum(shard.mask), 1.0)


@pytest.mark.parametrize(
    "relation", [ZeroOut(), pytest.param(ReplaceOne(), marks=pytest.mark.slow)]
)
def test_a_search_finds_no_person_beyond_the_bound_but_one_behind_a_private_divisor(relation):
    def largest(oracle):
        search = Search(oracle, relation, None)
        return search.largest("person", trials=500, seed=0)

    assert CHANGED["person"] == 3
    assert largest(Gradient(Squared(), 1.0)) <= 1 + 1e-9
    if isinstance(relation, ZeroOut):
        assert largest(CountsRows(Squared(), 1.0)) > 1.2


def packed(numbers, rows, targets, persons=Persons, *, places=2, draw=Draw(seed=0)):  # noqa: B008
    people = persons(np.array(numbers), places, draw)
    parts = [np.arange(len(numbers))]
    shards = pack(rows, targets, parts, record_norm=1.0, precision="float64", persons=people)
    return shards.shard(0), shards.counts


def places_that_differ(first, second):
    """Return the places of one shard at which another one differs from it."""
    apart = np.any(np.asarray(first.features) != np.asarray(second.features), axis=1)
    apart |= np.asarray(first.targets) != np.asarray(second.targets)
    return set(np.flatnonzero(apart | (np.asarray(first.mask) != np.asarray(second.mask))))


class FullestFirst(Persons):
    """Planted fault: persons with most rows stand first, a rule that looks at everybody's rows."""

    def places(self, rows):
        order = np.argsort(-np.bincount(self.numbers), kind="stable")
        placed = super().places(rows).reshape(-1, self.rows_per_person)
        return placed[order].ravel()


@pytest.mark.parametrize(("persons", "holds"), [(Persons, True), (FullestFirst, False)])
def test_other_rows_of_a_person_change_the_places_of_that_person_alone(persons, holds):
    draw, seen = np.random.default_rng(3), []
    for _ in range(60):
        sizes = draw.integers(1, 5, 4)
        numbers = np.concatenate([np.arange(4), draw.permutation(np.repeat(np.arange(4), sizes))])
        rows, targets = draw.uniform(-0.5, 0.5, (len(numbers), 2)), draw.choice([-1.0, 1.0], 99)
        first, counts = packed(numbers, rows, targets[: len(numbers)], persons)
        # person 1 has other rows, more or fewer, behind the first one
        kept = (numbers != 1) | (np.arange(len(numbers)) == 1)
        more = int(draw.integers(0, 5))
        others = np.concatenate([numbers[kept], np.ones(more, int)])
        replaced = np.concatenate([rows[kept], draw.uniform(-0.5, 0.5, (more, 2))])
        replaced[1] = 0.25
        second, still = packed(others, replaced, targets[: len(others)] * 0 + 1.0, persons)
        first = dataclasses.replace(first, targets=jnp.where(first.mask > 0, 1.0, 0.0))
        assert counts == still == (8,)
        seen.append(places_that_differ(first, second) <= {2, 3})
    assert all(seen) == holds


def test_a_person_has_the_first_rows_of_a_reproduction_and_empty_places():
    numbers, rows = [0, 1, 0, 0], np.array([[0.1], [0.2], [0.3], [0.4]])
    shard, counts = packed(numbers, rows, np.ones(4))
    assert counts == (4,)
    assert np.asarray(shard.features)[:, 0].tolist() == [0.1, 0.3, 0.2, 0.0]
    assert np.asarray(shard.mask).tolist() == [1, 1, 1, 0]
    assert np.asarray(shard.targets).tolist() == [1, 1, 1, 0]


def test_any_rows_of_a_person_are_as_likely_to_count_under_a_secret_draw():
    numbers, rows = [0, 1, 0, 0], np.array([[0.1], [0.2], [0.3], [0.4]])
    drawn = []
    for _ in range(300):
        shard, _ = packed(numbers, rows, np.ones(4), draw=Draw.secret())
        places = np.asarray(shard.features)[:, 0].tolist()
        assert places[2:] == [0.2, 0.0]
        drawn.append(frozenset(places[:2]))
    times = [drawn.count(pair) for pair in set(drawn)]
    assert len(times) == 3
    assert min(times) > 50  # a hundred are expected, and fifty are six deviations below
