"""Deep leakage from gradients (Zhu, Liu, Han 2019): records and classes by gradient matching."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from taciturn.checks import at_least
from taciturn.typing import Array, HostArray, Key
from taciturn_papers.attacks.matching import Guess, Material, gradients, material_of
from taciturn_papers.attacks.seen import Seen


def dlg(seen: Seen, key: Key, *, restarts: int, steps: int) -> Guess:
    """Return the records whose gradients match the answers best, found by L-BFGS.

    Records X and the logits of their classes are searched together, as published:

        min_{X, Z} sum_q |G(X, softmax(Z); W_q) - answer_q|_F^2,

    from independent pixels, uniform on [0, 1] (pictures have no negative pixels, which everybody
    knows), and standard normal Z. Of `restarts` searches the one of the least objective is kept,
    which an eavesdropper can tell.
    """
    at_least("restarts", restarts, 1)
    at_least("steps", steps, 1)
    given = material_of(seen, np.zeros(seen.records, np.int64))
    guesses = [_once(given, one, steps) for one in jax.random.split(key, restarts)]
    return min(guesses, key=lambda guess: guess.objective)


def _once(given: Material, key: Key, steps: int) -> Guess:
    records, (_, dimension, classes) = len(given.classes), given.answers.shape
    split = records * dimension

    def sides(flat: HostArray) -> tuple[HostArray, HostArray]:
        return flat[:split].reshape(records, dimension), flat[split:].reshape(records, classes)

    def value_and_slope(flat: HostArray) -> tuple[float, HostArray]:
        records_and_logits = tuple(map(jnp.asarray, sides(flat)))
        value, slopes = _compiled(records_and_logits, given)
        return float(value), np.concatenate([np.ravel(slope) for slope in slopes])

    pixels, logits = jax.random.split(key)
    start = np.concatenate([
        jax.random.uniform(pixels, (split,), jnp.float64),
        jax.random.normal(logits, (records * classes,), jnp.float64),
    ])  # fmt: skip
    done = minimize(
        value_and_slope, start, jac=True, method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 0.0, "gtol": 1e-12},
    )  # fmt: skip
    found, logits = sides(done.x)
    return Guess(found, np.argmax(logits, axis=1), float(done.fun))


def _mismatch(sides: tuple[Array, Array], given: Material) -> Array:
    records, logits = sides
    gap = gradients(records, jax.nn.softmax(logits), given) - given.answers
    return jnp.sum(gap**2)


@jax.jit
def _compiled(sides: tuple[Array, Array], given: Material) -> tuple[Array, tuple[Array, Array]]:
    return jax.value_and_grad(_mismatch)(sides, given)
