"""Wang et al. 2024, Section VII: PLF 300 with 2,400 hops on a ring of 8."""

from __future__ import annotations

import numpy as np

from taciturn.network import cyclic_walk, ring, uniform_walk
from taciturn_papers.claims.claim import Claim, Finding

AGENTS, HOPS, CLAIMED, WALKS = 8, 2400, 300, 200


def decide() -> Finding:
    """Return the finding: the PLF of random walks that follow Assumption 2."""
    graph = ring(AGENTS)
    found = np.array(
        [uniform_walk(graph, HOPS, seed=seed).privacy_leakage_frequency for seed in range(WALKS)]
    )
    cyclic = cyclic_walk(graph, HOPS).privacy_leakage_frequency
    reached = int(np.sum(found <= CLAIMED))
    return Finding(
        verdict="not reproduced" if reached else "does not hold",
        summary=(
            f"{reached} of {WALKS} random walks of {HOPS:,} hops have a PLF of {CLAIMED}; they "
            f"have {found.min()} to {found.max()}, {found.mean():.0f} on average. {CLAIMED} = "
            f"{HOPS:,}/{AGENTS} needs equally many visits to all agents, as on a fixed cycle "
            f"(PLF {cyclic}), which Assumption 2 excludes."
        ),
        columns=("claimed", "least", "mean", "largest", "fixed cycle"),
        rows=((float(CLAIMED), float(found.min()), float(found.mean()), float(found.max()),
               float(cyclic)),),
    )  # fmt: skip


CLAIM = Claim(
    id="wang2024/plf",
    paper="Wang et al. 2024, DP-RECAL, Table IV",
    verdict="does not hold",
    statement="DP-RECAL on a ring of 8 agents takes 2,400 messages at a PLF of 300.",
    reasoning=(
        "PLF is the number of activations of the busiest agent, so it is at least the mean, "
        "2,400/8 = 300, and equals it only if all agents are activated 300 times. A walk to a "
        "neighbour drawn uniformly (Assumption 2) spreads visits unevenly."
    ),
    decide=decide,
)
