"""Private linear models with the interface of scikit-learn."""

from tacit.estimators.classifiers import PrivateLogisticRegression, PrivateSVC
from tacit.estimators.linear import PrivateLinearRegression
from tacit.estimators.pipelines import check_pipeline
from tacit.estimators.ranges import PublicBounds
from tacit.estimators.structured import PrivateStructuredClassifier
from tacit.problems.graphs import learned_edges

__all__ = [
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateSVC",
    "PrivateStructuredClassifier",
    "PublicBounds",
    "check_pipeline",
    "learned_edges",
]
