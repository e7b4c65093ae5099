"""Cases as MATPOWER's case format (version 2) has them: bundled ones, and the text of a file."""

from __future__ import annotations

import lzma
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from taciturn.errors import DataError
from taciturn.typing import HostArray

# PGLib-OPF v19.01, CC BY 4.0: the IEEE networks with line limits (bundled/NOTICE)
BUNDLED: Mapping[str, str] = MappingProxyType(
    {"case14": "pglib_opf_case14_ieee.m", "case118": "pglib_opf_case118_ieee.m"}
)
_READ = {"version", "baseMVA", "bus", "gen", "branch", "gencost"}
_LEAST = {"bus": 13, "gen": 10, "branch": 11}
_PRIVATE = (2, 3)  # Pd and Qd of mpc.bus


class Elements(NamedTuple):
    """Where the rows of a matrix stand in the file that a person gave: a table, and a row of it."""

    tables: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Case:
    """The matrices of a case file, one row per element, columns as in MATPOWER's case format.

    - `bus`: Bus number, type, Pd, Qd (MW, MVAr), Gs, Bs (MW, MVAr at 1 pu), area, Vm, Va, base kV,
      zone, Vmax, Vmin.
    - `gen`: Bus, Pg, Qg, Qmax, Qmin, Vg, mBase, status, Pmax, Pmin and further columns.
    - `branch`: From, to, r, x, b (pu), rateA (MVA; 0 is unlimited), rateB, rateC, ratio, angle
      (degrees), status and, where given, angmin, angmax (degrees).
    - `gencost`: Cost rows as they stand, padded with 0; no rows if the file has none.
    - `others`, `ignored`: Further fields of the file by name; in words, what the file says and
      nothing here reads.
    - `generators`, `lines`: Where the rows of `gen` and `branch` stand in the file; None for the
      same rows, from 1.
    - `net`: The `pandapower.pandapowerNet` that was converted, a copy without set points and
      results; None for a MATPOWER case.
    """

    name: str
    base_mva: float
    bus: Float[HostArray, "N _C"]
    gen: Float[HostArray, "G _C"]
    branch: Float[HostArray, "L _C"]
    gencost: Float[HostArray, "K _C"]
    others: tuple[str, ...] = ()
    generators: Elements | None = None
    lines: Elements | None = None
    ignored: tuple[str, ...] = ()
    net: Any = None

    @property
    def generator_rows(self) -> Elements:
        """Where the rows of `gen` stand in the file."""
        return self.generators or _in_order("gen", len(self.gen))

    @property
    def line_rows(self) -> Elements:
        """Where the rows of `branch` stand in the file."""
        return self.lines or _in_order("branch", len(self.branch))

    def generator(self, row: int) -> str:
        """Return how errors name the generator of a row of `gen`, counted from 0."""
        if self.generators is None:
            return f"row {row + 1} of mpc.gen"
        return f"{self.generators.tables[row]} {self.generators.rows[row]}"

    def cost(self, row: int) -> str:
        """Return how errors name the cost of a row of `gencost`, counted from 0."""
        of_file = f"row {row + 1} of mpc.gencost"
        return of_file if self.generators is None else f"the cost of {self.generator(row)}"


def _in_order(table: str, count: int) -> Elements:
    return Elements((table,) * count, tuple(range(1, count + 1)))


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
    others = tuple(sorted(set(re.findall(r"\bmpc\.(\w+)\s*=(?!=)", plain)) - _READ))
    ignored = (
        *(f"mpc.{name}" for name in others),
        *_unread(matrices["gen"], matrices["branch"], gencost),
    )
    return Case(
        name,
        _base(plain, source),
        bus=matrices["bus"],
        gen=matrices["gen"],
        branch=matrices["branch"],
        gencost=gencost,
        others=others,
        ignored=ignored,
    )


def _unread(gen: HostArray, branch: HostArray, gencost: HostArray) -> tuple[str, ...]:
    """Return which columns that nothing here reads hold something, in words."""
    emergency = (branch[:, 6:8] != 0) & (branch[:, 6:8] != branch[:, 5:6])
    columns = {
        "emergency ratings (rateB, rateC)": emergency,
        "capability curves (Pc1 to Qc2max)": gen[:, 10:16],
        "ramp rates": gen[:, 16:20],
        "shares of imbalance (apf)": gen[:, 20:21],
        "costs of starting and stopping": gencost[:, 1:3],
    }
    return tuple(name for name, values in columns.items() if np.any(values != 0))


def _refuse_code(plain: str, source: str) -> None:
    """Raise if the file computes with its matrices, as those in ohms and kW do."""
    changed = re.search(r"\bmpc\.(\w+)\s*\([^=\n]*\)\s*=[^=]", plain)
    if changed:
        raise DataError(
            f"{source}: mpc.{changed.group(1)} is changed by code, and code in a case file is not "
            "run; save the case from MATPOWER (savecase) and give that file"
        )


def bundled_case(name: str) -> Case:
    """Return `case14` or `case118` as PGLib-OPF v19.01 has it."""
    file = BUNDLED[name]
    packed = resources.files("taciturn_power") / "bundled" / f"{file}.xz"
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
    found = re.findall(r"\bmpc\.baseMVA\s*=(?!=)\s*([^;\n]+)", plain)
    if len(found) > 1:
        raise DataError(f"{source}: mpc.baseMVA is assigned twice; keep the one that is meant")
    base = _number(found[0].strip(), "baseMVA", 1, source) if found else 0.0
    if not 0 < base < np.inf:
        raise DataError(f"{source}: mpc.baseMVA is missing or not above 0; give it, say 100")
    return base
