"""ADMM along a random walk (a reconstruction): the visited agent updates with its neighbours."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from typing_extensions import override

from taciturn.algorithms import NoisedRelay, Turn, smoothness_of
from taciturn.errors import InputError
from taciturn.kernel.questions import Point
from taciturn.kernel.records import Spec
from taciturn.network import Graph, Walk
from taciturn.typing import Array, Model


class Incidence(eqx.Module):
    """The edges at each agent, padded with a dummy edge up to the largest degree K.

    Attributes
    ----------
    edges, ends
        Which edge, and which of its two ends the agent is. others, real
        The neighbour there, and whether the entry is an edge at all.
    count
        The number of edges, which is also the index of the dummy edge.
    """

    edges: Int[Array, "A K"]
    ends: Int[Array, "A K"]
    others: Int[Array, "A K"]
    real: Bool[Array, "A K"]
    count: int = eqx.field(static=True)


class RWToken(NamedTuple):
    """All agents' models, both duals of each edge (and of the edge nowhere), the average model."""

    models: Float[Array, "A *shape"]
    duals: Float[Array, "E1 2 *shape"]
    average: Model


class RWADMM(NoisedRelay):
    r"""A reconstruction of random-walk ADMM (Shah and Avrachenkov 2018) on noised gradients.

    **What is reconstructed.** Wang et al. 2024 compare with "RWADMM" and print none of its
    formulas. What they say is that a Markov chain activates one agent, that it exchanges with all
    its neighbours (their 9,600 messages for 2,400 activations on a ring: two sent, two received),
    that its step size is fixed and that it takes an l1 regulariser. Not said, and chosen here: the
    variables (a dual at either end of each edge), a linearised step where the original minimises,
    all step sizes. It is thus a member of that family and not their program. Walkman is another
    method: its token holds a mean and it exchanges with nobody else.

    The agent i reached by the walk asks for the gradient of f_i at x_i. With g the noised answer
    and, for every neighbour j, x_j and lambda_ji received from it,

        mu_ij = (lambda_ij - lambda_ji + sigma (x_i - x_j)) / 2,
        x_i <- prox_{tau r}(x_i - tau (g + sum_j (2 mu_ij - lambda_ij))),     lambda_ij <- mu_ij,

    and tells its neighbours. With all agents at once this is the splitting of Condat and Vu for
    min sum_i f_i + r subject to x_i = x_j on edges, which converges for 1/tau - sigma K > L/2, K
    the largest degree; one agent at a time is its coordinate descent (Bianchi, Hachem and Iutzeler
    2016), proven for independent activations. sigma = 1/(2 K tau), so the limit is 1/L.

    The token of the simulation holds what agents keep and tell their neighbours. On a network
    nobody carries that: a hop is 2 d_i messages of two vectors.

    **Guarantee.** Models, duals and the token are functions of noised answers and public constants
    alone, so a run is post-processing of the adaptive composition of its answers.

    Attributes
    ----------
    problem, step
        As for `NoisedRelay`; the step is tau.
    """

    tells_neighbours: ClassVar[bool] = True

    incidence: Incidence | None = None

    @override
    def limit(self, spec: Spec) -> tuple[float, str]:
        return 1 / smoothness_of(spec), "1 / L"

    @override
    def on_network(self, spec: Spec, network: Walk) -> RWADMM:
        planned = super().on_network(spec, network)
        return dataclasses.replace(planned, incidence=incidence_of(network.graph))

    @override
    def start(self, template: Model) -> RWToken:
        return self.first_token(template)

    @override
    def first_token(self, template: Model) -> RWToken:
        at = self._at
        models = jnp.broadcast_to(template, (len(at.edges), *template.shape))
        duals = jnp.broadcast_to(template, (at.count + 1, 2, *template.shape))
        return RWToken(models, duals, template)

    @property
    def _at(self) -> Incidence:
        if self.incidence is None:
            raise InputError("RWADMM has no network; plan it with a Walk")
        return self.incidence

    @override
    def ask(self, state: RWToken, inbox: RWToken, turn: Turn) -> Point:
        return Point(inbox.models[turn.agent])

    @override
    def tell(self, state: RWToken, inbox: RWToken, turn: Turn, answer: Model) -> RWToken:
        at, i, step = self._at, turn.agent, turn.values["step_size"]
        edges, ends, x = at.edges[i], at.ends[i], inbox.models[i]
        duals = inbox.duals[edges, ends]
        difference = (x - inbox.models[at.others[i]]) / (2 * at.edges.shape[1] * step)
        real = at.real[i].reshape(-1, *(1,) * x.ndim)
        new = jnp.where(real, (duals - inbox.duals[edges, 1 - ends] + difference) / 2, 0)
        model = self.problem.prox(x - step * (answer + jnp.sum(2 * new - duals, axis=0)), step)
        models = inbox.models.at[i].set(model)
        mean = jnp.mean(models, axis=0)
        average = inbox.average + turn.values["averaging"] * (mean - inbox.average)
        return RWToken(models, inbox.duals.at[edges, ends].set(new), average)

    @override
    def send(self, state: RWToken, inbox: RWToken, turn: Turn) -> tuple[RWToken, RWToken]:
        return state, state


def incidence_of(graph: Graph) -> Incidence:
    """Return the edges at each agent of a graph."""
    count, nowhere = int(np.max(graph.degrees)), len(graph.edges)
    shape = (graph.agents, count)
    edges, ends, others = np.full(shape, nowhere), np.zeros(shape, int), np.zeros(shape, int)
    filled = np.zeros(graph.agents, int)
    for number, pair in enumerate(graph.edges.tolist()):
        for end, (agent, other) in enumerate((pair, pair[::-1])):
            place = agent, filled[agent]
            edges[place], ends[place], others[place] = number, end, other
            filled[agent] += 1
    return Incidence(
        edges=jnp.asarray(edges, jnp.int32),
        ends=jnp.asarray(ends, jnp.int32),
        others=jnp.asarray(others, jnp.int32),
        real=jnp.asarray(edges < nowhere),
        count=nowhere,
    )
