"""Whole experiments: from records and a request to a measured, certified run."""

from tacit.algorithms import ALGORITHMS
from tacit.experiments.metrics import Metrics
from tacit.experiments.release import released
from tacit.experiments.request import Request
from tacit.experiments.training import Training, train

__all__ = ["ALGORITHMS", "Metrics", "Request", "Training", "released", "train"]
