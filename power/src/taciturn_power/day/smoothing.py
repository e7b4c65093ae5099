r"""A day of noised demands, smoothed: post-processing of the answers with a public model.

Of one demand y = s + n, with noise n ~ N(0, diag(sigma_t^2)) of known size. The public model says
that s is smooth: its second differences D s are independent, N(0, q). The line through the day is
left free. Given q, the smoothed demand (Whittaker's, or that of a Kalman smoother of an integrated
random walk) is the mean of s given y,

    s^ = y - Sigma D' (q I + D Sigma D')^-1 D y.

q is chosen by maximum likelihood of D y ~ N(0, q I + D Sigma D'), which the level and the slope of
the day do not enter (restricted likelihood). With the eigenvectors U and eigenvalues l_k of
D diag(r_t^2) D', sigma_t = sigma r_t, all of it costs one decomposition for all demands.

**What demands share.** They rise and fall together, and the noise of one demand hides a shape that
the noise of all of them together does not. So demands, divided by their noise, are turned: one
axis lies along their mean over the day, the others across it (a Householder reflection, so that
noise stays independent and of size 1). Along the axes, and not bus by bus, they are smoothed, each
with a q of its own; then they are turned back.

**Guarantee.** Functions of the answers, of the known noise and of nothing else. How far s^ is from
the true demand in the mean, its bias, depends on the true demand, and nobody knows it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from taciturn.typing import HostArray

# of q over the variance of the noise: from a straight line to hardly any smoothing
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-9, 1e4, 105)])


def smoothed(
    answers: Float[HostArray, "T N 2"], noise: Float[HostArray, "T N"]
) -> Float[HostArray, "T N 2"]:
    """Return the answers smoothed, active and reactive demands apart, per unit.

    Parameters
    ----------
    answers
        The noised demands, per unit.
    noise
        Their standard deviations: a size for every bus times a factor for every step. Where they
        are 0 the answers are returned as they are; so are those of fewer than 3 steps.
    """
    steps = len(answers)
    if steps < 3 or not np.all(noise > 0):
        return answers
    differences = np.diff(np.eye(steps), 2, axis=0)
    spread = differences * np.square(noise[:, 0] / noise[0, 0])
    weights, basis = np.linalg.eigh(spread @ differences.T)
    found = np.empty_like(answers)
    for kind in range(answers.shape[2]):
        turned = _Turned(answers[:, :, kind] / noise[0])
        parts = basis.T @ np.diff(turned.values, 2, axis=0)
        ratio = _likeliest(weights, parts)
        values = turned.values - spread.T @ (basis @ (parts / (ratio + weights[:, None])))
        found[:, :, kind] = turned.back(values) * noise[0]
    return found


class _Turned:
    """Demands in units of their noise, reflected so that the first column is what they share."""

    def __init__(self, demands: HostArray) -> None:
        level = np.mean(demands, axis=0)
        length = float(np.linalg.norm(level))
        # towards the far side of the axis: nothing cancels
        self.mirror = level + np.copysign(length, level[0]) * np.eye(1, len(level))[0]
        self.values = self.back(demands)

    def back(self, values: HostArray) -> HostArray:
        """Return a reflection, which is its own inverse."""
        size = float(self.mirror @ self.mirror)
        if not size > 0:
            return values
        reflected: HostArray = values - np.outer(values @ self.mirror, 2 / size * self.mirror)
        return reflected


def _likeliest(
    weights: Float[HostArray, " K"], parts: Float[HostArray, "K M"]
) -> Float[HostArray, " M"]:
    """Return q over the variance of the noise with the largest likelihood, for each column."""
    best: HostArray = np.full(parts.shape[1], np.inf)
    chosen, squares = best, np.square(parts)
    for ratio in _RATIOS.tolist():
        variance = ratio + weights
        # minus twice the logarithm of the likelihood
        cost = np.sum(np.log(variance)) + (1 / variance) @ squares
        better = cost < best
        best, chosen = np.where(better, cost, best), np.where(better, ratio, chosen)
    return chosen
