"""Published data sets, verified against pinned digests, scaled by public constants."""

from taciturn.datasets.dataset import Dataset, Owners, RecordFacts, Split, divided, split
from taciturn.datasets.pictures import CAT, DOG
from taciturn.datasets.registry import FACTS, PublicFacts, load, names

__all__ = [
    "CAT", "DOG", "FACTS", "Dataset", "Owners", "PublicFacts", "RecordFacts", "Split", "divided",
    "load", "names", "split",
]  # fmt: skip
