"""Algorithm 3.1 of Ryu & Kim 2023 as printed, several runs at once; (3.2), (3.4) or (4.3)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from taciturn.typing import HostArray
from taciturn_papers.as_published.local_schedules import Form

_SMALL = 10_000  # numbers of a point below which threads cost more than they save
Local = Callable[[int, HostArray], HostArray]
Within = Callable[[int, HostArray, HostArray], HostArray]


@dataclass(frozen=True, kw_only=True)
class LocalUpdates:
    """What the agents of a run do, in the units of the paper: F = sum_p f_p.

    Points have the shape of `start`, `(n,)` or `(n, R, ...)` with R runs on the second axis.

    Attributes
    ----------
    agents, updates
        P and E.
    start
        Every z_p^1; the first duals are 0.
    rho, inverse_step
        rho^t and 1/eta^t, `(T, ...)`: numbers, or arrays that fit a point, one number a run.
    gradient
        From an agent and a point to a gradient of f_p.
    noise
        From an agent to the next xi, **on the gradient**: an output is moved by xi / (rho +
        1/eta), which is the same noise for the same privacy.
    within
        From an agent, a point v and c = rho + 1/eta to argmin_z c/2 |z - v|^2 over W_p, or to that
        of c/2 |z - v|^2 + g_l(z): see `box` and `penalised_box`.
    form
        Where the noise enters: on the gradient, (3.2); on the solution, (3.4); on the solution,
        which is then projected.
    """

    agents: int
    updates: int
    start: HostArray
    rho: Float[HostArray, "T ..."]
    inverse_step: Float[HostArray, "T ..."]
    gradient: Local
    noise: Callable[[int], HostArray]
    within: Within
    form: Form = "objective"


class Round(NamedTuple):
    """What a round leaves behind.

    Attributes
    ----------
    consensus
        w^{t+1}, from which the agents began.
    solutions, asked, duals
        Of all agents, `(P, ...)`: the mean of the E solutions z_p^{t,e+1}, that of the points
        z_p^{t,e} where gradients were taken, and lambda_p^{t+1}.
    free
        For every run, whether no constraint acted in any update so far, neither on the noised step
        nor on the one without the noise. All three forms are then the same run.
    """

    consensus: HostArray
    solutions: HostArray
    asked: HostArray
    duals: HostArray
    free: HostArray


def rounds(run: LocalUpdates) -> Iterator[Round]:
    """Yield every round of Algorithm 3.1; arrays are reused by the next round."""
    shape = (run.agents, *run.start.shape)
    last, sent, asked = (np.broadcast_to(run.start, shape).copy() for _ in range(3))
    duals = np.zeros_like(last)
    free = np.full((run.agents, *run.start.shape[1:2]), run.form == "objective")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for rho, inverse in zip(run.rho, run.inverse_step, strict=True):
            consensus = np.mean(sent - duals / rho, axis=0)
            state = (last, sent, asked, duals, free)
            turn = partial(_turn, run, (np.asarray(rho), np.asarray(inverse)), consensus, state)
            work = pool.map if run.start.size > _SMALL else map
            list(work(turn, range(run.agents)))
            yield Round(consensus, sent, asked, duals, np.asarray(free.all(axis=0)))


def _turn(
    run: LocalUpdates, weights: tuple[HostArray, HostArray], consensus: HostArray,
    state: tuple[HostArray, ...], agent: int,
) -> None:  # fmt: skip
    """Make the E updates of one agent, lines 15 to 23."""
    last, sent, asked, duals, free = state
    rho, inverse = weights
    z, c = last[agent], np.asarray(rho + inverse)
    pull = rho * consensus + duals[agent]
    solutions, points = np.zeros_like(z), np.zeros_like(z)
    for _ in range(run.updates):
        points += z
        v = run.gradient(agent, z)  # a new array, changed in place from here on
        v -= pull
        v -= inverse * z
        v /= -c
        xi = run.noise(agent) / c
        if run.form == "objective":
            step = v - xi
            z = run.within(agent, step, c)
            if np.any(free[agent]):
                same = (z == step) & (run.within(agent, v, c) == v)
                free[agent] &= same.all(axis=(0, *range(2, same.ndim)))
        else:
            z = run.within(agent, v, c) - xi
        if run.form == "projected-output":
            z = run.within(agent, z, c)
        solutions += z
    last[agent] = z
    sent[agent], asked[agent] = solutions / run.updates, points / run.updates
    duals[agent] += rho * (consensus - sent[agent])


def box(width: float | Sequence[float]) -> Within:
    """Return the solution of (3.2) for W_p = [-u_p, u_p]; `width` is u, or one for each agent."""

    def within(agent: int, v: HostArray, c: HostArray) -> HostArray:
        del c
        u = width[agent] if isinstance(width, Sequence) else width
        return np.clip(v, -u, u)

    return within


def penalised_box(width: float, sharpness: float) -> Within:
    """Return the solution of (4.3) with the penalty g_l of [-u, u]; `sharpness` is l.

    In every coordinate c (z - v) + l s(l (z - u)) - l s(-l (z + u)) = 0 with s(x) = 1 / (1 +
    e^-x): increasing in z, and solved by bisection between v - l / c and v + l / c.
    """

    def within(agent: int, v: HostArray, c: HostArray) -> HostArray:
        del agent
        low, high = v - sharpness / c, v + sharpness / c
        for _ in range(100):
            z = (low + high) / 2
            push = expit(sharpness * (z - width)) - expit(-sharpness * (z + width))
            above = c * (z - v) + sharpness * push > 0
            low, high = np.where(above, low, z), np.where(above, z, high)
        middle: HostArray = (low + high) / 2
        return middle

    return within
