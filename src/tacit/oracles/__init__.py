"""Questions: an exact value on a shard, and the bound on how far it can move."""

from tacit.oracles.gradient import Gradient
from tacit.oracles.minibatch import MinibatchGradient
from tacit.oracles.oracle import Oracle, Point, Size
from tacit.oracles.projected_step import ProjectedStep, Step
from tacit.oracles.statistics import Statistics, packed, statistics_size, unpacked

__all__ = [
    "Gradient",
    "MinibatchGradient",
    "Oracle",
    "Point",
    "ProjectedStep",
    "Size",
    "Statistics",
    "Step",
    "packed",
    "statistics_size",
    "unpacked",
]
