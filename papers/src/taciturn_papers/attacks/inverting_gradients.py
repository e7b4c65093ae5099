"""Inverting gradients (Geiping et al. 2020): directions of gradients, and smooth pictures."""

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
class Misdirection:
    """1 - cosine of the angle between all gradients and all answers, plus a TV regulariser."""

    shape: Shape
    variation: float

    def __call__(self, records: Array, given: Material) -> Array:
        """Return the objective at these records."""
        made = gradients(records, given.classes, given)
        size = jnp.sqrt(jnp.sum(made**2) * jnp.sum(given.answers**2)) + 1e-30
        cosine = jnp.sum(made * given.answers) / size
        return 1 - cosine + self.variation * total_variation(records, self.shape)


def inverting_gradients(
    seen: Seen, key: Key, *, shape: Shape, variation: float, steps: int
) -> Guess:
    """Return the pictures whose gradients point where the answers point (equation 4 there).

        min_{X in [0, 1]} 1 - <G(X), answers> / (|G(X)| |answers|) + variation TV(X)

    by Adam on the signs of the gradient, at rate 0.1, the classes taken from the answer
    (`taciturn_papers.attacks.labels_shown`).

    Parameters
    ----------
    shape
        (height, width) of a picture.
    variation
        Weight of the total variation.
    """
    return searched(seen, Misdirection(shape, variation), key, steps=steps, rate=0.1, signed=True)
