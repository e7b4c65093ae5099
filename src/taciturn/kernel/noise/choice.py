r"""A choice among a few candidates by the exponential mechanism, drawn exactly.

    P(c) = exp(-r u_c) / sum_j exp(-r u_j),   u_c the cost of c, r >= 0 a rate.

The probabilities divide (0, 1) into intervals; one uniform number falls into one of them, and its
digits are drawn until they decide which (`taciturn.kernel.noise.gaussian`). (Gumbel noise has the
same law, but in floating point it could reveal the costs.)

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
    """Return the index that is chosen.

    `costs`: u, exact numbers. `rate`: r, the exact value of the float. Raises `InputError` if there
    are no costs, or the rate is negative or not finite.

    **Guarantee.** Every index is chosen with exactly the probability P above (see the module),
    given uniform words.
    """
    if not costs:
        raise InputError("there is nothing to choose from; give at least one cost")
    exact, least = Fraction(checks.not_negative("rate", rate)), min(costs)
    further = stream.further(label)
    uniform = Uniform(next(further), 64, further)

    def share(last: int) -> Number:
        """Return the probability that an index up to `last` is chosen."""
        exponents = [(cost - least) * exact for cost in costs]
        weights = [mp.exp(-mp.mpf(e.numerator) / e.denominator) for e in exponents]
        return mp.fsum(weights[: last + 1]) / mp.fsum(weights)

    for place in range(len(costs) - 1):
        if uniform.below(partial(share, place)):
            return place
    return len(costs) - 1
