"""What an eavesdropper has: answers to questions at known points, and public facts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from taciturn.checks import at_least, positive
from taciturn.errors import InputError
from taciturn.network import Walk
from taciturn.typing import HostArray
from taciturn_papers.as_published import Links, recover, unprox_none


@dataclass(frozen=True, eq=False)
class Seen:
    """Mean gradients of one agent's records under a multinomial model, as read off a transcript.

    Attributes
    ----------
    points
        `(Q, D, K)`: the models at which they were computed.
    answers
        `(Q, D, K)`: the answers, with noise or without.
    records
        m, the public number of the agent's records.
    record_norm
        R, the public norm to which records are clipped.

    Raises
    ------
    InputError
        If the shapes disagree, nothing was answered, or a number is NaN or infinite.
    """

    points: Float[HostArray, "Q D K"]
    answers: Float[HostArray, "Q D K"]
    records: int
    record_norm: float

    def __post_init__(self) -> None:
        at_least("records", self.records, 1)
        positive("record_norm", self.record_norm)
        shape = np.shape(self.answers)
        if len(shape) != 3 or np.shape(self.points) != shape or not shape[0]:
            raise InputError(
                f"points have shape {np.shape(self.points)} and answers {shape}; both must be "
                "(answers, features, classes), with at least one answer"
            )
        if not (np.all(np.isfinite(self.points)) and np.all(np.isfinite(self.answers))):
            raise InputError("a point or an answer is not finite; leave unknown ones out")

    @property
    def side_by_side(self) -> Float[HostArray, "D QK"]:
        """All answers next to each other, `(D, Q K)`: every column is a sum of records."""
        return np.moveaxis(self.answers, 0, 1).reshape(self.answers.shape[1], -1)


def seen_on_links(  # noqa: PLR0913 - the public facts of a run
    links: Links, walk: Walk, alpha: float, agent: int, *, classes: int, records: int,
    record_norm: float,
) -> Seen:  # fmt: skip
    """Return what the links of RECAL without a regulariser reveal of one agent's gradients.

    The links are those of DP-RECAL as published or of the sound form with objective scale 1, in
    which a holder takes the same steps: `taciturn_papers.as_published.recover` computes from them
    what the holder used as its gradient, and at which point. For DP-RECAL that is the gradient
    itself, whatever the noise on the links; for the sound form the noised answer, which the
    certificate counts. The links do not reveal the last answer of an agent.

    Raises
    ------
    InputError
        If the agent takes part fewer than two times: the links then reveal nothing.
    """
    recovered = recover(links, walk, alpha, unprox_none)
    hops = np.flatnonzero(walk.holders == agent)[:-1]
    shape = (len(hops), -1, classes)
    if not len(hops):
        raise InputError(f"agent {agent} holds the token less than twice; take a longer walk")
    return Seen(
        recovered.copies[hops].reshape(shape),
        recovered.gradients[hops].reshape(shape),
        records,
        record_norm,
    )
