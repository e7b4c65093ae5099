"""Where the noise of an answer stands: on the exact answer, or inside what is minimised."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn import checks, privacy
from taciturn.errors import InputError
from taciturn.oracles.sampling import Exact
from taciturn.problems import Shard
from taciturn.spec import Spec
from taciturn.typing import Array


class Centre(NamedTuple):
    """A question about the point near `v` at which f_i is small: `v`, of the model's shape."""

    v: Float[Array, "..."]


# whole numbers up to here are added to noise; see `taciturn.privacy.mechanisms`
_MOST_STEPS = 2.0**51


class OnLattice(NamedTuple):
    """Noise, and the lattice that it stands on.

    Attributes
    ----------
    values
        The noise, in the units of the answer: whole multiples of the step.
    step
        h, a power of two; None in a run without noise, whose answers are not rounded.
    """

    values: Float[Array, "..."]
    step: Float[Array, ""] | None

    def added_to(self, exact: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the answer, rounded to the lattice, plus the noise.

        **Guarantee.** Where two answers differ by t, their roundings differ by at most t + 2 h per
        entry, however the answers were divided: see `privacy.mechanisms`. Beyond 2^51 steps an
        answer stays at the last of them. Every entry has noise of its own: `InputError` if answer
        and noise differ in shape, since one number of noise on two entries tells the difference
        between them exactly.
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


class AddedNoise(eqx.Module):
    """The noise is added to the exact answer.

    - `relative_multiplier`: The noise multiplier of these answers over that of the plan, in ledger
      and scales.
    - `adds`: Whether the noised answer is the exact one plus noise: only then can the noises of
      several agents add up in a sum.
    """

    adds: ClassVar[bool] = True

    relative_multiplier: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        checks.positive("relative_multiplier", self.relative_multiplier)

    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the noise of one answer."""
        return answer_shape

    def law(self, spec: Spec, adjacency: privacy.Adjacency) -> privacy.Inside | None:
        """Return what decides the law of the noised answer; None if it is that of the noise."""
        del spec, adjacency
        return None

    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Any, noise: OnLattice
    ) -> Array:
        """Return the noised answer; `exact` computes the answer without noise, of any shape."""
        return noise.added_to(exact(shard, count, query))


class ObjectiveNoise(eqx.Module):
    """A noised linear term b'w in what is minimised, and a little noise on the minimiser.

    The exact proximal step at the centre v - b / rho is released with N(0, (output_noise scale /
    rho)^2 I) on top, which covers its residual, all of it in double precision. `tol` is that
    residual, relative to c_1 / rho, and `smoothness` s R^2, that of one record's loss. Methods are
    those of `AddedNoise`.

    **Guarantee.** See `taciturn.oracles.PerturbedStep`, which derives the law: a curve, decided by
    J = log(1 + s R^2 / (m_i rho)) and the ratio 2 m_i tol / output_noise. It is known for the unit
    record only.
    """

    adds: ClassVar[bool] = False
    relative_multiplier: ClassVar[float] = 1.0

    rho: float = eqx.field(static=True)
    smoothness: float = eqx.field(static=True)
    tol: float = eqx.field(static=True)
    output_noise: float = eqx.field(static=True)

    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the noise of one answer: twice that of the answer."""
        return (2, *answer_shape)

    def law(self, spec: Spec, adjacency: privacy.Adjacency) -> privacy.Inside:
        """Return J and the ratio of every agent."""
        if adjacency.unit != "record":
            raise InputError(
                "the law of noise inside an objective is known here for one record, not for all "
                f"records of {'a person' if adjacency.unit == 'person' else 'an agent'}; add the "
                "noise to the output (ProximalStep)"
            )
        counts = np.asarray(spec.counts, dtype=np.float64)
        jacobian = np.log1p(self.smoothness / (counts * self.rho))
        return privacy.Inside(jacobian, 2 * counts * self.tol / self.output_noise)

    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Centre, noise: OnLattice
    ) -> Array:
        """Return the exact step at v - b / rho, plus the noise on the output."""
        # in single precision rounding would exceed the residual that the output noise covers
        shard, count, query, wide = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.float64), (shard, count, query, noise.values)
        )
        inside, outside = wide / self.rho
        minimiser = exact(shard, count, Centre(query.v - inside))
        answer: Array = minimiser + self.output_noise * outside
        return answer


NoisePlacement: TypeAlias = AddedNoise | ObjectiveNoise
PLACEMENTS = (AddedNoise, ObjectiveNoise)
