"""Walkman: a token that carries the mean of all agents' corrected copies."""

from __future__ import annotations

from typing import NamedTuple

from typing_extensions import override

from tacit.algorithms.algorithm import Turn
from tacit.algorithms.noised_relay import NoisedRelay, RelayState
from tacit.algorithms.steps import smoothness_of
from tacit.oracles import Point
from tacit.spec import Spec
from tacit.typing import Model


class WalkmanToken(NamedTuple):
    """The mean over agents of y_i - z_i, and the model with its average."""

    mean: Model
    model: Model
    average: Model


class Walkman(NoisedRelay):
    r"""Walkman with linearised steps (Mao et al. 2020) on noised gradients.

    The holder i of the token m = (1/A) sum_j (y_j - z_j) asks for the gradient of f_i at its copy
    y_i. With g the noised answer and step size a:

        x   = prox_{a r}(m)
        y_i+ = x + z_i - a g
        z_i+ = z_i + x - y_i+
        m+  = m + ((y_i+ - z_i+) - (y_i - z_i)) / A

    A sweep of A hops moves x like a gradient step of size a. Steps of 1/L and more were seen to
    diverge, 1/(2 L) was not; 1/L is therefore refused.

    **Guarantee.** Copies, duals and the token are functions of noised answers and public constants
    alone, so a run is post-processing of the adaptive composition of its answers.

    Attributes
    ----------
    problem, step
        As for `NoisedRelay`; the step is a.
    """

    @override
    def limit(self, spec: Spec) -> tuple[float, str]:
        return 1 / smoothness_of(spec), "1 / L"

    @override
    def first_token(self, template: Model) -> WalkmanToken:
        return WalkmanToken(template, template, template)

    @override
    def ask(self, state: RelayState, inbox: WalkmanToken, turn: Turn) -> Point:
        return Point(state.copy)

    @override
    def tell(self, state: RelayState, inbox: WalkmanToken, turn: Turn, answer: Model) -> RelayState:
        step, weight = turn.values["step_size"], turn.values["averaging"]
        model = self.problem.prox(inbox.mean, step)
        copy = model + state.dual - step * answer
        dual = state.dual + model - copy
        mean = inbox.mean + ((copy - dual) - (state.copy - state.dual)) / self.agents
        average = inbox.average + weight * (model - inbox.average)
        return RelayState(copy, dual, WalkmanToken(mean, model, average))
