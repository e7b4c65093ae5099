"""Runs around a private centre are attacked as others are, end to end."""

import pytest

from taciturn.audit import audit
from taciturn.errors import InputError
from taciturn.kernel.privacy import Sum

METHODS = ["noisy-gradient", "dp-admm", "pvp", "linearised-admm"]


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_run_around_a_centre_is_consistent_and_nearly_attains_its_claim(name):
    report = audit(name, mu=1.5, runs=600, seed=1, centre=True)
    assert report.verdict == "consistent", report.layers
    # all but the share of the centre, which this pair does not move
    assert 0.96 * 1.5 <= report.replay.realised_mu <= 1.5
    assert report.likelihood.mu > 1


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["halved-noise", "reused-noise"])
def test_a_fault_planted_around_a_centre_is_seen(fault):
    assert audit("noisy-gradient", mu=1.5, runs=600, seed=1, centre=True, fault=fault).verdict == (
        "violated"
    )


@pytest.mark.slow
def test_an_observer_of_sums_learns_no_more_around_a_centre():
    report = audit("noisy-gradient", mu=1.5, runs=600, seed=2, centre=True, observer=Sum(1))
    assert report.verdict == "consistent", report.layers


def test_a_method_of_the_users_own_is_audited_as_it_was_composed():
    with pytest.raises(InputError, match="around_centre"):
        audit(lambda problem: problem, mu=1.5, runs=10, centre=True)
