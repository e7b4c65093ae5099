"""Division of records among agents and sides: by a secret draw, or a public seed (reproductions).

Persons with several rows have K places each, so that no count reveals how many rows one has.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, SupportsIndex, TypeAlias, overload

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from jaxtyping import Bool, Int

from taciturn import checks
from taciturn.errors import InputError, PrivacyError
from taciturn.typing import HostArray

Purpose: TypeAlias = Literal["deal", "hold out", "test", "choose"]
Side: TypeAlias = Literal["training", "held out"]

DRAW_KEY_BYTES = 32
_WORD, _TOKEN = 8, 16  # bytes
_PURPOSES: tuple[Purpose, ...] = ("deal", "hold out", "test", "choose")
# separates the permutations of held-out records from other draws under the same public seed
_HOLD_OUT = 0x68656C64


@dataclass(frozen=True, eq=False)
class Draw:
    r"""The random permutations that deal records to agents and hold some of them out.

    It has a `key`, 32 bytes of the operating system's randomness, or the public `seed` of a
    reproduction.

    **Guarantee.** Let x = (x_1, ..., x_n) be a file of records and x' the file with one record
    replaced, both in any order: x'_j = x_{tau(j)} for all j but one, with an unknown permutation
    tau. A draw is a uniform permutation sigma of the n places, independent of the records, which
    assigns records to agents and sides. Because sigma o tau is uniform as well, the law of
    everything an observer sees is the same on x' as on x' reordered by tau: the order of the file
    has no influence, and the two mixtures can be compared permutation by permutation,

        P = (1/n!) sum_sigma P_sigma,    Q = (1/n!) sum_sigma Q_sigma,

    where P_sigma and Q_sigma differ in the one record that was replaced, at one agent i(sigma) and
    on one side. Hockey-stick divergences are jointly convex, so for every epsilon

        delta_{P,Q}(epsilon) <= (1/n!) sum_sigma delta_{i(sigma)}(epsilon)
                               <= max_i delta_i(epsilon):

    the largest privacy curve of an agent holds for the file. The observer must not know sigma: one
    who sees a dealt shard, or learns which agent has a record, is not covered. The same holds for
    persons, whose number is public, with all rows of a person in place of a record.

    Permutations sort words of ChaCha20 (RFC 8439) under the key, with a nonce that encodes purpose,
    agent and attempt; a draw with two equal words is repeated, so that every order is equally
    likely. A public seed gives no such guarantee: the run is stamped as a reproduction.
    """

    key: bytes | None = field(default=None, repr=False)
    seed: int | None = None

    def __post_init__(self) -> None:
        if (self.key is None) == (self.seed is None):
            raise InputError("a draw has a secret key or a public seed; give one of the two")
        if self.key is not None and len(self.key) != DRAW_KEY_BYTES:
            raise InputError(
                f"the key of a draw has {len(self.key)} bytes; it must have {DRAW_KEY_BYTES}"
            )

    @classmethod
    def secret(cls) -> Draw:
        """Return a draw under a new key of the operating system."""
        return cls(key=secrets.token_bytes(DRAW_KEY_BYTES))

    @classmethod
    def given(cls, draw: Draw | None, seed: int | None) -> Draw:
        """Return the given draw, else that of a public seed, else a secret one."""
        return draw or (cls.secret() if seed is None else cls(seed=seed))

    @classmethod
    def for_noise(cls, seed: int | None, split_seed: int) -> Draw:
        """Return a secret draw or, if the noise has a seed, the public draw of `split_seed`."""
        return cls.secret() if seed is None else cls(seed=split_seed)

    @property
    def is_secret(self) -> bool:
        """Whether the draw has a key and no public seed."""
        return self.key is not None

    def permutation(self, count: int, purpose: Purpose, agent: int = 0) -> Int[HostArray, " count"]:
        """Return a uniform permutation of `count` places."""
        if self.key is None:
            parts = [_HOLD_OUT, self.seed or 0, agent] if purpose == "hold out" else self.seed
            return np.random.default_rng(parts).permutation(count)
        for attempt in itertools.count():
            numbers = ((_PURPOSES.index(purpose), 1), (agent, 8), (attempt, 3))
            nonce = b"".join(number.to_bytes(width, "little") for number, width in numbers)
            words = np.zeros(count, np.uint64)
            cipher = Cipher(algorithms.ChaCha20(self.key, bytes(4) + nonce), mode=None).encryptor()
            cipher.update_into(bytes(_WORD * count), words.view(np.uint8).data)
            order = np.argsort(words)
            ordered = words[order]
            if not np.any(ordered[1:] == ordered[:-1]):
                return order
        raise AssertionError

    def __reduce__(self) -> str:
        raise PrivacyError("a draw is not pickled: its key decides who is trained on")


@dataclass(frozen=True)
class Origin:
    """The provenance of the records in shards, which `run` and `evaluate` compare.

    It is never released. Two origins are equal if their public fields are.
    """

    rows_per_person: int | None = None  # K, the places of a person; None: records are protected
    dealt: bool = False  # whether records without owners were dealt to several agents
    # whether a public seed dealt them or held some out: then nothing is private
    reproducible: bool = False
    side: Side | None = None  # of a division for an evaluation; None where nothing is held out
    agents_per_person: int = field(default=1, compare=False)  # the most agents of one person
    steps: int | None = field(default=None, compare=False)  # S, with a block of targets for each
    # a random identifier of the table, and the table's row in every place of each agent; -1 in
    # empty places of persons
    table: bytes = field(default_factory=lambda: secrets.token_bytes(_TOKEN), compare=False)
    rows: tuple[Int[HostArray, "_m"], ...] = field(default=(), compare=False, repr=False)
    # the numbers of the persons with a row here; none where records are packed
    persons: Int[HostArray, " P"] = field(
        default_factory=lambda: np.zeros(0, np.int64), compare=False, repr=False
    )


class Parts(list[Int[HostArray, "_m"]]):
    """The rows of each agent, with their origin, whose `rows` are filled in by `pack`."""

    def __init__(self, rows: Iterable[HostArray], origin: Origin) -> None:
        super().__init__(rows)
        self.origin = origin

    @overload
    def __getitem__(self, index: SupportsIndex) -> Int[HostArray, "_m"]: ...

    @overload
    def __getitem__(self, index: slice) -> Parts: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        """Return the rows of an agent, or of some agents with their origin."""
        found = super().__getitem__(index)
        return Parts(found, self.origin) if isinstance(index, slice) else found


def origin_of(parts: Sequence[HostArray]) -> Origin:
    """Return the origin of parts; the default one for a plain sequence."""
    return parts.origin if isinstance(parts, Parts) else Origin()


def random_partition(
    rows: int, agents: int, *, seed: int | None = None, draw: Draw | None = None
) -> Parts:
    """Return a uniformly random partition; sizes differ by at most one, indices are sorted.

    `seed`: the public seed of a reproduction, or of public data; None for a secret draw. In a
    sorted file a public seed lets one replaced record move all others (`Draw`). `draw`: a draw
    shared with other divisions of the same records, in place of the seed.
    """
    return deal(rows, agents, Draw.given(draw, seed))


def deal(units: int, agents: int, draw: Draw, of: str = "rows") -> Parts:
    """Return the units, records or persons, of each agent, sorted; a single agent gets all."""
    check_sizes(units, agents, of)
    shuffled = draw.permutation(units, "deal")
    several = agents > 1
    origin = Origin(dealt=several, reproducible=several and not draw.is_secret)
    return Parts([np.sort(part) for part in np.array_split(shuffled, agents)], origin)


def check_sizes(units: int, agents: int, of: str = "rows") -> None:
    """Raise `InputError` unless there is an agent, and a row or person for each."""
    checks.at_least("agents", agents, 1)
    if agents > units:
        raise InputError(f"{agents} agents but {units} {of}; ask for at most {units} agents")


def rows_by_owner(owner: HostArray, agents: int) -> list[HostArray]:
    """Return the rows of each agent, in order, from the agent of each row."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=agents))[:-1])


def check_origins(trained_on: Origin | None, held_out: Origin | None) -> None:
    """Raise `PrivacyError` unless records were held out of those that were trained on.

    **Guarantee.** Training and evaluation together cost the larger of the two only where no record
    is in both, and no person (`taciturn.kernel.privacy.compose`). Rows are compared by their
    numbers in one table; shards of other tables, or of unknown origin, are refused.
    """
    if (
        trained_on is None
        or held_out is None
        or (trained_on.side, held_out.side) != ("training", "held out")
    ):
        raise PrivacyError(
            "an evaluation needs records that were held out of the training, and these shards are "
            "not the two sides of one division; divide the records with hold_out and pack each side"
        )
    sides = [np.concatenate([[], *origin.rows]) for origin in (trained_on, held_out)]
    if trained_on.table != held_out.table or np.any(np.intersect1d(sides[0], sides[1]) >= 0):
        raise PrivacyError(
            "a record that was trained on would be evaluated, or the shards come from different "
            "tables; pack both sides of one division of one table"
        )
    if np.intersect1d(trained_on.persons, held_out.persons).size:
        raise PrivacyError(
            "a person has rows on both sides, and is charged for both; hold out whole persons: "
            "give hold_out the persons that pack is given"
        )


def numbered(labels: Iterable[str]) -> Int[HostArray, " N"]:
    """Return the rank of each label among the distinct ones."""
    given = list(labels)
    numbers = {label: number for number, label in enumerate(sorted(set(given)))}
    return np.array([numbers[label] for label in given], dtype=np.int64)


EMPTY = -1


@dataclass(frozen=True, eq=False)
class Persons:
    """The person of each row, and the number of places of a person.

    **Guarantee.** Data sets are neighbours if one person's rows are replaced by others, more or
    fewer; the number of persons is public. A secret draw (`Draw`) selects the rows in a person's
    places: any K of them are equally likely, whatever the rows of other persons and the order of
    the file. The number of places, which divides an answer, is K times a number of persons. A draw
    also deals persons to agents and holds them out; its law is the same for every order of persons.
    So neighbours, compared draw by draw, differ in the K places of one person at each agent that
    has rows of that person. In a reproduction persons are ordered by identity, and their first rows
    are taken.

    All processes of a run use the same draw.
    """

    # the person of every row, numbered from 0 in the order of identities
    numbers: Int[HostArray, " N"]
    rows_per_person: int  # K, how many rows of a person an agent takes
    draw: Draw = field(default_factory=Draw.secret, repr=False)

    def __post_init__(self) -> None:
        checks.at_least("rows_per_person", self.rows_per_person, 1)
        numbers = np.asarray(self.numbers)
        whole = np.issubdtype(numbers.dtype, np.integer)
        if numbers.ndim != 1 or not whole or not numbers.size or numbers.min() < 0:
            raise InputError("persons are not one whole number of at least 0 for each row")

    @property
    def count(self) -> int:
        """The number of persons."""
        return len(np.unique(self.numbers))

    @cached_property
    def ranks(self) -> Int[HostArray, " N"]:
        """The order in which rows are taken: random, or in a reproduction that of the file."""
        count = len(self.numbers)
        return self.draw.permutation(count, "choose") if self.draw.is_secret else np.arange(count)

    def among(self, rows: Bool[HostArray, " N"]) -> Persons:
        """Return the persons of some of the rows, which are taken in the same order."""
        some = Persons(self.numbers[rows], self.rows_per_person, self.draw)
        some.__dict__["ranks"] = self.ranks[rows]
        return some

    def places(self, rows: Int[HostArray, "_m"]) -> Int[HostArray, " S"]:
        """Return the row in each place of an agent that has these rows; -1 in empty places.

        Persons are in the order of their numbers, K places each, and rows in that of the draw.

        Examples
        --------
        >>> Persons(np.array([0, 1, 0, 0]), 2, Draw(seed=0)).places(np.arange(4)).tolist()
        [0, 2, 1, -1]
        """
        # rank each row among those of its person in the order of the draw; the first K are taken
        standing = self.standing(rows)
        order = np.lexsort((self.ranks[rows], standing))
        sizes = np.bincount(standing)
        before = np.repeat(np.cumsum(sizes) - sizes, sizes)
        rank = np.empty(len(rows), int)
        rank[order] = np.arange(len(rows)) - before
        taken = rank < self.rows_per_person
        places = np.full((len(sizes), self.rows_per_person), EMPTY)
        places[standing[taken], rank[taken]] = np.asarray(rows)[taken]
        return places.ravel()

    def standing(self, rows: Int[HostArray, "_m"]) -> Int[HostArray, "_m"]:
        """Return the person of each row of an agent, numbered from 0 among its persons."""
        place: Int[HostArray, "_m"] = np.unique(self.numbers[rows], return_inverse=True)[1]
        return place

    def places_of(self, rows: Int[HostArray, "_m"]) -> int:
        """Return the number of places of an agent with these rows: K for each of its persons."""
        return self.rows_per_person * len(np.unique(self.numbers[rows]))

    def deal(self, agents: int, draw: Draw) -> Parts:
        """Return the rows of each agent after dealing persons at random, sizes within one."""
        names, person = np.unique(self.numbers, return_inverse=True)
        groups = deal(len(names), agents, draw, of="persons")
        owner = np.empty(len(names), int)
        for agent, group in enumerate(groups):
            owner[group] = agent
        return Parts(rows_by_owner(owner[person], agents), groups.origin)

    def most_agents(self, parts: Sequence[Int[HostArray, "_m"]]) -> int:
        """Return the largest number of agents that have rows of one person."""
        at = np.concatenate([np.unique(self.numbers[part]) for part in parts])
        return int(np.bincount(at).max())


def check_at_agents(most: int, agents_per_person: int) -> None:
    """Raise `InputError` if a person has rows at more agents than declared; none is named."""
    if most > agents_per_person:
        allowed = "one" if agents_per_person == 1 else str(agents_per_person)
        raise InputError(
            f"a person has rows at {most} agents, and {allowed} may have them; declare at how many "
            "agents a person may be (agents_per_person, --agents-per-person), which takes more "
            "noise"
        )


MOST_HELD_OUT = 0.5


def held_out_share(value: float) -> float:
    """Return a share of rows to hold out if it is above 0 and at most 1/2, else raise."""
    share = checks.positive("evaluate", value)
    if share > MOST_HELD_OUT:
        raise InputError(
            f"evaluate is {share:g}; it is the share of the rows that are held out, above 0 and at "
            f"most {MOST_HELD_OUT:g}, for example 0.1"
        )
    return share


def check_at_one_agent(agents_per_person: int) -> None:
    """Raise `InputError` if a person may be at several agents, which hold out independently.

    One agent could train on a person whom another evaluates, and both would be charged.
    """
    if agents_per_person > 1:
        raise InputError(
            "an evaluation holds out persons agent by agent, and a person at several agents could "
            "be trained on at one and evaluated at another; leave --evaluate or "
            "--agents-per-person out"
        )


def held_out_counts(
    counts: Sequence[int], share: float, *, rows_per_person: int | None = None
) -> tuple[int, ...]:
    """Return how many of each agent's m_i rows are held out: m_i times the share, rounded.

    An agent keeps at least one row to train on, and may hold out none; not all agents may. Where
    persons are protected, m_i are their places, K for each, and whole persons are held out.

    Examples
    --------
    >>> held_out_counts((100, 7, 1), 0.1)
    (10, 1, 0)
    """
    share, places = held_out_share(share), rows_per_person or 1
    units = [count // places for count in counts]
    held = tuple(places * min(round(unit * share), unit - 1) for unit in units)
    if sum(held) < 1:
        what = "row" if rows_per_person is None else "person"
        raise InputError(
            f"a share of {share:g} of {sum(units)} {what}s of {len(counts)} agents holds no {what} "
            "out; evaluate with a larger share, or leave it out"
        )
    return held


def hold_out(
    parts: Sequence[Int[HostArray, "_m"]],
    share: float,
    *,
    seed: int | None = None,
    draw: Draw | None = None,
    persons: Persons | None = None,
    first: int = 0,
) -> tuple[Parts, Parts]:
    """Return the rows of each agent that are trained on, and those that are held out, sorted.

    Agent i permutes its m_i rows, or its persons, and holds the first of them out; all rows of a
    person are on one side.

    `share` is that of each agent's rows (`held_out_counts`), `seed` and `draw` are as for
    `random_partition`. No person may be at several agents. `first` is the number of the first
    agent, if `parts` are those of some agents only.

    **Guarantee.** Only counts and a secret permutation decide which records are held out, neither
    their content nor their position in the file: see `Draw`, and `taciturn.kernel.privacy.compose`
    for the cost of both sides. With a public seed the run is stamped as a reproduction.

    Examples
    --------
    >>> kept, held = hold_out([np.arange(10)], 0.2)
    >>> len(kept[0]), len(held[0]), len(np.intersect1d(kept[0], held[0]))
    (8, 2, 0)
    """
    draw = Draw.given(draw, seed)
    if persons is not None:
        check_at_one_agent(persons.most_agents(parts))
    standing = [
        np.arange(len(part)) if persons is None else persons.standing(part) for part in parts
    ]
    units = [1 + int(np.max(place)) for place in standing]
    kept, held = [], []
    sizes = held_out_counts(units, share)
    for agent, (part, place, size) in enumerate(zip(parts, standing, sizes, strict=True)):
        shuffled = draw.permutation(units[agent], "hold out", first + agent)
        side = np.isin(place, shuffled[:size])
        kept.append(np.sort(part[~side]))
        held.append(np.sort(part[side]))
    origin = origin_of(parts)
    origin = replace(origin, reproducible=origin.reproducible or not draw.is_secret)
    return (
        Parts(kept, replace(origin, side="training")),
        Parts(held, replace(origin, side="held out")),
    )


def check_held_out(
    kept: Sequence[Int[HostArray, "_m"]],
    held: Sequence[Int[HostArray, "_h"]],
    persons: Persons | None = None,
) -> None:
    """Raise `PrivacyError` if a row, or a person, is on both sides and so would be charged once."""
    if not len(held):
        return
    sides = [np.concatenate(list(rows)) for rows in (kept, held)]
    if persons is not None:
        sides = [persons.numbers[rows] for rows in sides]
    both = np.intersect1d(sides[0], sides[1])
    if both.size:
        what = "row" if persons is None else "person"
        raise PrivacyError(
            f"{both.size} {what}s are trained on and held out as well; each {what} belongs to one "
            "of the two, so divide them again"
        )
