"""The base of the private classifiers: labels as numbers and back."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from tacit.errors import InputError
from tacit.estimators.base import PrivateLinearModel
from tacit.estimators.targets import Targets
from tacit.proposal import Named
from tacit.typing import HostArray


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A private linear classifier: two labels by the sign of one score, K by the largest of K.

    Parameters
    ----------
    classes
        The *public* list of labels; every label that occurs must be in it. None reads it off the
        records: a `PublicFactsWarning`, and a condition in the certificate.

    Attributes
    ----------
    classes_
        The labels, sorted.
    """

    _target_facts: ClassVar[tuple[str, str]] = ("labels", "classes")

    classes: ArrayLike | None = None

    @abc.abstractmethod
    def _loss(self, classes: int) -> Named:
        """Return the loss for that many classes, by name."""

    def decision_function(self, X: ArrayLike) -> Float[HostArray, "N *K"]:
        """Return the score of each row: (N,) for two classes, (N, K) for K."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> Shaped[HostArray, "N"]:
        """Return the label of each row; the features are clipped to the bounds first."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: HostArray = self.classes_[chosen]
        return labels

    def _targets(self, answers: HostArray) -> Targets:
        check_classification_targets(answers)
        labels = np.unique(answers if self.classes is None else np.asarray(self.classes))
        if len(labels) < 2:
            raise InputError(
                "one class is nothing to tell apart; there must be at least two, in y or in classes"
            )
        loss = self._loss(len(labels))
        number = {label: code for code, label in enumerate(labels.tolist())}
        codes = np.array([number.get(label, -1) for label in answers.tolist()])
        if np.any(codes < 0):
            raise InputError("a label of y is not in classes; list every public label there")
        values = 2.0 * codes - 1 if len(labels) == 2 else codes
        return Targets(values, loss, 1.0, 0.0, labels, self.classes is not None)

    def _store(
        self,
        slopes: Float[HostArray, "k K"],
        intercepts: Float[HostArray, "K"],
        targets: Targets,
    ) -> None:
        self.coef_, self.intercept_ = slopes.T, intercepts
        self.classes_: HostArray = np.asarray(targets.labels)


def check_binary(classes: int) -> None:
    """Raise `InputError` unless there are two classes, in the words that scikit-learn expects."""
    if classes > 2:
        raise InputError(
            "Only binary classification is supported. The type of the target is multiclass; "
            "use PrivateLogisticRegression for more than two classes"
        )
