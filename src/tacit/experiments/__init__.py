"""Whole experiments: from a data set and a request to a measured, certified run."""

from tacit.algorithms import ALGORITHMS
from tacit.experiments.training import Metrics, Request, Training, train

__all__ = ["ALGORITHMS", "Metrics", "Request", "Training", "train"]
