"""Questions: an exact value on a shard, and the bound on how far it can move."""

from tacit.oracles.centred import Around, CentredGradient, RowMean, usable_centre
from tacit.oracles.claims import check_of_library
from tacit.oracles.clipped_errors import ClippedErrors
from tacit.oracles.difference import MinibatchDifference, Pair, Snapshot
from tacit.oracles.draws import Drawn, Words
from tacit.oracles.gradient import Gradient, MinibatchGradient
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.placement import AddedNoise, NoisePlacement, ObjectiveNoise, OnLattice
from tacit.oracles.projected_step import ProjectedStep, Step
from tacit.oracles.proximal import PerturbedStep, ProximalStep
from tacit.oracles.queries import AtStep, Centre, Point
from tacit.oracles.recentred import Recentred, around
from tacit.oracles.sampling import (
    AllRecords,
    FixedSizeBatches,
    PoissonBatches,
    Sampling,
)
from tacit.oracles.statistics import Statistics, packed, statistics_size, unpacked
from tacit.oracles.sums import margins, record_sum
from tacit.oracles.tally import BINS, Tally
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
