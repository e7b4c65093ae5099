"""Stochastic linearised ADMM for A x + B y = c: DP-SADMM as published, and accelerated."""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.algorithm import (
    AnswerMessages,
    Noise,
    batch_variance,
    check_growth,
    radius_of,
    running_mean,
    smoothness_of,
    tail_average,
)
from taciturn.errors import InputError
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import Point
from taciturn.kernel.records import Spec
from taciturn.problems import Structured, laplacian_smooth, smoothed_share
from taciturn.typing import Array, HostArray, Vector

StepRule = Literal["public", "published"]
Form = Literal["general", "strongly-convex"]


class RateWarning(UserWarning):
    """A method is used where its published rate is not proven."""


class Iterate(NamedTuple):
    """x, y and the scaled dual: the multiplier of A x + B y = c is rho times it."""

    x: Vector
    y: Float[Array, "k"]
    dual: Float[Array, "m"]


class SplittingADMM(AnswerMessages):
    """Stochastic linearised ADMM for f(x) + r(y) subject to A x + B y = c.

    With a gradient estimate g of f at x, noised, one step is (Liu et al. 2022, (5))

        y      <- argmin_y r(y) + (rho/2) |A x + B y - c + dual|^2
        x      <- x - tau Q_v^-1 (g + rho A'(A x + B y - c + dual)),      tau = eta / gamma
        dual   <- dual + A x + B y - c,

    gamma = 1 + eta rho |A'A|, Q_v the Laplacian smoothing of strength v. Where B'B is no multiple
    of I the first line is linearised too: a proximal step of length 1 / (rho |B'B|) from y.

    **Step sizes.** "published": eta_t = 1/sqrt(t), or 2 |Q_v| / (mu t) for a ridge mu > 0, with rho
    = 1 by default. "public": with noise of standard deviation nu on g, the horizon of
    `NoisyGradient`, T eta = radius sqrt(T / d) / nu, at most 1/(2 L); without noise eta = 1/L, on
    batches 1 / (2 L sqrt(t)); and rho = 1 / (eta |A'A|), which makes gamma 2.

    `problem`: f, r, A, B and c, public but for the records; its loss is not used here. `smoothing`:
    v >= 0. `rho`: None for the step rule's. `radius`: the assumed norm of the solution; None for
    sqrt(d) / R. `stated_step`: eta, constant or, if it `decays`, divided by sqrt(t); None for the
    rule's. `gamma`: a constant; None for 1 + eta rho |A'A|. `form`: "general" for the rule without
    a ridge; None for that of the problem. With `gamma` the rule of a ridge is eta_t = 2 gamma |Q_v|
    / (mu t), as printed.

    **Guarantee.** Agents are asked at public points and send the answers; all else is a public
    function of the answers: smoothing, proximal steps, averages and restarts are post-processing.
    """

    problem: Structured
    smoothing: float = eqx.field(static=True, default=0.0)
    rho: float | None = eqx.field(static=True, default=None)
    step_rule: StepRule = eqx.field(static=True, default="public")
    radius: float | None = eqx.field(static=True, default=None)
    # not described apart from the schedules that they determine
    stated_step: float | None = eqx.field(static=True, default=None, repr=False)
    decays: bool = eqx.field(static=True, default=False, repr=False)
    gamma: float | None = eqx.field(static=True, default=None, repr=False)
    form: Form | None = eqx.field(static=True, default=None, repr=False)

    def __check_init__(self) -> None:
        checks.not_negative("smoothing", self.smoothing)
        for name in ("rho", "radius", "stated_step", "gamma"):
            if getattr(self, name) is not None:
                checks.positive(name, getattr(self, name))
        if self.form == "strongly-convex" and not self.problem.ridge:
            raise InputError(
                "the strongly convex form needs a ridge mu > 0, and the problem has none; add one "
                "to the regulariser, as in elastic:W1,W2, or use the general form"
            )

    @property
    def strongly_convex(self) -> bool:
        """Whether the steps and averages are those of a strongly convex problem."""
        return bool(self.problem.ridge) and self.form != "general"

    def steps(
        self, spec: Spec, count: int, spread: float, *, sampled: bool
    ) -> dict[str, HostArray]:
        """Return `step_size` tau, `rho` and `coupling` |B'B| for `count` steps.

        `spread`: the standard deviation, per coordinate, of the noise on a gradient estimate.
        """
        smoothness = smoothness_within(spec, self.problem)
        norm, t = self.problem.forward.norm_squared(), np.arange(1, count + 1)
        if self.step_rule == "published":
            eta = self._published(t)
        elif spread == 0:
            eta = self._quiet(smoothness, t, sampled=sampled)
        else:
            radius = self.radius or radius_of(spec)
            horizon = radius * np.sqrt(count / spec.dimension) / spread
            eta = np.full(count, min(horizon / count, 0.5 / smoothness))
        if self.stated_step is not None:
            eta = self.stated_step / (np.sqrt(t) if self.decays else np.ones(count))
        default = 1.0 if self.step_rule == "published" else 1 / (eta * norm)
        rho = np.broadcast_to(self.rho or default, count)
        step = eta / (self.gamma or 1 + eta * rho * norm)
        check_growth(spec, step, coupled=rho * norm, ridge=self.problem.ridge)
        return {
            "step_size": step,
            "rho": rho,
            "coupling": np.full(count, self.problem.coupling.norm_squared()),
        }

    def _published(self, t: HostArray) -> HostArray:
        if self.strongly_convex:
            factor = 2 * (self.gamma or 1.0) * (1 + 4 * self.smoothing)
            return np.asarray(factor / (self.problem.ridge * t))
        return np.asarray(1 / np.sqrt(t))

    def _quiet(self, smoothness: float, t: HostArray, *, sampled: bool) -> HostArray:
        """Return the steps without noise: constant, decaying where batches vary."""
        return 1 / (2 * smoothness * np.sqrt(t)) if sampled else np.full(len(t), 1 / smoothness)

    def advance(self, at: Iterate, gradient: Vector, turn: Turn) -> Iterate:
        """Return the iterate after one step on a gradient estimate of the loss at `at.x`."""
        problem, rho = self.problem, turn.values["rho"]
        violation = problem.residual(at.x, at.y) + at.dual
        length = 1 / turn.values["coupling"]
        y = problem.regulariser.prox(
            at.y - length * problem.coupling.adjoint(violation), length / rho
        )
        violation = problem.residual(at.x, y) + at.dual
        direction = gradient + problem.ridge * at.x + rho * problem.forward.adjoint(violation)
        x = at.x - turn.values["step_size"] * laplacian_smooth(direction, self.smoothing)
        return Iterate(x, y, at.dual + problem.residual(x, y))

    def first(self, template: Vector) -> Iterate:
        """Return the zero iterate."""
        dtype, problem = template.dtype, self.problem
        y, dual = jnp.zeros(problem.coupling.columns, dtype), jnp.zeros(problem.forward.rows, dtype)
        return Iterate(template, y, dual)


def smoothness_within(spec: Spec, problem: Structured) -> float:
    """Return the smoothness of the loss and the ridge; `InputError` if A does not fit the model."""
    columns = problem.forward.columns
    if spec.dimension != columns:
        raise InputError(
            f"A takes {columns} numbers, the model has {spec.dimension}; "
            "make the structure for as many features"
        )
    return smoothness_of(spec) + problem.ridge


def least_norm(problem: Structured, gradient: Vector) -> Float[Array, "m"]:
    """Return -(A')^+ g, the shortest u that minimises |A'u + g|, by conjugate gradients (CGLS).

    The iterates stay in the range of A, which contains the least-norm solution; at most 4 D steps.
    """
    forward = problem.forward
    start = -forward.apply(gradient)
    least = float(np.finfo(gradient.dtype).tiny)
    goal = float(np.finfo(gradient.dtype).eps) ** 2 * jnp.vdot(start, start)

    # state: u, its residual, the direction, the squared norm of the slope, the number of steps
    def unfinished(at: tuple[Array, ...]) -> Array:
        going: Array = (at[3] > goal) & (at[4] < 4 * forward.columns)
        return going

    def step(at: tuple[Array, ...]) -> tuple[Array, ...]:
        u, residual, direction, size, steps = at
        image = forward.adjoint(direction)
        length = size / jnp.maximum(jnp.vdot(image, image), least)
        residual = residual - length * image
        slope = forward.apply(residual)
        new = jnp.vdot(slope, slope)
        return u + length * direction, residual, slope + new / size * direction, new, steps + 1

    size = jnp.vdot(start, start)
    first: tuple[Array, ...] = (jnp.zeros_like(start), -gradient, start, size, jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, step, first)[0]


class _Public(NamedTuple):
    iterate: Iterate
    average: Vector


class SADMM(SplittingADMM):
    """One noised gradient a round, at x; then the step of `SplittingADMM`.

    The oracle (of `taciturn.kernel.questions`) decides the method: `MinibatchGradient` with noise
    is DP-SADMM, without noise STOC-ADMM; `Gradient` is linearised ADMM on all records.

    The released model is an average of x: "published", over all rounds, weighted by t if the
    problem is strongly convex; "public", over the last half. Without noise on all records it is the
    last x, and the method converges to the optimum for every structure.
    """

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        values = self.steps(spec, rounds, noise.of_mean, sampled=noise.sampled)
        weights = 2 / (np.arange(rounds) + 2) if self.strongly_convex else running_mean(rounds)
        if self.step_rule == "public":
            constant = noise.multiplier == 0 and not noise.sampled
            weights = np.ones(rounds) if constant else tail_average(rounds)
        return values | {"averaging": weights}

    @override
    def ask(self, state: Vector, inbox: _Public, turn: Turn) -> Point:
        return Point(inbox.iterate.x)

    @override
    def first_public(self, template: Vector) -> _Public:
        return _Public(self.first(template), template)

    @override
    def combine(self, public: _Public, mean_message: Vector, turn: Turn) -> _Public:
        iterate = self.advance(public.iterate, mean_message, turn)
        weight = turn.values["averaging"]
        return _Public(iterate, public.average + weight * (iterate.x - public.average))


class RenyiADMM(SADMM):
    """Stochastic ADMM for x = y with an exact x-step (Chen and Lee 2020), A = I and B = -I.

        x    <- argmin g'x + (rho/2) |x - y + dual|^2 + |x - x_t|^2 / (2 eta)
             =  (x_t / eta + rho (y - dual) - g) / (1/eta + rho)
        y    <- prox_{r / rho}(x + dual)
        dual <- dual + x - y.

    The formulas are reconstructed from the description in Liu et al. 2022; noise and composition
    are those of this library, not the Renyi bounds of the paper. `step_size` is eta / (1 + eta rho
    |A'A|), from which eta follows.
    """

    @override
    def advance(self, at: Iterate, gradient: Vector, turn: Turn) -> Iterate:
        rho = turn.values["rho"]
        stiffness = 1 / turn.values["step_size"]  # 1/eta + rho, since |A'A| = 1
        slope = gradient + self.problem.ridge * at.x
        x = ((stiffness - rho) * at.x + rho * (at.y - at.dual) - slope) / stiffness
        y = self.problem.regulariser.prox(x + at.dual, 1 / rho)
        return Iterate(x, y, at.dual + x - y)


class Accelerated(NamedTuple):
    """x and its last change, y, the multiplier u of A x + B y = c, and the model xbar."""

    x: Vector
    change: Vector
    y: Float[Array, "k"]
    multiplier: Float[Array, "m"]
    average: Vector


class AcceleratedSplitting(AnswerMessages):
    """Stochastic linearised ADMM with momentum for f(x) + r(y) subject to A x + B y = c.

    Step t = 1 ... T is, with an estimate g, noised, of the gradient of f at the query q,

        q     = xbar + a_t (x - xbar),                           a_t = 2 / (t + 1)
        y    <- argmin_y r(y) + (rho_t/2) |A (x + b_t dx) + B y - c + u / rho_t|^2
        u    <- u + rho_t (A (x + b_t dx) + B y - c),            b_t = (t - 1) / t
        x    <- x - tau_t Q_v^-1 (g + A'u),                      dx the change of x
        xbar <- xbar + a_t (x - xbar)                            the released model

    Q_v the Laplacian smoothing of strength v. This is accelerated linearised ADMM (Ouyang, Chen,
    Lan, Pasiliao 2015, Algorithm 2), the linearised block last; where B = -I it is the accelerated
    primal-dual method of Chen, Lan, Ouyang (2014, Algorithm 2). Where B'B is no multiple of I the
    line of y is a proximal step of length 1 / (rho_t |B'B|) from y, for which nothing is proved.

    **Settings from public facts.** tau_t = t / (s + T k) and rho_t = t k / (T |A'A|), with k = |A|
    U / radius, U a bound on the (sub)gradients of r (L where r has none), and

        s = max(2 L, T^2 / (4 H*) - T k),        H* = radius sqrt(T / d) / nu,

    the horizon that the noise allows, nu that of g per coordinate. Under smoothing tr(Q_v^-1)
    replaces d. Without noise on batches their variance replaces d nu^2 (`batch_variance`); with
    noise it is neglected. The rate, its proof and when smoothing pays:
    docs/explanation/step-sizes.md.

    `problem`, `smoothing`, `radius`: as for `SplittingADMM`.

    **Guarantee.** Agents are asked at public points and send the answers; all else is a public
    function of the answers: momentum, smoothing, proximal steps and averages are post-processing.
    """

    problem: Structured
    smoothing: float = eqx.field(static=True, default=0.0)
    radius: float | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        checks.not_negative("smoothing", self.smoothing)
        if self.radius is not None:
            checks.positive("radius", self.radius)

    def steps(self, spec: Spec, count: int, spread: float, rate: float) -> dict[str, HostArray]:
        """Return the schedules of `count` steps on batches of that rate.

        `spread`: the standard deviation, per coordinate, of the noise on a gradient estimate.
        """
        forward, smoothness = self.problem.forward, smoothness_within(spec, self.problem)
        size = self.radius or radius_of(spec)
        variance = forward.columns * spread**2 or batch_variance(spec, rate)
        variance *= smoothed_share(forward.columns, self.smoothing)
        reach = max(2 * smoothness, np.sqrt(count**3 * variance) / (4 * size))  # T^2 / (4 H*)
        pull = smoothness  # k
        bound = self.problem.regulariser.gradient_bound(self.problem.coupling.columns)
        if bound != 0 and np.isfinite(bound):
            pull = float(np.sqrt(forward.norm_squared()) * bound / size)
        stiffness = max(2 * smoothness + count * pull, reach)  # s + T k
        t = np.arange(1, count + 1)
        return {
            "step_size": t / stiffness,
            "rho": t * pull / (count * forward.norm_squared()),
            "momentum": 2 / (t + 1),
            "extrapolation": (t - 1) / t,
            "coupling": np.full(count, self.problem.coupling.norm_squared()),
        }

    def query(self, at: Accelerated, turn: Turn) -> Vector:
        """Return q, where the gradient is asked for."""
        return at.average + turn.values["momentum"] * (at.x - at.average)

    def advance(self, at: Accelerated, gradient: Vector, turn: Turn) -> Accelerated:
        """Return the iterate after one step on a gradient estimate of the loss at the query."""
        problem, rho = self.problem, turn.values["rho"]
        ahead = at.x + turn.values["extrapolation"] * at.change
        length = 1 / turn.values["coupling"]
        violation = problem.residual(ahead, at.y) + at.multiplier / rho
        y = problem.regulariser.prox(
            at.y - length * problem.coupling.adjoint(violation), length / rho
        )
        multiplier = at.multiplier + rho * problem.residual(ahead, y)
        direction = self.slope(at, gradient, turn) + problem.forward.adjoint(multiplier)
        x = at.x - turn.values["step_size"] * laplacian_smooth(direction, self.smoothing)
        return self.moved(at, x, y, multiplier, turn)

    def slope(self, at: Accelerated, gradient: Vector, turn: Turn) -> Vector:
        """Return the gradient estimate with that of the ridge."""
        return gradient + self.problem.ridge * self.query(at, turn)

    def moved(
        self, at: Accelerated, x: Vector, y: Array, multiplier: Array, turn: Turn
    ) -> Accelerated:
        """Return the iterate at x, y and u, its model averaged."""
        average = at.average + turn.values["momentum"] * (x - at.average)
        return Accelerated(x, x - at.x, y, multiplier, average)

    def first(self, template: Vector) -> Accelerated:
        """Return the zero iterate."""
        dtype, problem = template.dtype, self.problem
        y, u = jnp.zeros(problem.coupling.columns, dtype), jnp.zeros(problem.forward.rows, dtype)
        return Accelerated(template, template, y, u, template)


class AcceleratedADMM(AcceleratedSplitting):
    """One noised gradient a round, at the query of `AcceleratedSplitting`; then its step.

    DP-SADMM with steps and momentum from public facts; `SADMM` is the form that Liu et al. 2022
    print.
    """

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return self.steps(spec, rounds, noise.of_mean, noise.rate)

    @override
    def ask(self, state: Vector, inbox: Accelerated, turn: Turn) -> Point:
        return Point(self.query(inbox, turn))

    @override
    def first_public(self, template: Vector) -> Accelerated:
        return self.first(template)

    @override
    def combine(self, public: Accelerated, mean_message: Vector, turn: Turn) -> Accelerated:
        return self.advance(public, mean_message, turn)


class AcceleratedRenyiADMM(AcceleratedADMM):
    """`AcceleratedADMM` for x = y with the exact x-step of `RenyiADMM`, A = I and B = -I.

        x <- argmin g'x + (rho_t/2) |x - y + u / rho_t|^2 + |x - x_t|^2 / (2 tau_t)
        y <- prox_{r / rho_t}(x + u / rho_t),        u <- u + rho_t (x - y)

    replace the lines of y, u and x in `AcceleratedSplitting`; queries, averages and settings do not
    change. The rate there is proved for linearised steps.
    """

    @override
    def advance(self, at: Accelerated, gradient: Vector, turn: Turn) -> Accelerated:
        rho, step = turn.values["rho"], turn.values["step_size"]
        pull = self.slope(at, gradient, turn) + at.multiplier - rho * at.y
        x = (at.x - step * pull) / (1 + step * rho)
        y = self.problem.regulariser.prox(x + at.multiplier / rho, 1 / rho)
        return self.moved(at, x, y, at.multiplier + rho * (x - y), turn)
