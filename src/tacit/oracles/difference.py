"""Variance reduction's questions: a snapshot gradient, and differences from it on batches."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.oracles.gradient import Gradient
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.placement import AddedNoise
from tacit.oracles.queries import Point
from tacit.oracles.sampling import Sampling, batches
from tacit.oracles.sums import margins, over_rows, record_sum
from tacit.privacy import Adjacency, Norm, SensitivityBound
from tacit.problems import Loss, Shard, clip_coefficient
from tacit.spec import Spec
from tacit.typing import Array

# of the coefficient bound: what two coefficients lose by rounding stays below the digits of a sum
LEAST_SPREAD = 2.0**-20


class Pair(NamedTuple):
    """A question about f_i at two points, both of the model's shape."""

    x: Float[Array, "*shape"]
    anchor: Float[Array, "*shape"]


class Snapshot(Gradient):
    """The full-batch gradient with a separate noise multiplier.

    Attributes
    ----------
    relative_multiplier
        Its multiplier over that of the plan's other questions.
    """

    reads_over_rows: ClassVar[bool] = True

    relative_multiplier: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        checks.positive("relative_multiplier", self.relative_multiplier)

    @property
    @override
    def noise(self) -> AddedNoise:
        return AddedNoise(self.relative_multiplier)

    @override
    def exact(
        self, shard: Shard, count: Float[Array, ""], query: Point | Pair
    ) -> Float[Array, "..."]:
        return super().exact(shard, count, Point(query.x))


class MinibatchDifference(Oracle):
    r"""The change of the gradient from an anchor a to a point x, on a Poisson batch.

    With the clipped coefficients c_j(x), c_j(a) of `Gradient` at both points,

        d_i(x, a) = 1/(q m_i) sum_{j in batch} x_j (c_j(x) - c_j(a))',    |c_j(x) - c_j(a)| <= s,

    the second bound enforced by clipping as well. While s does not bite, the expectation over the
    batch is the full-batch gradient at x minus that at a. At rate 1 all records take part.

    **Guarantee.** One record's term has norm at most R s / (q m_i), at every pair of points and
    whatever the targets, so on any one batch the answer moves by

        Delta_i = 2 R s / (q m_i)  (replace_one),      R s / (q m_i)  (zero_out);

    batches are drawn and accounted for as in `MinibatchGradient`. The anchor and the point are
    public, so it does not matter that both follow from earlier answers. A gradient at the anchor
    is another question and is charged for by itself.

    Attributes
    ----------
    loss, clip
        As for `Gradient`.
    spread
        s. Coefficients that always have one sign, as those of the logistic loss, differ by at most
        `clip`; others by at most 2 `clip`. Less clips the change, and needs less noise. At least
        2^-20 of the bound on a coefficient.
    rate
        q, in (0, 1].
    records
        As for `MinibatchGradient`.

    Raises
    ------
    InputError
        If a number is out of range; from `check`, as for `MinibatchGradient`.
    """

    reads_over_rows: ClassVar[bool] = True

    loss: Loss
    clip: float = eqx.field(static=True)
    spread: float = eqx.field(static=True)
    rate: float = eqx.field(static=True)
    records: int | None = eqx.field(static=True, default=None, kw_only=True)

    def __check_init__(self) -> None:
        checks.positive("clip", self.clip, allow_infinity=True)
        checks.positive("spread", self.spread, allow_infinity=True)
        batches(self.rate, self.records)
        full = self._full.coefficient_bound
        if self._bounded and self.spread < LEAST_SPREAD * full:
            raise InputError(
                f"spread is {self.spread:g}, below 2^-20 of the coefficient bound {full:g}: the "
                "last digits of a coefficient would count; raise spread, or lower clip"
            )

    @property
    @override
    def sampling(self) -> Sampling:
        return batches(self.rate, self.records)

    @property
    def coefficient_bound(self) -> float:
        """The bound that is enforced on the change of a record's coefficient."""
        return min(self.spread, 2 * self._full.coefficient_bound)

    @property
    @override
    def assumptions(self) -> Assumptions:
        return self._full.assumptions

    @property
    @override
    def exact_on_machine(self) -> bool:
        return True

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Pair) -> Float[Array, "..."]:
        total: Array = over_rows(shard, self._summed, *query, outputs=1)
        mean: Array = total / self.sampling.expected_size(count)
        return mean

    def _summed(self, shard: Shard, *points: Array) -> Array:
        here, there = (self._coefficient(shard, point) for point in points)
        change = clip_coefficient(here - there, self.coefficient_bound)
        return record_sum(shard, change, self.coefficient_bound)

    def _coefficient(self, shard: Shard, point: Array) -> Array:
        coefficient = self.loss.coefficient(margins(shard, point), shard.targets)
        return clip_coefficient(coefficient, self._full.coefficient_bound)

    @property
    def _full(self) -> Gradient:
        return Gradient(self.loss, self.clip)

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        if self.loss.outputs is not None:
            raise InputError(
                f"the difference of gradients is asked of losses with one margin, not of "
                f"{type(self.loss).__name__}"
            )
        full = self._full.bound(spec, adjacency, norm=norm)
        one = self.coefficient_bound / self._full.coefficient_bound if self._bounded else 1.0
        reason = (
            f"{full.derivation}; times {one:g}, what the coefficient may change by over what it "
            f"may be, and divided by the expected share of the batch, {self.rate:g}"
        )
        value = full.value * one / self.sampling.share(spec)[:, None, None]
        real = dataclasses.replace(full, value=value, derivation=reason)
        return self.sampling.widened(real, spec)

    @property
    def _bounded(self) -> bool:
        return bool(np.isfinite(self._full.coefficient_bound))
