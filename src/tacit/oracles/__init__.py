"""Questions: an exact value on a shard, and the bound on how far it can move."""

from tacit.oracles.difference import MinibatchDifference, Pair, Snapshot
from tacit.oracles.drawn import Drawn
from tacit.oracles.gradient import Gradient
from tacit.oracles.minibatch import MinibatchGradient
from tacit.oracles.noise import AddedNoise, NoisePlacement, ObjectiveNoise
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.perturbed import PerturbedStep
from tacit.oracles.projected_step import ProjectedStep, Step
from tacit.oracles.proximal import ProximalStep
from tacit.oracles.queries import Centre, Point
from tacit.oracles.sampling import (
    AllRecords,
    FixedSizeBatches,
    PoissonBatches,
    Sampling,
)
from tacit.oracles.statistics import Statistics, packed, statistics_size, unpacked
from tacit.oracles.targets import Residual, TargetGradient, TargetQuestion, Targets

__all__ = [
    "AddedNoise",
    "AllRecords",
    "Assumptions",
    "Centre",
    "Drawn",
    "FixedSizeBatches",
    "Gradient",
    "MinibatchDifference",
    "MinibatchGradient",
    "NoisePlacement",
    "ObjectiveNoise",
    "Oracle",
    "Pair",
    "PerturbedStep",
    "Point",
    "PoissonBatches",
    "ProjectedStep",
    "ProximalStep",
    "Residual",
    "Sampling",
    "Snapshot",
    "Statistics",
    "Step",
    "TargetGradient",
    "TargetQuestion",
    "Targets",
    "packed",
    "statistics_size",
    "unpacked",
]
