"""What a site answers has the noise that was planned, drawn anew by every process."""

from unittest import mock

import jax
import numpy as np
import pytest
from scipy.stats import chi2
from tests.federation.studies import make_study
from tests.federation.wire import local_of

from tacit.engine.supply import Supply
from tacit.problems import Draw

ROUNDS = 20
LEVEL = 1e-7


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("long"), agents=2, rounds=ROUNDS)


def improbable(study, agent=0):
    """How improbable the noise of two fresh processes is, numbers of both tails counted.

    Answers to the same questions about the same records differ by their noises alone, whose sum of
    squares over 2 sigma^2 is chi-square.
    """
    local = local_of(study, agent, None)
    records = local.records(Draw.secret())
    one, two = local.answering(records), local.answering(records)
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

    with mock.patch.object(Supply, "block", halved):
        assert improbable(long) < LEVEL
    local = local_of(long, 0, None)
    drawn = local.answering(local.records(Draw.secret())).drawn(0)
    with (
        mock.patch("tacit.federation.answering.Answering.drawn", return_value=drawn),
        pytest.raises(AssertionError),
    ):
        improbable(long)
    assert jax.tree.leaves(drawn)
