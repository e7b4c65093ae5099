r"""Any question, asked of rows around a centre.

`tacit.oracles.CentredGradient` answers the gradient on all records without forming these rows. Here
they are formed, for a batch or for all records, and handed to another question.
"""

from __future__ import annotations

import dataclasses
import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.features import NEAREST
from tacit.oracles.centred import Around, usable_centre
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.placement import AddedNoise
from tacit.oracles.sampling import Sampling
from tacit.privacy import Adjacency, Norm, SensitivityBound
from tacit.problems import Shard
from tacit.problems.grid import cut
from tacit.spec import Spec
from tacit.typing import Array

# binary digits below the power of two above R: sums of squares of so many are exact in 2^16 columns
_DIGITS_OF_ROWS = 24
# of the rows around the centre: what single precision holds
_DIGITS_AROUND = 23
_SHRINK = 1 - 2.0**-48


class Recentred(Oracle):
    r"""Another question, asked of the rows around a centre.

    With the query (q, c), x without its last column, c limited to |c| <= R and
    n_j = max(|x_j - c|, R / 64), the question q is asked of the records

        x~_j = ((x_j - c) / n_j, kappa),        |x~_j| <= sqrt(1 + kappa^2).

    **Guarantee.** x~_j is a function of one record and of the public c, so two data sets that
    differ in one record still do around every c, and a record that is absent has the row 0. The
    norm of x~_j is bounded whatever record and centre are, so the bound of the inner question,
    derived from that norm, holds for all of them.

    **Rounding.** Rows are cut to 24 binary digits below the power of two U above R, centres to 18:
    the differences are exact, their squares are whole multiples of U^2 2^-48 and their sum is at
    most 4 U^2, so it is exact in any order. A root and a quotient, each rounded once, make the norm
    larger by a factor of less than 1 + 2^-50, for which rows are shrunk by 1 - 2^-48; then they are
    cut towards zero to the digits of the grid, of which single precision keeps all. So a row has
    the same bits in every slot of every batch, and what the inner question proves for rows on a
    grid holds for these.

    Attributes
    ----------
    inner
        The question; its noise must be added to the answer.
    record_norm
        R, the norm of packed rows.
    constant
        kappa.

    Raises
    ------
    InputError
        If a number is out of range, or the noise of the inner question stands elsewhere.
    """

    inner: Oracle
    record_norm: float = eqx.field(static=True)
    constant: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.positive("record_norm", self.record_norm)
        checks.not_negative("constant", self.constant)
        if not isinstance(self.inner.noise, AddedNoise):
            raise InputError(
                f"the noise of {type(self.inner).__name__} stands inside what is minimised, and "
                "its law is derived for packed rows; leave the centre out, or use pvp"
            )

    @property
    def row_norm(self) -> float:
        """sqrt(1 + kappa^2), the norm of a row around any centre."""
        return math.hypot(1.0, self.constant)

    @property
    def sums_records(self) -> bool:  # type: ignore[override] # of the inner question, not a class
        """Whether answers are sums over records: as for the inner question."""
        return self.inner.sums_records

    @property
    @override
    def assumptions(self) -> Assumptions:
        """Loss and rho of the inner question; the norm is that of packed rows."""
        inner = self.inner.assumptions
        return Assumptions(inner.loss, record_norm=self.record_norm, rho=inner.rho)

    @property
    @override
    def exact_on_machine(self) -> bool:
        return self.inner.holds_on_machine()

    @property
    @override
    def sampling(self) -> Sampling:
        return self.inner.sampling

    @property
    @override
    def noise(self) -> AddedNoise:
        noise = self.inner.noise
        assert isinstance(noise, AddedNoise)
        return noise

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.inner.answer_shape(model_shape)

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Around) -> Float[Array, "..."]:
        rows = self._rows(shard, usable_centre(query.centre, self.record_norm))
        grid = shard.grid and dataclasses.replace(shard.grid, record_norm=self.row_norm)
        around = dataclasses.replace(shard, features=rows, grid=grid)
        return self.inner.exact(around, count, query.inner)

    def _rows(self, shard: Shard, centre: Float[Array, "D"]) -> Float[Array, "M D"]:
        away = cut(shard.features, self.record_norm, _DIGITS_OF_ROWS) - centre
        away = away.at[:, -1].set(0)
        distance = jnp.sqrt(jnp.sum(away**2, axis=1, keepdims=True))
        nearest = NEAREST * self.record_norm
        rows = away / jnp.maximum(distance, nearest) * _SHRINK
        rows = rows.at[:, -1].set(self.constant * _SHRINK)
        digits = _DIGITS_AROUND if shard.grid is None else min(_DIGITS_AROUND, shard.grid.digits)
        present = shard.mask[:, None] > 0
        return jnp.where(present, cut(rows, self.row_norm, digits), 0).astype(shard.features.dtype)

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        return self.inner.bound(around(spec, self.row_norm), adjacency, norm=norm)


def around(spec: Spec, row_norm: float) -> Spec:
    """Return the public facts of the same records on rows of another norm."""
    larger = row_norm / spec.record_norm
    return dataclasses.replace(
        spec,
        record_norm=row_norm,
        gradient_bound=spec.gradient_bound * larger,
        smoothness=spec.smoothness * larger**2,
    )
