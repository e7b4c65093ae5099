"""RECAL on noised gradients: a token that gathers duals."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
from typing_extensions import override

from tacit import checks
from tacit.algorithms.algorithm import Noise, Turn
from tacit.algorithms.relay import NoisedRelay, RelayState
from tacit.algorithms.steps import smoothness_of
from tacit.network import Walk
from tacit.spec import Spec
from tacit.typing import HostArray, Model


class RecalToken(NamedTuple):
    """The baton: the model x, the sum u of all duals, and the average of the models."""

    model: Model
    duals: Model
    average: Model


class RECAL(NoisedRelay):
    r"""RECAL (Wang et al. 2024) on noised gradients: the sound form of DP-RECAL.

    The problem is min sum_i s f_i(y_i) + A s r(x) with y_i = x, s the objective scale. The holder i
    of the token (x, u), u = sum_j lambda_j, asks for the gradient of f_i at its copy y_i. With g
    the noised answer, beta = 1 / (2 (A + 1)) and step size alpha:

        h        = lambda_i + beta (x - y_i)                                        (7a)
        x+       = prox_{A s r}(x - (u + h - lambda_i))                             (7b)
        y_i+     = y_i - alpha (s g - h)                                            (7c)
        lambda_i+ = h + beta ((x+ - x) - (y_i+ - y_i))                              (7d)
        u+       = u + lambda_i+ - lambda_i                                         (7e)

    It converges for alpha < 2 / (s L + 1) on any connected network, whatever the walk's law
    (Theorem 2 there). As published, noise goes onto the message u instead, and the gradients can be
    recovered exactly from the links: see the package tacit-papers.

    **Settings from public facts.** In directions of little curvature h a sweep of A hops multiplies
    x by about 1 - alpha s h: put lambda_i = s h y_i + (y_i+ - y_i) / alpha, from (7c), into (7b).
    So alpha s is a step size, and alpha = step / s with the step of
    `tacit.algorithms.steps.step_within`, whose limit is 2 / (L + 1/s). The objective scale s = 10/L
    makes that nearly 2/L. With noise the last half of the models is averaged.

    **Guarantee.** Copies, duals and the token are functions of noised answers and public constants
    alone: a run is post-processing of the adaptive composition of its answers, and an observer who
    reads every link learns what the certificate says and no more.

    Attributes
    ----------
    problem, step
        As for `NoisedRelay`; the step is alpha s.
    objective_scale
        s; None for 10 / L.
    """

    objective_scale: float | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.objective_scale is not None:
            checks.positive("objective_scale", self.objective_scale)

    @override
    def limit(self, spec: Spec) -> tuple[float, str]:
        smoothness = smoothness_of(spec)
        scale = self.objective_scale or 10 / smoothness
        return 2 / (smoothness + 1 / scale), "2 / (L + 1/s)"

    @override
    def on_network(self, spec: Spec, network: Walk) -> RECAL:
        scale = self.objective_scale or 10 / smoothness_of(spec)
        return dataclasses.replace(super().on_network(spec, network), objective_scale=scale)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        values = super().schedule(spec, rounds, noise)
        return values | {"step_size": values["step_size"] / self._scale}

    @property
    def _scale(self) -> float:
        return self.objective_scale or 1.0

    @override
    def first_token(self, template: Model) -> RecalToken:
        return RecalToken(template, template, template)

    @override
    def tell(self, state: RelayState, inbox: RecalToken, turn: Turn, answer: Model) -> RelayState:
        beta, x = 1 / (2 * (self.agents + 1)), inbox.model
        half = state.dual + beta * (x - state.copy)
        weight = turn.values["averaging"]
        model = self.problem.prox(x - (inbox.duals + half - state.dual), self.agents * self._scale)
        copy = state.copy - turn.values["step_size"] * (self._scale * answer - half)
        dual = half + beta * ((model - x) - (copy - state.copy))
        average = inbox.average + weight * (model - inbox.average)
        return RelayState(copy, dual, RecalToken(model, inbox.duals + dual - state.dual, average))
