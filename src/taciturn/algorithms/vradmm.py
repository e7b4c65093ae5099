"""DP-VRADMM: variance-reduced stochastic ADMM with smoothing (Liu et al. 2022, Algorithm 1)."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.algorithm import AnswerMessages, Noise, running_mean, tail_average
from taciturn.algorithms.splitting import (
    Accelerated,
    AcceleratedSplitting,
    Iterate,
    RateWarning,
    SplittingADMM,
    least_norm,
)
from taciturn.errors import InputError
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import Gradient, MinibatchDifference, Pair
from taciturn.kernel.records import Spec
from taciturn.problems import Loss
from taciturn.typing import HostArray, Vector

DIFFERENCE, SNAPSHOT = 0, 1


class _Epochs(AnswerMessages):
    """Epochs of one snapshot gradient p and m mini-batch differences d.

    `inner` is m; `snapshot_noise` the standard deviation of the noise on p over that on d, public,
    from `variance_reduction`.
    """

    inner: int = eqx.field(static=True, kw_only=True)
    snapshot_noise: float = eqx.field(static=True, default=1.0, kw_only=True)

    def __check_init__(self) -> None:
        checks.at_least("inner", self.inner, 1)
        checks.not_negative("snapshot_noise", self.snapshot_noise)

    @property
    def epoch(self) -> int:
        """Rounds of an epoch."""
        return self.inner + 1

    @override
    def questions(self, rounds: int) -> HostArray:
        """Return the snapshot at the first round of each epoch, and differences."""
        if rounds % self.epoch:
            raise InputError(
                f"{rounds} rounds are not a whole number of epochs; an epoch of {self.inner} inner "
                f"steps takes {self.epoch} rounds, so plan a multiple of that"
            )
        opens = np.arange(rounds) % self.epoch == 0
        return np.where(opens, SNAPSHOT, DIFFERENCE)[:, None]

    def spread(self, noise: Noise) -> float:
        """Return the standard deviation of the noise on d + p, where p serves m steps."""
        return noise.of_mean * float(np.sqrt(1 + self.inner * self.snapshot_noise**2))

    def spread_out(self, rounds: int, values: dict[str, HostArray]) -> dict[str, HostArray]:
        """Return schedules of steps as those of rounds, and `moves`: where a round is a step."""
        moves = self.questions(rounds)[:, 0] == DIFFERENCE
        place = np.maximum(np.cumsum(moves) - 1, 0)
        of_rounds = {name: np.asarray(value)[place] for name, value in values.items()}
        return of_rounds | {"moves": moves.astype(float)}


class _Public(NamedTuple):
    iterate: Iterate
    anchor: Vector
    gradient: Vector
    mean: Vector
    average: Vector


class VRADMM(_Epochs, SplittingADMM):
    """Epochs of one snapshot gradient and m mini-batch differences (Liu et al. 2022).

    An epoch starts with the full-batch gradient p at the anchor, the mean of the last epoch's x.
    Then, m times, the difference d from the anchor to x is asked for (`MinibatchDifference`) and a
    step of `SplittingADMM` is taken on g = d + p. Without noise this is SVRG-ADMM.

    With `restart` each epoch sets x to the anchor and dual to -(1/rho) (A')^+ grad f(anchor), from
    the same noised p: the paper's method for strongly convex problems. The paper restarts from the
    un-noised gradient, which no noise in g protects. The shortest u with A'u = -grad f(x*) is the
    optimal multiplier only if it is unique, that is if A has full row rank; [phi; I] never has, and
    there the restart throws x off the optimum in every epoch. The default is therefore no restart.

    **Guarantee.** Both questions are asked at public points and charged separately: the difference
    on a Poisson batch, amplified; the snapshot on all records, not. The snapshot is asked once an
    epoch and used m + 1 times, which is post-processing.
    """

    restart: bool = eqx.field(static=True, default=False, kw_only=True)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        if self.restart and not self.problem.forward.full_row_rank():
            warnings.warn(
                "A does not have full row rank, so the linear rate of the strongly convex method "
                "with restarts is not proven for this structure; the privacy is not affected",
                RateWarning,
                stacklevel=2,
            )
        count = int(np.sum(self.questions(rounds) == DIFFERENCE))
        values = self.steps(spec, count, self.spread(noise), sampled=noise.sampled)
        mean = 1 / (np.arange(count) % self.inner + 1.0)
        if self.step_rule == "public":
            averaging = np.ones(count) if noise.multiplier == 0 else tail_average(count)
        else:
            averaging = mean if self.restart else running_mean(count)
        return self.spread_out(rounds, values | {"epoch_mean": mean, "averaging": averaging})

    @override
    def _published(self, t: HostArray) -> HostArray:
        """Return the constant step 1; Theorems 3 and 4 require one of order 1/L."""
        return np.ones(len(t))

    @override
    def _quiet(self, smoothness: float, t: HostArray, *, sampled: bool) -> HostArray:
        """Return a constant step: variance reduction needs no decay."""
        return np.full(len(t), 0.25 / smoothness if sampled else 1 / smoothness)

    @override
    def ask(self, state: Vector, inbox: _Public, turn: Turn) -> Pair:
        moves = turn.values["moves"] > 0
        return Pair(jnp.where(moves, inbox.iterate.x, inbox.mean), inbox.anchor)

    @override
    def first_public(self, template: Vector) -> _Public:
        return _Public(self.first(template), template, template, template, template)

    @override
    def combine(self, public: _Public, mean_message: Vector, turn: Turn) -> _Public:
        after: _Public = jax.lax.cond(
            turn.values["moves"] > 0,
            lambda: self._moved(public, mean_message, turn),
            lambda: self._opened(public, mean_message, turn),
        )
        return after

    def _moved(self, public: _Public, answer: Vector, turn: Turn) -> _Public:
        """Return the public value after one step on d + p."""
        iterate = self.advance(public.iterate, answer + public.gradient, turn)
        mean = public.mean + turn.values["epoch_mean"] * (iterate.x - public.mean)
        average = public.average + turn.values["averaging"] * (iterate.x - public.average)
        return public._replace(iterate=iterate, mean=mean, average=average)

    def _opened(self, public: _Public, answer: Vector, turn: Turn) -> _Public:
        """Return the public value with a new p and a new anchor, where an epoch opens."""
        opened = public._replace(anchor=public.mean, gradient=answer)
        if not self.restart:
            return opened
        dual = (
            least_norm(self.problem, answer + self.problem.ridge * public.mean) / turn.values["rho"]
        )
        return opened._replace(iterate=Iterate(public.mean, public.iterate.y, dual))


def variance_reduction(
    loss: Loss, *, clip: float, spread: float, rate: float, inner: int, records: int | None = None
) -> tuple[tuple[Gradient, Gradient], float]:
    """Return VRADMM's two questions, and its `snapshot_noise`.

    Their multipliers z_d and z_s share the budget as z_s / z_d = sqrt(k / m) / q, k = spread / clip
    (docs/explanation/step-sizes.md).
    """
    share = spread / clip if np.isfinite(spread) and np.isfinite(clip) else 1.0
    relative = float(np.sqrt(share / inner)) / rate
    questions = (
        MinibatchDifference(loss, clip, rate, spread=spread, records=records),
        Gradient(loss, clip, relative_multiplier=relative),
    )
    return questions, relative * rate / share


class _AcceleratedPublic(NamedTuple):
    iterate: Accelerated
    anchor: Vector
    gradient: Vector


class AcceleratedVRADMM(_Epochs, AcceleratedSplitting):
    """The epochs of `VRADMM`, the form that Liu et al. 2022 print, with momentum.

    The anchor is the averaged model, and each difference, from the anchor to the query q, is
    followed by a step of `AcceleratedSplitting` on g = d + p.

    **Settings from public facts.** Those of `AcceleratedSplitting` for as many steps as there are
    differences. The noise of one p is in m steps: m z^2 is added to the variance of d, z
    `snapshot_noise`, as if it were independent in each.

    **Guarantee.** As for `VRADMM`.
    """

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        count = int(np.sum(self.questions(rounds) == DIFFERENCE))
        steps = self.steps(spec, count, self.spread(noise), noise.rate)
        return self.spread_out(rounds, steps)

    @override
    def ask(self, state: Vector, inbox: _AcceleratedPublic, turn: Turn) -> Pair:
        here, query = inbox.iterate.average, self.query(inbox.iterate, turn)
        return Pair(jnp.where(turn.values["moves"] > 0, query, here), inbox.anchor)

    @override
    def first_public(self, template: Vector) -> _AcceleratedPublic:
        return _AcceleratedPublic(self.first(template), template, template)

    @override
    def combine(
        self, public: _AcceleratedPublic, mean_message: Vector, turn: Turn
    ) -> _AcceleratedPublic:
        after: _AcceleratedPublic = jax.lax.cond(
            turn.values["moves"] > 0,
            lambda: public._replace(
                iterate=self.advance(public.iterate, mean_message + public.gradient, turn)
            ),
            lambda: public._replace(anchor=public.iterate.average, gradient=mean_message),
        )
        return after

    @override
    def model(self, public: _AcceleratedPublic) -> Vector:
        return public.iterate.average
