"""Ryu & Kim 2023, Theorems 5.3 and 5.4: U_2 is the diameter of one agent's set."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from taciturn_papers.as_published.local_updates import LocalUpdates, box, rounds
from taciturn_papers.as_published.rate_bounds import RateFacts, nonsmooth_bound, smooth_bound
from taciturn_papers.claims.claim import Claim, Finding, Verdict

AGENTS = (25, 100, 400, 1_600)
ROUNDS = (1, 4, 16)
SLOPE, RHO, GAMMA, SMOOTHNESS, EPSILON = 1 / 40, 1.0, 1.0, 1e-3, 1.0


class Sides(NamedTuple):
    """Both sides of (5.1b) or (5.2b): the right one with U_2 as printed, and of all agents."""

    left: float
    printed: float
    stacked: float


def facts(agents: int) -> RateFacts:
    """Return the constants of f_p(z) = s z on W_p = [-1, 1], with U_2 = 2 as printed."""
    return RateFacts(
        agents=agents, dimension=1, local_updates=1, slope=SLOPE, diameter=2.0, variance=0.0,
        per_update=EPSILON, rho_first=RHO, rho_last=RHO, gamma=GAMMA, smoothness=SMOOTHNESS,
    )  # fmt: skip


def sides(agents: int, *, smooth: bool) -> list[Sides]:
    """Return both sides after each of `ROUNDS` from z = 1; Algorithm 3.1 is run.

    The loss reads no data, so its sensitivity, U_3 and the noise are 0.
    """
    t = np.arange(1, ROUNDS[-1] + 1)
    made = LocalUpdates(
        agents=agents, updates=1, start=np.ones(1), rho=np.full(len(t), RHO),
        inverse_step=SMOOTHNESS + np.sqrt(t) / EPSILON if smooth else np.sqrt(t),
        gradient=lambda _, z: np.full_like(z, SLOPE), noise=lambda _: np.zeros(1), within=box(1.0),
    )  # fmt: skip
    points, used = [], []
    for done in rounds(made):
        points.append((done.solutions if smooth else done.asked).copy())
        used.append(done.consensus)
    bound, printed = smooth_bound if smooth else nonsmooth_bound, facts(agents)
    stacked = dataclasses.replace(printed, diameter=2 * math.sqrt(agents))
    found = []
    for last in ROUNDS:
        z, w = np.mean(points[:last], axis=0), np.mean(used[:last], axis=0)
        gap = float(np.sum(SLOPE * (z + 1)))  # the optimum is z = -1
        left = gap + GAMMA * float(np.linalg.norm(w - z))
        found.append(Sides(left, bound(printed, last), bound(stacked, last)))
    return found


def decide() -> Finding:
    """Return the finding: both sides for several numbers of agents and rounds."""
    rows = tuple(
        (3.0 if smooth else 4.0, float(agents), float(last), *both)
        for smooth in (True, False)
        for agents in AGENTS
        for last, both in zip(ROUNDS, sides(agents, smooth=smooth), strict=True)
    )
    broken = [row for row in rows if row[3] > row[4]]
    worst = max(rows, key=lambda row: row[3] / row[4])
    verdict: Verdict = "does not hold" if broken else "holds"
    proved = max(row[3] / row[5] for row in rows)
    return Finding(
        verdict=verdict,
        summary=(
            f"With U_2 as printed the left-hand side exceeds the bound in {len(broken)} of "
            f"{len(rows)} cases: after {worst[2]:.0f} rounds of {worst[1]:,.0f} agents it is "
            f"{worst[3]:.3g}, the bound of Theorem 5.{worst[0]:.0f} {worst[4]:.3g}. With U_2 of "
            f"the stacked solutions it is at most {proved:.2g} of the bound."
        ),
        columns=("theorem 5.", "agents", "rounds", "left-hand side", "bound as printed",
                 "bound with U_2 of all agents"),
        rows=rows,
    )  # fmt: skip


CLAIM = Claim(
    id="ryu2023/thm5.3-5.4",
    paper="Ryu & Kim 2023, Differentially private distributed convex optimization, section 5.2",
    verdict="does not hold",
    statement=(
        "The bounds (5.1b) and (5.2b) hold with U_2 the largest distance of two points of any W_p."
    ),
    reasoning=(
        "The proofs bound |z* - z^t|^2, which sums over all agents, by U_2^2: U_2 must be the "
        "diameter of the product of the W_p, sqrt(P) times the printed one. For f_p(z) = s z on "
        "[-1, 1] and z = 1 at the start, the gap is 2 P s, while all terms of (5.2b) are constant "
        "in P but for P s^2. All hypotheses are met: 0 is a dual optimal, rho is constant, and "
        "the loss reads no data, so that there is no noise. (5.3b) has P in its last term."
    ),
    decide=decide,
)
