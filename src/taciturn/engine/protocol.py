"""One round of the agents, for every door, network and runtime; traces; and credited sums.

**Sums.** Where summation is credited (`taciturn.engine.credit`), agent i's message is f(a_i), with
a public affine f common to all agents and a_i = h k_i its noised answer, k_i whole numbers. So

    mean_i f(a_i) = f(h sum_i k_i / A),

and the aggregator needs only the sum of the k_i. Agents send these integers; their 64-bit sum is
exact modulo 2^64 in any order, as in secure aggregation over integers. All later computation,
rounding included, is a function of that one sum. If agents computed f in floating point, each
message would be rounded separately, and a sum of rounded numbers reveals more than a rounded sum:
under `sum` the noise of one agent may be below the last digit of its message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Int64
from typing_extensions import override

from taciturn.algorithms import Algorithm, StarAlgorithm, Turn
from taciturn.kernel.door import Door, Record, at, exact_power_of_two, over_agents
from taciturn.typing import Array, HostArray, Model, PyTree

# a door with the draws of a round: maps queries and a turn to answers and records
Ask: TypeAlias = Callable[[PyTree, Turn], tuple[Any, PyTree]]
# vmap axes of a turn; the question has none, else a door would compute every question's answer
_EACH: Any = Turn(0, 0, 0, None, 0, 0, 0, 0)  # type: ignore[arg-type]


def agents_round(
    algorithm: Algorithm,
    ask: Ask,
    states: PyTree,
    inboxes: PyTree,
    turns: Turn,
    *,
    inbox_axis: int | None = None,
) -> tuple[PyTree, PyTree, PyTree]:
    """Return `(states, messages, records)` after receive, E times (ask, answer, tell), send.

    `turns` has leaves `(E, S)`; states and messages have an axis of the S agents, as do inboxes
    that differ between agents; records have `(E, S, ...)`. No data record is visible here.
    """
    agents = turns.agent.shape[-1]
    turns = turns._replace(question=turns.question[:, 0])
    first, last = at(turns, 0), at(turns, -1)
    states = over_agents(algorithm.receive, agents, 0, inbox_axis, _EACH)(states, inboxes, first)

    def question(states: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        queries = over_agents(algorithm.ask, agents, 0, inbox_axis, _EACH)(states, inboxes, turn)
        answers, records = ask(queries, turn)
        tell = over_agents(algorithm.tell, agents, 0, inbox_axis, _EACH, 0)
        return tell(states, inboxes, turn, answers), records

    if turns.question.shape[0] == 1:  # avoid the cost of a scan of length one
        states, record = question(states, first)
        records = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], record)
    else:
        states, records = jax.lax.scan(question, states, turns)
    send = over_agents(algorithm.send, agents, 0, inbox_axis, _EACH)
    states, messages = send(states, inboxes, last)
    return states, messages, records


def agent_round(
    algorithm: Algorithm, door: Door, state: PyTree, inbox: PyTree, turns: Turn, raw: Any
) -> tuple[PyTree, PyTree, PyTree]:
    """Return `(state, message, records)` of one agent's round, behind a door to that agent alone.

    `turns`, `raw`: the E turns and the random numbers of their answers, leaves `(E, ...)`.
    """
    of_one = jax.tree.map(lambda leaf: leaf[:, None], turns)
    now, numbers = jax.tree.map(lambda leaf: leaf[None], (of_one, at(raw, None)))
    chance = at(door.realised(now, numbers), 0)
    ask = partial(door.__call__, chance=chance)
    states, messages, records = agents_round(algorithm, ask, at(state, None), inbox, of_one)
    return at(states, 0), at(messages, 0), jax.tree.map(lambda leaf: leaf[:, 0], records)


class Trace(NamedTuple):
    """A runtime's output; `None` where a part was not kept.

    - `models`: `(T, *shape)`: The model that could be released after each round.
    - `records`: The door's records, leaves `(T, E, A, ...)`; kind -1 where an agent was not asked.
    - `messages`: The message of each agent, leaves `(T, A, ...)`: on a tree the sum over its
      subtree; on a relay the token, `(T, 1, ...)`.
    - `publics`: The inbox after each round: the public value or the token, leaves `(T, ...)`; in
      gossip each agent's, `(T, A, ...)`.
    """

    models: Any
    records: PyTree
    messages: PyTree
    publics: PyTree


KEPT = ("models", "answers", "messages", "publics")
Keep: TypeAlias = frozenset[str]


def kept_parts(
    model: Array, inboxes: PyTree, records: PyTree, messages: PyTree, keep: Keep
) -> Trace:
    """Return the parts of one round that `keep` names, of `KEPT`."""
    if isinstance(records, Record) and "answers" not in keep:
        records = records._replace(answer=None)
    return Trace(
        models=model if "models" in keep else None,
        records=records,
        messages=messages if "messages" in keep else None,
        publics=inboxes if "publics" in keep else None,
    )


class Summed(StarAlgorithm):
    """A star method whose agents send their answers as integer numbers of lattice steps.

    **Guarantee.** Public values, and hence queries, are functions of the sums of the answers,
    whatever `method` does: agents keep only integer steps. A query is the one that `method` asks in
    its initial state, and the aggregator computes the method's message from the mean answer. If
    summation is credited correctly, these are the method's queries and messages. If not, a
    different method runs, which is still as private as certified.

    `method`: the planned method. `template`: a zero model of the run's shape and dtype.
    `answer_shape`: that of an answer.
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
        return jnp.rint(answer / exact_power_of_two(turn.exponent)).astype(jnp.int64)

    @override
    def send(self, state: PyTree, inbox: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        return state, state

    @override
    def first_public(self, template: Model) -> PyTree:
        return self.method.first_public(template)

    @override
    def combine(self, public: PyTree, mean_message: PyTree, turn: Turn) -> PyTree:
        method, turn = self.method, self._narrow(turn)
        answer = self._narrowed(mean_message * exact_power_of_two(turn.exponent))
        state = method.tell(self._first(public, turn), public, turn, answer)
        _, message = method.send(state, public, turn)
        return method.combine(public, message, turn)

    @override
    def model(self, public: PyTree) -> Model:
        return self.method.model(public)

    def _first(self, public: PyTree, turn: Turn) -> PyTree:
        """Return the state of an agent of the method before its first answer."""
        return self.method.receive(self.method.start(jnp.zeros_like(self.template)), public, turn)

    def _narrow(self, turn: Turn) -> Turn:
        return turn._replace(scale=self._narrowed(turn.scale))

    def _narrowed(self, values: Array) -> Array:
        return values.astype(self.template.dtype)


def mean_of(messages: PyTree) -> PyTree:
    """Return the mean over agents, the first axis; for integers, from their exact sum."""

    def mean(leaf: Array) -> Array:
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return jnp.sum(leaf, axis=0).astype(jnp.float64) / leaf.shape[0]
        return jnp.mean(leaf, axis=0)

    return jax.tree.map(mean, messages)
