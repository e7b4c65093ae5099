"""Questions: an exact value on a shard, and its sensitivity bound.

`KINDS` is the closed list of the library's questions, whose bounds follow from their facts
(`bound_of`). The bound of a question of any other class is a claim of its author, and certificates
say so.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from taciturn.kernel.questions.bounds import bound_of
from taciturn.kernel.questions.centred import (
    NEAREST,
    Around,
    CentredGradient,
    Recentred,
    RowMean,
    around,
    clipped_centre,
    is_full_batch,
)
from taciturn.kernel.questions.claims import (
    check_of_library,
    custom_classes,
    foreign_operation,
    name_of_class,
)
from taciturn.kernel.questions.derivatives import Derivatives, Layout
from taciturn.kernel.questions.gradient import (
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    Pair,
)
from taciturn.kernel.questions.loss import (
    Loss,
    Margins,
    PerRecord,
    RegressionLoss,
    Slopes,
    Squared,
    TargetArray,
    clip_coefficient,
)
from taciturn.kernel.questions.minimisers import PerturbedStep, ProjectedStep, ProximalStep, Step
from taciturn.kernel.questions.oracle import (
    AddedNoise,
    Assumptions,
    AtStep,
    Centre,
    OnLattice,
    Oracle,
    Point,
    Question,
)
from taciturn.kernel.questions.sampling import (
    AllRecords,
    Drawn,
    FixedSizeBatches,
    PoissonBatches,
    Sampling,
    Words,
)
from taciturn.kernel.questions.statistics import (
    BINS,
    ClippedErrors,
    Counts,
    Statistics,
    Tally,
    statistics_size,
)
from taciturn.kernel.questions.sums import margins, record_sum
from taciturn.kernel.questions.targets import Residual, TargetGradient, TargetQuestion, Targets

KINDS: tuple[type[Question], ...] = (
    Gradient, RowMean, Recentred, CentredGradient, ProjectedStep, ProximalStep, PerturbedStep,
    Statistics, Derivatives, Tally, Counts, ClippedErrors, TargetGradient, Targets, Residual,
)  # fmt: skip
# the forms of queries
QUERIES: Mapping[str, Any] = MappingProxyType(
    {one.__name__: one for one in (Point, Centre, Pair, Step, AtStep, Around)}
)

__all__ = [
    "BINS", "KINDS", "NEAREST", "QUERIES", "AddedNoise", "AllRecords", "Around", "Assumptions",
    "AtStep", "Centre", "CentredGradient", "ClippedErrors", "Counts", "Derivatives", "Drawn",
    "FixedSizeBatches", "Gradient", "Layout", "Loss", "Margins", "MinibatchDifference",
    "MinibatchGradient", "OnLattice", "Oracle", "Pair", "PerRecord", "PerturbedStep", "Point",
    "PoissonBatches", "ProjectedStep", "ProximalStep", "Question", "Recentred", "RegressionLoss",
    "Residual", "RowMean", "Sampling", "Slopes", "Squared", "Statistics", "Step", "Tally",
    "TargetArray", "TargetGradient", "TargetQuestion", "Targets", "Words", "around", "bound_of",
    "check_of_library", "clip_coefficient", "clipped_centre", "custom_classes", "foreign_operation",
    "is_full_batch", "margins", "name_of_class", "record_sum", "statistics_size",
]  # fmt: skip
