"""What a training is for: a model that can be saved, loaded, read and used; estimators."""

from tacit.applications.estimators import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateStructuredClassifier,
    PrivateSVC,
)
from tacit.applications.graphs import learned_edges
from tacit.applications.model import Model, Term, table_terms
from tacit.applications.model_file import load_model, model_text, model_to_dict, save_model
from tacit.applications.predict import predict

__all__ = [
    "Model",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateSVC",
    "PrivateStructuredClassifier",
    "Term",
    "learned_edges",
    "load_model",
    "model_text",
    "model_to_dict",
    "predict",
    "save_model",
    "table_terms",
]
