"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.admm import ADMM, steady_rho
from tacit.algorithms.algorithm import Algorithm, Noise, StarAlgorithm, Turn
from tacit.algorithms.consensus_admm import ConsensusADMM, DualMessage, at_agents
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.linearised_admm import LinearisedADMM, LocalMessage, LocalPublic
from tacit.algorithms.local_settings import PublicSettings, PublishedSettings, Settings
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.rate_bounds import (
    RateFacts,
    nonsmooth_bound,
    running_average,
    smooth_bound,
    strongly_convex_bound,
)
from tacit.algorithms.registry import ALGORITHMS, METHODS, Choice, Method, method_named
from tacit.algorithms.sadmm import SADMM, RenyiADMM
from tacit.algorithms.splitting import Iterate, RateWarning, SplittingADMM
from tacit.algorithms.vradmm import VRADMM, variance_reduction

__all__ = [
    "ADMM",
    "ALGORITHMS",
    "DPADMM",
    "METHODS",
    "SADMM",
    "VRADMM",
    "Algorithm",
    "Choice",
    "ConsensusADMM",
    "DualMessage",
    "Iterate",
    "LinearisedADMM",
    "LocalMessage",
    "LocalPublic",
    "Method",
    "Noise",
    "NoisyGradient",
    "OneQuestion",
    "PublicSettings",
    "PublishedSettings",
    "RateFacts",
    "RateWarning",
    "RenyiADMM",
    "Settings",
    "SplittingADMM",
    "StarAlgorithm",
    "Turn",
    "at_agents",
    "method_named",
    "nonsmooth_bound",
    "running_average",
    "smooth_bound",
    "steady_rho",
    "strongly_convex_bound",
    "variance_reduction",
]
