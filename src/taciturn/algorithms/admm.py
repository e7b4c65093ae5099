"""Consensus ADMM on a star: with exact local steps, and linearised (Huang et al. 2019)."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import equinox as eqx
import numpy as np
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.algorithm import Noise, StarAlgorithm, check_growth
from taciturn.errors import InputError
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import Centre, Point
from taciturn.kernel.records import Spec
from taciturn.problems import NoRegulariser, Problem, WholeSpace
from taciturn.typing import HostArray, Model

Placement = Literal["agents", "server"]


class DualMessage(NamedTuple):
    """An agent's noised iterate w_i, and its dual gamma_i at the start of the round."""

    iterate: Model
    dual: Model


DualState = DualMessage


class ConsensusADMM(StarAlgorithm):
    """Consensus ADMM, with the agents' local step left to subclasses.

    With public value w, iterates w_i and duals gamma_i (Huang et al. 2019, Algorithm 1):

        gamma_i <- gamma_i - rho (w_i - w)          on receipt of w                 (10d)
        w_i     <- the agent's local step, in `ask` and `tell`
        w       <- mean(w_i) - mean(gamma_i) / rho                                  (10c)

    `regulariser_at`: "agents": the regulariser is part of the agents' step, as published. "server":
    exact prox, with the constraint, in (10c): w <- prox_{r/rho}(mean(w_i) - mean(gamma_i)/rho).
    """

    problem: Problem
    rho: float = eqx.field(static=True)
    regulariser_at: Placement = eqx.field(static=True, kw_only=True)

    def __check_init__(self) -> None:
        checks.positive("rho", self.rho)
        constrained = not isinstance(self.problem.constraint, WholeSpace)
        if self.regulariser_at == "agents" and constrained:
            raise InputError(
                f"{type(self).__name__} as published has no constraint; for one, pass "
                'regulariser_at="server"'
            )

    @override
    def start(self, template: Model) -> DualState:
        return DualState(template, template)

    @override
    def receive(self, state: DualState, inbox: Model, turn: Turn) -> DualState:
        return state._replace(dual=state.dual - self.rho * (state.iterate - inbox))

    @override
    def send(self, state: DualState, inbox: Model, turn: Turn) -> tuple[DualState, DualMessage]:
        return state, DualMessage(state.iterate, state.dual)

    @override
    def combine(self, public: Model, mean_message: DualMessage, turn: Turn) -> Model:
        centre = mean_message.iterate - mean_message.dual / self.rho
        if self.regulariser_at == "agents":
            return centre
        return self.problem.prox(centre, 1 / self.rho)


def at_agents(problem: Problem, regulariser_at: Placement) -> Problem:
    """Return the problem of the agents' steps: without regulariser if the server applies it."""
    if regulariser_at == "agents":
        return problem
    return Problem(problem.loss, NoRegulariser(), WholeSpace())


def steady_rho(facts: Spec, rounds: int, noise: Noise) -> float:
    """Return max(0.4 L, sqrt(T) nu R): noise on exact steps then moves a margin by about one unit.

    nu is the standard deviation of the mean answer in gradient units. Derived in
    docs/explanation/step-sizes.md.
    """
    margin = math.sqrt(rounds) * noise.of_mean * facts.record_norm
    return max(0.4 * facts.smoothness, margin)


class ADMM(ConsensusADMM):
    """Consensus ADMM whose agents ask for the minimiser of their augmented Lagrangian.

    The agents' step (Huang et al. 2019, Algorithm 1, step 4) is a proximal step of f_i, with the
    regulariser if agents have it, at a public centre:

        w_i <- argmin f_i(w_i) + r(w_i) - gamma_i'(w_i - w) + (rho/2) |w_i - w|^2
             = the proximal step at w + gamma_i / rho.

    The oracle (of `taciturn.kernel.questions`) decides the method:

    - `ProximalStep` without noise: ADMM, Algorithm 1;
    - `ProximalStep` with noise on its answer: ADMM with primal variable perturbation (PVP),
      Algorithm 2, whose duals follow the noised iterates (step 9);
    - `PerturbedStep`, noise inside the objective: dual variable perturbation (DVP), Zhang and Zhu
      2017.

    The oracle must have the same rho, which a plan checks, and the regulariser if and only if
    `regulariser_at` is "agents": build both with `taciturn.algorithms.at_agents`.

    **Guarantee.** State, message and public value are functions of noised answers and public
    constants alone, so a run is post-processing of the adaptive composition of its answers. The
    question depends on the agent's dual or iterate, hence summation is not credited.
    """

    @property
    @override
    def step_rho(self) -> float:
        return self.rho

    @override
    def ask(self, state: DualState, inbox: Model, turn: Turn) -> Centre:
        return Centre(inbox + state.dual / self.rho)

    @override
    def tell(self, state: DualState, inbox: Model, turn: Turn, answer: Model) -> DualState:
        return state._replace(iterate=answer)


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
        constant:        eta_k = `step_size`

    Our regulariser weight is the paper's lambda / n, so c_2 and c_4 already contain it. At the
    agents the regulariser is linearised.

    `radius`: c_w, the assumed norm of the solution. The paper took it from the private optimum (23
    and 89 on Adult), which is not private. None is the public choice sqrt(A d) / R: coordinates of
    order one for records of norm one, times sqrt(A) because the rules count one agent's noise and
    the public value averages that of A agents.

    **Guarantee.** As for `ADMM`.
    """

    radius: float | None = eqx.field(static=True, kw_only=True)
    step_rule: Literal["nonsmooth", "smooth", "constant"] = eqx.field(static=True, kw_only=True)
    # not described apart from the schedule that it determines
    step_size: float | None = eqx.field(static=True, default=None, kw_only=True, repr=False)

    def __check_init__(self) -> None:
        if self.radius is not None:
            checks.positive("radius", self.radius)
        if (self.step_rule == "constant") != (self.step_size is not None):
            raise InputError(
                f"the step rule is {self.step_rule} and the step size {self.step_size}; the "
                "constant rule needs a step size (step-size), and the others determine it"
            )

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        radius = self.radius or np.sqrt(spec.agents * spec.dimension) / spec.record_norm
        k = np.arange(1, rounds + 1)
        spread = np.sqrt(spec.dimension) * noise.gradient_scale[:, None]  # sqrt(d) s, (A, 1)
        slope, curvature = spec.gradient_bound, spec.smoothness  # c_1 and c_3
        placed = self.regulariser_at == "agents"
        if placed:
            slope, curvature = (
                slope + spec.regulariser_bound,
                curvature + spec.regulariser_smoothness,
            )
        step = 1 / (curvature + spread * np.sqrt(2 * k) / radius)
        if self.step_rule == "nonsmooth":
            step = radius / np.sqrt(2 * k * (slope**2 + spread**2))
        if self.step_size is not None:
            step = np.full(rounds, self.step_size)
        if not np.all(step > 0):
            raise InputError(
                f"no {self.step_rule} step size exists for this regulariser; use the other rule"
            )
        if self.step_size is not None or self.radius is not None:
            # of the regulariser its ridge; the rest has bounded subgradients
            ridge = float(self.problem.regulariser.strong_convexity) if placed else 0.0
            check_growth(spec, 1 / (self.rho + 1 / step), coupled=self.rho, ridge=ridge)
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
