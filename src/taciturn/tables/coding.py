"""What a bounds file says about how a column is encoded: its scale, bins, centre and weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from taciturn.errors import InputError
from taciturn.tables.dates import number_of
from taciturn.tables.facts import UNIFORM, Categories, Numeric, Scale

CODING_OF_NUMBERS = frozenset({"scale", "bins", "centre", "weight"})
CODING_OF_TEXT = frozenset({"centre", "weight"})


def numbers_coding(values: Mapping[str, Any], *, dated: bool) -> dict[str, Any]:
    """Return the fields of `Numeric` that a column states.

    Examples
    --------
    >>> numbers_coding({"scale": "log", "bins": [1, 5, 20]}, dated=False)
    {'scale': 'log', 'bins': (1.0, 5.0, 20.0)}
    """
    found: dict[str, Any] = {}
    if "scale" in values:
        if values["scale"] not in get_args(Scale):
            raise InputError('scale must be "linear" or "log"')
        found["scale"] = values["scale"]
    if "bins" in values:
        found["bins"] = _bins(values["bins"], dated=dated)
    if "centre" in values:
        what = "centre of a range must be a number"
        found["centre"] = number_of(values["centre"], what, dated=dated)
    return found | _weight(values)


def text_coding(values: Mapping[str, Any], listed: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of `Categories` that a column with these values states."""
    found = _weight(values)
    if "centre" not in values:
        return found
    centre = values["centre"]
    if centre == UNIFORM:
        return found | {"centre": centre}
    if not isinstance(centre, dict):
        raise InputError(
            f'centre of a list must be "{UNIFORM}", or the public share of each value, as in '
            "{ yes = 0.3, no = 0.7 }"
        )
    unknown = sorted(set(centre) - set(listed))
    if unknown:
        raise InputError(
            f"centre has {unknown[0]!r}, which is not one of values; spell it as it is there"
        )
    shares = (
        number_of(centre.get(value, 0), "shares in centre must be numbers") for value in listed
    )
    return found | {"centre": tuple(shares)}


def coding_to_dict(fact: Numeric | Categories) -> dict[str, Any]:
    """Return the entries from which the same fields are read; none for those not given."""
    said: dict[str, Any] = {}
    if isinstance(fact, Numeric):
        said |= {} if fact.scale == "linear" else {"scale": fact.scale}
        bins = list(fact.bins) if isinstance(fact.bins, tuple) else fact.bins
        said |= {} if bins is None else {"bins": bins}
    centre: Any = fact.centre
    if isinstance(fact, Categories) and isinstance(centre, tuple):
        pairs = zip(fact.values, centre, strict=True)
        centre = {value: share for value, share in pairs if share}
    said |= {} if centre is None else {"centre": centre}
    return said | ({} if fact.weight == 1 else {"weight": fact.weight})


def _bins(value: Any, *, dated: bool) -> int | tuple[float, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, list):
        raise InputError(
            "bins must be a whole number, or inner edges in brackets, as in bins = [1, 5, 20]"
        )
    return tuple(number_of(edge, "edges in bins must be numbers", dated=dated) for edge in value)


def _weight(values: Mapping[str, Any]) -> dict[str, float]:
    if "weight" not in values:
        return {}
    return {"weight": number_of(values["weight"], "weight must be a number")}
