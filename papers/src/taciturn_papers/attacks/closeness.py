"""How close a recovered record is to the true one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from taciturn.typing import HostArray


class Closeness(NamedTuple):
    """A recovered record against the true one, after the best scaling by a factor of 0 or more.

    Attributes
    ----------
    record
        As recovered, not scaled.
    error
        |true - factor record| / |true|, from 0 (exact) to 1 (no better than nothing).
    psnr
        Peak signal-to-noise ratio in decibels, the peak being the largest entry of the true record.
    """

    record: Float[HostArray, " D"]
    error: float
    psnr: float


def closeness(found: Float[HostArray, " D"], truth: Float[HostArray, " D"]) -> Closeness:
    """Return how close `found` is to `truth` after the best scaling.

    Examples
    --------
    >>> round(closeness(np.array([2.0, 0.0]), np.array([1.0, 1.0])).error, 4)
    0.7071
    """
    power = float(found @ found)
    factor = max(0.0, float(found @ truth) / power) if power > 0 else 0.0
    gap = float(np.sum((truth - factor * found) ** 2))
    mean, peak = gap / truth.size, float(np.max(np.abs(truth)))
    psnr = math.inf if mean == 0 else 10 * math.log10(peak**2 / mean)
    return Closeness(found, math.sqrt(gap / float(truth @ truth)), psnr)


def nearest(
    found: Float[HostArray, "N D"], truths: Float[HostArray, "M D"]
) -> tuple[Closeness, ...]:
    """Return the closeness of every true record to the recovered one that is closest to it."""
    return tuple(
        min((closeness(guess, truth) for guess in found), key=lambda close: close.error)
        for truth in truths
    )
