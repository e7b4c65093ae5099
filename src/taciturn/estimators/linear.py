"""Private linear regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from sklearn.base import RegressorMixin
from typing_extensions import override

from taciturn.estimators.base import PrivateLinearModel
from taciturn.estimators.ranges import Ranges, ranges_for, ranges_seen
from taciturn.estimators.records import Targets
from taciturn.estimators.validation import RowsLike, numbers_in
from taciturn.proposal import Named
from taciturn.typing import HostArray


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regression under differential privacy, by least squares with clipped residuals.

    The target y with public range [a, b] is clipped to it and mapped to t = 2 (y - a) / (b - a) - 1
    in [-1, 1]; the loss of a record is (z - t)^2 / 2, whose derivative z - t is clipped at `clip`
    (1, half the range, unless it is given). That makes it the Huber loss with threshold `clip`.
    Parameters, attributes and the guarantee are those of `PrivateLinearModel`: above all `epsilon`,
    `delta` and `bounds`.

    Every fit spends its own budget, so a grid search spends once per candidate and fold.

    Parameters
    ----------
    target_bounds
        The *public* range (min, max) of the target. None reads it off the records: a
        `PublicFactsWarning`, and a condition in the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> ages = draw.uniform(20, 80, (4000, 1))
    >>> pressure = 100 + 0.5 * ages[:, 0] + draw.standard_normal(4000)
    >>> model = PrivateLinearRegression(
    ...     epsilon=2.0, delta=1e-6, bounds=(0, 100), target_bounds=(80, 180), random_state=0
    ... ).fit(ages, pressure)
    >>> bool(abs(model.predict([[40.0]])[0] - 120) < 3)
    True
    """

    _target_facts: ClassVar[tuple[str, str]] = ("bounds of the target", "target_bounds")

    target_bounds: tuple[float, float] | None = None

    def predict(self, X: RowsLike) -> Float[HostArray, "N"]:
        """Return the predicted target of each row; the features are clipped to the bounds first."""
        return self._scores(X)

    @override
    def _targets(self, answers: HostArray | None) -> Targets:
        ranges = self._target_ranges(answers)
        half, middle = float(ranges.width[0]) / 2, float(ranges.middle[0])
        return Targets(Named(name="squared", numbers=()), half, middle, None)

    @override
    def _encode(self, answers: HostArray, targets: Targets) -> Float[HostArray, "N"]:
        column = numbers_in(answers)[:, None]
        values: HostArray = self._target_ranges(answers).encoded(column)[:, 0]
        return values

    def _target_ranges(self, answers: HostArray | None) -> Ranges:
        if self.target_bounds is not None:
            return ranges_for(self.target_bounds, 1)
        assert answers is not None
        return ranges_seen(numbers_in(answers)[:, None], "the target")
