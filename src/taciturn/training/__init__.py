"""A training from end to end: divided records, the run of a proposal, its model and metrics."""

from taciturn.training.assessment import Assessment, Metrics, WeightedError
from taciturn.training.attempts import Attempts
from taciturn.training.data import (
    DEFAULT_AGENTS,
    DividedData,
    check_data,
    check_known,
    counts_ahead,
    data_facts,
    divide,
    kept_precision,
    local_part,
    proposal_ahead,
    proposal_for,
)
from taciturn.training.releasing import model_of, released, table_model_terms
from taciturn.training.rows import (
    counts_of,
    persons_of,
)
from taciturn.training.training import (
    Training,
    reserved,
    train,
    train_on,
    warnings_of,
)

__all__ = [
    "DEFAULT_AGENTS",
    "Assessment",
    "Attempts",
    "DividedData",
    "Metrics",
    "Training",
    "WeightedError",
    "check_data",
    "check_known",
    "counts_ahead",
    "counts_of",
    "data_facts",
    "divide",
    "kept_precision",
    "local_part",
    "model_of",
    "persons_of",
    "proposal_ahead",
    "proposal_for",
    "released",
    "reserved",
    "table_model_terms",
    "train",
    "train_on",
    "warnings_of",
]
