"""Ryu & Kim 2023, Theorem 4.2: the penalty (4.3) leads to the projection (3.2) as l grows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from taciturn.typing import HostArray
from taciturn_papers.as_published.local_updates import (
    LocalUpdates,
    Within,
    box,
    penalised_box,
    rounds,
)
from taciturn_papers.claims.claim import Claim, Finding, Verdict

SHARPNESS = (1e1, 1e2, 1e3, 1e4, 1e5)
AGENTS, ROUNDS, UPDATES, RUNS, SIGMA = 3, 20, 2, 50, 0.5


def solutions(within: Within) -> HostArray:
    """Return the mean solutions of a run whose box binds; every call draws the same noise.

    f_p(z) = |z - 2|^2 / 6 on W_p = [-1, 1]^2, so that the optimum is at a corner.
    """
    draw = np.random.default_rng(0)
    t = np.arange(1, ROUNDS + 1)
    made = LocalUpdates(
        agents=AGENTS, updates=UPDATES, start=np.zeros((2, RUNS)), rho=np.ones(ROUNDS),
        inverse_step=np.sqrt(t), gradient=lambda _, z: (z - 2) / AGENTS,
        noise=lambda p: draws[p].standard_normal((2, RUNS)) * SIGMA, within=within,
    )  # fmt: skip
    draws = draw.spawn(AGENTS)
    return np.array([done.solutions.mean(axis=0) for done in rounds(made)])


def decide() -> Finding:
    """Return the finding: distances of (4.3) from (3.2) for growing l, in a step and in a run."""
    v, projected = np.linspace(-3, 3, 601), solutions(box(1.0))
    rows = []
    for sharpness in SHARPNESS:
        soft = penalised_box(1.0, sharpness)
        step = np.abs(soft(0, v, np.ones(1)) - np.clip(v, -1, 1)).max()
        found = solutions(soft)
        outside = np.maximum(np.abs(found) - 1, 0).max()
        rows.append((sharpness, step, np.abs(found - projected).max(), float(outside)))
    falls = all(after[1] < before[1] / 2 for before, after in pairwise(rows))
    verdict: Verdict = "holds" if falls and rows[-1][2] < 1e-2 else "does not hold"
    return Finding(
        verdict=verdict,
        summary=(
            f"A step of (4.3) is at most {rows[0][1]:.2g} from that of (3.2) at l = "
            f"{SHARPNESS[0]:g}, and {rows[-1][1]:.2g} at l = {SHARPNESS[-1]:g}: about (ln l) / l. "
            f"Solutions of a run of {ROUNDS} rounds with the same noise differ by at most "
            f"{rows[0][2]:.2g} and {rows[-1][2]:.2g}, and leave the set by at most "
            f"{rows[0][3]:.2g} and {rows[-1][3]:.2g}."
        ),
        columns=("l", "distance of one step", "distance in a run", "outside by"),
        rows=tuple(tuple(map(float, row)) for row in rows),
    )


CLAIM = Claim(
    id="ryu2023/thm4.2",
    paper="Ryu & Kim 2023, Differentially private distributed convex optimization, Theorem 4.2",
    verdict="holds",
    statement=(
        "The minimiser of (4.3), with the penalty sum_m ln(1 + e^(l h_m(z))), converges to that of "
        "(3.2) over W_p = {h_m <= 0} as l grows."
    ),
    reasoning=(
        "The proof needs a point with h_m < 0 for all m. Beyond the bound u of a box the minimiser "
        "solves c (v - z) = l / (1 + e^(-l (z - u))), so it lies about ln(l / (c (v - u))) / l "
        "inside of u: convergence is slow, and a finite l moves solutions that the projection "
        "would leave at the bound. The map from noise to solution is one to one for every l, which "
        "is what Theorems 4.3 and 4.4 rest on; the limit is not."
    ),
    decide=decide,
)
