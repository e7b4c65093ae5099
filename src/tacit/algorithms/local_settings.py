"""Settings of the linearised ADMM: the published schedule, and one from public facts."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Literal

import equinox as eqx
import numpy as np
from typing_extensions import override

from tacit import checks
from tacit.algorithms.algorithm import Noise
from tacit.algorithms.steps import tail_average
from tacit.errors import InputError
from tacit.spec import Spec
from tacit.typing import HostArray

LocalStepRule = Literal["smooth", "nonsmooth", "strongly-convex"]


class Settings(eqx.Module):
    """Where rho, 1/eta and the averaging weights come from; all `(T,)`, in units of the library."""

    @property
    def averages_asked(self) -> bool:
        """Whether the points that were asked about are averaged, not those that came of them."""
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
        _need_smooth(spec)
        share = 1 + self.consensus / size[1]
        reach = math.sqrt(math.prod(size)) * noise.of_mean * spec.record_norm
        return np.full(size[0], max(spec.smoothness, reach / share))

    @override
    def averaging(self, rounds: int, noise: Noise) -> HostArray:
        if noise.of_mean == 0 and not noise.sampled:
            return np.ones(rounds)
        return tail_average(rounds)


class PublishedSettings(Settings):
    r"""The schedules of Ryu & Kim 2023: rho_t by (E.1), eta_t by (5.1a), (5.2a) or (5.3a).

    In the units of the paper, with e the privacy of one update,

        rho_t = min(10^9, c_1 1.2^floor(t / T_c) + c_2 / e)                        (E.1)
        smooth           1/eta_t = L + sqrt(t) / e                                 (5.1a)
        nonsmooth        1/eta_t = sqrt(t)                                         (5.2a)
        strongly-convex  1/eta_t = alpha (t + 2) / 2                               (5.3a)

    The paper minimises sum_p f_p with f_p = (1/I) times the sum over the agent's records, which is
    1/A times the weighted f_i here. Dividing an agent's step (3.2) by 1/A leaves it as it is, so
    **rho, 1/eta and the dual here are A times those of the paper**: its L is `spec.smoothness` / A
    (the largest weight included), its alpha is `strong_convexity` / A. What is averaged is
    (5.1c), (5.2c), (5.3c), each with its rule.

    Attributes
    ----------
    first, private, period
        c_1, c_2 and T_c.
    per_update
        e, the paper's budget of one update; infinity without noise.
    step_rule
        Which of the three.
    strong_convexity
        Of every f_i, for the third.
    averaged
        Whether the outputs are averaged as the theorems say; else the last ones are released, as
        in the paper's figures.
    """

    first: float = eqx.field(static=True)
    private: float = eqx.field(static=True)
    period: int = eqx.field(static=True)
    per_update: float = eqx.field(static=True)
    step_rule: LocalStepRule = eqx.field(static=True)
    strong_convexity: float = eqx.field(static=True, default=0.0)
    averaged: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        checks.not_negative("first", self.first)
        checks.not_negative("private", self.private)
        checks.at_least("period", self.period, 1)
        checks.positive("per_update", self.per_update, allow_infinity=True)
        if self.step_rule == "strongly-convex":
            checks.positive("strong_convexity", self.strong_convexity)

    @property
    @override
    def averages_asked(self) -> bool:
        return self.averaged and self.step_rule != "smooth"

    @override
    def rho(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        growth = 1.2 ** (_rounds(size) // self.period)
        theirs = np.minimum(1e9, self.first * growth + self.private / self.per_update)
        if not np.all(theirs > 0):
            raise InputError("rho is 0 under these settings; give c_1 above 0")
        return spec.agents * theirs

    @override
    def inverse_step(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        t = _rounds(size)
        if self.step_rule == "nonsmooth":
            return spec.agents * np.sqrt(t)
        if self.step_rule == "strongly-convex":
            return self.strong_convexity * (t + 2) / 2
        _need_smooth(spec)
        return spec.smoothness + spec.agents * np.sqrt(t) / self.per_update

    @override
    def averaging(self, rounds: int, noise: Noise) -> HostArray:
        t = _rounds((rounds, 1))
        if not self.averaged:
            return np.ones(rounds)
        return 2 / (t + 1) if self.step_rule == "strongly-convex" else 1 / t


def _rounds(size: tuple[int, int]) -> HostArray:
    t: HostArray = np.arange(1, size[0] + 1, dtype=np.float64)
    return t


def _need_smooth(spec: Spec) -> None:
    if not np.isfinite(spec.smoothness):
        raise InputError("the loss has no Lipschitz gradient; smooth it to use this step rule")
