"""Accelerated variance-reduced ADMM: momentum on snapshots and differences."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from tacit import checks
from tacit.algorithms.accelerated_admm import Accelerated, AcceleratedSplitting
from tacit.algorithms.algorithm import Noise, Turn
from tacit.algorithms.vradmm import DIFFERENCE, epochs
from tacit.oracles import Pair
from tacit.spec import Spec
from tacit.typing import HostArray, Vector


class _Public(NamedTuple):
    iterate: Accelerated
    anchor: Vector
    gradient: Vector


class AcceleratedVRADMM(AcceleratedSplitting):
    r"""Epochs of one snapshot gradient and m mini-batch differences, with momentum.

    An epoch starts with the full-batch gradient p at the anchor, which is then the averaged model.
    Then, m times, the difference d from the anchor to the query q is asked for and a step of
    `AcceleratedSplitting` is taken on g = d + p. The questions are those of
    `tacit.algorithms.VRADMM`, the form that Liu et al. 2022 print, and so are their bounds.

    **Settings from public facts.** Those of `AcceleratedSplitting` for as many steps as there are
    differences. The noise of one p is in m steps: m z^2 is added to the variance of d, z
    `snapshot_noise`, as if it were drawn anew in each.

    **Guarantee.** Both questions are asked at public points and each is charged for by itself: the
    difference on a Poisson batch, amplified; the snapshot on all records, not. That the snapshot is
    used m times is post-processing.

    Attributes
    ----------
    inner
        m.
    snapshot_noise
        Standard deviation of the noise on p over that on d; from `variance_reduction`.
    """

    inner: int = eqx.field(static=True, kw_only=True)
    snapshot_noise: float = eqx.field(static=True, default=1.0, kw_only=True)

    def __check_init__(self) -> None:
        checks.at_least("inner", self.inner, 1)
        checks.not_negative("snapshot_noise", self.snapshot_noise)

    @override
    def questions(self, rounds: int) -> HostArray:
        return epochs(rounds, self.inner)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        moves = self.questions(rounds)[:, 0] == DIFFERENCE
        spread = noise.of_mean * float(np.sqrt(1 + self.inner * self.snapshot_noise**2))
        values = self.steps(spec, int(np.sum(moves)), spread, noise.rate)
        place = np.maximum(np.cumsum(moves) - 1, 0)
        return {name: value[place] for name, value in values.items()} | {
            "moves": moves.astype(float)
        }

    @override
    def ask(self, state: Vector, inbox: _Public, turn: Turn) -> Pair:
        here, query = inbox.iterate.average, self.query(inbox.iterate, turn)
        return Pair(jnp.where(turn.values["moves"] > 0, query, here), inbox.anchor)

    @override
    def first_public(self, template: Vector) -> _Public:
        return _Public(self.first(template), template, template)

    @override
    def combine(self, public: _Public, mean_message: Vector, turn: Turn) -> _Public:
        after: _Public = jax.lax.cond(
            turn.values["moves"] > 0,
            lambda: public._replace(
                iterate=self.advance(public.iterate, mean_message + public.gradient, turn)
            ),
            lambda: public._replace(anchor=public.iterate.average, gradient=mean_message),
        )
        return after

    @override
    def model(self, public: _Public) -> Vector:
        return public.iterate.average
