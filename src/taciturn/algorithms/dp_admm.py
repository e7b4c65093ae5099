"""DP-ADMM: linearised consensus ADMM with noised gradients (Huang et al. 2019, Algorithm 3)."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import numpy as np
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.admm import ConsensusADMM, DualState
from taciturn.algorithms.algorithm import Noise, Turn
from taciturn.errors import InputError
from taciturn.oracles import Point
from taciturn.spec import Spec
from taciturn.typing import HostArray, Model

StepRule = Literal["nonsmooth", "smooth"]


class DPADMM(ConsensusADMM):
    """Linearised consensus ADMM whose agents ask for one noised gradient a round.

    With g the answer (the gradient of f_i at the agent's last iterate w_i, plus noise), eta the
    step size, rho the ADMM parameter, dual gamma_i and public value w, a round is (10a) to (10d):

        w_i     <- (w_i / eta + rho w + gamma_i - g - r'(w_i)) / (rho + 1/eta)      (12a)
        w       <- mean(w_i) - mean(gamma_i) / rho                                  (10c)
        gamma_i <- gamma_i - rho (w_i - w)          on receipt of w                 (10d)

    The paper adds noise of standard deviation sigma_k to w_i; that equals noise of constant
    standard deviation s = sigma_k (rho + 1/eta) on g, by (14). Both step rules are functions of s:

        nonsmooth (29):  eta_k = c_w / sqrt(2 k ((c_1 + c_2)^2 + d s^2))
        smooth    (34):  eta_k = 1 / (c_3 + c_4 + s sqrt(2 d k) / c_w)

    Our regulariser weight is the paper's lambda / n, so c_2 and c_4 carry it already.

    **Guarantee.** As for `ADMM`.

    Attributes
    ----------
    problem, rho, regulariser_at
        As for `ConsensusADMM`; at the agents the regulariser is linearised.
    radius
        c_w, the assumed norm of the solution. The paper took it from the private optimum (23 and 89
        on Adult), which is not private. None is the public choice sqrt(A d) / R: coordinates of
        order one for records of norm one, times sqrt(A) because the rules count one agent's noise
        and the public value averages that of A agents.
    step_rule
        "nonsmooth" (29) or "smooth" (34).
    """

    radius: float | None = eqx.field(static=True, kw_only=True)
    step_rule: StepRule = eqx.field(static=True, kw_only=True)

    def __check_init__(self) -> None:
        if self.radius is not None:
            checks.positive("radius", self.radius)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        radius = self.radius or np.sqrt(spec.agents * spec.dimension) / spec.record_norm
        k = np.arange(1, rounds + 1)
        spread = np.sqrt(spec.dimension) * noise.gradient_scale[:, None]  # sqrt(d) s, (A, 1)
        slope, curvature = spec.gradient_bound, spec.smoothness  # c_1 and c_3
        if self.regulariser_at == "agents":
            slope, curvature = (
                slope + spec.regulariser_bound,
                curvature + spec.regulariser_smoothness,
            )
        step = 1 / (curvature + spread * np.sqrt(2 * k) / radius)
        if self.step_rule == "nonsmooth":
            step = radius / np.sqrt(2 * k * (slope**2 + spread**2))
        if not np.all(step > 0):
            raise InputError(
                f"no {self.step_rule} step size exists for this regulariser; use the other rule"
            )
        return {"step_size": step}

    @override
    def ask(self, state: DualState, inbox: Model, turn: Turn) -> Point:
        return Point(state.iterate)

    @override
    def tell(self, state: DualState, inbox: Model, turn: Turn, answer: Model) -> DualState:
        inverse = 1 / turn.values["step_size"]
        slope = answer
        if self.regulariser_at == "agents":
            slope = slope + self.problem.regulariser.subgradient(state.iterate)
        weighted = inverse * state.iterate + self.rho * inbox + state.dual - slope
        return state._replace(iterate=weighted / (self.rho + inverse))
