"""A method on rows around a private centre, which the first round learns.

Round 0 queries the mean of the rows (`RowMean`, the last question); c is its mean over agents.
Later rounds answer the method's queries on the rows around c: gradients on all records by
`CentredGradient`, others by `Recentred`.

**The share of the centre.** With T questions of multiplier z and one of multiplier r z for the
centre, mu^2 = T / z^2 + 1 / (r z)^2, so r = sqrt((1 - s) / (s T)) spends the share s = 5 % on the
centre. A question on batches of rate q costs about q^2 / z^2, so that q^2 T replaces T.

**Whether it pays.** A noised centre misses the mean by about sqrt(D) nu, nu the standard deviation
of its noise per coordinate; the rows have norm R. Unless this error is a small part of R, it shifts
rows at random and the method does better without a centre. The rule uses public numbers alone:
`noise_share` must be at most `MOST_NOISE`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from typing_extensions import override

from taciturn.algorithms.algorithm import Noise, StarAlgorithm
from taciturn.algorithms.methods import Composition
from taciturn.errors import InputError
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import (
    Around,
    CentredGradient,
    Gradient,
    Recentred,
    RowMean,
    around,
    clipped_centre,
    is_full_batch,
)
from taciturn.kernel.records import Spec
from taciturn.problems import Loss
from taciturn.typing import Array, HostArray, Model, PyTree

SHARE = 0.05  # of mu^2, spent on the centre
MOST_NOISE = 0.25  # the largest error of a centre that pays, relative to the norm of rows


class _Public(NamedTuple):
    """The method's public value, and the centre."""

    method: PyTree
    centre: Float[Array, "D"]


class _State(NamedTuple):
    """The method's state, and the last answer, the message of the first round."""

    method: PyTree
    answer: Array


class Centred(StarAlgorithm):
    """A star method whose questions are about rows around a centre from round 1 on.

    - `method`: The method; its answers have the model's shape.
    - `centre_question`: The number of the question for the centre.
    - `record_norm`, `row_norm`: R of the packed rows, and sqrt(1 + kappa^2) of those around the
      centre.

    **Guarantee.** The centre is a function of noised answers, and the queries are those of the
    method, so every query is public. Agents send the method's message, or in round 0 the answer
    itself, so summation is credited whenever it is for the method.
    """

    method: StarAlgorithm
    centre_question: int = eqx.field(static=True)
    record_norm: float = eqx.field(static=True)
    row_norm: float = eqx.field(static=True)

    @property
    @override
    def loss(self) -> Loss | None:
        return self.method.loss

    @property
    @override
    def step_rho(self) -> float | None:
        return self.method.step_rho

    @override
    def questions(self, rounds: int) -> HostArray:
        """Return the question for the centre, once, in round 0, then those of the method."""
        later = np.asarray(self.method.questions(max(rounds - 1, 1)))
        first = np.full((1, later.shape[1]), -1)
        first[0, 0] = self.centre_question
        return np.concatenate([first, later])[:rounds]

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        """Return the method's schedules for one round less, on rows of the centred norm."""
        facts = around(spec, self.row_norm)
        schedules = self.method.schedule(facts, max(rounds - 1, 1), noise)
        return {
            name: np.concatenate([values[..., :1], values], axis=-1)[..., :rounds]
            for name, values in schedules.items()
        }

    @override
    def first_public(self, template: Model) -> _Public:
        centre = jnp.zeros(template.shape[:1], template.dtype)
        return _Public(self.method.first_public(template), centre)

    @override
    def start(self, template: Model) -> _State:
        return _State(self.method.start(template), template)

    @override
    def receive(self, state: _State, inbox: _Public, turn: Turn) -> _State:
        # the answer of round 0 is not the method's: restart the method's state after it
        blank = self.method.start(jnp.zeros_like(state.answer))
        inner = _chosen(turn.round <= 1, blank, state.method)
        return state._replace(method=self.method.receive(inner, inbox.method, _later(turn)))

    @override
    def ask(self, state: _State, inbox: _Public, turn: Turn) -> Around:
        query = self.method.ask(state.method, inbox.method, _later(turn))
        return Around(query, inbox.centre)

    @override
    def tell(self, state: _State, inbox: _Public, turn: Turn, answer: Array) -> _State:
        inner = self.method.tell(state.method, inbox.method, _later(turn), answer)
        if np.shape(self.method.questions(1))[1] > 1:
            # further questions of round 0 are not asked: their answers are 0, not the mean
            answer = jnp.where(turn.local == 0, answer, state.answer)
        return _State(inner, answer)

    @override
    def send(self, state: _State, inbox: _Public, turn: Turn) -> tuple[_State, PyTree]:
        sent, message = self.method.send(state.method, inbox.method, _later(turn))
        answer = jnp.where(turn.round == 0, state.answer, 0)
        return state._replace(method=sent), (message, answer)

    @override
    def combine(self, public: _Public, mean_message: PyTree, turn: Turn) -> _Public:
        (message, answer), first = mean_message, turn.round == 0
        method = self.method.combine(public.method, message, _later(turn))
        mean = answer if answer.ndim == 1 else answer[:, 0]
        centre = clipped_centre(mean, self.record_norm).astype(public.centre.dtype)
        return _Public(
            _chosen(first, public.method, method), jnp.where(first, centre, public.centre)
        )

    @override
    def model(self, public: _Public) -> Model:
        return self.method.model(public.method)

    def centre(self, public: Any) -> Float[Array, "D"]:
        """Return the centre of the model's rows."""
        return clipped_centre(public.centre, self.record_norm)


def check_centre(one_public: bool, plain: bool, rounds: int) -> None:
    """Raise `InputError` unless a centre can be learned.

    `one_public`: whether all agents share one public value, as on a star or tree. `plain`: whether
    the weights have no structure, and the model need not be monotone in a column: rows around a
    centre are divided by their distance to it.
    """
    if not one_public:
        raise InputError(
            "in gossip and on a relay every agent would have a separate centre, and models around "
            "different centres cannot be averaged; leave the centre out"
        )
    if not plain:
        raise InputError(
            "a structure, or a direction in a column, is about the columns themselves; "
            "leave the centre out"
        )
    if rounds < 2:
        raise InputError(
            "the first round learns the centre; ask for 2 rounds or more, or leave the centre out"
        )


def add_centre(composition: Composition, facts: Spec, rounds: int, constant: float) -> Composition:
    """Return a method on rows around a centre, with its questions.

    The method is built from the facts about rows around a centre (`around`); `facts` are those
    about the packed rows.
    """
    algorithm, oracles = composition
    shapes = {oracle.answer_shape(facts.shape) for oracle in oracles}
    if not isinstance(algorithm, StarAlgorithm) or shapes != {facts.shape}:
        raise InputError(
            f"the answers to {type(algorithm).__name__} do not have the model's shape, which the "
            "mean of the rows has; leave the centre out"
        )
    questions: list[Recentred | RowMean] = []
    for oracle in oracles:  # a gradient on all records never forms the centred rows
        whole = type(oracle) is Gradient and is_full_batch(oracle)
        kind: type[Any] = CentredGradient if whole else Recentred
        questions.append(kind(oracle, facts.record_norm, constant))
    outputs = facts.shape[1] if len(facts.shape) > 1 else None
    rate = max(oracle.sampling.rate for oracle in oracles)
    mean, row_norm = RowMean(centre_multiplier(rounds) / rate, outputs), math.hypot(1.0, constant)
    method = Centred(algorithm, len(questions), facts.record_norm, row_norm)
    return Composition(method, (*questions, mean))


def centre_multiplier(rounds: int) -> float:
    """Return r, the centre's multiplier relative to that of the other questions."""
    return math.sqrt((1 - SHARE) / (SHARE * max(rounds - 1, 1)))


def noise_share(scales: Float[HostArray, "A"], *, columns: int, record_norm: float) -> float:
    """Return sqrt(D) nu / R under noise of these scales on the agents' means."""
    of_mean = float(np.sqrt(np.sum(scales**2))) / len(scales)
    return math.sqrt(columns) * of_mean / record_norm


def _later(turn: Turn) -> Turn:
    """Return the turn with rounds as the method counts them."""
    back = jnp.maximum(turn.round - 1, 0)
    return turn._replace(round=back, participation=jnp.maximum(turn.participation - 1, 0))


def _chosen(which: Bool[Array, ""], one: PyTree, other: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), one, other)
