"""Common parts of the gradient-matching attacks: gradients of guesses, total variation, Adam."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from taciturn.typing import Array, HostArray, Key
from taciturn_papers.attacks.seen import Seen

Shape = tuple[int, int]


class Guess(NamedTuple):
    """The records that a search found, their classes, and the objective there."""

    records: Float[HostArray, "M D"]
    labels: Int[HostArray, " M"]
    objective: float


class Material(NamedTuple):
    """The data of every search: `Seen` as arrays, and the classes of the records."""

    points: Float[Array, "Q D K"]
    answers: Float[Array, "Q D K"]
    classes: Float[Array, "M K"]
    record_norm: Float[Array, ""]


def material_of(seen: Seen, labels: Int[HostArray, " M"]) -> Material:
    """Return `seen` as arrays, in float64."""
    classes = jax.nn.one_hot(labels, seen.answers.shape[-1], dtype=jnp.float64)
    points, answers = (jnp.asarray(x, jnp.float64) for x in (seen.points, seen.answers))
    return Material(points, answers, classes, jnp.asarray(seen.record_norm, jnp.float64))


def gradients(
    records: Float[Array, "M D"], classes: Float[Array, "M K"], given: Material
) -> Float[Array, "Q D K"]:
    """Return (1/m) X'(softmax(X W_q) - Y) at every point W_q, for classes Y given as weights.

    The records are first clipped to the public record norm, as packing does.
    """
    sizes = jnp.sqrt(jnp.sum(records**2, axis=1, keepdims=True) + 1e-30)
    rows = records * jnp.minimum(1.0, given.record_norm / sizes)
    margins = jnp.einsum("md,qdk->qmk", rows, given.points)
    pull = jax.nn.softmax(margins, axis=-1) - classes
    return jnp.einsum("md,qmk->qdk", rows, pull) / len(records)


def total_variation(records: Float[Array, "M D"], shape: Shape) -> Float[Array, ""]:
    """Return the mean absolute difference of neighbouring pixels, across plus down."""
    pictures = records.reshape(-1, *shape)
    across, down = (jnp.mean(jnp.abs(jnp.diff(pictures, axis=axis))) for axis in (-1, -2))
    return across + down


def labels_shown(seen: Seen) -> Int[HostArray, " M"]:
    """Return the classes of the agent's records, from the column sums of the first answer.

    Let T_k be the sum of all entries of the records of class k, which must not be negative, and T
    the sum over all classes. At W = 0, m times the column sums are T/K - T_k; if a class is absent
    their maximum is T/K, and T_k follows. Records are then assigned one by one to the class with
    the largest T_k, which falls by T/m. (Yin et al. 2021 restore labels similarly, but without
    repetitions.)
    """
    sums = np.sum(seen.answers[0], axis=0) * seen.records
    totals = np.max(sums) - sums
    each = np.sum(totals) / seen.records
    found = []
    for _ in range(seen.records):
        found.append(int(np.argmax(totals)))
        totals[found[-1]] -= each
    return np.array(found)


@partial(jax.jit, static_argnames=("objective", "steps", "rate", "signed"))
def adam(
    objective: Callable[[Array, Material], Array], start: Array, given: Material, *, steps: int,
    rate: float, signed: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the last point and its objective of Adam, projected onto [0, 1].

    The usual constants (0.9, 0.999, 1e-8); the rate is divided by 10 after 3/8, 5/8 and 7/8 of the
    steps (Geiping et al. 2020).

    Parameters
    ----------
    objective
        Hashable; equal objectives share one compiled program.
    signed
        Whether only the signs of the gradient are used.
    """
    slope = jax.grad(objective)

    def step(
        carry: tuple[Array, Array, Array], k: Array
    ) -> tuple[tuple[Array, Array, Array], None]:
        x, mean, square = carry
        g = slope(x, given)
        g = jnp.sign(g) if signed else g
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        drops = jnp.sum(8 * k >= jnp.array([3.0, 5.0, 7.0]) * steps)
        scaled = jnp.sqrt(square / (1 - 0.999 ** (k + 1))) + 1e-8
        move = rate * 10.0**-drops * (mean / (1 - 0.9 ** (k + 1))) / scaled
        return (jnp.clip(x - move, 0, 1), mean, square), None

    zero = jnp.zeros_like(start)
    counter = jnp.arange(steps, dtype=start.dtype)
    (last, _, _), _ = jax.lax.scan(step, (start, zero, zero), counter)
    return last, objective(last, given)


def searched(
    seen: Seen, objective: Callable[[Array, Material], Array], key: Key, *, steps: int,
    rate: float, signed: bool,
) -> Guess:  # fmt: skip
    """Return the result of Adam from independent uniform pixels, given the inferred classes."""
    labels = labels_shown(seen)
    given = material_of(seen, labels)
    start = jax.random.uniform(key, (seen.records, seen.answers.shape[1]), jnp.float64)
    last, value = adam(objective, start, given, steps=steps, rate=rate, signed=signed)
    return Guess(np.asarray(last), labels, float(value))
