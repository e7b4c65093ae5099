"""The bound on every record's norm, enforced to the last bit."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from tacit.errors import InputError
from tacit.typing import HostArray, Precision


def row_norms(rows: Float[np.ndarray, "*A M D"]) -> Float[np.ndarray, "*A M"]:
    """Return |x|_2 of every row, computed in float64 without overflow or underflow."""
    wide = np.abs(np.asarray(rows, np.float64))
    largest = wide.max(axis=-1, keepdims=True, initial=0.0)
    scaled = wide / np.where(largest > 0, largest, 1.0)
    norms: HostArray = largest[..., 0] * np.sqrt(np.einsum("...d,...d->...", scaled, scaled))
    return norms


def within_norm(
    rows: Float[np.ndarray, "M D"], record_norm: float, precision: Precision
) -> Float[np.ndarray, "M D"]:
    """Return each row times min(1, R / |x|_2), in `precision`, of norm at most R after rounding.

    **Guarantee.** The true norm is at most R. A float64 norm of D terms is wrong by at most a
    factor 1 + (D/2 + 2) u, u = 2^-53, whatever the order of summation; a row is kept only if its
    computed norm times 1 + 2 (D + 4) u is at most R, so that every other way of computing the
    norm in float64 agrees. Rows with one non-zero cell have an exact norm and need no margin.

    Raises
    ------
    InputError
        If rounding cannot meet R, which happens for bounds near the smallest number only.

    Examples
    --------
    >>> within_norm(np.array([[3.0, 4.0]]), 10.0, "float64")
    array([[3., 4.]])
    """
    stored: HostArray = _shrunk(np.asarray(rows, np.float64), record_norm, 1.0).astype(precision)
    spare = 1 - 2 * float(np.finfo(precision).eps) - 2 * _slack(stored)
    for _ in range(8):
        outside = _upper_norms(stored) > record_norm
        if not outside.any():
            return stored
        exact = stored[outside].astype(np.float64)
        stored[outside] = _shrunk(exact, record_norm, spare).astype(precision)
    raise InputError(f"record_norm {record_norm:g} is too small for {precision}; rescale the data")


def _slack(rows: HostArray) -> float:
    return float((rows.shape[-1] + 4) * np.finfo(np.float64).eps)


def _upper_norms(rows: HostArray) -> HostArray:
    wide = np.asarray(rows, np.float64)
    single = np.count_nonzero(wide, axis=-1) <= 1
    upper: HostArray = np.where(
        single, np.abs(wide).max(axis=-1, initial=0.0), row_norms(wide) * (1 + _slack(wide))
    )
    return upper


def _shrunk(rows: HostArray, record_norm: float, spare: float) -> HostArray:
    norms = row_norms(rows)
    outside = norms > record_norm * spare
    factors = np.divide(record_norm * spare, norms, out=np.ones_like(norms), where=outside)
    shrunk: HostArray = rows * factors[:, None]
    return shrunk
