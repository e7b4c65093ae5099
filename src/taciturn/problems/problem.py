"""The problem that all agents solve together, and its public facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped

from taciturn.checks import at_least, positive
from taciturn.kernel.questions import Loss
from taciturn.kernel.records import Shard, Shards, Spec
from taciturn.problems.regularisers import NoRegulariser, Regulariser
from taciturn.problems.sets import ConvexSet, WholeSpace
from taciturn.typing import Array, HostArray


@final
class Problem(eqx.Module):
    """Minimise F(w) = (1/A) sum_i f_i(w) + r(w) over w in C, f_i(w) = (1/m_i) sum_j l(w'x_j, y_j).

    The model w has shape `(D,)`, or `(D, K)` for a loss with K margins.
    """

    loss: Loss
    regulariser: Regulariser = NoRegulariser()
    constraint: ConvexSet = WholeSpace()

    @property
    def closed_form(self) -> bool:
        """Whether rounding moves `prox` by no more than `ConvexSet` states."""
        return self.regulariser.closed_form and self.constraint.closed_form

    def model_shape(self, features: int) -> tuple[int, ...]:
        """Return `(D,)` or `(D, K)` for records of D features."""
        return (features,) if self.loss.outputs is None else (features, self.loss.outputs)

    def prox(self, v: Float[Array, "*S"], step: float | Float[Array, ""]) -> Float[Array, "*S"]:
        """Return argmin_{x in C} r(x) + |x - v|_2^2 / (2 step), exactly."""
        return self.regulariser.prox_within(self.constraint, v, step)

    def predict(
        self, w: Float[Array | HostArray, "D *K"], features: Float[Array | HostArray, "M D"]
    ) -> Shaped[Array, "M"]:
        """Return the predicted targets of records outside any shard."""
        return self.loss.predict(jnp.asarray(features @ w))

    def local_value(
        self, w: Float[Array, "D *K"], shard: Shard, count: float | Float[Array, ""]
    ) -> Float[Array, ""]:
        """Return f_i(w) of one agent; `count` is its public m_i, whatever the mask."""
        values = self.loss.value(shard.features @ w, shard.targets)
        return jnp.sum(shard.mask * values) / jnp.asarray(count, values.dtype)

    def local_gradient(
        self, w: Float[Array, "D *K"], shard: Shard, count: float | Float[Array, ""]
    ) -> Float[Array, "D *K"]:
        """Return the gradient of f_i, X' diag(mask) c / m_i, c the loss's coefficients."""
        coefficients = self.loss.coefficient(shard.features @ w, shard.targets)
        mask = shard.mask.reshape(shard.mask.shape + (1,) * (coefficients.ndim - 1))
        total = shard.features.T @ (mask * coefficients)
        return total / jnp.asarray(count, total.dtype)

    def objective(self, w: Float[Array, "D *K"], shards: Shards) -> Float[Array, ""]:
        """Return F(w), with the regulariser but without the constraint."""
        counts = jnp.asarray(shards.counts, w.dtype)
        values = jax.vmap(self.local_value, (None, 0, 0))(w, shards.stacked, counts)
        return jnp.mean(values) + self.regulariser.value(w)

    def gradient(self, w: Float[Array, "D *K"], shards: Shards) -> Float[Array, "D *K"]:
        """Return the gradient of (1/A) sum_i f_i, without the regulariser."""
        counts = jnp.asarray(shards.counts, w.dtype)
        gradients = jax.vmap(self.local_gradient, (None, 0, 0))(w, shards.stacked, counts)
        return jnp.mean(gradients, axis=0)

    def check_targets(self, shards: Shards) -> None:
        """Raise `InputError` if a record's target is outside the domain of the loss.

        The Lipschitz constant of a margin loss holds for targets -1 and 1 only. Privacy does not
        rest on it: the gradient oracle enforces that constant for any targets.
        """
        real = np.asarray(shards.stacked.mask) > 0
        self.loss.check_targets(np.asarray(shards.stacked.targets)[real])


def public_facts(problem: Problem, shards: Shards, *, clip: float) -> Spec:
    """Return the `Spec` of `problem` on `shards` when record coefficients are clipped at `clip`.

    Only shapes, counts and constants are read, never a record; see `facts_from`.
    """
    return facts_from(
        problem,
        shards.counts,
        features=shards.dimension,
        record_norm=shards.record_norm,
        clip=clip,
        dealt=shards.origin is not None and shards.origin.dealt,
    )


def facts_from(
    problem: Problem,
    counts: Sequence[int],
    *,
    features: int,
    record_norm: float,
    clip: float,
    dealt: bool = False,
) -> Spec:
    """Return the `Spec` of `problem` without any shards, for planning.

    With R the record norm, l the Lipschitz constant and s the smoothness of the loss: c_1 = R
    min(l, clip), c_3 = s R^2 (the Hessian of f_i is a mean of x x' times at most s). With `dealt`,
    records without owners are dealt to the agents at random.
    """
    clip = positive("clip", clip, allow_infinity=True)
    norm = positive("record_norm", record_norm)
    shape = problem.model_shape(at_least("features", features, 1))
    return Spec(
        counts=tuple(counts),
        shape=shape,
        record_norm=norm,
        gradient_bound=norm * min(problem.loss.lipschitz, clip),
        smoothness=problem.loss.smoothness * norm**2,
        regulariser_bound=problem.regulariser.gradient_bound(math.prod(shape)),
        regulariser_smoothness=float(problem.regulariser.smoothness),
        dealt=dealt,
    )
