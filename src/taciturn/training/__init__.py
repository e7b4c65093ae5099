"""A training from end to end: divided records, the run of a proposal, its model and metrics."""

from taciturn.training.assessment import Assessment, Metrics
from taciturn.training.data import (
    DEFAULT_AGENTS,
    DividedData,
    Division,
    check_all_hold_out,
    check_data,
    check_known,
    data_facts,
    divide,
    divide_records,
    local_part,
    proposal_for,
    proposal_of_files,
    storage_precision,
)
from taciturn.training.training import (
    Attempts,
    Training,
    model_of,
    released,
    reserved,
    table_model_terms,
    train,
    train_on,
    warnings_of,
)

__all__ = [
    "DEFAULT_AGENTS", "Assessment", "Attempts", "DividedData", "Division", "Metrics", "Training",
    "check_all_hold_out", "check_data", "check_known", "data_facts", "divide", "divide_records",
    "local_part", "model_of", "proposal_for", "proposal_of_files", "released", "reserved",
    "storage_precision", "table_model_terms", "train", "train_on", "warnings_of",
]  # fmt: skip
