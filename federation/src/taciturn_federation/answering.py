"""One agent's records and its rounds of a plan, with the step, door and noise of `taciturn.run`."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.algorithms import Turn
from taciturn.engine import Live, Plan, Private, Record, shapes_of
from taciturn.engine.program import Program, agent_turns
from taciturn.engine.protocol import agent_round, at
from taciturn.engine.running import check_shards, check_targets, is_quick, opened
from taciturn.engine.supply import Supply
from taciturn.errors import PrivacyError
from taciturn.noise import Stream
from taciturn.privacy import (
    LEAST_NUMBERS,
    Drawn,
    Ledger,
    drawn_noise,
    noise_test,
)
from taciturn.problems import Draw, Shard, Shards, hold_out
from taciturn.proposal import Proposal
from taciturn.tables import Files, table_of
from taciturn.training import DividedData, Division, divide_records, storage_precision
from taciturn.typing import Array, HostArray, PyTree
from taciturn_federation.envelope import Layout
from taciturn_federation.ledger_entries import Entry

# numbers that are drawn at once, at most: more rounds than that are drawn later
_AHEAD = 2**18
# the same on a relay, where most of a block belongs to others' hops and is never used
_AHEAD_OF_TOKEN = 2**14


class Answered(NamedTuple):
    """A round: state and message after it, and the entries of its answers."""

    state: PyTree
    message: PyTree
    entries: tuple[Entry, ...]


class Answering:
    """The rounds of one agent; it holds the agent's records.

    **Guarantee.** An answer is that of `Live` to the algorithm's own question, under the scale of
    the plan; its record is compared with the plan before anything is returned. Without a seed noise
    and batches come from a fresh key of the operating system, which is written nowhere: a new
    object draws independently of every earlier one. Every round is answered once. The noise is
    tested (`taciturn.privacy.drawn`) whenever twice as much of it was drawn as at the last look,
    and in the last round, before its message is returned; after a restart, from there on.

    Parameters
    ----------
    private
        The agent's records as its door takes them, without an axis of agents.
    seed
        As for `taciturn.run`: a number makes a reproduction, which is not private.
    """

    def __init__(self, plan: Plan, agent: int, private: Private, *, seed: int | None) -> None:
        program = plan.program
        self.plan, self.agent, self._private = plan, agent, private
        turns = jax.jit(agent_turns)(program)
        slot = 0 if turns.agent.shape[-1] == 1 else agent
        self._turns: Turn = jax.tree.map(lambda leaf: leaf[..., slot], turns)
        self._holder = np.asarray(self._turns.agent[:, 0])
        self._supply: Supply | None = None
        self._block: tuple[int, Any] = (0, None)
        quick = is_quick(program, seed)
        key = jax.random.key(seed or 0) if quick else None
        self._door = Live(program.oracles, program.mechanism, key)
        if not quick:
            rows = private.shard.mask.shape[-1]
            self._supply = Supply(program, Stream.fresh(), rows, slot=slot)
        self._planned = _planned(self._turns, plan.ledger, agent)
        certificate = plan.certificate
        self._test = noise_test(plan.ledger, epsilon=certificate.epsilon, delta=certificate.delta)
        self._drawn, self._looked = Drawn(), 0
        self._next = 0
        self._last: Answered | None = None
        self.layouts = layouts_of(program)

    @property
    def turns(self) -> tuple[int, ...]:
        """The rounds in which the agent answers: all, or on a relay those of its token."""
        return tuple(np.flatnonzero(self._holder == self.agent).tolist())

    def first_state(self) -> PyTree:
        """Return the agent's first state."""
        program = self.plan.program
        return at(program.network.first_states(program.executed, program.template), self.agent)

    def first_inbox(self) -> PyTree:
        """Return what the agent hears before the first round."""
        program = self.plan.program
        network: Any = program.network
        first = network.first_inboxes(program.executed, program.template)
        return network.inbox(first, self.agent)

    def answer(self, turn: int, state: PyTree, inbox: PyTree) -> Answered:
        """Return what the agent does in a round; asked again for the last one, the same.

        A site asks again where it could not write the answer down, as on a full disk.

        Raises `PrivacyError` if the door's record is not what the plan says, the noise does not
        pass its test, or the agent is not asked then, or a later round was answered.
        """
        if self._holder[turn] != self.agent:
            raise PrivacyError(f"agent {self.agent} is not asked in round {turn} of the plan")
        if turn == self._next - 1 and self._last is not None:
            return self._last
        if turn < self._next:
            raise PrivacyError(f"round {turn} was answered before; every round is answered once")
        self._next, self._last = turn + 1, None
        network = self.plan.program.network
        new, message, records = _step(
            self.plan.program.executed, self._door, state, inbox, self._turns, turn,
            self._private, self.drawn(turn),
        )  # fmt: skip
        new, message = network.if_taking_part(turn, (new, message), (state, inbox))
        records = jax.device_get(records._replace(answer=None))
        entries = self._entries(turn, records)
        self._look(turn, np.asarray(records.drawn))
        self._last = Answered(new, message, entries)
        return self._last

    def _look(self, turn: int, sizes: HostArray) -> None:
        """Add the noise of a round to what was drawn, and test it where that is due."""
        if self._test is None:
            return
        ledger, now = self.plan.ledger, (slice(self.agent, self.agent + 1), slice(turn, turn + 1))
        column = Ledger(
            ledger.kind[now], ledger.sensitivity[now], ledger.scale[now], ledger.mechanism,
            inside=ledger.inside, values=ledger.values,
        )  # fmt: skip
        self._drawn += drawn_noise(column, sizes[None, None])
        last = not np.any(self._holder[turn + 1 :] == self.agent)
        new = self._drawn.count - self._looked
        if new and (last or self._drawn.count >= max(LEAST_NUMBERS, 2 * self._looked)):
            self._looked = self._drawn.count
            self._test.check(self._drawn, new=new)

    def drawn(self, turn: int) -> Any:
        """Return the random numbers of a round, from a block that is drawn ahead."""
        if self._supply is None:
            return None
        first, block = self._block
        if block is None or not first <= turn < first + len(block.steps):
            last = min(turn + self._ahead(), self.plan.rounds)
            self._block = first, block = turn, self._supply.block(turn, last)
        return at(at(block, turn - first), 0)

    def _ahead(self) -> int:
        assert self._supply is not None
        most = _AHEAD if len(self.turns) == self.plan.rounds else _AHEAD_OF_TOKEN
        leaves = jax.tree.leaves(self._supply.shapes(1))
        size = sum(int(np.prod(leaf.shape)) for leaf in leaves)
        return max(1, min(self._supply.length(), most // max(size, 1)))

    def _entries(self, turn: int, records: Record) -> tuple[Entry, ...]:
        """Return the entries of a round, equal to the planned ones."""
        rate = np.ones(records.kind.shape) if records.rate is None else records.rate
        batch = np.zeros(records.kind.shape) if records.batch is None else records.batch
        columns = zip(
            records.kind.tolist(), np.asarray(records.scale, np.float64).tolist(),
            records.exponent.tolist(), np.asarray(rate, np.float64).tolist(), batch.tolist(),
            strict=True,
        )  # fmt: skip
        found = tuple(
            Entry(local, kind, scale, exponent, share, int(size))
            for local, (kind, scale, exponent, share, size) in enumerate(columns)
            if kind >= 0
        )
        if found != self._planned[turn]:
            raise PrivacyError(
                f"round {turn}: the door answered otherwise than planned; nothing is sent"
            )
        return found


class Layouts(NamedTuple):
    """What travels and what is kept: an agent's state, what it hears, what it sends, the model."""

    state: Layout
    inbox: Layout
    message: Layout
    model: Layout


def layouts_of(program: Program) -> Layouts:
    """Return the layouts of a program, from public facts alone; nothing is computed."""
    state, message, inbox = map(Layout.of, shapes_of(program))
    return Layouts(state, inbox, message, Layout.of(program.template))


@jax.jit
def _step(  # noqa: PLR0913, PLR0917 - a round's parts beside the program's
    algorithm: Any,
    door: Live,
    state: PyTree,
    inbox: PyTree,
    turns: Turn,
    turn: int | Array,
    private: Private,
    raw: Any,
) -> tuple[PyTree, PyTree, Any]:
    """Return `agent_round` in one round, with the draws that were handed in."""
    now = at(turns, turn)
    if raw is None:
        return agent_round(algorithm, door, state, inbox, now, private)
    rows = private.shard.mask.shape[-1]

    def one(question: Turn, numbers: Any) -> PyTree:
        return door.realised(rows, private.records, question, numbers)

    private = private._replace(chances=jax.vmap(one)(now, raw))
    return agent_round(algorithm, door, state, inbox, now, private)


def _planned(turns: Turn, ledger: Ledger, agent: int) -> tuple[tuple[Entry, ...], ...]:
    """Return the entries that the door must leave in each round, compared with the ledger."""
    kind, scale = np.asarray(turns.question), np.asarray(turns.scale, np.float64)
    dtype = np.asarray(turns.scale).dtype
    rates = ledger.rates[agent].astype(dtype).astype(np.float64)
    sizes, exponent = ledger.sizes[agent], np.asarray(turns.exponent)
    mine = np.asarray(turns.agent) == agent
    _check_column(ledger, agent, np.where(mine, kind, -1), scale)
    return tuple(
        tuple(
            Entry(
                e, int(kind[t, e]), float(scale[t, e]), int(exponent[t, e]), float(rates[t, e]),
                int(sizes[t, e]),
            )
            for e in range(kind.shape[1])
            if mine[t, e] and kind[t, e] >= 0
        )
        for t in range(kind.shape[0])
    )  # fmt: skip


def _check_column(ledger: Ledger, agent: int, kind: HostArray, scale: HostArray) -> None:
    asked = kind >= 0
    enough = np.all(scale[asked] >= ledger.scale[agent][asked] * (1 - 1e-12))
    if not np.array_equal(kind, ledger.kind[agent]) or not enough:
        raise PrivacyError("the program's questions or scales are not those of its ledger")


def local_records(files: Files, proposal: Proposal, agent: int, draw: Draw) -> DividedData:
    """Return the records of the file as those of one agent, in the order of the file.

    Those that the draw holds out for an evaluation are apart (`taciturn.problems.hold_out`), and it
    chooses the rows of a person. A site that starts again uses the draw of its first start, or it
    would train on records held out, and on more rows of a person than count.
    """
    division = Division.of_proposal(proposal, owned=False)
    data = divide_records(
        table_of(files, precision=storage_precision(proposal, files.source)),
        dataclasses.replace(division, agents=1, evaluate=None),
        draw,
    )
    rows = (np.arange(files.rows),)
    if proposal.evaluation is None or not proposal.evaluation.counts[agent]:
        return dataclasses.replace(data, owners=rows)
    kept, held = hold_out(
        rows,
        proposal.evaluation.share,
        draw=draw,
        persons=data.persons,
        first=agent,
    )
    return dataclasses.replace(data, owners=kept, held_out=held)


def private_of(shards: Shards, plan: Plan) -> Private:
    """Return one agent's records as its door takes them, in as many places as the largest has.

    Padded like the largest agent's, its sums are those of a run on one machine.
    """
    check_shards(shards)
    check_targets(plan, shards)
    rows = max(plan.spec.counts)
    stacked: Shard = jax.tree.map(lambda leaf: _padded(leaf, rows), shards.stacked)
    shards = Shards(stacked, shards.counts, shards.record_norm, shards.origin)
    both = opened(plan.program.oracles, plan.program.mechanism, shards)
    one: Private = at(both, 0)
    return one


def _padded(leaf: jax.Array, rows: int) -> jax.Array:
    missing = rows - leaf.shape[1]
    return jnp.pad(leaf, [(0, 0), (0, missing), *[(0, 0)] * (leaf.ndim - 2)])
