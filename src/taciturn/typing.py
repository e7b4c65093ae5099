"""Names for arrays and shapes, used in every annotation.

Axes: A agents, T rounds, E questions per round, M padded records, D features, K classes. A `Model`,
and whatever has its shape, is `(D,)` or `(D, K)`; a `Vector` belongs to a model with one margin.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float

Array: TypeAlias = jax.Array
HostArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
PyTree: TypeAlias = Any
Key: TypeAlias = jax.Array
Model: TypeAlias = Float[Array, "*shape"]
Vector: TypeAlias = Float[Array, "D"]
Scalar: TypeAlias = float | Float[Array, ""]
Precision: TypeAlias = Literal["float32", "float64"]
# what the public range of a number is mapped to: [-1, 1], or [0, 1]
Interval: TypeAlias = Literal["symmetric", "unit"]
Task: TypeAlias = Literal["binary", "multiclass", "regression"]


@runtime_checkable
class Rows(Protocol):
    """Rows `(N, D)` that are read by their indices: an array, or rows computed as they are read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """N and D."""

    @property
    def dtype(self) -> Any:
        """The type of a cell."""

    def __getitem__(self, rows: Any, /) -> HostArray:
        """Return the rows with these indices, `(M, D)`."""
