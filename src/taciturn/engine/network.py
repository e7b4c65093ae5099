"""The kinds of networks: which agents answer, what they receive, which model is released.

One class for each kind (`Star`, `OnTree`, `Gossip`, `Relay`), with the network's arrays as fields.
A user passes public data: None, a `taciturn.network.Tree`, `Mixing` or `Walk`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Num
from typing_extensions import override

from taciturn.algorithms import Algorithm, GossipAlgorithm, RelayAlgorithm, StarAlgorithm, Turn
from taciturn.engine.protocol import Ask, agents_round, mean_of
from taciturn.errors import InputError
from taciturn.kernel.door import Record, at
from taciturn.kernel.privacy import NO_QUESTION, Observer, Sum
from taciturn.network import Mixing, Tree, Walk
from taciturn.typing import Array, HostArray, PyTree

_FEW = 8  # neighbours: each is a separate gather in the compiled program


class Traffic(NamedTuple):
    """The number of messages of a run, each over one link, and of the numbers they contain."""

    messages: int
    numbers: int


class Turns(NamedTuple):
    """A round's turns of the S agents that may be queried, leaves `(E, S)`, and the server's."""

    agents: Turn
    server: Turn


class NetworkKind(eqx.Module):
    """A network in the compiled program, where S of the A `agents` may be queried in a round."""

    algorithms: ClassVar[type]  # the methods that run on it
    data: ClassVar[str]  # the user's object, for error messages
    aggregates: ClassVar[bool] = False  # whether summation can hide single messages
    inbox_axis: ClassVar[int | None] = None  # the agents' axis; None: one inbox for all
    together: ClassVar[bool] = True  # whether all answer in every round, so devices can divide them

    agents: int = eqx.field(static=True, repr=False)

    @classmethod
    @abstractmethod
    def connect(cls, data: Any, agents: int, rounds: int) -> NetworkKind:
        """Return the network of public data; `InputError` if it does not suit agents or rounds."""

    # planning: on the host

    def asked(self, questions: Int[HostArray, "T E"]) -> Int[HostArray, "A T E"]:
        """Return every agent's questions, -1 if it is not queried; by default all agents are."""
        return np.broadcast_to(questions, (self.agents, *questions.shape))

    def all_rounds(
        self, rounds: int, schedule: Callable[[int], dict[str, HostArray]]
    ) -> dict[str, HostArray]:
        """Return schedules `(..., T)`, computed for the rounds with a participant."""
        return schedule(rounds)

    def of_participants(self, values: Num[HostArray, "A T E"]) -> Num[HostArray, "T E S"]:
        """Return the values of the S agents that may be queried in a round."""
        return np.moveaxis(values, 0, -1)

    # turns

    def participants(self, rounds: int) -> tuple[Int[Array, "t S"], Int[Array, "T"]]:
        """Return the participants of each round, and their number of earlier ones; t is T or 1."""
        everybody = jnp.arange(self.agents, dtype=jnp.int32)[None, :]
        return everybody, jnp.arange(rounds, dtype=jnp.int32)

    def questions(self, questions: Int[Array, "T E"]) -> Int[Array, "T E"]:
        """Return the question of the participants; -1 if they are idle."""
        return questions

    def schedule_of_participants(self, values: Float[Array, "T A"]) -> Float[Array, "T S"]:
        """Return the participants' entries of a schedule that differs between agents."""
        return values

    # a round

    def first_states(self, algorithm: Algorithm, template: Array) -> PyTree:
        """Return the agents' initial states, agents on the first axis."""
        return self._copies(algorithm.start(template))

    @abstractmethod
    def first_inboxes(self, algorithm: Any, template: Array) -> PyTree:
        """Return the inboxes of the first round."""

    def inbox(self, inboxes: PyTree, agent: int) -> PyTree:
        """Return the inbox of one agent."""
        return inboxes if self.inbox_axis is None else at(inboxes, agent)

    def round(
        self, algorithm: Any, ask: Ask, carry: PyTree, now: Turns
    ) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        """Return the next carry (states, inboxes), and the round's records and messages.

        By default all agents are queried in every round, in one vectorised step.
        """
        states, inboxes = carry
        states, messages, records = agents_round(
            algorithm, ask, states, inboxes, now.agents, inbox_axis=self.inbox_axis
        )
        messages = self.sent(messages)
        return (states, self.deliver(algorithm, inboxes, messages, now.server)), (records, messages)

    def trust(self, observer: Observer) -> str | None:
        """Return the trust assumption of a certificate; None for the observer's statement."""
        del observer
        return None

    def sent(self, messages: PyTree) -> PyTree:
        """Return the messages as transmitted, given those of this round's S agents."""
        return messages

    @abstractmethod
    def deliver(self, algorithm: Any, inboxes: PyTree, messages: PyTree, server: Turn) -> PyTree:
        """Return the next inboxes, given the messages `sent` in this round."""

    @abstractmethod
    def traffic(self, message: int, inbox: int, rounds: int) -> Traffic:
        """Return the traffic of a run, for messages and inboxes of these sizes."""

    @abstractmethod
    def model(self, algorithm: Any, states: PyTree, inboxes: PyTree) -> Array:
        """Return the model that would be released now."""

    def where_awake(self, hop: int | Array, new: PyTree, old: PyTree) -> PyTree:
        """Return `new`, or `old` if the holder of the hop is idle."""
        del hop, old
        return new

    def spread_records(self, records: PyTree) -> PyTree:
        """Return records of all agents, `(T, E, A, ...)`; by default all agents participate."""
        return records

    def _copies(self, tree: PyTree) -> PyTree:
        """Return a tree with equal leaves for all agents, on a new first axis."""
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.agents, *x.shape)), tree)


def check_agents(of_network: int, agents: int) -> None:
    """Raise `InputError` unless a network has as many agents as the data."""
    if of_network != agents:
        raise InputError(f"the network has {of_network} agents, the data {agents}; make them equal")


class Star(NetworkKind):
    """An aggregator and all agents, who receive its public value."""

    algorithms: ClassVar[type] = StarAlgorithm
    data: ClassVar[str] = "no network (an aggregator)"
    aggregates: ClassVar[bool] = True

    @classmethod
    @override
    def connect(cls, data: Any, agents: int, rounds: int) -> Star:
        return cls(agents)

    @override
    def first_inboxes(self, algorithm: StarAlgorithm, template: Array) -> PyTree:
        return algorithm.first_public(template)

    @override
    def deliver(self, algorithm: Any, inboxes: PyTree, messages: PyTree, server: Turn) -> PyTree:
        return algorithm.combine(inboxes, mean_of(messages), server)

    @override
    def model(self, algorithm: StarAlgorithm, states: PyTree, inboxes: PyTree) -> Array:
        return algorithm.model(inboxes)

    @override
    def traffic(self, message: int, inbox: int, rounds: int) -> Traffic:
        """Return a message from each agent and the public value to it, in every round."""
        return Traffic(2 * self.agents * rounds, self.agents * (message + inbox) * rounds)


class OnTree(Star):
    """A star's methods without an aggregator: sums go up a spanning tree, the total comes down.

    **Guarantee.** An agent's message is a function of its noised answers and of totals. Along an
    edge travel the sum of such messages and the total: functions of what an aggregator would
    receive. So is the aggregator's step, which is public and which every agent computes. Ledger and
    certificate of `messages` are those of the star, whoever reads the edges.

    Under `sum` messages are whole numbers under masks of all pairs of agents
    (`taciturn_federation.masks`), which cancel at the root. Sums up the edges reveal no more than
    each agent's masked word, which the hub of a star receives; so ledger and certificate of `sum`
    are the star's, too. One process that simulates all agents adds the numbers without masks, to
    equal totals.

    `root`: the agent where the total is formed. `senders`, `receivers`: `(L, K)`: agents and their
    parents, the deepest first, padded with A. A row is a level of the tree, or a part of one that
    is much wider than the others: L K is at most 9 A.
    """

    data: ClassVar[str] = "a Tree"

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
                "masks of all pairs of agents, each with a separate key, and their cipher: sums "
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
        """Return what each agent sends up: the sum over its subtree, exact for whole numbers."""
        return jax.tree.map(self._added_up, messages)

    def _added_up(self, leaf: Array) -> Array:
        def level(sums: Array, ends: tuple[Array, Array]) -> tuple[Array, None]:
            senders, receivers = ends
            moved = sums.at[senders].get(mode="fill", fill_value=0)
            return sums.at[receivers].add(moved, mode="drop"), None

        sums: Array = jax.lax.scan(level, leaf, (self.senders, self.receivers))[0]
        return sums

    @override
    def deliver(self, algorithm: Any, inboxes: PyTree, messages: PyTree, server: Turn) -> PyTree:
        return self.combined(algorithm, inboxes, at(messages, self.root), server)

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
        """Return 2 (A - 1) messages a round: up and down each edge."""
        messages = 2 * (self.agents - 1) * rounds
        return Traffic(messages, messages * message)


def _no_wider(levels: Sequence[HostArray], agents: int) -> list[HostArray]:
    """Return levels cut into rows of at most eight times their mean width.

    With one row for each level, a long path that ends in a star would take A^2 places.
    """
    width = -(-8 * agents // len(levels))
    return [
        level[start : start + width] for level in levels for start in range(0, len(level), width)
    ]


class Neighbours(eqx.Module):
    """Neighbours of every agent with weights, `(K, A)`; padded with the agent at weight 0."""

    agents: Int[Array, "K A"]
    weights: Float[Array, "K A"]


class Chebyshev(eqx.Module):
    """Weights of the exchanges of a round (`taciturn.network.Mixing`)."""

    pace: Float[Array, ""]
    momentum: Float[Array, " K"]


class Gossip(NetworkKind):
    """Gossip: agent i receives sum_j w_ij (m_j - m_i), and all are asked in every round.

    With K exchanges a round w_ij are the entries of P_K(W) (`taciturn.network.Mixing`): agents send
    what they hold after each exchange.

    **Guarantee.** The first exchange sends the messages, functions of noised answers; later ones
    send public linear functions of these. Nothing is asked in between.

    `first`, `second`, `weights`: agents `first[e]` and `second[e]` weigh each other by
    `weights[e]`. `neighbours`: the same by agent, which is faster, unless an agent has more than
    eight neighbours.
    """

    algorithms: ClassVar[type] = GossipAlgorithm
    data: ClassVar[str] = "a Mixing"
    inbox_axis: ClassVar[int | None] = 0

    first: Int[Array, " L"]
    second: Int[Array, " L"]
    weights: Float[Array, " L"]
    neighbours: Neighbours | None = eqx.field(default=None, repr=False)
    chebyshev: Chebyshev | None = None

    @classmethod
    @override
    def connect(cls, data: Mixing, agents: int, rounds: int) -> Gossip:
        check_agents(data.graph.agents, agents)
        first, second = (jnp.asarray(end, jnp.int32) for end in data.graph.edges.T)
        weights, further = jnp.asarray(data.weights), None
        if data.exchanges > 1:
            further = Chebyshev(jnp.asarray(data.pace), jnp.asarray(data.momentum))
        return cls(agents, first, second, weights, neighbours_of(data), further)

    @override
    def first_inboxes(self, algorithm: GossipAlgorithm, template: Array) -> PyTree:
        return self._copies(algorithm.first_inbox(template))

    @override
    def deliver(self, algorithm: Any, inboxes: PyTree, messages: PyTree, server: Turn) -> PyTree:
        return jax.tree.map(self.mixed, messages)

    @override
    def model(self, algorithm: GossipAlgorithm, states: PyTree, inboxes: PyTree) -> Array:
        return jnp.mean(jax.vmap(algorithm.model)(states), axis=0)

    @override
    def traffic(self, message: int, inbox: int, rounds: int) -> Traffic:
        """Return a message in both directions of every edge, in every exchange of every round."""
        exchanges = 1 if self.chebyshev is None else len(self.chebyshev.momentum)
        messages = 2 * len(self.first) * exchanges * rounds
        return Traffic(messages, messages * message)

    def mixed(self, messages: Float[Array, "A ..."]) -> Float[Array, "A ..."]:
        """Return by how much the exchanges of a round move the messages; exactly 0 at agreement."""
        if self.chebyshev is None:
            return self.differences(messages)
        pace = self.chebyshev.pace

        def exchange(moved: tuple[Array, Array], factor: Array) -> tuple[tuple[Array, Array], None]:
            now, before = moved
            flow = now + pace * self.differences(messages + now)
            return (factor * flow + (1 - factor) * before, now), None

        start = (jnp.zeros_like(messages), jnp.zeros_like(messages))
        (moved, _), _ = jax.lax.scan(exchange, start, self.chebyshev.momentum)
        return moved

    def differences(self, messages: Float[Array, "A ..."]) -> Float[Array, "A ..."]:
        """Return sum_j w_ij (m_j - m_i) for every agent i.

        The flows of an edge to its two ends differ in sign alone, so they sum to 0 up to rounding,
        and every flow is exactly 0 at agreement.
        """
        ones = (1,) * (messages.ndim - 1)
        if self.neighbours is not None:  # gathers are several times faster than a scatter of edges
            lists = zip(self.neighbours.agents, self.neighbours.weights, strict=True)
            flows = (w.reshape(-1, *ones) * (messages[others] - messages) for others, w in lists)
            return sum(flows, jnp.zeros_like(messages))
        width = self.weights.reshape(-1, *ones)
        flow = width * (messages[self.second] - messages[self.first])
        return jnp.zeros_like(messages).at[self.first].add(flow).at[self.second].add(-flow)


def neighbours_of(mixing: Mixing) -> Neighbours | None:
    """Return the neighbours by agent, or None if an agent has more than eight."""
    graph = mixing.graph
    most = int(np.max(graph.degrees))
    if most > _FEW:
        return None
    agents = np.tile(np.arange(graph.agents), (most, 1))
    weights, filled = np.zeros(agents.shape), np.zeros(graph.agents, int)
    for pair, weight in zip(graph.edges.tolist(), mixing.weights, strict=True):
        for agent, other in (pair, pair[::-1]):
            agents[filled[agent], agent] = other
            weights[filled[agent], agent] = weight
            filled[agent] += 1
    return Neighbours(jnp.asarray(agents, jnp.int32), jnp.asarray(weights))


class Relay(NetworkKind):
    """A relay: the holder receives the token and passes it on; the other states do not change.

    A round is a hop. A holder beyond its cap takes no part: it passes the token on untouched.

    `holders`, `visits`, `awake`: who holds the token at each hop, how often before, and whether it
    takes part.
    """

    algorithms: ClassVar[type] = RelayAlgorithm
    data: ClassVar[str] = "a Walk"
    together: ClassVar[bool] = False

    holders: Int[Array, " T"]
    visits: Int[Array, " T"]
    awake: Bool[Array, " T"]

    @classmethod
    @override
    def connect(cls, data: Walk, agents: int, rounds: int) -> Relay:
        check_agents(data.graph.agents, agents)
        if len(data.holders) != rounds:
            raise InputError(
                f"the walk has {len(data.holders)} hops, the plan {rounds} rounds; on a relay a "
                "round is one hop, so make them equal"
            )
        missing = np.flatnonzero(data.counts == 0)
        if missing.size:
            raise InputError(
                f"the walk never asks agent {missing[0]}, whose records would not count; allow "
                "more hops"
            )
        return cls(agents, *(jnp.asarray(x) for x in (data.holders, data.visits, data.awake)))

    @override
    def asked(self, questions: Int[HostArray, "T E"]) -> Int[HostArray, "A T E"]:
        """Return every agent's questions: those at its hops, while it takes part."""
        holders, awake = np.asarray(self.holders), np.asarray(self.awake)
        holds = (holders == np.arange(self.agents)[:, None]) & awake
        return np.where(holds[:, :, None], super().asked(questions), NO_QUESTION)

    @override
    def all_rounds(
        self, rounds: int, schedule: Callable[[int], dict[str, HostArray]]
    ) -> dict[str, HostArray]:
        """Return schedules `(..., T)`; hops without a participant repeat the last value."""
        latest = np.cumsum(np.asarray(self.awake)) - 1
        schedules = schedule(int(latest[-1]) + 1)
        return {name: values[..., latest] for name, values in schedules.items()}

    @override
    def of_participants(self, values: Num[HostArray, "A T E"]) -> Num[HostArray, "T E 1"]:
        holders = np.asarray(self.holders)[:, None, None]
        return np.take_along_axis(super().of_participants(values), holders, axis=-1)

    @override
    def participants(self, rounds: int) -> tuple[Int[Array, "T 1"], Int[Array, "T"]]:
        return self.holders[:, None], self.visits

    @override
    def questions(self, questions: Int[Array, "T E"]) -> Int[Array, "T E"]:
        return jnp.where(self.awake[:, None], questions, NO_QUESTION)

    @override
    def schedule_of_participants(self, values: Float[Array, "T A"]) -> Float[Array, "T 1"]:
        return jnp.take_along_axis(values, self.holders[:, None], axis=1)

    @override
    def spread_records(self, records: PyTree) -> PyTree:
        """Return records `(T, E, A, ...)`: question -1 and zeros where an agent gave no answer."""
        holds = self.holders[:, None, None] == jnp.arange(self.agents, dtype=jnp.int32)

        def spread(values: Array, fill: int = 0) -> Array:
            wide = holds.reshape(holds.shape + (1,) * (values.ndim - 3))
            return jnp.where(wide, values, jnp.asarray(fill, values.dtype))

        found = jax.tree.map(spread, records)
        if not isinstance(records, Record):
            return found
        rate = None if records.rate is None else spread(records.rate, 1)
        return found._replace(kind=spread(records.kind, NO_QUESTION), rate=rate)

    @override
    def first_inboxes(self, algorithm: RelayAlgorithm, template: Array) -> PyTree:
        return algorithm.first_token(template)

    @override
    def round(
        self, algorithm: Any, ask: Ask, carry: PyTree, now: Turns
    ) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        (states, token), turns = carry, now.agents
        holder, hop = turns.agent[0, 0], turns.round[0, 0]
        # only the holder's state is read and written: the cost of a hop does not grow with agents
        old = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, holder, 1), states)
        state, message, records = agents_round(algorithm, ask, old, token, turns)
        state, passed = self.where_awake(hop, (state, at(message, 0)), (old, token))
        states = jax.tree.map(lambda all_, new: all_.at[holder].set(new[0]), states, state)
        return (states, passed), (records, jax.tree.map(lambda leaf: leaf[None], passed))

    @override
    def where_awake(self, hop: int | Array, new: PyTree, old: PyTree) -> PyTree:
        awake = self.awake[hop]
        return jax.tree.map(lambda x, y: jnp.where(awake, x, y), new, old)

    @override
    def deliver(self, algorithm: Any, inboxes: PyTree, messages: PyTree, server: Turn) -> PyTree:
        return at(messages, 0)

    @override
    def model(self, algorithm: RelayAlgorithm, states: PyTree, inboxes: PyTree) -> Array:
        return algorithm.model(inboxes)

    @override
    def traffic(self, message: int, inbox: int, rounds: int) -> Traffic:
        """Return one token a hop."""
        return Traffic(rounds, rounds * message)
