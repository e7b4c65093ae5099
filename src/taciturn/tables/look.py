"""What a column of a table looks like: numbers, dates, categories, or nothing that can be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isnan
from typing import TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from taciturn.tables.cells import empty, numbers
from taciturn.tables.dates import USUAL, days
from taciturn.tables.facts import USUAL_MISSING, Categories
from taciturn.tables.form import DECIMALS, THOUSANDS, Form
from taciturn.typing import HostArray

MOST_VALUES = 100
FEW_ROWS = 10  # among fewer, different values say nothing
FEW_NUMBERS = 20  # as many may be labels, or counts that are what they are
_FEW_SPELLINGS, _FEW_TEXTS = 3, 0.2  # of missing cells, among numbers

# what has to be changed in a form, as pairs of name and value
Changes: TypeAlias = tuple[tuple[str, str], ...]


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
    spellings
        Texts among numbers that seem to spell a missing cell, beside the usual ones.
    categories
        The list of values, where there are no numbers and it is not too long.
    left_out
        Why the column cannot be used; empty if it can.
    forms
        In which other forms the cells would be numbers, where they are none in this one.
    remarks
        What is to be looked at.
    """

    texts: pd.Series
    holes: Bool[HostArray, "N"]
    numbers: Float[HostArray, "M"] | None = None
    date: str | None = None
    spellings: tuple[str, ...] = ()
    categories: Categories | None = None
    left_out: str = ""
    forms: tuple[Changes, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def like_id(self) -> bool:
        """Whether all values differ and none has decimals, as those of an id."""
        whole = self.numbers is None or (self.date is None and not np.any(self.numbers % 1))
        return whole and len(self.texts) >= FEW_ROWS and bool(self.texts.is_unique)

    @property
    def constant(self) -> bool:
        """Whether every cell says the same, of a table of ten rows or more."""
        return len(self.holes) >= FEW_ROWS and not self.holes.any() and self.texts.nunique() == 1

    @property
    def many_numbers(self) -> bool:
        """Whether there are numbers, no dates, and more than a few different ones."""
        return self.numbers is not None and self.date is None and self.texts.nunique() > FEW_NUMBERS

    @property
    def low(self) -> bool:
        """Whether half of the numbers lie in the lowest tenth of their range, and none below 0."""
        if self.numbers is None:
            return False
        least, middle, most = np.quantile(self.numbers, [0, 0.5, 1])
        return bool(least >= 0 and 10 * (middle - least) < most - least)

    @property
    def skewed(self) -> bool:
        """Whether 19 of 20 numbers lie in the lowest, or in the highest, tenth of their range."""
        if self.numbers is None or not self.many_numbers:
            return False
        least, low, high, most = np.quantile(self.numbers, [0, 0.05, 0.95, 1])
        return bool(10 * (high - least) < most - least or 10 * (most - low) < most - least)


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
    further = _further_spellings(texts[bad & ~spelled], len(texts))
    if not bad.all() and further is not None:
        said = ("texts among the numbers count as missing; check their spellings",)
        found = Look(texts=texts[~bad], holes=_also(holes, bad), numbers=values[~bad])
        return replace(found, spellings=further, remarks=said) if further else found
    dated = texts[~spelled]
    dates = _dates(dated) if len(dated) else []
    if dates:
        parsed = numbers(dated, name, form, dates[0])
        remarks = [f"dates as days since 1970-01-01, read as {dates[0]}"]
        remarks += [f"they could also be read as {other}; check" for other in dates[1:]]
        found = Look(texts=dated, holes=_also(holes, spelled), numbers=parsed, date=dates[0])
        return replace(found, remarks=tuple(remarks))
    return _text(texts, holes, bad & ~spelled, form)


def _further_spellings(texts: pd.Series, rows: int) -> tuple[str, ...] | None:
    """Return texts among numbers that seem to spell a missing cell; None if they do not.

    Such a spelling has no digit, unlike 90+, and occurs twice at least, unlike a slip.
    """
    counts = texts.str.casefold().value_counts()
    if counts.empty:
        return ()
    few = len(counts) <= _FEW_SPELLINGS and counts.min() >= 2 and len(texts) <= _FEW_TEXTS * rows
    if not few or any(_digits(text) for text in counts.index):
        return None
    return tuple(sorted(counts.index))


def _digits(text: str) -> bool:
    return any(map(str.isdigit, text))


def _also(holes: Bool[HostArray, "N"], rest: Bool[HostArray, "M"]) -> Bool[HostArray, "N"]:
    """Return the holes, and those among the rest of the cells."""
    both = holes.copy()
    both[~holes] = rest
    return both


def _text(
    texts: pd.Series, holes: Bool[HostArray, "N"], bad: Bool[HostArray, "M"], form: Form
) -> Look:
    forms = _other_forms(texts, form)
    why = another_form(forms) or _slips(bad)
    listed = _categories(texts)
    if not why and len(listed.values) > MOST_VALUES:
        count = len(listed.values)
        why = f"it has {count:,} different texts, and at most {MOST_VALUES} can be listed"
        if texts.is_unique:
            why = f"all its {count:,} texts are different, as in an id or in free text"
    if why:
        return Look(texts=texts, holes=holes, left_out=why, forms=forms)
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


def another_form(forms: Sequence[Changes]) -> str:
    """Return what to say of numbers that other forms would read; nothing if none would."""
    if not forms:
        return ""
    fewest = min(map(len, forms))
    best = [changes for changes in forms if len(changes) == fewest]
    # of two changes the usual ones: there is no short list of all
    shown = [_options(changes) for changes in (best if fewest == 1 else best[:1])]
    return f"it looks like numbers in another form: add {' or '.join(shown)}"


def _options(changes: Changes) -> str:
    said = " ".join(f"--{name} '{mark}'" for name, mark in changes)
    return said.replace("'''", '"\'"')


def _slips(bad: Bool[HostArray, "M"]) -> str:
    """Return why numbers with a few texts among them are not read as such; empty if they are not.

    Parameters
    ----------
    bad
        Which cells are no number, and not spelled as missing ones usually are.
    """
    if bad.mean() > 0.05:
        return ""
    return (
        f"it has numbers but for {int(bad.sum()):,} cells; mend them, drop these rows, or give min "
        "and max and name what they say under missing"
    )


def _other_forms(texts: pd.Series, form: Form) -> tuple[Changes, ...]:
    """Return the changes of the form with which the texts are numbers, missing cells apart."""
    distinct = texts[~_like_missing(texts)].unique()
    written = [text for text in distinct if _digits(text)]
    words = int(texts.isin(distinct).sum() - texts.isin(written).sum())
    if words > _FEW_TEXTS * len(texts) or all(map(form.reader(), written)):
        return ()
    found = []
    for decimal, thousands in product(DECIMALS, THOUSANDS):
        wanted = {"decimal": decimal, "thousands": thousands}
        changes = tuple((k, v) for k, v in wanted.items() if v != getattr(form, k))
        if decimal != thousands and changes:
            read = form.changed(dict(changes)).reader()
            found += [changes] if all(map(read, written)) else []
    return tuple(found)


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
    found = (tidy(text) for _, text in chosen.values())
    values = tuple(sorted(found, key=lambda text: (text.casefold(), text)))  # no before Yes
    return Categories(values, way.fold_case, way.strip)
