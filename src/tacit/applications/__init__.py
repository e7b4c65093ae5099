"""What a training is for: a model that can be saved, loaded, read and used."""

from tacit.applications.model import Model, Term, table_terms
from tacit.applications.model_file import load_model, model_text, model_to_dict, save_model
from tacit.applications.predict import predict

__all__ = [
    "Model",
    "Term",
    "load_model",
    "model_text",
    "model_to_dict",
    "predict",
    "save_model",
    "table_terms",
]
