"""Cases: bundled ones, those of pandapower, and files of MATPOWER or pandapower."""

from __future__ import annotations

import copy
import lzma
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module, resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from taciturn.errors import (
    DataError,
    InputError,
    MissingPackageError,
    install_command,
    reraise_clean,
)
from taciturn.typing import HostArray

# PGLib-OPF v19.01, CC BY 4.0: the IEEE networks with line limits (bundled/NOTICE)
BUNDLED: Mapping[str, str] = MappingProxyType(
    {"case14": "pglib_opf_case14_ieee.m", "case118": "pglib_opf_case118_ieee.m"}
)
_READ = {"version", "baseMVA", "bus", "gen", "branch", "gencost"}
_LEAST = {"bus": 13, "gen": 10, "branch": 11}
_PRIVATE = (2, 3)  # Pd and Qd of mpc.bus


class Elements(NamedTuple):
    """The origin of the rows of a matrix in the input file: a table, and a row of it."""

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
    - `gencost`: Cost rows, padded with 0; no rows if the file has none.
    - `others`, `ignored`: Names of further fields of the file; descriptions of what is not read.
    - `generators`, `lines`: The origin of the rows of `gen` and `branch`; None for the same rows,
      from 1.
    - `net`: The converted `pandapower.pandapowerNet`, a copy without set points and results; None
      for a MATPOWER case.
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
        """The origin of the rows of `gen`."""
        return self.generators or _in_order("gen", len(self.gen))

    @property
    def line_rows(self) -> Elements:
        """The origin of the rows of `branch`."""
        return self.lines or _in_order("branch", len(self.branch))

    def generator(self, row: int) -> str:
        """Return the name of a generator in errors, by its row of `gen` from 0."""
        if self.generators is None:
            return f"row {row + 1} of mpc.gen"
        return f"{self.generators.tables[row]} {self.generators.rows[row]}"

    def cost(self, row: int) -> str:
        """Return the name of a cost in errors, by its row of `gencost` from 0."""
        of_file = f"row {row + 1} of mpc.gencost"
        return of_file if self.generators is None else f"the cost of {self.generator(row)}"


def _in_order(table: str, count: int) -> Elements:
    return Elements((table,) * count, tuple(range(1, count + 1)))


def parse_case(text: str, *, name: str, source: str) -> Case:
    """Return the case in the text of a `.m` file; `source` is named in errors.

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
    plain = _without_comments(text)
    changed = re.search(r"\bmpc\.(\w+)\s*\([^=\n]*\)\s*=[^=]", plain)
    if changed:  # as files in ohms and kW do
        raise DataError(
            f"{source}: mpc.{changed.group(1)} is changed by code, and code in a case file is not "
            "run; save the case from MATPOWER (savecase) and give that file"
        )
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
        *_unread_columns(matrices["gen"], matrices["branch"], gencost),
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


def _unread_columns(gen: HostArray, branch: HostArray, gencost: HostArray) -> tuple[str, ...]:
    """Return descriptions of the columns that are not read and not 0."""
    emergency = (branch[:, 6:8] != 0) & (branch[:, 6:8] != branch[:, 5:6])
    columns = {
        "emergency ratings (rateB, rateC)": emergency,
        "capability curves (Pc1 to Qc2max)": gen[:, 10:16],
        "ramp rates": gen[:, 16:20],
        "shares of imbalance (apf)": gen[:, 20:21],
        "costs of starting and stopping": gencost[:, 1:3],
    }
    return tuple(name for name, values in columns.items() if np.any(values != 0))


def bundled_case(name: str) -> Case:
    """Return `case14` or `case118` of PGLib-OPF v19.01."""
    file = BUNDLED[name]
    packed = resources.files("taciturn_power") / "bundled" / f"{file}.xz"
    text = lzma.decompress(packed.read_bytes()).decode("utf-8")
    return parse_case(text, name=name, source=f"bundled {file}")


def _without_comments(text: str) -> str:
    """Return the text without comments and line continuations."""
    lines = []
    for line in text.splitlines():
        # a per cent sign inside quotes begins no comment
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
        raise DataError(f"{source}: mpc.{field} is assigned twice; keep one assignment")
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
        raise DataError(f"{source}: mpc.baseMVA is assigned twice; keep one assignment")
    base = _number(found[0].strip(), "baseMVA", 1, source) if found else 0.0
    if not 0 < base < np.inf:
        raise DataError(f"{source}: mpc.baseMVA is missing or not above 0; give it, say 100")
    return base


# the tables that are read, with their columns of buses
_BUSES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("load", "sgen", "storage", "ward", "shunt", "ext_grid", "gen"), ("bus",)),
    "line": ("from_bus", "to_bus"),
    "trafo": ("hv_bus", "lv_bus"),
    "impedance": ("from_bus", "to_bus"),
}
_TABLES = {"bus", "switch", "poly_cost", "pwl_cost", *_BUSES}
_DISPATCHED = ("ext_grid", "gen", "sgen")
_LIMITS = ("min_p_mw", "max_p_mw", "min_q_mvar", "max_q_mvar")
_UNLIMITED = 1e9  # MW, by which pandapower denotes no limit
_UNREADABLE = (
    "cannot be read by pandapower as a network; give a file that pandapower.to_json wrote, without "
    "encryption, or a MATPOWER .m file"
)
# tables with a column in_service that are no elements of the network
_NO_ELEMENTS = {"controller", "group", "protection"}


def read_pandapower(path: Path) -> Case:
    """Return the case in a file that `pandapower.to_json` wrote.

    Use trusted files only: `pandapower.from_json` imports the modules that the file names and
    creates objects of their classes, so a file may run code.
    """
    from_json = _pandapower("file_io").from_json
    net = reraise_clean(
        lambda: from_json(str(path)), Exception, lambda _: DataError(f"{path} {_UNREADABLE}")
    )
    if not _is_network(net):  # from_json may return any object
        raise DataError(f"{path} {_UNREADABLE}")
    return pandapower_case(net, name=path.stem)


def published_case(name: str) -> Case:
    """Return a test case of pandapower: a function of `pandapower.networks`, as `case39`."""
    make = getattr(_pandapower("networks"), name, None)
    refused = InputError(
        f"pandapower has no case {name!r}; name a function of pandapower.networks, as case39"
    )
    if not callable(make):
        raise refused
    net = reraise_clean(make, TypeError, lambda _: refused)  # one that needs arguments
    return pandapower_case(net, name=f"pandapower {name}")


def pandapower_case(net: Any, *, name: str) -> Case:
    """Return the case of a pandapower network, with buses numbered by index.

    Loads less static generation, storage and the constant power of wards add up to the demand of a
    bus; external grids, generators and controllable static generators are dispatched. Buses joined
    by closed switches are one, of the least index; a branch behind an open switch is out. `net` is
    not changed.

    Raises `DataError` if a part is not supported (each is named), an index is unknown, a demand is
    missing, a bus is isolated, there is not exactly one reference bus, or pandapower cannot convert
    the network; `MissingPackageError` if pandapower is not installed.

    **Guarantee.** Set points and results, which in a solved network reveal the demand, are not
    read: p_mw, q_mvar and vm_pu of dispatched elements, and all tables of results. No error quotes
    a cell.
    """
    to_ppc = _pandapower("converter.pypower.to_ppc").to_ppc
    _check_network(net, name)
    _check_parts(net, name)
    net, ignored = _for_conversion(net)
    options = {"mode": "opf", "init": "flat", "calculate_voltage_angles": True}
    ppc = reraise_clean(
        lambda: to_ppc(net, check_connectivity=False, voltage_depend_loads=False, **options),
        Exception,
        lambda _: DataError(
            f"{name} cannot be converted by pandapower (to_ppc); pandapower.diagnostic names the "
            "fault of a network"
        ),
    )
    if any(np.any(np.abs(ppc.get(f"branch_{kind}_asym", 0)) > 1e-9) for kind in "rxgb"):
        raise DataError(
            f"{name}: an impedance or a transformer differs by direction or side, which is not "
            "supported; make both ends equal"
        )
    bus, numbers = _buses(net, ppc["bus"][:, :13].copy(), name)
    gen = ppc["gen"][:, :10].copy()
    limits = np.round(gen[:, [3, 4, 8, 9]], 9)  # pandapower widens each by 1e-10
    gen[:, [3, 4, 8, 9]] = np.where(
        np.abs(limits) < _UNLIMITED, limits, np.copysign(np.inf, limits)
    )
    gen[:, 6] = net.sn_mva
    branch, lines = _branches(net, ppc, bus)
    gen[:, 0], bus[:, 0] = numbers[gen[:, 0].astype(int)], numbers
    branch[:, :2] = numbers[branch[:, :2].astype(int)]
    cost = ppc["gencost"] if len(net.poly_cost) + len(net.pwl_cost) else np.zeros((0, 0))
    if cost.size:
        cost[cost[:, 3] == 0, 3] = 1  # generators without costs: the constant 0
    lossy = ("conductances to ground",) if np.any(ppc.get("branch_g", 0)) else ()
    generators = [
        (table, row)
        for kind in net._gen_order
        for table in [kind.removesuffix("_controllable")]
        for row in net[table].index[net._is_elements[kind]]
    ]
    return Case(
        name,
        float(net.sn_mva),
        bus=bus,
        gen=gen,
        branch=branch,
        gencost=cost,
        generators=_elements(generators),
        lines=_elements(lines),
        ignored=(*ignored, *lossy),
        net=net,
    )


def _pandapower(module: str) -> Any:
    """Return a module of pandapower, an optional dependency."""
    try:
        return import_module(f"pandapower.{module}")
    except ImportError as error:
        raise MissingPackageError(
            f"networks of pandapower need that package; {install_command('power[pandapower]')}"
        ) from error


def _is_network(net: Any) -> bool:
    return all(isinstance(getattr(net, kind, None), pd.DataFrame) for kind in _TABLES)


def _unread(net: Any) -> dict[str, Any]:
    """Return the tables of a network that are not read, without results."""
    tables = {kind: table for kind, table in net.items() if isinstance(table, pd.DataFrame)}
    beside = {kind for kind in tables if not kind.startswith(("_", "res_"))} - _TABLES
    return {kind: tables[kind] for kind in sorted(beside)}


def _elements(pairs: list[tuple[str, int]]) -> Elements:
    return Elements(tuple(table for table, _ in pairs), tuple(int(row) for _, row in pairs))


def _flags(table: Any, column: str, *, missing: bool) -> HostArray:
    """Return a column of truth values, with `missing` for empty cells."""
    cells = table[column] if column in table else [None] * len(table)
    return np.array([missing if pd.isna(cell) else bool(cell) for cell in cells], bool)


def _check_network(net: Any, name: str) -> None:
    """Raise unless this is a network with a reference bus, in which every bus is known."""
    if not _is_network(net):
        raise InputError(f"{name} is no pandapower network; give one, as pandapower.from_json does")
    held = [net.ext_grid, net.gen[_flags(net.gen, "slack", missing=False)]]
    if not any(np.any(_flags(table, "in_service", missing=True)) for table in held):
        raise DataError(f"{name}: no reference bus; give an ext_grid, or a gen with slack")
    for kind, columns in _BUSES.items():
        unknown = ~np.all(net[kind][list(columns)].isin(net.bus.index), axis=1)
        if np.any(unknown):
            raise DataError(
                f"{name}: {kind} {net[kind].index[unknown][0]} names a bus that is not in the "
                "table bus; correct it"
            )


def _check_parts(net: Any, name: str) -> None:
    """Raise if elements in service are not supported, naming each kind and a row.

    Fixed generators and controllable loads have set points, which would become public as limits.
    """
    found = []

    def refuse(what: str, table: Any, rows: HostArray) -> None:
        rows = rows & _flags(table, "in_service", missing=True)
        found.extend([f"{what} (row {table.index[rows][0]})"] if np.any(rows) else [])

    for kind, table in _unread(net).items():
        if "in_service" in table and kind not in _NO_ELEMENTS:
            refuse(kind, table, np.ones(len(table), bool))
    for kind in ("load", "storage"):
        refuse(f"controllable {kind}", net[kind], _flags(net[kind], "controllable", missing=False))
    refuse("gen that is not controllable", net.gen, ~_flags(net.gen, "controllable", missing=True))
    resistive = net.switch.closed & (net.switch.et == "b") & (net.switch.z_ohm > 0)
    refuse("switch with an impedance", net.switch, resistive.to_numpy(bool))
    if found:
        raise DataError(
            f"{name}: {', '.join(found)} cannot be taken into account; take it out of service, or "
            "model it by supported elements (docs: a power network in zones)"
        )


def _for_conversion(net: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a copy for conversion, without set points, and descriptions of what is not read.

    Branches with an open end, for which pandapower adds a bus, and costs of elements out of
    service, which it assigns to another generator, are left out.
    """
    net = copy.deepcopy(net)
    beside = [f"the table {kind}" for kind, table in _unread(net).items() if len(table)]
    for kind, table in _unread(net).items():
        net[kind] = table.iloc[:0]
    net.pop("q_capability_characteristic", None)
    net.bus["in_service"] = _flags(net.bus, "in_service", missing=True)
    serving = net.bus.index[net.bus.in_service]
    opened = net.switch[~_flags(net.switch, "closed", missing=True)]
    for kind, columns in _BUSES.items():
        at = np.all(net[kind][list(columns)].isin(serving), axis=1)
        shut = opened.element[opened.et == kind[0]] if kind in {"line", "trafo"} else ()
        used = _flags(net[kind], "in_service", missing=True) & ~net[kind].index.isin(shut)
        net[kind]["in_service"] = used & at.to_numpy()
    for kind in _DISPATCHED:
        net[kind] = net[kind].reindex(columns=net[kind].columns.union(_LIMITS, sort=False))
    steered = _flags(net.sgen, "controllable", missing=False)
    net["sgen"] = net.sgen.assign(controllable=steered)
    net.sgen.loc[steered, ["p_mw", "q_mvar"]] = 0.0
    net["gen"] = net.gen.assign(controllable=True, p_mw=0.0, vm_pu=1.0)
    net["ext_grid"] = net.ext_grid.assign(controllable=True, vm_pu=1.0, va_degree=0.0)
    used = {(kind, row) for kind in _DISPATCHED for row in net[kind].index[net[kind].in_service]}
    used -= {("sgen", row) for row in net.sgen.index[~steered]}
    for kind in ("poly_cost", "pwl_cost"):
        pairs = list(zip(net[kind].et, net[kind].element.astype(int), strict=True))
        beside += [f"costs of {et} {row}" for et, row in pairs if (et, row) not in used]
        net[kind] = net[kind][np.array([pair in used for pair in pairs], bool)]
    bent = [name for name in net.load if name.startswith(("const_z", "const_i"))]
    if np.any(net.load[bent].fillna(0) != 0):
        beside.append("voltage dependence of loads (const_z, const_i)")
    return net, tuple(beside)


def _buses(net: Any, bus: HostArray, name: str) -> tuple[HostArray, HostArray]:
    """Return the rows of buses with their limits, and the number of each: its least index."""
    serving = net.bus.index[net.bus.in_service].to_numpy()
    row = net._pd2ppc_lookups["bus"][serving]
    if np.any(alone := row >= len(bus)):
        raise DataError(
            f"{name}: bus {serving[alone][0]} is in service and joined to no other; take it out of "
            "service"
        )
    if np.sum(bus[:, 1] == 3) != 1:
        raise DataError(
            f"{name}: {np.sum(bus[:, 1] == 3)} reference buses (ext_grid, gen.slack); keep one"
        )
    numbers = np.full(len(bus), np.iinfo(int).max)
    np.minimum.at(numbers, row, serving)
    if np.any(missing := np.any(np.isnan(bus[:, 2:4]), axis=1)):
        raise DataError(f"{name}: a demand of bus {numbers[missing][0]} is missing; give it")
    # pandapower takes the limits of one of the joined buses, and the set point of an external grid
    none = {"max_vm_pu": 2.0, "min_vm_pu": 0.0}
    limits = net.bus.loc[serving].reindex(columns=list(none)).fillna(none).to_numpy(float)
    bus[:, 11], bus[:, 12] = np.inf, -np.inf
    np.minimum.at(bus[:, 11], row, limits[:, 0])
    np.maximum.at(bus[:, 12], row, limits[:, 1])
    return bus, numbers


def _branches(net: Any, ppc: Any, bus: HostArray) -> tuple[HostArray, list[tuple[str, int]]]:
    """Return the branches and their origin, without those between joined buses.

    The charging of a transformer is moved to its buses, as in the pi model: a reader that takes a
    branch with charging and a ratio for a T model, as pandapower does, would change its reactance
    again.
    """
    pairs = [(kind, row) for kind in net._pd2ppc_lookups["branch"] for row in net[kind].index]
    pairs = [pair for pair, used in zip(pairs, ppc["internal"]["branch_is"], strict=True) if used]
    branch = np.real(ppc["branch"][:, :13]).copy()
    branch[:, 5] = np.nan_to_num(branch[:, 5])
    ratio = np.array([kind == "trafo" for kind, _ in pairs], bool)
    half = net.sn_mva * branch[ratio, 4] / 2
    for side, share in ((0, half / branch[ratio, 8] ** 2), (1, half)):
        np.add.at(bus[:, 5], branch[ratio, side].astype(int), share)
    branch[ratio, 4], branch[~ratio, 8] = 0.0, 0.0
    apart = branch[:, 0] != branch[:, 1]
    return branch[apart], [pair for pair, used in zip(pairs, apart, strict=True) if used]


PREFIX = "pandapower:"
_MOST_BYTES = 100_000_000


def read_case(path: Path | str) -> Case:
    """Return the case in a file: MATPOWER's `.m`, or a pandapower network in JSON.

    In a `.m` file code is not run, so a matrix must hold plain numbers. JSON is read by pandapower,
    which may run code: use trusted files only (`read_pandapower`).

    **Guarantee.** The error about a demand that is no number reveals that a cell is malformed, and
    which; it does not quote the cell.
    """
    what = "name a MATPOWER .m file, or JSON that pandapower wrote"
    if "\n" in str(path):
        raise InputError("read_case is given a text of several lines, which is no path; " + what)
    path = Path(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path} is larger than any case file; {what}")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason}); {what}") from error
    if path.suffix.lower() == ".json" or text.lstrip("\ufeff \t\r\n").startswith("{"):
        return read_pandapower(path)
    return parse_case(text, name=path.stem, source=str(path))


def chosen_case(choice: str) -> Case:
    """Return the bundled case of that name, `pandapower:NAME`, or the case in that file.

    Examples
    --------
    >>> len(chosen_case("case14").bus)
    14
    """
    if choice in BUNDLED:
        return bundled_case(choice)
    if choice.startswith(PREFIX):
        return published_case(choice.removeprefix(PREFIX))
    if not Path(choice).is_file():
        raise DataError(
            f"{choice} is neither a bundled case ({', '.join(BUNDLED)}) nor a file; name a "
            f"MATPOWER .m file, JSON that pandapower wrote, or {PREFIX}NAME, a case of pandapower"
        )
    return read_case(Path(choice))


def is_published(choice: str) -> bool:
    """Return whether a choice names a published case, of this package or pandapower."""
    return choice in BUNDLED or choice.startswith(PREFIX)
