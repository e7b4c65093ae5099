"""A star: each inbox is the public value; the aggregator sees the mean message."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
from typing_extensions import override

from tacit.algorithms import StarAlgorithm, Turn
from tacit.engine.door import Door
from tacit.engine.exchange import Exchange, rounds_of_all
from tacit.engine.program import Program
from tacit.typing import Array, PyTree


class OnStar(Exchange):
    """All agents hear the aggregator's public value."""

    @override
    def first_heard(self, program: Program) -> PyTree:
        return _algorithm(program).first_public(program.template)

    @override
    def inbox(self, heard: PyTree, agent: int) -> PyTree:
        return heard

    @override
    def round(
        self, program: Program, door: Door, private: Any, carry: PyTree, turns: Turn, server: Turn
    ) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        states, public = carry
        states, messages, records = rounds_of_all(
            program, door, private, states, public, turns, axis=None
        )
        public = self.deliver(program, public, messages, server)
        return (states, public), (records, messages)

    @override
    def deliver(self, program: Program, heard: PyTree, messages: PyTree, server: Turn) -> PyTree:
        mean = jax.tree.map(lambda x: jnp.mean(x, axis=0), messages)
        return _algorithm(program).combine(heard, mean, server)

    @override
    def model(self, program: Program, states: PyTree, heard: PyTree) -> Array:
        return _algorithm(program).model(heard)


def _algorithm(program: Program) -> StarAlgorithm:
    return cast(StarAlgorithm, program.algorithm)  # the plan saw to it
