"""Public feature maps: what lies between encoded records and the rows that agents hold."""

from taciturn.features.around import CONSTANT, NEAREST, AroundCentre
from taciturn.features.bins import set_bins
from taciturn.features.feature_map import FeatureMap, Inputs, applied
from taciturn.features.named import FEATURES, feature_map_named, usage

__all__ = [
    "CONSTANT",
    "FEATURES",
    "NEAREST",
    "AroundCentre",
    "FeatureMap",
    "Inputs",
    "applied",
    "feature_map_named",
    "set_bins",
    "usage",
]
