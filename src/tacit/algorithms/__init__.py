"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.admm import ADMM, steady_rho
from tacit.algorithms.algorithm import (
    Algorithm,
    GossipAlgorithm,
    Noise,
    RelayAlgorithm,
    StarAlgorithm,
    Turn,
)
from tacit.algorithms.consensus_admm import ConsensusADMM, DualMessage, at_agents
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.gossip import EXTRA, NIDS, DIGing
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.recal import RECAL
from tacit.algorithms.registry import ALGORITHMS, METHODS, Choice, Method, method_named
from tacit.algorithms.walkman import Walkman

__all__ = [
    "ADMM",
    "ALGORITHMS",
    "DPADMM",
    "EXTRA",
    "METHODS",
    "NIDS",
    "RECAL",
    "Algorithm",
    "Choice",
    "ConsensusADMM",
    "DIGing",
    "DualMessage",
    "GossipAlgorithm",
    "Method",
    "Noise",
    "NoisyGradient",
    "OneQuestion",
    "RelayAlgorithm",
    "StarAlgorithm",
    "Turn",
    "Walkman",
    "at_agents",
    "method_named",
    "steady_rho",
]
