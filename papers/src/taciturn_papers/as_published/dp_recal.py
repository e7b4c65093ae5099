"""DP-RECAL as published (Wang et al. 2024, Algorithm 1): noise on the message u, not on answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

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
        The agents' step size.
    first_scale
        sigma_1, the standard deviation of an agent's first noise.
    decay
        R >= 1: sigma_t^2 = R sigma_(t+1)^2.
    """

    alpha: float
    first_scale: float
    decay: float

    def __post_init__(self) -> None:
        positive("alpha", self.alpha)
        not_negative("first_scale", self.first_scale)
        positive("decay", self.decay)


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
    draw = np.random.default_rng(seed)
    agents, zero = walk.graph.agents, np.zeros(dimension)
    x, total, sent, last = np.full(dimension, start), zero, zero, zero
    states = [AgentState(x, zero)] * agents
    noises = [zero] * agents
    models, duals, gradients = [x], [sent], []
    for agent, visit in zip(walk.holders.tolist(), walk.visits.tolist(), strict=True):
        before = states[agent]
        gradients.append(gradient(agent, before.copy))
        x, states[agent] = agent_step(before, x, sent, gradients[-1], setting.alpha, agents, prox)
        change = states[agent].dual - before.dual
        total = total + change
        noise = (
            setting.first_scale * setting.decay ** (-visit / 2) * draw.standard_normal(dimension)
        )
        last, noises[agent] = noises[agent], noise
        sent = {"A": total - noise, "B": sent + change - noise, "C": sent + change - noise + last}[
            variant
        ]
        models.append(x)
        duals.append(sent)
    return Links(np.array(models), np.array(duals), np.array(gradients))


def agent_step(  # noqa: PLR0913, PLR0917 - the letters of Algorithm 1
    before: AgentState,
    x: HostArray,
    received: HostArray,
    gradient: HostArray,
    alpha: float,
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

    rho = rho_1 (R^plf - 1) / (R - 1), rho_1 = 8 alpha^2 beta^2 c^2 / sigma_1^2, c = `bound`.
    """
    first = 8 * (setting.alpha * coupling(agents) * bound / setting.first_scale) ** 2
    ratio = setting.decay
    total = first * (plf if ratio == 1 else (ratio**plf - 1) / (ratio - 1))
    return total + 2 * math.sqrt(total * math.log(1 / delta))
