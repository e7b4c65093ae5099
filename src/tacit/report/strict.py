"""JSON that every parser reads: no Infinity, no NaN."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np


def strict(value: Any) -> Any:
    """Return `value` as what RFC 8259 allows.

    Tuples become lists, arrays nested lists, numbers of NumPy plain ones; what JSON cannot say
    becomes text: "infinity", "-infinity", "undefined" (not a number), and `str(value)` for any
    other object.

    Examples
    --------
    >>> strict({"epsilon": float("inf"), "curve": np.array([0.5, np.nan])})
    {'epsilon': 'infinity', 'curve': [0.5, 'undefined']}
    """
    if isinstance(value, dict):
        return {str(key): strict(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(entry) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return _named(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def json_text(values: Any) -> str:
    """Return strict values as the text of a file; anything else that JSON cannot say raises."""
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _named(value: float) -> str:
    if math.isnan(value):
        return "undefined"
    return "infinity" if value > 0 else "-infinity"
