"""Private runs draw from a stream: the same in both runtimes and blocks, and every value once."""

import copy
import dataclasses
import functools
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_shards, make_terms, plan_of
from taciturn.algorithms import NIDS, LinearisedADMM, NoisyGradient, Walkman
from taciturn.engine import records_for_door, run, simulate
from taciturn.engine.protocol import KEPT
from taciturn.errors import PrivacyError
from taciturn.kernel.door import supply as supply_module
from taciturn.kernel.door.door import Live
from taciturn.kernel.door.supply import Supply
from taciturn.kernel.noise import Stream
from taciturn.kernel.noise.stream import Use
from taciturn.kernel.privacy import Laplace
from taciturn.kernel.questions import Gradient, MinibatchGradient
from taciturn.network import metropolis, ring, uniform_walk
from taciturn.problems import Logistic, Problem

PROBLEM = Problem(Logistic())
ROUNDS, KEY = 7, b"k" * 32
ALL = frozenset(KEPT)

NETWORKS = {
    "star": (NoisyGradient(PROBLEM), None),
    "updates": (LinearisedADMM(PROBLEM, local_updates=2), None),
    "gossip": (NIDS(PROBLEM), metropolis(ring(4))),
    "relay": (Walkman(PROBLEM), dataclasses.replace(uniform_walk(ring(4), 20, seed=0), cap=3)),
}
# records of an agent, and the question
BATCHES = {
    "full": (12, Gradient(PROBLEM.loss, 1.0)),
    "coins": (12, MinibatchGradient(PROBLEM.loss, 1.0, 0.3)),
    "places": (300, MinibatchGradient(PROBLEM.loss, 1.0, 0.02)),
    "fixed": (12, MinibatchGradient(PROBLEM.loss, 1.0, 0.25, records=12)),
}
PAIRS = [
    *((network, "full") for network in NETWORKS), *(("star", batches) for batches in BATCHES),
    ("updates", "coins"), ("gossip", "fixed"), ("relay", "places"),
]  # fmt: skip
QUICK = (("relay", "places"),)
CASES = [
    pytest.param(*pair, marks=() if pair in QUICK else pytest.mark.slow)
    for pair in dict.fromkeys(PAIRS)
]


@functools.cache
def case(network, batches, mechanism=None):
    """Plan and data; the multiplier is given, so that none is searched for."""
    (algorithm, edges), (records, question) = NETWORKS[network], BATCHES[batches]
    shards = make_shards(records=records)
    rounds = len(edges.holders) if network == "relay" else ROUNDS
    made = plan_of(
        algorithm, shards, (question,), make_terms(50.0), rounds=rounds, network=edges,
        mechanism=mechanism, multiplier=5.0,
    )  # fmt: skip
    return made, records_for_door(made, shards)


def supply_of(made, private, stream=None):
    return Supply(made.program.agenda, stream or Stream(KEY), private.rows)


def ran(runtime, made, private, supply):
    door = Live(made.program.oracles, made.program.mechanism, private)
    model, trace = runtime(made.program, door, supply, keep=ALL)
    # as a run returns them: what was seen of the noise is a sum, whose last bit is the compiler's
    return model, trace._replace(records=trace.records._replace(drawn=None))


def gaps(ours, theirs):
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    return [float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in pairs]


def in_blocks_of(rounds, made, monkeypatch, private):
    raw = supply_of(made, private).shapes(1)
    size = sum(leaf.dtype.itemsize * math.prod(leaf.shape) for leaf in jax.tree.leaves(raw))
    monkeypatch.setattr(supply_module, "_BLOCK", rounds * size)


@pytest.mark.parametrize(("network", "batches"), CASES)
def test_several_blocks_give_the_bits_of_one(network, batches, monkeypatch):
    made, private = case(network, batches)
    whole = ran(simulate, made, private, supply_of(made, private))
    assert supply_of(made, private).length() == made.rounds
    in_blocks_of(3, made, monkeypatch, private)
    parts = supply_of(made, private)
    assert parts.length() in {2, 3}
    assert made.rounds / parts.length() >= 2
    assert max(gaps(whole, ran(simulate, made, private, parts))) == 0


def test_a_supply_is_not_copied_and_rounds_drawn_stay_drawn():
    """A shallow copy would have the stream, and a count of its own of what was drawn."""
    made, private = case("star", "full")
    supply = supply_of(made, private)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="copied"):
            copied(supply)
    supply.block(0, ROUNDS)
    with pytest.raises(ValueError, match="negative"):
        supply.block(ROUNDS, 0)
    with pytest.raises(PrivacyError, match="drawn before"):
        supply.block(0, ROUNDS)


class Watched(Stream):
    """A stream that notes which words were asked of it."""

    def __init__(self, key, seen):
        super().__init__(key)
        object.__setattr__(self, "seen", seen)

    def words(self, labels, use, count, *, skip=0):
        if use != Use.DIGITS:  # further digits, one in a million draws
            self.seen.extend((tuple(label), use) for label in labels)
        return super().words(labels, use, count, skip=skip)


class NoRounds(Watched):
    """Planted fault: every round has the words of the first."""

    def words(self, labels, use, count, *, skip=0):
        return super().words([label._replace(round=0) for label in labels], use, count, skip=skip)


def asked(made):
    """The labels of the answers of a plan, read off its ledger."""
    places = np.argwhere(made.ledger.kind >= 0)
    return {(int(t), int(agent), int(local)) for agent, t, local in places}


def words_are_those_of_the_ledger(network, batches, kind):
    made, private = case(network, batches)
    seen = []
    supply = supply_of(made, private, kind(KEY, seen))
    for first in range(0, made.rounds, 2):
        supply.block(first, min(first + 2, made.rounds))
    uses = {Use.NOISE} if batches == "full" else {Use.NOISE, Use.BATCH}
    expected = {(label, use) for label in asked(made) for use in uses}
    return len(seen) == len(set(seen)) and set(seen) == expected


@pytest.mark.parametrize(("network", "batches"), CASES)
def test_no_two_answers_share_words_and_what_is_not_asked_draws_none(network, batches):
    assert words_are_those_of_the_ledger(network, batches, Watched)
    assert not words_are_those_of_the_ledger(network, batches, NoRounds)


@pytest.mark.parametrize(("network", "batches"), CASES)
def test_every_value_of_an_answer_is_drawn_and_none_of_what_is_not_asked(network, batches):
    made, private = case(network, batches)
    supply = supply_of(made, private)
    raw = supply.block(0, made.rounds)
    answers = np.moveaxis(np.asarray(supply.agenda.turns.question), 1, 2) >= 0
    for leaf in jax.tree.leaves((raw.steps, raw.words)):
        # a number that is drawn is 0 once in 2^25 draws, and the key is fixed
        assert np.all(leaf[answers] != 0)
        assert np.all(leaf[~answers] == 0)
    drawn = raw.steps[answers]
    assert len(np.unique(drawn)) == drawn.size


@pytest.mark.parametrize("batches", ["full", "places"])
def test_no_number_of_many_runs_is_drawn_twice(batches):
    made, private = case("updates", batches)
    raw = supply_of(made, private).repeated(40)
    for leaf in jax.tree.leaves((raw.steps, raw.words)):
        assert leaf.shape[:2] == (40, made.rounds)
        assert len(np.unique(leaf)) > leaf.size * (1 - 1e-3)  # of numbers near 2^25 some coincide
    assert raw.scale.shape == raw.steps.shape[:4]


class HalfDrawn(Laplace):
    """Planted fault: the last number of every answer is left out."""

    def integers(self, stream, labels, count, scale):
        drawn = super().integers(stream, labels, count, scale)
        drawn[:, -1] = 0
        return drawn


def test_a_number_that_is_left_out_is_seen():
    made, private = case("star", "full", Laplace())
    program = dataclasses.replace(made.program, mechanism=HalfDrawn())
    faulty = dataclasses.replace(made, program=program)
    assert np.any(supply_of(faulty, private).block(0, ROUNDS).steps == 0)


def finest_of(made, exponents):
    """Scale over step of every answer that is asked, from the program as it runs."""
    program = dataclasses.replace(made.program, exponents=exponents)
    raw = Supply(program.agenda, Stream(KEY), 12).block(0, program.rounds)
    return raw.scale[raw.scale > 0]


@pytest.mark.parametrize("mechanism", [None, Laplace()])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_scale_of_every_answer_is_at_least_2_to_the_24_steps(network, mechanism):
    made, _ = case(network, "full", mechanism)
    exponents = made.program.exponents
    # z w: the multiplier, and the size of an answer of three entries, all 1
    width = 3.0 if mechanism else math.sqrt(3)
    least = max(2.0**24, 2.0**22 * made.multiplier * width)
    scales = finest_of(made, exponents)
    assert np.all((scales >= least) & (scales < 2 * least * (1 + 1e-6)))
    assert np.all(finest_of(made, exponents + 1) < least)  # the planted fault: twice the step
    book = made.ledger
    np.testing.assert_allclose(scales, book.finest(), rtol=1e-6)
    assert len(np.unique(book.scale[book.asked] / book.step[book.asked])) == 1


@pytest.mark.parametrize("batches", ["coins", "places", "fixed"])
def test_batches_are_drawn_afresh_where_there_is_no_noise(batches):
    records, question = BATCHES[batches]
    shards = make_shards(records=records)
    made = plan_of(NoisyGradient(PROBLEM), shards, (question,), make_terms(math.inf), rounds=ROUNDS)
    private = records_for_door(made, shards)
    raw = supply_of(made, private).block(0, ROUNDS)
    assert raw.steps is None
    assert len(np.unique(raw.words[0])) == raw.words[0].size
    first, second = (run(made, shards, runtime="simulate").model for _ in range(2))
    assert np.max(np.abs(first - second)) > 1e-6


def test_draws_of_several_questions_go_to_the_question_that_is_asked():
    """Two oracles with batches of their own: each is given its own words, the other one none."""
    made, _ = case("star", "coins")
    both = (*made.program.oracles, MinibatchGradient(PROBLEM.loss, 1.0, 0.5))
    questions = jnp.arange(ROUNDS, dtype=jnp.int32)[:, None] % 2
    program = dataclasses.replace(made.program, oracles=both, questions=questions)
    raw = Supply(program.agenda, Stream(KEY), 12).block(0, ROUNDS)
    for number, words in enumerate(raw.words):
        mine = np.arange(ROUNDS) % 2 == number
        assert np.all(words[mine] != 0)
        assert np.all(words[~mine] == 0)
