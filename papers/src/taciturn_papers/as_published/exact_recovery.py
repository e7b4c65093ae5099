"""Exact recovery of gradients from the links of DP-RECAL as published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from taciturn.network import Walk
from taciturn.typing import HostArray
from taciturn_papers.as_published.dp_recal import Links, coupling

Unprox: TypeAlias = Callable[[HostArray], HostArray]


@dataclass(frozen=True, eq=False)
class Recovered:
    """What the links say; NaN where they do not say it.

    Attributes
    ----------
    gradients
        `(T, D)`: the gradient of hop k's holder.
    differences
        `(T, D)`: the gradient of hop k minus that of the same agent's activation before.
    copies
        `(T, D)`: the y_i at which the holder of hop k took its gradient.
    """

    gradients: Float[HostArray, "T D"]
    differences: Float[HostArray, "T D"]
    copies: Float[HostArray, "T D"]


def recover(
    links: Links, walk: Walk, alpha: float | Float[HostArray, " T"], unprox: Unprox
) -> Recovered:
    """Return the gradients that follow from the links, the public walk and alpha alone.

    `links.gradients` is not read. With beta = 1/(2(A+1)), at every activation of agent i, in which
    (x, u~) arrives and x+ leaves, x+ = prox(v), v = x - u~ - beta (x - y_i) gives

        y_i = x + (v - x + u~) / beta,

    whatever the noise in u~ is. Since lambda_i = 0 at first, h = lambda_i + beta (x - y_i) and the
    next copy y_i+, seen at the next activation, give

        g = h - (y_i+ - y_i) / alpha,      lambda_i+ = h + beta (x+ - x - y_i+ + y_i).

    Where v is unknown (a coordinate that a soft threshold set to 0), so is lambda_i from there on;
    it drops out of the *difference* of gradients of two consecutive activations.

    Parameters
    ----------
    alpha
        The step size, or that of the holder at every hop (`NoisedStep.steps`).
    unprox
        x+ -> v, with NaN at coordinates that x+ does not determine.
    """
    gradients = np.full((len(walk.holders), links.model.shape[1]), np.nan)
    differences, points = gradients.copy(), gradients.copy()
    beta, steps = coupling(walk.graph.agents), np.broadcast_to(alpha, len(walk.holders))
    for agent in range(walk.graph.agents):
        hops = np.flatnonzero(walk.holders == agent)
        x, after, u = links.model[hops], links.model[hops + 1], links.duals[hops]
        points[hops] = copies = x + (unprox(after) - x + u) / beta
        moves = np.diff(copies, axis=0)
        slopes = moves / steps[hops[:-1], None]
        pull = (beta * (x - copies))[:-1]  # h - lambda
        step = pull + beta * ((after - x)[:-1] - moves)  # lambda+ - lambda
        duals = np.concatenate([np.zeros_like(step[:1]), np.cumsum(step, axis=0)[:-1]])
        gradients[hops[:-1]] = duals + pull - slopes
        # the same with lambda+ - lambda in the place of lambda, which may be unknown
        differences[hops[1:-1]] = step[:-1] + np.diff(pull - slopes, axis=0)
    return Recovered(gradients, differences, points)


def unprox_none(after: HostArray) -> HostArray:
    """Return v = x+: without a regulariser the prox is the identity."""
    return after


def unprox_elastic(ridge: float, lasso: float) -> Unprox:
    """Return the inverse of the prox of lasso |x|_1 + ridge/2 |x|_2^2 on the support, NaN off it.

    There x+ = (v - lasso sign(x+)) / (1 + ridge).
    """

    def inverse(after: HostArray) -> HostArray:
        argument: HostArray = after * (1 + ridge) + lasso * np.sign(after)
        return np.where(after == 0, np.nan, argument)

    return inverse
