"""Cells as they are meant: which are empty, which number or which text one of them says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from taciturn.errors import InputError, told_anew
from taciturn.tables.columns import Categories, Column, Numeric
from taciturn.tables.form import Form, days, read_number, read_numbers
from taciturn.typing import HostArray

_USUAL = Form()


class CellError(InputError):
    """A cell cannot be used: its column, its row (the first is 0), what is wrong and the cure."""

    def __init__(self, column: str, row: int, what: str) -> None:
        super().__init__(f"column {column!r}, row {row + 1} is {what}")
        self.column, self.row, self.what = column, row, what


class EmptyError(InputError):
    """Cells are empty that may not be: the first row of each column, and a further cure."""

    def __init__(self, rows: Mapping[str, int], cure: str) -> None:
        (first, row), *others = rows.items()
        also = ""
        if others:
            also = f", and so are cells of {', '.join(f'{n!r} (row {r + 1})' for n, r in others)}"
        super().__init__(
            f"column {first!r}, row {row + 1} is empty{also}; drop such rows or fill them in{cure}"
        )
        self.rows = dict(rows)


def numbers(
    cells: pd.Series, name: str, form: Form, date: str | None = None
) -> Float[HostArray, "N"]:
    """Return cells as numbers, dates as days since 1970-01-01; NaN where a cell is neither.

    Texts are read in the form, or by the pattern of `date`; other cells are the numbers they are.
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

    return told_anew(
        lambda: np.fromiter(map(number, objects), np.float64, len(objects)),
        (TypeError, ValueError, OverflowError),
        lambda _: InputError(f"column {name!r} holds a cell that is no number; drop such rows"),
    )


def spelled(cells: pd.Series, fact: Categories) -> list[str]:
    """Return cells as the texts that are compared; those that are missing as empty texts."""
    objects = cells.to_numpy(object).tolist()
    if set(map(type, objects)) <= {str}:
        texts = list(map(str.strip, objects))
    else:
        pairs = zip(objects, cells.isna().tolist(), strict=True)
        texts = ["" if hole else str(cell).strip() for cell, hole in pairs]
    if not (fact.fold_case or fact.strip or fact.missing):
        return texts
    missing = {fact.compared(spelling) for spelling in fact.missing}
    compared = {text: fact.compared(text) for text in set(texts)}
    said = {text: "" if same in missing else same for text, same in compared.items()}
    return list(map(said.__getitem__, texts))


def empty(
    cells: pd.Series, fact: Column | None = None, form: Form = _USUAL
) -> Bool[HostArray, "N"]:
    """Return which cells are empty, or spelled as the column's missing cells are.

    Those of a column of numbers are spelled in any case: no number is told by the case of letters.
    A spelling that is a number is that number, however a cell writes it: a program that stores -9
    as a whole number stores -9.0 once one of the other cells is empty.
    """
    if isinstance(fact, Categories) and fact.missing:
        return np.array([text == "" for text in spelled(cells, fact)], np.bool_)
    found: HostArray = cells.isna().to_numpy(np.bool_, copy=True)
    if cells.dtype.kind not in "iuf":
        objects = cells.to_numpy(object)
        present = ~found
        found[present] = objects[present] == ""
        if fact is not None and fact.missing:
            blank = {"", *(spelling.casefold() for spelling in fact.missing)}
            said = [isinstance(cell, str) and cell.strip().casefold() in blank for cell in objects]
            found |= np.array(said, np.bool_)
    if isinstance(fact, Numeric) and fact.date is None:
        spellings = numbers(pd.Series(fact.missing, dtype=object), "missing", form)
        coded = spellings[np.isfinite(spellings)]
        if coded.size:
            found |= np.isin(numbers(cells, "missing", form), coded)
    return found


def check_filled(holes: Mapping[str, Bool[HostArray, "N"]], cure: str) -> None:
    """Raise `EmptyError` for all columns that have empty cells, if there is one."""
    rows = {name: int(np.argmax(found)) for name, found in holes.items() if found.any()}
    if rows:
        raise EmptyError(rows, cure)
