"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.algorithm import Algorithm, Noise, StarAlgorithm, Turn
from tacit.algorithms.dp_admm import DPADMM, DualMessage
from tacit.algorithms.general_consensus import GeneralConsensus, lifts
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.registry import ALGORITHMS, SAMPLED, algorithm_named, oracle_named
from tacit.algorithms.shared_coordinates import (
    SharedCoordinates,
    everything_shared,
    shared_coordinates,
)

__all__ = [
    "ALGORITHMS",
    "DPADMM",
    "SAMPLED",
    "Algorithm",
    "DualMessage",
    "GeneralConsensus",
    "Noise",
    "NoisyGradient",
    "OneQuestion",
    "SharedCoordinates",
    "StarAlgorithm",
    "Turn",
    "algorithm_named",
    "everything_shared",
    "lifts",
    "oracle_named",
    "shared_coordinates",
]
