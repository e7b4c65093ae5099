"""Relay methods on noised gradients: RECAL and Walkman."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import NamedTuple, TypeVar

import equinox as eqx
import numpy as np
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.algorithm import (
    Noise,
    RelayAlgorithm,
    averaging,
    check_step,
    smoothness_of,
    step_within,
)
from taciturn.errors import InputError
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import Point
from taciturn.kernel.records import Spec
from taciturn.network import Walk
from taciturn.problems import Problem
from taciturn.typing import HostArray, Model, PyTree

# not typing.Self: the run-time type checker sees the function without its class
RelayT = TypeVar("RelayT", bound="NoisedRelay")


class RelayState(NamedTuple):
    """An agent's copy of the model, its dual, and the token that it passes on."""

    copy: Model
    dual: Model
    token: PyTree


class NoisedRelay(RelayAlgorithm):
    """A relay whose holder queries the gradient of f_i; the token carries the averaged model.

    - `step`: The step size; None for the public choice.
    - `agents`: The number of agents, set from the public facts.
    - `pace`: The gradient step equivalent to one sweep, in units of the step size.
    - `amplification`: The variance of a sweep's noise relative to that of such a gradient step.

    **Settings from public facts.** The step size is half of the method's limit, or less if the
    noise requires it (`step_within`); with noise the last half of the models is averaged. Hops
    beyond a cap, which only pass the token on, do not count in either.
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
        check_step(self, self.step, *self.limit(spec))
        return dataclasses.replace(self, agents=spec.agents)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        limit, _ = self.limit(spec)
        sweeps = rounds / spec.agents
        ridge = float(self.problem.regulariser.strong_convexity)
        amplified = np.sqrt(self.amplification) * noise.gradient_scale
        noise_of_sweep = dataclasses.replace(noise, gradient_scale=amplified)
        step = step_within(self.pace * limit, spec, noise_of_sweep, sweeps, ridge) / self.pace
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


class RecalToken(NamedTuple):
    """The token: the model x, the sum u of all duals, and the average of the models."""

    model: Model
    duals: Model
    average: Model


class RECAL(NoisedRelay):
    """RECAL (Wang et al. 2024) on noised gradients: the sound form of DP-RECAL.

    The problem is min sum_i s f_i(y_i) + A s r(x) with y_i = x, s the objective scale. The holder i
    of the token (x, u), u = sum_j lambda_j, queries the gradient of f_i at its copy y_i. With g the
    noised answer, beta = 1 / (2 (A + 1)) and step size alpha:

        h        = lambda_i + beta (x - y_i)                                        (7a)
        x+       = prox_{A s r}(x - (u + h - lambda_i))                             (7b)
        y_i+     = y_i - alpha (s g - h)                                            (7c)
        lambda_i+ = h + beta ((x+ - x) - (y_i+ - y_i))                              (7d)
        u+       = u + lambda_i+ - lambda_i                                         (7e)

    Theorem 2 of that paper states that it converges for alpha < 2 / (s L + 1) on any connected
    network, whatever the law of the walk. It does so on small ones, and not on a ring of 64 agents
    whose L_i differ a hundredfold (claim wang2024/thm2 of taciturn-papers). The published form adds
    noise to the message u instead, and the gradients can be recovered exactly from the messages:
    see the package taciturn-papers. `step` is alpha s, with the limit 2 / (L + 1/s)
    (docs/explanation/step-sizes.md); `objective_scale` is s, None for 10/L, for which the limit is
    nearly 2/L. `agent_steps` are uncoordinated step sizes, alpha_i s for each agent i: alpha_i
    occurs in (7c) alone, and Theorem 2 requires alpha_i < 2 / (s L_i + 1) of each. The public bound
    L holds for all L_i.

    **Guarantee.** Copies, duals and the token are functions of noised answers and public constants
    alone: a run is post-processing of the adaptive composition of its answers, and an observer of
    every link learns no more than the certificate states.
    """

    objective_scale: float | None = eqx.field(static=True, default=None)
    # not described apart from the schedule that they determine
    agent_steps: tuple[float, ...] | None = eqx.field(static=True, default=None, repr=False)

    def __check_init__(self) -> None:
        if self.objective_scale is not None:
            checks.positive("objective_scale", self.objective_scale)
        if self.agent_steps is not None and self.step is not None:
            raise InputError("a step size of all agents and one of each are given; give one")

    @override
    def limit(self, spec: Spec) -> tuple[float, str]:
        smoothness = smoothness_of(spec)
        scale = self.objective_scale or 10 / smoothness
        return 2 / (smoothness + 1 / scale), "2 / (L + 1/s)"

    @override
    def on_network(self, spec: Spec, network: Walk) -> RECAL:
        scale = self.objective_scale or 10 / smoothness_of(spec)
        if self.agent_steps is not None and len(self.agent_steps) != spec.agents:
            raise InputError(
                f"{len(self.agent_steps)} step sizes are given for {spec.agents} agents; give one "
                "for each"
            )
        for step in self.agent_steps or ():
            check_step(self, step, *self.limit(spec))
        return dataclasses.replace(super().on_network(spec, network), objective_scale=scale)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        values = super().schedule(spec, rounds, noise)
        steps = values["step_size"]
        if self.agent_steps is not None:
            steps = np.tile(np.asarray(self.agent_steps)[:, None], rounds)
        return values | {"step_size": steps / self._scale}

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


class WalkmanToken(NamedTuple):
    """The mean over agents of y_i - z_i, and the model with its average."""

    mean: Model
    model: Model
    average: Model


class Walkman(NoisedRelay):
    """Walkman with linearised steps (Mao et al. 2020) on noised gradients.

    The holder i of the token m = (1/A) sum_j (y_j - z_j) queries the gradient of f_i at its copy
    y_i. With g the noised answer and step size a:

        x   = prox_{a r}(m)
        y_i+ = x + z_i - a g
        z_i+ = z_i + x - y_i+
        m+  = m + ((y_i+ - z_i+) - (y_i - z_i)) / A

    In experiments steps of 1/L and more diverged, 1/(2 L) did not; steps of 1/L or more are
    refused. The walk determines `pace` and `amplification`, from 1.8 and 1 for eight agents in a
    fixed order to 0.7 and 9.8 on a ring: docs/explanation/step-sizes.md.

    **Guarantee.** As for `RECAL`.
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
    visits = np.argsort(holders, kind="stable")  # grouped by agent
    same, hops = np.diff(holders[visits]) == 0, np.diff(visits).astype(np.float64)
    weights = (2 * hops[:-1] - hops[1:])[same[:-1] & same[1:]]
    if not weights.size:
        return 1.0, 1.0
    between = hops[same]
    lag = np.sum(between * (between + 1)) / (2 * np.sum(between))
    return float(agents / lag), float(np.mean(weights**2)) / agents**2
