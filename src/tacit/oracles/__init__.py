"""Questions: an exact value on a shard, and the bound on how far it can move."""

from tacit.oracles.gradient import Gradient
from tacit.oracles.oracle import Oracle, Point, Size

__all__ = ["Gradient", "Oracle", "Point", "Size"]
