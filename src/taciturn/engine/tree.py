"""A tree: agents add up their messages along it, and each takes the aggregator's step itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from typing_extensions import override

from taciturn.algorithms import StarAlgorithm, Turn
from taciturn.engine.network import Star, Traffic, check_agents
from taciturn.network import Tree
from taciturn.privacy import Observer, Sum
from taciturn.typing import Array, HostArray, PyTree


class OnTree(Star):
    """A star's methods without an aggregator: sums go up a spanning tree, the total comes down.

    **Guarantee.** An agent's message is a function of its noised answers and of totals. What
    travels up an edge is the sum of such messages, and what comes down is the sum of all: both are
    functions of what an aggregator would hear, and so is the aggregator's step, which is public and
    which every agent takes by itself. So the ledger and the certificate of `messages` are those of
    the star, whoever reads the edges.

    Under `sum` messages are whole numbers, which travel under masks of all pairs of agents
    (`taciturn_federation.masks`), and at the root the masks cancel. Sums of words that go up the
    edges tell each agent's masked word and no more; these are what the hub of a star hears. So
    ledger and certificate of `sum` are the star's, too. One process that plays all agents adds the
    same numbers without masks, which change no total.

    Attributes
    ----------
    root
        The agent where the total is formed.
    senders, receivers
        `(L, K)`: agents with their parents, the deepest first; A where a row has fewer agents. A
        row is a level of the tree, or a part of one that is much wider than the others: L K is at
        most 9 A.
    """

    data: ClassVar[str] = "a Tree"
    written: ClassVar[bool] = True

    root: Int[Array, ""]
    senders: Int[Array, "L K"]
    receivers: Int[Array, "L K"]

    @classmethod
    @override
    def connect(cls, data: Tree, agents: int, rounds: int) -> OnTree:
        check_agents(data.graph.agents, agents)
        levels = _no_wider(data.levels(), agents)
        senders = np.full((len(levels), max(map(len, levels))), agents)
        for row, level in zip(senders, levels, strict=True):
            row[: len(level)] = level
        receivers = np.append(data.parents, agents)[senders]
        return cls(agents, *(jnp.asarray(x, jnp.int32) for x in (data.root, senders, receivers)))

    @override
    def trust(self, observer: Observer) -> str:
        if isinstance(observer, Sum):
            return (
                "masks of all pairs of agents, with keys of their own, and their cipher: sums "
                "travel under them along the tree, so that only the total can be read; every agent "
                f"adds its own noise honestly, and at most {observer.colluders} of them tell the "
                "observer theirs and the keys of their masks (a participant knows its own, so "
                "colluders=1 covers a curious participant)"
            )
        return (
            "none: every link may be read; along each edge of the tree travel the sum of the "
            "noised messages below it and the total, so an agent reads those of its own edges"
        )

    @override
    def sent(self, messages: PyTree) -> PyTree:
        """Return what each agent sends up: its message and those of all below it; at the root all.

        Whole numbers are added exactly, up to multiples of 2^64.
        """
        return jax.tree.map(self._added_up, messages)

    def _added_up(self, leaf: Array) -> Array:
        def level(sums: Array, ends: tuple[Array, Array]) -> tuple[Array, None]:
            senders, receivers = ends
            moved = sums.at[senders].get(mode="fill", fill_value=0)
            return sums.at[receivers].add(moved, mode="drop"), None

        sums: Array = jax.lax.scan(level, leaf, (self.senders, self.receivers))[0]
        return sums

    @override
    def deliver(
        self, algorithm: StarAlgorithm, inboxes: PyTree, messages: PyTree, server: Turn
    ) -> PyTree:
        total = jax.tree.map(lambda sums: sums[self.root], messages)
        return self.combined(algorithm, inboxes, total, server)

    def combined(
        self, algorithm: StarAlgorithm, public: PyTree, total: PyTree, server: Turn
    ) -> PyTree:
        """Return the public value that every agent computes from the last one and a total."""

        def mean(leaf: Array) -> Array:
            if jnp.issubdtype(leaf.dtype, jnp.integer):
                leaf = leaf.astype(jnp.float64)
            return leaf / self.agents

        return algorithm.combine(public, jax.tree.map(mean, total), server)

    @override
    def traffic(self, message: int, inbox: int, rounds: int) -> Traffic:
        """Return 2 (A - 1) messages a round: sums go up each edge, and the total down."""
        messages = 2 * (self.agents - 1) * rounds
        return Traffic(messages, messages * message)


def _no_wider(levels: Sequence[HostArray], agents: int) -> list[HostArray]:
    """Return levels cut into rows of at most eight times their mean width.

    As rows of one width, a long path that ends in a star would take as many places as the square of
    its agents.
    """
    width = -(-8 * agents // len(levels))
    return [
        level[start : start + width] for level in levels for start in range(0, len(level), width)
    ]
