"""The table of coefficients as text and as LaTeX."""

from __future__ import annotations

import math
from collections.abc import Sequence

from taciturn.regression.table import Coefficient, RegressionTable

NOTE = "sampling and noise: the two parts of the standard error; their squares add up"
_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
        "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    }
)  # fmt: skip


def title_of(table: RegressionTable) -> str:
    """Return what is estimated from how many records, on one line."""
    return f"{table.family.name} regression, {table.formula}, {table.records:,} records"


def heads_of(table: RegressionTable) -> list[str]:
    """Return the heads of the columns of `cells_of`."""
    heads = ["", "estimate", "std. error", "95 % interval", "p", "sampling", "noise"]
    return heads + ([] if table.family.effect is None else [table.family.effect, "95 % interval"])


def cells_of(table: RegressionTable) -> list[list[str]]:
    """Return the rows of the table as texts."""
    return [_cells(one, effect=table.family.effect is not None) for one in table.coefficients]


def _cells(one: Coefficient, *, effect: bool) -> list[str]:
    middle, ends = _interval(one.low, one.estimate, one.high)
    row = [
        one.term, middle, f"{one.standard_error:.3g}", ends, p_text(one.p_value),
        f"{one.by_sampling:.3g}", f"{one.by_noise:.3g}",
    ]  # fmt: skip
    if not effect:
        return row
    if one.effect is None or one.effect_low is None or one.effect_high is None:
        return [*row, "", ""]
    return [*row, *_interval(one.effect_low, one.effect, one.effect_high)]


def _interval(low: float, middle: float, high: float) -> tuple[str, str]:
    """Return an estimate and its interval, with as many decimals as a quarter of its width needs.

    Examples
    --------
    >>> _interval(-1.0, 0.5, 2.0), _interval(1.0499, 1.0525, 1.0551)
    (('0.50', '-1.00 to 2.00'), ('1.0525', '1.0499 to 1.0551'))
    """
    width = (high - low) / 4
    if not 0 < width < math.inf:
        return f"{middle:.4g}", f"{low:.4g} to {high:.4g}"
    decimals = min(max(1 - math.floor(math.log10(width)), 0), 15)
    return f"{middle:.{decimals}f}", f"{low:.{decimals}f} to {high:.{decimals}f}"


def p_text(value: float | None) -> str:
    """Return a p-value; nothing without a standard error."""
    if value is None:
        return ""
    return "< .0001" if value < 1e-4 else f"{value:.4f}"


def lines_of(table: RegressionTable) -> list[str]:
    """Return the table as lines of text, or the reason why there is none."""
    compared = [f"  {name}: compared with {one}" for name, one in table.references.items()]
    if table.refused is not None:
        return [title_of(table), *compared, "", f"No table: {table.refused}"]
    rows = [heads_of(table), *cells_of(table)]
    compared += [f"  {line}" for line in table.notes]
    return [title_of(table), *compared, "", *aligned(rows), NOTE]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, their cells below one another."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in lines]


def latex_of(table: RegressionTable) -> str:
    r"""Return the table as a `tabular` for the package booktabs; names are escaped."""
    heads = heads_of(table)
    columns = "l" + "r" * (len(heads) - 1)
    rows = [heads, *cells_of(table)]
    head, *body = (" & ".join(cell.translate(_SPECIAL) for cell in row) + r" \\" for row in rows)
    title = "".join(c if c.isprintable() else " " for c in title_of(table))
    mark = "" if table.private else "NOT PRIVATE, may not leave: "
    return "\n".join([
        f"% {mark}{title}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule",
        *body, r"\bottomrule", r"\end{tabular}", "",
    ])  # fmt: skip


def spans(table: RegressionTable) -> list[tuple[str, float, float, float]]:
    """Return name, low, middle and high of every row of a forest plot, of effects if there are any.

    Constants are left out.
    """
    found = []
    for one in table.coefficients:
        if table.family.effect is None and not one.constant:
            found.append((one.term, one.low, one.estimate, one.high))
        elif None not in (ends := (one.effect_low, one.effect, one.effect_high)):
            found.append((one.term, *map(float, ends)))  # type: ignore[arg-type]
    return [one for one in found if all(map(math.isfinite, one[1:]))]
