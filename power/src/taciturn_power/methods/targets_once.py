"""Every agent's targets, asked for once: all that follows is anybody's arithmetic."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn.algorithms import Noise, StarAlgorithm, Turn
from taciturn.errors import InputError
from taciturn.oracles import AtStep, Point
from taciturn.spec import Spec
from taciturn.typing import Array, HostArray
from taciturn_power.methods.general_consensus import SharedCoordinates


class TargetsOnce(StarAlgorithm):
    """One noised answer per agent to `taciturn.oracles.Targets`, gathered into one vector.

    The message of an agent is its answer, in the places that it holds; the public value is the
    vector of all answers. Agents keep nothing else.

    **Guarantee.** One round, one question, whose answer does not depend on the query. What is
    computed from the vector is post-processing.

    - `sharing`: The places of every agent's targets in the vector; each place has one holder.

    Raises `InputError` if a place has several holders; from `questions`, if more than one round is
    asked for.
    """

    sharing: SharedCoordinates

    def __check_init__(self) -> None:
        if np.any(np.asarray(self.sharing.holders) != 1):
            raise InputError("a target is held by several agents; give each to one")

    @override
    def questions(self, rounds: int) -> HostArray:
        if rounds != 1:
            raise InputError(f"targets are asked for once; plan 1 round, not {rounds}")
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
    """`TargetsOnce` for every step (oracle `taciturn.oracles.TargetsAt`), gathered in rows.

    A round is a step, and the public value has a row for every step.

    **Guarantee.** T rounds, T questions, which compose; no answer depends on an earlier one. What
    is computed from the rows is post-processing.

    - `asked`: The number of the oracle for every step: steps with other noise have another oracle.

    Raises `InputError` if a place has several holders; from `questions`, if the rounds are not the
    steps.
    """

    asked: tuple[int, ...] = eqx.field(static=True)

    @override
    def questions(self, rounds: int) -> HostArray:
        if rounds != len(self.asked):
            raise InputError(
                f"every step is asked for once; plan {len(self.asked)} rounds, not {rounds}"
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
