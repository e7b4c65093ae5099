"""Accelerated linearised ADMM for A x + B y = c on noised gradients (Ouyang et al. 2015)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.algorithm import AnswerMessages, Noise, Turn, batch_variance, radius_of
from taciturn.algorithms.splitting import smoothness_within
from taciturn.oracles import Point
from taciturn.problems import Structured, laplacian_smooth, smoothed_share
from taciturn.spec import Spec
from taciturn.typing import Array, HostArray, Vector


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
    stands for d. Without noise on batches their variance takes the place of d nu^2
    (`batch_variance`), beside noise it is left out. The rate, its proof and when smoothing pays:
    docs/explanation/step-sizes.md.

    **Guarantee.** Agents are asked at public points and send the answers; all else is a public
    function of the answers: momentum, smoothing, proximal steps and averages are post-processing.

    Attributes
    ----------
    problem
        f, r, A, B and c, all public but for the records; its loss is not used here.
    smoothing
        v >= 0; 0 for none.
    radius
        Assumed norm of the solution; None for sqrt(d) / R.
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

        `spread` is the standard deviation, per coordinate, of the noise on a gradient estimate.
        """
        forward, smoothness = self.problem.forward, smoothness_within(spec, self.problem)
        size = self.radius or radius_of(spec)
        variance = forward.columns * spread**2 or batch_variance(spec, rate)
        variance *= smoothed_share(forward.columns, self.smoothing)
        reach = max(2 * smoothness, np.sqrt(count**3 * variance) / (4 * size))
        pull = smoothness  # k
        bound = self.problem.regulariser.gradient_bound(self.problem.coupling.columns)
        if bound != 0 and np.isfinite(bound):
            pull = float(np.sqrt(forward.norm_squared()) * bound / size)
        stiffness = max(2 * smoothness + count * pull, reach)
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

    The form with steps and momentum from public facts of DP-SADMM (`taciturn.algorithms.SADMM` is
    the one that Liu et al. 2022 print).
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

    in place of the three lines of `AcceleratedSplitting`; queries, averages and settings are its
    own. The rate there is proved for linearised steps.
    """

    @override
    def advance(self, at: Accelerated, gradient: Vector, turn: Turn) -> Accelerated:
        rho, step = turn.values["rho"], turn.values["step_size"]
        pull = self.slope(at, gradient, turn) + at.multiplier - rho * at.y
        x = (at.x - step * pull) / (1 + step * rho)
        y = self.problem.regulariser.prox(x + at.multiplier / rho, 1 / rho)
        return self.moved(at, x, y, at.multiplier + rho * (x - y), turn)
