"""Poisson batches: one sampling event from the oracle to the certificate (laws 1, 3, 4, 9, 10)."""

import dataclasses
import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy import stats

from conftest import batch_of, computed, drawn, make_shards, make_terms
from taciturn.algorithms import METHODS, NoisyGradient, Setting
from taciturn.audit import replace_record, replay, zero_record
from taciturn.engine import behind_the_door, run
from taciturn.engine.planning import plan
from taciturn.engine.protocol import KEPT
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door.door import Live
from taciturn.kernel.exact import Rival
from taciturn.kernel.privacy import (
    Adjacency,
    BoundedChange,
    GaussianAnswer,
    Laplace,
    ReplaceOne,
    Sampled,
    Sum,
    TargetChange,
    ZeroOut,
    account,
    compose,
)
from taciturn.kernel.privacy.mechanisms import SHARE
from taciturn.kernel.questions import (
    Gradient,
    MinibatchGradient,
    PerturbedStep,
    Point,
    PoissonBatches,
    ProximalStep,
)
from taciturn.kernel.records import pack
from taciturn.problems import (
    L2,
    Logistic,
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
    minimise,
    public_facts,
)

PROBLEM = Problem(Logistic(), NoRegulariser(), WholeSpace())
RATE = 0.3


@cache
def usual_multiplier():
    """Found once: the search for the noise takes seconds, and most tests share its answer."""
    return planned(make_shards(), terms=make_terms()).multiplier


def planned(shards, *, terms=None, rounds=6, rate=RATE, precision="float64", **options):
    if terms is None and (rounds, rate) == (6, RATE) and not options:
        options = {"multiplier": usual_multiplier()}
    return plan(
        public_facts(PROBLEM, shards, clip=1.0),
        NoisyGradient(PROBLEM),
        (MinibatchGradient(PROBLEM.loss, 1.0, rate),),
        terms or make_terms(),
        rounds=rounds,
        precision=precision,
        **options,
    )


def direct(sigma_over_term, rate, rounds, delta, relation):
    """Epsilon by dp_accounting itself, called with a record's own norm bound as the unit."""
    accountant = pld_privacy_accountant.PLDAccountant(relation)
    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma_over_term))
    return accountant.compose(event, rounds).get_epsilon(delta)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("relation", "theirs"),
    [
        (ReplaceOne(), NeighboringRelation.REPLACE_ONE),
        (ZeroOut(), NeighboringRelation.ADD_OR_REMOVE_ONE),
    ],
)
def test_the_certificate_of_dp_sgd_is_dp_accountings_own_value(relation, theirs, shards):
    made = planned(shards, terms=make_terms(relation=relation), rounds=50, rate=0.1)
    term = 1.0 / (0.1 * 12)  # c_1 / (q m)
    truth = direct(made.ledger.scale[0, 0, 0] / term, 0.1, 50, 1e-5, theirs)
    assert made.certificate.epsilon == pytest.approx(truth, rel=2e-3)
    assert made.certificate.epsilon == pytest.approx(1.0, rel=1e-4)
    assert made.certificate.epsilon <= 1.0
    assert made.certificate.mu is None


@pytest.mark.slow
def test_amplification_pays_for_the_divisor_of_a_batch_and_for_little_more(shards):
    """Per sensitivity a tenth of the noise, which is the full batch's in gradient units."""
    sampled, full = planned(shards, rounds=50, rate=0.1), planned(shards, rounds=50, rate=1.0)
    assert sampled.multiplier < 0.11 * full.multiplier
    np.testing.assert_allclose(sampled.ledger.scale, full.ledger.scale, rtol=0.02)
    assert full.certificate.mu is not None


def moved(oracle, first, second, key, x):
    answers = [
        oracle.exact(
            batch_of(oracle, shards.shard(0), key),
            jnp.asarray(shards.counts[0], float),
            Point(jnp.asarray(x)),
        )
        for shards in (first, second)
    ]
    return float(jnp.linalg.norm(answers[0] - answers[1]))


def worst(oracle, relation, rounds=60):
    draw, best = np.random.default_rng(0), 0.0
    for trial in range(rounds):
        row = draw.standard_normal(2)
        row *= 1.5 * (1 - 1e-9) / np.linalg.norm(row)
        rows = np.stack([row, *draw.standard_normal((3, 2))])
        y = np.array([-100.0, 100.0, 5.0, -5.0])
        first = pack(rows, y, [np.arange(4)], record_norm=1.5, precision="float64", enforce="clip")
        flipped = replace_record(first, 0, 0, row, 100.0)
        second = zero_record(first, 0, 0) if isinstance(relation, ZeroOut) else flipped
        best = max(best, moved(oracle, first, second, jax.random.key(trial), draw.normal(size=2)))
    return best


def limit(oracle, relation, unit="record"):
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    shards = pack(
        np.ones((4, 2)), np.ones(4), [np.arange(4)],
        record_norm=1.5, precision="float64", enforce="clip",
    )  # fmt: skip
    spec = public_facts(problem, shards, clip=2.0)
    made = oracle.bound(spec, Adjacency(relation, unit), norm="l2")
    return float(made.value[0, 0, 0])


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut()])
def test_no_neighbour_moves_a_batch_gradient_beyond_its_bound_and_some_reach_it(relation):
    oracle = MinibatchGradient(Squared(), 2.0, 0.5)
    most = limit(oracle, relation)
    assert most == pytest.approx((2 if isinstance(relation, ReplaceOne) else 1) * 3 / (0.5 * 4))
    assert 0.9 * most <= worst(oracle, relation) <= most * (1 + 1e-9)


def test_dividing_by_the_size_of_the_batch_is_caught_by_the_same_search():
    """The planted fault: the batch's own size, at times 1, in place of the public q m."""

    class OwnSize(Gradient):
        def exact(self, shard, count, query):
            return Gradient(self.loss, self.clip).exact(shard, jnp.sum(shard.mask) + 1e-9, query)

    relation = ReplaceOne()
    assert worst(OwnSize(Squared(), 2.0, PoissonBatches(0.5)), relation) > 1.9 * limit(
        MinibatchGradient(Squared(), 2.0, 0.5), relation
    )


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


@pytest.mark.slow
def test_the_mean_over_batches_is_the_full_gradient():
    shards, oracle = make_shards(agents=1, records=20), MinibatchGradient(Logistic(), 1.0, RATE)
    query = Point(jnp.array([0.3, -0.2, 0.5]))

    def one(key):
        return oracle.exact(batch_of(oracle, shards.shard(0), key), jnp.asarray(20.0), query)

    answers = np.asarray(jax.vmap(one)(jax.random.split(jax.random.key(0), 20_000)))
    truth = Gradient(Logistic(), 1.0).exact(shards.shard(0), jnp.asarray(20.0), query)
    error = np.std(answers, axis=0) / math.sqrt(20_000)
    assert np.all(np.abs(answers.mean(0) - np.asarray(truth)) < 5 * error)


def test_padding_is_never_drawn():
    draw = np.random.default_rng(0)
    parts = [np.arange(3), np.arange(3, 10)]
    shards = pack(
        draw.standard_normal((10, 2)), np.ones(10), parts,
        record_norm=1.0, precision="float64", enforce="clip",
    )  # fmt: skip
    oracle = MinibatchGradient(Logistic(), 1.0, 0.99)
    batch = batch_of(oracle, shards.shard(0), jax.random.key(0))
    assert np.all(np.asarray(batch.mask[3:]) == 0)


@pytest.mark.slow
def test_the_two_runtimes_agree_to_1e_10_on_batches(shards):
    made = planned(shards)
    runs = [
        run(made, shards, runtime=runtime, seed=3, keep=frozenset(KEPT))
        for runtime in ("simulate", "serial")
    ]
    for ours, theirs in zip(*(jax.tree.leaves(r.trace) for r in runs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    np.testing.assert_allclose(runs[0].model, runs[1].model, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_dp_sgd_in_float32_stays_in_float32():
    shards = make_shards(precision="float32")
    made = planned(shards, precision="float32")
    done = run(made, shards, runtime="simulate", keep=frozenset(KEPT))
    floating = [x for x in jax.tree.leaves(done.trace) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert {x.dtype for x in floating} == {jnp.dtype("float32")}


def recorded(shards, seed):
    made = planned(shards)
    private = behind_the_door(made, shards)
    keep = frozenset({"answers", "messages"})
    _, trace = computed(made.program, private, seed=seed, keep=keep)
    return made, private, trace


@pytest.mark.slow
def test_replay_draws_the_same_batches_and_finds_the_noise(shards):
    made, private, trace = recorded(shards, 7)
    raw = drawn(made.program, private, 7)
    other = behind_the_door(made, replace_record(shards, 0, 0, np.array([0.6, 0.0, -0.8]), 1.0))
    seen = replay(made, made.program.oracles, trace, private, other, raw=raw)
    assert seen.bounds_hold
    assert seen.messages_hold
    residual = np.asarray(trace.records.answer) - seen.exact
    step = made.ledger.step[1, 2, 0]  # to which an answer is rounded before its noise is added
    away = np.abs(residual[2, 0, 1] - raw.steps[2, 1, 0] * step)
    assert np.all(away <= step / 2 * (1 + 1e-6))
    others = drawn(made.program, private, 8)
    wrong = replay(made, made.program.oracles, trace, private, other, raw=others)
    assert np.max(np.abs(wrong.exact - seen.exact)) > 1e-3  # other batches, other answers
    with pytest.raises(InputError, match="numbers of the run"):
        replay(made, made.program.oracles, trace, private, other)


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


@pytest.mark.parametrize(
    ("adjacency", "words"),
    [
        (Adjacency(ReplaceOne(), "agent"), "unit agent"),
        (Adjacency(BoundedChange(0.1), "record"), "bounded_change"),
        (Adjacency(TargetChange(0.1), "record"), "target_change"),
    ],
)
def test_what_sampling_does_not_hide_is_refused(adjacency, words, shards):
    with pytest.raises(InputError, match=words):
        planned(shards, terms=dataclasses.replace(make_terms(), adjacency=adjacency))
    spec = public_facts(PROBLEM, shards, clip=1.0)
    oracle = MinibatchGradient(PROBLEM.loss, 1.0, RATE)
    with pytest.raises(InputError, match=words):
        oracle.check(spec, adjacency, norm="l2")


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(InputError, match="rate"):
        MinibatchGradient(Logistic(), 1.0, rate)


class Alternates(NoisyGradient):
    """Asks oracle 0 and oracle 1 in turn."""

    def questions(self, rounds):
        return np.arange(rounds)[:, None] % 2


@pytest.mark.slow
def test_questions_of_one_plan_may_sample_at_different_rates(shards):
    """Half of the answers are on batches, half on all records: each is charged as it was given."""
    oracles = (MinibatchGradient(PROBLEM.loss, 1.0, RATE), Gradient(PROBLEM.loss, 1.0))
    spec = public_facts(PROBLEM, shards, clip=1.0)
    made = plan(spec, Alternates(PROBLEM), oracles, make_terms(), rounds=6, precision="float64")
    np.testing.assert_array_equal(made.ledger.rate[0, :, 0], [RATE, 1.0] * 3)
    plain = GaussianAnswer(made.multiplier)
    cost = account([(plain, 3), (Sampled(plain, RATE), 3)], delta=1e-5, relation=ReplaceOne())
    assert made.certificate.epsilon == pytest.approx(cost.epsilon, rel=1e-6)
    assert made.certificate.epsilon == pytest.approx(1.0, rel=1e-4)
    done = run(made, shards, runtime="simulate", seed=0)
    np.testing.assert_array_equal(done.ledger.rate, made.ledger.rate)


def test_a_sampled_answer_has_no_likelihood_ratio_given_its_batch(shards):
    made = planned(shards)
    private, oracles = behind_the_door(made, shards), made.program.oracles
    with pytest.raises(InputError, match="audit_sampled"):
        Rival(Live(oracles, made.program.mechanism, private), oracles, private, private)


@pytest.mark.slow
def test_without_noise_dp_sgd_comes_close_to_the_optimum():
    """Not to it: batches vary. The average over half a run is within 2 % of F*."""
    shards = make_shards(agents=3, records=40)
    problem = Problem(Logistic(), L2(0.1), WholeSpace())
    made = plan(
        public_facts(problem, shards, clip=math.inf),
        NoisyGradient(problem),
        (MinibatchGradient(problem.loss, math.inf, 0.2),),
        make_terms(math.inf),
        rounds=500,
        precision="float64",
    )
    assert np.all(made.schedules["momentum"] == 0)
    done = run(made, shards, runtime="simulate", seed=0)
    assert done.certificate.epsilon == math.inf
    truth = minimise(problem, shards)
    gap = float(problem.objective(jnp.asarray(done.model), shards)) - truth.value
    assert 0 <= gap < 0.02 * truth.value


def test_a_name_stands_for_a_method_and_its_question():
    problem = Problem(Logistic(), L2(0.1), WholeSpace())
    setting = Setting(
        problem=problem,
        facts=public_facts(problem, make_shards(), clip=1.0),
        clip=1.0,
        terms=make_terms(),
        rounds=10,
        options={"sampling_rate": 0.2, "batches": "poisson", "rho": 0.1},
    )
    ((oracle,), *others) = (
        METHODS[name].build(setting).oracles for name in ("dp-sgd", "dp-admm", "pvp", "dvp")
    )
    assert isinstance(oracle.sampling, PoissonBatches)
    assert oracle.sampling.rate == 0.2
    assert [type(one) for (one,) in others] == [Gradient, ProximalStep, PerturbedStep]
