r"""What a run computes under secure aggregation: whole steps are added, and nothing else.

Where summation is credited (`taciturn.engine.credit`), agent i's message is f(a_i), with a public
affine f that is the same for all agents and a_i = h k_i its noised answer, k_i whole numbers. So

    mean_i f(a_i) = f(h sum_i k_i / A),

and the aggregator needs the sum of the k_i alone. Agents send these whole numbers; their sum in 64
bits is exact up to multiples of 2^64, whatever order they come in, as in secure aggregation over
integers. Everything after it, rounding included, is a function of that one sum.

Were f computed by every agent in floating point, each message would be rounded by itself, and a sum
of numbers that were rounded one by one tells more than the rounded sum: the noise of one agent,
small under `sum`, may be less than the last digit of its message.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Int64
from typing_extensions import override

from taciturn.algorithms import StarAlgorithm, Turn
from taciturn.kernel.door import two_to
from taciturn.typing import Array, HostArray, Model, PyTree


class Summed(StarAlgorithm):
    """A star method whose agents send their answers as whole numbers of steps.

    **Guarantee.** Public values of this one are a function of the sums of the answers, and so are
    the queries, whatever `method` does: its agents keep nothing but whole steps. A query is what
    `method` asks in its first state, and the aggregator computes its message from the mean answer,
    as an agent would. Where summation is credited for `method` that is what its agents ask and
    send. Where credit was a mistake, the run is another method's, and as private as is certified.

    `method`: the method as it was planned. `template`: a zero model, whose shape and dtype are the
    run's. `answer_shape`: that of an answer.
    """

    method: StarAlgorithm
    template: Array
    answer_shape: tuple[int, ...] = eqx.field(static=True)

    @override
    def schedule(self, spec: Any, rounds: int, noise: Any) -> dict[str, HostArray]:
        return self.method.schedule(spec, rounds, noise)

    @override
    def start(self, template: Model) -> Int64[Array, "..."]:
        return jnp.zeros(self.answer_shape, jnp.int64)

    @override
    def ask(self, state: PyTree, inbox: PyTree, turn: Turn) -> Any:
        turn = self._narrow(turn)
        return self.method.ask(self._first(inbox, turn), inbox, turn)

    @override
    def tell(self, state: PyTree, inbox: PyTree, turn: Turn, answer: Array) -> PyTree:
        return jnp.rint(answer / two_to(turn.exponent)).astype(jnp.int64)

    @override
    def send(self, state: PyTree, inbox: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        return state, state

    @override
    def first_public(self, template: Model) -> PyTree:
        return self.method.first_public(template)

    @override
    def combine(self, public: PyTree, mean_message: PyTree, turn: Turn) -> PyTree:
        method, turn = self.method, self._narrow(turn)
        answer = self._narrowed(mean_message * two_to(turn.exponent))
        state = method.tell(self._first(public, turn), public, turn, answer)
        _, message = method.send(state, public, turn)
        return method.combine(public, message, turn)

    @override
    def model(self, public: PyTree) -> Model:
        return self.method.model(public)

    def _first(self, public: PyTree, turn: Turn) -> PyTree:
        """Return what an agent of the method would have that has answered nothing yet."""
        return self.method.receive(self.method.start(jnp.zeros_like(self.template)), public, turn)

    def _narrow(self, turn: Turn) -> Turn:
        return turn._replace(scale=self._narrowed(turn.scale))

    def _narrowed(self, values: Array) -> Array:
        return values.astype(self.template.dtype)


def mean_of(messages: PyTree) -> PyTree:
    """Return the mean over agents, the first axis; of whole numbers from their exact sum."""

    def mean(leaf: Array) -> Array:
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return jnp.sum(leaf, axis=0).astype(jnp.float64) / leaf.shape[0]
        return jnp.mean(leaf, axis=0)

    return jax.tree.map(mean, messages)
