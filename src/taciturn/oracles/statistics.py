"""The sufficient statistics of linear regression, asked once."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.oracles.oracle import Assumptions, Oracle, Point
from taciturn.oracles.sums import margins, record_sum
from taciturn.privacy import Adjacency, Norm, SensitivityBound, ZeroOut, share_text
from taciturn.problems import Shard, Squared, clip_coefficient
from taciturn.problems.grid import DIGITS, cut, whole_log2
from taciturn.spec import Spec
from taciturn.typing import Array, HostArray


class Statistics(Oracle):
    """An agent's (X'X / m_i, X'y / m_i) as one vector; the query is ignored.

    The upper triangle of the symmetric matrix comes first, row by row, its off-diagonal entries
    times sqrt(2), so that the Euclidean norm of the vector is the norm of the matrix; then the D
    entries of X'y / m_i. In all D(D + 1)/2 + D numbers. `unpacked` undoes it.

    **Guarantee.** |x_j| <= R is enforced when shards are packed, and targets are clipped to [-Y, Y]
    here. Replacing (x, y) by (z, w) moves the vector by 1/m_i times the square root of

        |xx' - zz'|^2 + |xy - zw|^2 = |x|^4 + |z|^4 - 2 c^2 + |x|^2 y^2 + |z|^2 w^2 - 2 y w c,

    with c = x'z. By Cauchy and Schwarz the last three terms are a convex quadratic form in (y, w),
    hence largest at corners y, w = +-Y; the sign of y w can be absorbed in z, so take y w = -Y^2.
    For fixed c what remains grows with |x| and |z|, which also allow more values of c, so that |x|
    = |z| = R: it is 2 R^4 + 2 R^2 Y^2 - 2 c^2 + 2 Y^2 c with |c| <= R^2, largest at c = min(R^2,
    Y^2 / 2). Hence, exactly (and attained if D >= 2),

        Delta_i = sqrt(2) (R^2 + Y^2 / 2) / m_i   if Y <= sqrt(2) R,     2 R Y / m_i   otherwise,

    where bounding the two parts apart would give sqrt(2 R^4 + 4 R^2 Y^2) / m_i, at R = Y 15 % more.
    Zeroing a record moves it by |(xx', xy)| / m_i <= R sqrt(R^2 + Y^2) / m_i. If all records of an
    agent may change, it is m_i times that, by the triangle inequality, and K times for the K places
    of a person. A bounded change is a special case of replacing; so is a place that is filled or
    emptied, since R sqrt(R^2 + Y^2) is the smaller bound. In the 1-norm each is sqrt(D(D + 1)/2 +
    D) times as large. The answer depends on no query, so all of this holds for every query. Both
    sums are exact (`taciturn.problems.grid`: rows have at most half of the digits, so that 2 p +
    log2 m <= 53); the roundings of the root of 2 and of the division are paid for with the lattice
    of the noise.

    `target_bound` is Y; larger targets are clipped.
    """

    exact_on_machine: ClassVar[bool] = True

    target_bound: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.positive("target_bound", self.target_bound)

    @property
    @override
    def assumptions(self) -> Assumptions:
        return Assumptions(Squared())

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: object) -> Float[Array, "S"]:
        x = shard.features
        y = clip_coefficient(shard.targets.astype(x.dtype), self.target_bound)
        gram = x.T @ (x * shard.mask[:, None])
        sums = jnp.concatenate([packed(gram), record_sum(shard, y, self.target_bound)])
        return sums / count

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return `(D(D + 1)/2 + D,)` for a model of shape `(D,)`."""
        return (statistics_size(_features(model_shape)),)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        return {"kind": "moments", "row": spec.record_norm, "target": self.target_bound}

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        r, y = spec.record_norm, self.target_bound
        if isinstance(adjacency.relation, ZeroOut):
            change, why = r * math.hypot(r, y), "set to zero: R sqrt(R^2 + Y^2)"
        elif y <= math.sqrt(2) * r:
            change, why = math.sqrt(2) * (r**2 + y**2 / 2), "replaced: sqrt(2) (R^2 + Y^2/2)"
        else:
            change, why = 2 * r * y, "replaced: 2 R Y (Y > sqrt(2) R)"
        reason = f"mean of m_i pairs (xx', xy) with |x| <= R, |y| <= Y; one is {why}"
        if norm == "l1":
            change *= math.sqrt(statistics_size(_features(spec.shape)))
            reason += ", times the square root of the number of entries"
        share = adjacency.changed(spec.counts) / np.asarray(spec.counts, dtype=np.float64)
        reason += share_text(adjacency)
        value = np.broadcast_to((change * share)[:, None, None], (spec.agents, 1, 1))
        return SensitivityBound(value, norm, adjacency, reason)


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


def unpacked(
    statistics: Float[Array, "S"], features: int
) -> tuple[Float[Array, "D D"], Float[Array, "D"]]:
    """Return the symmetric matrix and the vector that `Statistics` put into one vector.

    Examples
    --------
    >>> matrix, vector = unpacked(jnp.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2)
    >>> matrix.round(3).tolist(), vector.tolist()
    ([[1.0, 1.414], [1.414, 3.0]], [4.0, 5.0])
    """
    rows, columns = np.triu_indices(features)
    weight = np.where(rows == columns, 1.0, 1 / math.sqrt(2)).astype(statistics.dtype)
    upper = statistics[: len(rows)] * weight
    matrix = jnp.zeros((features, features), statistics.dtype)
    matrix = matrix.at[rows, columns].set(upper).at[columns, rows].set(upper)
    return matrix, statistics[len(rows) :]


def _features(model_shape: tuple[int, ...]) -> int:
    if len(model_shape) != 1:
        raise InputError(
            f"the model has shape {model_shape}; the statistics of linear regression are for a "
            "vector, so use a loss with one margin"
        )
    return model_shape[0]


BINS = 10


class _Sums(Oracle):
    """Sums over an agent's records, or persons, of vectors that no query makes longer.

    `rows_per_person`: how many places in a row a person has, where persons count once each; None
    where records do.
    """

    exact_on_machine: ClassVar[bool] = True
    _kind: ClassVar[str]  # what a certificate calls the question

    rows_per_person: int | None = eqx.field(static=True, default=None, kw_only=True)

    def __check_init__(self) -> None:
        if self.rows_per_person is not None:
            checks.at_least("rows_per_person", self.rows_per_person, 1)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        each = self.rows_per_person
        return {"kind": self._kind} | ({} if each is None else {"rows_per_person": each})

    @abstractmethod
    def _change(self, adjacency: Adjacency, norm: Norm) -> tuple[float, str, str]:
        """Return how far one term moves the sum, why, and what a person's term is called."""

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        change, reason, of_persons = self._change(adjacency, norm)
        each, terms = self.rows_per_person, adjacency.changed(spec.counts)
        if each is not None:
            if adjacency.unit == "person" and adjacency.rows_per_person != each:
                raise InputError(
                    f"a sum over persons with {each} places each says nothing of persons with "
                    f"{adjacency.rows_per_person}; give both the same number"
                )
            persons = tuple(math.ceil(count / each) for count in spec.counts)
            terms = np.minimum(persons, np.inf if adjacency.unit == "agent" else 1.0)
            reason = of_persons
        if adjacency.unit == "agent" or np.max(terms) > 1:
            reason += ", times the number of terms that change together"
        return SensitivityBound((change * terms)[:, None, None], norm, adjacency, reason)


class Tally(_Sums):
    """Counts of an agent's records by label, prediction and bin of the predicted probability.

    The query is a model; every record adds 1 to one cell. Of two classes the B bins, an even
    number, are of the probability of the second, sigma(z), cut at k / B, and so the cut at 1/2 says
    which class is predicted: cells (label, bin), 2 B in all. Of K classes they are of the largest
    probability p, B bins of equal width from 1/K to 1: cells (label, prediction, bin), K^2 B in
    all. For a loss whose scores are no log-odds, sigma(z) is a fixed scale for them and nothing
    more.

    **Guarantee.** A record's cell is a function of that record and of the public model: margins are
    exact, whatever the other records are (`taciturn.oracles.sums`), and what follows is computed
    for each record by itself. So the answer is a sum of m_i indicators e_c of cells, whole numbers
    that are added exactly. Replacing a record moves it by e_c - e_c', of norm sqrt(2) (2 in the
    1-norm), and setting one to zero by 1. Asking for the counts of labels, of predictions and of
    bins apart would move several indicators at once: by 2 for two of them. If all records of an
    agent may change, it is m_i times that, by the triangle inequality. A bounded change is a
    special case of replacing.

    **Persons.** With `rows_per_person` a person adds p, the shares of its rows in the cells:
    entries of at least 0 whose sum is at most 1 (`shares_of_persons`). Whatever its rows are
    replaced by, |p - p'|_2^2 <= |p|_2^2 + |p'|_2^2 <= 2, so all of them together move the answer by
    what one record moves it, and setting them to zero by |p|_2 <= 1. One row of several moves p by
    less.
    """

    _kind: ClassVar[str] = "tally"

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
    def _change(self, adjacency: Adjacency, norm: Norm) -> tuple[float, str, str]:
        if isinstance(adjacency.relation, ZeroOut):
            change, what = 1.0, "one indicator is set to zero: 1"
        elif norm == "l1":
            change, what = 2.0, "one indicator is replaced by another: 2"
        else:
            change, what = math.sqrt(2), "one indicator is replaced by another: sqrt(2)"
        of_records = f"sum of m_i indicators of one cell each; {what}"
        return change, of_records, f"sum over persons of the mean indicator of their rows; {what}"


def cuts_of_scores(bins: int) -> Float[HostArray, "_c"]:
    """Return the scores at which sigma(z) is 1/B, 2/B, ...; exactly 0 for 1/2."""
    shares = np.arange(1, bins) / bins
    cuts = np.log(shares) - np.log1p(-shares)
    cuts[bins // 2 - 1] = 0.0
    return cuts


def shares_of_persons(mask: Float[Array, " M"], rows_per_person: int | None) -> Float[Array, " M"]:
    """Return what each place counts: 1 over how many rows its person has; 0 in empty places.

    The mask itself where records count. Shares are cut towards zero to so few digits that their
    sums are exact in any order: those of a person add up to at most 1.
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


class ClippedErrors(_Sums):
    r"""Sums over an agent's records of t, t^2 and t^4, t a clipped absolute error.

    The query is a model, y a target in [-1, 1], the range of targets as they are encoded, and

    .. math:: t = \min(|\max(-1, \min(z, 1)) - y|, 1),

    in units of half the range. The first two give the mean absolute and squared errors, and with
    the third their variances over records, t^2 - and t^4 - less the square of the mean.

    **Guarantee.** t and its powers lie in [0, 1]: a record adds a vector of [0, 1]^3 and moves the
    answer, replaced or set to zero, by at most sqrt(3) (3 in the 1-norm), which a change from t = 0
    to t = 1 attains. If all records of an agent may change, it is m_i times that. t depends on its
    record and the public model alone (`taciturn.oracles.sums`), and is cut towards zero to so few
    digits that the sums are exact in any order (`taciturn.problems.grid`).

    **Persons.** With `rows_per_person` a person adds the mean of these vectors over its rows, which
    is in [0, 1]^3 again: all its rows together move the answer by what one record moves it.
    """

    _kind: ClassVar[str] = "errors"

    powers: ClassVar[tuple[int, ...]] = (1, 2, 4)

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of powers, whatever the model."""
        return (len(self.powers),)

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Point) -> Float[Array, "S"]:
        scores = jnp.clip(margins(shard, query.x), -1, 1)
        targets = jnp.clip(shard.targets.astype(scores.dtype), -1, 1)
        errors = jnp.minimum(jnp.abs(scores - targets), 1)
        terms = jnp.stack([errors**power for power in self.powers], axis=1)
        terms *= shares_of_persons(shard.mask, self.rows_per_person)[:, None]
        if shard.grid is not None:
            terms = cut(terms, 1.0, DIGITS - 1 - whole_log2(shard.mask.shape[0]))
        return jnp.sum(terms, axis=0)

    @override
    def _change(self, adjacency: Adjacency, norm: Norm) -> tuple[float, str, str]:
        count = len(self.powers)
        change, size = (
            (float(count), f"{count}") if norm == "l1" else (math.sqrt(count), f"sqrt({count})")
        )
        tail = f"vectors (t, t^2, t^4) with 0 <= t <= 1; one of them changes: {size}"
        return change, f"sum of m_i {tail}", f"sum of the persons' mean {tail}"
