"""A day of optimal power flow as CSV files: steps, and buses, lines and generators by step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tacit.power.day import DayStudy
from tacit.power.dispatch import Dispatch
from tacit.power.network import Network
from tacit.power.series import clock
from tacit.typing import HostArray


def day_tables(study: DayStudy) -> dict[str, str]:
    """Return the files by name; steps without a dispatch have no rows of lines and generators.

    Notes
    -----
    **Guarantee.** All columns are functions of the answers and of what is public.
    """
    network, hours = study.proposal.network.network, study.proposal.hours
    found = [(k, s.dispatch) for k, s in enumerate(study.steps) if s.dispatch is not None]
    return {
        "steps.csv": _csv(hours, [(k, one) for k, one in enumerate(_steps(study, network))]),
        "buses.csv": _csv(hours, [(k, _buses(study, network, k)) for k in range(len(hours))]),
        "lines.csv": _csv(hours, [(k, _lines(one, network)) for k, one in found]),
        "generators.csv": _csv(hours, [(k, _generators(one, network)) for k, one in found]),
    }


def _csv(hours: HostArray, tables: list[tuple[int, Mapping[str, HostArray]]]) -> str:
    """Return the tables of some steps below one another, with the time of the step in front."""
    lines = [["time", *tables[0][1]]] if tables else []
    for step, columns in tables:
        cells = [
            [_cell(value) for value in np.ravel(column).tolist()] for column in columns.values()
        ]
        lines.extend([clock(hours[step]), *row] for row in zip(*cells, strict=True))
    return "".join(",".join(line) + "\n" for line in lines)


def _cell(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return "" if np.isnan(value) else f"{value:.6g}"


def _steps(study: DayStudy, network: Network) -> list[dict[str, HostArray]]:
    base = network.base_mva
    costs = [np.nan if s.dispatch is None else s.dispatch.cost for s in study.steps]
    columns = {
        "budget_share": study.shares,
        "noise_mw": np.max(study.noise, axis=1) * base,
        "answered_mw": np.sum(study.answers[:, :, 0], axis=1) * base,
        "planned_mw": np.sum(study.planned[:, :, 0], axis=1) * base,
        "cost_per_hour": np.array(costs),
        "promised": np.array(study.promised, int),
        "multiplier_kept": np.array([s.kept for s in study.steps]),
        "moved_mw": np.array([s.moved for s in study.steps]) * base,
    }
    return [
        {name: values[[step]] for name, values in columns.items()}
        for step in range(len(study.steps))
    ]


def _buses(study: DayStudy, network: Network, step: int) -> dict[str, HostArray]:
    base, dispatch = network.base_mva, study.steps[step].dispatch
    none = np.full(network.buses, np.nan)
    columns = {
        "bus": network.numbers,
        "zone": np.array(study.proposal.zones) + 1,
        "answered_demand_mw": study.answers[step, :, 0] * base,
        "answered_demand_mvar": study.answers[step, :, 1] * base,
        "noise_mw": study.noise[step] * base,
    }
    if study.proposal.smooth:
        columns["smoothed_demand_mw"] = study.planned[step, :, 0] * base
        columns["smoothed_demand_mvar"] = study.planned[step, :, 1] * base
    return columns | {
        "served_demand_mw": none if dispatch is None else study.steps[step].served * base,
        "voltage_pu": none if dispatch is None else dispatch.voltage,
        "angle_degrees": none if dispatch is None else np.rad2deg(dispatch.angle),
        "price_per_mwh": none if dispatch is None else dispatch.price,
    }


def _lines(dispatch: Dispatch, network: Network) -> dict[str, HostArray]:
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


def _generators(dispatch: Dispatch, network: Network) -> dict[str, HostArray]:
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
