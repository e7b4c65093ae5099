"""What a bounds file says about missing cells: how they are spelled, and what they count as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tacit.errors import InputError
from tacit.tables.facts import USUAL_MISSING, Categories, Numeric

INDICATOR = "indicator"
_KEYS = ("as", "spellings", "fill")


class Missing(NamedTuple):
    """What `missing` of a column says.

    Attributes
    ----------
    spellings
        Spellings of an empty cell; None where none are given.
    indicator
        Whether an empty cell is accepted.
    fill
        What it counts as, unchecked; None where it is not given.
    """

    spellings: tuple[str, ...] | None = None
    indicator: bool = False
    fill: Any = None

    @property
    def of_numbers(self) -> tuple[str, ...]:
        """The spellings in a column of numbers: with an indicator alone, the usual ones."""
        if self.spellings is None:
            return USUAL_MISSING if self.indicator else ()
        return self.spellings


def missing_of(value: Any) -> Missing:
    """Return what a value of `missing` says: "indicator", a list of spellings, or both in a table.

    Examples
    --------
    >>> missing_of({"as": "indicator", "spellings": ["NA", -9], "fill": 2})
    Missing(spellings=('NA', '-9'), indicator=True, fill=2)
    >>> missing_of("indicator") == missing_of({"as": "indicator"})
    True
    """
    stated = {"as": value} if isinstance(value, str) else value
    stated = {"spellings": stated} if isinstance(stated, list) else stated
    if not isinstance(stated, dict) or not set(stated) <= set(_KEYS):
        raise InputError(
            'missing must be a list of spellings, "indicator", or both, as in '
            '{as = "indicator", spellings = ["NA"], fill = 0}'
        )
    if stated.get("as", INDICATOR) != INDICATOR:
        raise InputError(
            f'missing is {stated["as"]!r}; write "{INDICATOR}", or a list of spellings in brackets'
        )
    spellings = texts("missing", stated["spellings"]) if "spellings" in stated else None
    return Missing(spellings, "as" in stated, stated.get("fill"))


def missing_to_dict(fact: Numeric | Categories) -> dict[str, Any]:
    """Return the entry `missing` from which `missing_of` reads the same; nothing if it is empty."""
    spellings = list(fact.missing)
    if isinstance(fact, Numeric) and fact.indicator:
        fill = {} if fact.fill is None else {"fill": fact.fill}
        return {"missing": {"as": INDICATOR, "spellings": spellings, **fill}}
    return {"missing": spellings} if spellings else {}


def shortened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a column as a person would write them, with the same meaning."""
    listed, stated = values.get("values"), values.get("missing", {})
    if listed is not None and listed[0] == "" and len(listed) > 1:
        said = {"as": INDICATOR} | ({"spellings": stated} if stated else {})
        return {**values, "values": listed[1:], "missing": said if stated else INDICATOR}
    if listed is None and stated == {"as": INDICATOR, "spellings": list(USUAL_MISSING)}:
        return {**values, "missing": INDICATOR}
    return dict(values)


def texts(what: str, values: Any) -> tuple[str, ...]:
    """Return a list of texts and whole numbers as texts without surrounding blanks."""
    if not isinstance(values, list) or not all(type(value) in (str, int) for value in values):
        raise InputError(f"{what} must be a list of text in quotes or whole numbers")
    return tuple(str(value).strip() for value in values)
