"""Questions: an exact value on a shard, and the bound on how far it can move.

`KINDS` is the closed list of the library's questions; the bound of each follows from its facts
(`bound_of`). A question of any other class is its author's, and certificates say so.
"""

from taciturn.oracles.bounds import bound_of
from taciturn.oracles.centred import (
    Around,
    CentredGradient,
    Recentred,
    RowMean,
    around,
    usable_centre,
)
from taciturn.oracles.claims import check_of_library
from taciturn.oracles.gradient import Gradient, MinibatchDifference, MinibatchGradient, Pair
from taciturn.oracles.minimisers import PerturbedStep, ProjectedStep, ProximalStep, Step
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
    Question,
)
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
from taciturn.oracles.targets import Residual, TargetGradient, TargetQuestion, Targets

KINDS: tuple[type[Question], ...] = (
    Gradient, RowMean, Recentred, CentredGradient, ProjectedStep, ProximalStep, PerturbedStep,
    Statistics, Tally, ClippedErrors, TargetGradient, Targets, Residual,
)  # fmt: skip

__all__ = [
    "BINS", "KINDS", "AddedNoise", "AllRecords", "Around", "Assumptions", "AtStep", "Centre",
    "CentredGradient", "ClippedErrors", "Drawn", "FixedSizeBatches", "Gradient",
    "MinibatchDifference", "MinibatchGradient", "NoisePlacement", "ObjectiveNoise", "OnLattice",
    "Oracle", "Pair", "PerturbedStep", "Point", "PoissonBatches", "ProjectedStep", "ProximalStep",
    "Question", "Recentred", "Residual", "RowMean", "Sampling", "Statistics", "Step", "Tally",
    "TargetGradient", "TargetQuestion", "Targets", "Words", "around", "bound_of",
    "check_of_library", "margins", "packed", "record_sum", "statistics_size", "unpacked",
    "usable_centre",
]  # fmt: skip
