"""Every agent's targets of every step of a day, each step asked for once."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn.algorithms import (
    Turn,
)
from taciturn.errors import InputError
from taciturn.oracles import AtStep
from taciturn.typing import Array, HostArray
from taciturn_power.methods.targets_once import TargetsOnce


class TargetsByStep(TargetsOnce):
    """One noised answer per agent and step (oracle `taciturn.oracles.TargetsAt`), gathered in rows.

    A round is a step: the message of an agent is its answer about that step, and the public value
    has a row for every step. Agents keep nothing else.

    **Guarantee.** T rounds, T questions, which compose; no answer depends on an earlier one. What
    is computed from the rows is post-processing.

    Attributes
    ----------
    sharing
        The places of every agent's targets in a row; each place has one holder.
    asked
        The number of the oracle for every step: steps with other noise have another oracle.

    Raises
    ------
    InputError
        If a place has several holders; from `questions`, if the rounds are not the steps.
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
    def send(
        self, state: Float[Array, " M"], inbox: Float[Array, "T G"], turn: Turn
    ) -> tuple[Float[Array, " M"], Float[Array, " G"]]:
        return state, self.sharing.scattered(turn.agent, state)

    @override
    def combine(
        self, public: Float[Array, "T G"], mean_message: Float[Array, " G"], turn: Turn
    ) -> Float[Array, "T G"]:
        return public.at[turn.round].set(self.sharing.average(mean_message))

    @override
    def model(self, public: Float[Array, "T G"]) -> Float[Array, "T G"]:
        """Return the answers, a row for every step."""
        return public
