"""The discrete Gaussian, drawn exactly.

    P(x) = exp(-x^2 / (2 s^2)) / sum_y exp(-y^2 / (2 s^2)),   x, y whole numbers.

**Method.** A rounded Gaussian is drawn by inversion and accepted with a probability that turns its
law into the discrete one. With Q the upper tail of N(0, 1), a fair sign, and U uniform on (0, 1/2),
the magnitude r = round(s Q^-1(U)) gives x the probability

    Q((|x| - 1/2) / s) - Q((|x| + 1/2) / s) = exp(-x^2 / (2 s^2)) I(|x|) / (s sqrt(2 pi)),
    I(x) = int_{-1/2}^{1/2} exp(-(2 x u + u^2) / (2 s^2)) du
         = int_{-1/2}^{1/2} exp(-u^2 / (2 s^2)) cosh(x u / s^2) du,

so that acceptance with probability I(0) / I(x), which is at most 1 since cosh is at least 1, leaves
exactly the discrete Gaussian. Since cosh(t) <= exp(t^2 / 2) and |u| <= 1/2,

    1 - I(0) / I(x) <= x^2 / (8 s^4):

one draw in 2^44 is rejected at s = 2^24.

**Exactness.** U has 95 binary digits at first and V, the number that decides acceptance, 32. Double
precision decides a draw where a bound on its own error shows that no further digit could change it;
any other draw, one in 2^20 at s = 2^24, is decided by further digits in higher precision, as many
as it takes. So the law is exact, except that the words come from a cipher (`Stream`), and under two
assumptions on numerical software: `scipy.special.ndtri` is within 2^-47 (1 + |z|) of the truth,
thirty times what tests measure, and mpmath's `erfc` has its working precision.

**Time.** More digits take a hundred times as long, so an observer of running times learns whether a
draw was undecided. That reveals little about the size of the noise: undecided are draws next to a
half-integer, from one in 2^21 at x = 0 to one in 2^18 at |x| = 8 s, and one in 2^47 in the tail.

Source of the law and its use: Canonne, Kamath and Steinke 2020.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Bool, Int64, UInt64
from mpmath import MPContext
from scipy.special import ndtri

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.noise.stream import Label, Stream, Use
from taciturn.typing import HostArray

# a number of mpmath, which has no types
Number: TypeAlias = Any

# The precision is a setting of the whole context, and mpmath caches constants without a lock: so
# this is a separate context, for one thread at a time. A caller with many numbers to decide holds
# the lock for all of them, since waiting for it costs more than deciding a number.
mp = MPContext()
LOCK = threading.RLock()

# working precision beyond the digits drawn so far, and the part of it that is trusted
_GUARD = 64
_MARGIN = 32


@dataclass
class Uniform:
    """A uniform number in 2^-bits [number, number + 1]: `bits` of its binary digits are known.

    `more` yields further words of 64 independent digits.
    """

    number: int
    bits: int
    more: Iterator[int]

    def extend(self) -> None:
        """Draw 64 further digits."""
        self.number, self.bits = (self.number << 64) | next(self.more), self.bits + 64

    def below(self, value: Callable[[], Number]) -> bool:
        """Return whether the number is below `value()`, drawing digits until they decide.

        The relative error of the value must be below 2^-(precision - 32).
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

        The function falls to 0; survival(0) > U is assumed.
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


Real = TypeVar("Real", float, HostArray)

_NDTRI = 2.0**-47  # times (1 + |z|): the assumed error of ndtri
_LEAST_TAIL = 2**48  # below this many units of 2^-96, more digits are drawn immediately
_ROUNDING = 2.0**-48  # above 1.26 (2^-52 + 1 / (2 _LEAST_TAIL)): see `_quick`
_DIGITS = np.uint64(2**32 - 1)  # of a word: further digits of U
_SURE = 2.0**20  # from this scale on only V < 2^-32 can reject
_MOST = 2.0**40
_CHUNK = 2**15  # draws at once: as many as stay in the cache


def discrete_gaussian(
    stream: Stream, labels: Sequence[Label], count: int, scale: float
) -> Int64[HostArray, "n count"]:
    """Return `count` independent draws for every label, one row per label.

    `scale`: s, in units of the lattice, from 1 to 2^40; the exact value of the float. Raises
    `InputError` if the scale is out of range.

    **Guarantee.** Every draw has exactly the law above (see the module), given uniform words.
    """
    return drawn_by_label(_fill, stream, labels, count, scale)


def drawn_by_label(
    fill: Callable[..., None], stream: Stream, labels: Sequence[Label], count: int, scale: float
) -> Int64[HostArray, "n count"]:
    """Return the draws that `fill(drawn, stream, labels, scale)` writes, in blocks of labels."""
    scale = checks.positive("scale", scale)
    if not 1 <= scale <= _MOST:
        raise InputError(f"the scale is {scale:g} steps of the lattice; it must be 1 to 2^40")
    drawn = np.empty((len(labels), count), np.int64)
    rows = max(1, _CHUNK // max(1, count))
    for first in range(0, len(labels), rows):
        some = slice(first, first + rows)
        fill(drawn[some], stream, labels[some], scale)
    return drawn


def _fill(
    drawn: Int64[HostArray, "n count"], stream: Stream, labels: Sequence[Label], scale: float
) -> None:
    """Write the draws of some answers into `drawn`."""
    count = drawn.shape[1]
    words = stream.words(labels, Use.NOISE, 2 * count).reshape(len(labels), count, 2)
    further = [stream.further(label) for label in labels]
    for start in range(0, count, _CHUNK):
        part = slice(start, start + _CHUNK)
        some = drawn[:, part]
        places = np.argwhere(_quick(words[:, part], scale, out=some))
        if len(places):
            with LOCK:
                for row, column in places:
                    at = (row, start + column)
                    first, second = words[at].tolist()
                    drawn[at] = _exact(first, second, scale, further[row])


def _quick(
    words: UInt64[HostArray, "n c 2"], scale: float, *, out: Int64[HostArray, "n c"]
) -> Bool[HostArray, "n c"]:
    """Write the draws of the words, in double precision, into `out`; return which are undecided.

    Of a pair of words the first is k, the first 63 digits of U, and a sign, its last bit; the other
    is V and 32 further digits of U. So U = (K + e) / 2^96 with e in (0, 1). The sum of floats that
    stands for K + 1/2 is within 1/2 + K 2^-52 of K + e, and z = Q^-1(U) has |dz/dU| = 1 / phi(z) <=
    1.26 / U for U < 1/2 (Q / phi falls in z), so that s z moves by at most 1.26 s (1 / (2 K) +
    2^-52), with K >= 2^48. Together with the error of `ndtri` and the rounding of the product this
    is `error`.
    """
    first, second = words[..., 0], words[..., 1]
    tails = (first >> np.uint64(1)) + ((second & _DIGITS) + 0.5) * 2.0**-32
    z = -ndtri(tails * 2.0**-64)
    size = scale * z
    whole = np.rint(size)
    error = scale * (_ROUNDING + _NDTRI) + (_NDTRI + 2.0**-51) * size
    undecided = np.abs(size - whole) > 0.5 - error
    undecided |= tails < _LEAST_TAIL * 2.0**-32
    decisions = second >> np.uint64(32)
    if scale >= _SURE:
        undecided |= decisions == 0
    else:
        undecided |= decisions < _doubtful(whole, scale)
    out[...] = np.where(first & np.uint64(1), -whole, whole)
    return undecided


def _doubtful(size: Real, scale: float) -> Real:
    """Return the bound below which V could reject, in units of 2^-32: 2^32 n^2 / (8 s^4) + 1."""
    return (1 + 2.0**-40) * 2.0**29 * size**2 / scale**4 + 1


def _exact(first: int, second: int, scale: float, further: Iterator[int]) -> int:
    """Return the draw that starts with these words, using as many further ones as it takes."""
    while True:
        decision, digits = divmod(second, 2**32)
        tail = Uniform((first >> 1 << 32) + digits, 96, further)
        while tail.number < _LEAST_TAIL:
            tail.extend()
        guess = round(-scale * float(ndtri(tail.middle())))
        # Q((n + 1/2) / s) <= U < Q((n - 1/2) / s); it stays with probability I(0) / I(n)
        size = tail.level(guess, lambda n: _upper(n - 0.5, scale))
        if (
            decision >= _doubtful(float(size), scale)
            or size == 0
            or not Uniform(decision, 32, further).below(partial(_rejection, size, scale))
        ):
            return -size if first & 1 else size
        first, second = next(further), next(further)


def _upper(distance: float, scale: float) -> Number:
    """Return Q(distance / s) to the working precision."""
    return mp.erfc(mp.mpf(distance) / mp.mpf(scale) / mp.sqrt(2)) / 2


def _rejection(size: int, scale: float) -> Number:
    """Return 1 - I(0) / I(n) to the working precision."""
    # against cancellation: the two differ by x^2 / (8 s^4), and the tails in each of them by 1 / s
    with mp.extraprec(32 + 8 * int(np.log2(scale))):
        return 1 - _integral(0, scale) / _integral(size, scale)


def _integral(size: int, scale: float) -> Number:
    """Return I(n) over s sqrt(2 pi)."""
    mass = _upper(size - 0.5, scale) - _upper(size + 0.5, scale)
    return mass * mp.exp((mp.mpf(size) / mp.mpf(scale)) ** 2 / 2)
