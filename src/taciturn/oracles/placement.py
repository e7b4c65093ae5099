"""Where the noise of an answer stands: on the answer, on its lattice, or inside an objective."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.oracles.queries import Centre
from taciturn.oracles.sampling import Exact
from taciturn.privacy import Adjacency, Inside
from taciturn.problems import Shard
from taciturn.spec import Spec
from taciturn.typing import Array, PyTree

# whole numbers up to here are added to noise; see `taciturn.privacy.mechanisms`
_MOST_STEPS = 2.0**51


class OnLattice(NamedTuple):
    """Noise, and the lattice that it stands on.

    Attributes
    ----------
    values
        The noise, in the units of the answer: whole multiples of the step.
    step
        h, a power of two; 0 in a run without noise, whose answers are not rounded.
    """

    values: Float[Array, "..."]
    step: Float[Array, ""] | None

    def added_to(self, exact: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the answer, rounded to the lattice, plus the noise.

        **Guarantee.** Where two answers differ by t, their roundings differ by at most t + 2 h per
        entry, however the answers were divided: see `privacy.mechanisms`. Beyond 2^51 steps an
        answer stays at the last of them. Every entry has noise of its own.

        Raises
        ------
        InputError
            If answer and noise differ in shape: one number of noise on two entries tells the
            difference between them exactly.
        """
        if jnp.shape(exact) != self.values.shape:
            raise InputError(
                f"an answer has shape {jnp.shape(exact)} and its noise {self.values.shape}, so "
                "that entries would share their noise; let answer_shape return the shape of exact"
            )
        if self.step is None:
            return exact + self.values
        steps = jnp.rint(jnp.asarray(exact, jnp.float64) / self.step)
        limited = jnp.clip(jnp.nan_to_num(steps), -_MOST_STEPS, _MOST_STEPS)
        return limited * self.step + self.values


class NoisePlacement(eqx.Module):
    """Where the noise stands, and what decides the law of the noised answer.

    Attributes
    ----------
    adds
        Whether the noised answer is the exact one plus noise: only then can the noises of several
        agents add up in a sum.
    """

    adds: ClassVar[bool]

    @property
    def relative_multiplier(self) -> float:
        """The noise multiplier of these answers over that of the plan."""
        return 1.0

    @abstractmethod
    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the noise of one answer."""

    @abstractmethod
    def law(self, spec: Spec, adjacency: Adjacency) -> Inside | None:
        """Return what decides the law; None if it is that of the added noise."""

    @abstractmethod
    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Any, noise: OnLattice
    ) -> Array:
        """Return the noised answer; `exact` computes the answer without noise, of any shape."""


class AddedNoise(NoisePlacement):
    """The noise is added to the exact answer.

    Attributes
    ----------
    multiple
        The noise multiplier of these answers over that of the plan's others; ledger, scales and
        calibration have the product.
    """

    adds: ClassVar[bool] = True

    multiple: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        checks.positive("relative_multiplier", self.multiple)

    @property
    @override
    def relative_multiplier(self) -> float:
        return self.multiple

    @override
    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        return answer_shape

    @override
    def law(self, spec: Spec, adjacency: Adjacency) -> None:
        return None

    @override
    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Any, noise: OnLattice
    ) -> Array:
        return noise.added_to(exact(shard, count, query))


_WHOLE = {"agent": "an agent", "person": "a person"}


class ObjectiveNoise(NoisePlacement):
    r"""A noised linear term b'w in what is minimised, and a little noise on the minimiser.

    The exact proximal step at the centre v - b / rho is released with N(0, (output_noise scale /
    rho)^2 I) on top, which covers its residual. All of it is computed in double precision.

    **Guarantee.** See `taciturn.oracles.PerturbedStep`, which derives the law: a curve, decided by
    J = log(1 + s R^2 / (m_i rho)) and the ratio 2 m_i tol / output_noise. It is known for the unit
    record only.

    Attributes
    ----------
    rho
        Strong convexity of what is minimised, but for one record's term.
    smoothness
        s R^2: that of one record's loss.
    tol
        Residual of the minimiser, relative to c_1 / rho.
    output_noise
        Noise on the output, as a part of what the noise inside does to the output.
    """

    adds: ClassVar[bool] = False

    rho: float = eqx.field(static=True)
    smoothness: float = eqx.field(static=True)
    tol: float = eqx.field(static=True)
    output_noise: float = eqx.field(static=True)

    @override
    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        return (2, *answer_shape)

    @override
    def law(self, spec: Spec, adjacency: Adjacency) -> Inside:
        if adjacency.unit != "record":
            raise InputError(
                "the law of noise inside an objective is known here for one record, not for all "
                f"records of {_WHOLE[adjacency.unit]}; add the noise to the output (ProximalStep)"
            )
        counts = np.asarray(spec.counts, dtype=np.float64)
        jacobian = np.log1p(self.smoothness / (counts * self.rho))
        return Inside(jacobian, 2 * counts * self.tol / self.output_noise)

    @override
    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Centre, noise: OnLattice
    ) -> Array:
        # in single precision rounding would exceed the residual that the output noise covers
        shard, count, query, wide = _in_double((shard, count, query, noise.values))
        inside, outside = wide / self.rho
        minimiser = exact(shard, count, Centre(query.v - inside))
        answer: Array = minimiser + self.output_noise * outside
        return answer


PLACEMENTS = (AddedNoise, ObjectiveNoise)


def _in_double(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)
