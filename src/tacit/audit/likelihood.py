"""The likelihood-ratio attack: runs on D and on D', and a lower bound on mu at a confidence."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, ndtri

from tacit import checks
from tacit.engine.door import RivalRecord
from tacit.errors import InputError
from tacit.privacy import Mechanism, Messages, Observer
from tacit.typing import Array, HostArray


@dataclass(frozen=True)
class LowerBound:
    """What the attack proves: the run is not mu-GDP for any mu below `mu`, at this confidence."""

    mu: float
    confidence: float
    false_positives: int
    false_negatives: int
    runs: int

    @property
    def reachable(self) -> float:
        """The largest bound that so many runs can prove, by an attacker who never errs."""
        none = upper_rate(0, self.runs, 1 - self.confidence)
        return float(ndtri(1 - none) - ndtri(none))


def log_likelihood_ratio(
    record: RivalRecord, mechanism: Mechanism, observer: Observer
) -> Float[Array, ""]:
    """Return log p(view | first) - log p(view | second) of one run.

    Messages: the sum over all answers of log q(y - m) - log q(y - m'). Sum: the observer sees the
    sum of the agents' answers and takes away what it knows, the other agents' exact answers and
    the noise of the last k agents, the colluders; Gaussian noise of variance sum scale_i^2 over
    the honest ones is left. (Where summation is credited, messages are affine in answers, so the
    sum of messages says the same.) The two data sets must differ at agent 0.

    Parameters
    ----------
    record
        Leaves `(T, E, A, *shape)` and, for the scale, `(T, E, A)`.
    """
    if isinstance(observer, Messages):
        scale = _like(_where_any(record.scale, record), record.first)
        return mechanism.log_ratio(record.first / scale, record.second / scale, jnp.ones(()))
    honest = max(1, record.scale.shape[2] - observer.colluders)
    scale = jnp.sqrt(jnp.sum(record.scale[:, :, :honest] ** 2, axis=2))
    first, second = (jnp.sum(part[:, :, :honest], axis=2) for part in (record.first, record.second))
    scale = _like(scale, first)
    return mechanism.log_ratio(first / scale, second / scale, jnp.ones(()))


def _where_any(scale: Array, record: RivalRecord) -> Array:
    """Return the scales, with 1 where an agent gave no answer."""
    places = tuple(range(scale.ndim, record.first.ndim))
    silent = jnp.all((record.first == 0) & (record.second == 0), axis=places)
    return jnp.where((scale == 0) & silent, jnp.ones_like(scale), scale)


def _like(scale: Array, values: Array) -> Array:
    return scale.reshape(scale.shape + (1,) * (values.ndim - scale.ndim))


def lower_bound(on_first: HostArray, on_second: HostArray, *, confidence: float) -> LowerBound:
    """Return the bound from the ratios of runs on D (`on_first`) and on D' (`on_second`).

    The attacker says D if the ratio is above 0, a threshold fixed in advance. With Clopper-Pearson
    upper bounds, each at level (1 - confidence) / 2, on the false positive rate a (says D' on D)
    and the false negative rate b, mu-GDP requires Phi^-1(1 - a) - mu <= Phi^-1(b), hence

        mu >= Phi^-1(1 - a) - Phi^-1(b),        never below 0.

    The bound is one-sided: its sign is meant, and no absolute value is taken.

    Examples
    --------
    >>> import numpy as np
    >>> round(lower_bound(np.full(1000, 1.0), np.full(1000, -1.0), confidence=0.95).mu, 2)
    5.36
    """
    checks.fraction("confidence", confidence)
    runs = len(on_first)
    if len(on_second) != runs or runs < 1:
        raise InputError("the two sides need the same number of runs, at least one")
    if not (np.all(np.isfinite(on_first)) and np.all(np.isfinite(on_second))):
        raise InputError("a likelihood ratio is not finite; the scale of an audited answer is 0")
    false_positives = int(np.sum(~(on_first > 0)))
    false_negatives = int(np.sum(~(on_second < 0)))
    a, b = (upper_rate(k, runs, 1 - confidence) for k in (false_positives, false_negatives))
    mu = max(0.0, float(ndtri(1 - a) - ndtri(b)))
    return LowerBound(mu, confidence, false_positives, false_negatives, runs)


def upper_rate(events: int, runs: int, alpha: float) -> float:
    """Return the Clopper-Pearson upper bound on a rate, at level alpha / 2."""
    if events >= runs:
        return 1.0
    return float(betaincinv(events + 1, runs - events, 1 - alpha / 2))
