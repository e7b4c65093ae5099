"""The tables of a pandapower network in JSON, read as data: nothing in the file is run or imported.

`pandapower.from_json` restores objects: an entry {"_module": M, "_class": C, "_object": X} of a
file makes it import M and call C(X), whatever they are in versions before it had a list of those
allowed. Here the same file is only ever parsed as JSON. A table is a frame in pandas' split form
(columns, index, rows), its cells are looked at when they are asked for, and an entry of any other
kind is left as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Bool, Float, Int

from tacit.errors import DataError, told_anew
from tacit.typing import HostArray

_MAJORS = (2, 3)
_LARGEST_INDEX = 10**9
_RESAVE = "save it anew with pandapower.to_json of version 2.2 or later"


@dataclass(frozen=True, eq=False)
class Table:
    """A table of the file; rows are named by their index, as in pandapower.

    Attributes
    ----------
    where
        File and table, as errors name them.
    index
        `(R,)`: the names of the rows.
    columns
        The cells of every column, unchecked.
    """

    where: str
    index: Int[HostArray, " R"]
    columns: Mapping[str, Sequence[object]]

    def __len__(self) -> int:
        return len(self.index)

    def kept(self, rows: Bool[HostArray, " R"]) -> Table:
        """Return the table of some of its rows."""
        places = np.flatnonzero(rows).tolist()
        columns = {name: [cells[k] for k in places] for name, cells in self.columns.items()}
        return Table(self.where, self.index[places], columns)

    def numbers(self, column: str, missing: float | None = None) -> Float[HostArray, " R"]:
        """Return a column as numbers; `missing` stands for what is not given, if it may be so.

        Raises
        ------
        DataError
            If the column or a cell is missing and no default is there, or a cell is no number. The
            cell is named, and what stands in it is not quoted.
        """
        cells = self._cells(column, missing is not None)
        values = np.array([self._number(cell, column, k) for k, cell in enumerate(cells)], float)
        lost = np.flatnonzero(np.isnan(values))
        if missing is None and lost.size:
            raise DataError(
                f"{self.where}: {column} of row {self.index[lost[0]]} is missing; give a number"
            )
        values[lost] = missing if missing is not None else np.nan
        return values

    def places(self, column: str) -> Int[HostArray, " R"]:
        """Return a column of indices; `DataError` if a cell is none."""
        values = self.numbers(column)
        odd = np.flatnonzero((values != np.round(values)) | (np.abs(values) > _LARGEST_INDEX))
        if odd.size:
            raise DataError(f"{self.where}: {column} of row {self.index[odd[0]]} is no index")
        return np.asarray(values.astype(int))

    def flags(self, column: str, *, missing: bool) -> Bool[HostArray, " R"]:
        """Return a column of truth values; `DataError` if a cell is neither true nor false."""
        known = {True: True, False: False, None: missing}
        cells = [None if cell != cell else cell for cell in self._cells(column, True)]  # noqa: PLR0124
        for place, cell in enumerate(cells):
            if not (cell is None or (isinstance(cell, bool | int | float) and cell in known)):
                self._refuse(column, place, "true or false")
        return np.array([known[cell] for cell in cells], bool)  # type: ignore[index]

    def texts(self, column: str) -> list[str]:
        """Return a column as text, empty where nothing stands."""
        return [cell if isinstance(cell, str) else "" for cell in self._cells(column, True)]

    def _cells(self, column: str, optional: bool) -> Sequence[object]:
        if column in self.columns:
            return self.columns[column]
        if optional or not len(self):
            return [None] * len(self)
        raise DataError(
            f"{self.where} has no column {column}, so it is of another version of pandapower or "
            f"incomplete; {_RESAVE}"
        )

    def _number(self, cell: object, column: str, place: int) -> float:
        if cell is None:
            return float("nan")
        if isinstance(cell, bool) or not isinstance(cell, int | float):
            self._refuse(column, place, "a number")
        return float(cell) if isinstance(cell, float) or abs(cell) < 2**1000 else float("inf")

    def _refuse(self, column: str, place: int, kind: str) -> NoReturn:
        raise DataError(
            f"{self.where}: {column} of row {self.index[place]} is not {kind}; correct the file"
        )


@dataclass(frozen=True, eq=False)
class Net:
    """A pandapower network as its file has it.

    Attributes
    ----------
    source
        As errors name the file.
    tables
        The tables that have rows, results left out: those tell the demand.
    """

    source: str
    sn_mva: float
    f_hz: float
    tables: Mapping[str, Table]

    def table(self, name: str) -> Table:
        """Return the table of that name, an empty one if the file has none."""
        empty = Table(f"{self.source}: {name}", np.zeros(0, int), {})
        return self.tables.get(name, empty)


def looks_like_json(text: str) -> bool:
    """Return whether a text begins as a JSON object does, and no MATPOWER case."""
    return re.match(r"\ufeff?\s*\{", text) is not None


def parse_net(text: str, *, source: str) -> Net:
    """Return the network that a pandapower JSON file describes; `source` is named in errors.

    Raises
    ------
    DataError
        If the text is no JSON, no pandapower network, one of another version, encrypted, or holds
        a table that is no frame in split form. No cell is quoted.
    """
    outer = _json(text.lstrip("\ufeff"), source)
    kind = outer.get("_class") if isinstance(outer, dict) else None
    if kind != "pandapowerNet":
        old = isinstance(outer, dict) and isinstance(outer.get("bus"), dict)
        what = "a pandapower network of version 1" if old else "no pandapower network"
        raise DataError(f"{source} is {what}; {_RESAVE}, or give a MATPOWER .m file")
    parts = outer["_object"] if isinstance(outer.get("_object"), dict) else {}
    _check_version(parts, source)
    tables = {}
    for name, part in parts.items():
        if _is_frame(part) and not name.startswith(("_", "res_")):
            table = _table(part, f"{source}: {name}")
            if len(table):
                tables[name] = table
    return Net(
        source,
        sn_mva=_setting(parts, "sn_mva", source),
        f_hz=_setting(parts, "f_hz", source),
        tables=tables,
    )


def _json(text: str, source: str) -> Any:
    """Return the parsed text; an object that names a key twice is refused."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise _TwiceError
        return found

    def told(error: Exception) -> DataError:
        if isinstance(error, _TwiceError):
            return DataError(f"{source} names a table or column twice; keep the one that is meant")
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        return DataError(
            f"{source} is not JSON{line}; give a file that pandapower.to_json wrote, without "
            "encryption, or a MATPOWER .m file"
        )

    # a number of thousands of digits is a ValueError, brackets by the thousand a RecursionError
    kinds = (ValueError, RecursionError, _TwiceError)
    parse: Callable[[], Any] = lambda: json.loads(text, object_pairs_hook=unique)  # noqa: E731
    return told_anew(parse, kinds, told)


class _TwiceError(Exception):
    """A key stands twice in an object."""


def _check_version(parts: Mapping[str, Any], source: str) -> None:
    given = str(parts.get("format_version", parts.get("version", "")))
    major = re.match(r"\d{1,3}(?=\.)", given)
    if major is None or int(major.group(0)) not in _MAJORS:
        named = re.sub(r"[^\w.+-]", "", given)[:20] or "unnamed"
        raise DataError(
            f"{source} is of pandapower's format {named}, and formats {_MAJORS[0]} and "
            f"{_MAJORS[1]} are read; {_RESAVE}"
        )


def _setting(parts: Mapping[str, Any], name: str, source: str) -> float:
    value = parts.get(name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or not number or not 0 < value < 1e9:
        raise DataError(f"{source}: {name} is missing or not a number above 0; give it")
    return float(value)


def _is_frame(part: object) -> bool:
    return isinstance(part, dict) and part.get("_class") == "DataFrame"


def _table(part: Mapping[str, Any], where: str) -> Table:
    frame = part.get("_object")
    if isinstance(frame, str):
        frame = _json(frame, where)
    keys = ("columns", "index", "data")
    if not isinstance(frame, dict) or any(not isinstance(frame.get(key), list) for key in keys):
        raise DataError(f"{where} is no frame in split form; {_RESAVE}")
    names, index, rows = (frame[key] for key in keys)
    if not rows and not index:
        return Table(where, np.zeros(0, int), {})
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        raise DataError(f"{where} has a row with more or fewer cells than columns; correct it")
    if len(index) != len(rows) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{where} has an index or columns that do not fit its rows; correct it")
    if len(set(names)) != len(names):
        raise DataError(f"{where} names a column twice; keep the one that is meant")
    return Table(where, _index(index, where), _by_column(names, rows))


def _by_column(names: list[str], rows: list[list[object]]) -> dict[str, Sequence[object]]:
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def _index(index: list[object], where: str) -> HostArray:
    """Return the index of a table; other tables than those of elements may have texts in it."""
    whole = [
        k
        for k in index
        if isinstance(k, int) and not isinstance(k, bool) and 0 <= k < _LARGEST_INDEX
    ]
    if len(whole) != len(index):
        return np.full(len(index), -1)
    if len(set(whole)) != len(whole):
        raise DataError(f"{where} names a row twice; number them apart")
    return np.array(whole, int)
