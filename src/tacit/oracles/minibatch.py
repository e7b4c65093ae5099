"""The gradient on a batch that the oracle itself draws."""

from __future__ import annotations

import dataclasses

import equinox as eqx
from jaxtyping import Float
from typing_extensions import override

from tacit.oracles.gradient import Gradient
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.queries import Point
from tacit.oracles.sampling import Sampling, batches
from tacit.privacy import Adjacency, Norm, SensitivityBound
from tacit.problems import Loss, Shard
from tacit.spec import Spec
from tacit.typing import Array


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
    the batch with a key of its own, independent of the data and of the noise, and the batch leaves
    no trace but the noised answer. So an answer of scale s is the event
    `Sampled(GaussianAnswer(s / Delta_i), q)`: that is what ledger, certificate and calibration use.
    The probability of taking part is q, to within 2^-52; `poisson_draw` says how.
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
        return dataclasses.replace(full, value=value, derivation=reason)
