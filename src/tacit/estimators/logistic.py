"""Private logistic regression, for two classes or more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from typing_extensions import override

from tacit.estimators.classifier import PrivateClassifier
from tacit.proposal import Named
from tacit.typing import HostArray


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression under differential privacy; multinomial for more than two classes.

    The loss of a record is log(1 + exp(-t z)), t = -1 or 1, or log sum_k exp(z_k) - z_t.
    Parameters, attributes and the guarantee are those of `PrivateLinearModel` and
    `PrivateClassifier`: above all `epsilon`, `delta`, `bounds` and `classes`.

    Every fit spends its own budget, so a grid search spends once per candidate and fold.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> ages = draw.uniform(20, 80, (4000, 1))
    >>> ill = ages[:, 0] + 10 * draw.standard_normal(4000) > 50
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, bounds=(0, 120), classes=[False, True], random_state=0
    ... ).fit(ages, ill)
    >>> model.predict([[30.0], [70.0]])
    array([False,  True])
    >>> model.certificate_.epsilon <= 1.0, model.certificate_.reproduction
    (True, True)
    """

    def predict_proba(self, X: ArrayLike) -> Float[HostArray, "N K"]:
        """Return the probability of each class, in the order of `classes_`; rows sum to 1."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        probabilities: HostArray = softmax(scores, axis=1)
        return probabilities

    @override
    def _loss(self, classes: int) -> Named:
        return Named(name="logistic" if classes == 2 else "multinomial", numbers=())
