"""Step sizes and averages from public facts, shared by methods that follow noised gradients."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from tacit.algorithms.algorithm import Noise
from tacit.errors import InputError
from tacit.spec import Spec
from tacit.typing import HostArray


def radius_of(spec: Spec) -> float:
    """Return sqrt(d) / R: coordinates of order one for records of norm one."""
    return float(np.sqrt(spec.dimension) / spec.record_norm)


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


def step_within(limit: float, spec: Spec, noise: Noise, sweeps: float) -> float:
    """Return half of `limit`, or less if the noise asks for it.

    A *sweep* asks every agent once. In n of them a direction with little curvature moves by the
    horizon n eta times its gradient; the horizon that the noise allows is derived at
    `tacit.algorithms.NoisyGradient`: H = radius sqrt(n / d) / nu, radius = sqrt(d) / R, with nu the
    standard deviation of the mean answer of a sweep. So eta = min(limit / 2, H / n).
    """
    spread = np.sqrt(spec.dimension) * noise.of_mean
    if spread == 0:
        return limit / 2
    radius = np.sqrt(spec.dimension) / spec.record_norm
    return float(min(limit / 2, radius / (spread * np.sqrt(sweeps))))


def steps_and_averaging(
    step: float | None, limit: float, spec: Spec, noise: Noise, *, rounds: int, sweeps: float
) -> dict[str, HostArray]:
    """Return `step_size`, the one given or else `step_within` the limit, and `averaging`."""
    size = step or step_within(limit, spec, noise, sweeps)
    return {"step_size": np.full(rounds, size), "averaging": averaging(rounds, noise)}


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
