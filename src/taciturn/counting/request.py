"""From the tables that are asked for to a run with one question of counts, and to its results."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from taciturn.algorithms import COUNTS
from taciturn.counting.margins import reconciled
from taciturn.counting.survival import SurvivalCurves, survival_curves
from taciturn.counting.tables import LEVEL, GroupedTable, grouped_table
from taciturn.engine import Plan
from taciturn.errors import InputError
from taciturn.features import CELLS, Cells, even_grid, with_grid
from taciturn.problems import NONE
from taciturn.tables import Bounds, Numeric
from taciturn.training import Proposal, Request
from taciturn.training.evaluation import noise_variance
from taciturn.typing import HostArray

_INTERVALS = 12  # of a survival time, by default


class CountingRequest(NamedTuple):
    """What is counted.

    - `tables`: As in R: `age(40, 60) + sex | arm`, `Surv(days, status == "dead") ~ arm`.
    - `cuts`, `intervals`: The inner ends of the grid of survival times, or the number of its equal
      intervals; by default 12 of these.
    """

    tables: tuple[str, ...]
    cuts: tuple[float, ...] = ()
    intervals: int | None = None


@dataclass(frozen=True)
class CountedTables:
    """Tables and survival curves of noised counts.

    - `records`: n, which is public.
    - `noise`: The standard deviation of the noise of every count, before tables are reconciled.
    - `found`: The tables and the curves, in the order in which they were asked for.
    """

    records: int
    noise: float
    found: tuple[GroupedTable | SurvivalCurves, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; curves have no value where nobody is left."""
        tables: list[dict[str, Any]] = []
        for one in self.found:
            values: dict[str, Any] = one._asdict()
            values["kind"] = "table" if isinstance(one, GroupedTable) else "survival"
            values["test"] = None if one.test is None else one.test._asdict()
            if isinstance(one, GroupedTable):
                values["cells"] = [[cell._asdict() for cell in row] for row in one.cells]
            else:
                values["curves"] = [curve._asdict() for curve in one.curves]
            tables.append(values)
        found: dict[str, Any] = _plain(
            {"records": self.records, "noise": self.noise, "level": LEVEL, "tables": tables}
        )
        return found

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each cell of a table, and for each point of a curve."""
        rows: list[dict[str, Any]] = []
        for one in self.found:
            if isinstance(one, GroupedTable):
                for name, cells in zip(one.rows, one.cells, strict=True):
                    for group, cell in zip(one.groups, cells, strict=True):
                        rows.append(
                            {"table": one.title, "row": name, "group": group, **cell._asdict()}
                        )
                continue
            for curve, place in itertools.product(one.curves, range(len(one.ends))):
                if place < len(curve.times):
                    rows.append(
                        {
                            "table": one.title,
                            "row": curve.times[place],
                            "group": curve.group,
                            "at_risk": curve.at_risk[place],
                            "events": curve.events[place],
                            "survival": curve.survival[place],
                            "survival_low": curve.low[place],
                            "survival_high": curve.high[place],
                        }
                    )
        return pd.DataFrame(rows)


def _plain(value: Any) -> Any:
    """Return a value for JSON: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


def counting_request(request: Request, bounds: Bounds, asked: CountingRequest) -> Request:
    """Return the request of a run with one question for all tables.

    Raises `InputError` for tables that are not understood, and where counts would not add up to the
    public number of records: for rows that may be left out, held out, or are places of persons.
    """
    if request.rows_per_person is not None:
        raise InputError(
            "counts are of rows, and the number of rows of all persons is private; count a table "
            "with one row for each person, without rows_per_person"
        )
    if request.evaluate is not None:
        raise InputError("counts are no model to evaluate; leave evaluate out")
    if bounds.leave_out:
        raise InputError(
            f"rows without {bounds.target_name!r} are left out by the bounds file, and counts add "
            "up to the public number of rows; give it a list of values with an indicator of "
            "missing cells, or drop such rows"
        )
    if not asked.tables:
        raise InputError("no table is asked for; write one, as in 'age(40,60) + sex | arm'")
    if asked.cuts and asked.intervals is not None:
        raise InputError("--cuts and --intervals both say the grid; leave one out")

    def grid(name: str) -> tuple[float, ...]:
        column = bounds.described.get(name)
        if not isinstance(column, Numeric):
            raise InputError(
                f"the time {name[:100]!r} is no number of the bounds file; describe it with min "
                "and max"
            )
        count = _INTERVALS if asked.intervals is None else asked.intervals
        return asked.cuts or even_grid(column.minimum, column.maximum, count)

    text = "; ".join(with_grid(one, grid) for one in asked.tables)
    return replace(
        request,
        algorithm=COUNTS,
        rounds=1,
        regulariser=NONE,
        constraint=NONE,
        features=CELLS + text,
        centre=False,
        options={},
        precision="float64",
    )


def cells_of(proposal: Proposal) -> Cells:
    """Return the tables of a proposal; `InputError` if it counts nothing."""
    found = proposal.data.feature_map
    if not isinstance(found, Cells) or proposal.method.name != COUNTS:
        raise InputError(f"the proposal is not one of the method {COUNTS}; use taciturn count")
    return found


def noised_counts(proposal: Proposal, released: HostArray) -> Float[HostArray, "S"]:
    """Return the sum of all agents' noised answers, of which a run releases the mean."""
    cells_of(proposal)
    found: HostArray = np.asarray(released, np.float64) * len(proposal.counts)
    return found


def counted_tables(proposal: Proposal, plan: Plan, released: HostArray) -> CountedTables:
    """Return the tables and curves of a finished run, from the mean answer that it released.

    **Guarantee.** Post-processing of noised answers by public facts: the plan and the proposal.
    """
    return tables_of(
        cells_of(proposal),
        noised_counts(proposal, released),
        sum(proposal.counts),
        noise_variance(plan),
    )


def expected_noise(proposal: Proposal) -> float:
    """Return the standard deviation of the noise of every count that a proposal would have."""
    cells_of(proposal)
    return math.sqrt(noise_variance(proposal.plan()))


def tables_of(
    cells: Cells, noised: Float[HostArray, "S"], records: int, variance: float
) -> CountedTables:
    """Return the tables and curves of noised counts, whose errors have this variance."""
    found = tuple(
        grouped_table(one, records) if one.block.grid is None else survival_curves(one)
        for one in reconciled(cells.blocks, noised, records, variance)
    )
    return CountedTables(records, math.sqrt(variance), found)
