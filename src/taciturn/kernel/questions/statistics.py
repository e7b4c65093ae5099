"""Statistics that are asked for once: of linear regression, and of a model's errors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.questions.loss import Squared, clip_coefficient
from taciturn.kernel.questions.oracle import Assumptions, Count, Point, Question, check_form
from taciturn.kernel.questions.sums import margins, record_sum
from taciturn.kernel.records import Shard, Spec
from taciturn.kernel.records.grid import DIGITS, cut, whole_log2
from taciturn.typing import Array, HostArray


class Statistics(Question):
    """An agent's (X'X / m_i, X'y / m_i) as one vector; the query is ignored.

    The upper triangle of the symmetric matrix comes first, row by row, its off-diagonal entries
    times sqrt(2), so that the Euclidean norm of the vector is the norm of the matrix; then the D
    entries of X'y / m_i. In all D(D + 1)/2 + D numbers. `unpacked` inverts it.

    **Guarantee.** |x_j| <= R is enforced when shards are packed, and targets are clipped to [-Y, Y]
    here; the answer depends on no query. The bound is that of `moments`
    (`taciturn.kernel.questions.bounds.moments`). Both sums are exact
    (`taciturn.kernel.records.grid`: rows have at most half of the digits, so that 2 p + log2 m <=
    53); the roundings of the root of 2 and of the division are accounted for with the lattice of
    the noise.

    `target_bound` is Y; larger targets are clipped.
    """

    assumptions: ClassVar[Assumptions] = Assumptions(Squared())

    target_bound: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.positive("target_bound", self.target_bound)

    @override
    def exact(self, shard: Shard, count: Count, query: object) -> Float[Array, "S"]:
        """Return both parts."""
        x = shard.features
        y = clip_coefficient(shard.targets.astype(x.dtype), self.target_bound)
        gram = x.T @ (x * shard.mask[:, None])
        sums = jnp.concatenate([packed(gram), record_sum(shard, y, self.target_bound)])
        return sums / count

    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return `(D(D + 1)/2 + D,)` for a model of shape `(D,)`."""
        return (statistics_size(features_of(model_shape)),)

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return R and Y."""
        return {"kind": "moments", "row": spec.record_norm, "target": self.target_bound}


def statistics_size(features: int) -> int:
    """Return the length of the statistics of D features, D(D + 1)/2 + D."""
    return features * (features + 1) // 2 + features


def packed(matrix: Float[Array, "D D"]) -> Float[Array, "P"]:
    """Return the upper triangle of a symmetric matrix, off-diagonal entries times sqrt(2).

    Examples
    --------
    >>> packed(jnp.array([[1.0, 2.0], [2.0, 3.0]])).round(3).tolist()
    [1.0, 2.828, 3.0]
    """
    rows, columns = np.triu_indices(matrix.shape[0])
    weight = np.where(rows == columns, 1.0, math.sqrt(2)).astype(matrix.dtype)
    return matrix[rows, columns] * weight


def features_of(model_shape: tuple[int, ...]) -> int:
    """Return D of a model of shape `(D,)`; raise `InputError` for any other shape."""
    if len(model_shape) != 1:
        raise InputError(
            f"the model has shape {model_shape}; matrices of second moments are for a vector, so "
            "use a loss with one margin"
        )
    return model_shape[0]


BINS = 10


class _Sums(Question):
    """Sums over an agent's records, or persons, of vectors that are bounded at every query.

    `rows_per_person`: the number of consecutive places of a person, if each person counts once;
    None if each record does.
    """

    kind: ClassVar[str]  # the kind in certificates

    rows_per_person: int | None = eqx.field(static=True, default=None, kw_only=True)

    def __check_init__(self) -> None:
        if self.rows_per_person is not None:
            checks.at_least("rows_per_person", self.rows_per_person, 1)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the number of places of a person, if persons count."""
        each = self.rows_per_person
        return {"kind": self.kind} | ({} if each is None else {"rows_per_person": each})


class Tally(_Sums):
    """Counts of an agent's records by label, prediction and bin of the predicted probability.

    The query is a model; every record adds 1 to one cell. Of two classes the B bins, an even
    number, are of the probability of the second, sigma(z), cut at k / B, and so the cut at 1/2
    separates the predicted classes: cells (label, bin), 2 B in all. Of K classes they are of the
    largest probability p, B bins of equal width from 1/K to 1: cells (label, prediction, bin), K^2
    B in all. For a loss whose scores are not log-odds, sigma(z) only fixes a scale for them.

    *Offsets.* With a weight s (`offsets`) in (0, 1] the answer goes on with s times the sums of two
    numbers: per cell, of the offset t in [-1/2, 1/2] of the probability from the middle of its bin,
    in widths of the bin; and in all, of r = (b - a) / A in [0, 1]. Here b is half the squared error
    of the probabilities, sum_k (p_k - [y = k])^2 / 2: of two classes (p - y)^2, with a its least
    value in the cell and A the largest difference between values in one cell (`squares`); of K with
    a = 0 and A = 1. Probabilities are those without class weights: of two classes
    sigma(z - `shift`), shift = log(v_1 / v_0), and the ends of the bins are those of sigma(z),
    shifted likewise.

    **Guarantee.** A record's cell is a function of that record and of the public model: margins are
    exact (`taciturn.kernel.questions.sums`), and cells are computed record by record. So the answer
    is an exact sum of indicators of cells, or of shares of persons (`shares_of_persons`); the bound
    is that of `tally` (`taciturn.kernel.questions.bounds.sums`). t and r are clipped to their
    ranges and depend on the same; terms are cut towards zero so that their sums are exact
    (`taciturn.kernel.records.grid`).
    """

    kind: ClassVar[str] = "tally"

    classes: int = eqx.field(static=True)
    bins: int = eqx.field(static=True, default=BINS)
    offsets: float | None = eqx.field(static=True, default=None, kw_only=True)
    shift: float = eqx.field(static=True, default=0.0, kw_only=True)

    def __check_init__(self) -> None:
        checks.at_least("classes", self.classes, 2)
        if self.offsets is not None:
            checks.fraction("offsets", self.offsets)
        checks.at_least("half the number of bins", self.bins / 2, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes of the cells, in row-major order: label, prediction unless K = 2, bin."""
        if self.classes == 2:
            return (2, self.bins)
        return (self.classes, self.classes, self.bins)

    def axes(self) -> tuple[HostArray, HostArray, HostArray]:
        """Return label, prediction and bin of every cell of the counts."""
        where = np.indices(self.shape).reshape(len(self.shape), -1)
        if self.classes == 2:
            label, place = where
            return label, (place >= self.bins // 2).astype(int), place
        label, guess, place = where
        return label, guess, place

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of cells, whatever the model; with offsets twice that and 1."""
        cells = math.prod(self.shape)
        return (cells if self.offsets is None else 2 * cells + 1,)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the number of places of a person, if persons count, and the weight of offsets."""
        beside = {} if self.offsets is None else {"offsets": self.offsets}
        return super().facts(spec) | beside

    @override
    def exact(self, shard: Shard, count: Count, query: Point) -> Float[Array, "S"]:
        """Return the counts, and the weighted sums if there are any."""
        outputs = () if self.classes == 2 else (self.classes,)
        check_form(query, Point, x=(shard.features.shape[-1], *outputs))
        scores = margins(shard, query.x)
        cells = self.cells(scores, shard.targets)
        zeros = jnp.zeros(math.prod(self.shape), shard.mask.dtype)
        shares = shares_of_persons(shard.mask, self.rows_per_person)
        counts = zeros.at[cells].add(shares)
        if self.offsets is None:
            return counts
        terms = self.offsets * self.within(scores, cells) * shares
        if shard.grid is not None:
            terms = cut(terms, 1.0, DIGITS - 1 - whole_log2(shard.mask.shape[0]))
        return jnp.concatenate([counts, zeros.at[cells].add(terms[0]), jnp.sum(terms[1:], axis=1)])

    def ends(self) -> Float[HostArray, "_e"]:
        """Return the B + 1 ends of the bins."""
        if self.classes > 2:
            return np.linspace(1 / self.classes, 1, self.bins + 1)
        return np.array([0, *1 / (1 + np.exp(self.shift - cuts_of_scores(self.bins))), 1])

    def squares(self) -> Float[HostArray, "2 d"]:
        """Return the least and the largest half of the squared error in every cell, or bounds."""
        if self.classes > 2:
            return np.repeat([[0.0], [1.0]], math.prod(self.shape), axis=1)
        ends, label = self.ends(), np.arange(2)[:, None]
        return np.sort([((x - label) ** 2).ravel() for x in (ends[:-1], ends[1:])], axis=0)

    def within(self, scores: Float[Array, "M *K"], cells: Int[Array, "M"]) -> Float[Array, "2 M"]:
        """Return t and r of every record."""
        if self.classes == 2:
            judged = jax.nn.sigmoid(scores - self.shift)
            likely = jnp.stack([1 - judged, judged], axis=1)
        else:
            likely = jax.nn.softmax(scores, axis=1)
            judged = jnp.max(likely, axis=1)
        ends, place = jnp.asarray(self.ends(), scores.dtype), cells % self.bins
        offset = (judged - ends[place]) / (ends[place + 1] - ends[place]) - 0.5
        label = cells // (math.prod(self.shape) // self.classes)
        wrong = jnp.sum((likely - jax.nn.one_hot(label, self.classes)) ** 2, axis=1) / 2
        least, most = jnp.asarray(self.squares(), scores.dtype)
        rest = (wrong - least[cells]) / jnp.max(most - least)
        return jnp.stack([jnp.clip(offset, -0.5, 0.5), jnp.clip(rest, 0, 1)])

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


def cuts_of_scores(bins: int) -> Float[HostArray, "_c"]:
    """Return the scores at which sigma(z) is 1/B, 2/B, ...; exactly 0 for 1/2."""
    shares = np.arange(1, bins) / bins
    cuts = np.log(shares) - np.log1p(-shares)
    cuts[bins // 2 - 1] = 0.0
    return cuts


def shares_of_persons(mask: Float[Array, " M"], rows_per_person: int | None) -> Float[Array, " M"]:
    """Return the weight of each place: 1 over the number of rows of its person; 0 if empty.

    The mask itself if records count. Shares are truncated to so few digits that their sums are
    exact in any order: those of a person add up to at most 1.
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
    digits = DIGITS - 1 - whole_log2(mask.shape[0])  # every partial sum then has 53 digits at most
    return cut(shares, 1.0, digits).astype(mask.dtype)


class Counts(_Sums):
    r"""Counts of an agent's records in the cells of V public tables at once; the query is ignored.

    A row has one entry in [-1, 1] for each table, and table v has n_v = `sizes`[v] cells: the entry
    x is in cell min(max(floor(n_v (x + 1) / 2), 0), n_v - 1). The answer has the cells of the first
    table, then those of the second, and so on.

    **Guarantee.** Whatever the row, a record adds 1 to exactly one cell of every table, so the
    answer is an exact sum of vectors with V ones; the bound is that of `counts`
    (`taciturn.kernel.questions.bounds.sums`). The cell of an entry depends on its record alone. Of
    persons the answer adds shares (`shares_of_persons`), as that of `Tally`.
    """

    kind: ClassVar[str] = "counts"

    sizes: tuple[int, ...] = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.at_least("tables", len(self.sizes), 1)
        checks.at_least("cells of a table", min(self.sizes), 1)

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of cells of all tables, whatever the model."""
        return (sum(self.sizes),)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the number of tables, and of places of a person, if persons count."""
        return super().facts(spec) | {"tables": len(self.sizes)}

    @override
    def exact(self, shard: Shard, count: Count, query: object) -> Float[Array, "S"]:
        """Return the counts."""
        rows, tables = shard.features, len(self.sizes)
        if rows.shape[-1] != tables:
            raise InputError(
                f"rows have {rows.shape[-1]} entries and there are {tables} tables; give an entry "
                "for each table"
            )
        sizes = np.array(self.sizes)
        cells = jnp.nan_to_num(jnp.floor((rows + 1) / 2 * sizes.astype(rows.dtype)))
        places = jnp.clip(cells, 0, sizes - 1).astype(jnp.int32) + (np.cumsum(sizes) - sizes)
        shares = shares_of_persons(shard.mask, self.rows_per_person)
        zeros = jnp.zeros(sum(self.sizes), shard.mask.dtype)
        return zeros.at[places].add(jnp.broadcast_to(shares[:, None], places.shape))


class ClippedErrors(_Sums):
    r"""Sums over an agent's records of t, t^2 and t^4, t a clipped absolute error.

    The query is a model, y a target in [-1, 1], the range of targets as they are encoded, and

    .. math:: t = \min(|\max(-1, \min(z, 1)) - y|, 1),

    in units of half the range. The first two give the mean absolute and squared errors, and with
    the third their variances over records, t^2 - and t^4 - less the square of the mean.

    **Guarantee.** t and its powers lie in [0, 1], so the bound is that of `errors`
    (`taciturn.kernel.questions.bounds.sums`). t depends on its record and the public model alone
    (`taciturn.kernel.questions.sums`), and is cut towards zero to so few digits that the sums are
    exact in any order (`taciturn.kernel.records.grid`).
    """

    kind: ClassVar[str] = "errors"

    powers: ClassVar[tuple[int, ...]] = (1, 2, 4)

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of powers, whatever the model."""
        return (len(self.powers),)

    @override
    def exact(self, shard: Shard, count: Count, query: Point) -> Float[Array, "S"]:
        """Return the three sums."""
        check_form(query, Point, x=shard.features.shape[-1:])
        scores = jnp.clip(margins(shard, query.x), -1, 1)
        targets = jnp.clip(shard.targets.astype(scores.dtype), -1, 1)
        errors = jnp.minimum(jnp.abs(scores - targets), 1)
        terms = jnp.stack([errors**power for power in self.powers], axis=1)
        terms *= shares_of_persons(shard.mask, self.rows_per_person)[:, None]
        if shard.grid is not None:
            terms = cut(terms, 1.0, DIGITS - 1 - whole_log2(shard.mask.shape[0]))
        return jnp.sum(terms, axis=0)
