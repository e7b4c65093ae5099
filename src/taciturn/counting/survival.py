r"""Kaplan-Meier curves and the log-rank test on a public grid, from reconciled noised counts.

**The grid.** A time in (t_{j-1}, t_j] counts as t_j. With d_j events and c_j censored records
there, and N_j = sum_{i >= j} (d_i + c_i) at risk,

.. math:: S_j = \prod_{i \le j} \Bigl( 1 - \frac{d_i}{N_i} \Bigr):

the curve of Kaplan and Meier for times rounded up to the grid, in which records censored within an
interval are at risk to its end. There is no actuarial correction (half of the censored ones taken
off): it would assume that censoring is even within intervals, and without it the curve is the known
estimate of a stated thing. A fine grid makes both the same, at the price of more noise.

**Errors.** With H = -log S, Greenwood's variance of H is sum d_i / (N_i (N_i - d_i)). The noise
adds, to first order, that of the linear function of the cells

.. math::
    \frac{\partial \log S_j}{\partial c_l} = \sum_{i \le \min(j, l)} b_i, \quad
    \frac{\partial \log S_j}{\partial d_l} = \sum_{i \le \min(j, l)} b_i
    - \frac{[l \le j]}{N_l - d_l}, \quad b_i = \frac{1}{N_i - d_i} - \frac{1}{N_i}.

The interval holds the H' with (H - H')^2 <= 1.96^2 (H' g / H + v), g and v the two variances: the
first grows with H', as the variance of a number of events, so that it is not symmetric where there
are few; it also holds where noise makes H negative, in which the logarithm of H has no value. Curve
and bands are then made to fall within [0, 1] by isotonic regression, which keeps their order. A
curve ends before the first interval in which N_j is below 3 standard deviations of its noise.

**The log-rank test.** With N_gj, d_gj those of a group and N_j, d_j their sums,

.. math:: U_g = \sum_j \Bigl( d_{gj} - d_j \frac{N_{gj}}{N_j} \Bigr)

has the hypergeometric variance of Mantel and, to first order, that of the noise, by the derivatives
of U. The statistic U' V^-1 U, of all groups but the last one, has a chi-squared law. It uses the
intervals before the first one in which a group is lost in noise, and is refused where less than a
tenth of the variance is due to sampling.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2

from taciturn.counting.margins import Reconciled
from taciturn.counting.tables import QUANTILE, ChiSquared
from taciturn.typing import HostArray

_CLEAR, _LEAST_SHARE = 3.0, 0.1


class Curve(NamedTuple):
    """The curve of one group, at the ends of the intervals up to where it ends.

    - `at_risk`, `events`: In whole numbers, at the start of every interval and within it.
    - `by_sampling`, `by_noise`: The two parts of the standard error of log S.
    - `median`: The first end at which S is at most 1/2, with its interval; None where it is not
      reached.
    """

    group: str
    times: tuple[float, ...]
    at_risk: tuple[int, ...]
    events: tuple[int, ...]
    survival: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    by_sampling: tuple[float, ...]
    by_noise: tuple[float, ...]
    median: tuple[float | None, float | None, float | None]


class SurvivalCurves(NamedTuple):
    """Curves by group on one grid, with the test of equal hazards; None for a single group."""

    title: str
    group: str
    ends: tuple[float, ...]
    curves: tuple[Curve, ...]
    test: ChiSquared | None


class _Life(NamedTuple):
    """Events, censored and records at risk, by interval and group, and where each group ends."""

    events: Float[HostArray, "J G"]
    censored: Float[HostArray, "J G"]
    at_risk: Float[HostArray, "J G"]
    last: tuple[int, ...]


def survival_curves(found: Reconciled) -> SurvivalCurves:
    """Return the curves of a table of survival times, with their test."""
    block, life = found.block, _life(found)
    assert block.grid is not None
    return SurvivalCurves(
        title=block.title,
        group=block.group.name,
        ends=block.grid.ends,
        curves=tuple(_curve(found, life, group) for group in range(found.cells.shape[1])),
        test=log_rank(found) if found.cells.shape[1] > 1 else None,
    )


def _life(found: Reconciled) -> _Life:
    cells = found.cells.reshape(-1, 2, found.cells.shape[1])
    at_risk = np.cumsum(cells.sum(axis=1)[::-1], axis=0)[::-1]
    intervals, groups = at_risk.shape
    last = []
    for group in range(groups):
        later = np.zeros((intervals, *cells.shape))
        for place in range(intervals):
            later[place, place:, :, group] = 1
        errors = np.sqrt(found.variances(later.reshape(intervals, -1, groups)))
        lost = np.flatnonzero(at_risk[:, group] < np.maximum(_CLEAR * errors, 0.5))
        last.append(int(lost[0]) if len(lost) else intervals)
    return _Life(cells[:, 1], cells[:, 0], at_risk, tuple(last))


def _curve(found: Reconciled, life: _Life, group: int) -> Curve:
    block, last = found.block, life.last[group]
    assert block.grid is not None
    deaths, at_risk = life.events[:last, group], life.at_risk[:last, group]
    # noise may leave nobody, or more than all, of a small risk set
    remaining = np.maximum(at_risk - deaths, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        hazard = np.cumsum(np.log(at_risk) - np.log(remaining))
        greenwood = np.cumsum(np.maximum(deaths, 0.0) / (at_risk * remaining))
    greenwood = np.where(np.isfinite(hazard), greenwood, np.nan)
    noise = found.variances(_derivatives(found, remaining, at_risk, group))
    noise = np.where(np.isfinite(hazard), noise, np.nan)
    low, high = _band(hazard, greenwood, noise, at_risk)
    whole = found.whole.reshape(-1, 2, found.whole.shape[1])[:, :, group]
    left = np.cumsum(whole.sum(axis=1)[::-1])[::-1][:last]
    ends, survival = block.grid.ends[:last], _falling(np.exp(-hazard))
    return Curve(
        group=block.group.levels[group],
        times=ends,
        at_risk=tuple(left.tolist()),
        events=tuple(whole[:last, 1].tolist()),
        survival=tuple(survival.tolist()),
        low=tuple(np.minimum(low, survival).tolist()),
        high=tuple(np.maximum(high, survival).tolist()),
        by_sampling=tuple(np.sqrt(greenwood).tolist()),
        by_noise=tuple(np.sqrt(noise).tolist()),
        median=(_reached(survival, ends), _reached(low, ends), _reached(high, ends)),
    )


def _derivatives(
    found: Reconciled, remaining: HostArray, at_risk: HostArray, group: int
) -> Float[HostArray, "_ K G"]:
    """Return the derivatives of log S_j by the cells."""
    last, (size, groups) = len(at_risk), found.cells.shape
    with np.errstate(divide="ignore"):
        survivors = np.where(remaining > 0, 1 / remaining, 0.0)
    steps = np.cumsum(survivors - 1 / at_risk) if last else np.zeros(0)
    made = np.zeros((last, size // 2, 2, groups))
    for place in range(last):
        upto = np.append(steps[: place + 1], np.full(size // 2 - place - 1, steps[place]))
        made[place, :, :, group] = upto[:, None]
        made[place, : place + 1, 1, group] -= survivors[: place + 1]
    return made.reshape(last, size, groups)


def _band(
    hazard: HostArray, sampling: HostArray, noise: HostArray, at_risk: HostArray
) -> tuple[HostArray, HostArray]:
    """Return the lower and the upper ends of the intervals of S, which fall within [0, 1]."""
    square = QUANTILE**2
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.where((hazard > 0) & (sampling > 0), sampling / hazard, 1 / at_risk)
        middle = hazard + square * unit / 2
        root = np.sqrt(np.maximum(middle**2 - hazard**2 + square * noise, 0.0))
        ends = np.exp(-(middle + root)), np.exp(-(middle - root))
    low, high = (np.clip(np.nan_to_num(end, nan=0.0), 0, 1) for end in ends)
    before = np.append(1.0, high)[:-1]  # where nobody is left nothing more is known
    high = np.where(np.isfinite(hazard), high, np.minimum.accumulate(before))
    return _falling(low), _falling(high)


def _falling(values: HostArray) -> Float[HostArray, "N"]:
    """Return the nearest falling sequence, within [0, 1]."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        mean, size = value, 1
        while blocks and blocks[-1][0] < mean:
            other, more = blocks.pop()
            mean, size = (mean * size + other * more) / (size + more), size + more
        blocks.append((mean, size))
    found = np.concatenate([np.full(size, mean) for mean, size in blocks] or [np.zeros(0)])
    limited: HostArray = np.clip(found, 0.0, 1.0)
    return limited


def _reached(curve: HostArray, ends: tuple[float, ...]) -> float | None:
    below = np.flatnonzero(curve <= 0.5)
    return ends[below[0]] if len(below) else None


def log_rank(found: Reconciled) -> ChiSquared:
    """Return the log-rank test of equal hazards in all groups."""
    life, groups = _life(found), found.cells.shape[1]
    if found.variance == 0 and not np.all(life.at_risk[0] > 0.5):
        return ChiSquared(None, groups - 1, None, "a group has no records; leave its value out")
    last = min(life.last) if found.variance > 0 else len(life.events)
    deaths, at_risk = life.events[:last], life.at_risk[:last]
    together, all_at_risk = deaths.sum(axis=1), at_risk.sum(axis=1)
    some = all_at_risk > 0.5
    deaths, at_risk, together = deaths[some], at_risk[some], together[some]
    all_at_risk = all_at_risk[some]
    last, free = len(together), groups - 1
    if not last or together.sum() <= 0:
        return ChiSquared(
            None, free, None, "a group has too few records for the noise; merge groups"
        )
    share = at_risk / all_at_risk[:, None]
    difference = np.sum(deaths - together[:, None] * share, axis=0)
    factor = together * (all_at_risk - together) / np.maximum(all_at_risk - 1, 1.0)
    apart = np.eye(groups) - share[:, :, None]  # of U_g by d_h: j, g, h
    sampling = np.einsum("j,jh,jgh->gh", factor, share, apart)
    made = np.zeros((groups, len(life.events), 2, groups))
    upto = np.cumsum(apart * (together / all_at_risk)[:, None, None], axis=0)
    for g in range(groups):
        made[g, :last] = -upto[:, g, None, :]
        made[g, last:] = -upto[-1, g, None, :]
        made[g, :last, 1] += apart[:, g, :]
    functions = made.reshape(groups, -1, groups)
    noise = found.covariance(functions, functions)
    part = np.trace(sampling[:free, :free])
    if part <= _LEAST_SHARE * (part + np.trace(noise[:free, :free])):
        return ChiSquared(None, free, None, "noise dominates: it has nine tenths of the variance")
    total = (sampling + noise)[:free, :free]
    statistic = float(difference[:free] @ np.linalg.solve(total, difference[:free]))
    if not math.isfinite(statistic) or statistic < 0:
        return ChiSquared(None, free, None, "noise hides the numbers at risk; take fewer intervals")
    return ChiSquared(statistic, free, float(chi2.sf(statistic, free)))
