"""Whether the machine adds products of whole numbers exactly, as sums over records rest on it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tacit.errors import PrivacyError
from tacit.problems.memory import own_array

_ROWS, _COLUMNS, _OUTPUTS = 500, 97, 10
_ROW_DIGITS, _WEIGHT_DIGITS = 18, 26


def check_arithmetic() -> None:
    """Raise `PrivacyError` unless matrix products of double precision are exact where they can be.

    Products of 18 by 26 digits, 500 of them in a sum, stay below 2^53: every order of adding them
    gives the same whole number (`tacit.problems.grid`), on a machine that keeps IEEE 754. One that
    multiplies in fewer digits does not, and no certificate holds on it. Looked at before
    every run: JAX's settings can change between two.

    **Guarantee.** The bound |partial sum| <= 2^p 2^q n <= 2^53 holds of every subset of the terms,
    so of every partial sum in every tree of additions: of vector lanes, cores, devices or
    processes. So answers do not depend on how a run is divided. Sums of messages over agents come
    after the noise; those of whole steps, in 64 bits, are exact modulo 2^64 in any order, others
    differ between orders in their last digits, which is post-processing.
    """
    draw = np.random.default_rng(0)
    rows = draw.integers(-(2**_ROW_DIGITS), 2**_ROW_DIGITS, (_ROWS, _COLUMNS))
    one, several = (
        draw.integers(-(2**_WEIGHT_DIGITS), 2**_WEIGHT_DIGITS, shape)
        for shape in ((_ROWS,), (_ROWS, _OUTPUTS))
    )
    point = draw.integers(-(2**_WEIGHT_DIGITS), 2**_WEIGHT_DIGITS, (_COLUMNS,))
    computed = _products(*(own_array(part, np.float64) for part in (rows, one, several, point)))
    truth = (one @ rows, rows.T @ several, rows @ point)
    for ours, exact in zip(computed, truth, strict=True):
        if ours.dtype != jnp.float64 or not np.array_equal(np.asarray(ours), exact):
            raise PrivacyError(
                f"this machine ({jax.default_backend()}) rounds sums of whole numbers below 2^53: "
                "no certificate holds for what it computes; run on a CPU in double precision"
            )


@jax.jit
def _products(
    rows: jax.Array, one: jax.Array, several: jax.Array, point: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    return jnp.matmul(one, rows), jnp.matmul(several.T, rows).T, rows @ point
