r"""Tables by groups, with intervals and a test, from reconciled noised counts.

The share p = y / m of a cell in its group, m the estimate of the group total, has the variance

.. math:: \frac{p (1 - p)}{m} + \frac{\operatorname{Var}(y - p m)}{m^2},

by sampling and, to first order, by noise. Its interval holds the p with (y / m - p)^2 at most
1.96^2 times this, where the first term is that of p itself (Wilson's interval with noise); that of
a count is about these records, and due to noise alone.

**The test** of equal shares in all groups is Pearson's with the noise in the covariance: with the
shares of all groups but for the last row in one vector, their covariance C under pooled shares, and
their least-squares fit by common shares, Q is the squared length of the residual in the metric of
C^-1, and has a chi-squared law with (K - 1)(G - 1) degrees of freedom. Without noise Q is Pearson's
statistic. It is refused where a pooled count, or the expected count of a cell, is so small that the
law of Q is not known.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2, norm

from taciturn.counting.margins import Reconciled
from taciturn.features import ALL_RECORDS
from taciturn.typing import HostArray

LEVEL = 0.95
QUANTILE = float(norm.isf((1 - LEVEL) / 2))
# the least expected count of a cell, and the least count of a row in standard deviations of its
# noise, with which a test is made
_FEWEST, _CLEAR = 5.0, 3.0


class ChiSquared(NamedTuple):
    """A chi-squared statistic with its degrees of freedom and p-value; or why there is none."""

    statistic: float | None
    degrees: int
    p_value: float | None
    refused: str | None = None


class Cell(NamedTuple):
    """A count with its interval by noise, and its share of the group with an interval.

    `hidden`: whether noise hides if there is any record in the cell.
    """

    number: int
    low: int
    high: int
    share: float
    share_low: float
    share_high: float
    hidden: bool


class GroupedTable(NamedTuple):
    """A table: names of rows and groups, whole group totals, and cells by row.

    With several groups the last one is of all records.
    """

    title: str
    group: str
    rows: tuple[str, ...]
    groups: tuple[str, ...]
    totals: tuple[int, ...]
    cells: tuple[tuple[Cell, ...], ...]
    test: ChiSquared | None


def grouped_table(found: Reconciled, records: int) -> GroupedTable:
    """Return the table with its intervals and its test."""
    block, (size, groups) = found.block, found.cells.shape
    names = [", ".join(levels) for levels in itertools.product(*(a.levels for a in block.rows))]
    together = [*np.eye(groups), *([np.ones(groups)] if groups > 1 else [])]
    rows = []
    for row in range(size):
        one = np.eye(size)[row]
        rows.append(tuple(_cell(found, one, each, records) for each in together))
    whole = found.whole.sum(axis=0).tolist()
    several = groups > 1
    return GroupedTable(
        title=block.title,
        group=block.group.name,
        rows=tuple(names),
        groups=(*block.group.levels, *([ALL_RECORDS] if several else [])),
        totals=(*whole, *([records] if several else [])),
        cells=tuple(rows),
        test=homogeneity(found) if several and size > 1 else None,
    )


def _cell(found: Reconciled, row: HostArray, groups: HostArray, records: int) -> Cell:
    """Return the cell of a row in the sum of some groups."""
    which = np.outer(row, groups)
    estimate, total = float(np.sum(which * found.cells)), max(float(found.totals @ groups), 1.0)
    error = math.sqrt(float(found.variances(which[None])[0]))
    share = estimate / total
    moved = which - share * np.outer(np.ones(len(row)), groups)
    noise = float(found.variances(moved[None])[0]) / total**2
    low, high = share_interval(share, total, noise)
    number = int(np.sum(which * found.whole))
    return Cell(
        number=number,
        low=min(number, max(0, math.ceil(estimate - QUANTILE * error - 1e-6))),
        high=max(number, min(records, math.floor(estimate + QUANTILE * error + 1e-6))),
        share=min(max(share, 0.0), 1.0),
        share_low=low,
        share_high=high,
        hidden=estimate < QUANTILE * error,
    )


def share_interval(share: float, total: float, noise: float) -> tuple[float, float]:
    """Return the interval of a share of `total` records, whose noise has the variance `noise`."""
    square = QUANTILE**2
    lead, middle = 1 + square / total, share + square / (2 * total)
    root = math.sqrt(max(middle**2 - lead * (share**2 - square * noise), 0.0))
    low, high = (middle - root) / lead, (middle + root) / lead
    return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


def homogeneity(found: Reconciled) -> ChiSquared:
    """Return the test of equal shares in all groups."""
    size, groups = found.cells.shape
    degrees = (size - 1) * (groups - 1)
    totals, pooled = found.totals, found.cells.sum(axis=1)
    rows = np.repeat(np.eye(size)[:, :, None], groups, axis=2)
    clear = pooled >= _CLEAR * np.sqrt(found.variances(rows))
    share = pooled / pooled.sum()
    if not clear.all() or np.min(totals) * np.min(share) < _FEWEST:
        why = (
            "a row has too few records for the noise"
            if not clear.all()
            else f"a cell is expected to have fewer than {_FEWEST:g} records"
        )
        return ChiSquared(None, degrees, None, f"{why}; merge rows or groups")
    first = share[:-1]
    # the error of a share: the noise of (y - p m) / m, and that of multinomial counts
    functions = np.zeros(((size - 1) * groups, size, groups))
    sampling = np.zeros((len(functions), len(functions)))
    for group in range(groups):
        here = slice(group * (size - 1), (group + 1) * (size - 1))
        functions[here, :, group] = (np.eye(size)[:-1] - first[:, None]) / totals[group]
        sampling[here, here] = (np.diag(first) - np.outer(first, first)) / totals[group]
    covariance = sampling + found.covariance(functions, functions)
    shares = (found.cells[:-1] / totals).T.ravel()
    statistic = _residual(shares, np.tile(np.eye(size - 1), (groups, 1)), covariance)
    return ChiSquared(statistic, degrees, float(chi2.sf(statistic, degrees)))


def _residual(
    values: Float[HostArray, "N"], design: Float[HostArray, "N P"], covariance: HostArray
) -> float:
    """Return the squared length of the residual of a generalised least-squares fit."""
    root = np.linalg.cholesky(covariance)
    left, right = np.linalg.solve(root, values), np.linalg.solve(root, design)
    rest = left - right @ np.linalg.lstsq(right, left, rcond=None)[0]
    return float(rest @ rest)
