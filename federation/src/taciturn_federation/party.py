"""A party of a run: all of the protocol, and nothing of sockets, timers or processes.

A party takes packets and the time, and returns packets. What carries them may lose, repeat, delay
or reorder them: a party that waits for something asks for it again.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from taciturn.privacy import Certificate
from taciturn.typing import HostArray

Ending = Literal["finished", "abandoned", "refused"]


class Packet(NamedTuple):
    """A message on its way: what it is about, and its bytes, an envelope."""

    subject: str
    payload: bytes


class Released(NamedTuple):
    """What a run releases.

    Attributes
    ----------
    weights
        `(*shape)`.
    centre
        The centre of the rows that the weights are about, `(D,)`; None without one.
    totals
        The sum of the agents' noised answers to the last question, `(S,)`; None without one.
    """

    weights: HostArray
    centre: HostArray | None = None
    totals: HostArray | None = None


class Outcome(NamedTuple):
    """How a run ended for a party.

    Attributes
    ----------
    ending
        "finished" with a model; "abandoned" by somebody else, or for want of answers; "refused" by
        this party.
    line
        What happened and who can mend it, in one line that holds nothing of a record.
    model
        The released weights, `(*shape)`; of an abandoned run those so far, if the proposal releases
        them; else None.
    certificate
        `taciturn.privacy.Certificate` of the run; None without a model.
    centre, totals
        As of `Released`.
    """

    ending: Ending
    line: str
    model: Any = None
    certificate: Any = None
    centre: Any = None
    totals: Any = None


NOT_STARTED = (
    "; the run had not started, so nothing was spent: once that is mended, the same command tries "
    "again"
)


def outcome_of(
    ending: Ending, line: str, released: Released | None, certificate: Certificate
) -> Outcome:
    """Return how a run ended; without a model there is no certificate."""
    if released is None:
        return Outcome(ending, line)
    weights, centre, totals = released
    return Outcome(ending, line, weights, certificate, centre, totals)


class Progress(NamedTuple):
    """Where a run stands, in public facts.

    Attributes
    ----------
    round, rounds
        How many rounds this party has behind it, of how many.
    waiting_for
        Names of those who are waited for.
    seconds
        For how long.
    """

    round: int
    rounds: int
    waiting_for: tuple[str, ...]
    seconds: float


@runtime_checkable
class Party(Protocol):
    """What carries packets needs to know of a party; none of these blocks for long but `heard`."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects that it listens to; `*` stands for one token."""

    def start(self, now: float) -> list[Packet]:
        """Return its first packets. `now` is in seconds, from a clock that only goes forward."""

    def heard(self, packet: Packet, now: float) -> list[Packet]:
        """Return what it says to a packet; it may compute a round first."""

    def tick(self, now: float) -> list[Packet]:
        """Return what it repeats; called about every 0.1 s."""

    def progress(self) -> Progress:
        """Return where the run stands."""

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while it goes on."""

    @property
    def needed(self) -> bool:
        """Whether others may still ask for what it has: only then may its process not end."""

    def close(self) -> None:
        """Let go of journal and lock."""
