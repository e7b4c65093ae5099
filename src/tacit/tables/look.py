"""What a column of a table looks like: numbers, dates, categories, or nothing that can be used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from math import isnan

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from tacit.tables.cells import empty, numbers
from tacit.tables.dates import USUAL, days
from tacit.tables.facts import USUAL_MISSING, Categories
from tacit.tables.form import DECIMALS, THOUSANDS, Form
from tacit.typing import HostArray

MOST_VALUES = 100
FEW_ROWS = 10  # among fewer, different values say nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """What is seen in the cells of a column.

    Attributes
    ----------
    texts
        The cells that are not empty.
    holes
        Which cells are empty, or look so among numbers and dates.
    numbers
        The filled cells as numbers, dates as days since 1970-01-01; None if they are neither.
    date
        How dates are written.
    categories
        The list of values, where there are no numbers and it is not too long.
    left_out
        Why the column cannot be used; empty if it can.
    remarks
        What is to be looked at.
    """

    texts: pd.Series
    holes: Bool[HostArray, "N"]
    numbers: Float[HostArray, "M"] | None = None
    date: str | None = None
    categories: Categories | None = None
    left_out: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def like_id(self) -> bool:
        """Whether all values differ and none has decimals, as those of an id."""
        whole = self.numbers is None or (self.date is None and not np.any(self.numbers % 1))
        return whole and len(self.texts) >= FEW_ROWS and bool(self.texts.is_unique)


def look(cells: pd.Series, name: str, form: Form) -> Look:
    """Return what a column looks like."""
    holes = empty(cells)
    texts = cells[~holes].map(str)
    if texts.empty:
        return Look(texts=texts, holes=holes, left_out="every cell is empty")
    values = numbers(cells[~holes], name, form)
    bad = np.isnan(values)
    if np.isinf(values).any() and bad.mean() <= 0.5:
        return Look(texts=texts, holes=holes, numbers=values)  # refused where it is used
    spelled = _like_missing(texts).to_numpy(np.bool_)
    if not bad.all() and spelled[bad].all():
        return Look(texts=texts[~bad], holes=_also(holes, bad), numbers=values[~bad])
    dated = texts[~spelled]
    dates = _dates(dated) if len(dated) else []
    if dates:
        parsed = numbers(dated, name, form, dates[0])
        remarks = [f"dates as days since 1970-01-01, read as {dates[0]}"]
        remarks += [f"they could also be read as {other}; check" for other in dates[1:]]
        found = Look(texts=dated, holes=_also(holes, spelled), numbers=parsed, date=dates[0])
        return replace(found, remarks=tuple(remarks))
    return _text(texts, holes, bad, form)


def _also(holes: Bool[HostArray, "N"], rest: Bool[HostArray, "M"]) -> Bool[HostArray, "N"]:
    """Return the holes, and those among the rest of the cells."""
    both = holes.copy()
    both[~holes] = rest
    return both


def _text(
    texts: pd.Series, holes: Bool[HostArray, "N"], bad: Bool[HostArray, "M"], form: Form
) -> Look:
    why = _numbers_in_disguise(texts, bad, form)
    listed = _categories(texts)
    if not why and len(listed.values) > MOST_VALUES:
        count = len(listed.values)
        why = f"it has {count:,} different texts, and at most {MOST_VALUES} can be listed"
        if texts.is_unique:
            why = f"all its {count:,} texts are different, as in an id or in free text"
    if why:
        return Look(texts=texts, holes=holes, left_out=why)
    remarks = []
    if listed.fold_case or listed.strip:
        flags = [name for name in ("fold_case", "strip") if getattr(listed, name)]
        remarks.append(
            "some values differ only by "
            + " and ".join({"fold_case": "case", "strip": "white space"}[flag] for flag in flags)
            + f"; they count as one with {' and '.join(flags)}"
        )
    if _like_missing(texts).any():
        remarks.append(
            "a value looks like a missing cell; if it is one, list it under missing instead, as in "
            'missing = {as = "indicator", spellings = ["NA"]}'
        )
    return Look(texts=texts, holes=holes, categories=listed, remarks=tuple(remarks))


def _like_missing(texts: pd.Series) -> pd.Series:
    return texts.str.casefold().isin(USUAL_MISSING)


def _dates(texts: pd.Series) -> list[str]:
    """Return the usual patterns in which every text is a date."""
    distinct = texts.unique()
    return [p for p in USUAL if all(not isnan(days(text, p)) for text in distinct)]


def _numbers_in_disguise(texts: pd.Series, bad: Bool[HostArray, "M"], form: Form) -> str:
    """Return why texts that hold numbers are not read as such; empty if they hold none."""
    options = _other_forms(texts.unique(), form)
    if options:
        return f"it looks like numbers in another form: add {' or '.join(options)}"
    if bad.mean() <= 0.05:
        return f"it has numbers but for {int(bad.sum()):,} cells; mend them, or drop these rows"
    return ""


def _other_forms(texts: Iterable[str], form: Form) -> list[str]:
    """Return the options with which all texts are numbers, those with the fewest changes."""
    found: dict[int, list[str]] = {}
    for decimal, thousands in product(DECIMALS, THOUSANDS):
        changes = {"decimal": decimal, "thousands": thousands}
        changes = {k: v for k, v in changes.items() if v != getattr(form, k)}
        if decimal == thousands or not changes or (len(changes) in found and len(changes) > 1):
            continue
        read = form.changed(changes).reader()
        if all(map(read, texts)):
            said = " ".join(f"--{name} '{mark}'" for name, mark in changes.items())
            found.setdefault(len(changes), []).append(said.replace("'''", '"\'"'))
    return found[min(found)] if found else []


def _categories(texts: pd.Series) -> Categories:
    """Return the list of texts, of those that differ by case or white space the most frequent."""
    counts = texts.value_counts()
    # the first that leaves the fewest
    ways = [Categories(("",), fold, strip) for strip, fold in product((False, True), repeat=2)]
    spellings = [list(map(way.compared, counts.index)) for way in ways]
    way, keys = min(zip(ways, spellings, strict=True), key=lambda pair: len(set(pair[1])))
    chosen: dict[str, tuple[int, str]] = {}
    for key, text, count in zip(keys, counts.index, counts, strict=True):
        best = chosen.get(key)
        if best is None or (-count, text) < best:
            chosen[key] = (-count, text)
    tidy = Categories(("",), strip=way.strip).compared
    values = tuple(sorted(tidy(text) for _, text in chosen.values()))
    return Categories(values, way.fold_case, way.strip)
