r"""The test that the noise of a run must pass before anything is released, and its cost.

**The test.** All noise of a run is tested together. With z the noise over its scale in the ledger,

    Gaussian:  sum_i z_i^2 ~ chi-square with n degrees of freedom,
    Laplace:   sum_i |z_i| ~ Gamma(n, 1),

and the run is refused where the sum lies in either tail of its law at the level f of the run. Only
the verdict leaves the door.

**What it costs.** Let M be a run without the test and M' the same with it. Whether noise passes
depends on noise alone, so M' and M, driven by the same noise, differ with probability at most f, on
either of two neighbouring data sets D, D'. If M is (epsilon, delta)-private, then for every event S

    P(M'(D) in S) <= P(M(D) in S) + f <= e^epsilon P(M(D') in S) + delta + f
                  <= e^epsilon P(M'(D') in S) + delta + (1 + e^epsilon) f,

and M' is (epsilon, delta + (1 + e^epsilon) f)-private. This does not depend on how many tests there
are, who makes them, or what was observed before: f is the probability that honest noise is refused
anywhere. An attacker's true-positive rate at the level a becomes that of M at a + f, plus f.

**The budget of f.** Every number in an agent's answers adds at most `PER_VALUE` / 2 to f, so that a
ledger's count of values, which adds up over joined runs and in accounts, bounds f for all of them.
A certificate sets `SHARE` of its delta aside (`privacy.mechanisms`), and the f of a plan is at most
what this pays for at the epsilon of its certificate: with n the largest number of values of an
agent,

    f = min(n PER_VALUE / 2, SHARE delta / (1 + e^epsilon)).

The level is spread evenly over the values of all agents, so that one process may test all of them,
or every site its own at any time: a test of m new values takes its share of f. (The other half of
`PER_VALUE` is for Poisson batches that overflow, with probability 1e-40 per answer.)

**Discreteness.** Noise is drawn from a discrete law of scale s in steps, s >= 2^24. For the
discrete Gaussian X and a normal g, comparing sums with integrals gives

    P(s |g| >= k) / (1 + theta) <= P(|X| >= k) <= P(s |g| >= k - 1),

with theta <= 3 exp(-2 pi^2 s^2), 0 to any precision; for the discrete Laplace law and an
exponential e, P(|X| >= k) = exp(-k / s) (1 + tanh(1 / (2 s))) gives

    P(s e >= k) <= P(|X| >= k) <= P(s e >= k - 1/2).

So |X| lies between s |g| - 1 and s |g| + 1, or between s e - 1 and s e + 1/2, for a suitable
coupling of each of the n independent numbers, and a sum S above is within 2^-23 (S + n) of that of
real noise. This and the rounding of a scale narrowed to single precision, for which a ledger allows
1e-6, are less than `SLACK` (S + n), by which the sum is moved away from either tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import gammainc, gammaincc

from taciturn.errors import PrivacyError
from taciturn.kernel.privacy.ledger import Ledger
from taciturn.kernel.privacy.mechanisms import LEAST_SCALE, SHARE, Laplace, Law, NoNoise, law_of
from taciturn.typing import HostArray

# twice the amount that one number of an answer may add to the probability of a false refusal
PER_VALUE = 2.0**-100
SLACK = 1e-5
# with fewer numbers a test at such levels does not even detect missing noise; the scale at which
# the noise was drawn is still compared
LEAST_NUMBERS = 16
_MOST_EXPONENT = 700.0


@dataclass(frozen=True)
class Drawn:
    """The test statistic of some noise. It reveals something about the answers: no run returns it.

    `total`: the sum of squares (Laplace: of absolute values) of the noise over its scale in the
    ledger. `count`: the number of terms.
    """

    total: float = 0.0
    count: int = 0

    def __add__(self, other: Drawn) -> Drawn:
        return Drawn(self.total + other.total, self.count + other.count)


@dataclass(frozen=True)
class NoiseTest:
    """The two-sided test of all noise of a run; `per_value` is its level for each number."""

    law: Law
    per_value: float

    def check(self, drawn: Drawn, *, new: int | None = None) -> None:
        """Raise `PrivacyError` if noise does not have its law; the error reveals nothing else.

        `new`: how many of the numbers no earlier test has seen; None for all. Fewer than
        `LEAST_NUMBERS` numbers are not tested.
        """
        if drawn.count < LEAST_NUMBERS:
            return
        level = self.per_value * (drawn.count if new is None else new)
        if not min(self.tails(drawn)) >= level / 2:
            raise PrivacyError(
                "the noise that was drawn does not have the law and the scale that were planned; "
                "nothing is released, and what was charged stays charged. Honest noise fails "
                "this test in fewer than one of 10^20 runs: look for a changed sampler, scale or "
                "door, and for a machine that computes wrongly"
            )

    def tails(self, drawn: Drawn) -> tuple[float, float]:
        """Return upper bounds on the probabilities of a sum as small, and of one as large."""
        half = 0.5 if self.law == "gaussian" else 1.0
        slack = SLACK * (drawn.total + drawn.count)
        shape = half * drawn.count
        small = float(gammainc(shape, half * (drawn.total + slack)))
        large = float(gammaincc(shape, half * max(0.0, drawn.total - slack)))
        return small, large


def noise_test(ledger: Ledger, *, epsilon: float, delta: float) -> NoiseTest | None:
    """Return the test of a run with this ledger and certificate; None if it has no noise.

    **Guarantee.** The level over all tests of all agents is at most f (see the module). Raises
    `PrivacyError` for a lattice coarser than the module's inequalities assume.
    """
    if isinstance(ledger.mechanism, NoNoise) or not np.any(ledger.asked & (ledger.scale > 0)):
        return None
    if not ledger.finest() >= LEAST_SCALE:
        raise PrivacyError(
            f"noise of {ledger.finest():g} steps of its lattice is too coarse for the test of its "
            "law; plan again"
        )
    values = _numbers(ledger) * int(np.max(np.sum(ledger.asked, axis=(1, 2))))
    paid = SHARE * delta / (1 + math.exp(min(epsilon, _MOST_EXPONENT)))
    level = min(values * PER_VALUE / 2, paid)
    return NoiseTest(law_of(ledger.mechanism), level / (values * len(ledger.kind)))


def pays_for_tests(ledger: Ledger, *, epsilon: float, delta: float) -> bool:
    """Return whether the delta set aside pays for the tests of all runs that a ledger joins."""
    level = ledger.most_values() * PER_VALUE / 2
    return level * (1 + math.exp(min(epsilon, _MOST_EXPONENT))) <= SHARE * delta


def noise_statistic(ledger: Ledger, sizes: Float[HostArray, "A T E"]) -> Drawn:
    """Return the statistic of the noise of the answers in a ledger, in units of its scales.

    `sizes`: the `Mechanism.size` of the noise of each answer; ignored where there was none.
    """
    some = ledger.asked & (ledger.scale > 0)
    scale = np.where(some, ledger.scale, 1.0)
    unit = scale if isinstance(ledger.mechanism, Laplace) else np.square(scale)
    total = float(np.sum(np.where(some, sizes / unit, 0.0)))
    return Drawn(total, _numbers(ledger) * int(np.count_nonzero(some)))


def _numbers(ledger: Ledger) -> int:
    """Return the number of entries of the noise of one answer."""
    return ledger.values * (1 if ledger.inside is None else 2)
