"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.algorithm import Algorithm, Noise, StarAlgorithm, Turn
from tacit.algorithms.dp_admm import DPADMM, DualMessage
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.registry import ALGORITHMS, METHODS, Method, method_named

__all__ = [
    "ALGORITHMS",
    "DPADMM",
    "METHODS",
    "Algorithm",
    "DualMessage",
    "Method",
    "Noise",
    "NoisyGradient",
    "OneQuestion",
    "StarAlgorithm",
    "Turn",
    "method_named",
]
