"""Interface of a party of a run, and its timers: no sockets, threads or processes.

A party takes packets and the time, and returns packets. A network may lose, repeat, delay or
reorder them: a party requests again what it still needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from taciturn.kernel.privacy import Certificate
from taciturn.typing import HostArray

Ending = Literal["finished", "abandoned", "refused"]


class Packet(NamedTuple):
    """A message on its way: what it is about, and its bytes, an envelope."""

    subject: str
    payload: bytes


class Entry(NamedTuple):
    """One answer as the ledger has it: what a journal keeps of it, and no number of the answer."""

    local: int
    kind: int
    scale: float
    exponent: int
    rate: float
    batch: int


class Released(NamedTuple):
    """What a run releases."""

    weights: HostArray  # `(*shape)`
    # the centre of the rows that the weights are about, `(D,)`; None without one
    centre: HostArray | None = None
    # the sum of the agents' noised answers to the last question, `(S,)`; None without one
    totals: HostArray | None = None


class Outcome(NamedTuple):
    """How a run ended for a party.

    `ending`: "finished" with a model; "abandoned" by somebody else, or for want of answers;
    "refused" by this party.
    """

    ending: Ending
    line: str  # what happened and who can mend it, in one line that holds nothing of a record
    # `(*shape)`; of an abandoned run those so far, if the proposal releases them; else None
    model: Any = None
    certificate: Any = None  # `taciturn.kernel.privacy.Certificate`; None without a model
    centre: Any = None  # as of `Released`, and so are the totals
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
    """Where a run stands, in public facts."""

    round: int  # how many rounds this party has behind it, of how many
    rounds: int
    waiting_for: tuple[str, ...]  # names of those who are waited for
    seconds: float  # for how long


@runtime_checkable
class Party(Protocol):
    """What a transport needs to know of a party; only `receive` may block for long."""

    subjects: tuple[str, ...]  # those that it listens to; `*` stands for one token
    outcome: Outcome | None  # how the run ended; None while it goes on

    def start(self, now: float) -> list[Packet]:
        """Return its first packets. `now` is in seconds, from a clock that only goes forward."""
        return self.tick(now)

    def receive(self, packet: Packet, now: float) -> list[Packet]:
        """Return what it says to a packet; it may compute a round first."""

    def tick(self, now: float) -> list[Packet]:
        """Return what it repeats; called about every 0.1 s."""

    def progress(self) -> Progress:
        """Return where the run stands."""
        return Progress(0, 0, (), 0.0)

    @property
    def needed(self) -> bool:
        """Whether others may still ask for what it has: only then may its process not end."""
        return self.outcome is None

    def close(self) -> None:
        """Let go of journal and lock."""


# the longest step counted between two clock readings: the machine slept, or computed; seconds
_MAX_TICK = 1.0
RETRY_INTERVAL = 1.0  # between two requests for the same message
STATUS_INTERVAL = 5.0  # between two progress reports
BROADCAST_INTERVAL = 0.5  # between two repetitions that all receive
MAX_BROADCAST_REQUESTS = 8  # sent at once: what they bring serves all who lack it


@dataclass
class RetryTimer:
    """Time since the last expected message, and when to request it again.

    Each `tick` adds at most one second, so a machine that was suspended does not time out on
    waking.
    """

    elapsed: float = 0.0  # seconds
    _now: float | None = None
    _since_request: float = 0.0

    def tick(self, now: float) -> None:
        """Add the time since the last tick."""
        if self._now is not None:
            step = min(max(now - self._now, 0.0), _MAX_TICK)
            self.elapsed += step
            self._since_request += step
        self._now = now

    def reset(self) -> None:
        """Start again: an expected message arrived."""
        self.elapsed = self._since_request = 0.0

    def due(self, interval: float = RETRY_INTERVAL) -> bool:
        """Whether to request again; if so, the next time is an interval later."""
        if self._since_request < interval:
            return False
        self._since_request = 0.0
        return True


@dataclass
class BroadcastLimiter:
    """Allows one repetition in `BROADCAST_INTERVAL` seconds.

    If every request of A agents were answered to all of them, one slow round would bring A^2
    messages, and these the next slow round.
    """

    _last: float | None = None

    def allows(self, now: float) -> bool:
        """Whether to repeat something to all now; if so, not again within the interval."""
        if self._last is not None and 0 <= now - self._last < BROADCAST_INTERVAL:
            return False
        self._last = now
        return True
