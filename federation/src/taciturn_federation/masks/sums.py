"""The sum over all participants: the only thing that masked words tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64, UInt64

from taciturn.errors import InputError
from taciturn.typing import HostArray

# an answer is cut at 2^51 steps, and its noise is smaller
_MOST_EACH, _MOST = 2**52, 2**62


def opened(
    messages: Sequence[UInt64[HostArray, " n"]], participants: int
) -> Int64[HostArray, " n"]:
    """Return the sum of what all participants masked, as whole numbers.

    Parameters
    ----------
    participants
        How many there are in the set.

    Raises
    ------
    InputError
        If there is not a message from each, or the sum is larger than that of so many answers can
        be: somebody masked for another set, or not at all, and what is there looks random.

    Examples
    --------
    >>> opened([np.array([2**64 - 5], np.uint64), np.array([3], np.uint64)], 2)
    array([-2])
    """
    if len(messages) != participants:
        raise InputError(
            f"there are words of {len(messages)} participants out of {participants}; a sum is "
            "opened over all of them or not at all"
        )
    return opened_total(np.asarray(np.add.reduce(np.stack(messages))), participants)


def opened_total(words: UInt64[HostArray, "..."], participants: int) -> Int64[HostArray, "..."]:
    """Return the whole numbers of a sum of words over all participants.

    Raises
    ------
    InputError
        As `opened`, if the sum is too large.
    """
    total = words.view(np.int64)
    most = min(participants * _MOST_EACH, _MOST)
    if np.any(total > most) or np.any(total < -most):
        raise InputError(
            "the masks do not cancel in the sum over all participants: one of them masked for "
            "another set or another round, or not as the protocol says"
        )
    return total
