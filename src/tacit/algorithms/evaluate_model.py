"""One question about a released model: the total of all agents' answers."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float
from typing_extensions import override

from tacit.algorithms.algorithm import AnswerMessages, Noise, Turn
from tacit.errors import InputError
from tacit.oracles import Point
from tacit.spec import Spec
from tacit.typing import Array, HostArray, Model


class EvaluateModel(AnswerMessages):
    """One question about a model, and the mean of the agents' noised answers.

    Nothing is trained: what a run releases is that mean, of the shape of an answer.

    **Guarantee.** One round, one question, asked at a model that is fixed in the plan, and the
    message is the answer itself: under summation the noises of honest agents add up.

    Attributes
    ----------
    weights
        The model. It must be public: released by another run, for example.
    answers
        How many numbers an answer has.
    """

    weights: Float[Array, "..."]
    answers: int = eqx.field(static=True)

    @override
    def questions(self, rounds: int) -> HostArray:
        if rounds != 1:
            raise InputError(f"this algorithm asks once; plan 1 round, not {rounds}")
        return super().questions(rounds)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return {}

    @override
    def start(self, template: Model) -> Float[Array, "S"]:
        return jnp.zeros(self.answers, template.dtype)

    @override
    def ask(self, state: Array, inbox: Array, turn: Turn) -> Point:
        return Point(self.weights)

    @override
    def first_public(self, template: Model) -> Float[Array, "S"]:
        return jnp.zeros(self.answers, template.dtype)

    @override
    def combine(self, public: Array, mean_message: Array, turn: Turn) -> Array:
        return mean_message

    @override
    def model(self, public: Array) -> Array:
        return public
