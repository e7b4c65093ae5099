"""Gossip on noised gradients: NIDS, PG-EXTRA and linearised ADMM."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import numpy as np
from typing_extensions import override

from taciturn.algorithms.algorithm import (
    GossipAlgorithm,
    Noise,
    averaging,
    check_step,
    smoothness_of,
    step_within,
)
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import Point
from taciturn.kernel.records import Spec
from taciturn.network import Mixing
from taciturn.problems import Problem
from taciturn.typing import HostArray, Model, PyTree


class GossipState(NamedTuple):
    """An agent's model x, the two vectors that it sends, its dual y, and the average of x."""

    model: Model
    first: Model
    second: Model
    dual: Model
    average: Model


class Exchanged(NamedTuple):
    """The two vectors that an agent sends in a round."""

    first: Model
    second: Model


class NoisedGossip(GossipAlgorithm):
    """Gossip methods on noised gradients at the agents' models, in one kernel.

    With the agents' vectors as rows, tau the step size and G the noised gradients at X:

        V <- M X - tau B G - Y,    Y <- Y + C V,    X <- prox_{tau r}(V),     Y = 0 at first.

    The dual Y sums differences C V, which vanish at consensus, instead of successive differences of
    gradients, so it does not drift with rounding. Both products are of vectors known when an agent
    sends, so a round is one exchange of two vectors. `problem` supplies the regulariser and the
    constraint; `step` is tau, None for the public choice.

    **Settings from public facts.** The step size is half of the method's limit, or less if the
    noise requires it (`step_within`); with noise every agent averages the last half of its models.

    **Guarantee.** State and messages are functions of noised answers and public constants alone: a
    run is post-processing of the adaptive composition of its answers.
    """

    problem: Problem
    step: float | None = eqx.field(static=True, default=None)
    least_eigenvalue: float = eqx.field(static=True, default=0.0)

    @abstractmethod
    def limit(self, smoothness: float) -> tuple[float, str]:
        """Return the least step size at which the method may diverge, and its formula."""

    @override
    def on_network(self, spec: Spec, network: Mixing) -> NoisedGossip:
        planned = dataclasses.replace(self, least_eigenvalue=network.least_eigenvalue)
        check_step(self, self.step, *planned.limit(smoothness_of(spec)))
        return planned

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        limit, _ = self.limit(smoothness_of(spec))
        ridge = float(self.problem.regulariser.strong_convexity)
        step = self.step or step_within(limit, spec, noise, rounds, ridge)
        return {"step_size": np.full(rounds, step), "averaging": averaging(rounds, noise)}

    @override
    def start(self, template: Model) -> GossipState:
        return GossipState(template, template, template, template, template)

    @override
    def first_inbox(self, template: Model) -> PyTree:
        return Exchanged(template, template)

    @override
    def ask(self, state: GossipState, inbox: PyTree, turn: Turn) -> Point:
        return Point(state.model)

    @override
    def send(self, state: GossipState, inbox: PyTree, turn: Turn) -> tuple[GossipState, PyTree]:
        return self.averaged(state, turn), Exchanged(state.first, state.second)

    def averaged(self, state: GossipState, turn: Turn) -> GossipState:
        """Return the state with the average updated by the model."""
        change = turn.values["averaging"] * (state.model - state.average)
        return state._replace(average=state.average + change)

    @override
    def model(self, state: GossipState) -> Model:
        return state.average


class NIDS(NoisedGossip):
    """NIDS (Li, Shi, Yan 2019): the kernel with M = B = (I + W)/2, C = (I - W)/2.

    An agent sends h = x - tau g and v. Its limit 2/L does not depend on the network.
    """

    @override
    def limit(self, smoothness: float) -> tuple[float, str]:
        return 2 / smoothness, "2 / L"

    @override
    def receive(self, state: GossipState, inbox: Exchanged, turn: Turn) -> GossipState:
        dual = state.dual - inbox.second / 2
        second = state.first + inbox.first / 2 - dual
        model = self.problem.prox(second, turn.values["step_size"])
        return state._replace(model=model, second=second, dual=dual)

    @override
    def tell(self, state: GossipState, inbox: Exchanged, turn: Turn, answer: Model) -> GossipState:
        return state._replace(first=state.model - turn.values["step_size"] * answer)


class EXTRA(NoisedGossip):
    """PG-EXTRA (Shi et al. 2015): the kernel with M = (I + W)/2, B = I, C = (I - W)/2.

    An agent sends x and v. Its limit is (1 + l) / L, with l the least eigenvalue of W.
    """

    @override
    def limit(self, smoothness: float) -> tuple[float, str]:
        limit = (1 + self.least_eigenvalue) / smoothness
        return limit, "(1 + least eigenvalue of W) / L"

    @override
    def receive(self, state: GossipState, inbox: Exchanged, turn: Turn) -> GossipState:
        return state._replace(
            dual=state.dual - inbox.second / 2, first=state.model + inbox.first / 2
        )

    @override
    def tell(self, state: GossipState, inbox: Exchanged, turn: Turn, answer: Model) -> GossipState:
        step = turn.values["step_size"]
        second = state.first - step * answer - state.dual
        model = self.problem.prox(second, step)
        return state._replace(model=model, first=model, second=second)


class LinearisedGossipADMM(NoisedGossip):
    """Decentralised linearised ADMM (IC-ADMM, Chang, Hong, Wang 2015) on noised gradients.

    With p_i the dual and beta, c the parameters of the paper,

        p_i <- p_i + c sum_j w_ij (x_i - x_j),
        x_i <- prox_{tau r}(x_i - tau (g_i + p_i + c sum_j w_ij (x_i - x_j))),

    tau = 1/(beta + 2 c), the same curvature on every graph thanks to the term c (1 - sum_j w_ij) |x
    - x_i|^2, and c tau = 1/4. Unlike that of PG-EXTRA, its dual sums the models themselves, so an
    agent sends x_i only. If all agents have the same Hessian h, the mode of an eigenvalue l of W, s
    = (1 - l)/4, satisfies m^2 - (2 - 2 s - tau h) m + 1 - s - tau h = 0, whose roots lie in the
    unit disc iff tau h < 2 - 3 s / 2; with s <= 1/2 the limit is 5 / (4 L), which is necessary.
    """

    @override
    def limit(self, smoothness: float) -> tuple[float, str]:
        return 1.25 / smoothness, "5 / (4 L)"

    @override
    def first_inbox(self, template: Model) -> Model:
        return template

    @override
    def receive(self, state: GossipState, inbox: Model, turn: Turn) -> GossipState:
        return state._replace(dual=state.dual - inbox / 4, first=state.model + inbox / 4)

    @override
    def tell(self, state: GossipState, inbox: Model, turn: Turn, answer: Model) -> GossipState:
        step = turn.values["step_size"]
        model = self.problem.prox(state.first - step * answer - state.dual, step)
        return state._replace(model=model)

    @override
    def send(self, state: GossipState, inbox: Model, turn: Turn) -> tuple[GossipState, Model]:
        return self.averaged(state, turn), state.model
