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

**When there are no standard errors.** By answers alone, so at no cost in privacy:

- *H is too noisy.* The norm of E is about t sqrt(2 D) at most. If the least eigenvalue of H is
  below 2 t sqrt(D), a direction may owe its curvature to noise. Without noise it must exceed 1e-10
  times the largest one, for columns that determine one another.
- *The method has not converged.* The term left out moves scores by at most about half the mean
  square m^2 of v'x where |l'''| <= l'' (b times that where |l'''| <= b l''); it must be small
  beside the standard error of a score, of which s^2 is the mean square per coefficient: m^2 <= 4 s,
  both weighted by H.
- *Fisher's scoring did not see a flat part.* The second derivatives of `Gamma` are expectations,
  which do not become small where the likelihood is flat: for means far above the responses, where
  steps have about the length 1. So no direction may have a step of more than 1/4. Nor may its
  standard error by noise be above 1/20: the point before has twice the noise, and the term left
  out, half of its square, is then less than a tenth of a standard error.

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

from taciturn.algorithms import LONGEST, Asked, Newton, unpacked
from taciturn.engine import Plan
from taciturn.kernel.questions import Derivatives, Loss, Squared
from taciturn.problems import Gamma, Huber, SmoothedQuantile, Survival
from taciturn.typing import HostArray

# the largest m^2 / s of a last step, and the least relative eigenvalue without noise
_NEAR, _SINGULAR = 4.0, 1e-10
# the longest step, and the largest standard error, of a direction with Fisher's scoring
_STEP, _ERROR = 0.25, 0.05


class Fit(NamedTuple):
    """Estimates with their covariance, by sampling and by noise, per coefficient.

    - `refused`: Why standard errors are not valid; None if they are.
    - `hidden`: If H is too noisy, the directions whose eigenvalue is too small.
    """

    estimate: Float[HostArray, "P"]
    by_sampling: Float[HostArray, "P P"]
    by_noise: Float[HostArray, "P P"]
    refused: str | None
    hidden: Float[HostArray, "P _m"] | None = None


def fit(plan: Plan, method: Newton, public: Asked) -> Fit:
    """Return estimates and covariances from the last public value of a run of `method`."""
    estimate, point = (
        np.asarray(method.chosen(jnp.asarray(one))) for one in (public.model, public.point)
    )
    answer = np.asarray(public.answer)
    records, features = sum(plan.spec.counts), len(point)
    last = method.asks[-1]
    bent = method.asks[-2] if last.of_scores else last
    scales = noise_of_mean(plan)
    second = _matrix(np.asarray(public.second), features) / bent.second
    error, entry = scales[-1], scales[-2 if last.of_scores else -1] / bent.second
    values, basis = np.linalg.eigh(second)
    least = max(2 * float(entry) * math.sqrt(features), _SINGULAR * float(values[-1]))
    nothing = np.zeros((features, features))
    if not values[0] > least:
        survival = isinstance(method.problem.loss, Survival)
        why = _too_noisy(float(values[0]), least, noise=bool(entry > 0), survival=survival)
        return Fit(estimate, nothing, nothing, why, basis[:, values <= least])
    inverse = (basis / values) @ basis.T
    scores = _scores(last, answer, second, records)
    step = estimate - point
    square = float(step @ step) * np.eye(features) + np.outer(step, step)
    noise = error**2 * np.eye(features) + entry**2 / 2 * square
    found = Fit(estimate, inverse @ scores @ inverse / records, inverse @ noise @ inverse, None)
    far = _distance(found, second, step, plan.spec.record_norm, _bend(method.problem.loss))
    if isinstance(method.problem.loss, Gamma):
        errors = np.sqrt(np.diag(basis.T @ found.by_noise @ basis))
        far = max(far, *(np.abs(basis.T @ step) / _STEP), *(errors / _ERROR))
    return found if far <= 1 else found._replace(refused=_too_far(far))


def _bend(loss: Loss) -> float:
    """Return about the most of |l'''| / l''."""
    if isinstance(loss, Squared):
        return 0.0
    if isinstance(loss, SmoothedQuantile):
        return 1 / loss.smoothing
    return 1 / loss.threshold if isinstance(loss, Huber) else 1.0


def _distance(found: Fit, second: HostArray, step: HostArray, norm: float, bend: float) -> float:
    """Return how far the last step is from its limit, as a part of what is accepted."""
    weight = float(np.trace(second)) / norm**2
    moved = float(step @ second @ step) / weight
    shortened = moved > (1 - 1e-6) * LONGEST**2
    together = found.by_sampling + found.by_noise
    error = math.sqrt(float(np.trace(second @ together)) / weight / len(step))
    far = bend * moved / (_NEAR * error) if error > 0 else 0.0
    return math.inf if shortened else far


def _too_noisy(least: float, needed: float, *, noise: bool, survival: bool) -> str:
    if not noise:
        return (
            "some terms follow from others or do not vary, or a response that is certain has no "
            "finite coefficients (the second derivatives are singular); leave terms out"
        )
    return (
        "the noise hides how much the terms vary (the least eigenvalue of the second derivatives "
        f"is {least:.3g}, and it must be above {needed:.3g}); more records, a larger epsilon, the "
        "observer sum, narrower bounds, fewer terms"
        f"{', a smaller --largest-hazard' if survival else ''} help"
    )


def _too_far(far: float) -> str:
    return (
        f"the method has not converged (its last step, or its error, is {far:.3g} times as long as "
        "is accepted); more rounds help, or bounds that the columns fill better, or fewer terms"
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
