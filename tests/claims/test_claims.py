"""The register: every verdict is recomputed, and its numbers have a second source."""

import math
from typing import get_args

import mpmath
import pytest

from tacit.claims import REGISTER, Verdict, claim_named
from tacit.claims import huang2019_thm2 as thm2
from tacit.errors import InputError


@pytest.mark.parametrize("claim", REGISTER, ids=lambda claim: claim.id)
def test_every_claim_is_decided_with_a_table(claim):
    finding = claim.decide()
    assert finding.verdict in get_args(Verdict)
    assert finding.rows
    assert all(len(row) == len(finding.columns) for row in finding.rows)


def exact(rounds, epsilon, delta):
    """The total by bisection on the curve in 40 digits."""
    mpmath.mp.dps = 40
    mu = mpmath.sqrt(rounds) * epsilon / mpmath.sqrt(2 * mpmath.log(1.25 / mpmath.mpf(delta)))
    low, high = mpmath.mpf(0), mu**2 + 10 * mu
    for _ in range(100):
        middle = (low + high) / 2
        tail = mpmath.e**middle * mpmath.ncdf(-middle / mu - mu / 2)
        if mpmath.ncdf(-middle / mu + mu / 2) - tail > delta:
            low = middle
        else:
            high = middle
    return float(high)


@pytest.mark.parametrize("rounds", [25, 100, 10_000])
def test_the_exact_totals_of_theorem_2_agree_with_mpmath(rounds):
    assert thm2.exact_epsilon(rounds, 0.1, 1e-5) == pytest.approx(
        exact(rounds, 0.1, 1e-5), rel=1e-9
    )


def test_the_hundred_rounds_of_the_paper_cost_0_751():
    assert thm2.exact_epsilon(100, 0.1, 1e-5) == pytest.approx(0.751, abs=5e-4)


def test_theorem_2_holds_in_its_range_and_fails_above():
    finding = claim_named("huang2019/thm2").decide()
    reach, constant = thm2.last_sufficient(1e-5), thm2.claimed_constant(1e-5)
    assert finding.verdict == "holds with conditions"
    below, above = (exact(1, f * reach, 1e-5) for f in (0.99, 1.01))
    assert below < constant * 0.99 * reach
    assert above > constant * 1.01 * reach
    assert constant == pytest.approx(math.sqrt(math.log(1e5) / math.log(1.25e5)))


def test_an_unknown_claim_is_named():
    with pytest.raises(InputError, match="huang2019/thm2"):
        claim_named("huang2019/thm9")
