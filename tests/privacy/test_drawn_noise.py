"""Noise is tested against its law, on every road, before anything is released."""

import copy
import dataclasses
import math
import pickle

import jax
import numpy as np
import pytest
from scipy.special import gammaincc

from conftest import make_plan, make_shards, make_terms
from taciturn.algorithms import NIDS, NoisyGradient, Walkman
from taciturn.budget import Guarantee
from taciturn.budget.caps import ARITHMETIC_SHARE, caps_of
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import PrivacyError
from taciturn.kernel.door.door import Live
from taciturn.kernel.door.supply import Supply
from taciturn.kernel.noise import Label, Stream
from taciturn.kernel.privacy import LEAST_SCALE, Gaussian, Laplace, Sum, compose, delta_of
from taciturn.kernel.privacy.drawn import (
    LEAST_NUMBERS,
    PER_VALUE,
    SHARE,
    Drawn,
    NoiseTest,
    noise_test,
)
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import Devices
from taciturn.network import metropolis, ring, spanning_tree, uniform_walk
from taciturn.problems import Logistic, NoRegulariser, Problem, WholeSpace, public_facts

PROBLEM = Problem(Logistic(), NoRegulariser(), WholeSpace())
REFUSED = "law and the scale"
ROADS = ["simulate", "serial", "seeded", "devices", "sum", "laplace", "tree", "gossip", "relay"]


def prepared(road, rounds=20):
    """A plan, shards, and how they are run on that road."""
    shards = make_shards(features=10)
    algorithm, network, how, terms, mechanism = NoisyGradient(PROBLEM), None, {}, make_terms(), None
    if road == "gossip":
        algorithm, network = NIDS(PROBLEM), metropolis(ring(4))
    elif road == "relay":
        algorithm, network = Walkman(PROBLEM), uniform_walk(ring(4), 4 * rounds, seed=0)
        rounds = 4 * rounds
    elif road == "tree":
        network = spanning_tree(ring(4))
    elif road == "sum":
        terms = make_terms(observer=Sum(1))
    elif road == "laplace":
        mechanism = Laplace()
    elif road == "devices":
        how = {"devices": Devices()}
    made = plan(
        public_facts(PROBLEM, shards, clip=1.0), algorithm, (Gradient(PROBLEM.loss, 1.0),), terms,
        rounds=rounds, precision="float64", network=network, mechanism=mechanism,
    )  # fmt: skip
    runtime = "serial" if road == "serial" else "simulate"
    return made, shards, {"runtime": runtime, "seed": 1 if road == "seeded" else None, **how}


@pytest.mark.parametrize("road", ROADS)
def test_honest_noise_passes_and_what_was_seen_of_it_stays_behind_the_door(road):
    made, shards, how = prepared(road)
    done = run(made, shards, **how, keep=frozenset({"answers"}))
    assert done.trace.records.drawn is None
    assert done.trace.records.answer is not None


@pytest.mark.parametrize("road", ROADS)
def test_noise_that_is_divided_by_a_thousand_releases_nothing(road, monkeypatch):
    """The planted fault: the sampler is honest about the scale that it was given, and divides."""
    for kind in (Gaussian, Laplace):
        less = lambda self, *given, honest=kind.integers: honest(self, *given) // 1000  # noqa: E731
        monkeypatch.setattr(kind, "integers", less)
    made, shards, how = prepared(road)
    try:
        with pytest.raises(PrivacyError, match=REFUSED) as raised:
            run(made, shards, **how)
    finally:
        jax.clear_caches()
    told = str(raised.value)
    assert not any(character.isdigit() for character in told.replace("10^20", ""))


@pytest.mark.parametrize(("runtime", "rounds"), [("simulate", 1), ("simulate", 20), ("serial", 1)])
def test_scales_that_were_divided_by_a_thousand_release_nothing(rounds, runtime, monkeypatch):
    """Also where there is too little noise for a test: the scale that was used is in the ledger."""
    scales = Supply._scales
    monkeypatch.setattr(Supply, "_scales", lambda self, *span: scales(self, *span) / 1000)
    made = make_plan("noisy", make_shards(), rounds=rounds)
    assert (made.ledger.values * made.ledger.kind.size < LEAST_NUMBERS) == (rounds == 1)
    with pytest.raises(PrivacyError, match="planned"):
        run(made, make_shards(), runtime=runtime)


def test_that_there_is_no_noise_is_seen_in_a_run_of_two_rounds(monkeypatch):
    honest = Gaussian.integers
    monkeypatch.setattr(Gaussian, "integers", lambda self, *given: honest(self, *given) // 2**60)
    made = make_plan("noisy", make_shards(), rounds=2)
    with pytest.raises(PrivacyError, match=REFUSED):
        run(made, make_shards(), runtime="simulate")


def test_a_door_that_adds_less_noise_than_it_records_releases_nothing(monkeypatch):
    realised = Live.realised

    def halved(self, *given):
        chance = realised(self, *given)
        return chance._replace(noise=chance.noise / 2)

    jax.clear_caches()  # or a program would be found that was traced before
    monkeypatch.setattr(Live, "realised", halved)
    made, shards, _ = prepared("simulate", rounds=50)
    with pytest.raises(PrivacyError, match="other noise than was drawn"):
        run(made, shards, runtime="serial")


def test_a_stream_serves_one_run():
    made = make_plan("noisy", make_shards())
    stream = Stream.fresh()
    supply = Supply(made.program.agenda, stream, 12)
    with pytest.raises(PrivacyError, match="served a run"):
        Supply(made.program.agenda, stream, 12)
    supply.block(0, 2)
    supply.block(2, 4)
    with pytest.raises(PrivacyError, match="drawn before"):
        supply.block(3, 5)


def test_a_stream_is_neither_pickled_nor_copied_nor_replaced_by_one_with_its_key():
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError, match="neither pickled nor copied"):
            copied(Stream.fresh())
    with pytest.raises(ValueError, match="key"):
        dataclasses.replace(Stream.fresh())


def of_values(count, *, agents=1, **terms):
    """The test of a plan with so many numbers in all, and the plan."""
    shards = make_shards(agents=agents, features=10)
    rounds = count // (10 * agents)
    made = make_plan("noisy", shards, rounds=rounds, terms=make_terms(**terms))
    said = made.certificate
    return noise_test(made.ledger, epsilon=said.epsilon, delta=said.delta), made


@pytest.mark.parametrize("settings", [{}, {"epsilon": 8.0}, {"delta": 1e-9}, {"agents": 10}])
def test_a_scale_that_is_off_by_a_tenth_is_caught_in_ten_thousand_numbers(settings):
    """At the expected sum, so in half of all runs at least; and two deviations towards honesty."""
    test, _ = of_values(10_000, **settings)
    deviation = math.sqrt(2 / 10_000)
    for scale, side in [(1.1, -1), (0.9, 1)]:
        total = 10_000 * scale**2 * (1 + 2 * side * deviation)
        with pytest.raises(PrivacyError, match=REFUSED):
            test.check(Drawn(total, 10_000))
    for deviations in (-6, 0, 6):
        test.check(Drawn(10_000 * (1 + deviations * deviation), 10_000))


@pytest.mark.parametrize("settings", [{}, {"epsilon": 8.0}, {"epsilon": 60.0}, {"delta": 1e-15}])
def test_what_the_test_costs_is_paid_by_the_delta_of_the_certificate(settings):
    test, made = of_values(1000, **settings)
    level = test.per_value * 1000
    certificate = made.certificate
    cost = (1 + math.exp(certificate.epsilon)) * level
    assert 0 < cost <= SHARE * certificate.delta
    assert level <= 1000 * PER_VALUE / 2
    # what is left pays for the answers
    left = certificate.delta - cost
    assert delta_of(certificate.epsilon, certificate.mu) <= left
    budget = made.terms.epsilon
    assert budget * (1 - 2e-6) <= certificate.epsilon <= budget * (1 + 1e-9)


def test_noise_on_a_lattice_that_is_too_coarse_for_its_test_is_refused():
    """Planted fault: fewer steps than the inequalities of the test count on."""
    _, made = of_values(100)
    coarse = dataclasses.replace(made.ledger, step=64 * made.ledger.step)
    assert made.ledger.finest() >= LEAST_SCALE > coarse.finest()
    with pytest.raises(PrivacyError, match="too coarse"):
        noise_test(coarse, epsilon=1.0, delta=1e-6)


def test_an_account_has_room_for_the_tests_of_all_that_it_may_hold():
    for epsilon, delta in [(1.0, 1e-6), (20.0, 1e-5), (30.0, 1e-5)]:
        values = caps_of(Guarantee(epsilon, delta)).values
        assert values > 10_000
        assert (1 + math.exp(epsilon)) * values * PER_VALUE <= ARITHMETIC_SHARE * delta


def test_levels_of_joined_runs_add_up_to_what_their_values_pay():
    tests, plans = zip(*(of_values(1000 * k) for k in (1, 2, 3)), strict=True)
    spent = sum(test.per_value * 1000 * k for test, k in zip(tests, (1, 2, 3), strict=True))
    (together,) = compose([one.leg for one in plans], plans[0].terms).asked
    assert spent <= together.ledger.most_values() * PER_VALUE / 2


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("count", [LEAST_NUMBERS, 10_000, 10**8])
def test_each_tail_has_its_level(law, count):
    """Read off the law: where a sum is refused, real noise lies beyond with at most half of f."""
    test = NoiseTest(law, 1e-28 / count)
    half = 0.5 if law == "gaussian" else 1.0

    def passes(total):
        try:
            test.check(Drawn(total, count))
        except PrivacyError:
            return False
        return True

    low, high = count * 1.0, count * 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    # without the slack it would be half of the level exactly
    assert float(gammaincc(half * count, half * high)) <= 1e-28 / 2
    nearer = high - 2.1e-5 * (high + count) / 2
    assert float(gammaincc(half * count, half * nearer)) >= 1e-28 / 2
    assert passes(float(count))
    assert not passes(0.0)
    assert not passes(math.nan)


def test_looks_at_parts_take_their_parts_of_the_level():
    test = NoiseTest("gaussian", 1e-15)
    large = Drawn(1000 * 1.38, 1000)
    probability = min(test.tails(large))
    assert 10 < probability / 1e-15 * 2 < 1000 / 2
    with pytest.raises(PrivacyError, match=REFUSED):
        test.check(large)
    test.check(large, new=1)


@pytest.mark.parametrize("law", [Gaussian(), Laplace()])
def test_sums_of_drawn_noise_have_the_law_that_they_are_tested_against(law):
    """Of 400 sums of 256 draws at the coarsest scale of a plan: their tail is uniform."""
    drawn = law.integers(Stream(b"s" * 32), [Label(k, 0, 0) for k in range(400)], 256, 2.0**24)
    unit = drawn / 2.0**24
    name = "laplace" if isinstance(law, Laplace) else "gaussian"
    totals = np.sum(np.abs(unit) if name == "laplace" else unit**2, axis=1)
    tails = np.sort([NoiseTest(name, 0.0).tails(Drawn(float(t), 256))[1] for t in totals])
    gap = np.max(np.abs(tails - (np.arange(400) + 0.5) / 400))
    assert gap < 0.1  # Kolmogorov: exceeded with probability 7e-4
