"""Uniform numbers on (0, 1) whose binary digits are drawn as they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from mpmath import MPContext

# a number of mpmath, which has no types
Number: TypeAlias = Any

# The precision is a setting of the whole context, and the constants that mpmath keeps are written
# without a lock: one context of our own, for one thread at a time. Who has many numbers to decide
# takes the lock for all of them, since to wait for it costs more than a number does.
mp = MPContext()
LOCK = threading.RLock()

# working precision beyond the digits drawn so far, and how much of it is relied on
_GUARD = 64
_MARGIN = 32


@dataclass
class Uniform:
    """A uniform number of which `bits` binary digits are known: it lies in [number, number + 1].

    Both ends are multiplied by 2^-bits. `more` yields further words of 64 independent digits.
    """

    number: int
    bits: int
    more: Iterator[int]

    def extend(self) -> None:
        """Draw 64 further digits."""
        self.number, self.bits = (self.number << 64) | next(self.more), self.bits + 64

    def below(self, value: Callable[[], Number]) -> bool:
        """Return whether the number is below `value()`, which is computed with growing precision.

        Digits are drawn until they decide. The value must be continuous in its rounding: its
        relative error is below 2^-(precision - 32).
        """
        while True:
            with LOCK, mp.workprec(self.bits + _GUARD):
                bound = value()
                slack = abs(bound) * mp.mpf(2) ** -(self.bits + _MARGIN)
                low, high = (mp.ldexp(self.number + end, -self.bits) for end in (0, 1))
                if high < bound - slack:
                    return True
                if low > bound + slack:
                    return False
            self.extend()

    def level(self, guess: int, survival: Callable[[int], Number]) -> int:
        """Return the n >= 0 with survival(n + 1) <= U < survival(n), searched from a guess.

        The function falls to 0; that it is above U at 0 is not looked at.
        """
        size = max(0, guess)
        while self.below(partial(survival, size + 1)):
            size += 1
        while size > 0 and not self.below(partial(survival, size)):
            size -= 1
        return size

    def middle(self) -> float:
        """Return the middle of the interval as a float, for a first guess only."""
        with LOCK, mp.workprec(self.bits + _GUARD):
            return float(mp.ldexp(2 * self.number + 1, -self.bits - 1))
