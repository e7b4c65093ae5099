"""Modules and arrays as plain values, for plans as JSON."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tacit.typing import HostArray

MOST_WRITTEN = 10_000


def describe(module: Any) -> Any:
    """Return a module as nested JSON-safe values: its class name and its fields.

    Fields without `repr` (the set-up of a solver) are left out. Arrays of more than `MOST_WRITTEN`
    numbers are given by shape, type and digest.
    """
    if isinstance(module, eqx.Module):
        shown = [f.name for f in dataclasses.fields(module) if f.repr]
        fields = {name: describe(getattr(module, name)) for name in shown}
        return {"class": type(module).__name__, **fields}
    if isinstance(module, (np.ndarray, np.generic, jax.Array)):
        return _array(np.asarray(module))
    if isinstance(module, tuple):
        return [describe(part) for part in module]
    return module


def _array(values: HostArray) -> Any:
    if values.size <= MOST_WRITTEN:
        return values.tolist()
    content = np.ascontiguousarray(values).tobytes()
    return {
        "shape": list(values.shape),
        "type": str(values.dtype),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def compact(values: HostArray) -> Any:
    """Return nested lists, with one number for an array that is constant."""
    first = values.flat[0]
    return float(first) if np.all(values == first) else values.tolist()
