"""The schedules of Ryu & Kim 2023 for the linearised ADMM."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import numpy as np
from typing_extensions import override

from taciturn.algorithms import Noise, Settings
from taciturn.checks import at_least, not_negative, positive
from taciturn.errors import InputError
from taciturn.kernel.records import Spec
from taciturn.typing import HostArray

# where the noise enters: on the gradient, on the solution, or on it and then projected
Form = Literal["objective", "output", "projected-output"]
LocalStepRule = Literal["smooth", "nonsmooth", "strongly-convex"]


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
        not_negative("first", self.first)
        not_negative("private", self.private)
        at_least("period", self.period, 1)
        positive("per_update", self.per_update, allow_infinity=True)
        if self.step_rule == "strongly-convex":
            positive("strong_convexity", self.strong_convexity)

    @property
    @override
    def averages_queries(self) -> bool:
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
        if not np.isfinite(spec.smoothness):
            raise InputError("the loss has no Lipschitz gradient; smooth it to use this step rule")
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
