"""What agents on a network learn of one another."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np

from tacit.audit import pairwise_mu
from tacit.report.markup import section, table_of
from tacit.training import Training


def between_agents(training: Training) -> dict[str, Any] | None:
    """Return the least and the largest mu and epsilon between two agents.

    None without a network, without privacy, or where answers have no mu. It is that of
    `tacit.audit.pairwise_mu`.
    """
    plan, certificate = training.plan, training.certificate
    private = math.isfinite(certificate.epsilon) and not certificate.reproduction
    if plan.network is None or not plan.ledger.has_mu or not private:
        return None
    pairs = pairwise_mu(plan, released=False)
    apart = np.isfinite(pairs.mu)
    mu, epsilon = pairs.mu[apart], pairs.epsilon(plan.terms.delta)[apart]
    return {
        "mu": [float(np.min(mu)), float(np.max(mu))],
        "epsilon": [float(np.min(epsilon)), float(np.max(epsilon))],
        "reason": pairs.reason,
    }


def between_section(training: Training) -> str:
    """Return the same as HTML; nothing where there is nothing to say."""
    found = between_agents(training)
    if found is None:
        return ""
    rows = [(name, "{:.4g} to {:.4g}".format(*found[name])) for name in ("mu", "epsilon")]
    note = (
        "For an agent that hears its neighbours only and does not learn the released model, from "
        "the best to the worst protected pair; who learns the model too is covered by the "
        f"certificate. Why it is not less: {found['reason']}."
    )
    text = f'<p class="small">{escape(note)}</p>'
    return section("What one agent learns of another's record", table_of(rows) + text)
