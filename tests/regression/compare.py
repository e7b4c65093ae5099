"""Whether two recorded outcomes are the same up to rounding."""

from __future__ import annotations

import math
from typing import Any


def differences(old: Any, new: Any, *, tolerance: float, where: str = "") -> list[str]:
    """Return the places where `new` is not `old`; keys that only `new` has are left out."""
    if isinstance(old, dict) and isinstance(new, dict):
        lost = [f"{where}.{key}: gone" for key in old if key not in new]
        return lost + [
            line
            for key in old
            if key in new
            for line in differences(old[key], new[key], tolerance=tolerance, where=f"{where}.{key}")
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [
            line
            for place, (one, other) in pairs
            for line in differences(one, other, tolerance=tolerance, where=f"{where}[{place}]")
        ]
    numbers = isinstance(old, (int, float)) and isinstance(new, (int, float))
    if numbers and not isinstance(old, bool):
        same = math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance)
        return [] if same else [f"{where}: {old!r} is now {new!r}"]
    return [] if old == new else [f"{where}: {old!r} is now {new!r}"]
