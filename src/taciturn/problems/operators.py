"""Linear operators without dense matrices: identities and sparse rows."""

from __future__ import annotations

import abc
import math
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Float, Int
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.typing import Array, HostArray

_FEW = 4  # up to this many entries of a row, each is a separate gather
_DENSE = 3_000  # up to this size a spectrum is computed exactly, from the dense Gram matrix


class Operator(eqx.Module):
    """A public linear map from `columns` to `rows` numbers.

    The sizes, `sparse`, `norm_squared` and `full_row_rank` are for planning, on the host.
    """

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Length of the output."""

    @property
    @abc.abstractmethod
    def columns(self) -> int:
        """Length of the input."""

    @abc.abstractmethod
    def apply(self, x: Float[Array, "n"]) -> Float[Array, "m"]:
        """Return A x."""

    @abc.abstractmethod
    def adjoint(self, z: Float[Array, "m"]) -> Float[Array, "n"]:
        """Return A' z."""

    @abc.abstractmethod
    def sparse(self) -> scipy.sparse.csr_array:
        """Return the operator as a SciPy matrix."""

    def norm_squared(self) -> float:
        """Return an upper bound on the largest eigenvalue of A'A.

        Exact up to rounding if the smaller dimension is at most 3,000; otherwise the largest row
        sum times the largest column sum of |A|, which is never smaller (|A|_2^2 <= |A|_1 |A|_inf).
        """
        matrix = self.sparse()
        size = abs(matrix)
        bound = float(size.sum(axis=0).max() * size.sum(axis=1).max())
        if min(matrix.shape) > _DENSE:
            return bound
        wide = matrix.shape[0] < matrix.shape[1]
        gram = (matrix @ matrix.T if wide else matrix.T @ matrix).toarray()
        return min(bound, float(np.linalg.eigvalsh(gram)[-1]) * (1 + 1e-9))

    def full_row_rank(self) -> bool:
        """Return whether the rows are known to be linearly independent; False above 3,000 rows."""
        if self.rows > min(self.columns, _DENSE):
            return False
        return int(np.linalg.matrix_rank(self.sparse().toarray())) == self.rows


@final
class Identity(Operator):
    """`factor` times the identity on `size` numbers."""

    size: int = eqx.field(static=True, converter=lambda n: checks.at_least("size", n, 1))
    factor: float = eqx.field(static=True, default=1.0)

    @property
    @override
    def rows(self) -> int:
        return self.size

    @property
    @override
    def columns(self) -> int:
        return self.size

    @override
    def apply(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        return x * self.factor

    @override
    def adjoint(self, z: Float[Array, "n"]) -> Float[Array, "n"]:
        return z * self.factor

    @override
    def sparse(self) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(self.factor * scipy.sparse.eye_array(self.size))

    def norm_squared(self) -> float:
        """Return factor^2, exactly."""
        return self.factor**2


@final
class Sparse(Operator):
    """Rows with equally many entries: (A x)_i = sum_k values_ik x[places_ik]."""

    places: Int[Array, "m k"]  # the column of every entry
    values: Float[Array, "m k"]  # the entry; 0 for padding
    width: int = eqx.field(static=True)  # the number of columns

    @property
    @override
    def rows(self) -> int:
        return int(self.places.shape[-2])

    @property
    @override
    def columns(self) -> int:
        return self.width

    def apply(self, x: Float[Array, "n"]) -> Float[Array, "m"]:
        """Return A x, by gathering."""
        if self.places.shape[-1] > _FEW:
            return jnp.sum(self.values * x[self.places], axis=-1)
        # the k-th entries of all rows at once: several times faster under XLA on a CPU
        columns = zip(self.values.T, self.places.T, strict=True)
        parts = [v * x.at[place].get(mode="promise_in_bounds") for v, place in columns]
        total: Array = sum(parts[1:], parts[0])
        return total

    def adjoint(self, z: Float[Array, "m"]) -> Float[Array, "n"]:
        """Return A' z, by scattering."""
        terms = (self.values * z[:, None]).ravel()
        # flat and unchecked: several times faster under XLA on a CPU than a table of places
        start = jnp.zeros(self.width, z.dtype)
        return start.at[self.places.ravel()].add(terms, mode="promise_in_bounds")

    def sparse(self) -> scipy.sparse.csr_array:
        """Return the rows as a SciPy matrix."""
        places, values = np.asarray(self.places), np.asarray(self.values, np.float64)
        lines = np.broadcast_to(np.arange(len(places))[:, None], places.shape)
        entries = (values.ravel(), (lines.ravel(), places.ravel()))
        table = scipy.sparse.csr_array(scipy.sparse.coo_array(entries, (len(places), self.width)))
        table.eliminate_zeros()  # remove the padding
        return table


def differences(edges: Int[HostArray, "e 2"], size: int) -> Sparse:
    """Return the difference operator of a graph: one row x_i - x_j for every edge (i, j).

    Examples
    --------
    >>> differences(np.array([[0, 1], [1, 2]]), 3).apply(jnp.array([5.0, 3.0, 3.0]))
    Array([2., 0.], dtype=float64)
    """
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[1:] != (2,) or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError("a graph is a list of pairs of node numbers; give at least one edge")
    if not len(pairs) or pairs.min() < 0 or pairs.max() >= size:
        raise InputError(f"the graph's edges must join nodes from 0 to {size - 1}, one per feature")
    if np.any(pairs[:, 0] == pairs[:, 1]):
        raise InputError("an edge of the graph joins a node to itself; leave it out")
    values = np.broadcast_to([1.0, -1.0], pairs.shape)
    return Sparse(jnp.asarray(pairs, jnp.int32), jnp.asarray(values, jnp.float64), size)


def sparse_rows(matrix: Float[HostArray, "m n"] | scipy.sparse.csr_array) -> Sparse:
    """Return a matrix as an operator that stores its non-zero entries, padded row by row."""
    table = scipy.sparse.csr_array(matrix)
    if not table.shape[0] or not table.shape[1] or not np.all(np.isfinite(table.data)):
        raise InputError("the matrix of a structure must have rows and finite entries")
    lengths = np.diff(table.indptr)
    width = max(1, int(lengths.max()))
    places = np.zeros((table.shape[0], width), np.int32)
    values = np.zeros((table.shape[0], width))
    rows = np.repeat(np.arange(table.shape[0]), lengths)
    slots = np.arange(table.nnz) - np.repeat(table.indptr[:-1], lengths)
    places[rows, slots], values[rows, slots] = table.indices, table.data
    return Sparse(jnp.asarray(places), jnp.asarray(values, jnp.float64), int(table.shape[1]))


def chain(size: int) -> Sparse:
    """Return the difference operator of the chain 0 - 1 - ... - (size - 1)."""
    nodes = np.arange(checks.at_least("size", size, 2))
    return differences(np.stack([nodes[:-1], nodes[1:]], axis=1), size)


def laplacian_smooth(x: Float[Array, "d"], strength: float) -> Float[Array, "d"]:
    r"""Return Q_v^-1 x, Q_v = I - v L, L the periodic one-dimensional Laplacian.

    By the Fourier transform (Liu et al. 2022, (2)): divide by 1 + 2v (1 - cos(2 pi k / d)).
    """
    if strength == 0:
        return x
    size = x.shape[-1]
    waves = np.cos(2 * math.pi * np.arange(size // 2 + 1) / size)
    damping = jnp.asarray(1 / (1 + 2 * strength * (1 - waves)), x.dtype)
    return jnp.fft.irfft(jnp.fft.rfft(x) * damping, size).astype(x.dtype)


def smoothed_share(size: int, strength: float) -> float:
    """Return tr(Q_v^-1) / d, the share of white noise's variance that remains after smoothing.

    About 1 / sqrt(1 + 4 v) for large d.
    """
    waves = np.cos(2 * math.pi * np.arange(size) / size)
    return float(np.mean(1 / (1 + 2 * strength * (1 - waves))))
