"""The loss of classification into K classes."""

from __future__ import annotations

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tacit import checks
from tacit.errors import InputError
from tacit.problems.losses import Loss, PerRecord
from tacit.typing import Array, HostArray


@final
class MultinomialLogistic(Loss):
    """l(z, y) = log sum_k exp(z_k) - z_y for y in 0..K-1, with coefficient softmax(z) - e_y.

    |softmax(z) - e_y|^2 = (1 - p_y)^2 + sum_{k != y} p_k^2 <= 2 (1 - p_y)^2 < 2. The Hessian
    diag(p) - pp' is a covariance of an indicator: u'(diag(p) - pp')u is the variance of u_k, at
    most (max u - min u)^2 / 4 <= |u|^2 / 2 (Popoviciu), attained at p = (1/2, 1/2, 0, ...).

    Examples
    --------
    >>> MultinomialLogistic(classes=2).coefficient(jnp.zeros((1, 2)), jnp.array([1]))
    Array([[ 0.5, -0.5]], dtype=float64)
    """

    classes: int = eqx.field(static=True, converter=lambda k: checks.at_least("classes", k, 2))

    @property
    def outputs(self) -> int:
        """K margins, one per class."""
        return self.classes

    @property
    def lipschitz(self) -> float:
        """sqrt(2), approached when a wrong class has all the probability."""
        return math.sqrt(2)

    @property
    def smoothness(self) -> float:
        """1/2."""
        return 0.5

    @property
    def start_coefficient(self) -> float:
        """sqrt((K - 1) / K), the distance of the uniform distribution from e_y."""
        return math.sqrt((self.classes - 1) / self.classes)

    def value(self, margins: Float[Array, "*B K"], targets: Int[Array, "*B"]) -> PerRecord:
        """Return log sum_k exp(z_k) - z_y."""
        chosen = jnp.take_along_axis(margins, targets[..., None], axis=-1)[..., 0]
        return jax.nn.logsumexp(margins, axis=-1) - chosen

    def coefficient(
        self, margins: Float[Array, "*B K"], targets: Int[Array, "*B"]
    ) -> Float[Array, "*B K"]:
        """Return softmax(z) - e_y."""
        chosen = jax.nn.one_hot(targets, self.classes, dtype=margins.dtype)
        return jax.nn.softmax(margins, axis=-1) - chosen

    def predict(self, margins: Float[Array, "*B K"]) -> Int[Array, "*B"]:
        """Return the class of the largest margin, the first one if several are equal."""
        return jnp.argmax(margins, axis=-1)

    def error(self, margins: Float[Array, "*B K"], targets: Int[Array, "*B"]) -> PerRecord:
        """Return 1 where the class is wrong, else 0."""
        return (self.predict(margins) != targets).astype(margins.dtype)

    def check_targets(self, targets: HostArray) -> None:
        """Accept whole numbers 0..K-1 of an integer type only."""
        if not np.issubdtype(targets.dtype, np.integer):
            raise InputError(f"targets are {targets.dtype}; classes must be integers: use astype")
        if not np.all((targets >= 0) & (targets < self.classes)):
            raise InputError(
                f"targets span {targets.min()}..{targets.max()}; "
                f"{self.classes} classes must be numbered 0..{self.classes - 1}"
            )
