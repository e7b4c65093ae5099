"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.admm import ADMM, steady_rho
from tacit.algorithms.algorithm import Algorithm, Noise, StarAlgorithm, Turn
from tacit.algorithms.consensus_admm import ConsensusADMM, DualMessage, at_agents
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.registry import ALGORITHMS, METHODS, Choice, Method, method_named

__all__ = [
    "ADMM",
    "ALGORITHMS",
    "DPADMM",
    "METHODS",
    "Algorithm",
    "Choice",
    "ConsensusADMM",
    "DualMessage",
    "Method",
    "Noise",
    "NoisyGradient",
    "OneQuestion",
    "StarAlgorithm",
    "Turn",
    "at_agents",
    "method_named",
    "steady_rho",
]
