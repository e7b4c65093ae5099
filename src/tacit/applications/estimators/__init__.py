"""Private linear models with the interface of scikit-learn."""

from tacit.applications.estimators.linear import PrivateLinearRegression
from tacit.applications.estimators.logistic import PrivateLogisticRegression
from tacit.applications.estimators.structured import PrivateStructuredClassifier
from tacit.applications.estimators.svc import PrivateSVC

__all__ = [
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateSVC",
    "PrivateStructuredClassifier",
]
