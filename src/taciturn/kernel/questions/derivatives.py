"""First and second derivatives of an agent's loss at a point, in one answer."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Norm, SensitivityBound
from taciturn.kernel.questions.claims import coefficients
from taciturn.kernel.questions.loss import Loss, clip_coefficient
from taciturn.kernel.questions.oracle import Assumptions, Count, Point, Question, check_form
from taciturn.kernel.questions.statistics import features_of, packed, statistics_size
from taciturn.kernel.questions.sums import margins, over_rows, record_sum
from taciturn.kernel.records import Shard, Spec
from taciturn.kernel.records.grid import DIGITS, cut, whole_log2
from taciturn.typing import Array, HostArray


class Layout(eqx.Module):
    """The coefficients that are estimated in a model with several outputs, or with fixed ones.

    - `shared`: The features with one coefficient for all outputs.
    - `separate`: The features with a coefficient for each of `outputs`.

    All others keep their value. The P coefficients are the shared ones, then those of every output.
    """

    shared: tuple[int, ...] = eqx.field(static=True)
    separate: tuple[int, ...] = eqx.field(static=True)
    outputs: tuple[int, ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        """P, the number of coefficients."""
        return len(self.shared) + len(self.separate) * len(self.outputs)

    def rows(self, x: Float[Array, "M D"], factors: Float[Array, "M K"]) -> Float[Array, "M P"]:
        """Return Z'f of every record, Z the derivatives of its margins in the coefficients."""
        shared = jnp.sum(factors, axis=1, keepdims=True) * x[:, _places(self.shared)]
        separate = factors[:, _places(self.outputs), None] * x[:, None, _places(self.separate)]
        return jnp.concatenate([shared, separate.reshape(len(x), -1)], axis=1)

    def sums(
        self, rows: Shard, slopes: Float[Array, "M K"], bound: float, total: float
    ) -> Float[Array, "P"]:
        """Return the exact sum of Z'c over records, |c_k| <= `bound` and |sum_k c_k| <= `total`."""
        alike, each = (
            dataclasses.replace(rows, features=rows.features[:, _places(some)])
            for some in (self.shared, self.separate)
        )
        shared = record_sum(alike, clip_coefficient(jnp.sum(slopes, axis=1), total), total)
        separate = record_sum(each, slopes[:, _places(self.outputs)], bound)
        return jnp.concatenate([shared, separate.T.ravel()])

    def chosen(self, model: Float[Array, "D *K"]) -> Float[Array, "P"]:
        """Return the coefficients of a model; the shared ones from its first output."""
        wide = model.reshape(len(model), -1)
        separate = wide[_places(self.separate)][:, _places(self.outputs)]
        return jnp.concatenate([wide[_places(self.shared), 0], separate.T.ravel()])

    def spread(
        self, chosen: Float[Array, "P"], model: Float[Array, "D *K"]
    ) -> Float[Array, "D *K"]:
        """Return the model with other coefficients."""
        wide = model.reshape(len(model), -1)
        shared, separate = jnp.split(chosen, [len(self.shared)])
        wide = wide.at[_places(self.shared)].set(shared[:, None])
        places = np.ix_(self.separate, self.outputs)
        wide = wide.at[places].set(separate.reshape(len(self.outputs), len(self.separate)).T)
        return wide.reshape(model.shape)


class Derivatives(Question):
    r"""An agent's second derivatives and gradient at a point w, as one vector.

    With margins z_j = x_j'w, the coefficient c_j = l'(z_j, y_j) limited to |c_j| <= C and the
    weight h_j = l''(z_j, y_j) limited to 0 <= h_j <= L, the smoothness of the loss, the answer is

    .. math::
        \frac{1}{N} \sum_j \bigl( s \, h_j x_j x_j', \; c_j x_j, \; q \, c_j^2 \bigr).

    The matrix is packed as in `Statistics`: the upper triangle, off-diagonal entries times sqrt(2),
    so that norms agree. `of_scores`: h_j = c_j^2 <= C^2 instead, the second moments of gradients.
    The last number is there if q > 0.

    **Several margins.** With K margins c_j is a vector, h_j = F_j F_j' a matrix
    (`Loss.curvature_root`), and Z_j the K x P matrix of the derivatives of the margins in the
    coefficients (`layout`); x_j c_j and h_j x_j x_j' become Z_j'c_j and Z_j'h_j Z_j. If features
    x_a are shared and x_b are not, then

    .. math::
        |Z'c|^2 = |c|^2 |x_b|^2 + (\textstyle\sum_k c_k)^2 |x_a|^2, \qquad
        \operatorname{tr} Z'hZ = \operatorname{tr}(h) |x_b|^2 + |F'1|^2 |x_a|^2.

    Every record's term as a whole is scaled down to |Z'c| <= C R and tr Z'hZ <= L R^2, L the
    loss's `largest_trace`.

    **Guarantee.** |x_j| <= R is enforced when shards are packed; c_j is a function of the record
    alone (`coefficients`), and so is h_j, of a loss of this library. The matrices are sums of v_j
    v_j', where v_j is sqrt(s h_j) x_j, or a column of Z_j'F_j sqrt(s), truncated towards zero to
    the digits of a row: as for `Statistics` they are exact, positive semi-definite, and of norm at
    most their trace s L R^2. The other sums are exact as those of `Gradient` and `Tally`. The bound
    is that of `derivatives` (`taciturn.kernel.questions.bounds.derivatives`). With a loss that is
    not the library's it is a claim of its author.

    - `divisor`: N.
    - `second`: s, the weight of the second derivatives.
    - `squares`: q, the weight of the mean squared coefficient; 0 leaves it out.
    - `layout`: The coefficients; None for those of all features of a loss with one margin.
    """

    reads_over_rows: ClassVar[bool] = True
    holds_for_any_loss: ClassVar[bool] = False

    loss: Loss
    clip: float = eqx.field(static=True)
    divisor: float = eqx.field(static=True)
    second: float = eqx.field(static=True)
    layout: Layout | None = None
    squares: float = eqx.field(static=True, default=0.0, kw_only=True)
    of_scores: bool = eqx.field(static=True, default=False, kw_only=True)
    relative_multiplier: float = eqx.field(static=True, default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        # read once, as in `Gradient`
        self.clip = min(float(self.clip), float(self.loss.lipschitz))

    def __check_init__(self) -> None:
        checks.positive("clip", self.clip)
        checks.positive("divisor", self.divisor)
        checks.positive("second", self.second)
        checks.not_negative("squares", self.squares)
        if self.loss.outputs is not None and (self.layout is None or self.squares):
            raise InputError(
                f"{type(self.loss).__name__} has several margins; give the layout of its "
                "coefficients, and no weight of squares"
            )

    def slope(self, record_norm: float) -> float:
        """Return C, the bound on |Z'c| over R."""
        if self.layout is None or not self.layout.shared or self.loss.outputs is None:
            return self.clip
        return min(self.clip, largest_slope(self.loss, record_norm))

    def largest(self, record_norm: float) -> float:
        """Return the bound enforced on h_j: L, or C^2."""
        return self.slope(record_norm) ** 2 if self.of_scores else float(self.loss.largest_trace)

    @property
    def assumptions(self) -> Assumptions:
        """The loss, and the bound on a coefficient."""
        return Assumptions(self.loss, self.clip)

    @override
    def exact(self, shard: Shard, count: Count, query: Point) -> Float[Array, "S"]:
        """Return all parts."""
        outputs = () if self.loss.outputs is None else (self.loss.outputs,)
        check_form(query, Point, x=(*shard.features.shape[-1:], *outputs))
        size = shard.features.shape[-1] if self.layout is None else self.layout.size
        parts = over_rows(shard, self._sums, query.x, outputs=size)
        return jnp.concatenate([packed(parts[0]), *parts[1:]]) / self.divisor

    def _sums(self, rows: Shard, point: Array) -> tuple[Array, ...]:
        at, norm = margins(rows, point), None if rows.grid is None else rows.grid.record_norm
        slopes = coefficients(self.loss, at, rows.targets, self.clip)
        if norm is not None and self.layout is not None and at.ndim > 1:
            steep = self.layout.rows(rows.features, slopes)
            slopes = slopes * _shorter(jnp.sum(steep**2, axis=1), (self.slope(norm) * norm) ** 2)
        if at.ndim == 1:
            wide = slopes if self.of_scores else jnp.sqrt(self.weights(at, rows.targets))
            factors = wide[:, None, None]
        else:
            factors = (
                slopes[..., None] if self.of_scores else self.loss.curvature_root(at, rows.targets)
            )
        sums = (self._matrix(rows, factors), self._gradient(rows, slopes))
        if self.squares == 0:
            return sums
        squares = self.squares * slopes**2 * rows.mask
        if rows.grid is not None:
            digits = DIGITS - 1 - whole_log2(rows.grid.terms)
            squares = cut(squares, self.squares * self.clip**2, digits)
        return (*sums, jnp.sum(squares, keepdims=True))

    def _gradient(self, rows: Shard, slopes: Float[Array, "M *K"]) -> Float[Array, "P"]:
        if self.layout is None:
            return record_sum(rows, slopes, self.clip)
        total = float(self.loss.largest_sum)
        total = min(total, self.clip * math.sqrt(self.loss.outputs or 1))
        return self.layout.sums(rows, slopes.reshape(len(slopes), -1), self.clip, total)

    def _matrix(self, rows: Shard, factors: Float[Array, "M K R"]) -> Float[Array, "P P"]:
        """Return the sum of Z'F F'Z."""
        x, layout = rows.features, self.layout
        each = [factors[:, :, k] for k in range(factors.shape[2])]
        roots = [_finite(f * x if layout is None else layout.rows(x, f)) for f in each]
        several = self.loss.outputs is not None
        weight = math.sqrt(self.second) * rows.mask[:, None]
        if rows.grid is not None:
            norm = rows.grid.record_norm
            weight = weight * (1 - 1e-12)  # roots and products may be rounded upwards
            if several:
                traces = sum((jnp.sum(root**2, axis=1) for root in roots), jnp.zeros(len(x)))
                weight = weight * _shorter(traces, self.largest(norm) * norm**2)
            longest = math.sqrt(self.second * self.largest(norm)) * norm
            digits = rows.grid.digits - -(-whole_log2(len(roots)) // 2)
            cut_off = [cut(weight * root, longest, digits) for root in roots]
        else:
            cut_off = [weight * root for root in roots]
        total: Array = sum((root.T @ root for root in cut_off[1:]), cut_off[0].T @ cut_off[0])
        return total

    def weights(self, at: Float[Array, "M"], targets: Array) -> Float[Array, "M"]:
        """Return h_j of every record with one margin."""
        bent = self.loss.curvature(at, targets)
        return jnp.clip(jnp.nan_to_num(bent, nan=0.0), 0.0, float(self.loss.largest_trace))

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        """Return the bound of P coefficients, whose number matters in the 1-norm."""
        size = spec.shape[0] if self.layout is None else self.layout.size
        return super().bound(dataclasses.replace(spec, shape=(size,)), adjacency, norm=norm)

    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return `(P(P + 1)/2 + P,)`, and one more with squares; P = D without a layout."""
        size = features_of(model_shape) if self.layout is None else self.layout.size
        return (statistics_size(size) + (self.squares > 0),)

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return C, R, and the bounds of the other two parts."""
        largest = self.largest(spec.record_norm)
        if not math.isfinite(largest):
            raise InputError(
                f"nothing bounds the second derivative of {type(self.loss).__name__}; give a loss "
                "with a finite smoothness"
            )
        found = {
            "kind": "derivatives", "coefficient": self.slope(spec.record_norm),
            "row": spec.record_norm, "weight": self.second * largest, "divisor": self.divisor,
        }  # fmt: skip
        return found | ({"squares": self.squares * self.clip**2} if self.squares else {})


def _places(some: tuple[int, ...]) -> HostArray:
    return np.array(some, np.int64)


def largest_slope(loss: Loss, record_norm: float) -> float:
    """Return the supremum of |Z'c| over R where the one feature that is not shared is 1."""
    separate, shared = float(loss.lipschitz), float(loss.largest_sum)
    return math.sqrt(separate**2 + shared**2 * max(record_norm**2 - 1, 0)) / record_norm


def _shorter(squares: Float[Array, "M"], limit: float) -> Float[Array, "M 1"]:
    """Return the factor by which vectors of these squared norms are within the limit.

    It is computed with a relative margin of 1e-9, far above the rounding of a norm of 1e6 terms.
    """
    limit *= 1 - 1e-9
    return jnp.sqrt(jnp.where(squares > limit, limit / squares, 1.0))[:, None]


def _finite(rows: Float[Array, "M P"]) -> Float[Array, "M P"]:
    """Return rows with 0 for entries that are not finite."""
    return jnp.where(jnp.isfinite(rows), rows, 0.0)
