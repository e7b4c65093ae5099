"""Amplification is credited only where an oracle shows what the accountant relies on (law 1)."""

import dataclasses
import math
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm as normal
from tests.privacy.certified import certify

from conftest import make_shards, make_terms
from taciturn.algorithms import NoisyGradient
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    Adjacency,
    GaussianAnswer,
    Ledger,
    Messages,
    ReplaceOne,
    Sampled,
    ZeroOut,
    account,
)
from taciturn.kernel.privacy.mechanisms import Gaussian
from taciturn.kernel.questions import Drawn, Gradient, MinibatchGradient, Oracle, PoissonBatches
from taciturn.problems import Logistic, NoRegulariser, Problem, WholeSpace, public_facts

PROBLEM = Problem(Logistic(), NoRegulariser(), WholeSpace())


class NoBatches(PoissonBatches):
    """Planted fault: names a rate and takes all records."""

    def draw(self, words, rows, count):
        return Drawn(None, jnp.ones(rows, bool))


class Wraps(Oracle):
    """A question that is another one's, to plant faults in."""

    inner: Gradient

    @property
    def exact_on_machine(self):
        return True

    @property
    def sampling(self):
        return self.inner.sampling

    def exact(self, shard, count, query):
        return self.inner.exact(shard, count, query)

    def bound(self, *args, **kwargs):
        return self.inner.bound(*args, **kwargs)


class NoBatch(Wraps):
    """Planted fault: names a rate and answers on all records."""

    @property
    def sampling(self):
        return NoBatches(self.inner.sampling.rate)


class OneSided(Wraps):
    """Planted fault: coefficients from 0 to c, so a replaced record moves the answer by c only."""

    def bound(self, spec, adjacency, **options):
        zeroed = Adjacency(ZeroOut(), adjacency.unit)
        value = self.inner.bound(spec, zeroed, **options)
        return dataclasses.replace(value, adjacency=adjacency)


class ForAgents(OneSided):
    """Planted fault: does not refuse the unit agent."""

    def bound(self, spec, adjacency, **options):
        record = Adjacency(adjacency.relation, "record")
        value = self.inner.bound(spec, record, **options)
        return dataclasses.replace(value, adjacency=adjacency)


def checked(oracle, adjacency):
    spec = public_facts(PROBLEM, make_shards(), clip=1.0)
    oracle.check(spec, adjacency, norm="l2", loss=PROBLEM.loss)


def sampling(rate=0.3):
    return MinibatchGradient(PROBLEM.loss, 1.0, rate)


REPLACED, ZEROED = (Adjacency(relation, "record") for relation in (ReplaceOne(), ZeroOut()))


def test_a_rate_without_a_batch_is_refused():
    checked(sampling(), REPLACED)
    with pytest.raises(InputError, match="custom batches"):
        checked(NoBatch(sampling()), REPLACED)
    checked(Wraps(sampling()), REPLACED)


def test_a_replaced_record_bounded_by_less_than_two_terms_is_refused():
    with pytest.raises(InputError, match="twice"):
        checked(OneSided(sampling()), REPLACED)
    checked(OneSided(sampling()), ZEROED)


def test_a_plan_makes_the_check(monkeypatch):
    # calibration takes seconds and comes before; any number will do
    monkeypatch.setattr(
        sys.modules["taciturn.engine.planning"], "multiplier_for_all", lambda *args, **kwargs: 1.0
    )
    spec = public_facts(PROBLEM, make_shards(), clip=1.0)
    options = {"rounds": 2, "precision": "float64"}
    with pytest.raises(InputError, match="twice"):
        plan(spec, NoisyGradient(PROBLEM), (OneSided(sampling()),), make_terms(), **options)


def test_batches_are_refused_for_the_unit_agent_by_plan_and_certificate():
    agent = Adjacency(ReplaceOne(), "agent")
    with pytest.raises(InputError, match="does not hide an agent"):
        checked(ForAgents(sampling()), agent)
    one = np.ones((1, 1, 1))
    book = Ledger(np.zeros((1, 1, 1), int), one, 3 * one, Gaussian(), 0.1 * one)
    with pytest.raises(InputError, match="hides no agent"):
        certify(book, delta=1e-5, adjacency=agent, observer=Messages())
    assert certify(book, delta=1e-5, adjacency=REPLACED, observer=Messages()).epsilon > 0


def divergence(first, second, epsilon, rate, sigma):
    """delta(epsilon) of two mixtures with N(0, sigma^2), by a sum over a fine grid."""
    x = np.linspace(-14 * sigma, 14 * sigma, 400_001)
    p, q = (
        (1 - rate) * normal.pdf(x, 0, sigma) + rate * normal.pdf(x, mean, sigma)
        for mean in (first, second)
    )
    return np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0])


def test_one_sided_terms_would_leak_more_than_is_accounted_for():
    event = Sampled(GaussianAnswer(1.0), 0.1)
    spent = account([(event, 1)], delta=1e-4, relation=ReplaceOne()).epsilon
    assert divergence(0.5, -0.5, spent, 0.1, 1.0) == pytest.approx(1e-4, rel=1e-3)
    assert divergence(1.0, 0.0, spent, 0.1, 1.0) > 10 * 1e-4


def test_no_pair_of_terms_in_the_plane_leaks_more_than_the_opposite_one():
    rate, sigma, grid = 0.3, 0.8, np.linspace(-6, 6, 301)
    x, y = np.meshgrid(grid, grid)

    def mixture(u):
        def law(a, b):
            return np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * sigma**2))

        return (1 - rate) * law(0, 0) + rate * law(*u)

    draw = np.random.default_rng(0)
    for epsilon in (0.1, 0.5, 1.5):
        worst = np.maximum(mixture((1, 0)) - math.exp(epsilon) * mixture((-1, 0)), 0).sum()
        for _ in range(30):
            angle, long, other = draw.uniform(0, 2 * math.pi), *draw.choice([0.5, 1.0], 2)
            v = (other * math.cos(angle), other * math.sin(angle))
            found = np.maximum(mixture((long, 0)) - math.exp(epsilon) * mixture(v), 0).sum()
            assert found <= worst * (1 + 1e-3)
