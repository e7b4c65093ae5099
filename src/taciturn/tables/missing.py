"""What a bounds file says about missing cells: how they are spelled, and what they count as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from taciturn.errors import InputError
from taciturn.tables.facts import USUAL_MISSING, Categories, Numeric

INDICATOR, FILL = "indicator", "fill"
_KEYS = ("as", "spellings", "fill")


class Missing(NamedTuple):
    """What `missing` of a column says.

    Attributes
    ----------
    spellings
        Spellings of an empty cell; None where none are given.
    treated
        "indicator" or "fill", if an empty cell is accepted; None if it is an error.
    fill
        What it counts as, unchecked; None where it is not given.
    """

    spellings: tuple[str, ...] | None = None
    treated: str | None = None
    fill: Any = None

    @property
    def of_numbers(self) -> tuple[str, ...]:
        """The spellings in a column of numbers: where none are given, the usual ones."""
        if self.spellings is None:
            return USUAL_MISSING if self.treated else ()
        return self.spellings


def missing_of(value: Any) -> Missing:
    """Return what a value of `missing` says: a word, a list of spellings, or both in a table.

    Examples
    --------
    >>> missing_of({"as": "indicator", "spellings": ["NA", -9], "fill": 2})
    Missing(spellings=('NA', '-9'), treated='indicator', fill=2)
    >>> missing_of("indicator") == missing_of({"as": "indicator"})
    True
    """
    stated = {"as": value} if isinstance(value, str) else value
    stated = {"spellings": stated} if isinstance(stated, list) else stated
    if not isinstance(stated, dict) or not set(stated) <= set(_KEYS):
        raise InputError(
            'missing must be a list of spellings, "indicator", "fill", or several, as in '
            '{as = "indicator", spellings = ["NA"], fill = 0}'
        )
    treated = stated.get("as")
    if treated not in (None, INDICATOR, FILL):
        raise InputError(
            f'missing is {treated!r}; write "{INDICATOR}", "{FILL}", or a list of spellings in '
            "brackets"
        )
    if treated is None and "fill" in stated:
        raise InputError(
            f'fill is given without as; add as = "{FILL}", or as = "{INDICATOR}" for a further '
            "column that says which cells are missing"
        )
    spellings = texts("missing", stated["spellings"]) if "spellings" in stated else None
    return Missing(spellings, treated, stated.get("fill"))


def missing_to_dict(fact: Numeric | Categories) -> dict[str, Any]:
    """Return the entry `missing` from which `missing_of` reads the same; nothing if it is empty."""
    spellings = list(fact.missing)
    if isinstance(fact, Numeric) and fact.accepts_missing:
        treated = INDICATOR if fact.indicator else FILL
        fill = {} if fact.fill is None else {"fill": fact.fill}
        return {"missing": {"as": treated, "spellings": spellings, **fill}}
    return {"missing": spellings} if spellings else {}


def shortened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a column as a person would write them, with the same meaning."""
    listed, stated = values.get("values"), values.get("missing")
    if listed is not None and listed[0] == "" and len(listed) > 1:
        said = {"as": INDICATOR} | ({"spellings": stated} if stated else {})
        return {**values, "values": listed[1:], "missing": said if stated else INDICATOR}
    if listed is not None or not isinstance(stated, dict):
        return dict(values)
    said = {k: v for k, v in stated.items() if (k, v) != ("spellings", list(USUAL_MISSING))}
    return {**values, "missing": INDICATOR if said == {"as": INDICATOR} else said}


def texts(what: str, values: Any) -> tuple[str, ...]:
    """Return a list of texts and whole numbers as texts without surrounding blanks."""
    if not isinstance(values, list) or not all(type(value) in (str, int) for value in values):
        raise InputError(f"{what} must be a list of text in quotes or whole numbers")
    return tuple(str(value).strip() for value in values)
