"""First and second derivatives of an agent's loss at a point, in one answer."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.questions.claims import coefficients
from taciturn.kernel.questions.loss import Loss
from taciturn.kernel.questions.oracle import Assumptions, Count, Point, Question, check_form
from taciturn.kernel.questions.statistics import features_of, packed, statistics_size
from taciturn.kernel.questions.sums import margins, over_rows, record_sum
from taciturn.kernel.records import Shard, Spec
from taciturn.kernel.records.grid import DIGITS, cut, whole_log2
from taciturn.typing import Array


class Derivatives(Question):
    r"""An agent's second derivatives and gradient at a point w, as one vector.

    With margins z_j = x_j'w, the coefficient c_j = l'(z_j, y_j) limited to |c_j| <= C and the
    weight h_j = l''(z_j, y_j) limited to 0 <= h_j <= L, the smoothness of the loss, the answer is

    .. math::
        \frac{1}{N} \sum_j \bigl( s \, h_j x_j x_j', \; c_j x_j, \; q \, c_j^2 \bigr).

    The matrix is packed as in `Statistics`: the upper triangle, off-diagonal entries times sqrt(2),
    so that norms agree. `of_scores`: h_j = c_j^2 <= C^2 instead, the second moments of gradients.
    The last number is there if q > 0.

    **Guarantee.** |x_j| <= R is enforced when shards are packed; c_j is a function of the record
    alone (`coefficients`), and so is h_j, of a loss of this library. The matrices are sums of v_j
    v_j', where v_j is sqrt(s h_j) x_j truncated towards zero to the digits of a row: as for
    `Statistics` they are exact, positive semi-definite, and |v_j v_j'| <= s L R^2. The other sums
    are exact as those of `Gradient` and `Tally`. The bound is that of `derivatives`
    (`taciturn.kernel.questions.bounds.derivatives`). With a loss that is not the library's it is a
    claim of its author.

    - `divisor`: N.
    - `second`: s, the weight of the second derivatives.
    - `squares`: q, the weight of the mean squared coefficient; 0 leaves it out.
    """

    reads_over_rows: ClassVar[bool] = True
    holds_for_any_loss: ClassVar[bool] = False

    loss: Loss
    clip: float = eqx.field(static=True)
    divisor: float = eqx.field(static=True)
    second: float = eqx.field(static=True)
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
        if self.loss.outputs is not None:
            raise InputError(
                f"second derivatives are asked of losses with one margin, not of "
                f"{type(self.loss).__name__}"
            )

    @property
    def largest(self) -> float:
        """The bound enforced on h_j: L, or C^2."""
        return self.clip**2 if self.of_scores else float(self.loss.smoothness)

    @property
    def assumptions(self) -> Assumptions:
        """The loss, and the bound on a coefficient."""
        return Assumptions(self.loss, self.clip)

    @override
    def exact(self, shard: Shard, count: Count, query: Point) -> Float[Array, "S"]:
        """Return all parts."""
        check_form(query, Point, x=shard.features.shape[-1:])
        parts = over_rows(shard, self._sums, query.x, outputs=shard.features.shape[-1])
        return jnp.concatenate([packed(parts[0]), *parts[1:]]) / self.divisor

    def _sums(self, rows: Shard, point: Array) -> tuple[Array, ...]:
        at = margins(rows, point)
        slopes = coefficients(self.loss, at, rows.targets, self.clip)
        bent = self.second * self.weights(at, rows.targets, slopes) * rows.mask
        roots = jnp.sqrt(bent)[:, None] * rows.features
        if rows.grid is not None:
            longest = math.sqrt(self.second * self.largest) * rows.grid.record_norm
            roots = cut(roots, longest, rows.grid.digits)
        sums = (roots.T @ roots, record_sum(rows, slopes, self.clip))
        if self.squares == 0:
            return sums
        squares = self.squares * slopes**2 * rows.mask
        if rows.grid is not None:
            digits = DIGITS - 1 - whole_log2(rows.grid.terms)
            squares = cut(squares, self.squares * self.clip**2, digits)
        return (*sums, jnp.sum(squares, keepdims=True))

    def weights(
        self, at: Float[Array, "M"], targets: Array, slopes: Float[Array, "M"]
    ) -> Float[Array, "M"]:
        """Return h_j of every record."""
        if self.of_scores:
            return slopes**2
        bent = self.loss.curvature(at, targets)
        return jnp.clip(jnp.nan_to_num(bent, nan=0.0), 0.0, self.largest)

    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return `(D(D + 1)/2 + D,)`, and one more with squares, for a model of shape `(D,)`."""
        return (statistics_size(features_of(model_shape)) + (self.squares > 0),)

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return C, R, and the bounds of the other two parts."""
        if not math.isfinite(self.largest):
            raise InputError(
                f"nothing bounds the second derivative of {type(self.loss).__name__}; give a loss "
                "with a finite smoothness"
            )
        found = {
            "kind": "derivatives", "coefficient": self.clip, "row": spec.record_norm,
            "weight": self.second * self.largest, "divisor": self.divisor,
        }  # fmt: skip
        return found | ({"squares": self.squares * self.clip**2} if self.squares else {})
