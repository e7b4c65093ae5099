"""What a lattice costs in curve, ledger, certificate and budget, against the discrete laws.

The lattices here are coarse, so that every part of the cost is large enough to be seen; a fault
omits each.
"""

import dataclasses
import math
from functools import partial, reduce
from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.privacy.certified import certify

from taciturn.calibration import budget_after_lattice
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    GaussianAnswer,
    Laplace,
    Ledger,
    ReplaceOne,
    Sampled,
    ZeroOut,
    account,
    delta_of,
    epsilon_of,
)
from taciturn.kernel.privacy import mechanisms as lattice_module
from taciturn.kernel.privacy.gaussian import true_positive_rate
from taciturn.kernel.privacy.mechanisms import SHARE, lattice_epsilon, lattice_rate

# the discrete laws, by summation


def laws(shift, s, kind="gaussian"):
    """One discrete number around 0 and around `shift`; the likelihood ratio falls."""
    reach = (
        int((40 if kind == "gaussian" else 25) * s) + shift
    )  # the rest is below every delta here
    x = np.arange(reach, -reach - 1, -1, dtype=float)

    def weights(y):
        return np.exp(-(y**2) / (2 * s**2)) if kind == "gaussian" else np.exp(-np.abs(y) / s)

    return weights(x) / weights(x).sum(), weights(x - shift) / weights(x).sum()


def hockey(here, there, epsilon):
    return float(np.sum(np.maximum(there - math.exp(epsilon) * here, 0)))


def both(pairs):
    """The joint laws of independent numbers."""
    return reduce(lambda a, b: [np.outer(x, y).ravel() for x, y in zip(a, b, strict=True)], pairs)


def rounded_laplace(shift, s):
    """The same as `laws` for a Laplace number that is rounded."""
    reach = int(25 * s) + shift
    x = np.arange(-reach, reach + 1, dtype=float)
    pair = []
    for away in (np.abs(x), np.abs(x - shift)):
        half = np.sinh(1 / (2 * s)) * np.exp(-away / s)
        pair.append(np.where(away == 0, -math.expm1(-1 / (2 * s)), half))
    return pair


def curve_of(kind, ratio):
    """The curve of real numbers; of Laplace noise 1 - exp((epsilon - ratio) / 2) = delta."""
    if kind == "gaussian":
        return partial(epsilon_of, mu=ratio)
    return lambda delta: max(0.0, ratio + 2 * math.log1p(-delta))


@pytest.mark.parametrize(
    ("kind", "scales", "deltas"),
    [("gaussian", (8.0, 50.0, 300.0), (1e-2, 1e-6, 1e-9)),
     ("laplace", (16.0, 40.0, 300.0), (0.2, 1e-2, 1e-6))],
)  # fmt: skip
def test_the_corrected_epsilon_holds_for_the_discrete_law(kind, scales, deltas):
    for s, ratio, delta in product(scales, (0.25, 1.0, 3.0), deltas):
        shift = max(1, round(ratio * s))
        curve = curve_of(kind, shift / s)
        epsilon = lattice_epsilon(curve, delta, values=1, scale=s, law=kind)
        assert hockey(*laws(shift, s, kind), epsilon) <= delta
        assert epsilon > curve(delta)


@pytest.mark.parametrize("s", [8.0, 16.0])
def test_the_corrected_epsilon_of_two_laplace_numbers_holds_for_the_discrete_law(s):
    shifts = [round(0.5 * s), round(s)]
    rounded = both([rounded_laplace(shift, s) for shift in shifts])

    def curve(delta):
        """The law of rounded numbers itself, to which the correction is added."""
        low, high = 0.0, 2.0
        for _ in range(25):
            middle = (low + high) / 2
            more = hockey(*rounded, middle) > delta
            low, high = (middle, high) if more else (low, middle)
        return low  # from below, so that the correction alone makes up for it

    for delta in (0.1, 1e-3):
        epsilon = lattice_epsilon(curve, delta, values=2, scale=s, law="laplace")
        assert hockey(*both([laws(shift, s, "laplace") for shift in shifts]), epsilon) <= delta


def test_without_a_correction_the_discrete_laws_break_the_curves():
    """At a coarse scale the plain curves are too small, so that the correction is not idle."""
    here, there = laws(1, 1.0)
    gaussian = (hockey(here, there, e) / delta_of(float(e), 1.0) for e in np.linspace(0.05, 4, 400))
    assert max(gaussian) > 1.001
    here, there = laws(1, 2.0, "laplace")
    curve = lambda e: -math.expm1((e - 0.5) / 2)  # noqa: E731
    assert max(hockey(here, there, e) / curve(e) for e in np.linspace(0.0, 0.45, 50)) > 1.05


@pytest.mark.parametrize(("values", "mu"), [(1, 0.2), (20_800, 0.27), (7_840 * 200, 1.4)])
def test_at_the_scales_of_a_plan_the_correction_is_nil(values, mu):
    for delta in (1e-5, 1e-9, 1e-12):
        found = lattice_epsilon(partial(epsilon_of, mu=mu), delta, values=values, scale=2**24)
        assert 0 <= found - epsilon_of(delta, mu) < 1e-8


def test_a_lattice_that_is_too_coarse_or_a_delta_below_the_tails_has_no_epsilon():
    for delta, values, scale in ((1e-6, 10, 0.9), (1e-6, 10**9, 100.0), (1e-44, 10, 2.0**24)):
        assert lattice_epsilon(lambda _: 1.0, delta, values=values, scale=scale) == math.inf


# an attacker's rates


def exact_rate(false_positives, shift, s):
    """The best true-positive rate against one discrete Gaussian number."""
    here, there = laws(shift, s)
    whole = int(np.searchsorted(np.cumsum(here), false_positives))
    left = (false_positives - here[:whole].sum()) / here[whole]
    return float(there[:whole].sum() + left * there[whole])


def test_the_rate_of_an_attacker_holds_for_the_discrete_law():
    for s, mu, alarms in product((3.0, 8.0, 50.0), (0.5, 1.0, 3.0), (0.01, 0.1, 0.5)):
        shift = max(1, round(mu * s))
        plain = partial(true_positive_rate, shift / s)
        bound = lattice_rate(plain, alarms, values=1, scale=s)
        assert exact_rate(alarms, shift, s) <= bound
        assert plain(alarms) < bound
    # planted: without a correction the discrete law exceeds the rate of the Gaussian
    alarms = np.linspace(0.005, 0.5, 100)
    assert max(exact_rate(a, 1, 1.0) - true_positive_rate(1.0, a) for a in alarms) > 1e-3


def test_on_a_lattice_that_is_too_coarse_an_attacker_may_find_everything():
    """A correction that is cut off at 1 would be no bound: it is eta2 = 4 in the second case."""
    for alarms, values, scale in ((0.01, 1, 0.9), (0.01, 10**6, 100.0), (1 - 1e-12, 1, 3.0)):
        plain = partial(true_positive_rate, 0.1)
        assert lattice_rate(plain, alarms, values=values, scale=scale) == 1.0


# ledgers and certificates

DELTA, VALUES, ROUNDS = 1e-6, 5, 3
SCALE, STEP = 8.0, 0.25


def book(step=STEP, *, mechanism=None, rate=1.0, size=0):
    """Two agents, the first of which moves its answers further."""
    shape = (2, ROUNDS, 1)
    sensitivity = np.broadcast_to(np.array([1.0, 0.5])[:, None, None], shape)
    ones = np.ones(shape)
    return Ledger(
        np.zeros(shape, int), sensitivity, SCALE * ones, mechanism or Gaussian(),
        rate=rate * ones, batch=size * ones, step=step * ones, values=VALUES,
    )  # fmt: skip


def cost(ledger, relation=None):
    return certify(ledger, adjacency=Adjacency(relation or ReplaceOne(), "record")).epsilon


def tail(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def gaussian_epsilon(mu, delta):
    """The epsilon of a Gaussian curve in high precision, by bisection."""
    low, high = mpf(0), mpf(100)
    for _ in range(300):
        middle = (low + high) / 2
        curve = tail(middle / mu - mu / 2) - mp.exp(middle) * tail(middle / mu + mu / 2)
        low, high = (middle, high) if curve > delta else (low, middle)
    return high


def by_hand(without=()):
    """The epsilon of `book()` in high precision, some of its parts left out."""
    with mp.workprec(300):
        n, s = mpf(ROUNDS * VALUES), mpf(SCALE) / mpf(STEP)
        rounding = 0 if "lattice" in without else 2 * mpf(STEP) * mp.sqrt(VALUES)
        mu = mp.sqrt(ROUNDS) * (1 + rounding) / mpf(SCALE)
        once = n / (24 * s**2)
        share = 1 if "delta" in without else mp.exp(-once)
        epsilon = gaussian_epsilon(mu, mpf(DELTA) * share - mp.exp(-99))
        tau = 100 + epsilon
        kappa = (mp.sqrt(1 + 2 * mp.sqrt(tau / n) + 2 * tau / n) + 1 / (2 * s)) ** 2
        again = n * kappa / (24 * s**2) + 3 * n * mp.exp(-2 * mp.pi**2 * s**2)
        total = epsilon
        total += 0 if "first eta" in without else once
        total += 0 if "second eta" in without else again
        return float(total)


def test_the_certificate_on_a_lattice_is_that_of_high_precision_with_every_part_of_the_cost():
    assert cost(book()) == pytest.approx(by_hand(), rel=1e-9)
    assert cost(book()) >= by_hand() * (1 - 1e-14)
    for part in ("lattice", "first eta", "second eta", "delta"):
        assert cost(book()) > by_hand(without=(part,)) * (1 + 1e-6)


def lattice_left_out(monkeypatch):
    monkeypatch.setattr(Ledger, "moves", property(lambda self: self.sensitivity))


def etas_left_out(monkeypatch):
    monkeypatch.setattr(lattice_module, "eta1", lambda *_: 0.0)
    monkeypatch.setattr(lattice_module, "eta2", lambda *_: 0.0)


def delta_left_out(monkeypatch):
    def faulty(curve, delta, **options):
        return lattice_epsilon(lambda _: curve(delta), delta, **options)

    monkeypatch.setattr(lattice_module, "lattice_epsilon", faulty)


@pytest.mark.parametrize("fault", [lattice_left_out, etas_left_out, delta_left_out])
def test_a_ledger_or_certificate_that_leaves_a_part_out_is_told_apart(fault, monkeypatch):
    fault(monkeypatch)
    assert cost(book()) < by_hand() * (1 - 1e-6)


LEDGERS = {
    "gaussian": ({}, None),
    "poisson": ({"rate": 0.3}, None),
    "poisson, zeroed": ({"rate": 0.3}, ZeroOut()),
    "fixed": ({"rate": 0.25, "size": 3}, None),
    "laplace": ({"mechanism": Laplace()}, None),
}


@pytest.mark.parametrize("kind", LEDGERS)
def test_on_a_lattice_an_answer_costs_more_than_in_real_numbers_and_a_finer_one_less(kind):
    options, relation = LEDGERS[kind]
    # down to a hundredth of a percent: what is left out would not be seen below it
    costs = [cost(book(step, **options), relation) for step in (0.0, 2.0**-12, 2.0**-6)]
    assert costs[0] * (1 + 1e-4) < costs[1] < costs[2]
    assert costs[1] < costs[0] * 1.05


def test_a_lattice_moves_answers_by_two_steps_an_entry_and_on_poisson_batches_by_four():
    for options, norm, steps in (
        ({}, math.sqrt(VALUES), 2),
        ({"size": 3, "rate": 0.25}, math.sqrt(VALUES), 2),
        ({"rate": 0.3}, math.sqrt(VALUES), 4),
        ({"mechanism": Laplace()}, VALUES, 2),
        ({"mechanism": Laplace(), "rate": 0.3}, VALUES, 4),
    ):
        moved = book(**options).moves
        expected = np.array([1.0, 0.5])[:, None, None] + steps * STEP * norm
        np.testing.assert_allclose(moved, np.broadcast_to(expected, moved.shape), rtol=1e-14)
    # what no record has a part in does not move on a lattice either
    still = dataclasses.replace(book(), sensitivity=np.zeros((2, ROUNDS, 1)))
    assert not np.any(still.moves)
    assert not np.any(still.ratios())


def test_sampled_answers_on_a_lattice_cost_what_their_events_and_the_discrete_law_cost():
    found = cost(book(rate=0.3))
    event = Sampled(GaussianAnswer(SCALE / (1 + 4 * STEP * math.sqrt(VALUES))), 0.3)
    n, s = ROUNDS * VALUES, SCALE / STEP
    once = n / (24 * s**2)
    plain = account([(event, ROUNDS)], delta=DELTA * math.exp(-once), relation=ReplaceOne()).epsilon
    tau = 100 + plain
    kappa = (math.sqrt(1 + 2 * math.sqrt(tau / n) + 2 * tau / n) + 1 / (2 * s)) ** 2
    assert found == pytest.approx(plain + once * (1 + kappa), rel=1e-9)
    # the planted fault: rounding counted once, as on full batches
    once_only = Sampled(GaussianAnswer(SCALE / (1 + 2 * STEP * math.sqrt(VALUES))), 0.3)
    less = account([(once_only, ROUNDS)], delta=DELTA, relation=ReplaceOne()).epsilon
    assert found > 1.1 * less


def test_ledgers_on_other_lattices_are_not_the_same():
    book().same_as(book())
    one_entry = np.full((2, ROUNDS, 1), STEP)
    one_entry[1, 2, 0] = STEP / 2
    for other in (book(STEP / 2), book(2 * STEP), book(0.0), book(one_entry)):
        with pytest.raises(PrivacyError, match="lattice of step"):
            book().same_as(other)
    with pytest.raises(PrivacyError, match="agent 1, round 2, question 0"):
        book().same_as(book(one_entry))
    for step in (-1.0, math.nan, math.inf):
        with pytest.raises(PrivacyError, match="step of a lattice"):
            book(step)


def test_the_finest_scale_and_the_numbers_of_an_agent_are_those_of_what_was_asked():
    kind, step = np.zeros((2, ROUNDS, 1), int), np.full((2, ROUNDS, 1), STEP)
    kind[0, 0], step[0, 0] = -1, 64.0  # not asked, so of no account
    step[1, 1] = 2.0
    mixed = dataclasses.replace(book(), kind=kind, step=step)
    assert (mixed.finest(), mixed.most_values()) == (SCALE / 2.0, VALUES * ROUNDS)
    nothing = dataclasses.replace(book(), kind=np.full((2, ROUNDS, 1), -1))
    assert (nothing.finest(), nothing.most_values(), cost(nothing)) == (math.inf, 0, 0)


def test_the_rate_of_a_certificate_is_that_of_its_mu_and_lattice():
    found = certify(book())
    plain = partial(true_positive_rate, found.mu)
    assert plain(0.01) < found.attacker_tpr < plain(0.01) * 1.2
    n, s = ROUNDS * VALUES, SCALE / STEP
    rate = lattice_rate(plain, 0.01, values=n, scale=s, refused=SHARE * DELTA)
    assert found.attacker_tpr == rate


# the budget


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_what_is_left_of_a_budget_is_what_the_discrete_law_takes(law):
    for (epsilon, delta), values in product(
        [(0.05, 1e-5), (1.0, 1e-9), (8.0, 1e-3)], [1, 1000, 10**8]
    ):
        left, remaining = budget_after_lattice(epsilon, delta, values=values, law=law)
        assert left < epsilon
        assert remaining < delta

        def calibrated(at, left=left, remaining=remaining):
            """A curve through what is left."""
            return left if at >= remaining else math.inf

        for scale in (2.0**24, 2.0**30):
            options = {"values": values, "scale": scale, "law": law}
            assert lattice_epsilon(calibrated, delta, **options) <= epsilon * (1 + 1e-15)
            # the planted fault: noise that is calibrated to all of the budget
            whole = lattice_epsilon(lambda _, e=epsilon: e, delta, **options)
            assert whole > epsilon * (1 - 1e-15)
        exact = lattice_epsilon(calibrated, delta, values=values, scale=2.0**24, law=law)
        assert exact == pytest.approx(epsilon, rel=1e-9)
    for epsilon, delta, values in ((1e-12, 1e-5, 10**6), (1.0, 1e-44, 10)):
        with pytest.raises(InputError, match="fewer rounds or give a larger budget"):
            budget_after_lattice(epsilon, delta, values=values, law="gaussian")
