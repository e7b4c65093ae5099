"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.algorithm import Algorithm, Noise, StarAlgorithm, Turn
from tacit.algorithms.dp_admm import DPADMM, DualMessage
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.registry import ALGORITHMS, algorithm_named

__all__ = [
    "ALGORITHMS",
    "DPADMM",
    "Algorithm",
    "DualMessage",
    "Noise",
    "NoisyGradient",
    "StarAlgorithm",
    "Turn",
    "algorithm_named",
]
