r"""What a choice by the exponential mechanism reveals, as a mu.

Let P(c) be proportional to exp(-r u_c), and let one unit move every cost u_c by x_c, all x_c in an
interval of width w: 2 where a term of [0, 1] is replaced by another, 1 where it is left out. Then

    ln P(c) - ln P'(c) = -r x_c + const

lies in an interval of width e = w r, whatever the candidates are (*bounded range*; Durfee and
Rogers 2019). Let p and q be the probabilities that a test accepts on the two data sets. With
[t - e, t] that interval, p <= exp(t) q and 1 - p >= exp(t - e) (1 - q), so that

    logit p - logit q <= e.

Now Phi^-1(p) - Phi^-1(q) = g(logit p) - g(logit q) with g = Phi^-1 o sigma and the sigmoid
sigma(z) = 1/(1 + e^-z). g is odd, and its inverse logit Phi has the derivative phi / Phi +
phi / (1 - Phi): the hazard rate of the normal law at -x and at x. That rate is convex (Sampford
1953), so the sum is, and it is even; it grows with |x|, and g' falls with |z|. Of all intervals of
length e the one around 0 has therefore the largest integral of g':

    Phi^-1(p) - Phi^-1(q) <= mu = 2 Phi^-1(sigma(e / 2)),

which is mu-Gaussian privacy (Dong, Roth and Su 2022, definition 2.6). Two candidates whose costs
move in opposite directions, from r (u_2 - u_1) = e / 2 to -e / 2, attain it. So a choice adds up
with Gaussian answers in mu^2.
"""

from __future__ import annotations

from scipy.special import expit, log_ndtr, ndtri

from tacit import checks
from tacit.privacy.terms import Relation, ZeroOut

_MARGIN = 1e-12  # covers the rounding of either direction


def mu_of_choice(rate: float, relation: Relation) -> float:
    """Return the mu of one choice at that rate among costs that are sums of terms in [0, 1].

    Raises
    ------
    InputError
        If the rate is no finite number of at least 0.
    """
    half = _width(relation) * checks.not_negative("rate", rate) / 2
    return 2 * float(ndtri(expit(half))) * (1 + _MARGIN)


def rate_of_choice(mu: float, relation: Relation) -> float:
    """Return the largest rate of a choice that is mu-Gaussian private, but for rounding.

    Raises
    ------
    InputError
        If mu is not above 0, or infinite.

    Examples
    --------
    >>> from tacit.privacy import ReplaceOne
    >>> round(mu_of_choice(rate_of_choice(0.5, ReplaceOne()), ReplaceOne()), 9)
    0.5
    """
    half = checks.positive("mu", mu) / 2
    logit = float(log_ndtr(half) - log_ndtr(-half))
    return 2 * logit / _width(relation) * (1 - 4 * _MARGIN)


def _width(relation: Relation) -> float:
    return 1.0 if isinstance(relation, ZeroOut) else 2.0
