"""Batches: one sampling event from the oracle to the certificate, or a refusal (laws 1, 3, 4)."""

import dataclasses
import itertools
import math
import sys
from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from tests.privacy.certified import certify

from conftest import batch_of, make_shards, make_terms, on_lattice, packed, plan_of
from taciturn.algorithms import METHODS, NoisyGradient, Setting
from taciturn.engine import records_for_door, run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door.door import Live
from taciturn.kernel.exact import Rival
from taciturn.kernel.privacy import (
    Adjacency,
    BoundedChange,
    FixedSize,
    GaussianAnswer,
    Laplace,
    Ledger,
    Messages,
    ReplaceOne,
    Sampled,
    Sum,
    TargetChange,
    ZeroOut,
    account,
    compose,
)
from taciturn.kernel.privacy.mechanisms import SHARE, Gaussian
from taciturn.kernel.questions import (
    Drawn,
    FixedSizeBatches,
    Gradient,
    MinibatchGradient,
    Oracle,
    PerturbedStep,
    Point,
    PoissonBatches,
    ProximalStep,
)
from taciturn.kernel.questions.sampling import _UNIT, capacity, distinct, gaps, survival
from taciturn.kernel.records import Shard
from taciturn.kernel.records.grid import gathering_slack
from taciturn.problems import L2, Logistic, Problem, Squared, public_facts
from taciturn.training import DataFacts, Request, propose

PROBLEM = Problem(Logistic())
RATE = 0.3


@cache
def usual_multiplier():
    """Found once: the search for the noise takes seconds, and most tests share its answer."""
    return planned(make_shards(), terms=make_terms()).multiplier


def planned(shards, *, terms=None, rounds=6, rate=RATE, precision="float64", **options):
    if terms is None and (rounds, rate) == (6, RATE) and not options:
        options = {"multiplier": usual_multiplier()}
    return plan_of(
        NoisyGradient(PROBLEM), shards, (MinibatchGradient(PROBLEM.loss, 1.0, rate),),
        terms or make_terms(), rounds=rounds, precision=precision, **options,
    )  # fmt: skip


def test_every_record_is_drawn_at_the_rate_and_apart_from_the_others():
    shards, oracle = make_shards(agents=1, records=20), MinibatchGradient(Logistic(), 1.0, RATE)
    keys = jax.random.split(jax.random.key(0), 4000)
    masks = np.asarray(jax.vmap(lambda key: batch_of(oracle, shards.shard(0), key).mask)(keys))
    assert set(np.unique(masks)) == {0.0, 1.0}
    counts = masks.sum(0)
    low, high = stats.binom.ppf([1e-5, 1 - 1e-5], 4000, RATE)
    assert np.all((low <= counts) & (counts <= high))
    # the size of the batch is binomial: its variance would differ if records went together
    assert np.var(masks.sum(1)) == pytest.approx(20 * RATE * (1 - RATE), rel=0.12)


def test_padding_is_never_drawn():
    draw = np.random.default_rng(0)
    parts = [np.arange(3), np.arange(3, 10)]
    shards = packed(draw.standard_normal((10, 2)), np.ones(10), parts)
    oracle = MinibatchGradient(Logistic(), 1.0, 0.99)
    batch = batch_of(oracle, shards.shard(0), jax.random.key(0))
    assert np.all(np.asarray(batch.mask[3:]) == 0)


def test_a_run_on_larger_batches_than_planned_releases_nothing(shards):
    """Law 3's fault for sampling: the ledger carries the rate."""
    made = planned(shards)
    assert np.all(made.ledger.rate == RATE)
    assert run(made, shards, runtime="simulate").ledger.sampled
    for oracle in (MinibatchGradient(PROBLEM.loss, 1.0, 0.5), Gradient(PROBLEM.loss, 1.0)):
        edited = dataclasses.replace(
            made, program=dataclasses.replace(made.program, oracles=(oracle,))
        )
        certificate = compose((edited.leg,), made.terms).certificate()
        with pytest.raises(PrivacyError, match="not the planned ones"):
            run(dataclasses.replace(edited, certificate=certificate), shards, runtime="simulate")


@pytest.mark.slow
def test_sums_are_certified_at_the_messages_value_and_never_credited(shards):
    alone, summed = planned(shards), planned(shards, terms=make_terms(observer=Sum()))
    np.testing.assert_array_equal(alone.ledger.scale, summed.ledger.scale)
    assert summed.certificate.observer == "sum"
    assert "nothing is credited" in summed.certificate.trust
    with pytest.raises(PrivacyError, match="no mu"):
        summed.ledger.mu_per_agent(Sum())


def test_the_ledgers_events_are_sampled_and_cost_what_is_certified(shards):
    made = planned(shards)
    ((event, count),) = made.ledger.events_by_agent()[0]
    assert count == 6
    assert isinstance(event, Sampled)
    assert event.rate == RATE
    # the lattice counts twice: the present record's answer and the other's against an absent one's
    steps = 4 * made.ledger.step[0, 0, 0] * math.sqrt(3)
    moved_by = made.ledger.sensitivity[0, 0, 0] + steps
    assert event.event.multiplier == pytest.approx(made.ledger.scale[0, 0, 0] / moved_by, rel=1e-12)
    # a part of delta pays for the test of the noise
    left = 1e-5 * (1 - SHARE)
    spent = account([(event, 6)], delta=left, relation=ReplaceOne()).epsilon
    # and the noise is discrete, by an epsilon of less than 1e-12
    assert spent <= made.certificate.epsilon <= spent + 1e-12
    plain = account([(GaussianAnswer(made.multiplier), 6)], delta=1e-5, relation=ReplaceOne())
    assert plain.epsilon > 1.5 * spent


def test_laplace_answers_on_batches_are_calibrated_under_zero_out_and_refused_otherwise(shards):
    terms = make_terms(relation=ZeroOut())
    made = planned(shards, terms=terms, mechanism=Laplace())
    assert 0.99 < made.certificate.epsilon <= 1.0
    with pytest.raises(InputError, match="no sound accountant"):
        planned(shards, mechanism=Laplace())


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(InputError, match="rate"):
        MinibatchGradient(Logistic(), 1.0, rate)


def test_a_sampled_answer_has_no_likelihood_ratio_given_its_batch(shards):
    made = planned(shards)
    private, oracles = records_for_door(made, shards), made.program.oracles
    with pytest.raises(InputError, match="audit_sampled"):
        Rival(Live(oracles, made.program.mechanism, private), oracles, private, private)


def test_a_name_stands_for_a_method_and_its_question():
    problem = Problem(Logistic(), L2(0.1))
    setting = Setting(
        problem=problem, facts=public_facts(problem, make_shards(), clip=1.0), clip=1.0,
        terms=make_terms(), rounds=10,
        options={"sampling_rate": 0.2, "batches": "poisson", "rho": 0.1},
    )  # fmt: skip
    ((oracle,), *others) = (
        METHODS[name].build(setting).oracles for name in ("dp-sgd", "dp-admm", "pvp", "dvp")
    )
    assert isinstance(oracle.sampling, PoissonBatches)
    assert oracle.sampling.rate == 0.2
    assert [type(one) for (one,) in others] == [Gradient, ProximalStep, PerturbedStep]


def big_shard(records=4000):
    features = jnp.arange(records, dtype=float)[:, None]
    return Shard(features, jnp.ones(records), jnp.ones(records))


def test_a_gathered_batch_holds_every_record_as_often_as_the_rate_says():
    shard, rate, draws = big_shard(), 0.004, 4000
    keys = jax.random.split(jax.random.key(0), draws)
    oracle = MinibatchGradient(Squared(), 1.0, rate)
    batches = jax.jit(jax.vmap(lambda key: batch_of(oracle, shard, key)))(keys)
    assert batches.features.shape[1] < 200  # gathered: far fewer rows than records
    sizes = np.asarray(jnp.sum(batches.mask, axis=1))
    assert abs(np.mean(sizes) - 16) < 4 * math.sqrt(16 / draws)
    edges = np.array([-1, 11, 14, 16, 18, 21, 4000])
    expected = draws * np.diff(stats.binom.cdf(edges, 4000, rate))
    assert stats.chisquare(np.histogram(sizes, edges + 0.5)[0], expected).pvalue > 1e-3
    taken = np.asarray(batches.features[..., 0])[np.asarray(batches.mask) > 0].astype(int)
    counts = np.bincount(taken, minlength=4000)
    assert stats.chisquare(counts.reshape(40, 100).sum(axis=1)).pvalue > 1e-3
    rows = zip(np.asarray(batches.features[:50, :, 0]), np.asarray(batches.mask[:50]), strict=True)
    assert all(len(set(row[mask > 0])) == np.sum(mask) for row, mask in rows)  # none twice


@pytest.mark.parametrize("rate", [8e-4, 0.01, 0.3])
def test_no_record_takes_part_more_often_than_the_rate(rate):
    table = [_UNIT, *[int(t) for t in survival(rate, 5000)[::-1]]]
    for before, after in itertools.pairwise(table):
        assert Fraction(rate) * before - 1 < before - after <= Fraction(rate) * before


@pytest.mark.parametrize(("records", "rate"), [(25_000, 8e-4), (4000, 0.004), (10**6, 1e-5)])
def test_a_batch_overflows_less_often_than_once_in_1e40(records, rate):
    room = capacity(records, rate)
    assert stats.binom.logsf(room - 1 - records // 65_536 - 1, records, rate) < math.log(1e-39)
    assert stats.binom.logsf(room // 2, records, rate) > math.log(1e-40)


# amplification is credited only where an oracle shows what the accountant relies on


class NoBatches(PoissonBatches):
    """Planted fault: names a rate and takes all records."""

    def draw(self, words, rows, count):
        return Drawn(None, jnp.ones(rows, bool))


class WithReplacement(FixedSizeBatches):
    """Planted fault: a record may be drawn twice."""

    def draw(self, words, rows, count):
        return Drawn((words[:SIZE] % RECORDS).astype(jnp.int32), jnp.ones(SIZE, bool))


class CalledPoisson(PoissonBatches):
    """Planted fault: draws a fixed size and is charged as a Poisson batch."""

    def draw(self, words, rows, count):
        return Drawn(distinct(words, SIZE, count), jnp.ones(SIZE, bool))


class Reads(Gradient):
    """Planted fault: draws a batch by the law and answers on all records."""

    def unnoised(self, shard, drawn, count, query):
        return self.exact(shard, count, query)


class Wraps(Oracle):
    """A question that is another one's, to plant faults in."""

    inner: Gradient

    sampling = property(lambda self: self.inner.sampling)
    exact_on_machine = property(lambda self: True)

    def exact(self, shard, count, query):
        return self.inner.exact(shard, count, query)

    def bound(self, spec, adjacency, **options):
        return self.inner.bound(spec, adjacency, **options)


class OneSided(Wraps):
    """Planted fault: coefficients from 0 to c, so a replaced record moves the answer by c only."""

    def bound(self, spec, adjacency, **options):
        value = self.inner.bound(spec, Adjacency(ZeroOut(), adjacency.unit), **options)
        return dataclasses.replace(value, adjacency=adjacency)


class ForAgents(Wraps):
    """Planted fault: does not refuse the unit agent."""

    def bound(self, spec, adjacency, **options):
        record = Adjacency(adjacency.relation, "record")
        return dataclasses.replace(self.inner.bound(spec, record, **options), adjacency=adjacency)


SIZE, RECORDS = 3, 12
REPLACED, ZEROED = (Adjacency(relation, "record") for relation in (ReplaceOne(), ZeroOut()))
AGENT = Adjacency(ReplaceOne(), "agent")
SAMPLED = MinibatchGradient(PROBLEM.loss, 1.0, RATE)


def batched(sampling, kind=Gradient):
    return kind(PROBLEM.loss, 1.0, sampling)


def checked(oracle, adjacency):
    spec = public_facts(PROBLEM, make_shards(agents=1, records=RECORDS), clip=1.0)
    oracle.check(spec, adjacency, norm="l2", loss=PROBLEM.loss)


@pytest.mark.parametrize(
    ("fault", "adjacency", "words"),
    [
        (batched(NoBatches(RATE)), REPLACED, "custom batches"),
        (Wraps(batched(NoBatches(RATE))), REPLACED, "custom batches"),
        (batched(WithReplacement(SIZE, RECORDS)), REPLACED, "custom batches"),
        (batched(CalledPoisson(SIZE / RECORDS)), REPLACED, "custom batches"),
        (batched(FixedSizeBatches(SIZE, RECORDS), Reads), REPLACED, "overrides unnoised"),
        (OneSided(SAMPLED), REPLACED, "twice"),
        (ForAgents(SAMPLED), AGENT, "does not hide an agent"),
        (SAMPLED, AGENT, "unit agent"),
        (SAMPLED, Adjacency(BoundedChange(0.1), "record"), "bounded_change"),
        (SAMPLED, Adjacency(TargetChange(0.1), "record"), "target_change"),
    ],
)
def test_batches_and_bounds_that_are_not_those_accounted_for_are_refused(fault, adjacency, words):
    with pytest.raises(InputError, match=words):
        checked(fault, adjacency)
    for honest, near in (
        (SAMPLED, REPLACED),
        (Wraps(SAMPLED), REPLACED),
        (OneSided(SAMPLED), ZEROED),
    ):
        checked(honest, near)


@pytest.mark.parametrize(
    ("oracle", "adjacency", "words"),
    [(OneSided(SAMPLED), REPLACED, "twice"), (SAMPLED, AGENT, "unit agent")],
)
def test_a_plan_makes_the_check(monkeypatch, shards, oracle, adjacency, words):
    # calibration takes seconds and comes before; any number will do
    monkeypatch.setattr(
        sys.modules["taciturn.engine.planning"], "multiplier_for_all", lambda *args, **kwargs: 1.0
    )
    terms = dataclasses.replace(make_terms(), adjacency=adjacency)
    with pytest.raises(InputError, match=words):
        plan_of(NoisyGradient(PROBLEM), shards, (oracle,), terms)


def test_a_certificate_of_batches_hides_no_agent():
    one = np.ones((1, 1, 1))
    book = Ledger(np.zeros((1, 1, 1), int), one, 3 * one, Gaussian(), 0.1 * one)
    with pytest.raises(InputError, match="hides no agent"):
        certify(book, delta=1e-5, adjacency=AGENT, observer=Messages())
    assert certify(book, delta=1e-5, adjacency=REPLACED, observer=Messages()).epsilon > 0


# batches of a fixed size


def fixed_oracle():
    return MinibatchGradient(PROBLEM.loss, 1.0, SIZE / RECORDS, records=RECORDS)


@pytest.fixture(scope="module")
def one_agent():
    return make_shards(agents=1, records=RECORDS)


def planned_fixed(shards, question, terms=None, **options):
    return plan_of(NoisyGradient(PROBLEM), shards, (question,), terms, rounds=4, **options)


@pytest.fixture(scope="module")
def made_fixed(one_agent):
    return planned_fixed(one_agent, fixed_oracle())


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


def test_only_the_agents_own_records_are_drawn_and_all_of_them_if_all_are_asked_for(one_agent):
    assert sorted(distinct(words_of(jax.random.key(0), 5), 5, 5).tolist()) == list(range(5))
    batch = batch_of(fixed_oracle(), one_agent.shard(0), jax.random.key(1))
    assert float(jnp.sum(batch.mask)) == SIZE


@pytest.mark.parametrize("rate", [0.96, 1.0])
def test_a_batch_of_all_records_is_the_mean_over_them_also_for_larger_agents(rate):
    one_agent = make_uneven((10, 100))
    question = MinibatchGradient(PROBLEM.loss, 1.0, rate, records=10)
    made_fixed = planned_fixed(one_agent, question)
    np.testing.assert_array_equal(made_fixed.ledger.rate, 1.0)
    np.testing.assert_array_equal(made_fixed.ledger.batch, 0)
    run(made_fixed, one_agent, runtime="simulate", seed=0)
    larger, query = one_agent.shard(1), Point(jnp.array([0.3, -0.2, 0.5]))
    mean = Gradient(PROBLEM.loss, 1.0).exact(larger, jnp.asarray(100.0), query)
    np.testing.assert_allclose(question.exact(larger, jnp.asarray(100.0), query), mean, rtol=1e-12)
    batch = batch_of(question, larger, jax.random.key(0))
    np.testing.assert_allclose(question.exact(batch, jnp.asarray(100.0), query), mean, rtol=1e-12)


def make_uneven(counts):
    draw = np.random.default_rng(0)
    parts = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    x, y = draw.standard_normal((sum(counts), 3)), np.sign(draw.standard_normal(sum(counts)))
    return packed(x, y, parts)


@pytest.mark.slow
def test_the_noise_is_calibrated_by_the_accountant_of_fixed_sizes(made_fixed):
    ((event, count),) = made_fixed.ledger.events_by_agent()[0]
    assert isinstance(event, FixedSize)
    assert (event.batch, event.records, count) == (SIZE, RECORDS, 4)
    scale = made_fixed.ledger.scale[0, 0, 0]
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    # 2 c_1 / b moves an answer, and what gathering its rows and the lattice may do
    moved = on_lattice(made_fixed.ledger, 2 / SIZE * (1 + gathering_slack(RECORDS, SIZE)))
    inner = dp_event.GaussianDpEvent(scale / moved)
    accountant.compose(dp_event.SampledWithoutReplacementDpEvent(RECORDS, SIZE, inner), 4)
    assert made_fixed.certificate.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)
    assert 0.999 < made_fixed.certificate.epsilon <= 1.0


@pytest.mark.slow
def test_a_run_observes_the_planned_batches_and_poisson_ones_in_their_place_release_nothing(
    made_fixed, one_agent
):
    done = run(made_fixed, one_agent, runtime="simulate", seed=0)
    np.testing.assert_array_equal(done.ledger.batch, SIZE)
    poisson = MinibatchGradient(PROBLEM.loss, 1.0, SIZE / RECORDS)
    program = dataclasses.replace(made_fixed.program, oracles=(poisson,))
    edited = dataclasses.replace(made_fixed, program=program)
    certificate = compose((edited.leg,), made_fixed.terms).certificate()
    edited = dataclasses.replace(edited, certificate=certificate)
    with pytest.raises(PrivacyError, match="not the planned ones"):
        run(edited, one_agent, runtime="simulate", seed=0)


@pytest.mark.parametrize(
    ("question", "options", "words"),
    [
        (fixed_oracle(), {"terms": make_terms(relation=ZeroOut())}, "replace_one only"),
        (fixed_oracle(), {"mechanism": Laplace()}, "Gaussian noise"),
        (Gradient(PROBLEM.loss, 1.0, FixedSizeBatches(SIZE, 13)), {}, "least number"),
    ],
)
def test_what_no_accountant_covers_is_refused(question, options, words, one_agent):
    with pytest.raises(InputError, match=words):
        planned_fixed(one_agent, question, **options)


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
