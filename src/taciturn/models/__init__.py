"""Released models: saving, loading, prediction."""

from taciturn.models.model import (
    Model,
    Term,
    feature_terms,
    load_model,
    model_text,
    model_to_dict,
    predict,
    read_values,
    save_model,
    table_terms,
    write_text,
)

__all__ = [
    "Model", "Term", "feature_terms", "load_model", "model_text", "model_to_dict", "predict",
    "read_values", "save_model", "table_terms", "write_text",
]  # fmt: skip
