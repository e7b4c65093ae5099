"""Wang et al. 2024, Lemma 5: the sensitivity of DP-RECAL is 4 alpha beta c."""

from __future__ import annotations

import numpy as np

from taciturn.typing import HostArray
from taciturn_papers.as_published import AgentState, agent_step
from taciturn_papers.as_published.dp_recal import coupling
from taciturn_papers.claims.claim import Claim, Finding

AGENTS, ALPHA, BOUND = 8, 0.9, 1.0
SHOWN = (1, 2, 3, 5, 10, 20, 40)


def changes(activations: int) -> HostArray:
    """Return the change of |u - u'| at every activation, for linear losses of gradients +c and -c.

    The agent receives x = 0 and u = 0 every time. It holds one record, with gradient c on one data
    set and -c on the other at every point, so Assumption 3 holds with c and L = 0.
    """
    zero = np.zeros(1)
    one = other = AgentState(zero, zero)
    moved = []
    for _ in range(activations):
        before = one.dual - other.dual
        one = _activated(one, BOUND)
        other = _activated(other, -BOUND)
        moved.append(abs(float((one.dual - other.dual - before)[0])))
    return np.array(moved)


def _activated(state: AgentState, gradient: float) -> AgentState:
    zero = np.zeros(1)
    return agent_step(state, zero, zero, np.array([gradient]), ALPHA, AGENTS, lambda v: v)[1]


def decide() -> Finding:
    """Return the finding: the realised change of u against the claimed bound."""
    claimed = 4 * ALPHA * coupling(AGENTS) * BOUND
    moved = changes(max(SHOWN))
    broken = moved > claimed * (1 + 1e-9)
    first = int(np.argmax(broken)) + 1
    return Finding(
        verdict="does not hold" if broken.any() else "holds with conditions",
        summary=(
            f"At the first activation u moves by {moved[0] / claimed:.3g} of 4 alpha beta c, so "
            "the lemma's own algebra gives 2 alpha beta c. It assumes that y_i and lambda_i are "
            "equal on both data sets, which ends with the first activation: from activation "
            f"{first} on the change exceeds the bound, and reaches {moved.max() / claimed:.3g} "
            "times it, for data sets that differ in one record and the same received messages."
        ),
        columns=("activation", "change of u", "4 alpha beta c", "ratio"),
        rows=tuple(
            (float(k), float(moved[k - 1]), claimed, float(moved[k - 1] / claimed)) for k in SHOWN
        ),
    )


CLAIM = Claim(
    id="wang2024/lemma5",
    paper="Wang et al. 2024, DP-RECAL, Lemma 5",
    verdict="does not hold",
    statement=(
        "If the gradients are bounded by c, one record moves u^{k+1} by at most 4 alpha beta c."
    ),
    reasoning=(
        "lambda_i^{k+1} - lambda_i^k contains -beta (y_i^{k+1} - y_i^k) and beta (x^k - y_i^k). If "
        "y_i^k and lambda_i^k do not depend on the record, only y_i^{k+1} does, by alpha times the "
        "change of the gradient: 2 alpha beta c. From the second activation on, y_i^k and "
        "lambda_i^k are functions of the record too."
    ),
    decide=decide,
)
