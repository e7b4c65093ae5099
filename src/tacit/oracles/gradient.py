"""The full-batch gradient of an agent's loss."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float
from typing_extensions import override

from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.queries import Point
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
    is enforced here, whatever the targets: the Lipschitz constant is a bound too, not a belief.
    Hence one record's term has norm at most c_1 / m_i with c_1 = R min(lipschitz, clip), whatever
    the query. `mean_gradient_bound` derives the sensitivity from that for every relation and unit.

    Attributes
    ----------
    loss
        The loss whose coefficient is used.
    clip
        Public bound on the norm of the coefficient; infinity leaves it as it is.
    """

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
    def exact(self, shard: Shard, count: Float[Array, ""], query: Point) -> Float[Array, "..."]:
        coefficient = self.loss.coefficient(shard.features @ query.x, shard.targets)
        clipped = clip_coefficient(coefficient, self.coefficient_bound)
        if clipped.ndim == 1:
            # over one agent's rows several times quicker than the transpose under XLA on a CPU
            return jnp.matmul(clipped * shard.mask, shard.features) / count
        # of the forms tried, this one is the quickest under XLA on a CPU
        return jnp.matmul(shard.features.T, clipped * shard.mask[:, None]) / count

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        enforced = spec.record_norm * self.coefficient_bound
        facts = dataclasses.replace(spec, gradient_bound=enforced)
        return mean_gradient_bound(facts, adjacency, norm=norm, rounds=1, questions=1)
