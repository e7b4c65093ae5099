"""Published data sets, verified against pinned digests, scaled by public constants."""

from taciturn.datasets.dataset import Dataset, Split, split
from taciturn.datasets.pictures import CAT, DOG
from taciturn.datasets.registry import FACTS, PublicFacts, load, names

__all__ = ["CAT", "DOG", "FACTS", "Dataset", "PublicFacts", "Split", "load", "names", "split"]
