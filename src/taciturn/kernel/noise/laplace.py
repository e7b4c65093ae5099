r"""The discrete Laplace law, drawn exactly.

    P(x) = (e^(1/t) - 1) / (e^(1/t) + 1) exp(-|x| / t),   x a whole number.

**Method.** It is the law of G - H with independent geometric numbers, P(G >= n) = exp(-n / t), and
G = floor(-t ln U) is one of them for U uniform on (0, 1). U has 96 binary digits at first; double
precision decides where a bound on its error shows that no further digit could change the result,
and more digits in higher precision decide the rest (`taciturn.kernel.noise.gaussian`). NumPy's
logarithm is taken to be within 2^-44 (1 + |ln U|) of the truth.

Source: Ghosh, Roughgarden and Sundararajan 2012; Canonne, Kamath and Steinke 2020.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int64, UInt32, UInt64

from taciturn.kernel.noise.gaussian import Uniform, drawn_by_label, mp
from taciturn.kernel.noise.stream import Label, Stream, Use
from taciturn.typing import HostArray

_LOG = 2.0**-44  # times (1 + |ln U|)
_LEAST = 2**44  # below this many units of 2^-96, more digits are drawn immediately


def discrete_laplace(
    stream: Stream, labels: Sequence[Label], count: int, scale: float
) -> Int64[HostArray, "n count"]:
    """Return `count` independent draws for every label, one row per label.

    `scale`: t, in units of the lattice, from 1 to 2^40; the exact value of the float. Raises
    `InputError` if the scale is out of range.

    **Guarantee.** Every draw has exactly the law of this module, given uniform words.
    """
    return drawn_by_label(_fill, stream, labels, count, scale)


def _fill(
    drawn: Int64[HostArray, "n count"], stream: Stream, labels: Sequence[Label], scale: float
) -> None:
    """Write differences of two geometric numbers for some answers into `drawn`."""
    count = drawn.shape[1]
    words = stream.words(labels, Use.NOISE, 3 * count)
    # 32 digits of each of the two numbers of a draw
    digits = np.ascontiguousarray(words[:, 2 * count :]).view(np.uint32)
    further = [stream.further(label) for label in labels]
    both, undecided = _quick(words[:, : 2 * count], digits, scale)
    for row, column in np.argwhere(undecided):
        number = (int(words[row, column]) << 32) + int(digits[row, column])
        both[row, column] = _exact(Uniform(number, 96, further[row]), scale)
    drawn[...] = both[:, :count] - both[:, count:]


def _quick(
    words: UInt64[HostArray, "n c"], digits: UInt32[HostArray, "n c"], scale: float
) -> tuple[Int64[HostArray, "n c"], Bool[HostArray, "n c"]]:
    """Return floor(-t ln U), U = (K + e) / 2^96, in double precision, and which are undecided.

    K is made of the words, its first 64 digits, and the others. The sum of floats that stands for
    K + 1/2 is within 1/2 + K 2^-52 of K + e, so that ln U is known to within 1 / (2 K) + 2^-51 with
    K >= 2^44, before the error of the logarithm.
    """
    numbers = words + (digits + 0.5) * 2.0**-32
    size = -scale * np.log(numbers * 2.0**-64)
    error = scale * (2.0**-44 + _LOG) + (_LOG + 2.0**-51) * np.abs(size)
    undecided = (np.abs(size - np.rint(size)) <= error) | (numbers < _LEAST * 2.0**-32)
    return np.floor(size).astype(np.int64), undecided


def _exact(uniform: Uniform, scale: float) -> int:
    """Return n >= 0 with exp(-(n + 1) / t) <= U < exp(-n / t)."""
    while uniform.number < _LEAST:
        uniform.extend()
    guess = int(-scale * float(np.log(uniform.middle())))
    return uniform.level(guess, lambda n: mp.exp(-mp.mpf(n) / mp.mpf(scale)))
