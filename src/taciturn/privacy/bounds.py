"""Sensitivity: how far one unit can move an answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float

from taciturn import checks
from taciturn.errors import InputError
from taciturn.privacy.terms import Adjacency, ReplaceOne, ZeroOut
from taciturn.spec import Spec
from taciturn.typing import HostArray

Norm: TypeAlias = Literal["l1", "l2"]


@dataclass(frozen=True, eq=False)
class SensitivityBound:
    """A bound Delta on the change of every answer between neighbouring data sets.

    Raises `InputError` if a value is NaN or negative, the shape is not (A, T, E), or the norm is
    unknown.

    - `value`: Shape (A, T, E), float64, in the units of the answer; infinity means "not bounded".
    - `norm`: The norm the change is measured in.
    - `adjacency`: The relation and unit it holds for.
    - `derivation`: Why it holds, in words and formulas.
    """

    value: Float[HostArray, "A T E"]
    norm: Norm
    adjacency: Adjacency
    derivation: str

    def __post_init__(self) -> None:
        value = np.array(self.value, dtype=np.float64)
        if value.ndim != 3:
            raise InputError(
                f"a sensitivity bound has shape {value.shape}; it must be (agents, rounds, "
                "questions)"
            )
        if not bool(np.all(value >= 0)):
            raise InputError("a sensitivity bound is NaN or negative; give 0 or more, or infinity")
        _check_norm(self.norm)
        value.setflags(write=False)
        object.__setattr__(self, "value", value)


def mean_gradient_bound(
    spec: Spec, adjacency: Adjacency, *, norm: Norm, rounds: int, questions: int
) -> SensitivityBound:
    """Return the sensitivity of the mean of an agent's record gradients at a public point.

    With c = `spec.gradient_bound` and m_i records at agent i, the answer is
    (1/m_i) sum_j g_j with |g_j|_2 <= c, and in Euclidean norm

        Delta_i = 2c/m_i (replace_one, record),   c/m_i (zero_out, record),
        Delta_i = 2c     (replace_one, agent),    c     (zero_out, agent),
        Delta_i = K times that of a record (person with K places, K <= m_i).

    In the 1-norm each is sqrt(D) times as large, D = `spec.dimension`.

    Raises `InputError` if `norm` is unknown, or `rounds` or `questions` is not a whole number of at
    least 1.

    **Guarantee.** Neighbouring data sets of one agent share all terms but one, so the mean moves
    by |g - g'|_2/m <= (|g|_2 + |g'|_2)/m <= 2c/m when a record is replaced, and by |g|_2/m <= c/m
    when its contribution is set to zero. If every record may change, the triangle inequality over
    all m terms gives m times that, and over the K places of a person K times; a place that is
    filled or emptied is one whose contribution is set to zero, within the bound of a replaced one.
    A bounded change of a record, or of its target, is a special
    case of replacing it, so it has the same bound (loose when beta is small: a Lipschitz argument
    would be sharper). For the 1-norm, |v|_1 <= sqrt(D) |v|_2 by Cauchy and Schwarz.
    The bound holds at every query, so it holds for queries chosen after earlier answers.

    Returns
    -------
    SensitivityBound
        Of shape (A, `rounds`, `questions`), in the units of the gradient.
    """
    _check_norm(norm)
    tail = (checks.at_least("rounds", rounds, 1), checks.at_least("questions", questions, 1))
    share = adjacency.changed(spec.counts) / np.asarray(spec.counts, dtype=np.float64)
    factor = 1.0 if isinstance(adjacency.relation, ZeroOut) else 2.0
    stretch = math.sqrt(spec.dimension) if norm == "l1" else 1.0
    per_agent = factor * stretch * spec.gradient_bound * share
    value = np.broadcast_to(per_agent[:, None, None], (spec.agents, *tail))
    return SensitivityBound(value, norm, adjacency, _derivation(adjacency, norm))


def _derivation(adjacency: Adjacency, norm: Norm) -> str:
    if isinstance(adjacency.relation, ZeroOut):
        change, size = "one contribution of norm at most c is set to zero", "c"
    else:
        change, size = "one contribution g becomes g', |g - g'| <= |g| + |g'| <= 2c", "2c"
    special = "" if isinstance(adjacency.relation, ZeroOut | ReplaceOne) else _SPECIAL
    number = f"{size}{share_text(adjacency)}"
    root = ", times sqrt(dimension) since |v|_1 <= sqrt(D) |v|_2" if norm == "l1" else ""
    return f"mean of m_i gradients of norm at most c; {change}{special}: {number}{root}"


def share_text(adjacency: Adjacency) -> str:
    """Return which part of a mean one unit is, in words and formulas."""
    if adjacency.unit == "person":
        rows = adjacency.rows_per_person
        return f" * {rows}/m_i (the {rows} places of a person together)"
    return "/m_i" if adjacency.unit == "record" else " (all m_i terms of the mean)"


_SPECIAL = " (a bounded change is a special case of replacing)"


def _check_norm(norm: str) -> None:
    if norm not in get_args(Norm):
        raise InputError(f"norm is {norm!r}; it must be 'l1' or 'l2'")
