"""Envelopes: a fixed header, a body and a signature over both; nothing in them is executed.

    magic 4 | version 1 | kind 1 | reserved 2 | sender 4 | round 4 | run 32 | transcript 32
            | digest of the body 32 | length of the body 8 | body | signature 64

Numbers are little-endian. The signature is Ed25519 (RFC 8032) over a label and the header, which
holds the SHA-256 of the body; so it covers both.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeAlias

import jax
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from taciturn.errors import InputError, TaciturnError
from taciturn.typing import PyTree
from taciturn_federation.engines.delivery import Packet as Packet  # noqa: PLC0414 - used from here
from taciturn_federation.engines.delivery import matches as matches  # noqa: PLC0414
from taciturn_federation.keys import Label, is_signed, sign_labelled

_HEADER = struct.Struct("<4sBBHII32s32s32sQ")
_MAGIC, _VERSION, _SIGNATURE = b"TACT", 1, 64
COORDINATOR = 2**32 - 1
NO_DIGEST = bytes(32)


class BreachError(TaciturnError):
    """A signed message violates the protocol by public facts, so all parties may be informed."""


class Kind(IntEnum):
    """The content of an envelope: below 16 JSON or nothing, else arrays."""

    PROPOSAL = 1
    ACCEPTANCE = 2
    START = 3
    RESEND_REQUEST = 4
    HEADS = 5
    HEAD = 6
    REFUSAL = 7
    DONE = 8
    END = 9
    LEDGER_ENTRIES = 10
    PROGRESS = 11
    PUBLIC = 16
    MESSAGE = 17
    FINAL = 18
    SCORE = 19
    TOTAL = 20


_ARRAYS = 16
# what a party may request
_RESENDABLE = (Kind.PUBLIC, Kind.MESSAGE, Kind.FINAL, Kind.SCORE, Kind.TOTAL)


@dataclass(frozen=True)
class Envelope:
    """The content of an envelope."""

    kind: Kind
    sender: int  # the agent's number; `COORDINATOR` for the coordinator
    round: int  # of the run, from 0
    transcript: bytes  # digest of all that the sender had received before (`chain`), 32 bytes
    body: bytes
    digest: bytes  # SHA-256 of the body
    payload: bytes  # the whole envelope

    @cached_property
    def values(self) -> dict[str, Any]:
        """The JSON object in the body; `InputError` if there is none."""
        return read_values(self.body)

    @classmethod
    def parse(cls, payload: bytes) -> Envelope:
        """Return the content of an envelope that this party wrote: no signature is verified."""
        header, body = payload[: _HEADER.size], payload[_HEADER.size : -_SIGNATURE]
        _, _, kind, _, sender, turn, _, transcript, digest, _ = _HEADER.unpack(header)
        return cls(Kind(kind), sender, turn, transcript, body, digest, payload)


@dataclass(frozen=True)
class Signer:
    """Writes the envelopes of one party of a run."""

    run: bytes  # digest of the signed proposal, 32 bytes
    sender: int
    key: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"Signer(sender={self.sender})"

    def seal(self, kind: Kind, turn: int, body: bytes, *, transcript: bytes = NO_DIGEST) -> bytes:
        """Return the bytes of an envelope."""
        front = (_MAGIC, _VERSION, kind, 0, self.sender, turn)
        header = _HEADER.pack(*front, self.run, transcript, _sha(body), len(body))
        return b"".join([header, body, sign_labelled(self.key, Label.ENVELOPE, header)])

    def seal_values(self, kind: Kind, turn: int, values: Mapping[str, Any]) -> bytes:
        """Return the bytes of an envelope with canonical JSON."""
        text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return self.seal(kind, turn, text.encode())


@dataclass(frozen=True)
class Opener:
    """Verifies the envelopes of one run."""

    run: bytes
    names: Mapping[int, str]  # by number: the sender's name in error messages
    keys: Mapping[int, Ed25519PublicKey]

    @property
    def agents(self) -> range:
        """The numbers of the agents: all but the coordinator."""
        return range(len(self.names) - 1)

    def open(self, payload: bytes) -> Envelope:
        """Return the content of an envelope.

        Raises `InputError` if it is truncated, of another version or run, its sender takes no part,
        or its sender's key did not sign it.
        """
        if len(payload) < _HEADER.size + _SIGNATURE:
            raise InputError("ignored a message that was cut short")
        header, body = payload[: _HEADER.size], payload[_HEADER.size : -_SIGNATURE]
        magic, version, kind, _, sender, _, run, _, digest, length = _HEADER.unpack(header)
        name = self.names.get(sender, "a party")  # without a number: a log counts equal lines
        for right, fault in (
            (magic == _MAGIC and version == _VERSION, "is not of this version of taciturn"),
            (sender in self.keys, "takes no part in this run"),
            (length == len(body) and digest == _sha(body), "was cut short or changed"),
            (run == self.run, "belongs to another run"),
            (kind in set(Kind), "is of an unknown kind"),
        ):
            if not right:
                raise InputError(f"ignored a message of {name}, which {fault}")
        if not is_signed(self.keys[sender], Label.ENVELOPE, payload[-_SIGNATURE:], header):
            raise InputError(
                f"a message in the name of {name} was not signed with the key of {name}; another "
                "party sent it, or changed it in transit"
            )
        return Envelope.parse(payload)


def read_values(body: bytes) -> dict[str, Any]:
    """Return the JSON object in some bytes; raise `InputError` if there is none."""
    try:
        values = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InputError("a message holds no JSON; it is ignored") from None
    if not isinstance(values, dict):
        raise InputError("a message holds no JSON object; it is ignored")
    return values


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def chain(transcript: bytes, digest: bytes) -> bytes:
    """Return h_t = SHA-256(h_(t-1) | digest of what was received in round t)."""
    return _sha(transcript + digest)


def joint_digest(digests: Sequence[bytes]) -> bytes:
    """Return the one digest as it is, or the digest of several."""
    return digests[0] if len(digests) == 1 else _sha(b"".join(digests))


def head_of(training: bytes, scores: Sequence[bytes]) -> bytes:
    """Return the head of a run, from that of its training and the digests of its evaluation."""
    return chain(training, joint_digest(scores)) if scores else training


def _sha(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


@dataclass(frozen=True)
class Layout:
    """The leaves of a tree: structure, shapes and dtypes."""

    structure: Any
    leaves: tuple[Any, ...]  # of `jax.ShapeDtypeStruct`
    # the largest magnitude of a floating number of another party, where that is less than
    # `is_computable` allows
    limit: float = math.inf

    @classmethod
    def of(cls, shapes: PyTree) -> Layout:
        """Return the layout of a tree of arrays, or of their shapes."""
        leaves, structure = jax.tree.flatten(shapes)
        make: Any = jax.ShapeDtypeStruct
        return cls(structure, tuple(make(np.shape(leaf), leaf.dtype) for leaf in leaves))

    @property
    def size(self) -> int:
        """How many bytes a tree has."""
        return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in self.leaves)

    def pack(self, tree: PyTree) -> bytes:
        """Return the bytes of a tree; `InputError` if it is not of this layout."""
        leaves, structure = jax.tree.flatten(tree)
        arrays = [np.asarray(leaf) for leaf in leaves]
        if structure != self.structure or any(
            array.shape != leaf.shape or array.dtype != leaf.dtype
            for array, leaf in zip(arrays, self.leaves, strict=True)
        ):
            raise InputError("a tree of arrays is not of the shapes that the plan announces")
        # little-endian
        return b"".join(one.astype(one.dtype.newbyteorder("<")).tobytes() for one in arrays)

    def unpack(self, content: bytes) -> PyTree:
        """Return the tree in some bytes of this party; `InputError` if their number is wrong."""
        if len(content) != self.size:
            raise InputError(
                f"{len(content)} bytes of numbers stand where the plan announces {self.size}"
            )
        arrays, start = [], 0
        for leaf in self.leaves:
            dtype = np.dtype(leaf.dtype).newbyteorder("<")
            flat = np.frombuffer(content, dtype, math.prod(leaf.shape), start)
            arrays.append(flat.reshape(leaf.shape).astype(leaf.dtype))
            start += flat.nbytes
        return jax.tree.unflatten(self.structure, arrays)

    def unpack_from(self, sender: str, content: bytes) -> PyTree:
        """Return the tree that another party sent.

        Raises `BreachError` if its bytes are more or fewer than the plan announces, or a number is
        not finite or too large to be computed with (`is_computable`).
        """
        if len(content) != self.size:
            raise BreachError(
                f"{sender} sent {len(content)} bytes of numbers where the plan announces "
                f"{self.size}; it runs another plan, and nothing is answered"
            )
        tree = self.unpack(content)
        if not is_computable(tree, self.limit):
            raise BreachError(
                f"{sender} sent a number that is not finite, or too large to be computed with; "
                "its owner sees why"
            )
        return tree


def largest(tree: PyTree) -> float:
    """Return the largest magnitude of the floating numbers of a tree; 0 for none."""
    return max((float(np.max(np.abs(leaf))) for leaf in _floating(tree) if leaf.size), default=0.0)


def is_computable(tree: PyTree, limit: float = math.inf) -> bool:
    """Whether every floating number is at most the root of the largest of its type, and a limit.

    No sum or product of a few such numbers overflows.
    """
    # the comparison is false of what is not a number, too
    return all(
        bool(np.all(np.abs(leaf) <= min(limit, np.sqrt(np.finfo(leaf.dtype).max))))
        for leaf in _floating(tree)
    )


def _floating(tree: PyTree) -> list[np.ndarray]:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return [leaf for leaf in leaves if np.issubdtype(leaf.dtype, np.floating)]


_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def check_token(what: str, text: str) -> str:
    """Return a name that may stand in a subject and in a file name; else raise `InputError`."""
    if not _TOKEN.fullmatch(text):
        raise InputError(
            f"{text!r} is no name of a {what}; use up to 64 letters, digits, hyphens and "
            "underscores, the first a letter or a digit"
        )
    return text


@dataclass(frozen=True)
class Subjects:
    """The subjects of one run, all below `STUDY.RUN`.

    Examples
    --------
    >>> Subjects("diabetes", "0123456789abcdef").answer(3)
    'diabetes.0123456789abcdef.answer.3'
    """

    study: str  # its name
    run: str  # the first 16 hexadecimal digits of the digest of the signed proposal

    def __post_init__(self) -> None:
        check_token("study", self.study)
        check_token("run", self.run)

    @staticmethod
    def of_study(study: str) -> str:
        """Of the coordinator: `proposal` of every run of a study."""
        return f"{check_token('study', study)}.*.proposal"

    @staticmethod
    def of_guests(study: str) -> str:
        """Of guests, for the coordinator: requests to join a study."""
        return f"{check_token('study', study)}.join"

    @property
    def proposal(self) -> str:
        """Of the coordinator, for all: proposal, start, heads, end."""
        return f"{self.study}.{self.run}.proposal"

    def public(self, turn: int | str = "*") -> str:
        """Of the coordinator of a star: the public value of a round."""
        return f"{self.study}.{self.run}.public.{turn}"

    def ask(self, agent: int | str = "*") -> str:
        """Of an agent: requests for the messages that it lacks."""
        return f"{self.study}.{self.run}.ask.{agent}"

    def answer(self, agent: int | str = "*") -> str:
        """Of an agent of a star: its messages."""
        return f"{self.study}.{self.run}.answer.{agent}"

    def edge(self, sender: int | str = "*", receiver: int | str = "*") -> str:
        """Of an agent, for a neighbour."""
        return f"{self.study}.{self.run}.edge.{sender}.{receiver}"

    def state(self, agent: int | str = "*") -> str:
        """Of an agent, for all: its state, and what it releases."""
        return f"{self.study}.{self.run}.state.{agent}"

    def of_agent(self, agent: int, neighbours: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
        """Return what an agent may publish and subscribe to; on a star it has no neighbours."""
        edges = (self.edge(agent, other) for other in neighbours)
        everyone = (self.proposal, self.public(), self.ask(), self.state())
        return (
            (self.ask(agent), self.answer(agent), self.state(agent), *edges),
            (*everyone, self.edge(receiver=agent)),
        )

    @property
    def of_coordinator(self) -> tuple[tuple[str, ...], ...]:
        """What the coordinator may publish and subscribe to: no edge of a network."""
        return (self.proposal, self.public()), (self.ask(), self.answer(), self.state())

    def sender(self, subject: str) -> int:
        """Return the party whose subject this is, an agent or `COORDINATOR`."""
        front, parts = f"{self.study}.{self.run}.", subject.split(".")[2:]
        known = {"proposal": 1, "public": 2, "ask": 2, "answer": 2, "edge": 3, "state": 2}
        numbers = all(part.isdecimal() and len(part) < 10 for part in parts[1:])
        if not subject.startswith(front) or known.get(parts[0]) != len(parts) or not numbers:
            raise InputError(f"ignored a message on what is no subject of the run {front[:-1]}")
        return COORDINATOR if parts[0] in {"proposal", "public"} else int(parts[1])


_MAX_LINE, _MAX_READ = 300, 20_000


def one_line(text: str) -> str:
    r"""Return a text as one line without control characters, of 300 characters at most.

    Every party cleans a line before it sends one and when it receives one: a terminal would obey
    its escape sequences, and a line break in a log would look like another entry.

    Examples
    --------
    >>> one_line("no\n\x1b[2Jroom")
    'no \\x1b[2Jroom'
    """
    words = " ".join(text[:_MAX_READ].split())
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    return shown[:_MAX_LINE]


# the grammar of control messages: which fields one has, and what may stand in each

_Test: TypeAlias = Callable[[Any], bool]


def _whole(least: int, most: int) -> _Test:
    """Return a test for whole numbers in a range; a truth value and 1.0 are none."""
    return lambda value: type(value) is int and least <= value <= most


def _number(most: float) -> _Test:
    """Return a test for numbers from 0 to `most`; whole ones are compared exactly."""
    return lambda value: type(value) in (int, float) and 0 <= value <= most


def _party(sites: int) -> _Test:
    coordinator, site = _whole(COORDINATOR, COORDINATOR), _whole(0, sites - 1)
    return lambda value: site(value) or coordinator(value)


def _text(pattern: str) -> _Test:
    found = re.compile(pattern, re.DOTALL).fullmatch
    return lambda value: isinstance(value, str) and found(value) is not None


def _list(test: _Test, most: float = math.inf) -> _Test:
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(test, value))


def _row(*tests: _Test) -> _Test:
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(tests)
        and all(test(one) for test, one in zip(tests, value, strict=True))
    )


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


_ANY, _HEX, _DIGEST = _text(".*"), _text("(?:[0-9a-f]{2})*"), _text("[0-9a-f]{64}")
_COUNT = _whole(0, 2**31 - 1)
# local, kind, scale, exponent, rate, batch; 2^exponent, a step of the lattice, is a float
_ENTRY = _row(
    _COUNT, _COUNT, _number(sys.float_info.max), _whole(-1100, 1023),
    lambda rate: _number(1.0)(rate) and rate > 0, _whole(0, 2**53),
)  # fmt: skip


def _fields(kind: Kind, values: Mapping[str, Any], sites: int, rounds: int) -> dict[str, _Test]:
    """Return the test of each field that a message has; a field with "?" may be absent."""
    enclosed = _list(_HEX, sites)  # those missing are named where they are read
    wanted = {"sender": _party(sites), "round": _whole(0, rounds)}
    return {
        Kind.ACCEPTANCE: {"digest": _DIGEST, "taciturn": _ANY, "mask?": _DIGEST},
        Kind.START: {"acceptances": enclosed},
        Kind.RESEND_REQUEST: {
            "kind": lambda kind: _whole(0, 255)(kind) and kind in (Kind.HEADS, *_RESENDABLE),
            **({} if values.get("kind") == Kind.HEADS else wanted),
        },
        Kind.HEADS: {"heads": enclosed},
        Kind.REFUSAL: {"line": _ANY, "started?": _is_truth},
        Kind.DONE: {"ending": _text("finished|abandoned")},
        Kind.END: {"line": _ANY, "started?": _is_truth, "public?": _HEX},
        Kind.LEDGER_ENTRIES: {"kinds": _list(_list(_ENTRY)), "rounds": _list(_COUNT)},
        Kind.PROGRESS: {},
    }[kind]


def check_control(envelope: Envelope, names: Mapping[int, str], rounds: int) -> None:
    """Raise `BreachError` unless a control message has the fields and values of the grammar.

    Its sender signed it, so the error names the sender. `rounds` is T of the plan: no message is
    about a later round.
    """
    right = envelope.kind >= _ARRAYS or (
        envelope.round <= rounds and _is_right(envelope, len(names) - 1, rounds)
    )
    if not right:
        raise BreachError(
            f"{names[envelope.sender]} sent a message of the kind {envelope.kind.name} whose "
            "values are not those of the protocol; its owner should look at its version of taciturn"
        )


def _is_right(envelope: Envelope, sites: int, rounds: int) -> bool:
    kind = envelope.kind
    if kind in (Kind.PROPOSAL, Kind.HEAD):  # of a proposal parties compare digests: it is not read
        return kind == Kind.PROPOSAL or not envelope.body
    try:
        values = envelope.values
    except InputError:
        return False
    fields = _fields(kind, values, sites, rounds)
    tests = {name.removesuffix("?"): test for name, test in fields.items()}
    required = {name for name in fields if not name.endswith("?")}
    return required <= set(values) <= set(tests) and all(
        tests[name](value) for name, value in values.items()
    )
