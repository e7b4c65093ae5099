"""The meaning of cells: which are missing, and the number, category or person in each."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from decimal import Context, Decimal, DecimalException
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from taciturn.errors import InputError, reraise_clean
from taciturn.tables.columns import Categories, Column, Numeric, whole_text
from taciturn.tables.form import Form, days, read_number, read_numbers
from taciturn.typing import HostArray

_USUAL = Form()
# a number with more digits than any identity has stays text
_EXACT = Context(prec=400)
TEXT, WHOLE, INEXACT = "text", "whole numbers", "numbers that are not whole or not exact"
_COMPARED = frozenset({TEXT, WHOLE})


class CellError(InputError):
    """A cell that cannot be used: its column, its row (from 0), what is wrong and the cure."""

    def __init__(self, column: str, row: int, what: str) -> None:
        super().__init__(f"column {column!r}, row {row + 1} is {what}")
        self.column, self.row, self.what = column, row, what


class EmptyError(InputError):
    """Cells that are empty and may not be: the first row of each column, and a further cure."""

    def __init__(self, rows: Mapping[str, int], cure: str) -> None:
        (first, row), *others = rows.items()
        also = ""
        if others:
            also = f", and so are cells of {', '.join(f'{n!r} (row {r + 1})' for n, r in others)}"
        which = f"column {first!r}, row {row + 1} is empty{also}"
        super().__init__(f"{which}; drop such rows or fill them in{cure}")
        self.rows = dict(rows)


def numbers(
    cells: pd.Series, name: str, form: Form, date: str | None = None
) -> Float[HostArray, "N"]:
    """Return cells as numbers, dates as days since 1970-01-01; NaN where a cell is neither.

    Texts are read in the form, or by the pattern of `date`; other cells are converted to floats.
    """
    if date is not None:
        texts = [str(cell) for cell in cells.to_numpy(object)]
        read = {text: days(text, date) for text in set(texts)}
        return np.fromiter(map(read.__getitem__, texts), np.float64, len(texts))
    if cells.dtype.kind in "biuf":
        return cells.to_numpy(np.float64, na_value=np.nan)
    written = str if form.plain else form.reader()
    objects = cells.to_numpy(object).tolist()
    if set(map(type, objects)) <= {str}:
        return read_numbers(objects if form.plain else list(map(written, objects)))

    def number(cell: Any) -> float:
        if isinstance(cell, str):
            return read_number(written(cell))
        return math.nan if cell is None or cell is pd.NA or cell is pd.NaT else float(cell)

    return reraise_clean(
        lambda: np.fromiter(map(number, objects), np.float64, len(objects)),
        (TypeError, ValueError, OverflowError),
        lambda _: InputError(f"column {name!r} holds a cell that is no number; drop such rows"),
    )


def spelled(cells: pd.Series, fact: Categories, form: Form = _USUAL) -> list[str]:
    """Return cells as normalised texts (`Categories.compared`), missing ones as empty texts.

    Where the values are whole numbers, a number in the form is compared as Python writes it.
    """
    objects = cells.to_numpy(object).tolist()
    if set(map(type, objects)) <= {str}:
        texts = list(map(str.strip, objects))
    else:
        pairs = zip(objects, cells.isna().tolist(), strict=True)
        texts = ["" if hole else _as_text(cell, whole=fact.whole) for cell, hole in pairs]
    if not (fact.fold_case or fact.strip or fact.missing or fact.whole):
        return texts
    missing = {fact.compared(spelling) for spelling in fact.missing}
    read = form.reader() if fact.whole and not form.plain else str
    # a text that is no number in the form has no decimal point, whatever it has
    compared = {
        text: fact.compared(number or text, pointed=bool(number))
        for text in set(texts)
        for number in (read(text),)
    }
    meant = {text: "" if same in missing else same for text, same in compared.items()}
    return list(map(meant.__getitem__, texts))


def _as_text(cell: Any, *, whole: bool) -> str:
    """Return a cell as text; a stored whole number without its point if values are whole."""
    text = str(cell).strip()
    return (whole_text(text) or text) if whole and not isinstance(cell, str) else text


def empty(
    cells: pd.Series, fact: Column | None = None, form: Form = _USUAL
) -> Bool[HostArray, "N"]:
    """Return which cells are empty, or spelled as the column's missing cells are.

    In a column of numbers the case of a spelling does not matter, and a spelling that is a number
    matches that number however it is written: a program that stores -9 as a whole number stores
    -9.0 as soon as another cell is empty.
    """
    if isinstance(fact, Categories) and fact.missing:
        return np.array([text == "" for text in spelled(cells, fact, form)], np.bool_)
    found: HostArray = cells.isna().to_numpy(np.bool_, copy=True)
    if cells.dtype.kind not in "iuf":
        objects = cells.to_numpy(object)
        present = ~found
        found[present] = objects[present] == ""
        if fact is not None and fact.missing:
            blank = {"", *(spelling.casefold() for spelling in fact.missing)}
            spelt = [isinstance(cell, str) and cell.strip().casefold() in blank for cell in objects]
            found |= np.array(spelt, np.bool_)
    if isinstance(fact, Numeric) and fact.date is None:
        spellings = numbers(pd.Series(fact.missing, dtype=object), "missing", form)
        coded = spellings[np.isfinite(spellings)]
        if coded.size:
            found |= np.isin(numbers(cells, "missing", form), coded)
    return found


def check_filled(holes: Mapping[str, Bool[HostArray, "N"]], cure: str) -> None:
    """Raise `EmptyError` for all columns that have empty cells, if any."""
    rows = {name: int(np.argmax(found)) for name, found in holes.items() if found.any()}
    if rows:
        raise EmptyError(rows, cure)


def identities(
    column: str, kinds: AbstractSet[str], names: Collection[str], form: Form
) -> list[str]:
    """Return the identity of the person in each row of the column of persons.

    `names` are its texts, row by row, and `kinds` how the files store it (`kind_of`).

    **Guarantee.** All rows of a person must have one identity: a person with two has twice K
    places, and is protected half as well. Persons that share one are protected together. So texts
    that may be the same identity are merged: those that read as one number, as 7, 7.0 and 007, or
    1,234 and 1234 with commas between thousands, stored as numbers or as text, and those that are
    equal in Unicode's composed form. A float too large to be an exact whole number is refused: it
    could be another identity in another file.
    """
    if INEXACT in kinds:
        raise InputError(
            f"column {column!r} identifies persons by {INEXACT}; store it as text or as whole "
            "numbers"
        )
    if len(kinds) > 1 and not kinds <= _COMPARED:
        raise InputError(
            f"column {column!r} identifies persons, and the files store it in ways that cannot be "
            f"compared ({', '.join(sorted(kinds))}); store it as text in all of them"
        )
    same = {name: canonical(name, form) for name in set(names)}
    return [same[name] for name in names]


def canonical(text: str, form: Form) -> str:
    """Return one text for all spellings of a number, and other text in Unicode's form NFC.

    Some systems write an accent as a character of its own, others compose it with the letter.
    """
    read = "" if form.plain else form.reader()(text)
    try:
        number = Decimal(read or text.replace(form.decimal, "."))
        short = number.is_finite() and len(number.as_tuple().digits) <= _EXACT.prec
        return str(_EXACT.add(number.normalize(_EXACT), 0)) if short else text
    except DecimalException:
        return unicodedata.normalize("NFC", text)


def kind_of(column: pd.Series) -> str:
    """Return how a column is stored, in words; missing cells are ignored."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return kind_of(column.cat.categories.to_series())
    present = column.dropna()
    if pd.api.types.is_bool_dtype(column.dtype):
        return "truth values"
    if pd.api.types.is_integer_dtype(column.dtype):
        return WHOLE
    if pd.api.types.is_float_dtype(column.dtype):
        values = present.to_numpy()
        exact = 2.0 ** (np.finfo(values.dtype).nmant + 1)
        whole = np.all((np.abs(values) < exact) & (np.trunc(values) == values))
        return WHOLE if whole else INEXACT
    types = set(map(type, present))
    if types <= {str}:
        return TEXT
    return WHOLE if types <= {int, Decimal} else ", ".join(sorted(one.__name__ for one in types))
