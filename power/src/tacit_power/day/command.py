"""`tacit grid --series`: what is special about a day of optimal power flow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit_power.cases.case import Case
from tacit_power.charging import Carried, reserved
from tacit_power.day.results import DayReport, day_warnings
from tacit_power.day.series import Series, read_series, read_weights
from tacit_power.day.study import DayProposal, check_day, run_day
from tacit_power.grids.network import Network
from tacit_power.moment.command import network_of, proposed, size_warnings

OF_DAY = ("weights", "smooth")


def day_proposal(
    case: Case, network: Network, given: dict[str, Any], text: str | None, series: Series
) -> DayProposal:
    """Return the proposal in a text, or that of the options for the steps of a series.

    Of the series only its times are read. A bound on demands that fits on the lattice of a moment
    fits on that of a step, whose noise is no less.
    """
    if text is not None:
        return DayProposal.from_json(text)
    moment, weights = proposed(case, network, given), np.ones(len(series.hours))
    if given["weights"] is not None:
        weights = read_weights(given["weights"], series.hours)
    return DayProposal(
        **{name: getattr(moment, name) for name in type(moment).model_fields},
        first_hour=float(series.hours[0]),
        step_hours=series.step_hours,
        weights=tuple(weights.tolist()),
        smooth=bool(given["smooth"]),
    )


def day_report(
    choice: str, case: Case, proposal: DayProposal, series: Series, carried: Carried
) -> DayReport:
    """Return the report of a run of a proposal on a day."""
    network = network_of(choice, case, proposal)
    check_day(network, proposal, series)
    with reserved(carried, proposal) as reservation:
        release = partial(carried.keeper.keep, proposal, proposal.network.name)
        study = run_day(
            network, proposal, series, seed=carried.seed, account=reservation, release=release
        )
    return DayReport(
        study=study,
        network=network,
        series=series,
        shows_demand=carried.oracle or math.isinf(study.run.certificate.epsilon),
        warnings=day_warnings(study) + size_warnings(choice, case, proposal),
    )


def day_of(
    files: Sequence[Path], network: Network, given: dict[str, Any], text: str | None
) -> Series | None:
    """Return the day of a series, None where no day is asked for.

    Raises
    ------
    InputError
        If an option or a proposal is about a day and no series is given, or a series is given with
        a proposal that is of a moment.
    """
    of_day = text is not None and f'"{DayProposal.FORMAT}"' in text
    named = [name for name in OF_DAY if given[name] is not None]
    if files and (text is None or of_day):
        return read_series(files, network)
    if files:
        raise InputError(
            "--series is given with a proposal that is not of a day; leave it out, or name the "
            "proposal of a day"
        )
    if of_day:
        raise InputError("the proposal is of a day; add --series FILE with its demands")
    if named:
        raise InputError(f"--{named[0]} is for a day; add --series FILE, or leave it out")
    return None
