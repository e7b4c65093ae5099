"""Averaged noisy gradient: the aggregator steps along the mean of the agents' noised gradients."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import numpy as np
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.algorithm import (
    Noise,
    ServerMethod,
    check_growth,
    radius_of,
    smoothness_of,
    tail_average,
)
from taciturn.kernel.door import Turn
from taciturn.kernel.records import Spec
from taciturn.typing import HostArray, Model

TRANSIENT = 8  # least ratio of the rounds to 1 / (1 - beta)
# numbers of rounds by default; a message each, and noise of equal size in all
ROUNDS = (200, 300, 400, 500, 700, 1000)


def rounds_to_horizon(spec: Spec, rounds: int, noise: Noise) -> int:
    """Return the fewest rounds of `ROUNDS` in which `NoisyGradient` can move by its horizon H.

    `noise`: that of each of `rounds` rounds. At a fixed total budget nu / sqrt(T), and so H, do not
    depend on T. The step is at most 1/L and 1 / (1 - beta) at most T / 8, so T rounds move by at
    most T^2 / (8 L), and

        T >= sqrt(8 L H).

    Fewer rounds end before the noise requires it. More collect the same noise and cost messages.
    Beyond the last of `ROUNDS` a run is limited by its time, not by its noise. Without noise, and
    for a loss without a bound L, the first is returned.
    """
    spread = np.sqrt(spec.dimension) * noise.of_mean
    if spread == 0 or not np.isfinite(spec.smoothness):
        return ROUNDS[0]
    horizon = radius_of(spec) * np.sqrt(rounds) / spread
    least = np.sqrt(TRANSIENT * spec.smoothness * horizon)
    return next((enough for enough in ROUNDS if enough >= least), ROUNDS[-1])


class _Public(NamedTuple):
    query: Model
    iterate: Model
    average: Model


class NoisyGradient(ServerMethod):
    """Proximal gradient descent on noised gradients, with momentum and tail averaging.

    With answers g_i at the public query y, step size eta, momentum beta and averaging weight a:

        x'   <- prox_{eta r}(y - eta mean_i(g_i))
        y    <- x' + beta (x' - x)
        xbar <- xbar + a (x' - xbar)                the released model

    **Settings from public facts.** Let nu be the standard deviation, per coordinate, of
    mean_i(g_i), T the number of rounds, d the dimension, R the record norm and L the smoothness.
    Along a direction of little curvature the iterate moves by H = T eta / (1 - beta), the
    *horizon*, times the gradient, and accumulates noise of standard deviation H nu / sqrt(T); at a
    fixed total budget nu grows as sqrt(T), so this depends on H alone. The excess risk of a convex
    problem is at most radius^2 / (2 H) + H d nu^2 / (2 T), least at

        H = radius sqrt(T / d) / nu.

    With radius = sqrt(d) / R (coordinates of order one for records of norm one) this means: stop
    when the noise moves a record's margin by one unit, the scale on which a logistic loss changes.
    If H / T <= 1/L then eta = H / T and beta = 0; otherwise eta = 1/L and momentum supplies the
    rest, with a transient 1 / (1 - beta) of at most an eighth of the run, for which the default
    number of rounds suffices (`rounds_to_horizon`). The last half of the iterates is averaged (a =
    1, 1/2, 1/3, ... from there on; a = 1 before). Without noise this is the accelerated proximal
    gradient method: eta = 1/L, beta_k = k / (k + 3), without averaging, F(x_k) - F* <= 2 L |x_0 -
    x*|^2 / (k + 1)^2 (Beck & Teboulle 2009). On batches
    (`taciturn.kernel.questions.MinibatchGradient`) the method is distributed DP-SGD; the variance
    of batches is not public and does not enter H, but without noise it precludes acceleration: eta
    = 1/L, beta = 0, tail averaging.

    `radius`: the assumed norm of the solution; None for sqrt(d) / R. `averaged`: the fraction of
    the run, at its end, that is averaged. `step_size`: a constant eta without momentum, as in
    DP-SGD with a learning rate; None for the settings above.

    **Guarantee.** Query, iterate and average are functions of past noised answers. The query
    depends on public state alone and the message is the answer itself, so under summation the
    observer sees mean_i(g_i), in which the noises of honest agents add up.
    """

    radius: float | None = eqx.field(static=True, default=None)
    averaged: float = eqx.field(static=True, default=0.5)
    # not described apart from the schedule that it determines
    step_size: float | None = eqx.field(static=True, default=None, repr=False)

    def __check_init__(self) -> None:
        if self.radius is not None:
            checks.positive("radius", self.radius)
        checks.fraction("averaged", self.averaged)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        smoothness = smoothness_of(spec)
        radius = self.radius or radius_of(spec)
        spread = np.sqrt(spec.dimension) * noise.of_mean
        k, step, momentum = np.arange(rounds), 1 / smoothness, 0.0
        if self.step_size is not None:
            steps, quiet = np.full(rounds, self.step_size), spread == 0 and not noise.sampled
            check_growth(spec, steps)
            return {
                "step_size": steps,
                "momentum": np.zeros(rounds),
                "averaging": np.ones(rounds) if quiet else tail_average(rounds, self.averaged),
            }
        if spread == 0 and not noise.sampled:  # accelerated
            constant = {"step_size": np.full(rounds, step), "averaging": np.ones(rounds)}
            return constant | {"momentum": k / (k + 3)}
        if spread > 0:
            horizon = radius * np.sqrt(rounds) / spread  # T eta / (1 - beta)
            if horizon / rounds <= step:
                step = horizon / rounds
            else:
                momentum = 1 - max(min(1.0, TRANSIENT / rounds), step * rounds / horizon)
        return {
            "step_size": np.full(rounds, step),
            "momentum": np.full(rounds, momentum),
            "averaging": tail_average(rounds, self.averaged),
        }

    @override
    def first_public(self, template: Model) -> _Public:
        return _Public(template, template, template)

    @override
    def step(self, public: _Public, gradient: Model, turn: Turn) -> _Public:
        step = turn.values["step_size"]
        iterate = self.problem.prox(public.query - step * gradient, step)
        query = iterate + turn.values["momentum"] * (iterate - public.iterate)
        average = public.average + turn.values["averaging"] * (iterate - public.average)
        return _Public(query, iterate, average)
