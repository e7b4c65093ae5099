r"""Standard errors of Newton's method from its answers and the law of their noise.

Let w be the point of the last round, g and H the noised mean gradient and second derivatives
there, and w_T = w - H^-1 g. With n records, J the covariance of a record's gradient at the
minimiser w* of the population, s and t the standard deviations of an entry of the noise of g and of
a diagonal entry of the noise E of H (of another one t / sqrt(2)), and v = w_T - w,

.. math::
    \operatorname{Cov}(w_T) \approx H^{-1} \Bigl( \frac{J}{n} + s^2 I
        + \frac{t^2}{2} (|v|^2 I + v v') \Bigr) H^{-1}.

The first term is the variance by sampling, as without privacy; the others are due to the noise. The
last one is the covariance of E (w - w*), with v for w - w*. What is left out is the curvature of
the gradient between w and w*, of second order in w - w*, and that H is itself noised.

**When H is too noisy.** The norm of E is about t sqrt(2 D) at most. The table is refused if the
least eigenvalue of H is below 2 t sqrt(D): a direction may then owe its curvature to noise. This
rule uses answers alone, so it costs no privacy.

**J.** By the model J = H (the information equality), for a model with a dispersion J = phi H, with
phi n / (n - D) times the noised mean squared coefficient; or J is asked for ("robust"), projected
to its positive semi-definite part.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.algorithms import Asked, Newton, unpacked
from taciturn.engine import Plan
from taciturn.kernel.questions import Derivatives
from taciturn.typing import HostArray


class Fit(NamedTuple):
    """Estimates with their covariance, by sampling and by noise, per feature.

    - `weakest`, `needed`: The least eigenvalue of H, and the least one that is accepted.
    """

    estimate: Float[HostArray, "D"]
    by_sampling: Float[HostArray, "D D"]
    by_noise: Float[HostArray, "D D"]
    weakest: float
    needed: float

    @property
    def refused(self) -> bool:
        """Whether the second derivatives are too noisy for standard errors."""
        return not self.weakest > self.needed


def fit(plan: Plan, method: Newton, public: Asked) -> Fit:
    """Return estimates and covariances from the last public value of a run of `method`."""
    point, answer = np.asarray(public.point), np.asarray(public.answer)
    records, features = sum(plan.spec.counts), len(point)
    last = method.asks[-1]
    bent = method.asks[-2] if last.of_scores else last
    scales = noise_of_mean(plan)
    second = _matrix(np.asarray(public.second), features) / bent.second
    error, entry = scales[-1], scales[-2 if last.of_scores else -1] / bent.second
    estimate = np.asarray(public.model)
    values, basis = np.linalg.eigh(second)
    inverse = (basis / np.where(values > 0, values, np.inf)) @ basis.T
    scores = _scores(last, answer, second, records)
    step = estimate - point
    square = float(step @ step) * np.eye(features) + np.outer(step, step)
    noise = error**2 * np.eye(features) + entry**2 / 2 * square
    return Fit(
        estimate,
        inverse @ scores @ inverse / records,
        inverse @ noise @ inverse,
        float(values[0]),
        2 * entry * math.sqrt(features),
    )


def noise_of_mean(plan: Plan) -> Float[HostArray, "T"]:
    """Return the standard deviation, per entry, of the noise of the mean answer of every round."""
    scales = np.asarray(plan.ledger.scale, np.float64)[:, :, 0]
    found: HostArray = np.sqrt(np.sum(np.square(scales), axis=0)) / plan.spec.agents
    return found


def _scores(
    last: Derivatives, answer: HostArray, second: HostArray, records: int
) -> Float[HostArray, "D D"]:
    """Return J, the covariance of the gradient of a record."""
    features = len(second)
    if last.of_scores:
        values, basis = np.linalg.eigh(_matrix(answer, features) / last.second)
        asked: HostArray = (basis * np.maximum(values, 0)) @ basis.T
        return asked
    if last.squares == 0:
        return second
    dispersion = max(float(answer[-1]) / last.squares, 0.0) * records / (records - features)
    return dispersion * second


def _matrix(answer: HostArray, features: int) -> Float[HostArray, "D D"]:
    """Return the symmetric matrix at the head of an answer."""
    size = features * (features + 1) // 2
    packed = jnp.asarray(np.concatenate([answer[:size], np.zeros(features)]))
    return np.asarray(unpacked(packed, features)[0])
