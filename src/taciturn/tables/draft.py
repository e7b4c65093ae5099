"""Bounds drafted from the data: a file to start from, not a public fact."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from taciturn.errors import InputError, reraise_clean
from taciturn.tables.bounds import Bounds, Notes, is_ignored
from taciturn.tables.cells import check_filled, empty, numbers
from taciturn.tables.columns import USUAL_MISSING, Categories, Column, Numeric, whole_text
from taciturn.tables.form import DECIMALS, THOUSANDS, USUAL_DATES, Form, days
from taciturn.tables.read import HEADER_FIRST
from taciturn.typing import HostArray

MOST_VALUES = 100  # in a list
MOST_LABELS = 20  # of a target of numbers
FEW_ROWS = 10  # with fewer rows, distinct values do not indicate an id
FEW_NUMBERS = 20  # up to so many different numbers no bins are proposed
FEW_CODES = range(3, 11)  # so many different whole numbers are taken as codes
SURE_ROWS = 50  # with so many rows, whole numbers that all differ are no measurements
PROPOSED_BINS = 10
_FEW_SPELLINGS, _FEW_TEXTS = 3, 0.2  # of missing cells, among numbers
_USUAL = Form()
# words in names of columns, in lower case between underscores
_STEMS = "patient|pat|subject|subj|usubj|person|record|study|case|participant|member|user|row"
_IDENTIFIER = re.compile(
    rf"(?:^|_)(?:id|ids|uid|uuid|guid|mrn|ssn|unnamed_0|(?:{_STEMS}|encounter|visit|stay|hadm)_?id"
    rf"|(?:{_STEMS}|chart)_?(?:no|nr|num|number))(?:_|$)"
)
_DATE = re.compile(
    r"(?:^|_)(?:date|dates|dob|dod|datetime|timestamp|birthday|dt|dtc|dtm"
    r"|(?:birth|death|visit|admission|discharge|diagnosis|start|end|event)date)(?:_|$)"
)
_CODE = re.compile(
    r"(?:^|_)(?:code|codes|cd|zip|zipcode|postcode|postal|plz|icd\w*|cpt|drg|atc|loinc|snomed|naics"
    r"|fips)(?:_|$)"
)

# changes of a form, as pairs of name and value
Changes: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Draft:
    """Bounds computed from a table, and notes on its columns."""

    bounds: Bounds
    notes: Notes


def draft_from(
    frame: pd.DataFrame, target: str, *, ignored: tuple[str, ...] = (), form: Form = _USUAL
) -> Draft:
    """Return bounds with the ranges and lists of values that occur in the table, and notes.

    A column of numbers or dates gets its least and largest value, any other the list of its values,
    in which spellings that differ by case or white space alone are merged. A column with missing
    cells gets an indicator. Text with more than 100 different values and numbers in another form
    are left out; the notes say why. A numeric target with more than 20 different values is a
    regression target, any other has labels. The notes propose bins for columns of many numbers, and
    the logarithm where half of them lie in the lowest tenth of their range; the bounds have
    neither.

    **Guarantee.** None: the result is a function of all records. Its origin is "data", which makes
    every certificate that rests on it conditional.
    """
    for name in (target, *ignored):
        if not any(is_ignored(column, (name,)) for column in frame.columns):
            raise InputError(
                f"the table has no column {name!r} among its {len(frame.columns)}; {HEADER_FIRST}"
            )
    rest = (name for name in frame.columns if name != target and not is_ignored(name, ignored))
    names = [target, *rest]
    profiles = _name_shared_form({name: _profile(frame[name], name, form) for name in names})
    profiles |= {name: _judged(profiles[name], name) for name in names if name != target}
    left_out = {name: profile.left_out for name, profile in profiles.items() if profile.left_out}
    used = [name for name in names if name not in left_out or name == target]
    check_filled({target: profiles[target].holes}, ": a record without a target cannot be used")
    for name in used:
        values = profiles[name].numbers
        if values is not None and np.isinf(values).any():
            what = "is infinite; drop such rows or fill them in"
            raise InputError(f"column {name!r}, row {np.argmax(np.isinf(values)) + 1} {what}")
    aim = _target(profiles[target], target)
    columns = {name: _column(profiles[name], f"column {name!r}") for name in used if name != target}
    remarks = {k: r for k in used if (r := _remarks(profiles[k], is_target=k == target))}
    proposals = {k: p for k in columns if (p := _proposals(profiles[k]))}
    notes = Notes(left_out, remarks, proposals)
    return Draft(Bounds("data", target, aim, columns, (*ignored, *left_out), form), notes)


def range_of(numbers: np.ndarray, what: str) -> Numeric:
    """Return the range that numbers span, widened if they are all equal; not a public fact.

    If it is no range of `Numeric`, the error names `what`, and no number.
    """
    least, most = float(numbers.min()), float(numbers.max())
    # a constant column still needs a range of some width
    most = most if most > least else least + max(1.0, abs(least))
    refusal = InputError(
        f"the values of {what} span no range that can be computed with: they are too large, or too "
        "close together beside their size; state a public range, or subtract a public constant"
    )
    return reraise_clean(lambda: Numeric(least, most), InputError, lambda _: refusal)


@dataclass(frozen=True, eq=False)
class _Profile:
    """Statistics of the cells of a column.

    - `texts`: the cells that are not empty.
    - `holes`: which cells are missing.
    - `numbers`: the other cells as numbers, dates as days since 1970-01-01; None for text.
    - `date`: the pattern of dates.
    - `spellings`: texts among numbers that seem to spell a missing cell, beside the usual ones.
    - `categories`: the list of values of text, if it is not too long.
    - `left_out`: why the column cannot be used; empty if it can.
    - `forms`: changes of the form under which the texts would be numbers.
    """

    texts: pd.Series
    holes: Bool[HostArray, "N"]
    numbers: Float[HostArray, "M"] | None = None
    date: str | None = None
    spellings: tuple[str, ...] = ()
    categories: Categories | None = None
    left_out: str = ""
    forms: tuple[Changes, ...] = ()
    remarks: Sequence[str] = ()

    @property
    def like_id(self) -> bool:
        """Whether all values differ and none has decimals."""
        whole = self.numbers is None or (self.date is None and not np.any(self.numbers % 1))
        return whole and len(self.texts) >= FEW_ROWS and bool(self.texts.is_unique)

    @property
    def surely_id(self) -> bool:
        """Whether the values are those of an id: texts, many, or in a row as 1, 2, 3."""
        if not self.like_id:
            return False
        if self.numbers is None or len(self.texts) >= SURE_ROWS:
            return True
        return float(np.ptp(self.numbers)) == len(self.numbers) - 1

    @property
    def ordered_texts(self) -> tuple[str, ...]:
        """The different texts of a column of numbers in increasing order, 1.0 as 1."""
        assert self.numbers is not None
        whole = [text for text in map(whole_text, self.texts) if text is not None]
        texts = whole if len(whole) == len(self.texts) else self.texts
        size = dict(zip(texts, self.numbers.tolist(), strict=True))
        return tuple(sorted(size, key=size.__getitem__))

    @property
    def many_numbers(self) -> bool:
        """Whether there are more than a few different numbers, and no dates."""
        return self.numbers is not None and self.date is None and self.texts.nunique() > FEW_NUMBERS


def _profile(cells: pd.Series, name: str, form: Form) -> _Profile:
    holes = empty(cells)
    texts = cells[~holes].map(str)
    if texts.empty:
        return _Profile(texts, holes, left_out="every cell is empty")
    values = numbers(cells[~holes], name, form)
    bad = np.isnan(values)
    if np.isinf(values).any() and bad.mean() <= 0.5:
        return _Profile(texts, holes, values)  # refused where it is used
    # numbers, if every other text is a spelling of a missing cell
    usual = _like_missing(texts).to_numpy(np.bool_)
    spellings = _further_spellings(texts[bad & ~usual], len(texts))
    if not bad.all() and spellings is not None:
        remarks = ["texts among the numbers count as missing; check their spellings"]
        found = _Profile(texts[~bad], _with_missing(holes, bad), values[~bad])
        return replace(found, spellings=spellings, remarks=remarks if spellings else ())
    # dates, if one usual pattern reads them all
    dated = texts[~usual]
    distinct = dated.unique()
    dates = [p for p in USUAL_DATES if all(not math.isnan(days(text, p)) for text in distinct)]
    if len(dated) and dates:
        remarks = [f"dates as days since 1970-01-01, read as {dates[0]}"]
        remarks += [f"they could also be read as {other}; check" for other in dates[1:]]
        values = numbers(dated, name, form, dates[0])
        return _Profile(dated, _with_missing(holes, usual), values, dates[0], remarks=remarks)
    return _text_profile(texts, holes, bad & ~usual, form)


def _judged(profile: _Profile, name: str) -> _Profile:
    """Return the profile of a column to predict from: ids and dates left out, codes listed."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", "_", name).lower()
    infinite = profile.numbers is not None and np.isinf(profile.numbers).any()
    if profile.left_out or infinite:  # which is refused
        return profile
    if _IDENTIFIER.search(words):
        return replace(profile, left_out="its name is that of an identifier")
    if profile.date is not None:
        why = "it has dates, which identify persons and seldom predict as numbers of days"
        how = f'to learn from them, give min, max and date = "{profile.date}"'
        return replace(profile, left_out="; ".join((why, how, *profile.remarks[1:])))
    if _DATE.search(words):
        return replace(profile, left_out="its name is that of a date")
    if profile.surely_id:
        return replace(profile, left_out="all its values are different, as in an id")
    return profile if profile.numbers is None else _coded(profile, named=bool(_CODE.search(words)))


def _coded(profile: _Profile, *, named: bool) -> _Profile:
    """Return a column of numbers with a list of values if they are codes; `named` as such."""
    assert profile.numbers is not None
    values = profile.ordered_texts
    few = len(values) in FEW_CODES and len(profile.texts) >= FEW_ROWS * len(values)
    if not named and not (few and not np.any(profile.numbers % 1)):
        return profile
    if len(values) > MOST_VALUES:
        why = f"its name is that of a code, of which it has {len(values):,}"
        return replace(profile, left_out=f"{why}; group them into at most {MOST_VALUES} values")
    missing = (*USUAL_MISSING, *profile.spellings) if profile.holes.any() else ()
    listed = Categories(values, fold_case=bool(missing), missing=missing)
    remark = "numbers taken as codes; if they are amounts or an order, give min and max, not values"
    return replace(profile, categories=listed, remarks=(*profile.remarks, remark))


def _text_profile(
    texts: pd.Series, holes: Bool[HostArray, "N"], bad: Bool[HostArray, "M"], form: Form
) -> _Profile:
    """Return the profile of texts; `bad` marks those that are neither numbers nor missing."""
    forms, listed = _other_forms(texts, form), _categories(texts)
    why, count = _form_advice(forms), len(listed.values)
    if not why and bad.mean() <= 0.05:
        why = (
            f"it has numbers but for {int(bad.sum()):,} cells; mend them, drop these rows, or give "
            "min and max and list these texts under missing"
        )
    elif not why and count > MOST_VALUES:
        why = f"it has {count:,} different texts, and at most {MOST_VALUES} can be listed"
        if texts.is_unique:
            why = f"all its {count:,} texts are different, as in an id or in free text"
    if why:
        return _Profile(texts, holes, left_out=why, forms=forms)
    remarks = []
    pairs = (("fold_case", "case"), ("strip", "white space"))
    flags = {flag: what for flag, what in pairs if getattr(listed, flag)}
    if flags:
        remarks.append(
            f"some values differ only by {' and '.join(flags.values())}; they count as one with "
            f"{' and '.join(flags)}"
        )
    if _like_missing(texts).any():
        remarks.append(
            "a value looks like a missing cell; if it is one, list it under missing instead, as in "
            'missing = {as = "indicator", spellings = ["NA"]}'
        )
    return _Profile(texts, holes, categories=listed, remarks=remarks)


def _like_missing(texts: pd.Series) -> pd.Series:
    return texts.str.casefold().isin(USUAL_MISSING)


def _further_spellings(texts: pd.Series, rows: int) -> tuple[str, ...] | None:
    """Return the texts among numbers if they seem to spell missing cells; else None.

    Such a spelling has no digit, unlike 90+, and occurs at least twice, unlike a typing error.
    """
    counts = texts.str.casefold().value_counts()
    if counts.empty:
        return ()
    few = len(counts) <= _FEW_SPELLINGS and counts.min() >= 2 and len(texts) <= _FEW_TEXTS * rows
    return tuple(sorted(counts.index)) if few and not any(map(_has_digit, counts.index)) else None


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _with_missing(holes: Bool[HostArray, "N"], rest: Bool[HostArray, "M"]) -> Bool[HostArray, "N"]:
    """Return `holes` with `rest`, a mask of the cells that are no holes, added."""
    both = holes.copy()
    both[~holes] = rest
    return both


def _other_forms(texts: pd.Series, form: Form) -> tuple[Changes, ...]:
    """Return the changes of the form with which the texts are numbers, missing cells apart."""
    distinct = texts[~_like_missing(texts)].unique()
    written = [text for text in distinct if _has_digit(text)]
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


def _form_advice(forms: Sequence[Changes]) -> str:
    """Return the advice to read numbers in one of these other forms; "" without any."""
    if not forms:
        return ""
    fewest = min(map(len, forms))
    best = [changes for changes in forms if len(changes) == fewest]
    # where two changes are needed, only the most usual pair: all pairs would be a long list
    shown = [
        " ".join(f"--{name} '{mark}'" for name, mark in changes).replace("'''", '"\'"')
        for changes in (best if fewest == 1 else best[:1])
    ]
    return f"it looks like numbers in another form: add {' or '.join(shown)}"


def _name_shared_form(profiles: dict[str, _Profile]) -> dict[str, _Profile]:
    """Return the profiles, advising the one form that reads the numbers of all columns, if any."""
    forms = [profile.forms for profile in profiles.values() if profile.forms]
    shared = [changes for changes in forms[0] if all(changes in f for f in forms)] if forms else []
    if not shared:
        return profiles
    why = _form_advice(shared)
    return {k: replace(p, left_out=why) if p.forms else p for k, p in profiles.items()}


def _categories(texts: pd.Series) -> Categories:
    """Return the list of texts; of those that differ by case or white space, the most frequent."""
    counts = texts.value_counts()
    # of the four normalisations the first that leaves the fewest values
    ways = [Categories(("",), fold, strip) for strip, fold in product((False, True), repeat=2)]
    spellings = [list(map(way.compared, counts.index)) for way in ways]
    way, keys = min(zip(ways, spellings, strict=True), key=lambda pair: len(set(pair[1])))
    chosen: dict[str, tuple[int, str]] = {}
    for key, text, count in zip(keys, counts.index, counts, strict=True):
        chosen[key] = min(chosen.get(key, (0, "")), (-count, text))
    tidy = Categories(("",), strip=way.strip).compared
    found = (tidy(text) for _, text in chosen.values())
    values = tuple(sorted(found, key=lambda text: (text.casefold(), text)))  # no before Yes
    return Categories(values, way.fold_case, way.strip)


def _column(profile: _Profile, what: str) -> Column:
    if profile.categories is not None:
        hole = ("",) if profile.holes.any() else ()
        return replace(profile.categories, values=(*hole, *profile.categories.values))
    assert profile.numbers is not None  # of a column that is not left out
    span = replace(range_of(profile.numbers, what), date=profile.date)
    if not profile.holes.any():
        return span
    return replace(span, missing=(*USUAL_MISSING, *profile.spellings), indicator=True)


def _target(profile: _Profile, name: str) -> Column:
    if profile.left_out:
        raise InputError(f"the target {name!r} cannot be used: {profile.left_out}")
    if profile.numbers is None or profile.date is not None or profile.texts.nunique() > MOST_LABELS:
        return _column(profile, f"the target {name!r}")
    return Categories(profile.ordered_texts)


def _remarks(profile: _Profile, *, is_target: bool) -> tuple[str, ...]:
    found, rows = list(profile.remarks), len(profile.holes)
    constant = rows >= FEW_ROWS and not profile.holes.any() and profile.texts.nunique() == 1
    if profile.like_id and not is_target:
        found.append("all values are different; if this is an id, list it under ignore")
    if constant and not is_target:
        found.append("all cells are equal, so nothing can be learned from it; list it under ignore")
    if profile.numbers is not None and profile.many_numbers and not constant:
        least, low, high, most = np.quantile(profile.numbers, [0, 0.05, 0.95, 1])
        if 10 * (high - least) < most - least or 10 * (most - low) < most - least:
            found.append(
                "19 of 20 values lie in a tenth of this range; a narrower public range uses more "
                "of the scale, since values outside are clipped to its ends"
            )
    if profile.holes.any():
        found.append(
            "cells are missing: they are a category of their own"
            if profile.categories is not None
            else "cells are missing: each counts as the middle of the range, and a further column "
            "marks it"
        )
    return tuple(found)


def _proposals(profile: _Profile) -> dict[str, Any]:
    """Return entries that a column of many numbers might have."""
    if profile.numbers is None or not profile.many_numbers or profile.like_id:
        return {}
    least, middle, most = np.quantile(profile.numbers, [0, 0.5, 1])
    low = least >= 0 and 10 * (middle - least) < most - least
    return ({"scale": "log"} if low else {}) | {"bins": PROPOSED_BINS}
