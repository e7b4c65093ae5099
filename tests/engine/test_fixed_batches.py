"""Batches of a fixed size: drawn uniformly, charged by their own accountant, or refused (law 1)."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from conftest import batch_of, make_shards, make_terms, on_lattice
from taciturn.algorithms import NoisyGradient
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import Adjacency, FixedSize, Laplace, ReplaceOne, ZeroOut, compose
from taciturn.kernel.questions import (
    Drawn,
    FixedSizeBatches,
    Gradient,
    MinibatchGradient,
    Point,
    PoissonBatches,
)
from taciturn.kernel.questions.sampling import _UNIT, distinct, gaps, survival
from taciturn.kernel.records import pack
from taciturn.kernel.records.grid import gathering_slack
from taciturn.problems import Logistic, NoRegulariser, Problem, WholeSpace, public_facts
from taciturn.training import DataFacts, Request, propose

PROBLEM = Problem(Logistic(), NoRegulariser(), WholeSpace())
REPLACED = Adjacency(ReplaceOne(), "record")
SIZE, RECORDS = 3, 12


def oracle():
    return MinibatchGradient(PROBLEM.loss, 1.0, SIZE / RECORDS, records=RECORDS)


class WithReplacement(FixedSizeBatches):
    """Planted fault: a record may be drawn twice."""

    def draw(self, words, rows, count):
        places = (words[:SIZE] % RECORDS).astype(jnp.int32)
        return Drawn(places, jnp.ones(SIZE, bool))


class CalledPoisson(PoissonBatches):
    """Planted fault: draws a fixed size and is charged as a Poisson batch."""

    def draw(self, words, rows, count):
        return Drawn(distinct(words, SIZE, count), jnp.ones(SIZE, bool))


class Reads(Gradient):
    """Planted fault: draws a batch by the law and answers on all records."""

    def unnoised(self, shard, drawn, count, query):
        return self.exact(shard, count, query)


@pytest.fixture(scope="module")
def shards():
    return make_shards(agents=1, records=RECORDS)


def planned(shards, question, terms=None, **options):
    facts = public_facts(PROBLEM, shards, clip=1.0)
    return plan(
        facts, NoisyGradient(PROBLEM), (question,), terms or make_terms(),
        rounds=4, precision="float64", **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(shards):
    return planned(shards, oracle())


def words_of(key, size):
    return jax.random.bits(key, (2 * size,), jnp.uint64)


def draws(function, count):
    keys = jax.random.split(jax.random.key(0), count)
    return np.asarray(jax.jit(jax.vmap(function))(keys))


def uniform_over_sets(places):
    sets = {chosen: k for k, chosen in enumerate(itertools.combinations(range(6), 3))}
    found = [sets.get(tuple(sorted(row)), -1) for row in places.tolist()]
    if min(found) < 0:
        return 0.0
    return stats.chisquare(np.bincount(found, minlength=len(sets))).pvalue


def to_the_last(picks):
    """Planted fault: a number that is drawn twice becomes the last one, not the one of its step."""
    for k in range(1, 3):
        twice = np.any(picks[:, :k] == picks[:, k : k + 1], axis=1)
        picks[twice, k] = 5
    picks[picks[:, 1] == picks[:, 2], 2] = 4
    return picks


def test_every_set_of_three_out_of_six_is_drawn_equally_often():
    assert uniform_over_sets(draws(lambda key: distinct(words_of(key, 3), 3, 6.0), 20_000)) > 1e-3
    picks = np.random.default_rng(0).integers(0, [4, 5, 6], (20_000, 3))
    assert uniform_over_sets(picks) == 0  # with replacement
    assert uniform_over_sets(to_the_last(picks)) < 1e-3


def test_only_the_agents_own_records_are_drawn_and_all_of_them_if_all_are_asked_for(shards):
    assert sorted(distinct(words_of(jax.random.key(0), 5), 5, 5).tolist()) == list(range(5))
    batch = batch_of(oracle(), shards.shard(0), jax.random.key(1))
    assert float(jnp.sum(batch.mask)) == SIZE


@pytest.mark.slow
def test_the_mean_over_batches_is_the_full_gradient(shards):
    query, shard = Point(jnp.array([0.3, -0.2, 0.5])), shards.shard(0)
    question, count = oracle(), jnp.asarray(12.0)
    answers = draws(
        lambda key: question.exact(batch_of(question, shard, key), count, query), 20_000
    )
    full = MinibatchGradient(PROBLEM.loss, 1.0, 1.0).exact(shard, count, query)
    error = np.std(answers, axis=0) / np.sqrt(len(answers))
    assert np.all(np.abs(answers.mean(0) - np.asarray(full)) < 5 * error)


@pytest.mark.parametrize("rate", [0.96, 1.0])
def test_a_batch_of_all_records_is_the_mean_over_them_also_for_larger_agents(rate):
    shards = make_uneven((10, 100))
    question = MinibatchGradient(PROBLEM.loss, 1.0, rate, records=10)
    made = planned(shards, question)
    np.testing.assert_array_equal(made.ledger.rate, 1.0)
    np.testing.assert_array_equal(made.ledger.batch, 0)
    run(made, shards, runtime="simulate", seed=0)
    larger, query = shards.shard(1), Point(jnp.array([0.3, -0.2, 0.5]))
    mean = Gradient(PROBLEM.loss, 1.0).exact(larger, jnp.asarray(100.0), query)
    np.testing.assert_allclose(question.exact(larger, jnp.asarray(100.0), query), mean, rtol=1e-12)
    batch = batch_of(question, larger, jax.random.key(0))
    np.testing.assert_allclose(question.exact(batch, jnp.asarray(100.0), query), mean, rtol=1e-12)


def make_uneven(counts):
    draw = np.random.default_rng(0)
    parts = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    x, y = draw.standard_normal((sum(counts), 3)), np.sign(draw.standard_normal(sum(counts)))
    return pack(x, y, parts, record_norm=1.0, precision="float64", enforce="clip")


@pytest.mark.slow
def test_the_noise_is_calibrated_by_the_accountant_of_fixed_sizes(made):
    ((event, count),) = made.ledger.events_by_agent()[0]
    assert isinstance(event, FixedSize)
    assert (event.batch, event.records, count) == (SIZE, RECORDS, 4)
    scale = made.ledger.scale[0, 0, 0]
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    # 2 c_1 / b moves an answer, and what gathering its rows and the lattice may do
    moved = on_lattice(made.ledger, 2 / SIZE * (1 + gathering_slack(RECORDS, SIZE)))
    inner = dp_event.GaussianDpEvent(scale / moved)
    accountant.compose(dp_event.SampledWithoutReplacementDpEvent(RECORDS, SIZE, inner), 4)
    assert made.certificate.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)
    assert 0.999 < made.certificate.epsilon <= 1.0


@pytest.mark.slow
def test_a_run_observes_the_planned_batches_and_poisson_ones_in_their_place_release_nothing(
    made, shards
):
    done = run(made, shards, runtime="simulate", seed=0)
    np.testing.assert_array_equal(done.ledger.batch, SIZE)
    poisson = MinibatchGradient(PROBLEM.loss, 1.0, SIZE / RECORDS)
    program = dataclasses.replace(made.program, oracles=(poisson,))
    edited = dataclasses.replace(made, program=program)
    certificate = compose((edited.leg,), made.terms).certificate()
    edited = dataclasses.replace(edited, certificate=certificate)
    with pytest.raises(PrivacyError, match="not the planned ones"):
        run(edited, shards, runtime="simulate", seed=0)


@pytest.mark.parametrize(
    "fault",
    [
        Gradient(PROBLEM.loss, 1.0, WithReplacement(SIZE, RECORDS)),
        Gradient(PROBLEM.loss, 1.0, CalledPoisson(SIZE / RECORDS)),
        Reads(PROBLEM.loss, 1.0, FixedSizeBatches(SIZE, RECORDS)),
    ],
)
def test_batches_that_are_drawn_otherwise_than_accounted_for_are_refused(fault, shards):
    spec = public_facts(PROBLEM, shards, clip=1.0)
    with pytest.raises(InputError, match=r"custom batches|overrides unnoised"):
        fault.check(spec, REPLACED, norm="l2")


@pytest.mark.parametrize(
    ("question", "options", "words"),
    [
        (oracle(), {"terms": make_terms(relation=ZeroOut())}, "replace_one only"),
        (oracle(), {"mechanism": Laplace()}, "Gaussian noise"),
        (Gradient(PROBLEM.loss, 1.0, FixedSizeBatches(SIZE, 13)), {}, "least number"),
    ],
)
def test_what_no_accountant_covers_is_refused(question, options, words, shards):
    with pytest.raises(InputError, match=words):
        planned(shards, question, **options)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm": "dp-admm"}, "dp-admm has no option batches.*dp-sgd, sadmm, vradmm"),
        ({"relation": "zero_out"}, "replace_one only"),
        ({"options": {"batches": "fixd"}}, "choose from poisson, fixed"),
    ],
)
def test_requests_for_fixed_batches_that_cannot_be_met_say_why(changes, words):
    facts = DataFacts(name="mine", task="binary", classes=2, columns=3, record_norm=1.0, table=None)
    settings = {
        "epsilon": 1.0, "delta": 1e-5, "algorithm": "dp-sgd", "options": {"batches": "fixed"},
    }  # fmt: skip
    (question,) = propose(facts, [RECORDS], Request(**settings)).composition().oracles
    assert question.sampling.records == RECORDS
    with pytest.raises(InputError, match=words):
        propose(facts, [RECORDS], Request(**settings | changes))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8e-4, 0.01, 0.3])
def test_the_gap_of_a_poisson_draw_is_that_of_its_integers_at_every_edge(rate):
    ends = survival(rate, 5000)
    near = [int(end) + step for end in ends for step in (-1, 0, 1)]
    edges = np.array([*near, 0, 1, _UNIT - 1], dtype=np.uint64)
    truth = np.sum(ends[None, :] > edges[:, None], axis=1)
    np.testing.assert_array_equal(np.asarray(gaps(jnp.asarray(edges), ends, rate)), truth)
