"""Walkman on noised gradients: a token that carries the mean of the copies."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from tacit.algorithms.algorithm import Turn
from tacit.algorithms.relay import NoisedRelay, RelayState
from tacit.algorithms.steps import smoothness_of
from tacit.network import Walk
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

    Steps of 1/L and more were seen to diverge, 1/(2 L) was not; 1/L is therefore refused.

    **The order of the walk matters.** Without r, y_i - z_i = x + a g' - 2 a g after a visit, with
    g' the answer before: an answer weighs -2 a / A until its agent's next visit, T_1 hops later,
    and a / A for T_2 more. x is the mean of what the agents' last visits found, ell hops ago on
    average, so an answer moves x by -(2 T_1 - T_2) a / (A ell) in the end. Visits are A hops apart
    on average: a sweep moves x like a gradient step of size a A / ell (`pace` A / ell), under about
    mean (2 T_1 - T_2)^2 / A^2 times the variance that its noise would have (`amplification`). For
    eight agents in a fixed order these are 1.8 and 1; on a random walk where each is a neighbour of
    each, 1.1 and 4.3; around a ring, 0.7 and 9.8: slower, and much noisier. The walk is public, so
    both are computed from its hops, and the step that the noise allows follows from them.

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
    def on_network(self, spec: Spec, network: Walk) -> Walkman:
        pace, amplification = pace_and_noise(network)
        chosen = super().on_network(spec, network)
        return dataclasses.replace(chosen, pace=pace, amplification=amplification)

    @override
    def first_token(self, template: Model) -> WalkmanToken:
        return WalkmanToken(template, template, template)

    @override
    def tell(self, state: RelayState, inbox: WalkmanToken, turn: Turn, answer: Model) -> RelayState:
        step, weight = turn.values["step_size"], turn.values["averaging"]
        model = self.problem.prox(inbox.mean, step)
        copy = model + state.dual - step * answer
        dual = state.dual + model - copy
        mean = inbox.mean + ((copy - dual) - (state.copy - state.dual)) / self.agents
        average = inbox.average + weight * (model - inbox.average)
        return RelayState(copy, dual, WalkmanToken(mean, model, average))


def pace_and_noise(walk: Walk) -> tuple[float, float]:
    """Return pace and amplification on a walk; 1 and 1 if no agent is visited three times."""
    holders, agents = walk.holders[walk.awake], walk.graph.agents
    visits = np.argsort(holders, kind="stable")  # those of an agent one after the other
    same, hops = np.diff(holders[visits]) == 0, np.diff(visits).astype(np.float64)
    weights = (2 * hops[:-1] - hops[1:])[same[:-1] & same[1:]]
    if not weights.size:
        return 1.0, 1.0
    between = hops[same]
    lag = np.sum(between * (between + 1)) / (2 * np.sum(between))
    return float(agents / lag), float(np.mean(weights**2)) / agents**2
