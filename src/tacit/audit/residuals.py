"""Whether the residuals of one run are the noise that was promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from tacit.errors import InputError
from tacit.privacy import Gaussian, Laplace, Mechanism
from tacit.typing import HostArray


@dataclass(frozen=True)
class ResidualReport:
    """P-values of the tests on whitened residuals; `passes` at the stated total level."""

    p_values: dict[str, float]
    level: float

    @property
    def passes(self) -> bool:
        """Whether no test rejects at level / (number of tests)."""
        return all(p >= self.level / len(self.p_values) for p in self.p_values.values())

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the tests that reject."""
        cut = self.level / len(self.p_values)
        return tuple(name for name, p in self.p_values.items() if not p >= cut)


def residual_report(
    answers: HostArray,
    exact: HostArray,
    scale: HostArray,
    mechanism: Mechanism,
    *,
    level: float,
    asked: HostArray | None = None,
) -> ResidualReport:
    """Return the tests of u = (answer - exact) / scale against independent draws of the stated law.

    Tests: mean; size (sum |u|^p against its exact law) of all residuals, of every agent's and of
    every round's; distribution (Kolmogorov-Smirnov); correlation at every lag of rounds and of
    every pair of agents; repeated values, up to sign. Tests that are made many times count by their
    least p-value times their number, so false alarms are at most `level` in all (Bonferroni; mean
    and correlations are normal approximations).

    Parameters
    ----------
    answers, exact
        `(T, E, A, *shape)`, from the run and from its replay.
    scale
        `(T, E, A)`, as recorded.
    asked
        `(T, E, A)`: where there was a question; None for everywhere. If some agents were not
        asked, the answers are taken one after the other, as if one agent had given them all.
    """
    law = _law(mechanism)
    if asked is not None and not np.all(asked):
        answers, exact, scale = (values[asked][:, None, None] for values in (answers, exact, scale))
    wide = scale.reshape(scale.shape + (1,) * (answers.ndim - scale.ndim))
    if not np.all(scale > 0):
        raise InputError("an answer was given without noise; its residual cannot be tested")
    u = ((answers - exact) / wide).reshape(*scale.shape, -1)
    flat = u.ravel()
    by_round, by_agent = u.reshape(len(u), -1), np.moveaxis(u, 2, 0).reshape(u.shape[2], -1)
    p_values = {
        "mean": _two_sided(np.sum(flat) / np.sqrt(flat.size * law.variance)),
        "variance": law.size(flat),
        "variance of an agent": _least([law.size(values) for values in by_agent]),
        "variance of a round": _least([law.size(values) for values in by_round]),
        "distribution": float(stats.kstest(flat, law.cdf).pvalue),
        "rounds": _least(_at_lags(by_round, law.variance)),
        "agents": _least(_of_pairs(by_agent, law.variance)),
        "repeats": _repeats(np.abs(flat)),
    }
    return ResidualReport(p_values, level)


class _Law(NamedTuple):
    """The law of a whitened residual: distribution function, variance, and the test of its size."""

    cdf: Callable[..., Any]
    variance: float
    size: Callable[[HostArray], float]


def _law(mechanism: Mechanism) -> _Law:
    if isinstance(mechanism, Gaussian):
        return _Law(stats.norm.cdf, 1.0, _gaussian_size)
    if isinstance(mechanism, Laplace):
        return _Law(stats.laplace.cdf, 2.0, _laplace_size)
    raise InputError(f"{type(mechanism).__name__} has no law to test against")


def _gaussian_size(u: HostArray) -> float:
    """P-value of sum u^2, chi-squared with as many degrees of freedom as residuals."""
    total = float(np.sum(u**2))
    return _both_sides(stats.chi2.cdf(total, u.size), stats.chi2.sf(total, u.size))


def _laplace_size(u: HostArray) -> float:
    """P-value of sum |u|, gamma with as many degrees as residuals."""
    total = float(np.sum(np.abs(u)))
    return _both_sides(stats.gamma.cdf(total, u.size), stats.gamma.sf(total, u.size))


def _both_sides(below: float, above: float) -> float:
    return float(min(1.0, 2 * min(below, above)))


def _least(p_values: list[float]) -> float:
    """Return the p-value of the least of several: times their number, at most 1."""
    return min(1.0, len(p_values) * min(p_values)) if p_values else 1.0


def _at_lags(by_round: HostArray, variance: float) -> list[float]:
    """P-values of sum u_t u_(t+lag) over all t, for every lag."""
    return [
        _correlation(by_round[lag:], by_round[:-lag], variance) for lag in range(1, len(by_round))
    ]


def _of_pairs(by_agent: HostArray, variance: float) -> list[float]:
    """P-values of sum u_i u_j for every pair of agents."""
    return [_correlation(u, v, variance) for u, v in combinations(by_agent, 2)]


def _correlation(u: HostArray, v: HostArray, variance: float) -> float:
    """P-value of sum u v over n independent pairs: mean 0, variance n variance^2."""
    return _two_sided(float(np.sum(u * v)) / (np.sqrt(u.size) * variance))


def _two_sided(z: float) -> float:
    return float(2 * stats.norm.sf(abs(z)))


def _repeats(sizes: HostArray) -> float:
    """P-value of the number of neighbours closer than a gap that independent draws rarely make.

    |u| has a density of at most 1 under both laws, so two independent draws fall within g of one
    another with probability at most 2 g, and n of them make at most n^2 g such pairs on average:
    1e-4 for the g used here, which rounding in double precision does not reach.
    """
    gap = 1e-4 / sizes.size**2
    close = int(np.sum(np.diff(np.sort(sizes)) < gap))
    return float(stats.poisson.sf(close - 1, sizes.size**2 * gap)) if close else 1.0
