"""Questions: an exact value on a shard, and the bound on how far it can move."""

from tacit.oracles.batches import BatchOracle
from tacit.oracles.difference import MinibatchDifference, Pair, Snapshot
from tacit.oracles.gradient import Gradient
from tacit.oracles.minibatch import MinibatchGradient
from tacit.oracles.oracle import Assumptions, Centre, Oracle, Point, Size
from tacit.oracles.perturbed import PerturbedStep
from tacit.oracles.poisson import poisson_batch
from tacit.oracles.projected_step import ProjectedStep, Step
from tacit.oracles.proximal import ProximalStep
from tacit.oracles.sampling import check_sampling
from tacit.oracles.statistics import Statistics, packed, statistics_size, unpacked
from tacit.oracles.targets import Residual, TargetGradient, TargetQuestion, Targets

__all__ = [
    "Assumptions",
    "BatchOracle",
    "Centre",
    "Gradient",
    "MinibatchDifference",
    "MinibatchGradient",
    "Oracle",
    "Pair",
    "PerturbedStep",
    "Point",
    "ProjectedStep",
    "ProximalStep",
    "Residual",
    "Size",
    "Snapshot",
    "Statistics",
    "Step",
    "TargetGradient",
    "TargetQuestion",
    "Targets",
    "check_sampling",
    "packed",
    "poisson_batch",
    "statistics_size",
    "unpacked",
]
