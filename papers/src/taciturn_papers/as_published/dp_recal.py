"""DP-RECAL as published (Wang et al. 2024, Algorithm 1): noise on the message u, not on answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from taciturn.checks import not_negative, positive
from taciturn.network import Walk
from taciturn.typing import HostArray

Variant = Literal["A", "B", "C"]
GradientOf: TypeAlias = Callable[[int, HostArray], HostArray]
Prox: TypeAlias = Callable[[HostArray], HostArray]


@dataclass(frozen=True)
class NoisedStep:
    """The public settings of a run.

    Attributes
    ----------
    alpha
        The agents' step size: one for all, or one of each (Algorithm 1's alpha_i).
    first_scale
        sigma_1, the standard deviation of an agent's first noise.
    decay
        R >= 1: sigma_t^2 = R sigma_(t+1)^2.
    gamma
        The step of an agent's activation t = 0, 1, ... is alpha gamma^t; 1 for constant steps.
    """

    alpha: float | tuple[float, ...]
    first_scale: float
    decay: float
    gamma: float = 1.0

    def __post_init__(self) -> None:
        for alpha in np.atleast_1d(self.alpha):
            positive("alpha", float(alpha))
        not_negative("first_scale", self.first_scale)
        positive("decay", self.decay)
        positive("gamma", self.gamma)

    @property
    def largest_alpha(self) -> float:
        """Alpha of Lemma 5, the largest step of any agent."""
        return float(np.max(self.alpha))

    def steps(self, walk: Walk) -> Float[HostArray, " T"]:
        """Return the step size of the holder at every hop."""
        alphas = np.broadcast_to(self.alpha, (walk.graph.agents,))
        steps: HostArray = alphas[walk.holders] * self.gamma**walk.visits
        return steps

    def scales(self, visits: Int[HostArray, " T"]) -> Float[HostArray, " T"]:
        """Return the standard deviation of the noise of an agent's activations `visits`."""
        scales: HostArray = self.first_scale * self.decay ** (-visits / 2)
        return scales


class AgentState(NamedTuple):
    """An agent's y_i and lambda_i, which are never noised."""

    copy: Float[HostArray, " D"]
    dual: Float[HostArray, " D"]


@dataclass(frozen=True, eq=False)
class Links:
    """The messages of a run, and the gradients that they should hide.

    Attributes
    ----------
    model, duals
        `(T + 1, D)`: the x and the noised u that arrive at hop k, for k = 0..T; entry k + 1 is
        what the holder of hop k passes on.
    gradients
        `(T, D)`: the exact gradient of each hop. Not sent; for comparison only.
    """

    model: Float[HostArray, "T1 D"]
    duals: Float[HostArray, "T1 D"]
    gradients: Float[HostArray, "T D"]


class Hop(NamedTuple):
    """What leaves the holder of a hop, x and the noised u, and its exact gradient."""

    model: Float[HostArray, "*B D"]
    duals: Float[HostArray, "*B D"]
    gradient: Float[HostArray, "*B D"]


def dp_recal(  # noqa: PLR0913 - what Algorithm 1 takes
    gradient: GradientOf, prox: Prox, walk: Walk, dimension: int, setting: NoisedStep, *,
    variant: Variant, seed: int, start: float = 0.0,
) -> Links:  # fmt: skip
    """Return the messages of DP-RECAL on the links along `walk`; duals start at 0.

    Parameters
    ----------
    gradient
        (agent, point) -> the gradient of f_i there.
    prox
        prox_{A r}.
    variant
        How the received noised u~ is used, on which the paper contradicts itself. "A": as in its
        analysis (9), u~ = sum of the duals - fresh noise; only a central simulator knows that sum.
        "B": as an agent can compute it, u~ <- u~ + change of the dual - noise; the noise stays in
        u~ for ever. "C": as B, but every agent removes its previous noise.
    start
        The initial value of every entry of x and of the copies y_i.

    Notes
    -----
    **Guarantee.** None: y_i and lambda_i are not noised, and `recover` computes the gradients from
    the links.
    """
    first, zero = np.full(dimension, start), np.zeros(dimension)
    steps, scales = setting.steps(walk), setting.scales(walk.visits)
    passed = hops(gradient, prox, walk, first, steps, scales, variant=variant, seed=seed)
    models, duals, gradients = zip(*passed, strict=True)
    return Links(np.array([first, *models]), np.array([zero, *duals]), np.array(gradients))


def hops(  # noqa: PLR0913 - what Algorithm 1 takes
    gradient: GradientOf, prox: Prox, walk: Walk, start: Float[HostArray, "*B D"],
    steps: Float[HostArray, "T ..."], scales: Float[HostArray, "T ..."], *,
    variant: Variant, seed: int,
) -> Iterator[Hop]:  # fmt: skip
    """Yield the hops of `dp_recal`, or of B runs of it along one walk and with one noise.

    Parameters
    ----------
    start
        `(D,)`, or `(B, D)` for B runs, with `steps` and `scales` of `(T, B, 1)`.
    steps, scales
        Step size, and standard deviation of the noise, at every hop.
    """
    draw = np.random.default_rng(seed)
    agents, zero = walk.graph.agents, np.zeros_like(start)
    x, total, sent = start, zero, zero
    states, noises = [AgentState(x, zero)] * agents, [zero] * agents
    for agent, step, scale in zip(walk.holders.tolist(), steps, scales, strict=True):
        before = states[agent]
        slope = gradient(agent, before.copy)
        x, states[agent] = agent_step(before, x, sent, slope, step, agents, prox)
        change = states[agent].dual - before.dual
        total = total + change
        noise = scale * draw.standard_normal(start.shape[-1])
        last, noises[agent] = noises[agent], noise
        sent = {"A": total, "B": sent + change, "C": sent + change + last}[variant] - noise
        yield Hop(x, sent, slope)


def agent_step(  # noqa: PLR0913, PLR0917 - the letters of Algorithm 1
    before: AgentState,
    x: HostArray,
    received: HostArray,
    gradient: HostArray,
    alpha: float | HostArray,
    agents: int,
    prox: Prox,
) -> tuple[HostArray, AgentState]:
    """Return x^{k+1} and the holder's next state: one pass of Algorithm 1, step 3."""
    beta = coupling(agents)
    half = before.dual + beta * (x - before.copy)
    model = prox(x - (received + half - before.dual))
    copy = before.copy - alpha * (gradient - half)
    return model, AgentState(copy, half + beta * ((model - x) - (copy - before.copy)))


def coupling(agents: int) -> float:
    """Return beta = 1 / (2 (A + 1))."""
    return 1 / (2 * (agents + 1))


def claimed_epsilon(
    setting: NoisedStep, bound: float, agents: int, plf: int, delta: float
) -> float:
    """Return the epsilon of Theorem 4: rho + 2 sqrt(rho ln(1/delta)), rho the total zCDP.

    rho = rho_1 (R^plf - 1) / (R - 1), rho_1 = 8 alpha^2 beta^2 c^2 / sigma_1^2, c = `bound`; with
    steps alpha gamma^t, rho_t is proportional to alpha_t^2 / sigma_t^2, and R gamma^2 stands for R.
    """
    first = 8 * (setting.largest_alpha * coupling(agents) * bound / setting.first_scale) ** 2
    ratio = setting.decay * setting.gamma**2
    total = first * (plf if ratio == 1 else (ratio**plf - 1) / (ratio - 1))
    return total + 2 * math.sqrt(total * math.log(1 / delta))
