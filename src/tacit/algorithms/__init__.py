"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.algorithm import Algorithm, Noise, StarAlgorithm, Turn
from tacit.algorithms.dp_admm import DPADMM, DualMessage
from tacit.algorithms.linearised_admm import LinearisedADMM, LocalMessage, LocalPublic
from tacit.algorithms.local_settings import PublicSettings, PublishedSettings, Settings
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.registry import ALGORITHMS, LOCAL, SAMPLED, algorithm_named, oracle_named

__all__ = [
    "ALGORITHMS",
    "DPADMM",
    "LOCAL",
    "SAMPLED",
    "Algorithm",
    "DualMessage",
    "LinearisedADMM",
    "LocalMessage",
    "LocalPublic",
    "Noise",
    "NoisyGradient",
    "OneQuestion",
    "PublicSettings",
    "PublishedSettings",
    "Settings",
    "StarAlgorithm",
    "Turn",
    "algorithm_named",
    "oracle_named",
]
