"""What a control message may hold; types and ranges are checked where the message is opened.

Bodies from kind 16 on are arrays, whose shapes follow from the plan (`envelope`);
the column of a ledger has a reader of its own (`taciturn_federation.hearing`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from taciturn.errors import InputError
from taciturn_federation.envelope import COORDINATOR, BreachError, Envelope, Kind

_HEX, _DIGEST = re.compile(r"(?:[0-9a-f]{2})*"), re.compile(r"[0-9a-f]{64}")
_LONGEST_LINE, _LONGEST_READ = 300, 20_000
_ARRAYS = 16
# what a party may ask to be sent again
_REQUESTED = (Kind.PUBLIC, Kind.MESSAGE, Kind.FINAL, Kind.SCORE, Kind.TOTAL)


def one_line(text: str) -> str:
    r"""Return a text as one line without control characters, of 300 characters at most.

    Every party cleans a line before it sends one and when it receives one: a terminal would obey
    its escape sequences, and a line break in a log would look like another entry.

    Examples
    --------
    >>> one_line("no\n\x1b[2Jroom")
    'no \\x1b[2Jroom'
    """
    words = " ".join(text[:_LONGEST_READ].split())
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    return shown[:_LONGEST_LINE]


def is_whole(value: Any, least: int, most: int) -> bool:
    """Whether a JSON value is a whole number in a range; a truth value and 1.0 are not."""
    return type(value) is int and least <= value <= most


@dataclass(frozen=True)
class Grammar:
    """The control messages of one run.

    Attributes
    ----------
    names
        Of all parties, by number.
    rounds
        T of the plan: no message is about a later round.
    """

    names: Mapping[int, str]
    rounds: int

    def check(self, envelope: Envelope) -> None:
        """Return if a message is one that the protocol knows.

        Raises
        ------
        BreachError
            If a value of it is missing, of another type or out of range. Its sender signed it, so
            the error names the sender.
        """
        kind = envelope.kind
        if kind >= _ARRAYS:
            return
        if not (envelope.round <= self.rounds and self._is_right(envelope)):
            raise BreachError(
                f"{self.names[envelope.sender]} sent a message of the kind {kind.name} whose "
                "values are not those of the protocol; its owner should look at its version of "
                "taciturn"
            )

    def _is_right(self, envelope: Envelope) -> bool:
        kind = envelope.kind
        if kind == Kind.PROPOSAL:  # every party compares digests; this copy is not read
            return True
        if kind == Kind.HEAD:
            return not envelope.body
        try:
            values = envelope.values()
        except InputError:
            return False
        right: Callable[[dict[str, Any]], bool] = {
            Kind.ACCEPTANCE: _is_acceptance,
            Kind.START: lambda given: self._are_of_all(given.get("acceptances")),
            Kind.WISH: self._is_wish,
            Kind.HEADS: lambda given: self._are_of_all(given.get("heads")),
            Kind.REFUSAL: _is_line,
            Kind.DONE: lambda given: given.get("ending") in ("finished", "abandoned"),
            Kind.END: _is_end,
            Kind.COLUMN: lambda _: True,
            Kind.PROGRESS: lambda given: not given,
        }[kind]
        return right(values)

    def _is_wish(self, values: dict[str, Any]) -> bool:
        kind, sender = values.get("kind"), values.get("sender")
        if not is_whole(kind, 0, 255):
            return False
        if kind == Kind.HEADS:
            return True
        known = is_whole(sender, 0, COORDINATOR) and sender in self.names
        return kind in _REQUESTED and known and is_whole(values.get("round"), 0, self.rounds)

    def _are_of_all(self, given: Any) -> bool:
        """Whether these are as many envelopes, in hexadecimal digits, as there are sites at most.

        Which of them are missing is told by name where they are read.
        """
        few = isinstance(given, list) and len(given) < len(self.names)
        return few and all(isinstance(one, str) and _HEX.fullmatch(one) for one in given)


def _is_acceptance(values: dict[str, Any]) -> bool:
    digest, version, mask = values.get("digest"), values.get("taciturn"), values.get("mask")
    texts = isinstance(digest, str) and isinstance(version, str)
    return texts and (mask is None or (isinstance(mask, str) and bool(_DIGEST.fullmatch(mask))))


def _is_line(values: dict[str, Any]) -> bool:
    """Whether these say why a party ends, and whether the run had started."""
    return isinstance(values.get("line"), str) and values.get("started", True) in (True, False)


def _is_end(values: dict[str, Any]) -> bool:
    public = values.get("public")
    right = public is None or (isinstance(public, str) and bool(_HEX.fullmatch(public)))
    return right and _is_line(values)
