"""Cells as they are meant: which are empty, which number or which text one of them says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from tacit.errors import InputError, told_anew
from tacit.tables.dates import days
from tacit.tables.facts import Categories, Numeric
from tacit.tables.form import Form
from tacit.typing import HostArray


class CellError(InputError):
    """A cell cannot be used.

    Attributes
    ----------
    column, row
        Where it is; the first row below the header is 0.
    what
        What is wrong with it, and how to mend it.
    """

    def __init__(self, column: str, row: int, what: str) -> None:
        super().__init__(f"column {column!r}, row {row + 1} is {what}")
        self.column, self.row, self.what = column, row, what


class EmptyError(InputError):
    """Cells are empty that may not be.

    Attributes
    ----------
    rows
        The first empty row of each column that has one; the first row below the header is 0.
    cure
        What to do, besides dropping rows and filling them in.
    """

    def __init__(self, rows: Mapping[str, int], cure: str) -> None:
        (first, row), *others = rows.items()
        also = ""
        if others:
            also = f", and so are cells of {', '.join(f'{n!r} (row {r + 1})' for n, r in others)}"
        super().__init__(
            f"column {first!r}, row {row + 1} is empty{also}; drop such rows or fill them in{cure}"
        )
        self.rows, self.cure = dict(rows), cure


def numbers(
    cells: pd.Series, name: str, form: Form, date: str | None = None
) -> Float[HostArray, "N"]:
    """Return cells as numbers, dates as days since 1970-01-01; NaN where a cell is neither.

    Parameters
    ----------
    form
        How texts write numbers; a cell that is no text is the number that it is.
    date
        How texts write dates, if the column has dates.

    Raises
    ------
    InputError
        If a cell is something else than text or a number.
    """
    if date is not None:
        dates = cells.map(str)
        return dates.map({text: days(text, date) for text in dates.unique()}).to_numpy(np.float64)
    if not form.plain:
        read = form.reader()
        cells = cells.map(lambda cell: read(cell) if isinstance(cell, str) else cell)
    return told_anew(
        lambda: pd.to_numeric(cells, errors="coerce").to_numpy(np.float64),
        (TypeError, ValueError, OverflowError),
        lambda _: InputError(f"column {name!r} holds a cell that is no number; drop such rows"),
    )


def spelled(cells: pd.Series, fact: Categories) -> pd.Series:
    """Return cells as the texts that are compared; those that are missing as empty texts."""
    texts = cells.map(lambda cell: str(cell).strip()).mask(cells.isna(), "")
    if not (fact.fold_case or fact.strip or fact.missing):
        return texts
    missing = {fact.compared(spelling) for spelling in fact.missing}
    compared = {text: fact.compared(text) for text in texts.unique()}
    return texts.map({t: "" if same in missing else same for t, same in compared.items()})


def empty(cells: pd.Series, fact: Numeric | Categories | None = None) -> Bool[HostArray, "N"]:
    """Return which cells are empty, or spelled as the column's missing cells are.

    Those of a column of numbers are spelled in any case: no number is told by the case of letters.
    """
    if isinstance(fact, Categories) and fact.missing:
        return (spelled(cells, fact) == "").to_numpy(np.bool_)
    if cells.dtype.kind in "iuf" and (fact is None or not fact.missing):
        return cells.isna().to_numpy(np.bool_)
    found: HostArray = cells.isna().to_numpy(np.bool_, copy=True)
    if fact is None or not fact.missing:
        found |= (cells.to_numpy(object) == "").astype(np.bool_)
        return found
    blank = {"", *(spelling.casefold() for spelling in fact.missing)}
    said = [isinstance(cell, str) and cell.strip().casefold() in blank for cell in cells]
    found |= np.array(said, np.bool_)
    return found


def check_filled(holes: Mapping[str, Bool[HostArray, "N"]], cure: str) -> None:
    """Raise `EmptyError`, which names every column that has empty cells, if there is one.

    Parameters
    ----------
    holes
        Which cells of a column are empty, by its name.
    cure
        What to do, besides dropping rows and filling them in.
    """
    rows = {name: int(np.argmax(found)) for name, found in holes.items() if found.any()}
    if rows:
        raise EmptyError(rows, cure)
