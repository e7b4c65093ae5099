"""A private linear support vector classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from tacit import checks
from tacit.estimators.classifier import PrivateClassifier, check_binary
from tacit.proposal import Named


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSVC(PrivateClassifier):
    """A linear support vector classifier under differential privacy, for two classes.

    The loss of a record is the hinge max(0, 1 - t z), t = -1 or 1, with its kink replaced by a
    parabola (`tacit.problems.HuberHinge`). Parameters, attributes and the guarantee are those of
    `PrivateLinearModel` and `PrivateClassifier`: above all `epsilon`, `delta`, `bounds`, `classes`.

    Every fit spends its own budget, so a grid search spends once per candidate and fold.

    Parameters
    ----------
    smoothing
        Half the width of the parabola, in units of the margin.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> ages = draw.uniform(20, 80, (4000, 1))
    >>> ill = np.where(ages[:, 0] + 10 * draw.standard_normal(4000) > 50, "yes", "no")
    >>> model = PrivateSVC(
    ...     epsilon=1.0, delta=1e-6, bounds=(0, 120), classes=["no", "yes"], random_state=0
    ... ).fit(ages, ill)
    >>> model.predict([[30.0], [70.0]]).tolist()
    ['no', 'yes']
    """

    smoothing: float = 0.5

    @override
    def _loss(self, classes: int) -> Named:
        check_binary(classes)
        width = checks.positive("smoothing", self.smoothing)
        return Named(name="hinge", numbers=(width,))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
