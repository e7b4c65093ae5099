"""Private linear models with the interface of scikit-learn."""

from tacit.estimators.linear import PrivateLinearRegression
from tacit.estimators.logistic import PrivateLogisticRegression
from tacit.estimators.structured import PrivateStructuredClassifier
from tacit.estimators.svc import PrivateSVC
from tacit.problems.graphs import learned_edges

__all__ = [
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateSVC",
    "PrivateStructuredClassifier",
    "learned_edges",
]
