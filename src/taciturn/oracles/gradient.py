"""The gradient of an agent's loss, on all of its records or on a batch."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.oracles.claims import coefficients
from taciturn.oracles.oracle import Assumptions, Oracle, Point
from taciturn.oracles.sampling import Sampling, batches
from taciturn.oracles.sums import ROUNDING, margins, over_rows, record_sum, with_rounding
from taciturn.privacy import Adjacency, Norm, SensitivityBound, mean_gradient_bound
from taciturn.problems import Loss, Problem, Shard, clip_coefficient
from taciturn.spec import Spec
from taciturn.typing import Array


class Pair(NamedTuple):
    """A question about f_i at two points, both of the model's shape."""

    x: Float[Array, "*shape"]
    anchor: Float[Array, "*shape"]


class Gradient(Oracle):
    """The mean of the clipped record gradients at a point.

    With margins z_j = x_j' w and coefficient c_j = loss'(z_j, y_j), limited to |c_j| <= clip,

        g_i(w) = (1/m_i) sum_j x_j c_j'                                              shape of w.

    A record's gradient is the outer product of record and coefficient, so that clipping the
    coefficient bounds it and no per-record gradient is ever formed.

    **Guarantee.** |x_j| <= R is enforced when shards are packed, and |c_j| <= min(lipschitz, clip)
    is enforced here, whatever the targets and the loss, as a function of the record alone
    (`coefficients`). Hence one record's term has norm at most c_1 / m_i with c_1 = R min(lipschitz,
    clip), whatever the query; `mean_gradient_bound` derives the sensitivity from that for every
    relation and unit. Sums are exact (`taciturn.oracles.sums`), so what is computed moves by no
    more; the one rounding of the division is paid for with the lattice of the noise
    (`taciturn.privacy.mechanisms`).

    `clip`: public bound on the norm of the coefficient; infinity leaves it as it is.
    """

    exact_on_machine: ClassVar[bool] = True
    reads_over_rows: ClassVar[bool] = True
    holds_for_any_loss: ClassVar[bool] = True

    loss: Loss
    clip: float = eqx.field(static=True)

    @property
    def coefficient_bound(self) -> float:
        """The bound that is enforced on the norm of a record's coefficient."""
        return min(self.clip, self.loss.lipschitz)

    @property
    @override
    def assumptions(self) -> Assumptions:
        return Assumptions(self.loss, self.coefficient_bound)

    @override
    def exact(
        self, shard: Shard, count: Float[Array, ""], query: Point | Pair
    ) -> Float[Array, "..."]:
        bound = self.coefficient_bound

        def summed(rows: Shard, x: Array) -> Float[Array, "..."]:
            coefficient = coefficients(self.loss, margins(rows, x), rows.targets)
            return record_sum(rows, clip_coefficient(coefficient, bound), bound)

        total: Array = over_rows(shard, summed, query.x, outputs=self.loss.outputs or 1)
        return total / count

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        return {"kind": "mean", "coefficient": self.coefficient_bound, "row": spec.record_norm}

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        enforced = spec.record_norm * self.coefficient_bound
        facts = dataclasses.replace(spec, gradient_bound=enforced)
        return mean_gradient_bound(facts, adjacency, norm=norm, rounds=1, questions=1)


class Snapshot(Gradient):
    """The full-batch gradient, of a `Pair` that at its first point, at another multiplier."""

    relative_multiplier: float = eqx.field(static=True, default=1.0)


class _OnBatch(Oracle):
    """What the questions about a batch have in common: its law, and the bound of a sum over it."""

    exact_on_machine: ClassVar[bool] = True

    loss: Loss
    clip: float = eqx.field(static=True)
    rate: float = eqx.field(static=True)
    records: int | None = eqx.field(static=True, default=None, kw_only=True)

    def __check_init__(self) -> None:
        batches(self.rate, self.records)

    @property
    @override
    def sampling(self) -> Sampling:
        return batches(self.rate, self.records)

    @property
    @override
    def assumptions(self) -> Assumptions:
        return self.full.assumptions

    @property
    def full(self) -> Gradient:
        """The question about all records."""
        return Gradient(self.loss, self.clip)

    @property
    def part(self) -> float:
        """How far a record's coefficient can move, over the bound on its size."""
        return 1.0

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        coefficient, widened = self.part * self.full.coefficient_bound, self.sampling.slack(spec)
        return {**self.full.facts(spec), "coefficient": coefficient, "widened": widened}

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        full = self.full.bound(spec, adjacency, norm=norm)
        reason = f"{full.derivation}; divided by the expected share of the batch, {self.rate:g}"
        if self.part != 1:
            reason += f"; times {self.part:g}, what a coefficient may change by over its size"
        value = full.value * self.part / self.sampling.share(spec)[:, None, None]
        real = dataclasses.replace(full, value=value, derivation=reason)
        return self.sampling.widened(real, spec)


class MinibatchGradient(_OnBatch):
    """The clipped record gradients of a Poisson batch, over the expected batch size.

    Every record takes part independently with probability q, afresh for every answer; or, with
    `records`, the batch is of a fixed size b, which takes the place of q m_i below
    (`FixedSizeBatches`). With the coefficients c_j of `Gradient`,

        g_i(w) = 1/(q m_i) sum_{j in batch} x_j c_j'                             shape of w,

    whose expectation over the batch is the answer of `Gradient`. The divisor q m_i is public; the
    size of the batch is not, and is never used. Batches save computation, hardly noise: over many
    rounds amplification makes up for the divisor q and little more, and the batch's variance comes
    on top.

    **Guarantee.** One record's term has norm at most c_1 / (q m_i), c_1 = R min(lipschitz, clip),
    whatever the query, so on any one batch the answer moves by

        Delta_i = 2 c_1 / (q m_i)  (replace_one),      c_1 / (q m_i)  (zero_out),

    and under replace_one that is twice the bound of one term, as `Sampled` requires. The door draws
    the batch with a separate key, independent of data and noise, and it leaves no trace but the
    noised answer. So an answer of scale s is the event `Sampled(GaussianAnswer(s / Delta_i), q)` in
    ledger, certificate and calibration, q right to within 2^-52 (`poisson_draw`). The sum is exact
    whatever slots the records stand in; what gathering can do to the coefficients is added to the
    bound (`taciturn.problems.grid.gathering_slack`). If all records of an agent may change,
    sampling hides nothing, and for a bounded change no accountant is known here: both are refused.

    Attributes
    ----------
    rate
        q, in (0, 1].
    records
        None for Poisson batches; for batches of a fixed size n, the least number of records that an
        agent has.
    """

    reads_over_rows: ClassVar[bool] = True

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Point) -> Float[Array, "..."]:
        """Return the sum over the batch divided by the expected size of one."""
        return self.full.exact(shard, self.sampling.expected_size(count), query)


# of the coefficient bound: what two coefficients lose by rounding stays below the digits of a sum
LEAST_SPREAD = 2.0**-20


class MinibatchDifference(_OnBatch):
    """The change of the gradient from an anchor a to a point x, on a batch of `MinibatchGradient`.

    With the clipped coefficients c_j(x), c_j(a) of `Gradient` at both points,

        d_i(x, a) = 1/(q m_i) sum_{j in batch} x_j (c_j(x) - c_j(a))',    |c_j(x) - c_j(a)| <= s,

    the second bound enforced by clipping as well. While s does not bite, the expectation over the
    batch is the full-batch gradient at x minus that at a.

    **Guarantee.** One record's term has norm at most R s / (q m_i), at every pair of points and
    whatever the targets, so on any one batch the answer moves by

        Delta_i = 2 R s / (q m_i)  (replace_one),      R s / (q m_i)  (zero_out);

    batches are drawn and accounted for as in `MinibatchGradient`. Anchor and point are public, even
    where both follow from earlier answers. A gradient at the anchor is a question of its own.

    `spread`: s, at least 2^-20 of the bound on a coefficient. Coefficients that always have one
    sign, as those of the logistic loss, differ by at most `clip`; others by at most 2 `clip`. Less
    clips the change, and needs less noise.
    """

    reads_over_rows: ClassVar[bool] = True

    spread: float = eqx.field(static=True, kw_only=True)

    def __check_init__(self) -> None:
        checks.positive("clip", self.clip, allow_infinity=True)
        checks.positive("spread", self.spread, allow_infinity=True)
        full = self.full.coefficient_bound
        if np.isfinite(full) and self.spread < LEAST_SPREAD * full:
            raise InputError(
                f"spread is {self.spread:g}, below 2^-20 of the coefficient bound {full:g}: the "
                "last digits of a coefficient would count; raise spread, or lower clip"
            )

    @property
    def coefficient_bound(self) -> float:
        """The bound that is enforced on the change of a record's coefficient."""
        return min(self.spread, 2 * self.full.coefficient_bound)

    @property
    @override
    def part(self) -> float:
        full = self.full.coefficient_bound
        return self.coefficient_bound / full if np.isfinite(full) else 1.0

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Pair) -> Float[Array, "..."]:
        def coefficient(rows: Shard, point: Array) -> Array:
            found = self.loss.coefficient(margins(rows, point), rows.targets)
            return clip_coefficient(found, self.full.coefficient_bound)

        def summed(rows: Shard, x: Array, anchor: Array) -> Array:
            change = coefficient(rows, x) - coefficient(rows, anchor)
            limited = clip_coefficient(change, self.coefficient_bound)
            return record_sum(rows, limited, self.coefficient_bound)

        total: Array = over_rows(shard, summed, *query, outputs=1)
        mean: Array = total / self.sampling.expected_size(count)
        return mean

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        if self.loss.outputs is not None:
            raise InputError(
                f"the difference of gradients is asked of losses with one margin, not of "
                f"{type(self.loss).__name__}"
            )
        return super().bound(spec, adjacency, norm=norm)


# larger queries are answered at the neutral one: rounding could exceed a record's part
LARGEST = 1e7


class Step(NamedTuple):
    """A question about prox_{step r}(point - (g + slope) / curvature) within the constraint.

    g is the gradient of f_i at `point`, `slope` that of everything public that is minimised too, of
    the model's shape; curvature and step are above 0, and the step need not be 1 / curvature.
    """

    point: Float[Array, "..."]
    slope: Float[Array, "..."]
    curvature: Float[Array, ""]
    step: Float[Array, ""]


class ProjectedStep(Oracle):
    """The gradient mapping of a constrained step, in units of the gradient.

    With g the clipped mean gradient of `Gradient` at the query's point x, slope s, curvature c and
    v = x - (g + s) / c, the answer is

        G_i = c (x - prox_{step r}(v))                               shape of w,

    so that x - G_i / c is the projected step, and G_i = g + s without constraint and regulariser.
    Noise of scale sigma on G_i is noise of scale sigma / c on the point: the output perturbation
    (3.4) of Ryu & Kim 2023, whose answer is the point itself, with sensitivity Delta_g / (rho +
    1/eta). In units of the gradient the bound does not depend on the schedule.

    **Guarantee.** A proximal map of a convex function within a convex set does not expand, so that
    |G - G'| <= c |v - v'| = |g - g'| for *every* point, slope, curvature and step: the sensitivity
    is that of `Gradient`, derived in `mean_gradient_bound`. In the 1-norm a projection may expand,
    but |G - G'|_1 <= sqrt(d) |G - G'|_2, which is how that bound arises in the first place.

    **Rounding.** A query with c |x| + |s| + c |P| beyond U = 2^43 c_1 / (m (d + 32)) - c_1, P =
    prox_{step r}(x - s / c), or beyond 1e7, or that is not a number, is answered with 0: a rule
    that sees the query and public numbers only. Within it rounding adds less than 2^-9 of the
    bound, which has that on top (docs/explanation/rounding.md).
    """

    problem: Problem
    clip: float = eqx.field(static=True)

    @property
    def gradient(self) -> Gradient:
        """The question about the gradient of the step."""
        return Gradient(self.problem.loss, self.clip)

    @property
    @override
    def exact_on_machine(self) -> bool:
        """Whether the set and the regulariser have a closed form."""
        return self.problem.closed_form

    @property
    @override
    def assumptions(self) -> Assumptions:
        return self.gradient.assumptions

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Step) -> Float[Array, "..."]:
        gradient = self.gradient.exact(shard, count, Point(query.point))
        wide = Step(*(part.astype(jnp.float64) for part in query))
        reach = jnp.asarray(LARGEST)
        if shard.grid is not None:  # U; elsewhere answers are not exact
            term = shard.grid.record_norm * self.gradient.coefficient_bound
            parts = count * (wide.point.size + 32)
            reach = jnp.minimum(2.0**43 * term / parts - term, LARGEST)
        small = _size(wide.point, wide.slope, wide.curvature) <= reach  # false for a NaN
        positive = (wide.curvature >= 1 / LARGEST) & (wide.curvature <= LARGEST**2)
        usable = small & positive & (wide.step >= 0) & (wide.step <= LARGEST)
        zero, one = jnp.zeros_like(wide.point), jnp.ones_like(wide.curvature)
        x, slope, curvature, step = (
            jnp.where(usable, part, neutral)
            for part, neutral in zip(wide, (zero, zero, one, one), strict=True)
        )
        without_records = self.problem.prox(x - slope / curvature, step)
        usable &= _size(x, slope, curvature) + _size(without_records, 0.0, curvature) <= reach
        ahead = x - (gradient.astype(jnp.float64) + slope) / curvature
        mapping = curvature * (x - self.problem.prox(ahead, step))
        answer: Array = jnp.where(usable, mapping, 0.0).astype(gradient.dtype)
        return answer

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        return {**self.gradient.facts(spec), "widened": ROUNDING}

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        return with_rounding(self.gradient.bound(spec, adjacency, norm=norm))


def _size(point: Array, slope: Array | float, curvature: Array) -> Array:
    """Return c |x| + |s|."""
    size: Array = curvature * jnp.linalg.norm(point) + jnp.linalg.norm(slope)
    return size
