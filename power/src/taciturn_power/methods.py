"""Methods on a star: consensus of agents that share coordinates, and release of targets."""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms import Noise, StarAlgorithm, Turn
from taciturn.errors import InputError
from taciturn.kernel.questions import AtStep, Point
from taciturn.kernel.records import Spec
from taciturn.problems import Loss, Squared
from taciturn.typing import Array, HostArray
from taciturn_power.conic import AgentSets


class SharedCoordinates(eqx.Module):
    """Which agent holds which coordinates.

    - `place`: `(A, D)`: the global index of every local coordinate; G in the padding.
    - `holders`: `(G,)`: the number of agents that hold each coordinate, at least 1.
    """

    place: Int[Array, "A D"]
    holders: Float[Array, " G"]

    def local(self, agent: int | Int[Array, ""], whole: Float[Array, " G"]) -> Float[Array, " D"]:
        """Return an agent's part of a global vector, 0 in the padding."""
        return jnp.append(whole, 0)[self.place[agent]]

    def scattered(
        self, agent: int | Int[Array, ""], part: Float[Array, " D"]
    ) -> Float[Array, " G"]:
        """Return the global vector with an agent's part, and 0 elsewhere."""
        size = self.holders.shape[0]
        return jnp.zeros(size + 1, part.dtype).at[self.place[agent]].set(part)[:size]

    def shared(self, agent: int | Int[Array, ""]) -> Bool[Array, " D"]:
        """Return which of an agent's coordinates are shared."""
        return self.local(agent, self.holders) > 1

    def average(self, mean: Float[Array, " G"]) -> Float[Array, " G"]:
        """Return the average over holders, from the mean over all agents of scattered parts.

        The mean over agents divides a sum of `holders` terms by A, so mean A / holders.
        """
        return mean * self.place.shape[0] / self.holders


def shared_coordinates(held: list[Int[HostArray, " _n"]], size: int) -> SharedCoordinates:
    """Return the sharing of `size` global coordinates, of which agent a holds `held[a]`.

    Examples
    --------
    >>> sharing = shared_coordinates([np.array([0, 1]), np.array([1, 2, 3])], 4)
    >>> sharing.holders.tolist(), sharing.local(0, jnp.arange(4.0)).tolist()
    ([1.0, 2.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    """
    if not held or any(len(np.unique(part)) != len(part) for part in held):
        raise InputError("an agent holds a coordinate twice, or there is no agent; correct it")
    every = np.concatenate(held)
    if every.size == 0 or every.min() < 0 or every.max() >= size:
        raise InputError(f"a coordinate is not in 0..{size - 1}; correct it or raise the size")
    holders = np.bincount(every, minlength=size)
    if np.any(holders == 0):
        raise InputError(f"no agent holds coordinate {int(holders.argmin())}; give it to one")
    place = np.full((len(held), max(map(len, held))), size, np.int32)
    for agent, part in enumerate(held):
        place[agent, : len(part)] = part
    return SharedCoordinates(jnp.asarray(place), jnp.asarray(holders, jnp.float64))


Question = Literal["gradient", "residual", "targets"]


class _State(NamedTuple):
    iterate: Float[Array, " D"]
    mean: Float[Array, " D"]
    dual: Float[Array, " D"]
    targets: Float[Array, " M"]
    estimates: Float[Array, ""]


class GeneralConsensus(StarAlgorithm):
    r"""ADMM for min sum_a |X_a z_a - y_a|^2 / 2, z_a in C_a, over agents that share coordinates.

    X_a and C_a are public, y_a is private. A round, with S_a the coordinates that agent a shares,
    w the global vector and E local updates (Ryu and Kim 2023, (3.1) and (D.3)):

        z_a <- argmin_{z in C_a} |X_a z - y|^2 / 2 + (c/2) |z - z_a|^2
                                 + (rho/2) |z - w - dual_a / rho|^2 on S_a alone,   E times
        w   <- for every coordinate, the average of the mean of the E iterates over its holders
        dual_a <- dual_a + rho (w - z_a)   on S_a

    with y an estimate of the targets and c the proximal weight. If the sets carry no Hessian, the
    first term is linearised at z_a, as published: the step is then a projection in the metric
    c + rho on S_a and c elsewhere, and c = 1/eta must be at least |X_a|_2^2. If they carry X_a'X_a,
    which is public, the term is used exactly: a smaller c suffices and convergence takes far fewer
    rounds. (The published method updates the duals with the previous average. With this order they
    sum to zero over the holders, so that only the iterate is sent.)

    **Estimates.** X_a and every query z are public, so each answer is an estimate of y_a: a
    residual r gives X z - r; a gradient g gives X z - (X X')^+ X g; the targets are y itself. With
    `average` the mean of all estimates is used, otherwise the last. The targets are asked once, in
    the first round; later rounds cost no privacy.

    **Guarantee.** Iterates, duals and messages are functions of noised answers and public constants
    alone, so a run is post-processing of the composition of its answers. The question is asked at
    the agent's iterate, hence no credit for summation.

    - `sharing`: Which agent holds which coordinates.
    - `features`, `lift`: `(A, M, D)`: the rows of X_a, zero in the padding, and (X X')^+ X of each
      (`lifts`), for the question gradient only.
    - `sets`: The C_a, with or without Hessians.
    - `first`: `(G,)`: the public start.
    - `rho`, `proximal_weight`: The ADMM parameter, and c = 1/eta.
    - `question`, `average`: The question, and whether estimates are averaged.
    - `updates`: E, local updates per round.
    """

    sharing: SharedCoordinates
    features: Float[Array, "A M D"]
    lift: Float[Array, "A M D"] | None
    sets: AgentSets
    first: Float[Array, " G"]
    rho: float
    proximal_weight: float
    question: Question = eqx.field(static=True)
    average: bool = eqx.field(static=True)
    updates: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.positive("rho", self.rho)
        checks.positive("proximal_weight", self.proximal_weight)
        checks.at_least("updates", self.updates, 1)
        if self.question not in {"gradient", "residual", "targets"}:
            raise InputError(
                f"question is {self.question!r}; choose from gradient, residual, targets"
            )
        if self.question == "gradient" and self.lift is None:
            raise InputError("the question gradient needs the lifts of the rows; pass lifts(rows)")

    @property
    @override
    def loss(self) -> Loss:
        """Half the square: sum_a |X_a z_a - y_a|^2 / 2."""
        return Squared()

    @override
    def questions(self, rounds: int) -> HostArray:
        numbers = np.zeros((rounds, self.updates), dtype=int)
        if self.question == "targets":
            numbers[:] = -1
            numbers[0, 0] = 0
        return numbers

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return {}

    @override
    def start(self, template: Float[Array, " D"]) -> _State:
        targets = jnp.zeros(self.features.shape[1], template.dtype)
        return _State(template, template, template, targets, jnp.zeros((), template.dtype))

    @override
    def receive(self, state: _State, inbox: Float[Array, " G"], turn: Turn) -> _State:
        average = self.sharing.local(turn.agent, inbox)
        shared = self.sharing.shared(turn.agent)
        moved = jnp.where(shared, self.rho * (average - state.mean), 0)
        first = turn.round == 0
        return state._replace(
            iterate=jnp.where(first, average, state.iterate),
            dual=jnp.where(first, 0, state.dual + moved),
            mean=jnp.zeros_like(state.mean),
        )

    @override
    def ask(self, state: _State, inbox: Float[Array, " G"], turn: Turn) -> Point:
        return Point(state.iterate)

    @override
    def tell(self, state: _State, inbox: Float[Array, " G"], turn: Turn, answer: Array) -> _State:
        state = self._estimated(state, turn, answer)
        x = self.features[turn.agent]
        shared = self.sharing.shared(turn.agent)
        towards = self.rho * self.sharing.local(turn.agent, inbox) + state.dual
        slope = -x.T @ state.targets
        if not self.sets.has_hessians:
            slope = slope + x.T @ (x @ state.iterate)
        linear = self.proximal_weight * state.iterate + jnp.where(shared, towards, 0) - slope
        metric = self.proximal_weight + self.rho * shared.astype(linear.dtype)
        iterate = self.sets.step(turn.agent, linear, metric)
        return state._replace(iterate=iterate, mean=state.mean + iterate / self.updates)

    def _estimated(self, state: _State, turn: Turn, answer: Array) -> _State:
        """Return the state with its estimate updated by the answer, if there was a question."""
        margins = self.features[turn.agent] @ state.iterate
        estimate = answer
        if self.lift is not None and self.question == "gradient":
            estimate = margins - self.lift[turn.agent] @ answer
        if self.question == "residual":
            estimate = margins - answer
        answered = (turn.question >= 0).astype(estimate.dtype)
        estimates = state.estimates + answered
        share = answered / jnp.maximum(estimates, 1) if self.average else answered
        return state._replace(
            targets=state.targets + share * (estimate - state.targets), estimates=estimates
        )

    @override
    def send(
        self, state: _State, inbox: Float[Array, " G"], turn: Turn
    ) -> tuple[_State, Float[Array, " G"]]:
        return state, self.sharing.scattered(turn.agent, state.mean)

    @override
    def first_public(self, template: Float[Array, " D"]) -> Float[Array, " G"]:
        return self.first

    @override
    def combine(
        self, public: Float[Array, " G"], mean_message: Float[Array, " G"], turn: Turn
    ) -> Float[Array, " G"]:
        return self.sharing.average(mean_message)

    @override
    def model(self, public: Float[Array, " G"]) -> Float[Array, " G"]:
        """Return the global vector."""
        return public


def lifts(features: Float[HostArray, "A M D"]) -> Float[HostArray, "A M D"]:
    """Return (X X')^+ X for every agent, which maps X'r to r."""
    return np.stack([np.linalg.pinv(x @ x.T, hermitian=True) @ x for x in features])


class TargetsOnce(StarAlgorithm):
    """One noised answer per agent to `taciturn.kernel.questions.Targets`, gathered into one vector.

    **Guarantee.** One round, one question, whose answer does not depend on the query. All that is
    computed from the vector is post-processing.

    - `sharing`: The places of every agent's targets in the vector; each place has one holder.
    """

    sharing: SharedCoordinates

    def __check_init__(self) -> None:
        if np.any(np.asarray(self.sharing.holders) != 1):
            raise InputError("a target is held by several agents; give each to one")

    @override
    def questions(self, rounds: int) -> HostArray:
        if rounds != 1:
            raise InputError(f"targets are asked once; plan 1 round, not {rounds}")
        return super().questions(rounds)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return {}

    @override
    def start(self, template: Float[Array, " D"]) -> Float[Array, " M"]:
        return jnp.zeros(self.sharing.place.shape[1], template.dtype)

    @override
    def ask(self, state: Array, inbox: Float[Array, " G"], turn: Turn) -> Point | AtStep:
        return Point(inbox)

    @override
    def tell(self, state: Array, inbox: Array, turn: Turn, answer: Array) -> Float[Array, " M"]:
        return answer

    @override
    def send(
        self, state: Float[Array, " M"], inbox: Float[Array, "*T G"], turn: Turn
    ) -> tuple[Float[Array, " M"], Float[Array, " G"]]:
        return state, self.sharing.scattered(turn.agent, state)

    @override
    def first_public(self, template: Float[Array, " D"]) -> Float[Array, " G"]:
        return jnp.zeros(self.sharing.holders.shape[0], template.dtype)

    @override
    def combine(
        self, public: Float[Array, " G"], mean_message: Float[Array, " G"], turn: Turn
    ) -> Float[Array, " G"]:
        return self.sharing.average(mean_message)

    @override
    def model(self, public: Float[Array, "*T G"]) -> Float[Array, "*T G"]:
        """Return the vector of all answers, or their rows by step."""
        return public


class TargetsByStep(TargetsOnce):
    """`TargetsOnce` for every step (`Targets` with steps), gathered in rows.

    **Guarantee.** T rounds, one for each step, T questions, which compose; no answer depends on an
    earlier one. All that is computed from the rows is post-processing.

    - `asked`: The number of the oracle for every step: one oracle for each noise.
    """

    asked: tuple[int, ...] = eqx.field(static=True)

    @override
    def questions(self, rounds: int) -> HostArray:
        if rounds != len(self.asked):
            raise InputError(
                f"every step is asked once; plan {len(self.asked)} rounds, not {rounds}"
            )
        return np.array(self.asked)[:, None]

    @override
    def ask(self, state: Array, inbox: Float[Array, "T G"], turn: Turn) -> AtStep:
        return AtStep(turn.round)

    @override
    def first_public(self, template: Float[Array, " D"]) -> Float[Array, "T G"]:
        return jnp.zeros((len(self.asked), self.sharing.holders.shape[0]), template.dtype)

    @override
    def combine(
        self, public: Float[Array, "T G"], mean_message: Float[Array, " G"], turn: Turn
    ) -> Float[Array, "T G"]:
        return public.at[turn.round].set(self.sharing.average(mean_message))
