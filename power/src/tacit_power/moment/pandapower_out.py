"""A pandapower network in JSON with the answers as loads and the dispatch as generation.

Written as data, like it is read (`tacit_power.cases.tables`); pandapower need not be installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from tacit.typing import HostArray
from tacit_power.cases.case import Case
from tacit_power.cases.tables import Net, Table
from tacit_power.grids.network import generators_in_service, lines_in_service
from tacit_power.moment.opf import OpfStudy

_FORMAT = "3.0.0"  # the oldest that a pandapower of version 3 need not rework
_UNLIMITED = 99999.0  # MVA or kA, as pandapower's own converter has it
_F_HZ = 50.0
# what is public of a network in pandapower's tables: places (int), numbers (float), flags (bool),
# words of a fixed list (str). Names, coordinates, set points and results are not copied.
_PUBLIC: Mapping[str, str] = {
    "bus": "vn_kv in_service? max_vm_pu min_vm_pu",
    "line": "from_bus# to_bus# length_km r_ohm_per_km x_ohm_per_km c_nf_per_km g_us_per_km "
    "max_i_ka df parallel# in_service? max_loading_percent",
    "trafo": "hv_bus# lv_bus# sn_mva vn_hv_kv vn_lv_kv vk_percent vkr_percent pfe_kw i0_percent "
    "shift_degree tap_side! tap_neutral tap_min tap_max tap_step_percent tap_step_degree tap_pos "
    "tap_changer_type! tap_phase_shifter? tap2_side! tap2_neutral tap2_min tap2_max "
    "tap2_step_percent tap2_step_degree tap2_pos tap2_changer_type! parallel# df in_service? "
    "max_loading_percent",
    "impedance": "from_bus# to_bus# rft_pu xft_pu rtf_pu xtf_pu gf_pu bf_pu gt_pu bt_pu sn_mva "
    "in_service?",
    "switch": "bus# element# et! closed? z_ohm",
    "shunt": "bus# p_mw q_mvar vn_kv step# max_step# in_service?",
    "ward": "bus# pz_mw qz_mvar in_service?",
}
_WORDS = frozenset({"hv", "lv", "Ratio", "Symmetrical", "Ideal", "b", "l", "t", "t3"})
_KINDS = {"#": "int64", "?": "bool", "!": "object"}

Columns = dict[str, Sequence[object]]


def pandapower_json(study: OpfStudy, case: Case) -> str:
    """Return the network as `pandapower.from_json` reads it, rows named as in the file given.

    A network of pandapower keeps its buses, lines, transformers and switches; of a MATPOWER case
    buses keep their numbers, and lines, transformers and generators their row numbers. Every bus
    has one load, so that none tells where there is demand. pandapower has no limits of angle
    differences, and no constant for costs in pieces.

    Notes
    -----
    **Guarantee.** Of the case columns that are public are copied (`_PUBLIC`), which are those that
    the network is read from; loads, generation, voltages and angles are the answers and what was
    computed from them.
    """
    grid = _copied(case.net) if case.net is not None else _converted(case)
    tables: dict[str, tuple[list[int], Columns]] = {**grid, "load": _loads(study, case)}
    tables |= _generators(study, case)
    tables |= _costs(case)
    parts: dict[str, object] = {name: _frame(*table) for name, table in tables.items() if table[0]}
    parts |= {
        "version": _FORMAT,
        "format_version": _FORMAT,
        "name": "",
        "f_hz": case.net.f_hz if case.net else _F_HZ,
        "sn_mva": case.base_mva,
    }
    outer = {"_module": "pandapower.auxiliary", "_class": "pandapowerNet", "_object": parts}
    return json.dumps(outer, allow_nan=False, indent=1) + "\n"


def _frame(index: list[int], columns: Columns) -> dict[str, object]:
    """Return a table in pandas' split form; what is no finite number is left empty."""
    cells = [[_cell(value) for value in column] for column in columns.values()]
    split = {"columns": list(columns), "index": index, "data": list(zip(*cells, strict=True))}
    return {
        "_module": "pandas.core.frame",
        "_class": "DataFrame",
        "_object": json.dumps(split, allow_nan=False),
        "orient": "split",
        "dtype": {name: _dtype(column) for name, column in columns.items()},
        "is_multiindex": False,
        "is_multicolumn": False,
    }


def _cell(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _dtype(column: Sequence[object]) -> str:
    kinds = {type(value) for value in column}
    known = {bool: "bool", int: "int64", float: "float64"}
    return known.get(kinds.pop(), "object") if len(kinds) == 1 else "object"


def _copied(net: Net) -> dict[str, tuple[list[int], Columns]]:
    """Return the public columns of a pandapower network."""
    tables: dict[str, tuple[list[int], Columns]] = {}
    for name, columns in _PUBLIC.items():
        table = net.table(name)
        kept: Columns = {
            column.rstrip("#?!"): _public(table, column)
            for column in columns.split()
            if column.rstrip("#?!") in table.columns
        }
        if name == "ward":
            kept |= {"ps_mw": [0.0] * len(table), "qs_mvar": [0.0] * len(table)}
        tables[name] = (table.index.tolist(), kept)
    return tables


def _public(table: Table, column: str) -> list[object]:
    name = column.rstrip("#?!")
    if column.endswith("#"):
        values: list[object] = table.numbers(name, 1.0).astype(int).tolist()
    elif column.endswith("?"):
        # of `closed` and `in_service` nothing means yes, of the kind of a tap changer no
        values = table.flags(name, missing=name != "tap_phase_shifter").tolist()
    elif column.endswith("!"):
        values = [word if word in _WORDS else None for word in table.texts(name)]
    else:
        values = table.numbers(name, np.nan).tolist()
    return values


def _converted(case: Case) -> dict[str, tuple[list[int], Columns]]:
    """Return the tables of a MATPOWER case.

    A branch between buses of one voltage, without ratio and shift, is a line of 1 km. Another one
    is a transformer with its ratio in the rated voltage of its from side; its charging, which a
    transformer of pandapower cannot have, stands as shunts at its buses.
    """
    bus = case.bus
    level = np.where(bus[:, 9] > 0, bus[:, 9], 1.0)
    place = {int(number): k for k, number in enumerate(bus[:, 0])}
    rows = np.flatnonzero(lines_in_service(case))
    branch = case.branch[rows]
    ends = np.array([[place[int(k)] for k in pair] for pair in branch[:, :2]], int).reshape(-1, 2)
    ratio = np.where(branch[:, 8] == 0, 1.0, branch[:, 8])
    volts = level[ends]
    plain = (volts[:, 0] == volts[:, 1]) & (ratio == 1) & (branch[:, 9] == 0)
    shunt = bus[:, 4:6].copy()
    half = case.base_mva * branch[~plain, 4] / 2
    np.add.at(shunt[:, 1], ends[~plain, 0], half / ratio[~plain] ** 2)
    np.add.at(shunt[:, 1], ends[~plain, 1], half)
    used = np.flatnonzero(np.any(shunt != 0, axis=1))
    numbers = case.bus[:, 0].astype(int)
    return {
        "bus": (
            numbers.tolist(),
            {
                "vn_kv": level.tolist(),
                "in_service": (bus[:, 1] != 4).tolist(),
                "max_vm_pu": bus[:, 11].tolist(),
                "min_vm_pu": bus[:, 12].tolist(),
            },
        ),
        "line": _lines(rows[plain], branch[plain], volts[plain, 0], case.base_mva),
        "trafo": _transformers(rows[~plain], branch[~plain], volts[~plain], case.base_mva),
        "shunt": (
            used.tolist(),
            {
                "bus": numbers[used].tolist(),
                "p_mw": shunt[used, 0].tolist(),
                "q_mvar": (-shunt[used, 1]).tolist(),
                "vn_kv": level[used].tolist(),
                "step": [1] * len(used),
                "max_step": [1] * len(used),
                "in_service": [True] * len(used),
            },
        ),
    }


def _lines(
    rows: HostArray, branch: HostArray, level: HostArray, base_mva: float
) -> tuple[list[int], Columns]:
    ohms, count = level**2 / base_mva, len(rows)
    limited = (branch[:, 5] > 0) & np.isfinite(branch[:, 5])
    current = np.where(limited, branch[:, 5] / (np.sqrt(3) * level), _UNLIMITED)
    return (rows + 1).tolist(), {
        "from_bus": branch[:, 0].astype(int).tolist(),
        "to_bus": branch[:, 1].astype(int).tolist(),
        "length_km": [1.0] * count,
        "r_ohm_per_km": (branch[:, 2] * ohms).tolist(),
        "x_ohm_per_km": (branch[:, 3] * ohms).tolist(),
        "c_nf_per_km": (branch[:, 4] / (2e-9 * np.pi * _F_HZ * ohms)).tolist(),
        "g_us_per_km": [0.0] * count,
        "max_i_ka": current.tolist(),
        "df": [1.0] * count,
        "parallel": [1] * count,
        "in_service": [True] * count,
        "max_loading_percent": [100.0] * count,
    }


def _transformers(
    rows: HostArray, branch: HostArray, level: HostArray, base_mva: float
) -> tuple[list[int], Columns]:
    count = len(rows)
    limited = (branch[:, 5] > 0) & np.isfinite(branch[:, 5])
    rated = np.where(limited, branch[:, 5], _UNLIMITED)
    ratio = np.where(branch[:, 8] == 0, 1.0, branch[:, 8])
    size = np.where(branch[:, 3] < 0, -1.0, 1.0) * np.hypot(branch[:, 2], branch[:, 3])
    return (rows + 1).tolist(), {
        "hv_bus": branch[:, 0].astype(int).tolist(),
        "lv_bus": branch[:, 1].astype(int).tolist(),
        "sn_mva": rated.tolist(),
        "vn_hv_kv": (level[:, 0] * ratio).tolist(),
        "vn_lv_kv": level[:, 1].tolist(),
        "vk_percent": (100 * size * rated / base_mva).tolist(),
        "vkr_percent": (100 * branch[:, 2] * rated / base_mva).tolist(),
        "pfe_kw": [0.0] * count,
        "i0_percent": [0.0] * count,
        "shift_degree": branch[:, 9].tolist(),
        "parallel": [1] * count,
        "df": [1.0] * count,
        "in_service": [True] * count,
        "max_loading_percent": [100.0] * count,
    }


def _loads(study: OpfStudy, case: Case) -> tuple[list[int], Columns]:
    network, base = study.proposal.network.network, case.base_mva
    count = network.buses
    none: Columns = {
        f"const_{kind}_{part}_percent": [0.0] * count for kind in "zi" for part in "pq"
    }
    return list(range(count)), {
        "bus": network.numbers.tolist(),
        "p_mw": (study.served * base).tolist(),
        "q_mvar": (study.answers[:, 1] * base).tolist(),
        **none,
        "scaling": [1.0] * count,
        "in_service": [True] * count,
        "controllable": [False] * count,
    }


def _elements(case: Case) -> list[tuple[str, int]]:
    """Return table and row of every generator in service.

    Of a MATPOWER case the first generator at the reference bus is the external grid.
    """
    serving = np.flatnonzero(generators_in_service(case)).tolist()
    if case.generators is not None:
        return [(case.generators.tables[k], case.generators.rows[k]) for k in serving]
    held = case.bus[case.bus[:, 1] == 3, 0]
    at = [k for k in serving if case.gen[k, 0] in held] or serving
    return [("ext_grid" if k == at[0] else "gen", k + 1) for k in serving]


def _generators(study: OpfStudy, case: Case) -> dict[str, tuple[list[int], Columns]]:
    gen = case.gen[generators_in_service(case)]
    power = np.zeros((len(gen), 2)) if study.dispatch is None else study.dispatch.generation
    elements = _elements(case)
    tables = {}
    for name in ("ext_grid", "gen", "sgen"):
        at = [k for k, (table, _) in enumerate(elements) if table == name]
        columns: Columns = {
            "bus": gen[at, 0].astype(int).tolist(),
            "max_p_mw": gen[at, 8].tolist(),
            "min_p_mw": gen[at, 9].tolist(),
            "max_q_mvar": gen[at, 3].tolist(),
            "min_q_mvar": gen[at, 4].tolist(),
            "in_service": [True] * len(at),
            "controllable": [True] * len(at),
        }
        if name == "ext_grid":
            columns |= {"va_degree": [0.0] * len(at), "slack_weight": [1.0] * len(at)}
        else:
            columns |= {"p_mw": power[at, 0].tolist(), "scaling": [1.0] * len(at)}
            columns |= {"sn_mva": [math.nan] * len(at)}
        if name == "sgen":
            columns |= {"q_mvar": power[at, 1].tolist(), "type": [None] * len(at)}
        else:
            columns |= {"vm_pu": [1.0] * len(at)}
        if name == "gen":
            slack = _slack(case, elements, at)
            columns |= {"slack": slack, "slack_weight": [float(one) for one in slack]}
        tables[name] = ([elements[k][1] for k in at], columns)
    return tables


def _slack(case: Case, elements: list[tuple[str, int]], at: list[int]) -> list[bool]:
    """Return which generators hold the angle: those at the reference bus, without external grid."""
    held = case.bus[case.bus[:, 1] == 3, 0]
    gen = case.gen[generators_in_service(case)]
    alone = all(table != "ext_grid" for table, _ in elements)
    return [bool(alone and gen[k, 0] in held) for k in at]


def _costs(case: Case) -> dict[str, tuple[list[int], Columns]]:
    serving = np.flatnonzero(generators_in_service(case)).tolist()
    smooth: list[tuple[str, int, HostArray]] = []
    bent: list[tuple[str, int, list[list[float]]]] = []
    for (table, place), row in zip(_elements(case), case.gencost[serving], strict=True):
        count = int(row[3])
        if row[0] == 2:
            powers = np.concatenate([np.zeros(3), row[4 : 4 + count]])[-3:]
            smooth.append((table, place, powers))
        else:
            points = row[4 : 4 + 2 * count].reshape(-1, 2).tolist()
            pieces = [[a, c, (d - b) / (c - a)] for (a, b), (c, d) in pairwise(points)]
            bent.append((table, place, pieces))
    names = ("cp2_eur_per_mw2", "cp1_eur_per_mw", "cp0_eur")
    columns: Columns = {
        "element": [place for _, place, _ in smooth],
        "et": [table for table, _, _ in smooth],
        **{name: [float(row[k]) for _, _, row in smooth] for k, name in enumerate(names)},
        **{f"cq{k}_eur{unit}": [0.0] * len(smooth) for k, unit in enumerate(_PER_MVAR)},
    }
    pieces_of: Columns = {
        "power_type": ["p"] * len(bent),
        "element": [place for _, place, _ in bent],
        "et": [table for table, _, _ in bent],
        "points": [points for _, _, points in bent],
    }
    return {
        "poly_cost": (list(range(len(smooth))), columns),
        "pwl_cost": (list(range(len(bent))), pieces_of),
    }


_PER_MVAR = ("", "_per_mvar", "_per_mvar2")
