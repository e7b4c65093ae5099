"""How a released model does on records: one joint count of label, prediction and bin."""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from tacit import checks
from tacit.oracles.oracle import Oracle
from tacit.oracles.queries import Point
from tacit.oracles.sums import margins
from tacit.privacy import Adjacency, Norm, SensitivityBound, ZeroOut
from tacit.problems import Shard
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

    Attributes
    ----------
    classes
        K.
    bins
        B; even for two classes, so that 1/2 is a cut.

    Raises
    ------
    InputError
        If there are fewer than two classes, or the bins are not a positive even number.
    """

    classes: int = eqx.field(static=True)
    bins: int = eqx.field(static=True, default=BINS)

    def __check_init__(self) -> None:
        checks.at_least("classes", self.classes, 2)
        checks.at_least("half the number of bins", self.bins / 2, 1)

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

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Point) -> Float[Array, "S"]:
        cells = self.cells(margins(shard, query.x), shard.targets)
        counts = jnp.zeros(math.prod(self.shape), shard.mask.dtype)
        return counts.at[cells].add(shard.mask)

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
        return sum_bound(spec, adjacency, norm, change, reason)


def cuts_of_scores(bins: int) -> Float[HostArray, "_c"]:
    """Return the scores at which sigma(z) is 1/B, 2/B, ...; exactly 0 for 1/2."""
    shares = np.arange(1, bins) / bins
    cuts = np.log(shares) - np.log1p(-shares)
    cuts[bins // 2 - 1] = 0.0
    return cuts


def sum_bound(
    spec: Spec, adjacency: Adjacency, norm: Norm, change: float, reason: str
) -> SensitivityBound:
    """Return the bound on a sum over an agent's records of which one moves it by `change`."""
    terms = adjacency.changed(spec.counts)
    if adjacency.unit != "record":
        reason += ", times the number of terms that change together"
    return SensitivityBound((change * terms)[:, None, None], norm, adjacency, reason)
