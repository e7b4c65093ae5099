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
from tacit.algorithms.methods import (
    METHODS,
    Composition,
    Method,
    checked_options,
    method_named,
    rounds_by_default,
    settled,
    those_with,
)
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.options import Option, Setting, Value
from tacit.algorithms.recal import RECAL
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
    "DPADMM",
    "EXTRA",
    "METHODS",
    "NIDS",
    "RECAL",
    "RWADMM",
    "SADMM",
    "VRADMM",
    "Algorithm",
    "Composition",
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
    "Option",
    "PublicSettings",
    "RateWarning",
    "RecycledADMM",
    "RelayAlgorithm",
    "RenyiADMM",
    "Setting",
    "Settings",
    "SharedCoordinates",
    "SplittingADMM",
    "StarAlgorithm",
    "Turn",
    "Value",
    "Walkman",
    "at_agents",
    "checked_options",
    "everything_shared",
    "lifts",
    "method_named",
    "rounds_by_default",
    "settled",
    "shared_coordinates",
    "steady_rho",
    "those_with",
    "variance_reduction",
]
