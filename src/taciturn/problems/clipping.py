"""Bounds that every sensitivity rests on: norms of records and of a loss's coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn import checks
from taciturn.errors import InputError
from taciturn.problems.losses import Loss
from taciturn.typing import Array, HostArray, Precision, Scalar

# of the sum of squares; squares of 1e-154, which underflow, do not matter beside it
_LEAST_SQUARE = 1e-200


@dataclass(frozen=True)
class PublicScale:
    """Multiply every row by R / `norm`, where `norm` bounds |x|_2 by public knowledge alone.

    A norm measured on the data would make every row a function of all records.
    """

    norm: float

    def __post_init__(self) -> None:
        checks.positive("the public norm", self.norm)


def row_norms(rows: Float[np.ndarray, "*A M D"]) -> Float[np.ndarray, "*A M"]:
    """Return |x|_2 of every row, computed in float64 without overflow or underflow."""
    wide = np.asarray(rows, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("...d,...d->...", wide, wide)
    norms: HostArray = np.sqrt(squares)
    # elsewhere a square that matters may be beyond the range of the type
    beyond = ~((squares > _LEAST_SQUARE) & (squares < 1 / _LEAST_SQUARE))
    sizes = np.abs(wide[beyond])
    largest = sizes.max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(invalid="ignore"):  # an infinite cell has no norm
        scaled = sizes / np.where(largest > 0, largest, 1.0)
    norms[beyond] = largest[..., 0] * np.sqrt(np.einsum("md,md->m", scaled, scaled))
    return norms


def within_norm(
    rows: Float[np.ndarray, "M D"], record_norm: float, precision: Precision
) -> Float[np.ndarray, "M D"]:
    """Return each row times min(1, R / |x|_2), in `precision`, of norm at most R after rounding.

    **Guarantee.** The true norm is at most R. A float64 norm of D terms is wrong by at most a
    factor 1 + (D/2 + 2) u, u = 2^-53, whatever the order of summation; a row is kept only if its
    computed norm times 1 + 2 (D + 4) u is at most R, so that every other way of computing the
    norm in float64 agrees. Rows with one non-zero cell have an exact norm and need no margin. For
    bounds near the smallest or beyond the largest number of the precision, where rounding cannot
    meet R, it raises `InputError`.

    Examples
    --------
    >>> within_norm(np.array([[3.0, 4.0]]), 10.0, "float64")
    array([[3., 4.]])
    """
    shrunk = _shrunk(np.asarray(rows, np.float64), record_norm, 1.0)
    with np.errstate(over="ignore"):  # what is infinite then is refused
        stored: HostArray = shrunk.astype(precision)
    spare = 1 - 2 * float(np.finfo(precision).eps) - 2 * _slack(stored)
    for _ in range(8):
        outside = ~(_upper_norms(stored) <= record_norm)  # a norm that is no number, too
        if not outside.any():
            return stored
        exact = stored[outside].astype(np.float64)
        stored[outside] = _shrunk(exact, record_norm, spare).astype(precision)
    raise InputError(
        f"record_norm {record_norm:g} is out of the range of {precision}; rescale the data"
    )


def _slack(rows: HostArray) -> float:
    return float((rows.shape[-1] + 4) * np.finfo(np.float64).eps)


def _upper_norms(rows: HostArray) -> HostArray:
    wide = np.asarray(rows, np.float64)
    single = np.count_nonzero(wide, axis=-1) <= 1
    upper = row_norms(wide) * (1 + _slack(wide))
    upper[single] = np.abs(wide[single]).max(axis=-1, initial=0.0)
    return upper


def _shrunk(rows: HostArray, record_norm: float, spare: float) -> HostArray:
    norms = row_norms(rows)
    outside = norms > record_norm * spare
    factors = np.divide(record_norm * spare, norms, out=np.ones_like(norms), where=outside)
    shrunk: HostArray = rows * factors[:, None]
    return shrunk


def clip_coefficient(coefficient: Float[Array, "M *K"], bound: Scalar) -> Float[Array, "M *K"]:
    """Return every record's coefficient c scaled into the ball |c|_2 <= bound.

    A scalar, shape `(M,)`, is clipped to [-bound, bound]; a vector, shape `(M, K)`, becomes
    c min(1, bound / |c|_2). A coefficient that is not a number, or a vector with an infinite
    entry, becomes 0. An infinite bound leaves all others as they are.

    **Guarantee.** The true norm of what is returned is at most `bound`, rounding included: the
    bound is rounded down to the type of the coefficient, and a vector is scaled to
    bound (1 - (K + 4) eps), which covers the error of its computed norm, at most (K/2 + 1) eps,
    and of the quotient and the product. Hence a record of norm R moves a sum of gradients
    x c' by at most R bound when it is zeroed and 2 R bound when it is replaced. That holds at every
    query, one that overflows included: without it a record could turn a sum into NaN.

    Examples
    --------
    >>> clip_coefficient(jnp.array([-3.0, 0.5]), 1.0)
    Array([-1. ,  0.5], dtype=float64)
    """
    if coefficient.ndim not in {1, 2}:
        raise InputError(
            f"coefficient has shape {coefficient.shape}; give (M,) or (M, K), one row per record"
        )
    exact = jnp.asarray(bound, jnp.float64)
    limit = exact.astype(coefficient.dtype)
    limit = jnp.where(limit > exact, jnp.nextafter(limit, jnp.zeros_like(limit)), limit)
    if coefficient.ndim == 1:
        clipped = jnp.clip(coefficient, -limit, limit)
        return jnp.where(jnp.isnan(clipped), jnp.zeros_like(clipped), clipped)
    margin = (coefficient.shape[-1] + 4) * float(np.finfo(coefficient.dtype).eps)
    usable = jnp.all(jnp.isfinite(coefficient), axis=-1, keepdims=True)
    coefficient = jnp.where(usable, coefficient, jnp.zeros_like(coefficient))
    norms = jnp.linalg.norm(coefficient, axis=-1, keepdims=True)
    return coefficient * jnp.where(norms > limit * (1 - margin), limit * (1 - margin) / norms, 1)


def default_clip(loss: Loss) -> float:
    """Return the largest norm that a record's coefficient can have at the starting point w = 0.

    As a public bound on coefficients it leaves the first gradient exact, and the noise is as small
    as that allows. For the logistic loss it is 1/2. For the squared loss it is 1, since targets lie
    in [-1, 1] (half the range of the target); where its coefficient z - y is clipped at c, the
    gradient is that of the Huber loss with threshold c.
    """
    start = loss.start_coefficient
    return 1.0 if start is None else start
