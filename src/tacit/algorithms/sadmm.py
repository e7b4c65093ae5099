"""DP-SADMM: stochastic ADMM with Laplacian smoothing (Liu et al. 2022, Algorithm 2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from typing_extensions import override

from tacit.algorithms.algorithm import Noise, Turn
from tacit.algorithms.splitting import Iterate, SplittingADMM
from tacit.algorithms.steps import running_mean, tail_average
from tacit.oracles import Point
from tacit.spec import Spec
from tacit.typing import HostArray, Vector


class _Public(NamedTuple):
    iterate: Iterate
    average: Vector


class SADMM(SplittingADMM):
    r"""One noised gradient a round, at x; then the step of `SplittingADMM`.

    The oracle decides the method: `tacit.oracles.MinibatchGradient` with noise is DP-SADMM,
    without noise STOC-ADMM; `tacit.oracles.Gradient` is ADMM, linearised, on all records.

    The released model is an average of x: "published", over all rounds, weighted by t if the
    problem is strongly convex; "public", over the last half. Without noise on all records it is
    the last x, and the method converges to the optimum for every structure.
    """

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        values = self.steps(spec, rounds, noise.of_mean, sampled=noise.sampled)
        return values | {"averaging": self._averaging(rounds, noise)}

    def _averaging(self, rounds: int, noise: Noise) -> HostArray:
        if self.step_rule == "public":
            settled = noise.multiplier == 0 and not noise.sampled
            return np.ones(rounds) if settled else tail_average(rounds)
        return 2 / (np.arange(rounds) + 2) if self.problem.ridge else running_mean(rounds)

    @override
    def ask(self, state: Vector, inbox: _Public, turn: Turn) -> Point:
        return Point(inbox.iterate.x)

    @override
    def first_public(self, template: Vector) -> _Public:
        return _Public(self.first(template), template)

    @override
    def combine(self, public: _Public, mean_message: Vector, turn: Turn) -> _Public:
        iterate = self.advance(public.iterate, mean_message, turn)
        weight = turn.values["averaging"]
        return _Public(iterate, public.average + weight * (iterate.x - public.average))

    @override
    def model(self, public: _Public) -> Vector:
        return public.average


class RenyiADMM(SADMM):
    r"""Stochastic ADMM for x = y with an exact x-step (Chen and Lee 2020), A = I and B = -I.

        x    <- argmin g'x + (rho/2) |x - y + dual|^2 + |x - x_t|^2 / (2 eta)
             =  (x_t / eta + rho (y - dual) - g) / (1/eta + rho)
        y    <- prox_{r / rho}(x + dual)
        dual <- dual + x - y.

    The formulas are a reconstruction from the description in Liu et al. 2022; noise and
    composition are those of this library, not the Renyi bounds of the paper. `step_size` is here
    eta / (1 + eta rho |A'A|), from which eta follows.
    """

    @override
    def advance(self, at: Iterate, gradient: Vector, turn: Turn) -> Iterate:
        rho = turn.values["rho"]
        stiffness = 1 / turn.values["step_size"]  # 1/eta + rho, since |A'A| = 1
        slope = gradient + self.problem.ridge * at.x
        x = ((stiffness - rho) * at.x + rho * (at.y - at.dual) - slope) / stiffness
        y = self.problem.regulariser.prox(x + at.dual, 1 / rho)
        return Iterate(x, y, at.dual + x - y)
