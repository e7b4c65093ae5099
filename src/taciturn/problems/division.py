"""How records come to agents and sides: by a secret draw, or by a public seed in a reproduction."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, SupportsIndex, TypeAlias, overload

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from jaxtyping import Int

from taciturn import checks
from taciturn.errors import InputError, PrivacyError
from taciturn.typing import HostArray

Purpose: TypeAlias = Literal["deal", "hold out", "test", "choose"]
Side: TypeAlias = Literal["training", "held out"]

DRAW_KEY_BYTES = 32
_WORD, _TOKEN = 8, 16  # bytes
_PURPOSES: tuple[Purpose, ...] = ("deal", "hold out", "test", "choose")
# sets the permutations of held-out records apart from other draws under the same public seed
_HOLD_OUT = 0x68656C64


@dataclass(frozen=True, eq=False)
class Draw:
    r"""The random permutations that deal records to agents and hold some of them out.

    Attributes
    ----------
    key
        32 bytes of the operating system's randomness; None in a reproduction.
    seed
        The public seed of a reproduction; None where the draw is secret.

    Notes
    -----
    **Guarantee.** Let x = (x_1, ..., x_n) be a file of records and x' the file with one record
    replaced, in whatever order either is written: x'_j = x_{tau(j)} for all j but one, with an
    unknown permutation tau. A draw is a uniform permutation sigma of the n places, independent of
    the records; it decides which record is whose, and on which side. Write M_k(x) for the law of
    everything an observer sees when the k-th record of the order sigma stands where it stands.
    Because sigma o tau is uniform as well, the law of M on x' is that on x'_tau: the order of the
    file has no influence, and the two mixtures can be compared permutation by permutation,

        P = (1/n!) sum_sigma P_sigma,    Q = (1/n!) sum_sigma Q_sigma,

    where P_sigma and Q_sigma differ in the one record that was replaced, at one agent i(sigma) and
    on one side. Hockey-stick divergences are jointly convex, so for every epsilon

        delta_{P,Q}(epsilon) <= (1/n!) sum_sigma delta_{i(sigma)}(epsilon)
                               <= max_i delta_i(epsilon):

    the privacy curve of the dearest agent holds for the file. The observer must not know sigma: who
    sees a dealt shard, or learns which agent has a record, is not covered. The same holds for
    persons, whose number is public, with all rows of a person in place of a record.

    Permutations sort words of ChaCha20 (RFC 8439) under the key, with a nonce that spells purpose,
    agent and attempt; a draw with two equal words is repeated, so that every order is equally
    likely. A public seed makes no such promise: a run whose records it divides is stamped as a
    reproduction.
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
        """Return a draw that is given, else one of a public seed, else a secret one."""
        return draw or (cls.secret() if seed is None else cls(seed=seed))

    @classmethod
    def for_noise(cls, seed: int | None, split_seed: int) -> Draw:
        """Return a secret draw, or for a reproduction, whose noise has a seed, the public one."""
        return cls.secret() if seed is None else cls(seed=split_seed)

    @property
    def is_secret(self) -> bool:
        """Whether nobody can repeat the draw."""
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
    """Where the records of shards come from, which `run` and `evaluate` compare.

    It belongs to the data custodian and is never released. Two origins are equal if they agree in
    what is public.

    Attributes
    ----------
    rows_per_person
        K, the places of a person; None where records are protected.
    dealt
        Whether records without owners were dealt to several agents.
    reproducible
        Whether a public seed dealt them or held some out: then nothing is private.
    side
        Of a division for an evaluation; None where nothing is held out.
    agents_per_person
        At how many of these agents a person has rows, at most.
    table
        A random name of the table that the rows are numbered in.
    rows
        The row in every place of each agent; -1 in empty places of persons.
    """

    rows_per_person: int | None = None
    dealt: bool = False
    reproducible: bool = False
    side: Side | None = None
    agents_per_person: int = field(default=1, compare=False)
    table: bytes = field(default_factory=lambda: secrets.token_bytes(_TOKEN), compare=False)
    rows: tuple[Int[HostArray, "_m"], ...] = field(default=(), compare=False, repr=False)


class Parts(list[Int[HostArray, "_m"]]):
    """The rows of each agent, with their origin, whose `rows` are for `pack` to fill in."""

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
    """Return where parts come from: a plain sequence says whose records are whose, and no more."""
    return parts.origin if isinstance(parts, Parts) else Origin()


def random_partition(
    rows: int, agents: int, *, seed: int | None = None, draw: Draw | None = None
) -> Parts:
    """Return a uniformly random partition; sizes differ by at most one, indices are sorted.

    Parameters
    ----------
    seed
        The public seed of a reproduction, or of data that are public; None for a secret draw. In a
        sorted file a public seed lets one replaced record move all others (`Draw`).
    draw
        A draw that other divisions of the same records share, in place of the seed.
    """
    return deal(rows, agents, Draw.given(draw, seed))


def deal(units: int, agents: int, draw: Draw, of: str = "rows") -> Parts:
    """Return the units, records or persons, of each agent, sorted; one agent has them all."""
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


def by_owner(owner: HostArray, agents: int) -> list[HostArray]:
    """Return the rows of each agent, in order, from the agent of each row."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=agents))[:-1])


def check_origins(trained_on: Origin | None, held_out: Origin | None) -> None:
    """Raise `PrivacyError` unless records were held out of those that were trained on.

    **Guarantee.** Training and evaluation together cost the larger of the two only where no record
    is in both (`taciturn.evaluation.of_disjoint_parts`). Rows are compared by their numbers in one
    table; shards of other tables, or of unknown origin, are refused.
    """
    if (
        trained_on is None
        or held_out is None
        or (trained_on.side, held_out.side) != ("training", "held out")
    ):
        raise PrivacyError(
            "an evaluation asks records that were held out of the training, and these shards are "
            "not the two sides of one division; divide the records with hold_out and pack each side"
        )
    sides = [np.concatenate([[], *origin.rows]) for origin in (trained_on, held_out)]
    if trained_on.table != held_out.table or np.any(np.intersect1d(sides[0], sides[1]) >= 0):
        raise PrivacyError(
            "a record that was trained on would be asked about the model, or the shards come from "
            "different tables; pack both sides of one division of one table"
        )


def numbered(labels: Iterable[str]) -> Int[HostArray, " N"]:
    """Return the number of each label in the sorted order of the different ones."""
    given = list(labels)
    numbers = {label: number for number, label in enumerate(sorted(set(given)))}
    return np.array([numbers[label] for label in given], dtype=np.int64)
