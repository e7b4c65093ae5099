"""Newton's method on noised first and second derivatives: few rounds, and standard errors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn.algorithms.algorithm import AnswerMessages, Noise
from taciturn.algorithms.one_question import unpacked
from taciturn.errors import InputError
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import Derivatives, Layout, Loss, Oracle, Point, statistics_size
from taciturn.kernel.records import Spec
from taciturn.problems import L2, NoRegulariser, Problem, WholeSpace
from taciturn.typing import Array, HostArray, Model

# the share of the squared sensitivity that gradients have; second derivatives have the rest
GRADIENT_SHARE = 0.75
# every round before the last has a fourth of the budget of the next one, but at least this share of
# that of the last one
FEWER, LEAST = 4.0, 1 / 16
# the most by which a step changes scores, as a root mean square
LONGEST = 3.0
NEWTON = "newton"  # the name of the method
COVARIANCES = ("model", "dispersion", "robust")


class Asked(NamedTuple):
    """The public value.

    - `model`: The model after the last round.
    - `point`, `answer`: The point that the last round asked about, and the mean answer.
    - `second`: The last noised second derivatives, packed as in an answer.
    """

    model: Model
    point: Model
    answer: Float[Array, "S"]
    second: Float[Array, "P"]


class Newton(AnswerMessages):
    r"""Newton steps on the mean of the agents' answers to `Derivatives`.

    In round t the point is w_t; g_t and H_t are the mean noised gradient and second derivatives
    there, those of the regulariser added, and

    .. math:: w_{t+1} = w_t - H_{t+}^{-1} g_t,

    w_0 = 0 but for coefficients that are fixed (of an offset). Of a loss with several margins w
    stands for the P coefficients of its `Layout`. H_{t+} is H_t with its eigenvalues raised to the
    floor 2 nu sqrt(2 D) of `OneQuestion`, nu the standard deviation of the noise of an entry of
    H_t. A step v is shortened until

    .. math:: \frac{v' H_{t+} v}{\operatorname{tr} H_{t+} / R^2} \le 9,

    which, H being the mean of h x x' with |x| <= R, is at least the mean square of the change x'v
    of the scores, weighted by h. Unlike the norm of v it does not count directions in which the
    records hardly vary, as where a column fills a small part of its range.

    **The last step.** Let w* be the minimiser of the population. If w = w_{T-1} is near, then

    .. math::
        w_T - w^* = -H^{-1} (\bar g(w^*) + e) + H^{-1} E (w - w^*) + O(|w - w^*|^2),

    where e and E are the noises of g and H, and the mean gradient g(w*) has covariance J / n. So
    the covariance of w_T is H^-1 (J / n + s^2 I) H^-1 but for terms of second order in quantities
    that vanish with the noise; s, the scale of e, is in the ledger. Therefore the last round has
    most of the budget, and the one before enough for w - w* to be small.

    **Guarantee.** Every query is a point computed from earlier answers, and every message is the
    answer; the rest is post-processing.

    - `asks`: The question of every round.
    - `fixed`: The places of features with a given coefficient, and these.
    """

    problem: Problem
    asks: tuple[Derivatives, ...]
    fixed: tuple[tuple[int, float], ...] = eqx.field(static=True, default=())

    def __check_init__(self) -> None:
        if not isinstance(self.problem.regulariser, L2 | NoRegulariser):
            raise InputError("newton knows the regularisers l2 and none; choose one of these")
        if not isinstance(self.problem.constraint, WholeSpace):
            raise InputError("newton knows no constraint; leave it out, or use noisy-gradient")

    @override
    def oracles(self, clip: float) -> tuple[Oracle, ...]:
        return self.asks

    @override
    def questions(self, rounds: int) -> HostArray:
        if rounds != len(self.asks):
            raise InputError(
                f"this algorithm has a question for each of {len(self.asks)} rounds; plan as many, "
                f"not {rounds}"
            )
        return np.arange(rounds)[:, None]

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        scales = self.scales(noise.of_mean) / np.array([one.second for one in self.asks])
        return {
            "floor": 2 * math.sqrt(2 * spec.shape[0]) * scales,
            "longest": np.full(rounds, LONGEST / spec.record_norm),  # times the root of tr H
            "new": np.array([0.0 if one.of_scores else 1.0 for one in self.asks]),
        }

    def scales(self, first: float) -> Float[HostArray, "T"]:
        """Return the standard deviation of the noise of every round, given that of the first."""
        relative = np.array([one.relative_multiplier for one in self.asks])
        found: HostArray = first * relative / relative[0]
        return found

    @override
    def start(self, template: Model) -> Float[Array, "S"]:
        return jnp.zeros(self.asks[0].answer_shape(template.shape), template.dtype)

    @override
    def first_public(self, template: Model) -> Asked:
        model = template
        for place, value in self.fixed:
            model = model.at[place].set(value)
        size = self.size(template.shape[0])
        packed = jnp.zeros(statistics_size(size) - size, template.dtype)
        return Asked(model, model, self.start(template), packed)

    def size(self, features: int) -> int:
        """Return P, the number of coefficients that are estimated."""
        layout = self.asks[0].layout
        return features if layout is None else layout.size

    def chosen(self, model: Model) -> Float[Array, "P"]:
        """Return the coefficients of a model that are estimated."""
        layout = self.asks[0].layout
        return model if layout is None else layout.chosen(model)

    @override
    def ask(self, state: Float[Array, "S"], inbox: Asked, turn: Turn) -> Point:
        return Point(inbox.model)

    @override
    def combine(self, public: Asked, mean_message: Float[Array, "S"], turn: Turn) -> Asked:
        layout, point = self.asks[0].layout, self.chosen(public.model)
        size = len(public.second)
        packed = jnp.where(turn.values["new"] > 0, mean_message[:size], public.second)
        both = jnp.concatenate([packed, mean_message[size : size + len(point)]])
        second, gradient = unpacked(both, len(point))
        ridge = getattr(self.problem.regulariser, "weight", 0.0)
        values, basis = jnp.linalg.eigh(second / self.asks[0].second)
        values = jnp.maximum(values, turn.values["floor"]) + ridge
        tiny = float(np.finfo(values.dtype).tiny)
        # no step along directions without curvature
        solid = values > len(point) * float(np.finfo(values.dtype).eps) * jnp.max(values)
        along = basis.T @ (gradient + ridge * point) / jnp.where(solid, values, jnp.inf)
        length = jnp.sqrt(jnp.sum(values * along**2) / jnp.maximum(jnp.sum(values), tiny))
        shorter = jnp.minimum(1.0, turn.values["longest"] / jnp.maximum(length, tiny))
        moved = point - shorter * (basis @ along)
        model = moved if layout is None else layout.spread(moved, public.model)
        return Asked(model, public.model, mean_message, packed)

    @override
    def model(self, public: Asked) -> Model:
        return public.model


def layout_of(loss: Loss, features: int, fixed: Sequence[int]) -> Layout | None:
    """Return the coefficients that are estimated; None for those of all features, of one margin.

    The last feature is the constant.
    """
    free = [place for place in range(features) if place not in fixed]
    if loss.outputs is None:
        return Layout((), tuple(free), (0,)) if fixed else None
    shared = free[:-1] if loss.slopes == "shared" else []
    separate, first = free[len(shared) :], 1 if loss.slopes == "reference" else 0
    return Layout(tuple(shared), tuple(separate), tuple(range(first, loss.outputs)))


def newton(
    problem: Problem,
    spec: Spec,
    clip: float,
    rounds: int,
    covariance: str,
    fixed: Sequence[tuple[int, float]] = (),
) -> Newton:
    r"""Return the method with its questions, one for each round.

    With C = `clip`, R the record norm and W = s L, a term moves an answer by the root of
    4 (C R)^2 + 2 (W R^2)^2 (`taciturn.kernel.questions.bounds.derivatives`); with
    W = C / R sqrt(2 (1 - a) / a) gradients have the share a = 3/4 of its square. `covariance` says
    by what the covariance of the gradients is known:

    - "model": It is the second derivative, as for a likelihood.
    - "dispersion": It is that times the mean squared coefficient, which is asked for too, with the
      weight q = R / (2 C).
    - "robust": The last round asks for it in place of second derivatives, which are those of the
      round before; this then has half of the last one's budget.

    `fixed`: the places of features with a given coefficient, and these.
    """
    before, row = np.arange(rounds)[::-1], spec.record_norm
    robust, shares = covariance == "robust", np.maximum(FEWER ** -before.astype(float), LEAST)
    if robust and rounds < 3:
        raise InputError(f"{rounds} rounds are too few for a robust covariance; take at least 3")
    squares = row / (2 * clip) if covariance == "dispersion" else 0.0
    if robust:
        shares[-2] = 1 / 2
    layout = layout_of(problem.loss, spec.shape[0], [place for place, _ in fixed])
    asks = []
    for share, last in zip(shares, robust & (before == 0), strict=True):
        ask = Derivatives(
            problem.loss, clip, sum(spec.counts) / spec.agents, 1.0, layout, squares=squares,
            of_scores=bool(last), relative_multiplier=math.sqrt(1 / share),
        )  # fmt: skip
        weight = ask.slope(row) / row * math.sqrt(2 * (1 - GRADIENT_SHARE) / GRADIENT_SHARE)
        asks.append(dataclasses.replace(ask, second=weight / ask.largest(row)))
    return Newton(problem, tuple(asks), tuple(fixed))
