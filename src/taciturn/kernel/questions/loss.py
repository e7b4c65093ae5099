"""Losses of one record as functions of its margin z = w'x.

The gradient of one record's loss in the model is outer(x, coefficient), so privacy depends on a
loss only through a bound on its coefficient.
"""

from __future__ import annotations

import abc
import math
from typing import Literal, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped
from typing_extensions import override

from taciturn.errors import InputError
from taciturn.typing import Array, HostArray, Scalar

Margins: TypeAlias = Float[Array, "*K"]
PerRecord: TypeAlias = Float[Array, "*B"]
TargetArray: TypeAlias = Shaped[Array, "*#B"]
Slopes: TypeAlias = Literal["each", "shared", "reference"]


class Loss(eqx.Module):
    """A convex function l(z, y) of the margins z of one record and its target y.

    Shapes: margins `(*B,)` when `outputs` is None, else `(*B, K)` with K = `outputs`; B is M, the
    number of records, or has further axes, one for every model. Targets broadcast against B. Every
    method keeps the floating type of the margins and is finite at extreme ones. Parameters of
    `lipschitz` or `smoothness` must be static fields: oracles read those bounds while tracing.
    """

    @property
    def outputs(self) -> int | None:
        """Number of margins of a record, K; None, as here, for a single, scalar one."""
        return None

    @property
    def log_odds(self) -> bool:
        """Whether the minimising margins are log-odds of the classes; here False."""
        return False

    @property
    def slopes(self) -> Slopes:
        """What several margins have in common where coefficients are estimated.

        "each": nothing; "shared": all coefficients but that of the constant; "reference": they
        matter only up to a common addend, so that those of the first margin are 0.
        """
        return "each"

    @property
    def largest_sum(self) -> float:
        """Supremum over margins and targets of |sum_k coefficient_k|."""
        return self.lipschitz * math.sqrt(self.outputs or 1)

    @property
    def largest_trace(self) -> float:
        """Bound on the trace of F F' and on |F'1|^2 (`curvature_root`)."""
        return self.smoothness * (self.outputs or 1)

    @property
    def is_gradient(self) -> bool:
        """Whether the coefficient is the gradient of the value; if not, nothing is minimised."""
        return True

    @property
    @abc.abstractmethod
    def lipschitz(self) -> float:
        """Supremum over margins and targets of |coefficient|_2."""

    @property
    @abc.abstractmethod
    def smoothness(self) -> float:
        """Supremum of the operator norm of the coefficient's derivative in the margins."""

    @property
    def start_coefficient(self) -> float | None:
        """|coefficient|_2 at margins 0; None, as here, where it depends on the target."""
        return None

    @abc.abstractmethod
    def value(self, margins: Margins, targets: TargetArray) -> PerRecord:
        """Return l(z, y) of every record."""

    def coefficient(self, margins: Margins, targets: TargetArray) -> Margins:
        """Return dl/dz of every record, in the shape of the margins; here by differentiation."""
        slopes: Margins = jax.grad(lambda z: jnp.sum(self.value(z, targets)))(margins)
        return slopes

    def curvature(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        """Return d^2 l/dz^2 of one margin of every record, at most `smoothness`.

        Here by differentiation.
        """
        ones = jnp.ones_like(margins)
        bent: Array = jax.jvp(lambda z: self.coefficient(z, targets), (margins,), (ones,))[1]
        return bent

    def curvature_root(
        self,
        margins: Float[Array, "*B K"],  # noqa: ARG002 - for losses that have it
        targets: TargetArray,  # noqa: ARG002
    ) -> Float[Array, "*B K R"]:
        """Return F of every record: F F' is d^2 l/dz^2 of its K margins, or a bound on it."""
        raise InputError(
            f"second derivatives of {type(self).__name__} are not known; choose another loss"
        )

    @abc.abstractmethod
    def predict(self, margins: Margins) -> TargetArray:
        """Return the predicted target of every record."""

    def error(self, margins: Margins, targets: TargetArray) -> PerRecord:
        """Return the error of every record: 1 where the class is wrong, else 0."""
        return (self.predict(margins) != targets).astype(margins.dtype)

    def within_domain(self, targets: TargetArray) -> TargetArray:
        """Return the targets, replaced where `smoothness` would not be a valid bound."""
        return targets

    @abc.abstractmethod
    def check_targets(self, targets: HostArray) -> None:
        """Raise `InputError` unless `lipschitz` is a valid bound for these targets."""


class RegressionLoss(Loss):
    """A loss of one margin that predicts a finite number, the margin itself."""

    @override
    def predict(self, margins: PerRecord) -> PerRecord:
        return margins

    @override
    def error(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        """Return (z - y)^2."""
        return (margins - targets) ** 2

    @override
    def check_targets(self, targets: HostArray) -> None:
        """Accept every finite target."""
        if not np.all(np.isfinite(targets)):
            raise InputError("a target is NaN or infinite; a regression needs finite numbers")


@final
class Squared(RegressionLoss):
    """l(z, y) = (z - y)^2 / 2, with coefficient z - y, which is unbounded until clipped."""

    lipschitz = math.inf
    smoothness = 1.0

    @override
    def value(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return 0.5 * (margins - targets) ** 2

    @override
    def coefficient(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return margins - targets


def clip_coefficient(coefficient: Float[Array, "M *K"], bound: Scalar) -> Float[Array, "M *K"]:
    """Return every record's coefficient c scaled into the ball |c|_2 <= bound.

    A scalar, shape `(M,)`, is clipped to [-bound, bound]; a vector, shape `(M, K)`, becomes
    c min(1, bound / |c|_2). A coefficient that is not a number, or a vector with an infinite
    entry, becomes 0. An infinite bound leaves all others as they are.

    **Guarantee.** The true norm of the result is at most `bound`, rounding included: the bound is
    rounded down to the type of the coefficient, and a vector is scaled to bound (1 - (K + 4) eps),
    which covers the error of its computed norm, at most (K/2 + 1) eps, and of the quotient and the
    product. Hence a record of norm R moves a sum of gradients x c' by at most R bound when it is
    zeroed and 2 R bound when it is replaced, at every query, even one that overflows.

    Examples
    --------
    >>> clip_coefficient(jnp.array([-3.0, 0.5]), 1.0)
    Array([-1. ,  0.5], dtype=float64)
    """
    if coefficient.ndim not in {1, 2}:
        raise InputError(
            f"coefficient has shape {coefficient.shape}; give (M,) or (M, K), one row per record"
        )
    exact = jnp.asarray(bound, jnp.float64)
    limit = exact.astype(coefficient.dtype)
    limit = jnp.where(limit > exact, jnp.nextafter(limit, jnp.zeros_like(limit)), limit)
    if coefficient.ndim == 1:
        clipped = jnp.clip(coefficient, -limit, limit)
        return jnp.where(jnp.isnan(clipped), jnp.zeros_like(clipped), clipped)
    margin = (coefficient.shape[-1] + 4) * float(np.finfo(coefficient.dtype).eps)
    usable = jnp.all(jnp.isfinite(coefficient), axis=-1, keepdims=True)
    coefficient = jnp.where(usable, coefficient, jnp.zeros_like(coefficient))
    norms = jnp.linalg.norm(coefficient, axis=-1, keepdims=True)
    return coefficient * jnp.where(norms > limit * (1 - margin), limit * (1 - margin) / norms, 1)
