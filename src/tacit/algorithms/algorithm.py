"""What every method is: it asks, is told, and sends. It never sees data.

    receive(state, inbox, turn) -> state            once a round, first: dual updates live here
    ask(state, inbox, turn) -> query                public
    tell(state, inbox, turn, answer) -> state       post-processing of a noised answer
    send(state, inbox, turn) -> (state, message)    once a round, last

Nothing here carries an agent axis: a runtime maps these functions over agents, or loops over them.
Arrays that change from run to run (schedules, scales) come in through `Turn`; so do all random
draws that are public. State keeps one tree structure and one dtype for ever.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from tacit.problems import Loss
from tacit.spec import Spec
from tacit.typing import Array, HostArray, PyTree


class Turn(NamedTuple):
    """One question's public surroundings: a slice of the plan.

    Attributes
    ----------
    round, local
        Which round, and which question inside it.
    participation
        The agent's own participation number; equal to `round` where all take part in every round.
    question
        Which oracle is asked; -1 for a turn that asks nothing.
    agent
        Who is asked.
    scale
        Absolute scale of the noise on the answer.
    values
        The algorithm's schedules at this turn.
    """

    round: Int[Array, "*q"]
    local: Int[Array, "*q"]
    participation: Int[Array, "*q"]
    question: Int[Array, "*q"]
    agent: Int[Array, "*q"]
    scale: Float[Array, "*q"]
    values: dict[str, Float[Array, "*q"]]


@dataclass(frozen=True)
class Noise:
    """What a schedule may know of the noise, before a record is touched.

    Attributes
    ----------
    multiplier
        scale / sensitivity of every answer; 0 without noise.
    gradient_scale
        `(A,)`: standard deviation, per coordinate, of the noise on one answer of each agent to
        question 0, a mean gradient in most methods.
    sampled
        Whether that question is answered on a random batch, and so varies without noise too.
    """

    multiplier: float
    gradient_scale: HostArray
    sampled: bool = False

    @property
    def of_mean(self) -> float:
        """Standard deviation, per coordinate, of the mean of all agents' answers in one round."""
        return float(np.sqrt(np.sum(self.gradient_scale**2)) / len(self.gradient_scale))


# not typing.Self: a checker at run time sees a function, and not the class around it
AlgorithmT = TypeVar("AlgorithmT", bound="Algorithm")


class Algorithm(eqx.Module):
    """The agent's side of a method.

    Attributes
    ----------
    tells_neighbours
        On a relay, whether who is asked tells all its neighbours: its token is then not what
        travels, its parts stay with the agents, and they learn of the answer at that hop.
    """

    tells_neighbours: ClassVar[bool] = False

    @property
    def loss(self) -> Loss | None:
        """The loss that is minimised, that of `problem`; None for a method without a problem."""
        return getattr(getattr(self, "problem", None), "loss", None)

    def on_network(self: AlgorithmT, spec: Spec, network: Any) -> AlgorithmT:
        """Return this algorithm with what it takes from the network; here it is unchanged.

        Called once, before planning. It may raise `InputError`, for example if a step size is
        beyond what is stable on the network.

        Parameters
        ----------
        network
            None for a method with an aggregator, a `tacit.network.Mixing` for one by gossip, a
            `tacit.network.Walk` for one on a relay.
        """
        del spec, network
        return self

    def questions(self, rounds: int) -> HostArray:
        """Return the number of the oracle of every question, `(T, E)`: here 0, once a round."""
        return np.zeros((rounds, 1), dtype=int)

    @abstractmethod
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        """Return the named schedules, each `(T,)` or, where agents differ, `(A, T)`.

        T counts the rounds in which somebody takes part; the plan fills in the others.
        """

    @abstractmethod
    def start(self, template: Float[Array, "*shape"]) -> PyTree:
        """Return an agent's first state; `template` is a zero model of the plan's dtype.

        A state that holds an answer needs the answer's shape, which may be another one.
        """

    def receive(self, state: PyTree, inbox: PyTree, turn: Turn) -> PyTree:
        """Return the state after reading the inbox; unchanged unless a method says otherwise."""
        del inbox, turn
        return state

    @abstractmethod
    def ask(self, state: PyTree, inbox: PyTree, turn: Turn) -> Any:
        """Return the question."""

    @abstractmethod
    def tell(self, state: PyTree, inbox: PyTree, turn: Turn, answer: Array) -> PyTree:
        """Return the state after the noised answer."""

    @abstractmethod
    def send(self, state: PyTree, inbox: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        """Return the state and the message, any pytree of arrays."""


class StarAlgorithm(Algorithm):
    """A method with an aggregator: the inbox of every agent is the aggregator's public value."""

    @abstractmethod
    def first_public(self, template: Float[Array, "*shape"]) -> PyTree:
        """Return the public value before the first round."""

    @abstractmethod
    def combine(self, public: PyTree, mean_message: PyTree, turn: Turn) -> PyTree:
        """Return the next public value from the mean of all agents' messages."""

    @abstractmethod
    def model(self, public: PyTree) -> Float[Array, "*shape"]:
        """Return the model that a run would release at this public value."""


class GossipAlgorithm(Algorithm):
    """A method without aggregator: every agent learns how its neighbours' messages differ.

    With messages m_i and weights w_ij, the inbox of agent i is sum_j w_ij (m_j - m_i): what mixing
    adds to its own message. It is 0 where neighbours agree.
    """

    @abstractmethod
    def first_inbox(self, template: Float[Array, "*shape"]) -> PyTree:
        """Return an agent's inbox before the first round, of the structure of its messages."""

    @abstractmethod
    def model(self, state: PyTree) -> Float[Array, "*shape"]:
        """Return the agent's own model; a run releases the mean of all agents'."""


class RelayAlgorithm(Algorithm):
    """A method with a token: the inbox is the token that arrives, the message the one passed on."""

    @abstractmethod
    def first_token(self, template: Float[Array, "*shape"]) -> PyTree:
        """Return the token before the first hop."""

    @abstractmethod
    def model(self, token: PyTree) -> Float[Array, "*shape"]:
        """Return the model that a run would release with this token."""
