"""The questions of structured learning: bounds, batches, multipliers, audits (laws 1 to 6)."""

import dataclasses
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy import stats

from conftest import batch_of, computed, drawn, make_shards, make_terms
from taciturn.algorithms import (
    SADMM,
    VRADMM,
    AcceleratedADMM,
    AcceleratedVRADMM,
    Composition,
    variance_reduction,
)
from taciturn.audit import audit, replace_record, replay, zero_record
from taciturn.calibration import mu_of
from taciturn.engine import behind_the_door, run
from taciturn.engine.planning import plan
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import Adjacency, BoundedChange, ReplaceOne, TargetChange, ZeroOut
from taciturn.kernel.questions import (
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    Pair,
    Point,
    PoissonBatches,
)
from taciturn.kernel.questions.sampling import _UNIT, capacity, survival
from taciturn.kernel.records import Shard, pack
from taciturn.problems import (
    Logistic,
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
    chain,
    facts_from,
    generalised_lasso,
    lasso,
    public_facts,
)

DATA = Problem(Logistic(), NoRegulariser(), WholeSpace())
STRUCTURE = generalised_lasso(Logistic(), chain(3), weight=0.01)


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


def pairs(relation, draw):
    """Terms of convex losses share a half-space, so opposite ones lie almost on its border."""
    turn, _ = np.linalg.qr(draw.standard_normal((2, 2)))
    row, other = (1.4999 * turn @ [sign * math.cos(0.05), math.sin(0.05)] for sign in (1, -1))
    rows = np.stack([row, *draw.standard_normal((3, 2))])
    y = np.array([0.0, 100.0, 5.0, -5.0])
    first = pack(rows, y, [np.arange(4)], record_norm=1.5, precision="float64", enforce="clip")
    query = Pair(jnp.asarray(100 * turn[:, 1]), jnp.asarray(-100 * turn[:, 1]))
    if isinstance(relation, ZeroOut):
        return first, zero_record(first, 0, 0), query
    return first, replace_record(first, 0, 0, other, 0.0), query


def worst(oracle, relation):
    draw, best = np.random.default_rng(0), 0.0
    for trial in range(40):
        first, second, query = pairs(relation, draw)
        key = jax.random.key(trial)
        answers = [
            oracle.exact(
                batch_of(oracle, shards.shard(0), key),
                jnp.asarray(shards.counts[0], float),
                query,
            )
            for shards in (first, second)
        ]
        best = max(best, float(jnp.linalg.norm(answers[0] - answers[1])))
    return best


def limit(oracle, adjacency):
    shards = pack(
        np.ones((4, 2)), np.ones(4), [np.arange(4)],
        record_norm=1.5, precision="float64", enforce="clip",
    )  # fmt: skip
    spec = public_facts(Problem(Squared(), NoRegulariser(), WholeSpace()), shards, clip=2.0)
    return float(oracle.bound(spec, adjacency, norm="l2").value[0, 0, 0])


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut()])
@pytest.mark.parametrize("spread", [4.0, 1.0])
def test_no_neighbour_moves_a_difference_beyond_its_bound_and_some_reach_it(relation, spread):
    oracle = MinibatchDifference(Squared(), 2.0, 0.5, spread=spread)
    most = limit(oracle, Adjacency(relation, "record"))
    assert most == pytest.approx((2 if isinstance(relation, ReplaceOne) else 1) * 1.5 * spread / 2)
    assert 0.9 * most <= worst(oracle, relation) <= most * (1 + 1e-9)


def test_a_difference_that_clips_each_gradient_only_is_caught_by_the_same_search():
    class Unclipped(Gradient):
        def exact(self, shard, count, query):
            parts = [Gradient(self.loss, self.clip).exact(shard, count, Point(x)) for x in query]
            return (parts[0] - parts[1]) / self.sampling.rate

    most = limit(
        MinibatchDifference(Squared(), 2.0, 0.5, spread=1.0), Adjacency(ReplaceOne(), "record")
    )
    assert (
        worst(Unclipped(Squared(), 2.0, PoissonBatches(0.5), spread=1.0), ReplaceOne()) > 2 * most
    )


def test_sampling_that_does_not_match_the_accounting_is_refused():
    oracle = MinibatchDifference(Logistic(), 1.0, 0.5, spread=1.0)
    logistic = Problem(Logistic(), NoRegulariser(), WholeSpace())
    facts = facts_from(logistic, [4], features=2, record_norm=1.5, clip=1.0)
    for relation, unit in (
        (ReplaceOne(), "agent"), (BoundedChange(0.1), "record"), (TargetChange(0.1), "record"),
    ):  # fmt: skip
        adjacency = Adjacency(relation, unit)
        with pytest.raises(InputError, match="full-batch Gradient"):
            oracle.check(facts, adjacency, norm="l2")
    with pytest.raises(InputError, match=r"rate is 1\.5"):
        MinibatchGradient(Logistic(), 1.0, 1.5)  # a batch larger than the data


def planned(shards, *, rate, inner=4, epochs=5, epsilon=1.0, precision="float64", **options):
    oracles, noise = variance_reduction(Logistic(), clip=0.5, spread=0.5, rate=rate, inner=inner)
    algorithm = VRADMM(STRUCTURE, inner=inner, snapshot_noise=noise, **options)
    facts = public_facts(DATA, shards, clip=0.5)
    return plan(
        facts, algorithm, oracles, make_terms(epsilon),
        rounds=epochs * algorithm.epoch, precision=precision,
    )  # fmt: skip


def test_the_certificate_composes_each_question_at_its_own_noise_and_rate(shards):
    made = planned(shards, rate=0.1)
    kinds, scale = made.ledger.kind[0, :, 0], made.ledger.scale[0, :, 0]
    difference, snapshot = scale[kinds == 0][0], scale[kinds == 1][0]
    accountant = pld_privacy_accountant.PLDAccountant(NeighboringRelation.REPLACE_ONE)
    sampled = dp_event.PoissonSampledDpEvent(
        0.1, dp_event.GaussianDpEvent(difference / (0.5 / (0.1 * 12)))
    )
    accountant.compose(sampled, 20)
    # under REPLACE_ONE their unit is one record's norm for plain answers too
    accountant.compose(dp_event.GaussianDpEvent(snapshot / (0.5 / 12)), 5)
    assert made.certificate.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)
    assert 0.999 < made.certificate.epsilon <= 1.0


def test_on_full_batches_the_split_budget_adds_up_to_the_exact_mu(shards):
    made = planned(shards, rate=1.0)
    assert made.certificate.mu == pytest.approx(mu_of(1.0, 1e-5), rel=1e-5)
    assert made.certificate.epsilon <= 1.0
    ratios = made.ledger.ratios()[0, :, 0]
    assert math.sqrt(np.sum(ratios**2)) == pytest.approx(made.certificate.mu, rel=1e-12)
    assert ratios[0] / ratios[1] == pytest.approx(2.0)  # z_s / z_d = sqrt(1 / m) / q = 1/2


@pytest.mark.slow
def test_all_runtimes_agree_on_sampled_epochs_and_the_ledger_is_observed(shards):
    made = planned(shards, rate=0.3, epochs=2)
    runs = [run(made, shards, runtime=kind, seed=3) for kind in ("simulate", "serial")]
    np.testing.assert_allclose(runs[0].model, runs[1].model, atol=1e-10)
    made.ledger.same_as(runs[0].ledger)


def test_a_snapshot_with_less_noise_than_planned_releases_nothing(shards):
    made = planned(shards, rate=0.3, epochs=2)
    quiet = made.program.scales.at[0].multiply(0.5)
    program = dataclasses.replace(made.program, scales=quiet)
    with pytest.raises(PrivacyError, match="round 0"):
        run(dataclasses.replace(made, program=program), shards, runtime="simulate", seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 3.0])
def test_sampled_runs_replay_within_their_bounds(smoothing):
    """No search on one pair finds a change beyond its bound on the batches that were drawn."""
    shards = make_shards(agents=1, records=12)
    row = np.asarray(shards.shard(0).features[0])
    other = replace_record(shards, 0, 0, -row, float(shards.shard(0).targets[0]))
    made = planned(shards, rate=0.5, smoothing=smoothing)
    sides = [behind_the_door(made, one) for one in (shards, other)]
    _, trace = computed(made.program, sides[0], seed=4, keep=frozenset({"answers", "messages"}))
    seen = replay(made, made.program.oracles, trace, *sides, raw=drawn(made.program, sides[0], 4))
    assert seen.bounds_hold
    assert seen.messages_hold
    assert seen.worst_ratio > 0.01


def sadmm(ridge):
    def made(problem):
        return SADMM(lasso(problem.loss, 5, weight=0.1, ridge=ridge), smoothing=2.0)

    return made


def vradmm(ridge):
    def made(problem):
        oracles, noise = variance_reduction(problem.loss, clip=1.0, spread=2.0, rate=1.0, inner=4)
        structure = lasso(problem.loss, 5, weight=0.1, ridge=ridge)
        algorithm = VRADMM(structure, 2.0, inner=4, snapshot_noise=noise, restart=ridge > 0)
        return Composition(algorithm, oracles)

    return made


def accelerated(ridge):
    return lambda problem: AcceleratedADMM(lasso(problem.loss, 5, weight=0.1, ridge=ridge), 2.0)


def accelerated_vradmm(ridge):
    def made(problem):
        oracles, noise = variance_reduction(problem.loss, clip=1.0, spread=2.0, rate=1.0, inner=4)
        structure = lasso(problem.loss, 5, weight=0.1, ridge=ridge)
        return Composition(
            AcceleratedVRADMM(structure, 2.0, inner=4, snapshot_noise=noise), oracles
        )

    return made


@pytest.mark.slow
@pytest.mark.parametrize("maker", [sadmm, vradmm, accelerated, accelerated_vradmm])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_replay_residuals_messages_and_likelihood_find_no_fault(maker, ridge):
    report = audit(maker(ridge), mu=1.5, runs=300, seed=0)
    assert report.verdict == "consistent"
    assert 0.4 < report.likelihood.mu <= report.claimed_mu


@pytest.mark.parametrize("ridge", [pytest.param(0.0, marks=pytest.mark.slow), 0.1])
def test_the_published_un_noised_restart_is_caught(ridge):
    report = audit(vradmm(ridge), mu=1.5, runs=20, seed=0, fault="clear-restart")
    assert report.layers["messages"] == "violated"
    assert report.verdict == "violated"


@pytest.mark.slow
def test_halved_noise_is_caught_in_every_method():
    for maker in (sadmm, vradmm, accelerated, accelerated_vradmm):
        report = audit(maker(0.0), mu=1.5, runs=20, seed=0, fault="halved-noise")
        assert report.layers["residuals"] == "violated"


def test_a_spread_in_the_last_digits_of_a_coefficient_is_refused():
    MinibatchDifference(Logistic(), 1.0, 0.25, spread=2.0**-20)
    with pytest.raises(InputError, match="spread"):
        MinibatchDifference(Logistic(), 1.0, 0.25, spread=2.0**-21)
