"""Public weights of classes, which multiply the loss of each record."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacit.errors import InputError
from tacit.problems.losses import Loss, MarginLoss, Margins, PerRecord, Targets
from tacit.typing import Array, HostArray


def _checked(weights: tuple[float, ...]) -> tuple[float, ...]:
    given = tuple(float(weight) for weight in weights)
    bad = [weight for weight in given if not 0 < weight <= 1]
    if bad:
        raise InputError(
            f"a class weight is {bad[0]:g}; weights must lie above 0 and at most 1, so that no "
            "record counts for more than it would without them: divide all weights by the largest"
        )
    return given


@final
class ClassWeighted(Loss):
    r"""v_y l(z, y): a loss of classes, times the weight of the record's class.

    **Guarantee.** A weight depends on the record's own target and on public numbers, so a record
    still moves its own term alone. Let V = max v, and c and s the constants `lipschitz` and
    `smoothness` of l. Then

    .. math:: |v_y \, dl/dz| \le V c, \qquad |v_y \, d^2 l/dz^2| \le V s,

    and these are the constants of the weighted loss. A target that is no class has the weight of
    one too. As V <= 1, every bound that holds for l holds for the weighted loss as well: of
    gradients, of curvature and so of steps; and the clip of a coefficient is no larger. A weight of
    30 would let a record of its class move an answer 30 times as far as the bounds of l say. Only
    the ratios of weights say which class counts for more, so nothing is lost by dividing all by the
    largest. Weights that are computed from the records, such as from how many are of each class,
    are not public, and this guarantee does not cover them.

    Predictions and errors are those of the loss: an error counts every record alike.

    Attributes
    ----------
    loss
        A loss of two classes, or of K.
    weights
        v, one for each class: of -1 and 1, or of 0 to K - 1.

    Raises
    ------
    InputError
        If the loss is one of a regression, the number of weights is not that of the classes, or a
        weight is not in (0, 1].

    Examples
    --------
    >>> from tacit.problems import Logistic
    >>> rare = ClassWeighted(Logistic(), (0.1, 1.0))
    >>> rare.coefficient(jnp.zeros(2), jnp.array([-1.0, 1.0]))
    Array([ 0.05, -0.5 ], dtype=float64)
    """

    loss: Loss
    weights: tuple[float, ...] = eqx.field(static=True, converter=_checked)

    def __check_init__(self) -> None:
        classes = 2 if isinstance(self.loss, MarginLoss) else self.loss.outputs
        if classes is None:
            raise InputError("class weights are for losses of classes; leave them out")
        if len(self.weights) != classes:
            raise InputError(
                f"{len(self.weights)} class weights are given for {classes} classes; give one each"
            )

    @property
    def outputs(self) -> int | None:
        """Those of the loss."""
        return self.loss.outputs

    @property
    def log_odds(self) -> bool:
        """Whether those of the loss are: they are the log-odds of records weighted like this."""
        return self.loss.log_odds

    @property
    def lipschitz(self) -> float:
        """V times that of the loss."""
        return max(self.weights) * self.loss.lipschitz

    @property
    def smoothness(self) -> float:
        """V times that of the loss."""
        return max(self.weights) * self.loss.smoothness

    @property
    def start_coefficient(self) -> float | None:
        """V times that of the loss: the largest one at margins 0."""
        start = self.loss.start_coefficient
        return None if start is None else max(self.weights) * start

    def value(self, margins: Margins, targets: Targets) -> PerRecord:
        """Return v_y l(z, y)."""
        values = self.loss.value(margins, targets)
        return self._of(targets, values.dtype) * values

    def coefficient(self, margins: Margins, targets: Targets) -> Margins:
        """Return v_y dl/dz."""
        coefficients = self.loss.coefficient(margins, targets)
        weights = self._of(targets, coefficients.dtype)
        return coefficients * (weights if self.outputs is None else weights[..., None])

    def predict(self, margins: Margins) -> Targets:
        """Return the prediction of the loss."""
        return self.loss.predict(margins)

    def error(self, margins: Margins, targets: Targets) -> PerRecord:
        """Return 0 or 1, without weights."""
        return self.loss.error(margins, targets)

    def within_domain(self, targets: Targets) -> Targets:
        """Return what the loss returns."""
        return self.loss.within_domain(targets)

    def check_targets(self, targets: HostArray) -> None:
        """Raise `InputError` where the loss does."""
        self.loss.check_targets(targets)

    def _of(self, targets: Targets, dtype: jnp.dtype) -> Float[Array, "*#B"]:
        """Return the weight of each record, rounded towards 0: the bounds hold for it."""
        exact = np.array(self.weights)
        near = exact.astype(dtype)
        weights = jnp.asarray(np.where(near > exact, np.nextafter(near, near.dtype.type(0)), near))
        if self.outputs is None:
            return jnp.where(targets > 0, weights[1], weights[0])
        return weights[jnp.clip(targets, 0, len(self.weights) - 1)]
