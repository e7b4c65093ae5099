"""Methods that ask once: linear regression from noised statistics, and the score of a model."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.algorithm import AnswerMessages, Noise
from taciturn.errors import InputError
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import Point, statistics_size
from taciturn.kernel.records import Spec
from taciturn.problems import L2, NoRegulariser, Problem, Squared, WholeSpace
from taciturn.typing import Array, HostArray, Model, Vector


class _AskedOnce(AnswerMessages):
    @override
    def questions(self, rounds: int) -> HostArray:
        if rounds != 1:
            raise InputError(f"this algorithm asks once; plan 1 round, not {rounds}")
        return super().questions(rounds)


class OneQuestion(_AskedOnce):
    """Linear regression from one noised answer per agent, to the question `Statistics`.

    With the mean (S, b) of the agents' noised statistics, S symmetric by unpacking, and its
    eigenvalues l_k, the aggregator solves a public problem:

        w = argmin_{w in C} w' S+ w / 2 - b'w + r(w),      S+ = S with l_k raised to the floor.

    Without noise this is argmin F for the squared loss, since F is that quadratic. The floor is 2
    nu sqrt(2 D), nu the standard deviation of one coordinate of the mean answer: an eigenvalue
    below may be noise alone (docs/explanation/step-sizes.md). It makes S+ positive semi-definite.

    **Solution.** Without constraint and with no or an l2 regulariser of weight c, in closed form on
    the eigenvectors, w = sum_k v_k (v_k'b) / (l_k+ + c), without directions in which the
    denominator is 0 to rounding (w is then the solution of least norm). Otherwise by `steps` steps
    of the accelerated proximal gradient method with restart, on the public quadratic, from 0.

    **Guarantee.** One round, one question asked at public state, whose answer is the message: under
    summation the observer sees the mean answer and the noises of honest agents add up. Everything
    after it is post-processing.
    """

    problem: Problem
    steps: int = eqx.field(static=True, default=2000)

    def __check_init__(self) -> None:
        checks.at_least("steps", self.steps, 1)
        if not isinstance(self.problem.loss, Squared):
            raise InputError(
                f"the statistics do not determine the {type(self.problem.loss).__name__} loss; "
                "use the squared loss or another algorithm"
            )

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return {"floor": np.full(rounds, 2 * noise.of_mean * np.sqrt(2 * spec.shape[0]))}

    @override
    def start(self, template: Vector) -> Float[Array, "S"]:
        return jnp.zeros(statistics_size(template.shape[0]), template.dtype)

    @override
    def ask(self, state: Float[Array, "S"], inbox: Vector, turn: Turn) -> Point:
        return Point(inbox)

    @override
    def combine(self, public: Vector, mean_message: Float[Array, "S"], turn: Turn) -> Vector:
        matrix, vector = unpacked(mean_message, public.shape[0])
        values, basis = jnp.linalg.eigh(matrix)
        values = jnp.maximum(values, turn.values["floor"])
        regulariser = self.problem.regulariser
        quadratic = isinstance(regulariser, L2 | NoRegulariser)
        if not quadratic or not isinstance(self.problem.constraint, WholeSpace):
            return _proximal(self.problem, (basis * values) @ basis.T, vector, self.steps)
        if isinstance(regulariser, L2):
            values = values + regulariser.weight
        # the minimiser of least norm: no part along directions of zero curvature
        least = values.shape[0] * float(np.finfo(values.dtype).eps) * jnp.max(values)
        solid = values > least
        along = jnp.where(solid, basis.T @ vector, 0) / jnp.where(solid, values, 1)
        model: Vector = basis @ along
        return model


def unpacked(
    statistics: Float[Array, "S"], features: int
) -> tuple[Float[Array, "D D"], Float[Array, "D"]]:
    """Return the symmetric matrix and the vector that `Statistics` packs into one vector."""
    rows, columns = np.triu_indices(features)
    weight = np.where(rows == columns, 1.0, 1 / math.sqrt(2)).astype(statistics.dtype)
    upper = statistics[: len(rows)] * weight
    matrix = jnp.zeros((features, features), statistics.dtype)
    matrix = matrix.at[rows, columns].set(upper).at[columns, rows].set(upper)
    return matrix, statistics[len(rows) :]


def _proximal(problem: Problem, matrix: Float[Array, "D D"], vector: Vector, steps: int) -> Vector:
    """Return the accelerated proximal gradient iterate after `steps` steps, with restart."""
    tiny = float(np.finfo(vector.dtype).tiny)
    size = 1 / jnp.maximum(jnp.linalg.norm(matrix, ord=2), tiny)
    one = jnp.ones((), vector.dtype)

    def step(_: Int[Array, ""], carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, y, momentum = carry
        new = problem.prox(y - size * (matrix @ y - vector), size)
        restart = jnp.vdot(y - new, new - x) > 0
        grown = (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + jnp.where(restart, 0, (momentum - 1) / grown) * (new - x)
        return new, ahead, jnp.where(restart, one, grown)

    first = jnp.zeros_like(vector)
    model: Array = jax.lax.fori_loop(0, steps, step, (first, first, one))[0]
    return model


class EvaluateModel(_AskedOnce):
    """One question about a model; the run releases the mean of the agents' noised answers.

    `weights`: the model, which must be public, for example released by another run. `answers`: the
    number of numbers in an answer.

    **Guarantee.** One round, one question at a model fixed in the plan, whose answer is the
    message: under summation the noises of honest agents add up.
    """

    weights: Float[Array, "..."]
    answers: int = eqx.field(static=True)

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
