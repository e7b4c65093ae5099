"""Methods, one per file: they ask, are told, and send; they never see data."""

from tacit.algorithms.accelerated_admm import (
    Accelerated,
    AcceleratedADMM,
    AcceleratedRenyiADMM,
    AcceleratedSplitting,
)
from tacit.algorithms.accelerated_vradmm import AcceleratedVRADMM
from tacit.algorithms.admm import ADMM, ConsensusADMM, DualMessage, at_agents, steady_rho
from tacit.algorithms.algorithm import (
    Algorithm,
    AnswerMessages,
    GossipAlgorithm,
    Noise,
    RelayAlgorithm,
    StarAlgorithm,
    Turn,
)
from tacit.algorithms.centred import (
    MOST_NOISE,
    SHARE,
    Centred,
    around_centre,
    centre_multiplier,
    check_centre,
    noise_share,
)
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.evaluate_model import EvaluateModel
from tacit.algorithms.gossip import (
    EXTRA,
    NIDS,
    Exchanged,
    GossipState,
    LinearisedGossipADMM,
    NoisedGossip,
)
from tacit.algorithms.linearised_admm import (
    LinearisedADMM,
    LocalMessage,
    LocalPublic,
    PublicSettings,
    Settings,
)
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
from tacit.algorithms.relay import NoisedRelay
from tacit.algorithms.splitting import SADMM, Iterate, RateWarning, RenyiADMM, SplittingADMM
from tacit.algorithms.steps import averaging, batch_variance, radius_of, smoothness_of
from tacit.algorithms.vradmm import VRADMM, variance_reduction
from tacit.algorithms.walkman import Walkman

__all__ = [
    "ADMM",
    "DPADMM",
    "EXTRA",
    "METHODS",
    "MOST_NOISE",
    "NIDS",
    "RECAL",
    "SADMM",
    "SHARE",
    "VRADMM",
    "Accelerated",
    "AcceleratedADMM",
    "AcceleratedRenyiADMM",
    "AcceleratedSplitting",
    "AcceleratedVRADMM",
    "Algorithm",
    "AnswerMessages",
    "Centred",
    "Composition",
    "ConsensusADMM",
    "DualMessage",
    "EvaluateModel",
    "Exchanged",
    "GossipAlgorithm",
    "GossipState",
    "Iterate",
    "LinearisedADMM",
    "LinearisedGossipADMM",
    "LocalMessage",
    "LocalPublic",
    "Method",
    "Noise",
    "NoisedGossip",
    "NoisedRelay",
    "NoisyGradient",
    "OneQuestion",
    "Option",
    "PublicSettings",
    "RateWarning",
    "RelayAlgorithm",
    "RenyiADMM",
    "Setting",
    "Settings",
    "SplittingADMM",
    "StarAlgorithm",
    "Turn",
    "Value",
    "Walkman",
    "around_centre",
    "at_agents",
    "averaging",
    "batch_variance",
    "centre_multiplier",
    "check_centre",
    "checked_options",
    "method_named",
    "noise_share",
    "radius_of",
    "rounds_by_default",
    "settled",
    "smoothness_of",
    "steady_rho",
    "those_with",
    "variance_reduction",
]
