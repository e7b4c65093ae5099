"""A training from end to end: records meet a proposal; the model and what is measured of it."""

from tacit.training.material import (
    DEFAULT_AGENTS,
    Material,
    check_material,
    data_facts,
    divided,
    proposal_for,
)
from tacit.training.metrics import Metrics
from tacit.training.release import released
from tacit.training.training import Training, train, train_on, warnings_of

__all__ = [
    "DEFAULT_AGENTS",
    "Material",
    "Metrics",
    "Training",
    "check_material",
    "data_facts",
    "divided",
    "proposal_for",
    "released",
    "train",
    "train_on",
    "warnings_of",
]
