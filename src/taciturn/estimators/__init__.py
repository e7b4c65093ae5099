"""Private linear models with the interface of scikit-learn."""

from taciturn.estimators.dealing import deal
from taciturn.estimators.models import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateStructuredClassifier,
    PrivateSVC,
)
from taciturn.estimators.pipelines import check_pipeline
from taciturn.estimators.ranges import PublicBounds

__all__ = [
    "PrivateLinearRegression", "PrivateLogisticRegression", "PrivateSVC",
    "PrivateStructuredClassifier", "PublicBounds", "check_pipeline", "deal",
]  # fmt: skip
