"""Patience: how long a party has waited, by a clock that may stand still or leap."""

from __future__ import annotations

from dataclasses import dataclass

# a gap between two looks at the clock counts as no more: the machine slept, or computed
_MOST = 1.0
# seconds between two wishes
AGAIN = 1.0
# seconds between two words on how far a party is
TELL = 5.0


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
