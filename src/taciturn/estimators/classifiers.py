"""Private classifiers: their common base, logistic regression, a support vector classifier."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Num, Shaped
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.estimators.base import PrivateLinearModel
from taciturn.estimators.records import Targets
from taciturn.estimators.validation import RowsLike, labels_in
from taciturn.problems import is_second
from taciturn.proposal import Named, labels_of, weights_by_label
from taciturn.typing import HostArray


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A private linear classifier: two labels by the sign of one score, K by the largest of K.

    Of two labels the second is predicted where the score is 0 or more.

    Parameters
    ----------
    classes
        The *public* list of labels; every label that occurs must be in it. None reads it off the
        records: a `PublicFactsWarning`, and a condition in the certificate.
    class_weight
        *Public* weights in (0, 1] by label, which multiply the loss of a record; a label that is
        not named has weight 1. They stand inside the sensitivity
        (`taciturn.problems.ClassWeighted`). "balanced" is refused: it counts the records of each
        class.
    prior
        The *public* share of each label, in place of weights: label c then has the weight
        min(p) / p_c, so that the classes count alike. With weights the probabilities are those of
        classes that were weighted like this. `score` counts every row alike.

    Attributes
    ----------
    classes_
        The labels, sorted.
    """

    _target_facts: ClassVar[tuple[str, str]] = ("labels", "classes")
    _binary: ClassVar[bool] = False  # whether there may be no more than two classes

    classes: ArrayLike | None = None
    class_weight: Mapping[Any, float] | None = None
    prior: Mapping[Any, float] | None = None

    @abc.abstractmethod
    def _loss(self, classes: int) -> Named:
        """Return the loss for that many classes, by name."""

    def decision_function(self, X: RowsLike) -> Float[HostArray, "N *K"]:
        """Return the score of each row: (N,) for two classes, (N, K) for K."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: RowsLike) -> Shaped[HostArray, "N"]:
        """Return the label of each row; the features are clipped to the bounds first."""
        scores = self.decision_function(X)
        chosen = is_second(scores).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: HostArray = self.classes_[chosen]
        return labels

    @override
    def _targets(self, answers: HostArray | None) -> Targets:
        labels = labels_in(answers, self.classes)
        if len(labels) < 2:
            raise InputError(
                "one class is nothing to tell apart; pass classes= with the public list of at "
                "least two labels, whichever of them occur in y"
            )
        if self._binary and len(labels) > 2:
            raise InputError(  # in the words that scikit-learn expects
                "Only binary classification is supported. The type of the target is multiclass; "
                "use PrivateLogisticRegression for more than two classes"
            )
        return Targets(self._loss(len(labels)), 1.0, 0.0, labels)

    @override
    def _encode(self, answers: HostArray, targets: Targets) -> Num[HostArray, "N"]:
        assert targets.labels is not None
        number = {label: code for code, label in enumerate(targets.labels.tolist())}
        codes = np.array([number.get(label, -1) for label in answers.tolist()])
        if np.any(codes < 0):
            raise InputError("a label of y is not in classes; list every public label there")
        return 2.0 * codes - 1 if len(number) == 2 else codes

    @override
    def _class_weight(self, targets: Targets) -> Mapping[str, float] | None:
        assert targets.labels is not None
        own = tuple(targets.labels.tolist())
        weights = weights_by_label(own, self.class_weight, self.prior)
        if weights is None:
            return None
        names = labels_of(targets.facts(columns=1, record_norm=1.0))
        return dict(zip(names or (), weights, strict=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._binary
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression under differential privacy, for two classes or more.

    The loss of a record is log(1 + exp(-t z)), t = -1 or 1, or log sum_k exp(z_k) - z_t, where
    nothing is clipped: with `clip` at least 1 for two classes, 1.42 for more, or without privacy.
    The default `clip` of 1/2 (sqrt((K - 1) / K) for K classes) takes less noise and minimises the
    *robust* loss of `taciturn.problems.ClippedLoss`, whose scores are no log-odds; the fitted model
    then has no `predict_proba`, and `loss_` says "robust logistic, clip 0.5". Parameters,
    attributes and the guarantee are those of `PrivateLinearModel` and `PrivateClassifier`: above
    all `epsilon`, `delta`, `bounds` and `classes`.

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

    @property
    def predict_proba(self) -> Callable[[RowsLike], Float[HostArray, "N K"]]:
        """From rows to the probability of each class, in the order of `classes_`; rows sum to 1.

        Raises
        ------
        AttributeError
            If the scores of the fitted model are no log-odds, as with the default `clip`:
            scikit-learn then takes the estimator for one without probabilities.
        """
        loss = getattr(self, "loss_", None)
        if loss is not None and not loss.log_odds:
            raise AttributeError(loss.without_probabilities("clip="))
        return self._probabilities

    def _probabilities(self, X: RowsLike) -> Float[HostArray, "N K"]:
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        probabilities: HostArray = softmax(scores, axis=1)
        return probabilities

    @override
    def _loss(self, classes: int) -> Named:
        return Named(name="logistic" if classes == 2 else "multinomial", numbers=())


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSVC(PrivateClassifier):
    """A linear support vector classifier under differential privacy, for two classes.

    The loss of a record is the hinge max(0, 1 - t z), t = -1 or 1, with its kink replaced by a
    parabola (`taciturn.problems.HuberHinge`). Parameters, attributes and the guarantee are those of
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

    _binary: ClassVar[bool] = True

    smoothing: float = 0.5

    @override
    def _loss(self, classes: int) -> Named:
        width = checks.positive("smoothing", self.smoothing)
        return Named(name="hinge", numbers=(width,))
