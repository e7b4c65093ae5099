"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.algorithm import Algorithm, Noise, StarAlgorithm, Turn
from tacit.algorithms.dp_admm import DPADMM, DualMessage
from tacit.algorithms.noisy_gradient import NoisyGradient

__all__ = ["DPADMM", "Algorithm", "DualMessage", "Noise", "NoisyGradient", "StarAlgorithm", "Turn"]
