"""The private score of a model of numbers."""

from __future__ import annotations

import math

from jaxtyping import Float

from taciturn.evaluation.intervals import mean_interval
from taciturn.evaluation.score import PrivateScore
from taciturn.typing import HostArray


def score_of_numbers(
    totals: Float[HostArray, "3"], records: int, variance: float, unit: float
) -> PrivateScore:
    """Return the score from noised sums of clipped errors (`taciturn.oracles.ClippedErrors`).

    Parameters
    ----------
    variance
        Of the noise of each sum.
    unit
        Half the range of the target, in the user's units.
    """
    first, second, fourth = (float(total) for total in totals)
    absolute = mean_interval(first, second, records, variance)
    squared = mean_interval(second, fourth, records, variance)
    return PrivateScore(
        records=records,
        noise=math.sqrt(variance),
        absolute=absolute.scaled(unit),
        root_square=squared.root.scaled(unit),
    )
