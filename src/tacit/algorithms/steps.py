"""Step sizes and averages from public facts, shared by methods that follow noised gradients."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from tacit.algorithms.algorithm import Noise
from tacit.errors import InputError
from tacit.spec import Spec
from tacit.typing import HostArray


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


def averaging(rounds: int, noise: Noise, fraction: float = 0.5) -> Float[HostArray, " T"]:
    """Return the weights a_t of xbar <- xbar + a_t (x - xbar).

    With noise it is the mean over the last `fraction` of the rounds; without, the last iterate.
    """
    if noise.multiplier == 0:
        return np.ones(rounds)
    return tail_average(rounds, fraction)


def tail_average(rounds: int, fraction: float) -> Float[HostArray, " T"]:
    """Return the weights a_t of a running mean over the last `fraction` of the rounds."""
    first = rounds - max(1, round(fraction * rounds))
    return 1 / np.maximum(1.0, np.arange(rounds) - first + 1)
