"""Whether the residuals of one run are the noise that was promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
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
    answers: HostArray, exact: HostArray, scale: HostArray, mechanism: Mechanism, *, level: float
) -> ResidualReport:
    """Return the tests of u = (answer - exact) / scale against independent draws of the stated law.

    Tests: mean, variance, distribution (Kolmogorov-Smirnov), correlation from round to round and
    from agent to agent, and repeated values. False alarms are at most `level` in all (Bonferroni;
    the first two and the correlations are normal approximations).

    Parameters
    ----------
    answers, exact
        `(T, E, A, *shape)`, from the run and from its replay.
    scale
        `(T, E, A)`, as recorded.
    """
    law = _law(mechanism)
    wide = scale.reshape(scale.shape + (1,) * (answers.ndim - scale.ndim))
    if not np.all(scale > 0):
        raise InputError("an answer was given without noise; its residual cannot be tested")
    u = ((answers - exact) / wide).reshape(*scale.shape, -1)
    flat = u.ravel()
    n, variance = flat.size, law.variance
    rounds = u.reshape(-1, *u.shape[2:])
    p_values = {
        "mean": _two_sided(np.mean(flat) * np.sqrt(n / variance)),
        "variance": _two_sided((np.mean(flat**2) / variance - 1) * np.sqrt(n / (law.kurtosis - 1))),
        "distribution": float(stats.kstest(flat, law.cdf).pvalue),
        "rounds": _correlation(list(pairwise(rounds)), variance),
        "agents": _correlation(list(pairwise(np.moveaxis(u, 2, 0))), variance),
        "repeats": _repeats(flat),
    }
    return ResidualReport(p_values, level)


class _Law(NamedTuple):
    """The law of a whitened residual: its distribution function and two moments."""

    cdf: Callable[..., Any]
    variance: float
    kurtosis: float


def _law(mechanism: Mechanism) -> _Law:
    if isinstance(mechanism, Gaussian):
        return _Law(stats.norm.cdf, 1.0, 3.0)
    if isinstance(mechanism, Laplace):
        return _Law(stats.laplace.cdf, 2.0, 6.0)
    raise InputError(f"{type(mechanism).__name__} has no law to test against")


def _two_sided(z: float) -> float:
    return float(2 * stats.norm.sf(abs(z)))


def _correlation(pairs: list[tuple[HostArray, HostArray]], variance: float) -> float:
    """P-value of sum u v over n neighbouring pairs: mean 0, variance n variance^2."""
    products = np.concatenate([(u * v).ravel() for u, v in pairs]) if pairs else np.zeros(0)
    if products.size == 0:
        return 1.0
    return _two_sided(np.sum(products) / (np.sqrt(products.size) * variance))


def _repeats(flat: HostArray) -> float:
    """P-value of the number of neighbours closer than a gap that independent draws rarely make.

    Two independent draws of density p fall within g of one another with probability at most 2 g max
    p <= 2 g, so n of them make at most n^2 g such pairs on average: below 1e-4 for the g used here,
    which rounding in double precision does not reach.
    """
    gap = 1e-4 / flat.size**2
    close = int(np.sum(np.diff(np.sort(flat)) < gap))
    return float(stats.poisson.sf(close - 1, flat.size**2 * gap)) if close else 1.0
