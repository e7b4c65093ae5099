"""What relay methods on noised gradients have in common."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import NamedTuple, TypeVar

import equinox as eqx
import numpy as np
from typing_extensions import override

from tacit.algorithms.algorithm import Noise, RelayAlgorithm, Turn
from tacit.algorithms.steps import averaging, checked_step, step_within
from tacit.network import Walk
from tacit.oracles import Point
from tacit.problems import Problem
from tacit.spec import Spec
from tacit.typing import HostArray, Model, PyTree

# not typing.Self: a checker at run time sees a function, and not the class around it
RelayT = TypeVar("RelayT", bound="NoisedRelay")


class RelayState(NamedTuple):
    """An agent's copy of the model, its dual, and the token that it passes on."""

    copy: Model
    dual: Model
    token: PyTree


class NoisedRelay(RelayAlgorithm):
    """A token whose holder asks for the gradient of f_i; the token carries the averaged model.

    **Settings from public facts.** The step size is half of the method's limit, or less if the
    noise asks for it (`tacit.algorithms.steps.step_within`); with noise the last half of the models
    is averaged. Hops that only pass the token on, beyond a cap, count for neither.

    Attributes
    ----------
    problem
        Supplies the regulariser and the constraint; its loss is not used.
    step
        The step size; None for the public choice.
    agents
        The number of agents; from the public facts.
    pace
        A sweep moves the model like a gradient step of so many times the step size.
    amplification
        The variance of the noise that a sweep adds, over that of such a gradient step.
    """

    problem: Problem
    step: float | None = eqx.field(static=True, default=None)
    agents: int = eqx.field(static=True, default=0)
    pace: float = eqx.field(static=True, default=1.0)
    amplification: float = eqx.field(static=True, default=1.0)

    @abstractmethod
    def limit(self, spec: Spec) -> tuple[float, str]:
        """Return the least step size at which the method may diverge, and its formula."""

    @override
    def on_network(self: RelayT, spec: Spec, network: Walk) -> RelayT:
        if self.step is not None:
            checked_step(type(self).__name__, self.step, *self.limit(spec))
        return dataclasses.replace(self, agents=spec.agents)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        limit, _ = self.limit(spec)
        sweeps = rounds / spec.agents
        ridge = float(self.problem.regulariser.strong_convexity)
        louder = np.sqrt(self.amplification) * noise.gradient_scale
        alike = dataclasses.replace(noise, gradient_scale=louder)
        step = step_within(self.pace * limit, spec, alike, sweeps, ridge) / self.pace
        return {
            "step_size": np.full(rounds, self.step or step),
            "averaging": averaging(rounds, noise),
        }

    @override
    def start(self, template: Model) -> PyTree:
        return RelayState(template, template, self.first_token(template))

    @override
    def ask(self, state: PyTree, inbox: PyTree, turn: Turn) -> Point:
        return Point(state.copy)

    @override
    def send(self, state: PyTree, inbox: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        return state, state.token

    @override
    def model(self, token: PyTree) -> Model:
        model: Model = token.average
        return model
