r"""A choice among a few things by the exponential mechanism, drawn exactly.

    P(c) = exp(-r u_c) / sum_j exp(-r u_j),   u_c the cost of c, r >= 0 a rate.

It is the law of the c with the least u_c - G_c / r, where the G_c are independent Gumbel numbers.
None is drawn here: floating-point noise could tell the costs apart. One uniform number falls into
one of the intervals that the probabilities cut (0, 1) into, and as many of its digits are drawn as
decide in which (`taciturn.kernel.noise.gaussian`).

Source: McSherry and Talwar 2007.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.noise.gaussian import Number, Uniform, mp
from taciturn.kernel.noise.stream import Label, Stream


def exponential_choice(stream: Stream, label: Label, costs: Sequence[Fraction], rate: float) -> int:
    """Return the place of the one that is chosen.

    `costs`: u: exact numbers. `rate`: r; the exact value of the float. Raises `InputError` if there
    is nothing to choose from, or the rate is no finite number of at least 0.

    **Guarantee.** Every place is chosen with exactly the probability of this module, given uniform
    words.
    """
    if not costs:
        raise InputError("there is nothing to choose from; give at least one cost")
    exact, least = Fraction(checks.not_negative("rate", rate)), min(costs)
    further = stream.further(label)
    uniform = Uniform(next(further), 64, further)

    def share(last: int) -> Number:
        """Return the probability that one of the places up to `last` is chosen."""
        exponents = [(cost - least) * exact for cost in costs]
        weights = [mp.exp(-mp.mpf(e.numerator) / e.denominator) for e in exponents]
        return mp.fsum(weights[: last + 1]) / mp.fsum(weights)

    for place in range(len(costs) - 1):
        if uniform.below(partial(share, place)):
            return place
    return len(costs) - 1
