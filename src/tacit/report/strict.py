"""JSON that every parser reads: no Infinity, no NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def strict(value: Any) -> Any:
    """Return `value` as RFC 8259 allows it.

    Tuples and arrays become lists, NumPy numbers plain ones, and what JSON cannot express becomes
    text: "infinity", "-infinity", "undefined" (not a number), `str(value)` for any other object.

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


def strict_object(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping as a JSON object, its values as `strict` has them."""
    return {key: strict(value) for key, value in values.items()}


def json_text(values: Any) -> str:
    """Return strict values as the text of a file; a value that JSON cannot express raises."""
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _named(value: float) -> str:
    if math.isnan(value):
        return "undefined"
    return "infinity" if value > 0 else "-infinity"
