"""Data room: published data sets, verified against pinned digests, scaled by public constants."""

from tacit.datasets.dataset import Dataset, Split, split
from tacit.datasets.facts import FACTS, PublicFacts
from tacit.datasets.registry import load, names

__all__ = ["FACTS", "Dataset", "PublicFacts", "Split", "load", "names", "split"]
