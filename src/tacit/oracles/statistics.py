"""The sufficient statistics of linear regression, asked once."""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.sums import record_sum
from tacit.privacy import Adjacency, Norm, SensitivityBound, ZeroOut, share_text
from tacit.problems import Shard, Squared, clip_coefficient
from tacit.spec import Spec
from tacit.typing import Array


class Statistics(Oracle):
    r"""An agent's (X'X / m_i, X'y / m_i) as one vector; the query is ignored.

    The upper triangle of the symmetric matrix comes first, row by row, its off-diagonal entries
    times sqrt(2), so that the Euclidean norm of the vector is the norm of the matrix; then the D
    entries of X'y / m_i. In all D(D + 1)/2 + D numbers. `unpacked` undoes it.

    **Guarantee.** |x_j| <= R is enforced when shards are packed, and targets are clipped to
    [-Y, Y] here. Replacing (x, y) by (z, w) moves the vector by 1/m_i times the square root of

        |xx' - zz'|^2 + |xy - zw|^2 = |x|^4 + |z|^4 - 2 c^2 + |x|^2 y^2 + |z|^2 w^2 - 2 y w c,

    with c = x'z. By Cauchy and Schwarz the last three terms are a convex quadratic form in (y, w),
    hence largest at corners y, w = +-Y; the sign of y w can be absorbed in z, so take y w = -Y^2.
    For fixed c what remains grows with |x| and |z|, which also allow more values of c, so that
    |x| = |z| = R: it is 2 R^4 + 2 R^2 Y^2 - 2 c^2 + 2 Y^2 c with |c| <= R^2, largest at
    c = min(R^2, Y^2 / 2). Hence, exactly (and attained if D >= 2),

        Delta_i = sqrt(2) (R^2 + Y^2 / 2) / m_i   if Y <= sqrt(2) R,     2 R Y / m_i   otherwise,

    where bounding the two parts apart would give sqrt(2 R^4 + 4 R^2 Y^2) / m_i, at R = Y 15 % more.
    Zeroing a record moves it by |(xx', xy)| / m_i <= R sqrt(R^2 + Y^2) / m_i. If all records of an
    agent may change, it is m_i times that, by the triangle inequality, and K times for the K places
    of a person. A bounded change is a special case of replacing; so is a place that is filled or
    emptied, since R sqrt(R^2 + Y^2) is the smaller bound. In the 1-norm each is
    sqrt(D(D + 1)/2 + D) times as large.
    The answer depends on no query, so all of this holds for every query. Both sums are exact
    (`tacit.problems.grid`: rows have at most half of the digits, so that 2 p + log2 m <= 53); the
    roundings of the root of 2 and of the division are paid for with the lattice of the noise.

    Attributes
    ----------
    target_bound
        Y, a public bound on |y|; larger targets are clipped.

    Raises
    ------
    InputError
        If Y is not a positive number; from `bound`, if the model is not a vector.
    """

    target_bound: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.positive("target_bound", self.target_bound)

    @property
    @override
    def assumptions(self) -> Assumptions:
        return Assumptions(Squared())

    @property
    @override
    def exact_on_machine(self) -> bool:
        return True

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: object) -> Float[Array, "S"]:
        x = shard.features
        y = clip_coefficient(shard.targets.astype(x.dtype), self.target_bound)
        gram = x.T @ (x * shard.mask[:, None])
        sums = jnp.concatenate([packed(gram), record_sum(shard, y, self.target_bound)])
        return sums / count

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return `(D(D + 1)/2 + D,)` for a model of shape `(D,)`."""
        return (statistics_size(_features(model_shape)),)

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        change, reason = self._change(spec.record_norm, adjacency)
        if norm == "l1":
            change *= math.sqrt(statistics_size(_features(spec.shape)))
            reason += ", times the square root of the number of entries"
        share = adjacency.changed(spec.counts) / np.asarray(spec.counts, dtype=np.float64)
        reason += share_text(adjacency)
        value = np.broadcast_to((change * share)[:, None, None], (spec.agents, 1, 1))
        return SensitivityBound(value, norm, adjacency, reason)

    def _change(self, record_norm: float, adjacency: Adjacency) -> tuple[float, str]:
        """Return the most that one record's (xx', xy) can move, and why."""
        r, y = record_norm, self.target_bound
        what = "mean of m_i pairs (xx', xy) with |x| <= R, |y| <= Y"
        if isinstance(adjacency.relation, ZeroOut):
            return r * math.hypot(r, y), f"{what}; one is set to zero: R sqrt(R^2 + Y^2)"
        if y <= math.sqrt(2) * r:
            most, size = math.sqrt(2) * (r**2 + y**2 / 2), "sqrt(2) (R^2 + Y^2/2)"
        else:
            most, size = 2 * r * y, "2 R Y (Y > sqrt(2) R)"
        return most, f"{what}; one is replaced: {size}"


def statistics_size(features: int) -> int:
    """Return the length of the statistics of D features, D(D + 1)/2 + D."""
    return features * (features + 1) // 2 + features


def packed(matrix: Float[Array, "D D"]) -> Float[Array, "P"]:
    """Return the upper triangle of a symmetric matrix, off-diagonal entries times sqrt(2).

    Examples
    --------
    >>> packed(jnp.array([[1.0, 2.0], [2.0, 3.0]])).round(3).tolist()
    [1.0, 2.828, 3.0]
    """
    rows, columns = np.triu_indices(matrix.shape[0])
    weight = np.where(rows == columns, 1.0, math.sqrt(2)).astype(matrix.dtype)
    return matrix[rows, columns] * weight


def unpacked(
    statistics: Float[Array, "S"], features: int
) -> tuple[Float[Array, "D D"], Float[Array, "D"]]:
    """Return the symmetric matrix and the vector that `Statistics` put into one vector.

    Examples
    --------
    >>> matrix, vector = unpacked(jnp.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2)
    >>> matrix.round(3).tolist(), vector.tolist()
    ([[1.0, 1.414], [1.414, 3.0]], [4.0, 5.0])
    """
    rows, columns = np.triu_indices(features)
    weight = np.where(rows == columns, 1.0, 1 / math.sqrt(2)).astype(statistics.dtype)
    upper = statistics[: len(rows)] * weight
    matrix = jnp.zeros((features, features), statistics.dtype)
    matrix = matrix.at[rows, columns].set(upper).at[columns, rows].set(upper)
    return matrix, statistics[len(rows) :]


def _features(model_shape: tuple[int, ...]) -> int:
    if len(model_shape) != 1:
        raise InputError(
            f"the model has shape {model_shape}; the statistics of linear regression are for a "
            "vector, so use a loss with one margin"
        )
    return model_shape[0]
