"""The gradient on rows around a centre, and the mean of the rows, from which a centre is learned.

A linear model learns slowly if all rows have nearly the same direction. With a centre c and
n = |x - c|, the rows

    x~ = ((x - c) / n, kappa)                                 kappa in the last column

are spread over the sphere, and have norm sqrt(1 + kappa^2) for *every* c. So c may be computed from
noised answers, here one noised mean of the rows, and the bound on a record's gradient is unchanged.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Norm, SensitivityBound
from taciturn.kernel.questions.claims import coefficients
from taciturn.kernel.questions.gradient import Gradient
from taciturn.kernel.questions.oracle import (
    Answer,
    Assumptions,
    Count,
    NoisePlacement,
    Oracle,
    Point,
    Question,
    check_form,
)
from taciturn.kernel.questions.sampling import AllRecords, Sampling
from taciturn.kernel.questions.sums import ROUNDING, margins, over_rows, record_sum
from taciturn.kernel.records import Shard, Spec
from taciturn.kernel.records.grid import cut
from taciturn.typing import Array, PyTree

# binary digits of a centre, and the most columns in which its products with rows are exact then:
# `margins` keeps 53 - p - log2(D) / 2 digits below the power of two above it, 19 or more (p <= 26)
_DIGITS, _MOST_COLUMNS = 18, 2**16
# records nearer to the centre than this share of the record norm are pulled towards it
NEAREST = 2.0**-6


class Around(NamedTuple):
    """The question `inner`, asked of the rows around `centre`, of shape (D,)."""

    inner: PyTree
    centre: Float[Array, "D"]


class RowMean(Question):
    """The mean of an agent's rows, whatever the query, in the shape of the model.

    With several columns (`outputs`; None for a vector) it is the first, and the others are 0.

    **Guarantee.** |x_j| <= R is enforced when shards are packed: a `mean` with C = 1
    (`taciturn.kernel.questions.bounds.mean`). The sum is exact (`taciturn.kernel.questions.sums`).
    """

    relative_multiplier: float = eqx.field(static=True, default=1.0)
    outputs: int | None = eqx.field(static=True, default=None)
    reads_over_rows: ClassVar[bool] = True

    def exact(self, shard: Shard, count: Count, query: object) -> Answer:
        """Return the mean, with columns of zeros."""
        del query
        # not cut where there is no grid, so that a run without noise adds in one order
        mean = (over_rows(shard, _sum, outputs=1) if shard.narrow else _sum(shard)) / count
        if self.outputs is None:
            return mean
        return jnp.zeros((len(mean), self.outputs), mean.dtype).at[:, 0].set(mean)

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the facts of a mean: 1 and R."""
        return {"kind": "mean", "coefficient": 1.0, "row": spec.record_norm}


def _sum(shard: Shard) -> Float[Array, "D"]:
    return record_sum(shard, jnp.ones_like(shard.mask), 1.0)


def clipped_centre(centre: Float[Array, "D"], record_norm: float) -> Float[Array, "D"]:
    """Return a centre scaled to norm at most R, truncated to few digits, with last entry 0.

    The true mean of rows is within R, so scaling a noised one brings it nearer. An entry that is
    no number, or of size 2^1000 and more, counts as 0.
    """
    # NaN fails the test; above 2^1022 XLA may flush the reciprocal of `largest` to 0
    wide = jnp.where(jnp.abs(centre) < jnp.float64(2.0**1000), centre.astype(jnp.float64), 0.0)
    largest = jnp.maximum(jnp.max(jnp.abs(wide)), 1e-300)
    direction = wide / largest  # whose norm cannot overflow
    size = jnp.linalg.norm(direction)
    inside = jnp.where(size * largest > record_norm, direction * (record_norm / size), wide)
    return cut(inside, record_norm, _DIGITS).at[-1].set(0)


# binary digits of packed rows, whose sums of squares are then exact in 2^16 columns
_DIGITS_OF_ROWS = 24
# binary digits of the rows around the centre, which single precision holds
_DIGITS_AROUND = 23
_SHRINK = 1 - 2.0**-48


class Recentred(Question):
    """Another question, asked of the rows around a centre.

    With the query (q, c), x without its last column, c limited to |c| <= R and n_j = max(|x_j - c|,
    R / 64), the question q is asked of the records

        x~_j = ((x_j - c) / n_j, kappa),        |x~_j| <= sqrt(1 + kappa^2).

    **Guarantee.** x~_j is a function of one record and of the public c, so two data sets that
    differ in one record still do so around every c, and an absent record has the row 0. The norm of
    x~_j is bounded for every record and centre, so the bound of the inner question, derived from
    that norm, holds.

    **Rounding.** Rows are truncated to 24 binary digits and centres to 18, so that differences and
    their squares are exact, and rows are shrunk by 1 - 2^-48 for two roundings; a row has the same
    bits in every slot of every batch (docs/explanation/rounding.md).

    - `inner`: The question; its noise must be added to the answer, and it may not protect targets.
    - `record_norm`, `constant`: R, the norm of packed rows, and kappa.
    """

    inner: Oracle
    record_norm: float = eqx.field(static=True)
    constant: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.positive("record_norm", self.record_norm)
        checks.not_negative("constant", self.constant)
        assumed = self.inner.assumptions.record_norm
        if assumed is not None and not assumed >= self.row_norm:
            raise InputError(
                f"{type(self.inner).__name__} assumes rows of norm {assumed:g}, and around a "
                f"centre they have the norm {self.row_norm:g}; build it for those"
            )
        if self.inner.protects_targets:  # such targets would be rounded
            raise InputError("no target is protected around a centre; ask it of packed rows")
        if not self.inner.noise.adds:
            raise InputError(
                f"the noise of {type(self.inner).__name__} is inside what is minimised, and "
                "its law is derived for packed rows; leave the centre out, or use pvp"
            )

    @property
    def row_norm(self) -> float:
        """sqrt(1 + kappa^2), the norm of a row around any centre."""
        return math.hypot(1.0, self.constant)

    @property
    def holds_for_any_loss(self) -> bool:  # type: ignore[override]
        """As for the inner question."""
        return isinstance(self.inner, Question) and self.inner.holds_for_any_loss

    @property
    def exact_on_machine(self) -> bool:  # type: ignore[override]
        """As for the inner question."""
        return self.inner.holds_on_machine()

    @property
    def assumptions(self) -> Assumptions:
        """The loss and rho of the inner question, and the norm of packed rows."""
        inner = self.inner.assumptions
        return Assumptions(inner.loss, record_norm=self.record_norm, rho=inner.rho)

    @property
    def sampling(self) -> Sampling:
        """That of the inner question."""
        return self.inner.sampling

    @property
    def noise(self) -> NoisePlacement:
        """That of the inner question."""
        return self.inner.noise

    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return that of the inner question."""
        return self.inner.answer_shape(model_shape)

    def exact(self, shard: Shard, count: Count, query: Around) -> Answer:
        """Return the inner question's answer on the rows around the centre."""
        self._check_centre(shard, query)
        rows = self._rows(shard, clipped_centre(query.centre, self.record_norm))
        grid = shard.grid and dataclasses.replace(shard.grid, record_norm=self.row_norm)
        around = dataclasses.replace(shard, features=rows, grid=grid)
        return self.inner.exact(around, count, query.inner)

    def _check_centre(self, shard: Shard, query: Around) -> None:
        centre = query.centre if type(query) is Around else None
        check_form(Point(centre), Point, x=shard.features.shape[-1:])  # type: ignore[arg-type]

    def _rows(self, shard: Shard, centre: Float[Array, "D"]) -> Float[Array, "M D"]:
        away = (cut(shard.features, self.record_norm, _DIGITS_OF_ROWS) - centre).at[:, -1].set(0)
        distance = jnp.sqrt(jnp.sum(away**2, axis=1, keepdims=True))
        rows = away / jnp.maximum(distance, NEAREST * self.record_norm) * _SHRINK
        rows = rows.at[:, -1].set(self.constant * _SHRINK)
        digits = _DIGITS_AROUND if shard.grid is None else min(_DIGITS_AROUND, shard.grid.digits)
        rows = jnp.where(shard.mask[:, None] > 0, cut(rows, self.row_norm, digits), 0)
        return rows.astype(shard.features.dtype)

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the facts of the inner question on rows of norm sqrt(1 + kappa^2)."""
        if isinstance(self.inner, Question):
            return self.inner.facts(around(spec, self.row_norm))
        return {"kind": "claimed"}

    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        """Return the bound of the inner question on rows of that norm."""
        if isinstance(self.inner, Question):
            return super().bound(spec, adjacency, norm=norm)
        return self.inner.bound(around(spec, self.row_norm), adjacency, norm=norm)


def is_full_batch(gradient: Gradient) -> bool:
    """Return whether a gradient is that of all records, at one point."""
    return type(gradient.sampling) is AllRecords and gradient.spread is None


class CentredGradient(Recentred):
    """The mean of the clipped record gradients around a centre: `Recentred` for `Gradient`.

    With the query (w, c), w a `Point`, n_j that of `Recentred`, margins

        z_j = (x_j - c)' w / n_j + kappa w_last

    and the coefficient b_j = loss'(z_j, y_j), limited to |b_j| <= C = min(lipschitz, clip),

        g_i(w, c) = (1/m_i) sum_j ((x_j - c) / n_j, kappa) b_j'                    shape of w.

    The rows are never formed. With a_j = b_j / n_j their sum is sum_j x_j a_j' - c sum_j a_j', so
    that an answer costs one more product with the rows than that of `Gradient`.

    **Guarantee.** One record's term has norm at most |x_j - c| |a_j| and kappa |b_j| in its last
    entry, at most C sqrt(1 + kappa^2) in all, for every w, c, record and target, since n_j is at
    least |x_j - c|. So the bound is that of a `mean` with R = sqrt(1 + kappa^2). Entries of a
    centre that are not finite count as 0, and a centre beyond R is scaled down: rules on the query.

    **Rounding.** Less than 2^-9 of the bound, which is widened by it, up to 2^34 records and in up
    to 2^16 columns; more are refused (docs/explanation/rounding.md).
    """

    inner: Gradient
    reads_over_rows: ClassVar[bool] = True

    def __check_init__(self) -> None:
        if not is_full_batch(self.inner):
            raise InputError(
                "sums around a centre are of all records at one point; ask a batch, or a "
                "difference, of the rows around it (Recentred)"
            )

    def exact(self, shard: Shard, count: Count, query: Around) -> Answer:
        """Return g_i(w, c)."""
        self._check_centre(shard, query)
        check_form(query.inner, Point, x=self.inner.model_shape(shard))
        centre = clipped_centre(query.centre, self.record_norm)
        of_rows, scaled, total_coefficient = over_rows(
            shard, self._sums, centre, query.inner.x, outputs=self.inner.loss.outputs or 1
        )
        of_centre = jnp.tensordot(centre, scaled, axes=0)
        total: Array = (of_rows - of_centre).at[-1].set(self.constant * total_coefficient)
        return total / count

    def _sums(
        self, shard: Shard, centre: Float[Array, "D"], x: Float[Array, "D *K"]
    ) -> tuple[Array, Array, Array]:
        """Return sum_j x_j a_j', sum_j a_j and sum_j b_j."""
        distance, mask = self._distances(shard, centre), shard.mask
        if x.ndim == 2:
            distance, mask = distance[:, None], mask[:, None]
        weights, bound = x.at[-1].set(0), self.inner.coefficient_bound
        along = margins(shard, weights) - centre @ weights.astype(centre.dtype)
        at = along / distance + self.constant * x[-1]
        coefficient = coefficients(self.inner.loss, at, shard.targets, bound)
        steepest = bound / (NEAREST * self.record_norm)
        scaled = coefficient / distance
        if shard.grid is not None:
            scaled = cut(scaled, steepest, shard.grid.weight_digits)
            coefficient = cut(coefficient, bound, shard.grid.weight_digits)
        of_rows = record_sum(shard, scaled, steepest)
        return of_rows, jnp.sum(scaled * mask, axis=0), jnp.sum(coefficient * mask, axis=0)

    def _distances(self, shard: Shard, centre: Float[Array, "D"]) -> Float[Array, "M"]:
        """Return n_j, rounded up."""
        square = (
            jnp.sum(shard.features**2, axis=1) - 2 * margins(shard, centre) + jnp.sum(centre**2)
        )
        distance = jnp.sqrt(jnp.maximum(square, 0.0) + 2.0**-49 * self.record_norm**2)
        return jnp.maximum(distance, NEAREST * self.record_norm)

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the facts of a mean, widened for rounding."""
        if spec.shape[0] > _MOST_COLUMNS:
            raise InputError(
                f"there are {spec.shape[0]} columns; products with a centre are exact in at most "
                f"{_MOST_COLUMNS}, so leave the centre out"
            )
        return {**super().facts(spec), "widened": ROUNDING}


def around(spec: Spec, row_norm: float) -> Spec:
    """Return the public facts of the same records on rows of another norm."""
    larger = row_norm / spec.record_norm
    return dataclasses.replace(
        spec,
        record_norm=row_norm,
        gradient_bound=spec.gradient_bound * larger,
        smoothness=spec.smoothness * larger**2,
    )
