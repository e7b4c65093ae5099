"""Data room: published data sets, verified against pinned digests, scaled by public constants."""

from tacit.datasets.cifar import CAT, DOG
from tacit.datasets.dataset import Dataset, Split, Task, split
from tacit.datasets.registry import load, names

__all__ = ["CAT", "DOG", "Dataset", "Split", "Task", "load", "names", "split"]
