"""Means over records of a coefficient times the row: gradients and their differences."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Float

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.questions.claims import coefficients
from taciturn.kernel.questions.loss import Loss, clip_coefficient
from taciturn.kernel.questions.oracle import Answer, Assumptions, Count, Point, Question, check_form
from taciturn.kernel.questions.sampling import AllRecords, Sampling, batches
from taciturn.kernel.questions.sums import margins, over_rows, record_sum
from taciturn.kernel.records import Shard, Spec
from taciturn.typing import Array


class Pair(NamedTuple):
    """A question about f_i at two points, both of the model's shape."""

    x: Float[Array, "*shape"]
    anchor: Float[Array, "*shape"]


# relative to the coefficient bound: the rounding of two coefficients stays below a sum's digits
LEAST_SPREAD = 2.0**-20


class Gradient(Question):
    """The mean of the clipped record gradients at a point, on all records or on a batch.

    With margins z_j = x_j' w and coefficient c_j = loss'(z_j, y_j), limited to |c_j| <= clip,

        g_i(w) = 1/n_i sum_j x_j c_j'                                                shape of w,

    over all records and n_i = m_i, or over a batch and n_i its expected size, q m_i or b
    (`MinibatchGradient`). With a `spread` s it is the change from an anchor a to a point x
    (`MinibatchDifference`), with the change of a coefficient clipped to

        |c_j(x) - c_j(a)| <= s.

    A record's gradient is the outer product of record and coefficient, so that clipping the
    coefficient bounds it and no per-record gradient is ever formed. A `Pair` without spread asks
    for the gradient at its first point.

    **Guarantee.** |x_j| <= R is enforced when shards are packed, and the bound on the coefficient
    here, for all targets and losses, as a function of the record alone (`coefficients`). Hence the
    bound is that of a `mean` (`taciturn.kernel.questions.bounds.mean`) with C = min(lipschitz,
    clip), or the least of s and twice that. Anchor and point are public. Sums are exact
    (`taciturn.kernel.questions.sums`), so the computed answer moves by no more; the one rounding of
    the division is accounted for with the lattice of the noise
    (`taciturn.kernel.privacy.mechanisms`), and the effect of gathering on the coefficients of a
    batch by `widened` (`taciturn.kernel.records.grid.gathering_slack`).

    - `clip`: A public bound on the norm of the coefficient; stored as min(lipschitz, clip).
    - `spread`: s, at least 2^-20 of the bound on a coefficient; None for the gradient at one point.
    - `relative_multiplier`: The noise multiplier relative to that of the plan.
    """

    reads_over_rows: ClassVar[bool] = True

    loss: Loss
    clip: float = eqx.field(static=True)
    sampling: Sampling = AllRecords()
    spread: float | None = eqx.field(static=True, default=None, kw_only=True)
    relative_multiplier: float = eqx.field(static=True, default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        # read once, so that the enforced bound is the one in the sensitivity, whatever a loss
        # returns
        self.clip = min(float(self.clip), float(self.loss.lipschitz))
        self.spread = None if self.spread is None else float(self.spread)

    def __check_init__(self) -> None:
        if self.spread is None:
            return
        checks.positive("clip", self.clip, allow_infinity=True)
        checks.positive("spread", self.spread, allow_infinity=True)
        if self.loss.outputs is not None:
            raise InputError(
                f"the difference of gradients is asked of losses with one margin, not of "
                f"{type(self.loss).__name__}"
            )
        if math.isfinite(self.clip) and self.spread < LEAST_SPREAD * self.clip:
            raise InputError(
                f"spread is {self.spread:g}, below 2^-20 of the coefficient bound {self.clip:g}: "
                "the last digits of a coefficient would count; raise spread, or lower clip"
            )

    @property
    def coefficient_bound(self) -> float:
        """C, the bound enforced on a record's coefficient, or on its change."""
        return self.clip if self.spread is None else min(self.spread, 2 * self.clip)

    @property
    def assumptions(self) -> Assumptions:
        """The loss, and the bound on a coefficient at one point."""
        return Assumptions(self.loss, self.clip)

    def exact(self, shard: Shard, count: Count, query: Point | Pair) -> Answer:
        """Return the sum over the records, divided by their expected number."""
        alone, bound = type(self.sampling) is not AllRecords, self.coefficient_bound

        def coefficient(rows: Shard, point: Array) -> Array:
            at = margins(rows, point)
            return coefficients(self.loss, at, rows.targets, self.clip, alone=alone)

        def summed(rows: Shard, x: Array, *anchor: Array) -> Answer:
            found = coefficient(rows, x)
            if anchor:
                found = clip_coefficient(found - coefficient(rows, *anchor), bound)
            return record_sum(rows, found, bound)

        shape = self.model_shape(shard)
        if type(query) is Pair:
            check_form(query, Pair, **dict.fromkeys(Pair._fields, shape))
        else:
            check_form(query, Point if self.spread is None else Pair, x=shape)
        points = query if self.spread is not None else query[:1]
        total: Array = over_rows(shard, summed, *points, outputs=self.loss.outputs or 1)
        mean: Array = total / self.sampling.expected_size(count)
        return mean

    def model_shape(self, shard: Shard) -> tuple[int, ...]:
        """Return the shape of a model of these records."""
        features, outputs = shard.features.shape[-1], self.loss.outputs
        return (features,) if outputs is None else (features, outputs)

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the facts of a mean: C, R, and what gathering adds."""
        # the change of an unbounded coefficient has digits beyond those of the spread
        coefficient = self.coefficient_bound if math.isfinite(self.clip) else math.inf
        found = {"kind": "mean", "coefficient": coefficient, "row": spec.record_norm}
        slack = self.sampling.slack(spec)
        return found | ({"widened": slack} if slack else {})


def MinibatchGradient(  # noqa: N802 - a kind of question
    loss: Loss, clip: float, rate: float, *, records: int | None = None
) -> Gradient:
    """Return the question about the gradient on a batch.

    Every record takes part independently with probability q (`rate`) in every answer; or, with
    `records`, the least number n of records that an agent has, the batch is of a fixed size b =
    max(1, round(q n)) (`FixedSizeBatches`). The expectation over the batch is the full gradient.
    Batches save computation but little noise: over many rounds amplification offsets the divisor q
    and little more, and the batch adds variance.

    **Guarantee.** The batch is drawn independently of data and noise, and only the noised answer
    depends on it. So an answer of scale s is the event `Sampled(GaussianAnswer(s / Delta_i), q)` in
    ledger, certificate and calibration, q right to within 2^-52 (`poisson_draw`). If all records of
    an agent may change, sampling hides nothing, and for a bounded change no accountant is known
    here: both are refused.
    """
    return Gradient(loss, clip, batches(rate, records))


def MinibatchDifference(  # noqa: N802 - a kind of question
    loss: Loss, clip: float, rate: float, *, spread: float, records: int | None = None
) -> Gradient:
    """Return the question about the change of the gradient, on a batch of `MinibatchGradient`.

    Unless the spread clips, the expectation over the batch is the full-batch gradient at x minus
    that at the anchor. Coefficients of constant sign, as those of the logistic loss, differ by at
    most `clip`, others by at most 2 `clip`; a smaller spread clips the change, and needs less
    noise.
    """
    return Gradient(loss, clip, batches(rate, records), spread=spread)
