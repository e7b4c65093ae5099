"""Tables and curves as text."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from taciturn.counting.request import CountedTables
from taciturn.counting.survival import Curve, SurvivalCurves
from taciturn.counting.tables import QUANTILE, Cell, ChiSquared, GroupedTable

NOTE = "counts with shares of the group, and 95 % intervals of these by sampling and noise"
GRID_NOTE = (
    "times count as the ends of their intervals; at the end of the range every record is censored"
)


def title_of(counted: CountedTables) -> str:
    """Return what was counted, on one line."""
    return f"Counts of {counted.records:,} records"


def noise_text(counted: CountedTables) -> str:
    """Return how large the noise is, in words."""
    if counted.noise == 0:
        return "no noise"
    return f"noise: standard deviation {counted.noise:.3g} per count, before tables are reconciled"


def expected_lines(found: Mapping[float, float]) -> list[str]:
    """Return the noise of a count at each epsilon as lines of text, with what it hides."""
    rows = [["epsilon", "noise of a count", "95 % interval", "hidden below"]]
    for epsilon, noise in found.items():
        half = QUANTILE * noise
        rows.append([f"{epsilon:g}", f"{noise:.3g}", f"+- {half:.3g}", f"{half:.0f} records"])
    return ["Expected, whatever the records are:", *_aligned(rows)]


def words_of_test(test: ChiSquared | None, name: str) -> str:
    """Return a test in words; nothing without one."""
    if test is None:
        return ""
    if test.p_value is None or test.statistic is None:
        return f"no test: {test.refused}"
    return f"p {p_text(test)} ({name} {test.statistic:.4g}, {test.degrees} df)"


def p_text(test: ChiSquared) -> str:
    """Return a p-value, as in a table of them: "= 0.1234" or "< .0001"; "none" without a test."""
    if test.p_value is None:
        return "none"
    return "< .0001" if test.p_value < 1e-4 else f"= {test.p_value:.4f}"


def cell_text(cell: Cell) -> str:
    """Return a count with its share, or the most it may be where noise hides it."""
    if cell.hidden:
        return f"at most {cell.high:,}"
    return f"{cell.number:,} ({100 * cell.share:.1f} %; {interval_text(cell)})"


def interval_text(cell: Cell) -> str:
    """Return the interval of a share, in per cent."""
    return f"{100 * cell.share_low:.1f} to {100 * cell.share_high:.1f}"


def heads_of(table: GroupedTable) -> list[str]:
    """Return the heads of the columns of a table."""
    pairs = zip(table.groups, table.totals, strict=True)
    return ["", *(f"{group} (n = {total:,})" for group, total in pairs)]


def rows_of(table: GroupedTable) -> list[list[str]]:
    """Return the rows of a table as texts, below its name and its test."""
    test = words_of_test(table.test, "chi-squared")
    head = [f"{name_of(table)}  {test}".rstrip(), *[""] * len(table.groups)]
    rows = zip(table.rows, table.cells, strict=True)
    return [head, *([f"  {name}", *map(cell_text, cells)] for name, cells in rows)]


def name_of(table: GroupedTable) -> str:
    """Return what a table counts, without its groups."""
    return table.title.removesuffix(f" by {table.group}")


def grouped_tables(
    found: Sequence[GroupedTable | SurvivalCurves],
) -> Iterable[tuple[GroupedTable, ...] | SurvivalCurves]:
    """Yield consecutive tables by the same groups together, and curves alone."""
    for _, some in itertools.groupby(found, lambda one: (one.group, getattr(one, "groups", None))):
        parts = list(some)
        if isinstance(parts[0], GroupedTable):
            yield tuple(one for one in parts if isinstance(one, GroupedTable))
        else:
            yield from (one for one in parts if isinstance(one, SurvivalCurves))


CURVE_HEADS = ["", "at risk", "events", "survival", "95 % interval", "sampling", "noise"]


def curve_rows(curve: Curve) -> list[list[str]]:
    """Return the points of a curve as texts."""
    return [
        [
            f"{time:g}", f"{curve.at_risk[k]:,}", f"{curve.events[k]:,}",
            f"{curve.survival[k]:.4f}", f"{curve.low[k]:.4f} to {curve.high[k]:.4f}",
            f"{curve.by_sampling[k]:.3g}", f"{curve.by_noise[k]:.3g}",
        ]
        for k, time in enumerate(curve.times)
    ]  # fmt: skip


def median_text(curve: Curve) -> str:
    """Return the median of a curve with its interval, in words."""
    middle, low, high = ("not reached" if one is None else f"{one:g}" for one in curve.median)
    return f"{curve.group}: median {middle} (95 % interval {low} to {high})"


def ends_early(curve: Curve, curves: SurvivalCurves) -> str:
    """Return where a curve ends before its grid, in words; nothing if it does not."""
    if len(curve.times) == len(curves.ends):
        return ""
    last = curve.times[-1] if curve.times else 0.0
    return f"{curve.group}: ends at {last:g}, beyond which too few are at risk"


def lines_of(counted: CountedTables) -> list[str]:
    """Return all tables and curves as lines of text."""
    lines = [title_of(counted), noise_text(counted)]
    for part in grouped_tables(counted.found):
        lines.append("")
        if isinstance(part, SurvivalCurves):
            lines += [part.title, *filter(None, [words_of_test(part.test, "log-rank")])]
            for curve in part.curves:
                lines += ["", median_text(curve), *_aligned([CURVE_HEADS, *curve_rows(curve)])]
                lines += filter(None, [ends_early(curve, part)])
            lines.append(GRID_NOTE)
        else:
            rows = [heads_of(part[0])]
            for table in part:
                rows += rows_of(table)
            by = "" if part[0].test is None else f"by {part[0].group}"
            lines += [*filter(None, [by]), *_aligned(rows), NOTE]
    return lines


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines; the name of a variable with its test may be longer than its column."""
    short = [row for row in rows if any(row[1:])]
    widths = [max(len(row[k]) for row in short) for k in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in lines]
