"""What a site answers has the noise that was planned, drawn independently by every process."""

import copy
from unittest import mock

import jax
import numpy as np
import pytest
from scipy.stats import chi2
from tests.federation.studies import make_study
from tests.federation.wire import local_of

from taciturn.errors import PrivacyError
from taciturn.kernel.door.supply import Supply
from taciturn.kernel.privacy import LEAST_NUMBERS, Gaussian
from taciturn.kernel.records import Draw
from taciturn_federation.site import AgentRounds

ROUNDS = 60
LEVEL = 1e-7


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("long"), agents=2, rounds=ROUNDS)


def rounds_of(study, agent=0):
    """The rounds of an agent, as a process that starts has them."""
    local = local_of(study, agent, None)
    return AgentRounds(*local.training_leg(local.records(Draw.secret())))


def improbable(study, agent=0):
    """How improbable the noise of two fresh processes is, numbers of both tails counted.

    Answers to the same questions about the same records differ by their noises alone, whose sum of
    squares over 2 sigma^2 is chi-square.
    """
    local = local_of(study, agent, None)
    one, two = rounds_of(study, agent), rounds_of(study, agent)
    state, inbox = one.first_state(), one.first_inbox()
    scale = local.plan.ledger.scale[agent, :, 0]
    total, count = 0.0, 0
    for turn in range(ROUNDS):
        first, second = (each.answer(turn, state, inbox).message for each in (one, two))
        apart = np.asarray(first) - np.asarray(second)
        assert np.all(apart != 0)
        total, count = total + float(np.sum(apart**2)) / (2 * scale[turn] ** 2), count + apart.size
    return 2 * min(chi2.cdf(total, count), chi2.sf(total, count))


def test_the_noise_of_a_site_has_the_planned_scale(long):
    assert improbable(long) > LEVEL


@pytest.mark.slow
def test_half_of_the_noise_is_noticed_and_so_is_the_same_noise_twice(long):
    """The planted faults of the test above."""
    block = Supply.block

    def halved(supply, first, last):
        raw = block(supply, first, last)
        return raw._replace(steps=raw.steps // 2)

    unseen = mock.patch("taciturn_federation.site.AgentRounds._test_noise")
    unchecked = mock.patch.object(Supply, "check_used")
    with mock.patch.object(Supply, "block", halved), unseen:
        with pytest.raises(PrivacyError, match="other noise than was drawn"):
            improbable(long)
        with unchecked:
            assert improbable(long) < LEVEL
    drawn = rounds_of(long).draw(0)
    with mock.patch("taciturn_federation.site.AgentRounds.draw", return_value=drawn):
        with pytest.raises(PrivacyError, match="other noise than was drawn"):
            improbable(long)
        with unchecked, pytest.raises(AssertionError):
            improbable(long)
    assert jax.tree.leaves(drawn)


def test_what_answers_for_a_site_is_not_copied(long):
    """A shallow copy would have the same block of noise, and a separate count of rounds."""
    with pytest.raises(PrivacyError, match="copied"):
        copy.copy(answered(long, 1))


def answered(study, rounds, agent=0):
    """A site that has answered so many rounds."""
    site = rounds_of(study, agent)
    state, inbox = site.first_state(), site.first_inbox()
    for turn in range(rounds):
        site.answer(turn, state, inbox)
    return site


def test_a_site_refuses_to_go_on_when_its_noise_is_too_small(long):
    """Before the last round: at the first test, at the least numbers, of noise that is absent."""
    integers = Gaussian.integers

    def divided(law, *given):
        return integers(law, *given) // 1000

    numbers = local_of(long, 0, None).plan.ledger.values
    first = -(-LEAST_NUMBERS // numbers)
    assert first < ROUNDS
    assert answered(long, ROUNDS) is not None  # honest noise
    with mock.patch.object(Gaussian, "integers", divided):
        assert answered(long, first - 1) is not None
        with pytest.raises(PrivacyError, match="law and the scale"):
            answered(long, first)


def test_a_site_gives_no_answer_other_noise_than_was_drawn_for_it(long):
    block = Supply.block

    def divided(supply, first, last):
        raw = block(supply, first, last)
        return raw._replace(steps=raw.steps // 1000)

    with (
        mock.patch.object(Supply, "block", divided),
        pytest.raises(PrivacyError, match="other noise than was drawn"),
    ):
        answered(long, 1)


def test_a_site_whose_scale_is_not_the_planned_one_sends_nothing(long):
    scales = Supply._scales
    with (
        mock.patch.object(Supply, "_scales", lambda *given: scales(*given) / 1000),
        pytest.raises(PrivacyError, match="deviates from the plan"),
    ):
        answered(long, 1)


def test_a_round_is_answered_once(long):
    """Two answers with one noise reveal their difference exactly."""
    site = answered(long, 3)
    state, inbox = site.first_state(), site.first_inbox()
    last = site.answer(2, state, inbox)
    # whatever the query: a site that could not write its answer needs the same one again
    elsewhere = jax.tree.map(lambda leaf: leaf + 1, inbox)
    assert site.answer(2, state, elsewhere) is last
    with pytest.raises(PrivacyError, match="answered before"):
        site.answer(1, state, inbox)
