"""Questions: an exact value on a shard, and the bound on how far it can move."""

from tacit.oracles.centred import Around, CentredGradient, Recentred, RowMean, around, usable_centre
from tacit.oracles.claims import check_of_library
from tacit.oracles.gradient import (
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    Pair,
    ProjectedStep,
    Snapshot,
    Step,
)
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.placement import AddedNoise, NoisePlacement, ObjectiveNoise, OnLattice
from tacit.oracles.proximal import PerturbedStep, ProximalStep
from tacit.oracles.queries import AtStep, Centre, Point
from tacit.oracles.sampling import (
    AllRecords,
    Drawn,
    FixedSizeBatches,
    PoissonBatches,
    Sampling,
    Words,
)
from tacit.oracles.statistics import (
    BINS,
    ClippedErrors,
    Statistics,
    Tally,
    packed,
    statistics_size,
    unpacked,
)
from tacit.oracles.sums import margins, record_sum
from tacit.oracles.targets import Residual, TargetGradient, TargetQuestion, Targets, TargetsAt

__all__ = [
    "BINS",
    "AddedNoise",
    "AllRecords",
    "Around",
    "Assumptions",
    "AtStep",
    "Centre",
    "CentredGradient",
    "ClippedErrors",
    "Drawn",
    "FixedSizeBatches",
    "Gradient",
    "MinibatchDifference",
    "MinibatchGradient",
    "NoisePlacement",
    "ObjectiveNoise",
    "OnLattice",
    "Oracle",
    "Pair",
    "PerturbedStep",
    "Point",
    "PoissonBatches",
    "ProjectedStep",
    "ProximalStep",
    "Recentred",
    "Residual",
    "RowMean",
    "Sampling",
    "Snapshot",
    "Statistics",
    "Step",
    "Tally",
    "TargetGradient",
    "TargetQuestion",
    "Targets",
    "TargetsAt",
    "Words",
    "around",
    "check_of_library",
    "margins",
    "packed",
    "record_sum",
    "statistics_size",
    "unpacked",
    "usable_centre",
]
