"""Optimisation methods, one per file: they ask, are told noised answers, and send messages."""

from taciturn.algorithms.admm import ADMM, DPADMM, ConsensusADMM, DualMessage, at_agents
from taciturn.algorithms.algorithm import (
    Algorithm,
    AnswerMessages,
    GossipAlgorithm,
    Noise,
    RelayAlgorithm,
    ServerMethod,
    StarAlgorithm,
    averaging,
    batch_variance,
    radius_of,
    smoothness_of,
)
from taciturn.algorithms.centred import (
    MOST_NOISE,
    SHARE,
    Centred,
    add_centre,
    centre_multiplier,
    check_centre,
    noise_share,
)
from taciturn.algorithms.gossip import (
    EXTRA,
    NIDS,
    Exchanged,
    GossipState,
    LinearisedGossipADMM,
    NoisedGossip,
)
from taciturn.algorithms.linearised_admm import (
    LinearisedADMM,
    PublicSettings,
    Settings,
    StatedSettings,
)
from taciturn.algorithms.methods import (
    COUNTS,
    LARGEST_SLOPE,
    METHODS,
    Composition,
    Method,
    check_options,
    method_named,
    noise_of_gradients,
    register,
    rounds_by_default,
    settled,
)
from taciturn.algorithms.newton import LONGEST, NEWTON, Asked, Newton
from taciturn.algorithms.noisy_gradient import NoisyGradient
from taciturn.algorithms.one_question import EvaluateModel, OneQuestion, unpacked
from taciturn.algorithms.options import Option, Setting, Value, numbers_of
from taciturn.algorithms.published import PUBLISHED, Published, published_method
from taciturn.algorithms.relay import RECAL, NoisedRelay, Walkman
from taciturn.algorithms.splitting import (
    SADMM,
    AcceleratedADMM,
    AcceleratedRenyiADMM,
    AcceleratedSplitting,
    RateWarning,
    RenyiADMM,
    SplittingADMM,
)
from taciturn.algorithms.vradmm import VRADMM, AcceleratedVRADMM, variance_reduction
from taciturn.kernel.door import Turn

__all__ = [
    "ADMM", "COUNTS", "DPADMM", "EXTRA", "LARGEST_SLOPE", "LONGEST", "METHODS", "MOST_NOISE",
    "NEWTON", "NIDS", "PUBLISHED", "RECAL", "SADMM", "SHARE", "VRADMM", "AcceleratedADMM",
    "AcceleratedRenyiADMM", "AcceleratedSplitting", "AcceleratedVRADMM", "Algorithm",
    "AnswerMessages", "Asked", "Centred", "Composition", "ConsensusADMM", "DualMessage",
    "EvaluateModel", "Exchanged", "GossipAlgorithm", "GossipState", "LinearisedADMM",
    "LinearisedGossipADMM", "Method", "Newton", "Noise", "NoisedGossip", "NoisedRelay",
    "NoisyGradient", "OneQuestion", "Option", "PublicSettings", "Published", "RateWarning",
    "RelayAlgorithm", "RenyiADMM", "ServerMethod", "Setting", "Settings", "SplittingADMM",
    "StarAlgorithm", "StatedSettings", "Turn", "Value", "Walkman", "add_centre", "at_agents",
    "averaging", "batch_variance", "centre_multiplier", "check_centre", "check_options",
    "method_named", "noise_of_gradients", "noise_share", "numbers_of", "published_method",
    "radius_of", "register", "rounds_by_default", "settled", "smoothness_of", "unpacked",
    "variance_reduction",
]  # fmt: skip
