"""Names for arrays and shapes, used in every annotation.

Axes: A agents, T rounds, E questions per round, M padded records, D features, K classes.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import jax
import numpy as np

Array: TypeAlias = jax.Array
HostArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
PyTree: TypeAlias = Any
Key: TypeAlias = jax.Array
Precision: TypeAlias = Literal["float32", "float64"]
Task: TypeAlias = Literal["binary", "multiclass", "regression"]
