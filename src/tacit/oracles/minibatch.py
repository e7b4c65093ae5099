"""The gradient on a Poisson batch that the oracle itself draws."""

from __future__ import annotations

import dataclasses

import equinox as eqx
from jaxtyping import Float
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.oracles.batches import BatchOracle
from tacit.oracles.gradient import Gradient
from tacit.oracles.oracle import Point, Size
from tacit.privacy import Adjacency, Norm, ReplaceOne, SensitivityBound, ZeroOut
from tacit.problems import Loss, Shard
from tacit.spec import Spec
from tacit.typing import Array, HostArray


class MinibatchGradient(BatchOracle):
    r"""The clipped record gradients of a Poisson batch, over the expected batch size.

    Every record takes part independently with probability q, afresh for every answer. With z_j =
    x_j' w and the coefficient c_j = loss'(z_j, y_j) limited to |c_j| <= clip,

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

    Raises
    ------
    InputError
        If the rate is not in (0, 1]; from `bound`, if the unit is an agent or the relation neither
        replace_one nor zero_out.
    """

    loss: Loss
    clip: float = eqx.field(static=True)
    rate: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.fraction("rate", self.rate)

    @property
    @override
    def sampling_rate(self) -> float:
        """The rate q."""
        return self.rate

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Point) -> Float[Array, "..."]:
        """Return the sum over the batch divided by the expected size of one."""
        return self._full.exact(shard, self.rate * count, query)

    @property
    def _full(self) -> Gradient:
        return Gradient(self.loss, self.clip)

    @override
    def preview(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> Float[HostArray, " A"]:
        refuse_unsampled(adjacency)
        return super().preview(spec, adjacency, norm=norm) / self.rate

    @override
    def bound(
        self,
        spec: Spec,
        adjacency: Adjacency,
        *,
        norm: Norm,
        size: Size,
        values: dict[str, HostArray],
    ) -> SensitivityBound:
        refuse_unsampled(adjacency)
        full = self._full.bound(spec, adjacency, norm=norm, size=size, values=values)
        reason = f"{full.derivation}; divided by the expected share of the batch, {self.rate:g}"
        return dataclasses.replace(full, value=full.value / self.rate, derivation=reason)


def refuse_unsampled(adjacency: Adjacency) -> None:
    """Raise `InputError` unless sampling hides the unit and an accountant for it is known."""
    if adjacency.unit != "record":
        raise InputError(
            "sampling records does not hide an agent, so nothing is gained for the unit agent; "
            "use the full-batch Gradient"
        )
    if not isinstance(adjacency.relation, ReplaceOne | ZeroOut):
        raise InputError(
            f"no sound accountant is known for batches under {adjacency.relation.name}; use "
            "replace_one, zero_out or the full-batch Gradient"
        )
