"""A pandapower network as a case: what it can be read as, and what is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tacit.errors import DataError
from tacit.typing import HostArray
from tacit_power.cases.case import Case, Elements
from tacit_power.cases.pandapower_branches import Branches, impedances_of, lines_of, transformers_of
from tacit_power.cases.pandapower_costs import gencost_of
from tacit_power.cases.tables import Net, Table

_READ = frozenset(
    {"bus", "load", "sgen", "storage", "ward", "shunt", "ext_grid", "gen", "switch", "line"}
    | {"trafo", "impedance", "poly_cost", "pwl_cost"}
)
_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "trafo3w": "three-winding transformers",
        "dcline": "HVDC lines",
        "line_dc": "DC lines",
        "bus_dc": "DC buses",
        "load_dc": "DC loads",
        "source_dc": "DC sources",
        "vsc": "converters",
        "b2b_vsc": "converters",
        "xward": "extended wards",
        "motor": "motors",
        "svc": "static VAr compensators",
        "ssc": "static synchronous compensators",
        "tcsc": "series capacitors with thyristors",
        "asymmetric_load": "loads of three unequal phases",
        "asymmetric_sgen": "generation of three unequal phases",
    }
)
# what has a column in_service and is no element of the network
_NO_ELEMENTS = frozenset({"controller", "group", "protection"})
_SWITCHED = frozenset({"b", "l", "t", "t3"})
_LOADED = ("load", "sgen", "storage")  # sgen with its sign turned


class _Buses(NamedTuple):
    """The buses in service, those that closed switches join as one.

    Attributes
    ----------
    numbers
        `(N,)`: the least index of each.
    place
        Where in `numbers` every bus in service is, by its index.
    known
        All indices of the file.
    """

    numbers: Int[HostArray, " N"]
    place: Mapping[int, int]
    known: frozenset[int]

    def at(self, table: Table, column: str = "bus") -> Int[HostArray, " R"]:
        """Return the places of the buses that a column names, -1 for those out of service."""
        named = table.places(column)
        for row, bus in zip(table.index.tolist(), named.tolist(), strict=True):
            if bus not in self.known:
                raise DataError(
                    f"{table.where}: row {row} names bus {bus}, which is not in the table bus; "
                    "correct the file"
                )
        return np.array([self.place.get(bus, -1) for bus in named.tolist()], int)


def case_of_net(net: Net, *, name: str) -> Case:
    """Return the case of a pandapower network, buses numbered by their indices.

    What stands at a bus adds up: loads, less static generation, with storage and the constant power
    of wards, each with its scaling, is its demand. External grids, generators and controllable
    static generators are what is dispatched. Buses that closed switches join are one, of the least
    index; a line or transformer behind an open switch is out.

    Raises
    ------
    DataError
        If a part cannot be taken into account (each kind is named), an index is unknown, a number
        is missing, or there is not exactly one bus that holds the angle.

    Notes
    -----
    **Guarantee.** Set points and results, which tell the demand of a network that was solved, are
    not read: p_mw, q_mvar and vm_pu of what is dispatched, and every table of results. No cell is
    quoted in a refusal.
    """
    _check_tables(net)
    out = _open_branches(net)
    buses = _joined(net)
    bus = _bus_matrix(net, buses)
    gen, generators = _dispatched(net, buses)
    _check_reference(net, buses, bus)
    branch, lines, notes = _branch_matrix(net, buses, out)
    _move_charging(bus, branch, net.sn_mva)
    gencost, unread = gencost_of(net, generators)
    return Case(
        name,
        net.sn_mva,
        bus=bus,
        gen=gen,
        branch=branch,
        gencost=gencost,
        generators=generators,
        lines=lines,
        ignored=(*_unread(net), *notes, *unread),
        net=net,
    )


def _check_tables(net: Net) -> None:
    """Raise if a table is in service that is not read, naming each kind and its rows."""
    found = []
    for name, table in net.tables.items():
        if name in _READ and np.any(table.index < 0):
            raise DataError(f"{table.where} has rows that are named by no index; number them")
        element = name in _REFUSED or "in_service" in table.columns
        if name in _READ | _NO_ELEMENTS or not element:
            continue
        serving = table.index[table.flags("in_service", missing=True)].tolist()
        if serving:
            kind = f"{_REFUSED[name]}; " if name in _REFUSED else ""
            rows = ", ".join(map(str, serving[:5])) + (" ..." if len(serving) > 5 else "")
            found.append(f"{name} ({kind}rows {rows})")
    found += [
        f"{name} (controllable; row {table.index[steered][0]})"
        for name in ("load", "storage")
        for table in [_serving(net.table(name))]
        if np.any(steered := table.flags("controllable", missing=False))
    ]
    if found:
        raise DataError(
            f"{net.source}: {', '.join(found)} cannot be taken into account; take it out of "
            "service, or model it by what is read (docs: a power network in zones)"
        )
    if not len(net.table("bus")):
        raise DataError(f"{net.source} has no buses; give a network")


def _serving(table: Table) -> Table:
    return table.kept(table.flags("in_service", missing=True))


def _open_branches(net: Net) -> Mapping[str, frozenset[int]]:
    """Return the lines and transformers with an open switch at an end."""
    switch, kinds = net.table("switch"), {"l": "line", "t": "trafo"}
    named, opened = switch.texts("et"), ~switch.flags("closed", missing=True)
    odd = [row for row, et in zip(switch.index, named, strict=True) if et not in _SWITCHED]
    if odd:
        raise DataError(f"{switch.where}: row {odd[0]} is at no bus, line or transformer (et)")
    element = switch.places("element").tolist()
    return {
        kinds[et]: frozenset(
            e
            for e, one, is_open in zip(element, named, opened, strict=True)
            if one == et and is_open
        )
        for et in kinds
    }


def _joined(net: Net) -> _Buses:
    """Return the buses, joined where switches without impedance are closed."""
    table = net.table("bus")
    serving = table.index[table.flags("in_service", missing=True)].tolist()
    at = {bus: k for k, bus in enumerate(serving)}
    alone = _Buses(np.array(serving, int), at, frozenset(table.index.tolist()))
    switch = net.table("switch")
    between = np.array([et == "b" for et in switch.texts("et")], bool)
    switch = switch.kept(between & switch.flags("closed", missing=True))
    one, other = alone.at(switch), alone.at(switch, "element")
    used = (one >= 0) & (other >= 0)
    if np.any(blocked := used & (switch.numbers("z_ohm", 0.0) > 0)):
        raise DataError(
            f"{switch.where}: row {switch.index[blocked][0]} has an impedance (z_ohm above 0), "
            "which is not supported; set it to 0, or make it an impedance"
        )
    links = coo_array((np.ones(used.sum()), (one[used], other[used])), shape=(len(at), len(at)))
    groups, label = connected_components(links, directed=False) if at else (0, np.zeros(0, int))
    least = np.full(groups, np.iinfo(int).max)
    np.minimum.at(least, label, np.array(serving, int))
    order = np.argsort(np.argsort(least))
    place = {bus: int(order[label[k]]) for bus, k in at.items()}
    return _Buses(np.sort(least), place, alone.known)


def _bus_matrix(net: Net, buses: _Buses) -> Float[HostArray, "N 13"]:
    table = _serving(net.table("bus"))
    at = np.array([buses.place[k] for k in table.index.tolist()], int)
    bus = np.zeros((len(buses.numbers), 13))
    bus[:, 0], bus[:, [1, 6, 7, 10]] = buses.numbers, 1.0
    level = table.numbers("vn_kv")
    if np.any(level <= 0):
        raise DataError(f"{table.where}: vn_kv of row {table.index[level <= 0][0]} is not above 0")
    bus[at[::-1], 9] = level[::-1]
    # as in pandapower: no limit is one of 0 to 2; of joined buses the narrower one holds
    bus[:, 11], bus[:, 12] = np.inf, -np.inf
    np.minimum.at(bus[:, 11], at, table.numbers("max_vm_pu", 2.0))
    np.maximum.at(bus[:, 12], at, table.numbers("min_vm_pu", 0.0))
    for name in _LOADED:
        _add_demand(bus, buses, _uncontrolled(net.table(name)), -1.0 if name == "sgen" else 1.0)
    _add_shunts(net, bus, buses)
    return bus


def _uncontrolled(table: Table) -> Table:
    serving = _serving(table)
    return serving.kept(~serving.flags("controllable", missing=False))


def _add_demand(bus: HostArray, buses: _Buses, table: Table, sign: float) -> None:
    at, scaling = buses.at(table), sign * table.numbers("scaling", 1.0)
    used = at >= 0
    for column, name in ((2, "p_mw"), (3, "q_mvar")):
        with np.errstate(invalid="ignore", over="ignore"):  # `bounded` makes such a demand finite
            power = table.numbers(name) * scaling
            np.add.at(bus[:, column], at[used], power[used])


def _add_shunts(net: Net, bus: HostArray, buses: _Buses) -> None:
    shunt = _serving(net.table("shunt"))
    if np.any(tabled := shunt.flags("step_dependency_table", missing=False)):
        raise DataError(
            f"{shunt.where}: row {shunt.index[tabled][0]} has steps given by a table "
            "(step_dependency_table), which is not supported; write its power out"
        )
    at = buses.at(shunt)
    used = at >= 0
    level = bus[at, 9]
    rated = shunt.numbers("vn_kv", np.nan)
    steps = shunt.numbers("step", 1.0) * (level / np.where(np.isnan(rated), level, rated)) ** 2
    np.add.at(bus[:, 4], at[used], (shunt.numbers("p_mw") * steps)[used])
    np.add.at(bus[:, 5], at[used], (-shunt.numbers("q_mvar") * steps)[used])
    ward = _serving(net.table("ward"))
    at = buses.at(ward)
    used = at >= 0
    parts = ((2, "ps_mw", 1.0), (3, "qs_mvar", 1.0), (4, "pz_mw", 1.0), (5, "qz_mvar", -1.0))
    for column, name, sign in parts:
        np.add.at(bus[:, column], at[used], sign * ward.numbers(name)[used])


def _dispatched(net: Net, buses: _Buses) -> tuple[HostArray, Elements]:
    """Return the matrix of generators and where its rows stand."""
    rows: list[HostArray] = []
    tables: list[str] = []
    places: list[int] = []
    for name in ("ext_grid", "gen", "sgen"):
        table = _serving(net.table(name))
        steered = table.flags("controllable", missing=name != "sgen")
        if name == "gen" and not np.all(steered):
            raise DataError(
                f"{table.where}: row {table.index[~steered][0]} is not controllable, so its output "
                "would be public; make it a static generator (sgen), which counts as demand, or "
                "controllable"
            )
        table = table.kept(steered) if name == "sgen" else table
        at = buses.at(table)
        table, at = table.kept(at >= 0), at[at >= 0]
        gen = np.zeros((len(at), 10))
        gen[:, 0], gen[:, [5, 7]], gen[:, 6] = buses.numbers[at], 1.0, net.sn_mva
        for column, limit, none in (
            (3, "max_q_mvar", np.inf),
            (4, "min_q_mvar", -np.inf),
            (8, "max_p_mw", np.inf),
            (9, "min_p_mw", -np.inf),
        ):
            gen[:, column] = table.numbers(limit, none)
        rows.append(gen)
        tables += [name] * len(at)
        places += table.index.tolist()
    return np.concatenate(rows), Elements(tuple(tables), tuple(places))


def _check_reference(net: Net, buses: _Buses, bus: HostArray) -> None:
    """Mark the bus whose angle is held; raise unless there is exactly one."""
    gen = _serving(net.table("gen"))
    slack = gen.kept(gen.flags("slack", missing=False))
    held = np.concatenate([buses.at(_serving(net.table("ext_grid"))), buses.at(slack)])
    held = np.unique(held[held >= 0])
    if len(held) != 1:
        what = (
            "no ext_grid and no gen with slack" if not len(held) else "angles held at several buses"
        )
        raise DataError(
            f"{net.source}: there is {what} in service (ext_grid, gen.slack); keep one for the "
            "network, and make others generators"
        )
    bus[held, 1] = 3.0


def _branch_matrix(
    net: Net, buses: _Buses, out: Mapping[str, frozenset[int]]
) -> tuple[HostArray, Elements, tuple[str, ...]]:
    level = dict(zip(*_levels(net), strict=True))
    rows, tables, places, lossy, short = [], [], [], [], 0
    for name, (one, other) in _ENDS.items():
        table = _serving(net.table(name))
        ends = np.stack([buses.at(table, one), buses.at(table, other)], axis=1)
        shut = np.isin(table.index, list(out.get(name, ())))
        used: Bool[HostArray, " L"] = np.all(ends >= 0, axis=1) & ~shut
        short += int(np.sum(used & (ends[:, 0] == ends[:, 1])))
        used &= ends[:, 0] != ends[:, 1]
        table, ends = table.kept(used), ends[used]
        found = _branches(net, table, level)
        branch = np.zeros((len(table), 13))
        branch[:, :2] = buses.numbers[ends]
        branch[:, [2, 3, 4, 5, 8, 9]] = found.values
        branch[:, 10:] = 1.0, -360.0, 360.0
        rows.append(branch)
        tables += [name] * len(table)
        places += table.index.tolist()
        lossy += [name] if found.lossy else []
    notes = [f"conductances to ground of {', '.join(lossy)}"] if lossy else []
    notes += [f"{short} lines between buses that switches join"] if short else []
    return np.concatenate(rows), Elements(tuple(tables), tuple(places)), tuple(notes)


def _move_charging(bus: HostArray, branch: HostArray, base_mva: float) -> None:
    """Move the charging of transformers to their buses, where the pi model has it.

    It is the same network; but whoever reads a branch with charging and a ratio as a transformer of
    the T model, as pandapower does, would change its reactance once more.
    """
    moved = branch[:, 8] != 0
    place = {int(number): k for k, number in enumerate(bus[:, 0])}
    half = base_mva * branch[moved, 4] / 2
    for side, share in ((0, half / branch[moved, 8] ** 2), (1, half)):
        np.add.at(bus[:, 5], [place[int(k)] for k in branch[moved, side]], share)
    branch[moved, 4] = 0.0


_ENDS = {
    "line": ("from_bus", "to_bus"),
    "trafo": ("hv_bus", "lv_bus"),
    "impedance": ("from_bus", "to_bus"),
}


def _levels(net: Net) -> tuple[list[int], list[float]]:
    table = net.table("bus")
    return table.index.tolist(), table.numbers("vn_kv").tolist()


def _branches(net: Net, table: Table, level: Mapping[int, float]) -> Branches:
    name = table.where.rsplit(" ", 1)[-1]
    one, other = _ENDS[name]
    ends = [[level[k] for k in table.places(column).tolist()] for column in (one, other)]
    volts = np.array(ends, float).reshape(2, -1).T
    if name == "line":
        return lines_of(net, table, volts[:, 0])
    return transformers_of(net, table, volts) if name == "trafo" else impedances_of(net, table)


def _unread(net: Net) -> tuple[str, ...]:
    """Return what the file holds beside the network, and what of a load is left out."""
    beside = sorted(set(net.tables) - _READ - set(_REFUSED))
    load = _serving(net.table("load"))
    shares = [name for name in load.columns if name.startswith(("const_z", "const_i"))]
    bent = any(np.any(load.numbers(name, 0.0)) for name in shares)
    notes = ("how loads depend on the voltage (const_z, const_i)",) if bent else ()
    return (*(f"the table {name}" for name in beside), *notes)
