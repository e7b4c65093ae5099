"""Published data sets, verified against pinned digests, scaled by public constants."""

from tacit.datasets.cifar import CAT, DOG
from tacit.datasets.dataset import Dataset, Split, split
from tacit.datasets.registry import FACTS, PublicFacts, load, names

__all__ = ["CAT", "DOG", "FACTS", "Dataset", "PublicFacts", "Split", "load", "names", "split"]
