"""Schedules of the linearised ADMM: their interface, and a choice from public facts."""

from __future__ import annotations

import math
from abc import abstractmethod

import equinox as eqx
import numpy as np
from typing_extensions import override

from tacit import checks
from tacit.algorithms.algorithm import Noise
from tacit.algorithms.steps import smoothness_of, tail_average
from tacit.spec import Spec
from tacit.typing import HostArray


class Settings(eqx.Module):
    """Schedules of rho, 1/eta and the averaging weights, `(T,)` each, in units of the library."""

    @property
    def averages_queries(self) -> bool:
        """Whether the points of the questions are averaged, instead of the solutions."""
        return False

    @abstractmethod
    def rho(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        """Return rho_t; `size` is (T, E), `noise` that on the weighted gradients."""

    @abstractmethod
    def inverse_step(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        """Return 1 / eta_t."""

    @abstractmethod
    def averaging(self, rounds: int, noise: Noise) -> HostArray:
        """Return a_t of xbar <- xbar + a_t (x_t - xbar)."""


class PublicSettings(Settings):
    r"""Constant rho and eta from public facts.

    Write c = rho + 1/eta, n = T E for the number of updates, nu for the standard deviation, per
    coordinate, of the mean of the agents' noised gradients, R for the record norm and L for the
    smoothness. With one update a round and no active constraint the mean of the agents' iterates
    makes gradient steps of length 1/c, so n updates reach the horizon H = n / c, and the argument
    of `NoisyGradient` (stop when the noise moves a record's margin by one unit) asks for H =
    sqrt(n) / (nu R). There is no momentum, and 1/eta must be at least L. Hence

        c = max((1 + k) L, sqrt(n) nu R),   rho = k c / (1 + k),   k = `consensus` / E,

    so that E updates pull an agent towards the consensus by a fixed factor, whatever E. With noise
    the last half of the rounds is averaged, without it nothing is.

    Attributes
    ----------
    consensus
        E times rho eta: how strongly one round pulls towards the consensus.
    """

    consensus: float = eqx.field(static=True, default=0.5)

    def __check_init__(self) -> None:
        checks.positive("consensus", self.consensus)

    @override
    def rho(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        share = self.consensus / size[1]
        return self.inverse_step(spec, size, noise) * share

    @override
    def inverse_step(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        smoothness, share = smoothness_of(spec), 1 + self.consensus / size[1]
        reach = math.sqrt(math.prod(size)) * noise.of_mean * spec.record_norm
        return np.full(size[0], max(smoothness, reach / share))

    @override
    def averaging(self, rounds: int, noise: Noise) -> HostArray:
        if noise.of_mean == 0 and not noise.sampled:
            return np.ones(rounds)
        return tail_average(rounds)
