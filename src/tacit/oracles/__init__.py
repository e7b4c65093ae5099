"""Questions: an exact value on a shard, and the bound on how far it can move."""

from tacit.oracles.gradient import Gradient
from tacit.oracles.minibatch import MinibatchGradient
from tacit.oracles.oracle import Centre, Oracle, Point, Size
from tacit.oracles.perturbed import PerturbedStep
from tacit.oracles.projected_step import ProjectedStep, Step
from tacit.oracles.proximal import ProximalStep
from tacit.oracles.sampling import check_sampling
from tacit.oracles.statistics import Statistics, packed, statistics_size, unpacked

__all__ = [
    "Centre",
    "Gradient",
    "MinibatchGradient",
    "Oracle",
    "PerturbedStep",
    "Point",
    "ProjectedStep",
    "ProximalStep",
    "Size",
    "Statistics",
    "Step",
    "check_sampling",
    "packed",
    "statistics_size",
    "unpacked",
]
