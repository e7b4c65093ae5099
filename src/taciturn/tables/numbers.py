"""Texts as numbers, each by itself: no other text has a say in what one of them is read as."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from taciturn.typing import HostArray

LONGEST_NUMBER = 1000  # characters


def read_number(text: str) -> float:
    """Return the number that a text says, correctly rounded; NaN if it says none.

    It is what Python's `float` returns, but for what Python reads as a number and no table means by
    one: 1_000, digits of other scripts, and more than 1,000 characters.

    Examples
    --------
    >>> [read_number(text) for text in ("1.5", " 7 ", "1e1", "", "1_000", "0x1")]
    [1.5, 7.0, 10.0, nan, nan, nan]
    """
    text = text.strip()
    if len(text) > LONGEST_NUMBER or "_" in text or not text.isascii():
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_numbers(texts: Sequence[str] | HostArray) -> Float[HostArray, "N"]:
    """Return `read_number` of each text.

    Examples
    --------
    >>> read_numbers(("1.5", " 7 ", "x")).tolist()
    [1.5, 7.0, nan]
    """
    whole = "".join(texts)
    # with nothing to refuse, `float` reads what `read_number` reads, or raises
    if whole.isascii() and "_" not in whole and _all_short(texts, len(whole)):
        try:
            return np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            pass
    return np.fromiter(map(read_number, texts), np.float64, len(texts))


def _all_short(texts: Sequence[str] | HostArray, characters: int) -> bool:
    return characters <= LONGEST_NUMBER or max(map(len, texts)) <= LONGEST_NUMBER
