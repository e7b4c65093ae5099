"""Methods: one per file. They ask, are told, and send; they never see data."""

from tacit.algorithms.algorithm import Algorithm, Noise, StarAlgorithm, Turn
from tacit.algorithms.dp_admm import DPADMM, DualMessage
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
    "RateFacts",
    "Settings",
    "StarAlgorithm",
    "Turn",
    "algorithm_named",
    "nonsmooth_bound",
    "oracle_named",
    "running_average",
    "smooth_bound",
    "strongly_convex_bound",
]
