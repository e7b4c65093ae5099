"""Private linear models with the interface of scikit-learn."""

from taciturn.estimators.classifiers import PrivateLogisticRegression, PrivateSVC
from taciturn.estimators.linear import PrivateLinearRegression
from taciturn.estimators.pipelines import check_pipeline
from taciturn.estimators.ranges import PublicBounds
from taciturn.estimators.structured import PrivateStructuredClassifier

__all__ = [
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateSVC",
    "PrivateStructuredClassifier",
    "PublicBounds",
    "check_pipeline",
]
