"""Patience: how long a party has waited, by a clock that may stand still or leap."""

from __future__ import annotations

from dataclasses import dataclass

# a gap between two looks at the clock counts as no more: the machine slept, or computed
_MOST = 1.0
# seconds between two wishes
AGAIN = 1.0
# seconds between two words on how far a party is
TELL = 5.0
# seconds between two repetitions that all hear, however many wish for one
SPARE = 0.5
# wishes that all hear, at once: what they bring serves all who lack it
MOST_WISHES = 8


@dataclass
class Waiting:
    """A stopwatch of one party; only differences of `now` count.

    Attributes
    ----------
    seconds
        Since what was waited for last came.
    """

    seconds: float = 0.0
    _seen: float | None = None
    _asked: float = 0.0

    def look(self, now: float) -> None:
        """Take note of the time."""
        if self._seen is not None:
            gap = min(max(now - self._seen, 0.0), _MOST)
            self.seconds += gap
            self._asked += gap
        self._seen = now

    def came(self) -> None:
        """Take note that something came that was waited for."""
        self.seconds = 0.0
        self._asked = 0.0

    def again(self, every: float = AGAIN) -> bool:
        """Whether it is time to ask again; if so, the next time is so many seconds later."""
        if self._asked < every:
            return False
        self._asked = 0.0
        return True


@dataclass
class Spacing:
    """Lets one repetition through in `SPARE` seconds.

    What is repeated to all serves all. If every wish of A agents were answered to all of them, one
    slow round would bring A^2 messages, and these the next slow round.
    """

    _last: float | None = None

    def allows(self, now: float) -> bool:
        """Whether it is time to repeat something to all; if so, the next time is `SPARE` later."""
        if self._last is not None and 0 <= now - self._last < SPARE:
            return False
        self._last = now
        return True
