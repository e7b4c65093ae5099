"""Methods for coordinates that some agents share: consensus, and targets that are noised once."""

from taciturn_power.methods.general_consensus import (
    GeneralConsensus,
    SharedCoordinates,
    lifts,
    shared_coordinates,
)
from taciturn_power.methods.targets_once import TargetsByStep, TargetsOnce

__all__ = [
    "GeneralConsensus",
    "SharedCoordinates",
    "TargetsByStep",
    "TargetsOnce",
    "lifts",
    "shared_coordinates",
]
