"""One run of DP-RECAL as printed on a data set: `taciturn published dp-recal`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from taciturn.network import Walk
from taciturn.typing import HostArray
from taciturn_papers.as_published import (
    Links,
    NoisedStep,
    claimed_epsilon,
    dp_recal,
    recover,
    unprox_elastic,
    unprox_none,
)
from taciturn_papers.reproductions.wang2024.arms import above, error_of, solved, task
from taciturn_papers.reproductions.wang2024.as_printed import (
    RECAL_PRINTED,
    Case,
    alpha_of,
    bound_of,
    elastic,
    gradient_of,
    noise,
)
from taciturn_papers.reproductions.wang2024.settings import Bound, Scale


@dataclass(frozen=True)
class OneRun:
    """What one run reached, what it claims, and what its links give away.

    Attributes
    ----------
    noise
        sigma_1.
    relative_error, objective_gap
        |x - x*| / |x^1 - x*| and F(x) - F(x*) at the end; x* is not private.
    test_error
        In per cent.
    gradients_read, differences_read
        Share of the coordinates of gradients, and of differences of an agent's consecutive
        gradients, that the links determine.
    worst_error
        Of these, the largest relative error.
    """

    claimed_epsilon: float
    delta: float
    bound: float
    noise: float
    plf: int
    messages: int
    relative_error: float
    objective_gap: float
    test_error: float
    gradients_read: float
    differences_read: float
    worst_error: float


def one_run(  # noqa: PLR0913 - what a run takes
    name: str, loss: str, scale: Scale, *, bound: Bound | float, first_scale: float | None,
    start: float, seed: int,
) -> OneRun:  # fmt: skip
    """Return one run of Algorithm 1 with the weights `l1`, `l2` and the first R of the scale.

    **Guarantee.** None; the epsilon is only claimed.

    Parameters
    ----------
    bound
        c of Assumption 3, or a reading of it.
    first_scale
        sigma_1; None: such that Theorem 4 claims `scale.equal`.
    start
        The value of every entry of x^1 and y^1.
    """
    plain = task(name, loss, scale)
    one = task(name, loss, scale, solved(plain, scale))
    walk = scale.walk_of(scale.hops, seed)
    plf, alpha = walk.privacy_leakage_frequency, alpha_of(one, RECAL_PRINTED, scale)
    c = bound if isinstance(bound, float) else bound_of(one, bound)
    case = Case("ours", scale.equal, "largest", scale.decays[0])
    setting = noise(RECAL_PRINTED, alpha, c, case, plf, scale)
    if first_scale is not None:
        setting = NoisedStep(alpha, first_scale, case.decay, scale.gamma)
    weights = (scale.l1, scale.l2)
    links = dp_recal(
        gradient_of(one), partial(elastic, weights, step=scale.agents), walk,
        one.shards.dimension, setting, variant=scale.variant, seed=seed, start=start,
    )  # fmt: skip
    elastic_net = unprox_elastic(scale.agents * scale.l2, scale.agents * scale.l1)
    unprox = elastic_net if any(weights) else unprox_none
    found = recover(links, walk, setting.steps(walk), unprox)
    both = ((found.gradients, links.gradients), (found.differences, _differences(links, walk)))
    model, spent = links.model[-1], setting.first_scale > 0
    return OneRun(
        claimed_epsilon=claimed_epsilon(setting, c, scale.agents, plf, scale.delta)
        if spent else float("inf"),
        delta=scale.delta,
        bound=c,
        noise=setting.first_scale,
        plf=plf,
        messages=len(walk.holders),
        relative_error=_distance(model, one.optimum) / _distance(links.model[0], one.optimum),
        objective_gap=above(one, one.problem, model),
        test_error=error_of(one, model),
        gradients_read=float(np.mean(np.isfinite(found.gradients))),
        differences_read=float(np.mean(np.isfinite(found.differences))),
        worst_error=max(_worst(*each) for each in both),
    )  # fmt: skip


def _distance(one: HostArray, other: HostArray) -> float:
    return float(np.linalg.norm(one - other))


def _differences(links: Links, walk: Walk) -> HostArray:
    """Return the exact difference of every gradient to the same agent's before."""
    found = np.full_like(links.gradients, np.nan)
    holders = walk.holders
    for agent in np.unique(holders):
        hops = np.flatnonzero(holders == agent)
        found[hops[1:]] = np.diff(links.gradients[hops], axis=0)
    return found


def _worst(found: HostArray, truth: HostArray) -> float:
    known = np.isfinite(found)
    if not known.any():
        return float("nan")
    return float(np.max(np.abs(found - truth)[known]) / np.nanmax(np.abs(truth)))
