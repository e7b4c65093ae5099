"""How a released model does on records: one joint count of label, prediction and bin."""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.oracles.oracle import Oracle
from tacit.oracles.queries import Point
from tacit.oracles.sums import margins
from tacit.privacy import Adjacency, Norm, SensitivityBound, ZeroOut
from tacit.problems import Shard
from tacit.problems.grid import DIGITS, cut, whole_log2
from tacit.spec import Spec
from tacit.typing import Array, HostArray

BINS = 10


class Tally(Oracle):
    r"""Counts of an agent's records by label, prediction and bin of the predicted probability.

    The query is a model; every record adds 1 to one cell. Of two classes the bins are of the
    probability of the second, sigma(z), cut at k / B, and so the cut at 1/2 says which class is
    predicted: cells (label, bin), 2 B in all. Of K classes they are of the largest probability p,
    B bins of equal width from 1/K to 1: cells (label, prediction, bin), K^2 B in all. For a loss
    whose scores are no log-odds, sigma(z) is a fixed scale for them and nothing more.

    **Guarantee.** A record's cell is a function of that record and of the public model: margins are
    exact, whatever the other records are (`tacit.oracles.sums`), and what follows is computed for
    each record by itself. So the answer is a sum of m_i indicators e_c of cells, whole numbers that
    are added exactly. Replacing a record moves it by e_c - e_c', of norm

        sqrt(2)  (2 in the 1-norm),

    and setting one to zero by 1. Asking for the counts of labels, of predictions and of bins apart
    would move several indicators at once: by 2 for two of them. If all records of an agent may
    change, it is m_i times that, by the triangle inequality. A bounded change is a special case of
    replacing.

    **Persons.** With `rows_per_person` a person adds p, the shares of its rows in the cells:
    entries of at least 0 whose sum is at most 1 (`shares_of_persons`). Whatever its rows are
    replaced by, |p - p'|_2^2 <= |p|_2^2 + |p'|_2^2 <= 2, so all of them together move the answer by
    what one record moves it, and setting them to zero by |p|_2 <= 1. One row of several moves p by
    less.

    Attributes
    ----------
    classes
        K.
    bins
        B; even for two classes, so that 1/2 is a cut.
    rows_per_person
        How many places in a row a person has, where persons count once each; None where records do.

    Raises
    ------
    InputError
        If there are fewer than two classes, or the bins are not a positive even number.
    """

    classes: int = eqx.field(static=True)
    bins: int = eqx.field(static=True, default=BINS)
    rows_per_person: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        checks.at_least("classes", self.classes, 2)
        checks.at_least("half the number of bins", self.bins / 2, 1)
        if self.rows_per_person is not None:
            checks.at_least("rows_per_person", self.rows_per_person, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes of the cells, in row-major order: label, prediction unless K = 2, bin."""
        if self.classes == 2:
            return (2, self.bins)
        return (self.classes, self.classes, self.bins)

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of cells, whatever the model."""
        return (math.prod(self.shape),)

    @property
    @override
    def exact_on_machine(self) -> bool:
        return True

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Point) -> Float[Array, "S"]:
        cells = self.cells(margins(shard, query.x), shard.targets)
        counts = jnp.zeros(math.prod(self.shape), shard.mask.dtype)
        return counts.at[cells].add(shares_of_persons(shard.mask, self.rows_per_person))

    def cells(self, scores: Float[Array, "M *K"], targets: Array) -> Int[Array, "M"]:
        """Return the cell of every record."""
        if self.classes == 2:
            label = (targets > 0).astype(jnp.int32)
            cuts = jnp.asarray(cuts_of_scores(self.bins), scores.dtype)
            place = jnp.sum(scores[:, None] >= cuts, axis=1, dtype=jnp.int32)
            return label * self.bins + place
        last = self.classes - 1
        label = jnp.clip(targets.astype(jnp.int32), 0, last)
        guess = jnp.argmax(scores, axis=1).astype(jnp.int32)
        top = jnp.max(scores, axis=1, keepdims=True)
        largest = 1 / jnp.sum(jnp.exp(scores - top), axis=1)
        part = (largest * self.classes - 1) / last
        place = jnp.clip(jnp.floor(part * self.bins), 0, self.bins - 1).astype(jnp.int32)
        return (label * self.classes + guess) * self.bins + place

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        if isinstance(adjacency.relation, ZeroOut):
            change, what = 1.0, "one indicator is set to zero: 1"
        elif norm == "l1":
            change, what = 2.0, "one indicator is replaced by another: 2"
        else:
            change, what = math.sqrt(2), "one indicator is replaced by another: sqrt(2)"
        reason = f"sum of m_i indicators of one cell each; {what}"
        if self.rows_per_person is not None:
            reason = f"sum over persons of the mean indicator of a person's rows; {what}"
        terms = changed_terms(spec, adjacency, self.rows_per_person)
        return sum_bound(terms, adjacency, norm, change, reason)


def cuts_of_scores(bins: int) -> Float[HostArray, "_c"]:
    """Return the scores at which sigma(z) is 1/B, 2/B, ...; exactly 0 for 1/2."""
    shares = np.arange(1, bins) / bins
    cuts = np.log(shares) - np.log1p(-shares)
    cuts[bins // 2 - 1] = 0.0
    return cuts


def shares_of_persons(mask: Float[Array, " M"], rows_per_person: int | None) -> Float[Array, " M"]:
    """Return what each place counts: 1 over how many rows its person has; 0 in empty places.

    The mask itself where records count. Shares are cut towards zero to so few digits that their
    sums are exact in any order (`tacit.problems.grid`): those of a person add up to at most 1.

    Raises
    ------
    InputError
        If the places are not `rows_per_person` for each person.
    """
    if rows_per_person is None:
        return mask
    if mask.shape[0] % rows_per_person:
        raise InputError(
            f"{mask.shape[0]} places are not {rows_per_person} for each person; pack the records "
            "with their persons"
        )
    rows = jnp.sum(mask.reshape(-1, rows_per_person), axis=1, keepdims=True)
    each = jnp.where(rows > 0, 1 / jnp.maximum(rows, 1), 0.0)
    shares = jnp.repeat(each.ravel(), rows_per_person) * mask
    digits = DIGITS - 1 - whole_log2(mask.shape[0])
    return cut(shares, 1.0, digits).astype(mask.dtype)


def changed_terms(
    spec: Spec, adjacency: Adjacency, rows_per_person: int | None
) -> Float[HostArray, " A"]:
    """Return how many terms of a sum over records, or over persons, change together, at most.

    Raises
    ------
    InputError
        If persons are protected who have another number of places than those that are summed.
    """
    if rows_per_person is None:
        return adjacency.changed(spec.counts)
    if adjacency.unit == "person" and adjacency.rows_per_person != rows_per_person:
        raise InputError(
            f"a sum over persons with {rows_per_person} places each says nothing of persons with "
            f"{adjacency.rows_per_person}; give both the same number"
        )
    persons = tuple(math.ceil(count / rows_per_person) for count in spec.counts)
    return np.minimum(persons, np.inf if adjacency.unit == "agent" else 1.0)


def sum_bound(
    terms: Float[HostArray, " A"], adjacency: Adjacency, norm: Norm, change: float, reason: str
) -> SensitivityBound:
    """Return the bound on a sum of which so many terms change together, each by `change`."""
    if adjacency.unit == "agent" or np.max(terms) > 1:
        reason += ", times the number of terms that change together"
    return SensitivityBound((change * terms)[:, None, None], norm, adjacency, reason)
