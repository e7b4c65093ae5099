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
from tacit.algorithms.general_consensus import GeneralConsensus, lifts
from tacit.algorithms.gossip import EXTRA, NIDS, DIGing
from tacit.algorithms.gossip_admm import GossipADMM, LinearisedGossipADMM, RecycledADMM
from tacit.algorithms.linearised_admm import LinearisedADMM, LocalMessage, LocalPublic
from tacit.algorithms.local_settings import PublicSettings, Settings
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.recal import RECAL
from tacit.algorithms.registry import (
    ALGORITHMS,
    METHODS,
    STAR_ALGORITHMS,
    Choice,
    Method,
    fixed_batches,
    method_named,
)
from tacit.algorithms.rwadmm import RWADMM
from tacit.algorithms.sadmm import SADMM, RenyiADMM
from tacit.algorithms.shared_coordinates import (
    SharedCoordinates,
    everything_shared,
    shared_coordinates,
)
from tacit.algorithms.splitting import Iterate, RateWarning, SplittingADMM
from tacit.algorithms.vradmm import VRADMM, variance_reduction
from tacit.algorithms.walkman import Walkman

__all__ = [
    "ADMM",
    "ALGORITHMS",
    "DPADMM",
    "EXTRA",
    "METHODS",
    "NIDS",
    "RECAL",
    "RWADMM",
    "SADMM",
    "STAR_ALGORITHMS",
    "VRADMM",
    "Algorithm",
    "Choice",
    "ConsensusADMM",
    "DIGing",
    "DualMessage",
    "GeneralConsensus",
    "GossipADMM",
    "GossipAlgorithm",
    "Iterate",
    "LinearisedADMM",
    "LinearisedGossipADMM",
    "LocalMessage",
    "LocalPublic",
    "Method",
    "Noise",
    "NoisyGradient",
    "OneQuestion",
    "PublicSettings",
    "RateWarning",
    "RecycledADMM",
    "RelayAlgorithm",
    "RenyiADMM",
    "Settings",
    "SharedCoordinates",
    "SplittingADMM",
    "StarAlgorithm",
    "Turn",
    "Walkman",
    "at_agents",
    "everything_shared",
    "fixed_batches",
    "lifts",
    "method_named",
    "shared_coordinates",
    "steady_rho",
    "variance_reduction",
]
