"""How a released model of numbers does on records: sums of powers of clipped errors."""

from __future__ import annotations

import math
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float
from typing_extensions import override

from tacit import checks
from tacit.oracles.oracle import Oracle
from tacit.oracles.queries import Point
from tacit.oracles.sums import margins
from tacit.oracles.tally import changed_terms, shares_of_persons, sum_bound
from tacit.privacy import Adjacency, Norm, SensitivityBound
from tacit.problems import Shard
from tacit.problems.grid import DIGITS, cut, whole_log2
from tacit.spec import Spec
from tacit.typing import Array


class ClippedErrors(Oracle):
    r"""Sums over an agent's records of t, t^2 and t^4, t a clipped absolute error.

    The query is a model, y a target in [-1, 1], the range of targets as they are encoded, and

    .. math:: t = \min(|\max(-1, \min(z, 1)) - y|, 1),

    in units of half the range. The first two give the mean absolute and squared errors, and with
    the third their variances over records, t^2 - and t^4 - less the square of the mean.

    **Guarantee.** t lies in [0, 1] for every record, and so do its powers: a record adds a vector
    of [0, 1]^3 and moves the answer, replaced or set to zero, by at most

        sqrt(3)  (3 in the 1-norm),

    which a change from t = 0 to t = 1 attains. If all records of an agent may change, it is m_i
    times that. t depends on its record and the public model alone (`tacit.oracles.sums`), and is
    cut towards zero to so few digits that the sums are exact in any order (`tacit.problems.grid`).

    **Persons.** With `rows_per_person` a person adds the mean of these vectors over its rows, which
    is in [0, 1]^3 again: all its rows together move the answer by what one record moves it.

    Attributes
    ----------
    rows_per_person
        How many places in a row a person has, where persons count once each; None where records do.
    """

    powers: ClassVar[tuple[int, ...]] = (1, 2, 4)
    rows_per_person: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.rows_per_person is not None:
            checks.at_least("rows_per_person", self.rows_per_person, 1)

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of powers, whatever the model."""
        return (len(self.powers),)

    @property
    @override
    def exact_on_machine(self) -> bool:
        return True

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Point) -> Float[Array, "S"]:
        scores = jnp.clip(margins(shard, query.x), -1, 1)
        targets = jnp.clip(shard.targets.astype(scores.dtype), -1, 1)
        errors = jnp.minimum(jnp.abs(scores - targets), 1)
        terms = jnp.stack([errors**power for power in self.powers], axis=1)
        terms *= shares_of_persons(shard.mask, self.rows_per_person)[:, None]
        if shard.grid is not None:
            terms = cut(terms, 1.0, DIGITS - 1 - whole_log2(shard.mask.shape[0]))
        return jnp.sum(terms, axis=0)

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        powers = len(self.powers)
        change = float(powers) if norm == "l1" else math.sqrt(powers)
        size = f"{powers}" if norm == "l1" else f"sqrt({powers})"
        reason = f"sum of m_i vectors (t, t^2, t^4) with 0 <= t <= 1; one of them changes: {size}"
        if self.rows_per_person is not None:
            reason = reason.replace("m_i vectors", "the persons' mean vectors")
        terms = changed_terms(spec, adjacency, self.rows_per_person)
        return sum_bound(terms, adjacency, norm, change, reason)
