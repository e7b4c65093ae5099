"""An optimal power flow as files: a MATPOWER case, result tables of pandapower, CSV tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from taciturn.errors import InputError
from taciturn.typing import HostArray
from taciturn_power.cases import Case, Elements
from taciturn_power.dispatch import asking
from taciturn_power.dispatch.series import clock
from taciturn_power.dispatch.study import DayProposal, OpfStudy
from taciturn_power.grids.network import Network, generators_in_service, lines_in_service
from taciturn_power.grids.zones import ties
from taciturn_power.models.dispatch import Dispatch, binding_lines

Columns = Mapping[str, HostArray | Sequence[str] | Sequence[int]]
_BUS = "bus_i type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin"
_GEN = "bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin"
_BRANCH = "fbus tbus r x b rateA rateB rateC ratio angle status angmin angmax"
_HEADS = {
    False: "demands are noised answers of their owners; generation is dispatched for these",
    True: "active demands are noised answers, moved to the nearest feasible ones",
}


def exported(study: OpfStudy, case: Case) -> dict[str, str]:
    """Return the files of one time, by name.

    Buses, lines and generators are named as in the input file: MATPOWER's bus numbers and row
    numbers from 1, pandapower's tables and indices.

    **Guarantee.** Only public parts of the case are copied: limits, impedances, shunts, voltage
    levels, areas. Its demands are replaced by the answers, and its state (Pg, Qg, Vg, Vm, Va),
    which in a solved case reveals the demand, by the dispatch.
    """
    network, dispatch = study.network, study.steps[0].dispatch
    buses = _bus_columns(study, 0)
    if dispatch is None:
        return {"buses.csv": _csv(_table(buses)), "dispatch.m": matpower(study, case)}
    degrees = np.rad2deg(np.where(np.isfinite(network.angle), network.angle, np.nan))
    angle = dispatch.angle[network.ends]
    lines = _table(
        {
            **_origin_columns(case.line_rows, lines_in_service(case)),
            **_line_columns(dispatch, network),
            "angle_degrees": np.rad2deg(angle[:, 0] - angle[:, 1]),
            "least_angle_degrees": degrees[:, 0],
            "most_angle_degrees": degrees[:, 1],
            "binds": [bound.kind if bound else "" for bound in binding_lines(dispatch, network)],
        }
    )
    generators = {
        **_origin_columns(case.generator_rows, generators_in_service(case)),
        **_generator_columns(dispatch, network),
    }
    crossing = ties(network, study.proposal.partition())
    files = {
        "buses.csv": _csv(_table(buses)),
        "lines.csv": _csv(lines),
        "generators.csv": _csv(_table(generators)),
        "ties.csv": _csv([lines[0], *(lines[1 + line] for line in crossing)]),
        "dispatch.m": matpower(study, case),
    }
    if case.net is not None:
        pandapower = import_module("pandapower")
        net = pandapower.create_empty_network(sn_mva=case.base_mva)
        net.update(pandapower_results(study, case))
        files["dispatch.json"] = pandapower.to_json(net) + "\n"
    return files


def pandapower_results(study: OpfStudy, case: Case) -> dict[str, Any]:
    """Return the dispatch as result tables of the pandapower network of the case.

    `net.update(pandapower_results(study, case))` stores them as pandapower's power flow does. Rows
    are those of the network's tables, NaN out of service.

    - `res_bus`: vm_pu, va_degree (0 at the reference), lam_p per MWh, and p_mw, demand served and
      shunts less generation, at the first of joined buses.
    - `res_ext_grid`, `res_gen`, `res_sgen`: p_mw, q_mvar; `res_cost`: per hour.
    - In DC `res_line`, `res_trafo`, `res_impedance`: MW into the branch at either side.

    **Guarantee.** Computed from the study, which holds answers and no demand, and from the indices
    of the network.
    """
    net, step, network = case.net, study.steps[0], study.network
    dispatch = step.dispatch
    if net is None or dispatch is None:
        what = "no network of pandapower" if net is None else "without a dispatch"
        raise InputError(f"there are no tables for {case.name}: it is {what}")
    power = (step.served + network.shunt[:, 0] * dispatch.voltage**2) * network.base_mva
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
    found = [(case.generator_rows, dispatch.generation, ("p_mw", "q_mvar"))]
    if dispatch.model == "dc":
        found.append((case.line_rows, dispatch.flow, ("p_from_mw", "p_to_mw")))
    for elements, values, names in found:
        for kind in dict.fromkeys(elements.tables):
            at = [k for k, name in enumerate(elements.tables) if name == kind]
            columns = ("p_hv_mw", "p_lv_mw") if kind == "trafo" else names
            rows = pd.DataFrame(values[at], [elements.rows[k] for k in at], list(columns))
            tables[f"res_{kind}"] = rows.reindex(net[kind].index)
    return tables


def matpower(study: OpfStudy, case: Case) -> str:
    """Return a MATPOWER case with the answers as demands and the dispatch as generation.

    MATPOWER counts buses from 1: an index of pandapower, which `from_mpc` restores, is one less.
    """
    network, step = study.network, study.steps[0]
    first = 0 if case.net is None else 1
    bus = case.bus[np.isin(case.bus[:, 0], network.numbers), :13].copy()
    bus[:, 2], bus[:, 3] = step.served * network.base_mva, study.answers[0, :, 1] * network.base_mva
    bus[:, 7], bus[:, 8] = 1.0, 0.0
    gen = case.gen[generators_in_service(case), :10].copy()
    gen[:, 1:3], gen[:, 5] = 0.0, 1.0
    if step.dispatch is not None:
        bus[:, 7], bus[:, 8] = step.dispatch.voltage, np.rad2deg(step.dispatch.angle)
        gen[:, 1:3] = step.dispatch.generation
        gen[:, 5] = step.dispatch.voltage[network.generator_bus]
    branch = case.branch[lines_in_service(case), :13].copy()
    cost = case.gencost[: len(case.gen)][generators_in_service(case)]
    bus[:, 0] += first
    gen[:, 0] += first
    branch[:, :2] += first
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in network.name)
    parts = [
        f"function mpc = {name if name[:1].isalpha() else f'case_{name}'}_private",
        f"% {_HEADS[step.moved > 0]}",
        *(["% a bus number is the index of pandapower plus 1"] if first else []),
        "mpc.version = '2';",
        f"mpc.baseMVA = {network.base_mva!r};",
        _matrix("bus", _BUS, bus),
        _matrix("gen", _GEN, gen),
        _matrix("branch", _BRANCH, branch),
        _matrix("gencost", "model startup shutdown n parameters", cost),
    ]
    return "\n".join(parts) + "\n"


def _matrix(name: str, header: str, rows: HostArray) -> str:
    body = "\n".join("\t" + "\t".join(_number(v) for v in row) + ";" for row in rows.tolist())
    return f"% {header}\nmpc.{name} = [\n{body}\n];"


def _number(value: float) -> str:
    if np.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def day_tables(study: OpfStudy, proposal: DayProposal) -> dict[str, str]:
    """Return the files of a day, by name; steps without a dispatch have no lines and generators.

    **Guarantee.** All columns are functions of the answers and of public facts.
    """
    times = [clock(hour) for hour in proposal.hours]
    every = list(zip(times, (step.dispatch for step in study.steps), strict=True))
    found = [(time, dispatch) for time, dispatch in every if dispatch is not None]
    steps = {"cost_per_hour" if k == "cost" else k: v for k, v in step_columns(study).items()}
    buses = ((time, _bus_columns(study, step)) for step, time in enumerate(times))
    lines = ((time, _line_columns(one, study.network)) for time, one in found)
    generators = ((time, _generator_columns(one, study.network)) for time, one in found)
    return {
        "steps.csv": _csv(_table({"time": times, **steps})),
        "buses.csv": _stacked(buses),
        "lines.csv": _stacked(lines),
        "generators.csv": _stacked(generators),
    }


def step_columns(study: OpfStudy) -> dict[str, HostArray]:
    """Return the columns of all steps, by name; the cost without a dispatch is NaN."""
    base, steps = study.network.base_mva, study.steps
    return {
        "budget_share": asking.shares(study.run.plan),
        "noise_mw": np.max(study.noise, axis=1) * base,
        "answered_mw": np.sum(study.answers[:, :, 0], axis=1) * base,
        "planned_mw": np.sum(study.planned[:, :, 0], axis=1) * base,
        "cost": np.array([np.nan if s.dispatch is None else s.dispatch.cost for s in steps]),
        "promised": np.array(study.promised),
        "multiplier_kept": np.array([s.kept for s in steps]),
        "moved_mw": np.array([s.moved for s in steps]) * base,
    }


def _stacked(tables: Iterable[tuple[str, Columns]]) -> str:
    """Return the tables of several steps as one, with the time of the step as first column."""
    rows: list[Sequence[str]] = []
    for time, columns in tables:
        count = len(next(iter(columns.values())))
        rows += _table({"time": [time] * count, **columns})[1 if rows else 0 :]
    return _csv(rows)


def _csv(rows: Iterable[Sequence[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


def _table(columns: Columns) -> list[Sequence[str]]:
    values = [map(_cell, np.asarray(column).tolist()) for column in columns.values()]
    return [list(columns), *map(list, zip(*values, strict=True))]


def _cell(value: float | str) -> str:
    """Return a value as the cell of a CSV file; empty for NaN."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(int(value))  # 0 or 1 of a truth value
    return "" if np.isnan(value) else f"{value:.6g}"


def _bus_columns(study: OpfStudy, step: int) -> dict[str, HostArray]:
    """Return the answers of every bus at a step, and its state, if there is a dispatch."""
    network, one, base = study.network, study.steps[step], study.network.base_mva
    columns = {
        "bus": network.numbers,
        "zone": np.array(study.proposal.zones) + 1,
        "answered_demand_mw": study.answers[step, :, 0] * base,
        "answered_demand_mvar": study.answers[step, :, 1] * base,
        "noise_mw": study.noise[step] * base,
    }
    if isinstance(study.proposal, DayProposal) and study.proposal.smooth:
        columns["smoothed_demand_mw"] = study.planned[step, :, 0] * base
        columns["smoothed_demand_mvar"] = study.planned[step, :, 1] * base
    names = ("served_demand_mw", "voltage_pu", "angle_degrees", "price_per_mwh")
    if one.dispatch is not None:
        angle = np.rad2deg(one.dispatch.angle)
        state = (one.served * base, one.dispatch.voltage, angle, one.dispatch.price)
        columns.update(zip(names, state, strict=True))
    elif isinstance(study.proposal, DayProposal):
        columns.update(dict.fromkeys(names, np.full(network.buses, np.nan)))
    return columns


def _line_columns(dispatch: Dispatch, network: Network) -> dict[str, HostArray]:
    """Return the flows of a dispatch and their limits."""
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


def _generator_columns(dispatch: Dispatch, network: Network) -> dict[str, HostArray]:
    """Return the generation of a dispatch and its limits."""
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


def _origin_columns(elements: Elements, serving: HostArray) -> Columns:
    """Return the table and row of elements in service in the input file, as columns."""
    kept = np.flatnonzero(serving).tolist()
    return {"table": [elements.tables[k] for k in kept], "row": [elements.rows[k] for k in kept]}
