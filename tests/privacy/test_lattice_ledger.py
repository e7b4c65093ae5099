"""What a lattice costs in ledger, certificate and budget, each part against a fault that omits it.

The lattices here are coarse, so that every part is large enough to be seen.
"""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.privacy.certified import certify

from taciturn.calibration import budget_left
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    GaussianAnswer,
    Laplace,
    Ledger,
    Messages,
    ReplaceOne,
    Sampled,
    ZeroOut,
    account,
)
from taciturn.kernel.privacy import mechanisms as lattice_module
from taciturn.kernel.privacy.gaussian import true_positive_rate
from taciturn.kernel.privacy.mechanisms import SHARE, lattice_epsilon, lattice_rate

RECORD = Adjacency(ReplaceOne(), "record")
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


def epsilon_of(ledger, relation=None):
    adjacency = Adjacency(relation or ReplaceOne(), "record")
    return certify(ledger, delta=DELTA, adjacency=adjacency, observer=Messages()).epsilon


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


PARTS = ("lattice", "first eta", "second eta", "delta")


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


def test_the_certificate_on_a_lattice_is_that_of_high_precision():
    assert epsilon_of(book()) == pytest.approx(by_hand(), rel=1e-9)
    assert epsilon_of(book()) >= by_hand() * (1 - 1e-14)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_what_the_lattice_costs_is_in_the_certificate(part):
    assert epsilon_of(book()) > by_hand(without=(part,)) * (1 + 1e-6)


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
    assert epsilon_of(book()) < by_hand() * (1 - 1e-6)


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
    costs = [epsilon_of(book(step, **options), relation) for step in (0.0, 2.0**-12, 2.0**-6)]
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


def test_what_no_record_has_a_part_in_does_not_move_on_a_lattice_either():
    still = dataclasses.replace(book(), sensitivity=np.zeros((2, ROUNDS, 1)))
    assert np.all(still.moves == 0)
    assert np.all(still.ratios() == 0)


def test_sampled_answers_on_a_lattice_cost_what_their_events_and_the_discrete_law_cost():
    found = epsilon_of(book(rate=0.3))
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


@pytest.mark.parametrize("step", [-1.0, math.nan, math.inf])
def test_a_step_that_is_no_size_is_refused(step):
    with pytest.raises(PrivacyError, match="step of a lattice"):
        book(step)


def test_the_finest_scale_and_the_numbers_of_an_agent_are_those_of_what_was_asked():
    kind, step = np.zeros((2, ROUNDS, 1), int), np.full((2, ROUNDS, 1), STEP)
    kind[0, 0], step[0, 0] = -1, 64.0  # not asked, so of no account
    step[1, 1] = 2.0
    mixed = dataclasses.replace(book(), kind=kind, step=step)
    assert mixed.finest() == SCALE / 2.0
    assert mixed.most_values() == VALUES * ROUNDS
    nothing = dataclasses.replace(book(), kind=np.full((2, ROUNDS, 1), -1))
    assert nothing.finest() == math.inf
    assert nothing.most_values() == 0
    assert epsilon_of(nothing) == 0


# the discrete Laplace law, by summation
REACH = 25  # the rest has a probability of e^-25, far below every delta here


def laplace_delta(epsilon, shifts, t):
    """The delta of independent discrete Laplace numbers whose answers move by `shifts`."""
    here = there = np.ones(1)
    for shift in shifts:
        reach = int(REACH * t) + shift
        x = np.arange(-reach, reach + 1, dtype=float)
        one, two = np.exp(-np.abs(x) / t), np.exp(-np.abs(x - shift) / t)
        here = np.outer(here, one / one.sum()).ravel()
        there = np.outer(there, two / one.sum()).ravel()
    return float(np.sum(np.maximum(there - math.exp(epsilon) * here, 0)))


def laplace_epsilon(ratio):
    """The epsilon of one Laplace number at a delta: 1 - exp((epsilon - ratio) / 2) = delta."""
    return lambda delta: max(0.0, ratio + 2 * math.log1p(-delta))


@pytest.mark.parametrize("t", [16.0, 40.0, 300.0])
@pytest.mark.parametrize("ratio", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.2, 1e-2, 1e-6])
def test_the_corrected_epsilon_of_laplace_noise_holds_for_the_discrete_law(t, ratio, delta):
    shift = max(1, round(ratio * t))
    curve = laplace_epsilon(shift / t)
    epsilon = lattice_epsilon(curve, delta, values=1, scale=t, law="laplace")
    assert laplace_delta(epsilon, [shift], t) <= delta
    assert epsilon > curve(delta)


@pytest.mark.parametrize("t", [8.0, 16.0])
def test_the_corrected_epsilon_of_two_laplace_numbers_holds_for_the_discrete_law(t):
    shifts = [round(0.5 * t), round(t)]

    def curve(delta):
        """The law of rounded numbers itself, to which the correction is added."""
        low, high = 0.0, 2.0
        for _ in range(25):
            middle = (low + high) / 2
            more = laplace_delta_of_rounded(middle, shifts, t) > delta
            low, high = (middle, high) if more else (low, middle)
        return low  # from below, so that the correction alone makes up for it

    for delta in (0.1, 1e-3):
        epsilon = lattice_epsilon(curve, delta, values=2, scale=t, law="laplace")
        assert laplace_delta(epsilon, shifts, t) <= delta


def laplace_delta_of_rounded(epsilon, shifts, t):
    """The same as `laplace_delta` for Laplace numbers that are rounded."""
    here = there = np.ones(1)
    for shift in shifts:
        reach = int(REACH * t) + shift
        x = np.arange(-reach, reach + 1, dtype=float)
        pair = []
        for centre in (0, shift):
            away = np.abs(x - centre)
            half = np.sinh(1 / (2 * t)) * np.exp(-away / t)
            pair.append(np.where(away == 0, -math.expm1(-1 / (2 * t)), half))
        here, there = np.outer(here, pair[0]).ravel(), np.outer(there, pair[1]).ravel()
    return float(np.sum(np.maximum(there - math.exp(epsilon) * here, 0)))


def test_without_a_correction_discrete_laplace_noise_breaks_the_curve():
    t, worst = 2.0, 0.0
    for epsilon in np.linspace(0.0, 0.45, 50):
        curve = -math.expm1((epsilon - 1 / t) / 2)
        worst = max(worst, laplace_delta(float(epsilon), [1], t) / curve)
    assert worst > 1.05


@pytest.mark.parametrize("t", [1.0, 8.0, 100.0])
def test_the_ratio_of_rounded_and_discrete_laplace_noise_is_within_its_bounds(t):
    """cosh(u) but at 0, where it is between e^(-u/2) and 1; and the chance of 0 is at most u."""
    with mp.workprec(200):
        u = 1 / (2 * mpf(t))
        discrete, rounded = mp.tanh(u), mp.sinh(u)
        assert 1 < rounded / discrete <= mp.exp(u**2 / 2)
        at_zero = (1 - mp.exp(-u)) / discrete
        assert mp.exp(-u / 2) <= at_zero <= 1
        assert discrete <= u
        # the discrete law as it is drawn, e^(-|x| / t) over its sum
        assert 1 / (1 + 2 / (mp.exp(2 * u) - 1)) == pytest.approx(float(discrete), rel=1e-12)


# the budget


BUDGETS = [(0.05, 1e-5), (1.0, 1e-9), (8.0, 1e-3)]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("values", [1, 1000, 10**8])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_what_is_left_of_a_budget_is_what_the_discrete_law_takes(epsilon, delta, values, law):
    left, remaining = budget_left(epsilon, delta, values=values, law=law)
    assert left < epsilon
    assert remaining < delta

    def calibrated(at):
        """A curve through what is left."""
        return left if at >= remaining else math.inf

    for scale in (2.0**24, 2.0**30):
        options = {"values": values, "scale": scale, "law": law}
        spent = lattice_epsilon(calibrated, delta, **options)
        assert spent <= epsilon * (1 + 1e-15)
        # the planted fault: noise that is calibrated to all of the budget
        assert lattice_epsilon(lambda _: epsilon, delta, **options) > epsilon * (1 - 1e-15)
    exact = lattice_epsilon(calibrated, delta, values=values, scale=2.0**24, law=law)
    assert exact == pytest.approx(epsilon, rel=1e-9)


def test_a_plan_that_was_calibrated_to_the_whole_budget_would_exceed_it():
    values = 10**8
    left, remaining = budget_left(1.0, 1e-6, values=values, law="laplace")
    spent = lattice_epsilon(lambda _: 1.0, 1e-6, values=values, scale=2.0**24, law="laplace")
    assert spent > 1.0 + 0.5 * (1.0 - left) > 1.0
    assert remaining < 1e-6


def test_a_budget_that_the_discrete_law_alone_exceeds_is_refused():
    with pytest.raises(InputError, match="fewer rounds or give a larger budget"):
        budget_left(1e-12, 1e-5, values=10**6, law="gaussian")
    with pytest.raises(InputError, match="fewer rounds or give a larger budget"):
        budget_left(1.0, 1e-44, values=10, law="gaussian")


# an attacker's rates


def exact_rate(false_positives, shift, s):
    """The best true-positive rate against one discrete Gaussian number, by summation."""
    reach = int(40 * s) + shift
    x = np.arange(reach, -reach - 1, -1, dtype=float)  # the likelihood ratio falls
    here = np.exp(-(x**2) / (2 * s**2))
    there = np.exp(-((x - shift) ** 2) / (2 * s**2)) / here.sum()
    here = here / here.sum()
    whole = int(np.searchsorted(np.cumsum(here), false_positives))
    left = (false_positives - here[:whole].sum()) / here[whole]
    return float(there[:whole].sum() + left * there[whole])


@pytest.mark.parametrize("s", [3.0, 8.0, 50.0])
@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("false_positives", [0.01, 0.1, 0.5])
def test_the_rate_of_an_attacker_holds_for_the_discrete_law(s, mu, false_positives):
    shift = max(1, round(mu * s))
    plain = partial(true_positive_rate, shift / s)
    bound = lattice_rate(plain, false_positives, values=1, scale=s)
    assert exact_rate(false_positives, shift, s) <= bound
    assert plain(false_positives) < bound


def test_without_a_correction_the_discrete_law_exceeds_the_rate_of_the_gaussian():
    s = 1.0
    gaps = [
        exact_rate(share, 1, s) - true_positive_rate(1 / s, share)
        for share in np.linspace(0.005, 0.5, 100)
    ]
    assert max(gaps) > 1e-3


@pytest.mark.parametrize("case", [{"values": 1, "scale": 0.9}, {"values": 10**6, "scale": 100.0}])
def test_on_a_lattice_that_is_too_coarse_an_attacker_may_find_everything(case):
    """A correction that is cut off at 1 would be no bound: it is eta2 = 4 in the second case."""
    assert lattice_rate(partial(true_positive_rate, 0.1), 0.01, **case) == 1.0
    assert lattice_rate(partial(true_positive_rate, 0.1), 1 - 1e-12, values=1, scale=3.0) == 1.0


def test_the_rate_of_a_certificate_is_that_of_its_mu_and_lattice():
    found = certify(book(), delta=DELTA, adjacency=RECORD, observer=Messages())
    plain = true_positive_rate(found.mu, 0.01)
    n, s = ROUNDS * VALUES, SCALE / STEP
    assert plain < found.attacker_tpr < plain * 1.2
    assert found.attacker_tpr == lattice_rate(
        partial(true_positive_rate, found.mu), 0.01, values=n, scale=s, refused=SHARE * DELTA
    )
