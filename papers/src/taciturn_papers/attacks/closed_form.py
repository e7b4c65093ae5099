"""Records recovered from the gradients of a multinomial model in closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from taciturn.errors import InputError
from taciturn.typing import HostArray
from taciturn_papers.attacks.seen import Seen


class RankOne(NamedTuple):
    """A record as recovered from a gradient.

    Attributes
    ----------
    record
        `(D,)`: the record, scaled to norm 1, or to its true scale if a constant column gives it.
    label
        Its class.
    leftover
        Share of the answers' norm that is not of rank one: 0 for one record without noise.
    """

    record: Float[HostArray, " D"]
    label: int
    leftover: float


def rank_one(seen: Seen, *, constant: tuple[int, float] | None = None) -> RankOne:
    """Return the record of an agent that has only one.

    The gradient of one record x of class y at W is the outer product x c', c = softmax(W'x) - e_y
    (`taciturn.problems.MultinomialLogistic`). All answers side by side, with one c each, also have
    rank one, and x is their left singular vector, which for noised answers is its most likely
    direction. Its sign follows from c, whose only negative entry is that of the class: the sum of
    the c's least entries must be negative. Since x c' = (a x) (c / a)', the scale of x is
    determined only if x has a column of known value.

    Parameters
    ----------
    constant
        (column, value) of such a column, for example the intercept; None if there is none.

    Raises
    ------
    InputError
        If the agent has more records (use `span` or `class_sums`), or all answers are 0.

    Examples
    --------
    >>> x, pull = np.array([3.0, 4.0, 1.0]), np.array([0.2, -0.5, 0.3])  # of class 1
    >>> seen = Seen(np.zeros((1, 3, 3)), np.outer(x, pull)[None], records=1, record_norm=6.0)
    >>> found = rank_one(seen, constant=(2, 1.0))
    >>> found.record.round(9).tolist(), found.label
    ([3.0, 4.0, 1.0], 1)
    """
    if seen.records != 1:
        raise InputError(f"the agent has {seen.records} records; use span or class_sums")
    left, sizes, right = np.linalg.svd(seen.side_by_side, full_matrices=False)
    if not sizes[0] > 0:
        raise InputError("all answers are 0; they reveal nothing about a record")
    weights = right[0].reshape(len(seen.answers), -1)
    # the negative entry of softmax - e_y outweighs every single positive one
    sign = -np.sign(np.sum(weights.min(axis=1) + weights.max(axis=1)))
    record = left[:, 0] * (sign or 1.0)
    label = int(np.argmin(np.sum(weights * (sign or 1.0), axis=0)))
    if constant is not None:
        column, value = constant
        record = record * (value / record[column])
    return RankOne(record, label, float(np.sqrt(1 - min(1.0, sizes[0] ** 2 / np.sum(sizes**2)))))


def span(seen: Seen) -> Float[HostArray, "D r"]:
    """Return an orthonormal basis of the span of an agent's records, as far as answers reveal it.

    Every column of a gradient (1/m) sum_j x_j c_j' lies in that span. One answer reveals at most
    K - 1 of its dimensions, since every c sums to 0 (at 0 at most one per class that occurs); Q
    answers at different points reveal up to min(m, Q (K - 1)). For noised answers, which have full
    rank, it is the span of that many leading singular vectors.
    """
    queries, _, classes = seen.answers.shape
    left, sizes, _ = np.linalg.svd(seen.side_by_side, full_matrices=False)
    rank = min(seen.records, queries * (classes - 1), int(np.sum(sizes > 1e-9 * sizes[0])))
    return left[:, :rank]


def outside(basis: Float[HostArray, "D r"], record: Float[HostArray, " D"]) -> float:
    """Return the share of a record's norm that lies outside a span: 0 if the span contains it."""
    rest = record - basis @ (basis.T @ record)
    return float(np.linalg.norm(rest) / np.linalg.norm(record))


def class_sums(seen: Seen) -> Float[HostArray, "K D"]:
    """Return the sum of the agent's records of every class, from its first answer, at W = 0.

    At W = 0 every softmax is 1/K, so with s_k the sum of the records of class k, S = sum_k s_k,

        m G_k = S / K - s_k,         hence   s_k = max_l m G_l - m G_k + min_l s_l,

    with maximum and minimum taken pixel by pixel. If no entry is negative and some class is absent,
    min_l s_l = 0: the sums are then exact, and a record that is alone in its class is recovered
    exactly, including its scale, however many records the agent has.

    Raises
    ------
    InputError
        If the first answer was not asked at 0.
    """
    if np.any(seen.points[0] != 0):
        raise InputError("the first answer was not asked at 0; class sums need an answer at 0")
    scaled = seen.records * seen.answers[0]
    sums: HostArray = (np.max(scaled, axis=1, keepdims=True) - scaled).T
    return sums
