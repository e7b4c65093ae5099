"""GradInversion (Yin et al. 2021), as far as a convex model has a use for it."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from taciturn.typing import Array, Key
from taciturn_papers.attacks.matching import (
    Guess,
    Material,
    Shape,
    gradients,
    searched,
    total_variation,
)
from taciturn_papers.attacks.seen import Seen


@dataclass(frozen=True)
class Mismatch:
    """Euclidean distance of gradients, plus regularisers of total variation and size."""

    shape: Shape
    variation: float
    ridge: float

    def __call__(self, records: Array, given: Material) -> Array:
        """Return the objective at these records."""
        gap = gradients(records, given.classes, given) - given.answers
        distance = jnp.sqrt(jnp.sum(gap**2) + 1e-30)
        size = jnp.sqrt(jnp.sum(records**2) + 1e-30)
        return distance + self.variation * total_variation(records, self.shape) + self.ridge * size


def gradinversion(
    seen: Seen, key: Key, *, shape: Shape, variation: float, ridge: float, steps: int
) -> Guess:
    """Return the pictures that GradInversion finds.

        min_{X in [0, 1]} |G(X) - answers|_F + variation TV(X) + ridge |X|_2

    by Adam at rate 0.1, the classes restored from the answer
    (`taciturn_papers.attacks.labels_shown`).

    Kept of the published objective: the gradient distance, total variation, the l2 regulariser and
    the restored labels. Left out: the statistics of batch normalisation, since a linear model has
    no such layer, and the agreement of a group of seeds after registration, which averages over
    the ambiguity of position that convolutions leave: every weight of a linear model belongs to one
    pixel.

    Parameters
    ----------
    shape
        (height, width) of a picture.
    """
    return searched(
        seen, Mismatch(shape, variation, ridge), key, steps=steps, rate=0.1, signed=False
    )
