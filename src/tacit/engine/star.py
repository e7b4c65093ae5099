"""A star: each inbox is the aggregator's public value; it combines the mean message."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from typing_extensions import override

from tacit.algorithms import StarAlgorithm, Turn
from tacit.engine.network import Together
from tacit.typing import Array, PyTree


class Star(Together):
    """An aggregator and all agents, who hear its public value."""

    algorithms: ClassVar[type] = StarAlgorithm
    data: ClassVar[str] = "no network (an aggregator)"
    aggregates: ClassVar[bool] = True
    inbox_axis: ClassVar[int | None] = None

    @classmethod
    @override
    def connect(cls, data: None, agents: int, rounds: int) -> Star:
        return cls(agents)

    @override
    def described(self) -> dict[str, Any]:
        """Return nothing: a plan without a network is one on a star."""
        return {}

    @override
    def first_inboxes(self, algorithm: StarAlgorithm, template: Array) -> PyTree:
        return algorithm.first_public(template)

    @override
    def inbox(self, inboxes: PyTree, agent: int) -> PyTree:
        return inboxes

    @override
    def deliver(
        self, algorithm: StarAlgorithm, inboxes: PyTree, messages: PyTree, server: Turn
    ) -> PyTree:
        mean = jax.tree.map(lambda x: jnp.mean(x, axis=0), messages)
        return algorithm.combine(inboxes, mean, server)

    @override
    def model(self, algorithm: StarAlgorithm, states: PyTree, inboxes: PyTree) -> Array:
        return algorithm.model(inboxes)
