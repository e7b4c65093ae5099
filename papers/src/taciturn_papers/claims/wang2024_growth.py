"""Wang et al. 2024, Section VI: n ln(1/tol) messages and a PLF that is constant in n."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from scipy import stats

from taciturn.network import ring
from taciturn.typing import HostArray
from taciturn_papers.claims.claim import Claim, Finding, Verdict

SIZES, WALKS = (4, 8, 16), 10
Quantity = Literal["plf", "messages"]
_PLACE = {"plf": 1, "messages": 2}
_CLAIMED = {"plf": 0, "messages": 1}


def powers(quantity: Quantity) -> tuple[HostArray, HostArray]:
    """Return what RECAL took, `(sizes, walks)`, and p of quantity ~ n^p for every walk's seed."""
    from taciturn_papers.reproductions.wang2024.costs import (  # noqa: PLC0415 - start-up
        RECAL,
        relay_costs,
    )
    from taciturn_papers.reproductions.wang2024.settings import FULL  # noqa: PLC0415 - start-up

    scale = replace(FULL, walks=WALKS)
    found = np.array([relay_costs(RECAL, ring(n), scale)[:, _PLACE[quantity]] for n in SIZES])
    fits = np.array([np.polyfit(np.log(SIZES), np.log(each), 1)[0] for each in found.T])
    return found, fits


def decide(quantity: Quantity) -> Finding:
    """Return the finding: the power of n, with a t test against the claimed one."""
    found, fits = powers(quantity)
    claimed = _CLAIMED[quantity]
    p_value = float(stats.ttest_1samp(fits, claimed, alternative="greater").pvalue)
    means = found.mean(axis=1)
    rows = tuple(
        (float(n), float(mean), float(mean / means[0]), float((n / SIZES[0]) ** claimed))
        for n, mean in zip(SIZES, means, strict=True)
    )
    name = {"plf": "PLF", "messages": "messages"}[quantity]
    return Finding(
        verdict="does not hold" if p_value < 1e-3 else "not reproduced",
        summary=(
            f"On a ring the {name} until the relative error of least squares (17) stays below 1 % "
            f"grow as n^{fits.mean():.2g} (standard deviation {fits.std(ddof=1):.1g} over {WALKS} "
            f"walks; p = {p_value:.1g} against n^{claimed}): {_listed(means)} for {_listed(SIZES)} "
            "agents, with the paper's steps 1.8 / (L + 1)."
        ),
        columns=("agents", f"{name}, mean", "relative to 4 agents", "claimed"),
        rows=rows,
    )


def _listed(values: HostArray | tuple[int, ...]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


def _claim(quantity: Quantity, verdict: Verdict, statement: str, more: str) -> Claim:
    return Claim(
        id=f"wang2024/{quantity}-growth",
        paper="Wang et al. 2024, DP-RECAL, Section VI and Tables I to III",
        verdict=verdict,
        statement=statement,
        reasoning=(
            "k ~ n ln(1/tol) is derived from phi = O(n), of which the constants of Theorem 3 give "
            "more (`wang2024/thm3`), and from a hop that activates every agent with probability "
            f"g_i. A random walk on a ring needs about n^2 hops to see all agents. {more}"
        ),
        decide=lambda: decide(quantity),
    )


PLF_CLAIM = _claim(
    "plf",
    "does not hold",
    "The PLF of RECAL is O(ln(1/tol)), constant in n, on a ring.",
    "Theorem 1 adds up the budgets of PLF activations, so at constant noise the overall budget "
    "grows with the PLF: the column relative to 4 agents is that of the budget. Were the PLF "
    "constant, it would be 1 in every row.",
)
MESSAGES_CLAIM = _claim(
    "messages",
    "does not hold",
    "RECAL sends O(n ln(1/tol)) messages on a ring.",
    "A walk that goes to who has waited longest (`taciturn_papers.methods.balanced_walk`) needs "
    "far fewer: `taciturn reproduce wang2024`, Tables I to III.",
)
