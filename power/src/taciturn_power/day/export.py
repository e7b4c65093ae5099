"""A day of optimal power flow as CSV files: steps, and buses, lines and generators by step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from taciturn.typing import HostArray
from taciturn_power.day.series import clock
from taciturn_power.day.study import DayStudy
from taciturn_power.grids.network import Network
from taciturn_power.grids.zones import zones_of
from taciturn_power.moment.export import (
    cell,
    demand_columns,
    generator_columns,
    line_columns,
    state_columns,
)

_STATE = ("served_demand_mw", "voltage_pu", "angle_degrees", "price_per_mwh")


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
        "lines.csv": _csv(hours, [(k, line_columns(one, network)) for k, one in found]),
        "generators.csv": _csv(hours, [(k, generator_columns(one, network)) for k, one in found]),
    }


def _csv(hours: HostArray, tables: list[tuple[int, Mapping[str, HostArray]]]) -> str:
    """Return the tables of some steps below one another, with the time of the step in front."""
    lines = [["time", *tables[0][1]]] if tables else []
    for step, columns in tables:
        cells = [
            [cell(value) for value in np.ravel(column).tolist()] for column in columns.values()
        ]
        lines.extend([clock(hours[step]), *row] for row in zip(*cells, strict=True))
    return "".join(",".join(line) + "\n" for line in lines)


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
    zones, one = zones_of(network, np.array(study.proposal.zones)), study.steps[step]
    columns = demand_columns(network, zones, study.answers[step], study.noise[step])
    if study.proposal.smooth:
        columns["smoothed_demand_mw"] = study.planned[step, :, 0] * network.base_mva
        columns["smoothed_demand_mvar"] = study.planned[step, :, 1] * network.base_mva
    if one.dispatch is None:
        return columns | dict.fromkeys(_STATE, np.full(network.buses, np.nan))
    return columns | state_columns(network, one.dispatch, one.served)
