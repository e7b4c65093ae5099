"""A day of demands from CSV files, the public weights of its steps, and smoothing."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from taciturn.errors import DataError
from taciturn.typing import HostArray
from taciturn_power.dispatch.asking import check_steps
from taciturn_power.grids.network import Network

COLUMNS = ("bus", "time", "mw", "mvar")
_WEIGHTS = ("time", "weight")
_MOST_BYTES = 500_000_000
# times are compared in steps of a few milliseconds
_DIGITS = 6
_NEAR = 3e-6
# the year 9999, in hours since the year 1
_LAST_HOUR = 24 * 366 * 1e4


@dataclass(frozen=True, eq=False)
class Series:
    """The demands of a day.

    - `hours`: `(T,)`: the start of each step in hours from the beginning of the first day,
      increasing by equal steps. Public.
    - `demand`: `(T, N, 2)`: active and reactive demand of every bus, per unit. Private.
    """

    hours: Float[HostArray, " T"]
    demand: Float[HostArray, "T N 2"]

    @property
    def step_hours(self) -> float:
        """The length of a step, hours."""
        return float(self.hours[-1] - self.hours[0]) / (len(self.hours) - 1)


def read_series(files: Sequence[Path], network: Network) -> Series:
    """Return the day in CSV files: one for all buses, or one for each zone.

    Each has the columns bus, time, MW and MVAr in any order, and a row for every step of each of
    its buses. A time is a number of hours (7.25), a time of day (07:15) or a date with a time.

    Raises `DataError` unless every bus of the network has one row for each of equal steps.

    **Guarantee.** Buses and steps are public, and so is whether a cell is a finite number. No
    message quotes a cell of any column, since it could be a demand if columns were exchanged.
    """
    rows = [_row(at, cells) for file in files for at, cells in _cells(file, COLUMNS)]
    if not rows:
        raise DataError(f"{_names(files)}: there are no rows; give one for every bus and step")
    times = _equal_steps(np.array([row.hour for row in rows]), _names(files))
    place = {int(number): bus for bus, number in enumerate(network.numbers)}
    when = {hour: step for step, hour in enumerate(times.tolist())}
    demand = np.full((len(times), network.buses, 2), np.nan)
    for row in rows:
        bus = place.get(row.bus)
        if bus is None:
            raise DataError(
                f"{row.at} names a bus that is not in service in {network.name}; leave it out, or "
                "check the order of the columns"
            )
        cell = demand[when[row.hour], bus]
        if not np.isnan(cell[0]):
            raise DataError(f"{row.at} repeats a bus and time; keep one of the rows")
        cell[:] = row.mw, row.mvar
    missing = np.argwhere(np.isnan(demand[:, :, 0]))
    if len(missing):
        step, bus = missing[0]
        raise DataError(
            f"{_names(files)}: bus {network.numbers[bus]} of {network.name} has no row at step "
            f"{step + 1} of {len(times)}, and {len(missing)} rows are missing in all; give every "
            "bus at every step, 0 where there is no demand"
        )
    return Series(_from_midnight(times), demand / network.base_mva)


def read_weights(file: Path, hours: Float[HostArray, " T"]) -> Float[HostArray, " T"]:
    """Return the public weights of the steps, from a CSV file with the columns time and weight."""
    found: dict[float, float] = {}
    for at, (time, weight) in _cells(file, _WEIGHTS):
        hour, value = _hour(time), _number(weight)
        if not value > 0 or math.isinf(value):
            raise DataError(f"{at}: a weight is a number above 0; correct it")
        if hour in found:
            raise DataError(f"{at} repeats a time; keep one of the rows")
        found[hour] = value
    if not found:
        raise DataError(f"{file}: there are no weights; give one for every step")
    times = _from_midnight(np.array(sorted(found)))
    if len(times) != len(hours) or not np.allclose(times, hours, rtol=0, atol=_NEAR):
        raise DataError(
            f"the {len(times)} times in {file} are not the {len(hours)} steps of the series; give "
            "one weight for every step"
        )
    return np.array([found[hour] for hour in sorted(found)])


def clock(hour: float) -> str:
    """Return hours as a time of day, after a number of days if any.

    Examples
    --------
    >>> clock(7.25), clock(24 + 1 / 3)
    ('07:15', '1 d 00:20')
    """
    minutes = round(60 * hour, 4)
    day, rest = divmod(minutes, 1440)
    whole, part = divmod(rest, 60)
    shown = f"{int(whole):02d}:{part:02.0f}" if part == round(part) else f"{hour:.4f} h"
    return f"{int(day)} d {shown}" if day and ":" in shown else shown


class _Row(NamedTuple):
    at: str
    bus: int
    hour: float
    mw: float
    mvar: float


def _row(at: str, cells: Sequence[str]) -> _Row:
    numbers = [_number(cell) for cell in (cells[0], *cells[2:])]
    for value, name in zip(numbers, ("bus", "MW", "MVAr"), strict=True):
        if not math.isfinite(value):
            raise DataError(f"{at}: {name} is no finite number; write it out")
    if numbers[0] != int(numbers[0]):
        raise DataError(f"{at}: bus is no whole number; give the number of a bus")
    hour = _hour(cells[1])
    if not math.isfinite(hour):
        raise DataError(
            f"{at}: time is neither hours (7.25) nor a time of day (07:15) nor a date with one; "
            "write it so"
        )
    if hour < 0:
        raise DataError(f"{at}: time is below 0; count hours from the beginning of the day")
    return _Row(at, int(numbers[0]), hour, numbers[1], numbers[2])


def _cells(file: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield the place of each row of a CSV file, and its cells in the order of the columns."""
    names, lines = ", ".join(columns), csv.reader(io.StringIO(_text(file)))
    head = [name.strip().lower() for name in next(_checked(file, lines), [])]
    if sorted(head) != sorted(columns):
        raise DataError(
            f"{file}: the first line does not name the columns {names}, and no others; write it so"
        )
    order = [head.index(name) for name in columns]
    for line in _checked(file, lines):
        if not any(cell.strip() for cell in line):
            continue
        at = f"{file}: line {lines.line_num}"
        if len(line) != len(columns):
            raise DataError(
                f"{at} has {len(line)} cells, and there are {len(columns)} columns; give one for "
                "each"
            )
        yield at, [line[place] for place in order]


def _checked(file: Path, lines: Iterator[list[str]]) -> Iterator[list[str]]:
    try:
        yield from lines
    except csv.Error:
        broken = True
    else:
        broken = False
    if broken:  # the reader's message may quote a cell
        raise DataError(f"{file} is no CSV file that can be read; save it as plain CSV")


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise DataError(f"{file} is larger than any day of demands; name a CSV file")
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
    raise DataError(f"{file} cannot be read ({reason}); name a CSV file of demands")


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _hour(cell: str) -> float:
    """Return a time as hours, of a date since the year 1; NaN if it is none."""
    hour = _number(cell)
    if math.isnan(hour):
        hour = _of_date(cell.strip())
    return round(hour, _DIGITS) if abs(hour) < _LAST_HOUR else math.nan


def _of_date(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text if len(text) > 8 else f"0001-01-01T{text:0>5}")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return math.nan
    return (moment - datetime(1, 1, 1, tzinfo=UTC)).total_seconds() / 3600


def _equal_steps(hours: Float[HostArray, " R"], names: str) -> Float[HostArray, " T"]:
    """Return the different times in order; raise unless they are equidistant."""
    times: HostArray = np.unique(hours)
    check_steps(len(times))
    steps = np.diff(times)
    odd = np.flatnonzero(np.abs(steps - np.median(steps)) > _NEAR)
    if len(odd):
        raise DataError(
            f"{names}: steps are not equally long, first after step {odd[0] + 1} of {len(times)}; "
            "give every step, and write times as 07:20 where hours are no finite decimals"
        )
    return times


def _from_midnight(hours: Float[HostArray, " T"]) -> Float[HostArray, " T"]:
    """Return hours counted from the beginning of the first day."""
    counted: HostArray = np.round(hours - 24 * np.floor(hours[0] / 24), _DIGITS)
    return counted


def _names(files: Iterable[Path]) -> str:
    return ", ".join(str(file) for file in files)


# candidates for q over the variance of the noise: from a straight line to hardly any smoothing
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-9, 1e4, 105)])


def smoothed(
    answers: Float[HostArray, "T N 2"], noise: Float[HostArray, "T N"]
) -> Float[HostArray, "T N 2"]:
    """Return the answers smoothed, active and reactive demands separately, per unit.

    The noise's standard deviation is a factor of the bus times one of the step. Answers without
    noise, and of fewer than 3 steps, are returned unchanged.
    """
    steps = len(answers)
    if steps < 3 or not np.all(noise > 0):
        return answers
    differences = np.diff(np.eye(steps), 2, axis=0)
    spread = differences * np.square(noise[:, 0] / noise[0, 0])
    weights, basis = np.linalg.eigh(spread @ differences.T)
    found = np.empty_like(answers)
    for kind in range(answers.shape[2]):
        scaled = answers[:, :, kind] / noise[0]
        # reflected so that the first column is the common course of all demands
        level = np.mean(scaled, axis=0)
        # the sign avoids cancellation, as in a Householder reflection
        far = np.copysign(float(np.linalg.norm(level)), level[0])
        mirror = level + far * np.eye(1, len(level))[0]
        turned = _reflected(scaled, mirror)
        parts = basis.T @ np.diff(turned, 2, axis=0)
        ratio = _likeliest(weights, parts)
        values = turned - spread.T @ (basis @ (parts / (ratio + weights[:, None])))
        found[:, :, kind] = _reflected(values, mirror) * noise[0]
    return found


def _reflected(values: HostArray, mirror: HostArray) -> HostArray:
    """Return the reflection of every row across the plane normal to `mirror`, its own inverse."""
    size = float(mirror @ mirror)
    if not size > 0:
        return values
    return values - np.outer(values @ mirror, 2 / size * mirror)


def _likeliest(
    weights: Float[HostArray, " K"], parts: Float[HostArray, "K M"]
) -> Float[HostArray, " M"]:
    """Return the maximum-likelihood q over the variance of the noise, for each column."""
    best: HostArray = np.full(parts.shape[1], np.inf)
    chosen, squares = best, np.square(parts)
    for ratio in _RATIOS.tolist():
        variance = ratio + weights
        # minus twice the logarithm of the likelihood
        cost = np.sum(np.log(variance)) + (1 / variance) @ squares
        better = cost < best
        best, chosen = np.where(better, cost, best), np.where(better, ratio, chosen)
    return chosen
