"""Step sizes and averages from public facts, shared by methods that follow noised gradients."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from tacit.algorithms.algorithm import Noise
from tacit.errors import InputError
from tacit.spec import Spec
from tacit.typing import HostArray


def radius_of(spec: Spec, ridge: float = 0.0) -> float:
    r"""Return the norm that a solution is assumed to have when a horizon is chosen.

    sqrt(d) / R: coordinates of order one for records of norm one. A horizon chosen by it lets the
    noise of the model grow to this norm, and a ridge mu charges mu/2 for the square of all of it,
    in directions that the records do not bend, too. So with a ridge it is

        sqrt(d) / R min(1, sqrt(L / (mu d (1 + ln d)))).

    Derivation. Let the solution's coordinates be s = 1/R along the eigenvectors of the loss's
    Hessian, with eigenvalues h_i = k / i, as those of images and of counts nearly are; they add up
    to L at most, so k = L / (1 + ln d). After a horizon H those above 1/H have settled. The others
    still gain sum h_i^2 s^2 = k s^2 / H a unit of horizon. The noise, of variance H^2 nu^2 / T in
    each of d directions, costs H nu^2 / T (k + mu d) more: k for the loss, up to a logarithm. Both
    are equal at

        H = s sqrt(T) / nu / sqrt(1 + mu d / k),

    the horizon of `NoisyGradient` at a radius of sqrt(d) s / sqrt(1 + mu d / k); the larger of the
    two costs is taken for their sum, so that a ridge changes nothing where it is small.

    What this lowers is the objective, ridge included. Methods on a star take the radius without the
    ridge: their horizon does not depend on the rounds, and noise that only the ridge charges for
    leaves predictions as they are.
    """
    size = np.sqrt(spec.dimension) / spec.record_norm
    bend = ridge * spec.dimension * (1 + np.log(spec.dimension)) / spec.smoothness
    return float(size / np.sqrt(max(1.0, bend)))


def batch_variance(spec: Spec, rate: float) -> float:
    """Return a bound on the variance of the mean of all agents' batch gradients, 0 at rate 1.

    An agent's is (1 - q) / (q m_i^2) sum_j |g_j|^2 <= (1 - q) c_1^2 / (q m_i); agents draw
    independently. Where c_1 is infinite, L / R stands for it, the gradient at a margin of order
    one; it is then an estimate.
    """
    slope = spec.gradient_bound
    if not np.isfinite(slope):
        slope = spec.smoothness / spec.record_norm
    share = np.sum(1 / np.asarray(spec.counts, np.float64)) / spec.agents**2
    return float((1 - rate) / rate * slope**2 * share)


def step_within(limit: float, spec: Spec, noise: Noise, sweeps: float, ridge: float = 0.0) -> float:
    r"""Return half of `limit`, or less if the noise asks for it.

    A *sweep* asks every agent once. In n of them a direction with little curvature moves by the
    horizon n eta times its gradient; the horizon that the noise allows is derived at
    `tacit.algorithms.NoisyGradient`: H = radius sqrt(n / d) / nu, with the radius of `radius_of`
    and nu the standard deviation of the mean answer of a sweep. So eta = min(limit / 2, H / n).

    At a fixed total nu grows as sqrt(n) and H is the same for every n, but a short run does not get
    so far. A longer one is never worse if what it moves beyond a shorter one pays for its noise, up
    to H. In many columns H is therefore at most

        H' = 4 (L / d) n / (R nu)^2.

    Derivation. On records alike in every direction the loss has curvature L / d in each, and
    targets that a margin decides give it a gradient at 0 of squared norm 4 L^2 / (d R^2), about
    what the logistic loss has (its slope at 0 is 1/2 = 2 L, 2/pi of its square is left). A unit of
    horizon gains that, and costs L H nu^2 / n in noise: equal at H'. Records that differ in their
    directions gain more at first, so that H' is the least of them. H' < H where d > 4 L H, that is
    where even the noise's own horizon is too short for a typical direction to settle.
    """
    if noise.of_mean == 0:
        return limit / 2
    ratio = np.sqrt(sweeps) / noise.of_mean
    horizon = radius_of(spec, ridge) * ratio / np.sqrt(spec.dimension)
    even = 4 * spec.smoothness / spec.dimension * (ratio / spec.record_norm) ** 2
    return float(min(limit / 2, min(horizon, even) / sweeps))


def checked_step(name: str, step: float, limit: float, why: str) -> float:
    """Return the step size if it is below its limit, else raise `InputError` with the limit."""
    if not 0 < step < limit:
        raise InputError(
            f"{name} has step size {step:g}; it must be above 0 and below {limit:.4g} = {why}, "
            "beyond which it may diverge"
        )
    return step


def smoothness_of(spec: Spec) -> float:
    """Return the Lipschitz constant of the gradients, or raise `InputError` if there is none."""
    if not np.isfinite(spec.smoothness):
        raise InputError("the loss has no Lipschitz gradient; smooth it to use this algorithm")
    return spec.smoothness


def averaging(rounds: int, noise: Noise) -> Float[HostArray, " T"]:
    """Return the weights a_t of xbar <- xbar + a_t (x - xbar).

    With noise it is the mean over the last half of the rounds; without, the last iterate.
    """
    return np.ones(rounds) if noise.multiplier == 0 else tail_average(rounds)


def tail_average(rounds: int, fraction: float = 0.5) -> Float[HostArray, " T"]:
    """Return the weights a_t of a running mean over the last `fraction` of the rounds."""
    return running_mean(rounds, rounds - max(1, round(fraction * rounds)))


def running_mean(rounds: int, first: int = 0) -> Float[HostArray, " T"]:
    """Return the weights a_t = 1/(t - first) of a mean from round `first` on, 1 before."""
    return 1 / np.maximum(1.0, np.arange(rounds) - first + 1)
