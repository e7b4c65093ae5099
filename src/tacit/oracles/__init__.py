"""Questions: an exact value on a shard, and the bound on how far it can move."""

from tacit.oracles.gradient import Gradient
from tacit.oracles.minibatch import MinibatchGradient
from tacit.oracles.oracle import Oracle, Point, Size
from tacit.oracles.statistics import Statistics, packed, statistics_size, unpacked
from tacit.oracles.targets import Residual, TargetGradient, TargetQuestion, Targets

__all__ = [
    "Gradient",
    "MinibatchGradient",
    "Oracle",
    "Point",
    "Residual",
    "Size",
    "Statistics",
    "TargetGradient",
    "TargetQuestion",
    "Targets",
    "packed",
    "statistics_size",
    "unpacked",
]
