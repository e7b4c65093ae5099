"""Theorems 5.3, 5.4 and 5.5 beside runs on a small problem of which every constant is known."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from taciturn.kernel.privacy import epsilon_of
from taciturn.typing import HostArray
from taciturn_papers.as_published.local_updates import LocalUpdates, box, rounds
from taciturn_papers.as_published.rate_bounds import (
    RateFacts,
    nonsmooth_bound,
    smooth_bound,
    strongly_convex_bound,
)
from taciturn_papers.reproductions.figure import Budget, Curve, Figure, Measured, Panel
from taciturn_papers.reproductions.ordering import Ordering, Pair
from taciturn_papers.reproductions.portions import Arrays, Portion, Results, Work
from taciturn_papers.reproductions.ryu2023.settings import Scale, multiplier

PART = "Our figure, Theorems 5.3 to 5.5"
BOUNDS: dict[str, Callable[[RateFacts, int], float]] = {
    "Theorem 5.3": smooth_bound,
    "Theorem 5.4": nonsmooth_bound,
    "Theorem 5.5": strongly_convex_bound,
}
_AGENTS, _RECORDS, _RHO, _DELTA, _EPSILON = 3, 30, 0.5, 1e-2, 1.0
_UPDATES, _LOOKS = (1, 5), 12
_READINGS = {"U_2 of all agents": True, "U_2 of one agent, as printed": False}


@dataclass(frozen=True)
class Bounded:
    """The left-hand side of (5.1b), (5.2b) or (5.3b) at E, and what the bound is made of.

    Attributes
    ----------
    rounds, left
        `(L,)`, and `(R, L)`: of every run.
    """

    theorem: str
    rounds: Int[HostArray, " L"]
    left: Float[HostArray, "R L"]
    facts: RateFacts

    def bound(self, t: int, *, stacked: bool) -> Measured:
        """Return the right-hand side, with U_2 of all agents or, as printed, of one."""
        width = self.facts.diameter / (1 if stacked else math.sqrt(self.facts.agents))
        facts = dataclasses.replace(self.facts, diameter=width)
        return Measured.computed(BOUNDS[self.theorem](facts, t))


def instance() -> tuple[Float[HostArray, "P I 2"], Float[HostArray, "P I"]]:
    """Return regression in the plane: records and targets within 1, optimum within [-1, 1]^2."""
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (_AGENTS, _RECORDS, 2)) / math.sqrt(2)
    y = np.clip(x @ [0.5, -0.3] + 0.2 * draw.standard_normal((_AGENTS, _RECORDS)), -1, 1)
    return x, y


def bounded(scale: Scale) -> Work[list[Bounded]]:
    """Return the measurements of all theorems, at one and at five local updates."""
    kinds = [(theorem, e) for theorem in BOUNDS for e in _UPDATES]

    def portion(theorem: str, updates: int) -> Portion:
        settings = (PART, theorem, updates, scale.bound_rounds, scale.bound_runs)
        return Portion(f"{theorem}, E = {updates}", settings, partial(_measured, *settings[1:]))

    def whole(results: Results) -> list[Bounded]:
        portions = [portion(*kind) for kind in kinds]
        return [_found(*kind, results[each.settings])
                for kind, each in zip(kinds, portions, strict=True)]  # fmt: skip

    return Work(tuple(portion(*kind) for kind in kinds), whole)


def _facts(updates: int, gamma: float) -> RateFacts:
    """Return the constants; a record's gradient is at most 1 + sqrt(2) within the box."""
    x, _ = instance()
    curvature = np.linalg.eigvalsh(np.einsum("pij,pik->pjk", x, x) / (_AGENTS * _RECORDS))
    slope = 1 + math.sqrt(2)
    sigma = multiplier("G", _EPSILON, _DELTA) * 2 * slope / (_AGENTS * _RECORDS)
    return RateFacts(
        agents=_AGENTS, dimension=2, local_updates=updates, slope=slope / _AGENTS,
        diameter=math.sqrt(_AGENTS) * 2 * math.sqrt(2), variance=sigma**2, per_update=_EPSILON,
        rho_first=_RHO, rho_last=_RHO, gamma=gamma, smoothness=float(curvature.max()),
        strong_convexity=float(curvature.min()),
    )  # fmt: skip


def _schedules(theorem: str, t: HostArray) -> tuple[HostArray, HostArray]:
    """Return 1/eta_t by (5.1a), (5.2a) or (5.3a), and the weights of the averages."""
    facts = _facts(1, 0.0)
    if theorem == "Theorem 5.3":
        return facts.smoothness + np.sqrt(t) / _EPSILON, np.ones(len(t))
    if theorem == "Theorem 5.4":
        return np.sqrt(t), np.ones(len(t))
    return facts.strong_convexity * (t + 2) / 2, t


def _measured(theorem: str, updates: int, last: int, runs: int) -> Arrays:
    """Return gaps and distances at the measured rounds, and gamma."""
    x, y = instance()
    total, draw = _AGENTS * _RECORDS, np.random.default_rng(1)
    best = np.linalg.lstsq(x.reshape(-1, 2), y.ravel(), rcond=None)[0]
    duals = np.einsum("pij,pi->pj", x, x @ best - y) / total
    t = np.arange(1.0, last + 1)
    inverse, weights = _schedules(theorem, t)
    sigma = math.sqrt(_facts(1, 0.0).variance)
    made = LocalUpdates(
        agents=_AGENTS, updates=updates, start=np.ones((2, runs)), rho=np.full(last, _RHO),
        inverse_step=inverse,
        gradient=lambda p, z: x[p].T @ (x[p] @ z - y[p][:, None]) / total,
        noise=lambda p: draws[p].standard_normal((2, runs)) * sigma,
        within=box(1.0),
    )  # fmt: skip
    draws = draw.spawn(_AGENTS)
    looks = np.unique(np.geomspace(1, last, _LOOKS).round().astype(int))
    largest, z, w, rows = 2 * float(np.linalg.norm(duals)), np.zeros(()), np.zeros(()), []
    for k, (done, weight) in enumerate(zip(rounds(made), weights, strict=True), 1):
        share = weight / weights[:k].sum()
        z = z + share * ((done.solutions if theorem == "Theorem 5.3" else done.asked) - z)
        w = w + share * (done.consensus - w)
        if theorem == "Theorem 5.5":  # Assumption 5.2: a bound on every dual too
            largest = max(largest, float(np.linalg.norm(done.duals, axis=(0, 1)).max()))
        if k in looks:
            residual = np.einsum("pij,pjr->pir", x, z) - y[:, :, None]
            value = 0.5 * np.sum(residual**2, axis=(0, 1)) / total
            rows.append((value, np.linalg.norm(w - z, axis=(0, 1))))
    least = 0.5 * np.sum((x @ best - y) ** 2) / total
    gaps, apart = np.stack(rows, axis=2)
    return {"rounds": looks, "left": gaps - least + largest * apart, "gamma": np.array(largest)}


def _found(theorem: str, updates: int, found: Arrays) -> Bounded:
    facts = _facts(updates, float(found["gamma"]))
    return Bounded(theorem, found["rounds"], found["left"], facts)


def figure(found: Sequence[Bounded]) -> Figure:
    """Return the three theorems, each beside its runs."""
    return Figure(
        PART,
        f"{PART}: the bounds, and what they bound",
        "Regression in the plane among three agents, epsilon 1 an update, where every constant of "
        "the theorems is known. The left-hand side counts the gap and how far the agents are "
        "apart. How tight are the bounds?",
        "the rates: 1 / sqrt(T) if smooth or nonsmooth, 1 / T if strongly convex.",
        tuple(_panel(theorem, [one for one in found if one.theorem == theorem])
              for theorem in BOUNDS),
    )  # fmt: skip


def _panel(theorem: str, found: Sequence[Bounded]) -> Panel:
    curves = []
    for one in found:
        e = one.facts.local_updates
        x = tuple(map(float, one.rounds))
        mu = math.sqrt(one.rounds[-1] * e) / multiplier("G", _EPSILON, _DELTA)
        spent = (Budget(float(epsilon_of(_DELTA, mu)), _DELTA),)
        curves.append(Curve(f"runs, E = {e}", spent, x, Measured.columns(one.left)))
        for name, stacked in _READINGS.items():
            y = tuple(one.bound(int(t), stacked=stacked) for t in one.rounds)
            curves.append(Curve(f"bound, E = {e}, {name}", spent, x, y, reference=True))
    return Panel("round", theorem, tuple(curves), log_x=True, log_y=True)


def orderings(found: Sequence[Bounded]) -> tuple[Ordering, ...]:
    """Return what the theorems say, at every measured round and for both readings of U_2."""
    return tuple(
        Ordering(PART, f"{theorem}: the expected left-hand side is below the bound",
                 tuple(pair for one in found if one.theorem == theorem for pair in _pairs(one)))
        for theorem in BOUNDS
    )  # fmt: skip


def _pairs(one: Bounded) -> list[Pair]:
    e, left = one.facts.local_updates, Measured.columns(one.left)
    return [
        Pair(f"E = {e}, after {t} rounds", ("runs", value),
             ("bound", one.bound(int(t), stacked=stacked)), name)
        for name, stacked in _READINGS.items()
        for t, value in zip(one.rounds, left, strict=True)
    ]  # fmt: skip
