"""Whether two recorded outcomes are the same up to rounding."""

from __future__ import annotations

import math
from typing import Any

# what theory says of a run: computed in double precision, so the same on every machine
CERTIFIED = frozenset({
    "epsilon", "delta", "mu", "multiplier", "per_agent_epsilon", "per_agent_mu", "record_norm",
    "gradient_bound", "noise", "margin_noise", "proven", "rule", "floor", "claimed_mu",
    "attacker_tpr", "rounds", "agents", "records", "coordinates", "runs", "confidence",
})  # fmt: skip
CERTIFIED_TOLERANCE = 1e-6
# models, errors and statistics of runs: other machines and compilers sum in another order; a
# residual is a difference of some numbers of order one, each rounded by 6e-8 in single precision.
# A list is compared as a vector: an entry to the size of the largest
MEASURED_TOLERANCE, ROUNDING = 1e-4, 1e-6


def differences(
    old: Any, new: Any, *, where: str = "", certified: bool = False, largest: float = 0.0
) -> list[str]:
    """Return the places where `new` is not `old`; keys and warnings of `new` alone are left out."""
    if isinstance(old, dict) and isinstance(new, dict):
        lost = [f"{where}.{key}: gone" for key in old if key not in new]
        return lost + [
            line
            for key in old
            if key in new
            for line in differences(
                old[key], new[key], where=f"{where}.{key}", certified=key in CERTIFIED
            )
        ]
    if where.endswith(".warnings"):
        return [f"{where}: {text!r} is gone" for text in old if text not in new]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        size = max([largest, *(abs(one) for one in old if _is_number(one))])
        return [
            line
            for place, (one, other) in pairs
            for line in differences(
                one, other, where=f"{where}[{place}]", certified=certified, largest=size
            )
        ]
    return [] if _same(old, new, certified, largest) else [f"{where}: {old!r} is now {new!r}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _same(old: Any, new: Any, certified: bool, largest: float) -> bool:
    if not (_is_number(old) and _is_number(new)):
        return bool(old == new)
    if certified:
        return math.isclose(old, new, rel_tol=CERTIFIED_TOLERANCE, abs_tol=0.0)
    small = max(ROUNDING, MEASURED_TOLERANCE * largest)
    return math.isclose(old, new, rel_tol=MEASURED_TOLERANCE, abs_tol=small)
