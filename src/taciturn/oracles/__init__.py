"""Questions: an exact value on a shard, and the bound on how far it can move."""

from taciturn.oracles.centred import (
    Around,
    CentredGradient,
    Recentred,
    RowMean,
    around,
    usable_centre,
)
from taciturn.oracles.claims import check_of_library
from taciturn.oracles.gradient import (
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    Pair,
    ProjectedStep,
    Snapshot,
    Step,
)
from taciturn.oracles.oracle import (
    AddedNoise,
    Assumptions,
    AtStep,
    Centre,
    NoisePlacement,
    ObjectiveNoise,
    OnLattice,
    Oracle,
    Point,
)
from taciturn.oracles.proximal import PerturbedStep, ProximalStep
from taciturn.oracles.sampling import (
    AllRecords,
    Drawn,
    FixedSizeBatches,
    PoissonBatches,
    Sampling,
    Words,
)
from taciturn.oracles.statistics import (
    BINS,
    ClippedErrors,
    Statistics,
    Tally,
    packed,
    statistics_size,
    unpacked,
)
from taciturn.oracles.sums import margins, record_sum
from taciturn.oracles.targets import Residual, TargetGradient, TargetQuestion, Targets, TargetsAt

__all__ = [
    "BINS", "AddedNoise", "AllRecords", "Around", "Assumptions", "AtStep", "Centre",
    "CentredGradient", "ClippedErrors", "Drawn", "FixedSizeBatches", "Gradient",
    "MinibatchDifference", "MinibatchGradient", "NoisePlacement", "ObjectiveNoise", "OnLattice",
    "Oracle", "Pair", "PerturbedStep", "Point", "PoissonBatches", "ProjectedStep", "ProximalStep",
    "Recentred", "Residual", "RowMean", "Sampling", "Snapshot", "Statistics", "Step", "Tally",
    "TargetGradient", "TargetQuestion", "Targets", "TargetsAt", "Words", "around",
    "check_of_library", "margins", "packed", "record_sum", "statistics_size", "unpacked",
    "usable_centre",
]  # fmt: skip
