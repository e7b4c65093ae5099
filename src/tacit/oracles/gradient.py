"""The gradient of an agent's loss, on all of its records or on a batch."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import equinox as eqx
from jaxtyping import Float
from typing_extensions import override

from tacit.oracles.claims import coefficients
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.queries import Point
from tacit.oracles.sampling import Sampling, batches
from tacit.oracles.sums import margins, over_rows, record_sum
from tacit.privacy import Adjacency, Norm, SensitivityBound, mean_gradient_bound
from tacit.problems import Loss, Shard, clip_coefficient
from tacit.spec import Spec
from tacit.typing import Array


class Gradient(Oracle):
    """The mean of the clipped record gradients at a point.

    With margins z_j = x_j' w and coefficient c_j = loss'(z_j, y_j), limited to |c_j| <= clip,

        g_i(w) = (1/m_i) sum_j x_j c_j'                                              shape of w.

    Clipping acts on the coefficient (a record's gradient is its outer product with the record), so
    no per-record gradient is ever formed; the cost is two matrix products.

    **Guarantee.** |x_j| <= R is enforced when shards are packed, and |c_j| <= min(lipschitz, clip)
    is enforced here, whatever the targets: the Lipschitz constant is a bound too, not a belief. A
    coefficient is a function of its record alone, whatever the loss (`coefficients`).
    Hence one record's term has norm at most c_1 / m_i with c_1 = R min(lipschitz, clip), whatever
    the query. `mean_gradient_bound` derives the sensitivity from that for every relation and unit.
    Sums are exact (`tacit.oracles.sums`), so what is computed moves by no more than that; the one
    rounding of the division is paid for with the lattice of the noise (`tacit.privacy.lattice`).

    Attributes
    ----------
    loss
        The loss whose coefficient is used.
    clip
        Public bound on the norm of the coefficient; infinity leaves it as it is.
    """

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

    @property
    @override
    def exact_on_machine(self) -> bool:
        return True

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Point) -> Float[Array, "..."]:
        bound = self.coefficient_bound

        def summed(rows: Shard, x: Array) -> Float[Array, "..."]:
            coefficient = coefficients(self.loss, margins(rows, x), rows.targets)
            return record_sum(rows, clip_coefficient(coefficient, bound), bound)

        total: Array = over_rows(shard, summed, query.x, outputs=self.loss.outputs or 1)
        return total / count

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        enforced = spec.record_norm * self.coefficient_bound
        facts = dataclasses.replace(spec, gradient_bound=enforced)
        return mean_gradient_bound(facts, adjacency, norm=norm, rounds=1, questions=1)


class MinibatchGradient(Oracle):
    r"""The clipped record gradients of a Poisson batch, over the expected batch size.

    Every record takes part independently with probability q, afresh for every answer; or, with
    `records`, the batch is of a fixed size b, which takes the place of q m_i below
    (`FixedSizeBatches`).
    With z_j = x_j' w and the coefficient c_j = loss'(z_j, y_j) limited to |c_j| <= clip,

        g_i(w) = 1/(q m_i) sum_{j in batch} x_j c_j'                             shape of w,

    whose expectation over the batch is the full-batch answer of `Gradient`. The divisor q m_i is
    public; the size of the batch is not, and is never used.

    **Guarantee.** One record's term has norm at most c_1 / (q m_i), c_1 = R min(lipschitz, clip),
    whatever the query, so on any one batch the answer moves by

        Delta_i = 2 c_1 / (q m_i)  (replace_one),      c_1 / (q m_i)  (zero_out),

    and under replace_one that is twice the bound of one term, as `Sampled` requires. The door draws
    the batch with a separate key, independent of the data and of the noise, and the batch leaves
    no trace but the noised answer. So an answer of scale s is the event
    `Sampled(GaussianAnswer(s / Delta_i), q)`: that is what ledger, certificate and calibration use.
    The probability of taking part is q, to within 2^-52; `poisson_draw` says how.
    The sum is exact whatever slots the records stand in; what gathering can do to the coefficients
    is added to the bound (`tacit.problems.grid.gathering_slack`).
    If all records of an agent may change, sampling hides nothing, and for a bounded change no
    accountant is known here: both are refused.

    Batches save computation, hardly noise: over many rounds
    amplification makes up for the divisor q and little more. In gradient units the noise of a
    given budget is about that of the full batch, and the variance of the batch comes on top.

    Attributes
    ----------
    loss, clip
        As for `Gradient`.
    rate
        q, in (0, 1].
    records
        None for Poisson batches; for batches of a fixed size n, the least number of records that
        an agent has.

    Raises
    ------
    InputError
        If the rate is not in (0, 1]; from `check`, if the unit is an agent or the relation neither
        replace_one nor zero_out.
    """

    reads_over_rows: ClassVar[bool] = True

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
        return self._full.assumptions

    @property
    @override
    def exact_on_machine(self) -> bool:
        return True

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Point) -> Float[Array, "..."]:
        """Return the sum over the batch divided by the expected size of one."""
        return self._full.exact(shard, self.sampling.expected_size(count), query)

    @property
    def _full(self) -> Gradient:
        return Gradient(self.loss, self.clip)

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        full = self._full.bound(spec, adjacency, norm=norm)
        reason = f"{full.derivation}; divided by the expected share of the batch, {self.rate:g}"
        value = full.value / self.sampling.share(spec)[:, None, None]
        real = dataclasses.replace(full, value=value, derivation=reason)
        return self.sampling.widened(real, spec)
