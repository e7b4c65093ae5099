"""An optimal power flow as files: a MATPOWER case, result tables of pandapower, tables in CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from taciturn.errors import InputError
from taciturn.typing import HostArray
from taciturn_power.cases.case import Case, Elements
from taciturn_power.dispatch.series import clock
from taciturn_power.dispatch.study import DayStudy, OpfStudy
from taciturn_power.grids.network import Network, generators_in_service, lines_in_service
from taciturn_power.grids.zones import Zones, ties, zones_of
from taciturn_power.models.dispatch import Dispatch, binding_lines

_BUS = "bus_i type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin"
_GEN = "bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin"
_HEADS = {
    False: "demands are noised answers of their owners; generation is dispatched for these",
    True: "active demands are noised answers, moved to the nearest that have a dispatch",
}
_BRANCH = "fbus tbus r x b rateA rateB rateC ratio angle status angmin angmax"


def exported(study: OpfStudy, case: Case) -> dict[str, str]:
    """Return the files by name.

    Buses, lines and generators are named as in the file that was given: MATPOWER's bus numbers and
    row numbers from 1, pandapower's tables and indices.

    Notes
    -----
    **Guarantee.** Of the case only what is public is copied: limits, impedances, shunts, voltage
    levels, areas. Its demands are replaced by the answers, and what a solved case says of its
    state (Pg, Qg, Vg, Vm, Va), which tells the demand, by the dispatch.
    """
    network = study.proposal.network.network
    zones = study.proposal.partition()
    buses = demand_columns(network, zones, study.answers, study.noise)
    if study.dispatch is not None:
        buses |= state_columns(network, study.dispatch, study.served)
    tables = {"buses.csv": _table(buses)}
    if study.dispatch is not None:
        lines = _lines(study.dispatch, network, case)
        named = _named(case.generator_rows, generators_in_service(case))
        tables |= {
            "lines.csv": lines,
            "generators.csv": _table({**named, **generator_columns(study.dispatch, network)}),
            "ties.csv": [lines[0], *(lines[1 + line] for line in ties(network, zones))],
        }
    files = {name: _csv(rows) for name, rows in tables.items()}
    files["dispatch.m"] = matpower(study, case)
    if case.net is not None and study.dispatch is not None:
        pandapower = import_module("pandapower")
        net = pandapower.create_empty_network(sn_mva=case.base_mva)
        net.update(pandapower_results(study, case))
        files["dispatch.json"] = pandapower.to_json(net) + "\n"
    return files


def pandapower_results(study: OpfStudy, case: Case) -> dict[str, Any]:
    """Return the dispatch in the result tables of the pandapower network that the case was.

    `net.update(pandapower_results(study, case))` puts them where pandapower's own power flow
    has them. Rows are those of the network's tables, NaN out of service.

    Returns
    -------
    dict
        `res_bus`: vm_pu, va_degree (0 where the angle is held), lam_p per MWh, and p_mw, the demand
        served and shunts less generation, at the bus that stands for those joined. `res_ext_grid`,
        `res_gen`, `res_sgen`: p_mw, q_mvar. In DC `res_line`, `res_trafo`, `res_impedance`: MW into
        the branch at either side. `res_cost`: per hour.

    Raises
    ------
    InputError
        If the case is not one of pandapower, or the study has no dispatch.

    Notes
    -----
    **Guarantee.** Computed from the study, which holds answers and no demand; of the network the
    indices and the places of its buses are read.
    """
    net, dispatch, network = case.net, study.dispatch, study.proposal.network.network
    if net is None or dispatch is None:
        what = "no network of pandapower" if net is None else "without a dispatch"
        raise InputError(f"there are no tables for {case.name}: it is {what}")
    power = (study.served + network.shunt[:, 0] * dispatch.voltage**2) * network.base_mva
    np.subtract.at(power, network.generator_bus, dispatch.generation[:, 0])
    serving = net.bus.index[net.bus.in_service]
    place = net._pd2ppc_lookups["bus"][serving]
    held = np.flatnonzero(case.bus[:, 1] == 3)
    state = {
        "vm_pu": dispatch.voltage[place],
        "va_degree": np.rad2deg(dispatch.angle - dispatch.angle[held])[place],
        "p_mw": pd.Series(power, network.numbers).reindex(serving, fill_value=0.0),
        "lam_p": dispatch.price[place],
    }
    of_bus = pd.DataFrame(state, serving)
    tables: dict[str, Any] = {"res_bus": of_bus.reindex(net.bus.index), "res_cost": dispatch.cost}
    for kind in dict.fromkeys(case.generator_rows.tables):
        tables[f"res_{kind}"] = _rows(
            net[kind], kind, case.generator_rows, dispatch.generation, ("p_mw", "q_mvar")
        )
    if dispatch.model == "dc":
        for kind in dict.fromkeys(case.line_rows.tables):
            sides = ("hv", "lv") if kind == "trafo" else ("from", "to")
            columns = tuple(f"p_{side}_mw" for side in sides)
            tables[f"res_{kind}"] = _rows(net[kind], kind, case.line_rows, dispatch.flow, columns)
    return tables


def _rows(
    table: pd.DataFrame,
    kind: str,
    elements: Elements,
    values: Float[HostArray, "K 2"],
    columns: tuple[str, ...],
) -> pd.DataFrame:
    """Return the values of one table's elements, a row for each row of the table."""
    at = [k for k, name in enumerate(elements.tables) if name == kind]
    rows = [elements.rows[k] for k in at]
    return pd.DataFrame(values[at], rows, list(columns)).reindex(table.index)


def matpower(study: OpfStudy, case: Case) -> str:
    """Return a MATPOWER case with the answers as demands and the dispatch as generation.

    MATPOWER counts buses from 1: an index of pandapower, which `from_mpc` finds again, is one less.
    """
    network, dispatch = study.proposal.network.network, study.dispatch
    first = 0 if case.net is None else 1
    bus = case.bus[np.isin(case.bus[:, 0], network.numbers), :13].copy()
    bus[:, 2], bus[:, 3] = study.served * network.base_mva, study.answers[:, 1] * network.base_mva
    bus[:, 7], bus[:, 8] = 1.0, 0.0
    gen = case.gen[generators_in_service(case), :10].copy()
    gen[:, 1:3], gen[:, 5] = 0.0, 1.0
    if dispatch is not None:
        bus[:, 7], bus[:, 8] = dispatch.voltage, np.rad2deg(dispatch.angle)
        gen[:, 1:3], gen[:, 5] = dispatch.generation, dispatch.voltage[network.generator_bus]
    branch = case.branch[lines_in_service(case), :13].copy()
    cost = case.gencost[: len(case.gen)][generators_in_service(case)]
    bus[:, 0] += first
    gen[:, 0] += first
    branch[:, :2] += first
    parts = [
        f"function mpc = {_identifier(network.name)}_private",
        f"% {_HEADS[study.restored]}",
        *(["% a bus number is the index of pandapower plus 1"] if first else []),
        "mpc.version = '2';",
        f"mpc.baseMVA = {network.base_mva!r};",
        _matrix("bus", _BUS, bus),
        _matrix("gen", _GEN, gen),
        _matrix("branch", _BRANCH, branch),
        _matrix("gencost", "model startup shutdown n parameters", cost),
    ]
    return "\n".join(parts) + "\n"


def _identifier(name: str) -> str:
    kept = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return kept if kept[:1].isalpha() else f"case_{kept}"


def _matrix(name: str, header: str, rows: HostArray) -> str:
    body = "\n".join("\t" + "\t".join(_number(v) for v in row) + ";" for row in rows.tolist())
    return f"% {header}\nmpc.{name} = [\n{body}\n];"


def _number(value: float) -> str:
    if np.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _csv(rows: Iterable[Sequence[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


def _table(columns: Mapping[str, HostArray | Sequence[str] | Sequence[int]]) -> list[Sequence[str]]:
    values = [
        [_cell(value) for value in np.asarray(column).tolist()] for column in columns.values()
    ]
    return [list(columns), *map(list, zip(*values, strict=True))]


def _cell(value: float | str) -> str:
    """Return a value as the cell of a CSV file; nothing where there is no number."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(int(value))  # 0 or 1 of a truth value
    return "" if np.isnan(value) else f"{value:.6g}"


def demand_columns(
    network: Network, zones: Zones, answers: Float[HostArray, "N 2"], noise: Float[HostArray, " N"]
) -> dict[str, HostArray]:
    """Return what was answered at every bus."""
    return {
        "bus": network.numbers,
        "zone": zones.of_bus + 1,
        "answered_demand_mw": answers[:, 0] * network.base_mva,
        "answered_demand_mvar": answers[:, 1] * network.base_mva,
        "noise_mw": noise * network.base_mva,
    }


def state_columns(
    network: Network, dispatch: Dispatch, served: Float[HostArray, " N"]
) -> dict[str, HostArray]:
    """Return the state of every bus at a dispatch for the demands `served`."""
    return {
        "served_demand_mw": served * network.base_mva,
        "voltage_pu": dispatch.voltage,
        "angle_degrees": np.rad2deg(dispatch.angle),
        "price_per_mwh": dispatch.price,
    }


def line_columns(dispatch: Dispatch, network: Network) -> dict[str, HostArray]:
    """Return the flows of a dispatch beside the limits."""
    limit = np.where(np.isfinite(network.limit), network.limit * network.base_mva, np.nan)
    return {
        "from": network.numbers[network.ends[:, 0]],
        "to": network.numbers[network.ends[:, 1]],
        "flow_from": dispatch.flow[:, 0],
        "flow_to": dispatch.flow[:, 1],
        "limit": limit,
        "loading_percent": 100 * dispatch.loading(limit),
        "margin_mw": dispatch.margin,
    }


def generator_columns(dispatch: Dispatch, network: Network) -> dict[str, HostArray]:
    """Return the generation of a dispatch beside the limits."""
    low, high = network.generator_range[:, :2].T * network.base_mva
    return {
        "bus": network.numbers[network.generator_bus],
        "mw": dispatch.generation[:, 0],
        "mvar": dispatch.generation[:, 1],
        "least_mw": low,
        "most_mw": high,
        "share_of_imbalance": dispatch.share,
        "reserve_mw": dispatch.reserve,
    }


def _lines(dispatch: Dispatch, network: Network, case: Case) -> list[Sequence[str]]:
    degrees = np.rad2deg(np.where(np.isfinite(network.angle), network.angle, np.nan))
    angle = dispatch.angle[network.ends]
    return _table(
        {
            **_named(case.line_rows, lines_in_service(case)),
            **line_columns(dispatch, network),
            "angle_degrees": np.rad2deg(angle[:, 0] - angle[:, 1]),
            "least_angle_degrees": degrees[:, 0],
            "most_angle_degrees": degrees[:, 1],
            "binds": [bound.kind if bound else "" for bound in binding_lines(dispatch, network)],
        }
    )


def _named(elements: Elements, serving: HostArray) -> dict[str, Sequence[str] | Sequence[int]]:
    """Return the columns that say where elements in service stand in the file that was given."""
    kept = np.flatnonzero(serving).tolist()
    return {"table": [elements.tables[k] for k in kept], "row": [elements.rows[k] for k in kept]}


_STATE = ("served_demand_mw", "voltage_pu", "angle_degrees", "price_per_mwh")


def day_tables(study: DayStudy) -> dict[str, str]:
    """Return the files by name; steps without a dispatch have no rows of lines and generators.

    Notes
    -----
    **Guarantee.** All columns are functions of the answers and of what is public.
    """
    network, times = study.proposal.network.network, [clock(h) for h in study.proposal.hours]
    found = [
        (time, step.dispatch)
        for time, step in zip(times, study.steps, strict=True)
        if step.dispatch is not None
    ]
    steps = {"cost_per_hour" if k == "cost" else k: v for k, v in step_columns(study).items()}
    return {
        "steps.csv": _csv(_table({"time": times, **steps})),
        "buses.csv": _stacked(
            (time, _step_buses(study, network, k)) for k, time in enumerate(times)
        ),
        "lines.csv": _stacked((time, line_columns(one, network)) for time, one in found),
        "generators.csv": _stacked((time, generator_columns(one, network)) for time, one in found),
    }


def _stacked(tables: Iterable[tuple[str, Mapping[str, HostArray]]]) -> str:
    """Return the tables of some steps below one another, with the time of the step in front."""
    rows: list[Sequence[str]] = []
    for time, columns in tables:
        count = len(next(iter(columns.values())))
        rows += _table({"time": [time] * count, **columns})[1 if rows else 0 :]
    return _csv(rows)


def step_columns(study: DayStudy) -> dict[str, HostArray]:
    """Return what is known of every step, by name of the column; a cost of none is not a number."""
    base, steps = study.proposal.network.base_mva, study.steps
    return {
        "budget_share": study.shares,
        "noise_mw": np.max(study.noise, axis=1) * base,
        "answered_mw": np.sum(study.answers[:, :, 0], axis=1) * base,
        "planned_mw": np.sum(study.planned[:, :, 0], axis=1) * base,
        "cost": np.array([np.nan if s.dispatch is None else s.dispatch.cost for s in steps]),
        "promised": np.array(study.promised),
        "multiplier_kept": np.array([s.kept for s in steps]),
        "moved_mw": np.array([s.moved for s in steps]) * base,
    }


def _step_buses(study: DayStudy, network: Network, step: int) -> dict[str, HostArray]:
    zones, one = zones_of(network, np.array(study.proposal.zones)), study.steps[step]
    columns = demand_columns(network, zones, study.answers[step], study.noise[step])
    if study.proposal.smooth:
        columns["smoothed_demand_mw"] = study.planned[step, :, 0] * network.base_mva
        columns["smoothed_demand_mvar"] = study.planned[step, :, 1] * network.base_mva
    if one.dispatch is None:
        return columns | dict.fromkeys(_STATE, np.full(network.buses, np.nan))
    return columns | state_columns(network, one.dispatch, one.served)
