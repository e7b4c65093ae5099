"""A training from end to end: records meet a plan; the model and what is measured of it."""

from tacit.algorithms import ALGORITHMS
from tacit.proposal.request import Request
from tacit.training.metrics import Metrics
from tacit.training.release import released
from tacit.training.training import Training, train

__all__ = ["ALGORITHMS", "Metrics", "Request", "Training", "released", "train"]
