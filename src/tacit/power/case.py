"""MATPOWER case files (version 2): two bundled ones, or any file, in the file's own units."""

from __future__ import annotations

import lzma
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from tacit.errors import DataError
from tacit.typing import HostArray

# PGLib-OPF v19.01, CC BY 4.0: the IEEE networks with line limits (bundled/NOTICE)
BUNDLED: Mapping[str, str] = MappingProxyType(
    {"case14": "pglib_opf_case14_ieee.m", "case118": "pglib_opf_case118_ieee.m"}
)
_READ = {"version", "baseMVA", "bus", "gen", "branch", "gencost"}
_LEAST = {"bus": 13, "gen": 10, "branch": 11}
_PRIVATE = (2, 3)  # Pd and Qd of mpc.bus
_MOST_BYTES = 100_000_000


@dataclass(frozen=True, eq=False)
class Case:
    """The matrices of a case file, one row per element, columns as in MATPOWER's case format.

    Attributes
    ----------
    name
        The name of the file without its ending.
    base_mva
        The power base, MVA.
    bus
        Bus number, type, Pd, Qd (MW, MVAr), Gs, Bs (MW, MVAr at 1 pu), area, Vm, Va, base kV, zone,
        Vmax, Vmin.
    gen
        Bus, Pg, Qg, Qmax, Qmin, Vg, mBase, status, Pmax, Pmin and further columns.
    branch
        From, to, r, x, b (pu), rateA (MVA; 0 is unlimited), rateB, rateC, ratio, angle (degrees),
        status and, where given, angmin, angmax (degrees).
    gencost
        Cost rows as they stand, padded with 0; no rows if the file has none.
    others
        The names of further fields of the file, none of which is read.
    """

    name: str
    base_mva: float
    bus: Float[HostArray, "N _C"]
    gen: Float[HostArray, "G _C"]
    branch: Float[HostArray, "L _C"]
    gencost: Float[HostArray, "K _C"]
    others: tuple[str, ...] = ()


def read_case(path: Path) -> Case:
    """Return the case that a `.m` file describes.

    Comments, line continuations, commas and any white space are understood; code is not run, so a
    matrix must hold plain numbers.

    Raises
    ------
    DataError
        If the file cannot be read, a matrix is missing, empty, ragged or has too few columns, or an
        entry is no number. The message names the file.

    Notes
    -----
    **Guarantee.** A demand that is no number is refused in view, so whoever sees the refusal
    learns that a cell is malformed, and which; what stands in it is not quoted.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path} is larger than any case file; name a MATPOWER .m file")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason}); name a MATPOWER .m file") from error
    return parse_case(text, name=path.stem, source=str(path))


def parse_case(text: str, *, name: str, source: str) -> Case:
    """Return the case that the text of a `.m` file describes; `source` is named in errors.

    Examples
    --------
    >>> text = '''
    ... mpc.baseMVA = 100;  mpc.bus = [ % one bus
    ...   1 3 50 10 0 0 1 1 0 138 1 1.1 0.9;
    ... ];
    ... mpc.gen = [1, 50, 10, 99, -99, 1, 100, 1, 80, 0];
    ... mpc.branch = [1 1 0 0.1 0 0 0 0 0 0 0];
    ... '''
    >>> parse_case(text, name="one", source="one.m").bus[0, 2]
    np.float64(50.0)
    """
    plain = _plain(text)
    _refuse_code(plain, source)
    matrices = {field: _matrix(plain, field, source) for field in ("bus", "gen", "branch")}
    for field, least in _LEAST.items():
        columns = matrices[field].shape[1]
        if columns < least:
            raise DataError(
                f"{source}: mpc.{field} has {columns} columns; MATPOWER's case format has at least "
                f"{least}"
            )
    costs = "gencost" if _find(plain, "gencost") else None
    gencost = np.zeros((0, 0)) if costs is None else _matrix(plain, costs, source)
    named = set(re.findall(r"\bmpc\.(\w+)\s*=", plain)) - _READ
    return Case(
        name, _base(plain, source), **matrices, gencost=gencost, others=tuple(sorted(named))
    )


def _refuse_code(plain: str, source: str) -> None:
    """Raise if the file computes with its matrices, as those in ohms and kW do."""
    changed = re.search(r"\bmpc\.(\w+)\s*\([^=\n]*\)\s*=[^=]", plain)
    if changed:
        raise DataError(
            f"{source}: mpc.{changed.group(1)} is changed by code, and code in a case file is not "
            "run; save the case from MATPOWER (savecase) and give that file"
        )


def chosen_case(choice: str) -> Case:
    """Return the bundled case of that name, or the case in that file.

    Raises
    ------
    DataError
        If it is neither, or the file cannot be understood.

    Examples
    --------
    >>> len(chosen_case("case14").bus)
    14
    """
    if choice in BUNDLED:
        return bundled_case(choice)
    if not Path(choice).is_file():
        raise DataError(
            f"{choice} is neither a bundled case ({', '.join(BUNDLED)}) nor a file; name a "
            "MATPOWER .m file"
        )
    return read_case(Path(choice))


def bundled_case(name: str) -> Case:
    """Return `case14` or `case118` as PGLib-OPF v19.01 has it."""
    file = BUNDLED[name]
    packed = resources.files("tacit.power") / "bundled" / f"{file}.xz"
    text = lzma.decompress(packed.read_bytes()).decode("utf-8")
    return parse_case(text, name=name, source=f"bundled {file}")


def _plain(text: str) -> str:
    """Return the text without comments and line continuations."""
    lines = []
    for line in text.splitlines():
        # a per cent sign inside a quoted name is no comment
        code = re.match(r"(?:[^%'\"]|'[^'\n]*'|\"[^\"\n]*\"|['\"])*", line)
        lines.append(code.group(0) if code else "")
    return re.sub(r"\.\.\.[^\n]*\n", " ", "\n".join(lines) + "\n")


def _find(plain: str, field: str) -> re.Match[str] | None:
    return re.search(rf"\bmpc\.{field}\s*=\s*\[([^\]]*)\]([^;\n]*)", plain)


def _matrix(plain: str, field: str, source: str) -> HostArray:
    match = _find(plain, field)
    if match is None:
        raise DataError(
            f"{source}: there is no mpc.{field} = [...]; give a MATPOWER case file of version 2"
        )
    if len(re.findall(rf"\bmpc\.{field}\s*=(?!=)", plain)) > 1:
        raise DataError(f"{source}: mpc.{field} is assigned twice; keep the one that is meant")
    if match.group(2).strip():
        raise DataError(
            f"{source}: mpc.{field} = [...] is followed by more than ; and code in a case file is "
            "not run; write the numbers out"
        )
    rows = [row.replace(",", " ").split() for row in re.split(r"[;\n]", match.group(1))]
    rows = [row for row in rows if row]
    if not rows:
        raise DataError(f"{source}: mpc.{field} is empty; give it at least one row")
    if len({len(row) for row in rows}) != 1 and field != "gencost":
        odd = next(k for k, row in enumerate(rows) if len(row) != len(rows[0]))
        raise DataError(
            f"{source}: row {odd + 1} of mpc.{field} has {len(rows[odd])} entries, the first has "
            f"{len(rows[0])}; give every row the same number"
        )
    width = max(map(len, rows))
    padded = [row + ["0"] * (width - len(row)) for row in rows]
    values = [
        [
            _number(e, field, k, source, shown=field != "bus" or c not in _PRIVATE)
            for c, e in enumerate(row)
        ]
        for k, row in enumerate(padded, 1)
    ]
    return np.array(values)


def _number(entry: str, field: str, row: int, source: str, *, shown: bool = True) -> float:
    try:
        value = float(entry)
    except ValueError:
        value = float("nan")
    if np.isnan(value):
        raise DataError(
            f"{source}: {repr(entry) if shown else 'a demand'} in row {row} of mpc.{field} is no "
            "number; write it out (code in a case file is not run)"
        )
    return value


def _base(plain: str, source: str) -> float:
    match = re.search(r"\bmpc\.baseMVA\s*=\s*([^;\n]+)", plain)
    base = _number(match.group(1).strip(), "baseMVA", 1, source) if match else 0.0
    if not 0 < base < np.inf:
        raise DataError(f"{source}: mpc.baseMVA is missing or not above 0; give it, say 100")
    return base
