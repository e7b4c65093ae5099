"""The agent's side of a method, which never sees data.

    receive(state, inbox, turn) -> state            once a round, first: dual updates
    ask(state, inbox, turn) -> query                public
    tell(state, inbox, turn, answer) -> state       post-processing of a noised answer
    send(state, inbox, turn) -> (state, message)    once a round, last

No array here has an agent axis: a runtime maps these functions over agents, or loops over them.
`Turn` carries the arrays that differ between runs (schedules, scales). The state keeps one tree
structure and one dtype.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn.errors import InputError
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import Gradient, Oracle, Point
from taciturn.kernel.records import Spec
from taciturn.problems import Loss, Problem
from taciturn.typing import Array, HostArray, Model, PyTree


@dataclass(frozen=True)
class Noise:
    """The noise of a plan, for the computation of schedules.

    - `multiplier`: Scale / sensitivity of every answer; 0 without noise.
    - `gradient_scale`: `(A,)`: Standard deviation, per coordinate, of the noise on each agent's
      answer to question 0, in most methods a mean gradient.
    - `rate`: Sampling rate of question 0; below 1 its answers vary even without noise.
    """

    multiplier: float
    gradient_scale: HostArray
    rate: float = 1.0

    @property
    def sampled(self) -> bool:
        """Whether question 0 is answered on random batches."""
        return self.rate < 1

    @property
    def of_mean(self) -> float:
        """Standard deviation, per coordinate, of the mean of all agents' answers in one round."""
        return float(np.sqrt(np.sum(self.gradient_scale**2)) / len(self.gradient_scale))


MOST_GROWTH = 1e6  # of an error, by steps that a user stated


# not typing.Self: the run-time type checker sees the function without its class
AlgorithmT = TypeVar("AlgorithmT", bound="Algorithm")


class Algorithm(eqx.Module):
    """The agent's side of a method.

    `tells_neighbours`: on a relay, whether the holder sends its results to all its neighbours. The
    token is then simulated: its parts stay with the agents, and neighbours learn the answer at that
    hop. `runs_here`: whether the method's code runs in this process.
    """

    tells_neighbours: ClassVar[bool] = False
    runs_here: ClassVar[bool] = True

    @property
    def loss(self) -> Loss | None:
        """The loss of `problem`; None for a method without a problem."""
        return getattr(getattr(self, "problem", None), "loss", None)

    @property
    def step_rho(self) -> float | None:
        """The curvature rho of the proximal steps that are queried; None for other questions."""
        return None

    def oracles(self, clip: float) -> tuple[Oracle, ...]:
        """Return the questions, in the order of their numbers; by default the full gradient.

        `clip`: the public bound on the norm of a record's coefficient.
        """
        if self.loss is None:
            raise InputError(
                f"{type(self).__name__} has no problem, hence no gradient to query; define "
                "oracles(clip), which returns its questions"
            )
        return (Gradient(self.loss, clip),)

    def on_network(self: AlgorithmT, spec: Spec, network: Any) -> AlgorithmT:
        """Return this algorithm with its constants for the network; by default unchanged.

        Called once, before planning. `network`: None for a star or a tree, a
        `taciturn.network.Mixing` for gossip, a `taciturn.network.Walk` for a relay. `InputError` if
        a setting is invalid on it, for example an unstable step size.
        """
        del spec, network
        return self

    def questions(self, rounds: int) -> HostArray:
        """Return the oracle of every question, `(T, E)`: by default oracle 0, once a round."""
        return np.zeros((rounds, 1), dtype=int)

    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        """Return the named schedules, `(T,)` or, if agents differ, `(A, T)`; by default none.

        T counts the rounds with a participant; the plan fills in the others.
        """
        del spec, rounds, noise
        return {}

    @abstractmethod
    def start(self, template: Model) -> PyTree:
        """Return an agent's initial state; `template` is a zero model of the plan's dtype."""

    def receive(self, state: PyTree, inbox: PyTree, turn: Turn) -> PyTree:
        """Return the state after reading the inbox; by default unchanged."""
        del inbox, turn
        return state

    @abstractmethod
    def ask(self, state: PyTree, inbox: PyTree, turn: Turn) -> Any:
        """Return the query."""

    @abstractmethod
    def tell(self, state: PyTree, inbox: PyTree, turn: Turn, answer: Array) -> PyTree:
        """Return the state after the noised answer."""

    @abstractmethod
    def send(self, state: PyTree, inbox: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        """Return the state and the message, any pytree of arrays."""


class StarAlgorithm(Algorithm):
    """A method with an aggregator: the inbox of every agent is the aggregator's public value."""

    def first_public(self, template: Model) -> PyTree:
        """Return the public value before the first round: by default a zero model."""
        return template

    @abstractmethod
    def combine(self, public: PyTree, mean_message: PyTree, turn: Turn) -> PyTree:
        """Return the next public value from the mean of all agents' messages."""

    def model(self, public: PyTree) -> Model:
        """Return the model released at this public value: the value itself, or its `average`."""
        model: Model = public.average if hasattr(public, "average") else public
        return model


class AnswerMessages(StarAlgorithm):
    """A star method whose agents keep no state: each message is the noised answer."""

    @override
    def start(self, template: Model) -> Array:
        return template

    @override
    def tell(self, state: Array, inbox: PyTree, turn: Turn, answer: Array) -> Array:
        return answer

    @override
    def send(self, state: Array, inbox: PyTree, turn: Turn) -> tuple[Array, Array]:
        return state, state


class ServerMethod(AnswerMessages):
    """A star method that steps along the mean of all agents' noised gradients at a public model.

    A subclass is constructed from the problem; it defines `step`, and `schedule` if it needs one.
    If a step needs more than the model, `first_public` and `step` return a tuple. Its first entry
    is the model, at which gradients are evaluated and which is released; a named tuple with a field
    `average` releases that field.

    Examples
    --------
    >>> class HeavyBall(ServerMethod):
    ...     def first_public(self, template):
    ...         return template, template  # the model, and the one before it
    ...
    ...     def step(self, public, gradient, turn):
    ...         model, before = public
    ...         return self.problem.prox(model - 4 * gradient + (model - before) / 2, 4), model
    """

    problem: Problem

    @abstractmethod
    def step(self, public: PyTree, gradient: Model, turn: Turn) -> PyTree:
        """Return the next public model, given the mean of all agents' gradients at this one.

        `turn.values` holds the value of every schedule in this round.
        """

    @override
    def ask(self, state: Array, inbox: PyTree, turn: Turn) -> Point:
        return Point(inbox[0] if isinstance(inbox, tuple) else inbox)

    @override
    def combine(self, public: PyTree, mean_message: Model, turn: Turn) -> PyTree:
        return self.step(public, mean_message, turn)

    @override
    def model(self, public: PyTree) -> Model:
        plain = isinstance(public, tuple) and not hasattr(public, "average")
        return super().model(public[0] if plain else public)


class GossipAlgorithm(Algorithm):
    """A method without aggregator.

    With messages m_i and weights w_ij, the inbox of agent i is sum_j w_ij (m_j - m_i), which is 0
    at consensus.
    """

    @abstractmethod
    def first_inbox(self, template: Model) -> PyTree:
        """Return an agent's inbox before the first round, with the structure of its messages."""

    @abstractmethod
    def model(self, state: PyTree) -> Model:
        """Return the agent's model; a run releases the mean over agents."""


class RelayAlgorithm(Algorithm):
    """A method with a token: the inbox is the token received, the message the token passed on."""

    @abstractmethod
    def first_token(self, template: Model) -> PyTree:
        """Return the token before the first hop."""

    @abstractmethod
    def model(self, token: PyTree) -> Model:
        """Return the model released with this token."""


def radius_of(spec: Spec, ridge: float = 0.0) -> float:
    """Return the assumed norm of the solution, from which the horizon is chosen.

    sqrt(d) / R: coordinates of order one for records of norm one; with a ridge mu

        sqrt(d) / R min(1, sqrt(L / (mu d (1 + ln d)))).

    Derived in docs/explanation/step-sizes.md. Methods on a star take the radius without the ridge.
    """
    size = np.sqrt(spec.dimension) / spec.record_norm
    bend = ridge * spec.dimension * (1 + np.log(spec.dimension)) / spec.smoothness
    return float(size / np.sqrt(max(1.0, bend)))


def batch_variance(spec: Spec, rate: float) -> float:
    """Return a bound on the variance of the mean of all agents' batch gradients, 0 at rate 1.

    An agent's variance is (1 - q) / (q m_i^2) sum_j |g_j|^2 <= (1 - q) c_1^2 / (q m_i); agents draw
    independently. An infinite c_1 is replaced by L / R: the result is then an estimate.
    """
    slope = spec.gradient_bound
    if not np.isfinite(slope):
        slope = spec.smoothness / spec.record_norm
    share = np.sum(1 / np.asarray(spec.counts, np.float64)) / spec.agents**2
    return float((1 - rate) / rate * slope**2 * share)


def step_within(limit: float, spec: Spec, noise: Noise, sweeps: float, ridge: float = 0.0) -> float:
    """Return min(limit / 2, min(H, H') / n): half of `limit`, or less if the noise requires it.

    In n sweeps, each of one question to every agent, the horizon is at most H = radius sqrt(n / d)
    / nu (`NoisyGradient`), nu the standard deviation of the mean answer of a sweep; with many
    columns at most H' = 4 (L / d) n / (R nu)^2. Derived in docs/explanation/step-sizes.md.
    """
    if noise.of_mean == 0:
        return limit / 2
    ratio = np.sqrt(sweeps) / noise.of_mean
    horizon = radius_of(spec, ridge) * ratio / np.sqrt(spec.dimension)
    even = 4 * spec.smoothness / spec.dimension * (ratio / spec.record_norm) ** 2
    return float(min(limit / 2, min(horizon, even) / sweeps))


def check_step(algorithm: Algorithm, step: float | None, limit: float, why: str) -> None:
    """Raise `InputError` unless a given step size is below its limit."""
    if step is not None and not 0 < step < limit:
        raise InputError(
            f"{type(algorithm).__name__} has step size {step:g}; it must be above 0 and below "
            f"{limit:.4g} = {why}, beyond which it may diverge"
        )


def check_growth(
    spec: Spec,
    steps: HostArray,
    *,
    coupled: HostArray | float = 0.0,
    ridge: float = 0.0,
    times: int = 1,
) -> None:
    """Raise `InputError` if steps that a user stated can make a model overflow.

    Of the public terms, `coupled` is the curvature of those that a dual follows and `ridge` that of
    the others; where no bound holds for the gradients of records, that of the loss is added to the
    ridge. Bounded gradients make a model grow in proportion to the steps only. On a quadratic, with
    a = tau coupled and b = tau ridge for a step tau, distance x and dual u follow

        x <- (1 - a - b) x - a u,    u <- u + x.

    The largest modulus of an eigenvalue is at most the larger of 1 and

        (2 a + b - 2 + sqrt((2 a + b)^2 - 4 a)) / 2,

    which exceeds 1 for 3 a + 2 b > 4 only: a dual makes steps diverge that gradient descent (a = 0,
    b < 2) would stand. The product over all rounds, each of `times` steps, must be at most
    `MOST_GROWTH`, so a few long first steps are accepted and a run that diverges is refused.
    """
    others = ridge if math.isfinite(spec.gradient_bound) else ridge + smoothness_of(spec)
    if others == 0 and not np.any(coupled):
        return
    a, whole = steps * coupled, steps * (2 * coupled + others)
    root = np.sqrt(np.maximum(whole**2 - 4 * a, 0.0))
    factors = np.maximum(1.0, (whole - 2 + root) / 2)
    growth = times * float(np.max(np.sum(np.log(factors), axis=-1)))  # rounds last
    if growth > math.log(MOST_GROWTH):
        raise InputError(
            f"with these settings a run may multiply errors by 10^{growth / math.log(10):.3g} and "
            f"overflow; steps are up to {float(np.max(steps)):.4g}, and those below "
            f"{4 / (3 * float(np.max(coupled)) + 2 * others):.4g} do not diverge: give a smaller "
            "step-size or radius, a larger gamma, or another rho or regulariser"
        )


def smoothness_of(spec: Spec) -> float:
    """Return the Lipschitz constant of the gradients, or raise `InputError` if there is none."""
    if not np.isfinite(spec.smoothness):
        raise InputError("the loss has no Lipschitz gradient; smooth it to use this algorithm")
    return spec.smoothness


def averaging(rounds: int, noise: Noise) -> Float[HostArray, " T"]:
    """Return the weights of a mean over the last half of the rounds, or the last if noiseless."""
    return np.ones(rounds) if noise.multiplier == 0 else tail_average(rounds)


def tail_average(rounds: int, fraction: float = 0.5) -> Float[HostArray, " T"]:
    """Return the weights a_t of a running mean over the last `fraction` of the rounds."""
    return running_mean(rounds, rounds - max(1, round(fraction * rounds)))


def running_mean(rounds: int, first: int = 0) -> Float[HostArray, " T"]:
    """Return the weights a_t = 1/(t - first) of a mean from round `first` on, 1 before."""
    return 1 / np.maximum(1.0, np.arange(rounds) - first + 1)
