"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.admm import ADMM
from tacit.algorithms.algorithm import Algorithm, Noise, StarAlgorithm, Turn
from tacit.algorithms.consensus_admm import ConsensusADMM, DualMessage, at_agents
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.registry import ALGORITHMS, SAMPLED, algorithm_named, oracle_named

__all__ = [
    "ADMM",
    "ALGORITHMS",
    "DPADMM",
    "SAMPLED",
    "Algorithm",
    "ConsensusADMM",
    "DualMessage",
    "Noise",
    "NoisyGradient",
    "OneQuestion",
    "StarAlgorithm",
    "Turn",
    "algorithm_named",
    "at_agents",
    "oracle_named",
]
