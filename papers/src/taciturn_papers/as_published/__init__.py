"""Methods, schedules and bounds exactly as their papers print them.

The methods release functions of state without noise, so nothing here is private, and no plan,
certificate or training command uses them. Methods, schedules and bounds serve to check published
claims.
"""

from taciturn_papers.as_published.dp_recal import (
    AgentState,
    Links,
    NoisedStep,
    Variant,
    agent_step,
    claimed_epsilon,
    coupling,
    dp_recal,
)
from taciturn_papers.as_published.exact_recovery import (
    Recovered,
    recover,
    unprox_elastic,
    unprox_none,
)
from taciturn_papers.as_published.local_schedules import Form, PublishedSettings
from taciturn_papers.as_published.local_updates import (
    LocalUpdates,
    Round,
    box,
    penalised_box,
    rounds,
)
from taciturn_papers.as_published.noisy_gossip import (
    GossipLinks,
    GossipMethod,
    message_change,
    noisy_gossip,
)
from taciturn_papers.as_published.rate_bounds import (
    RateFacts,
    nonsmooth_bound,
    running_average,
    smooth_bound,
    strongly_convex_bound,
)
from taciturn_papers.as_published.smoothed_admm import (
    Constants,
    Method,
    PublishedADMM,
    graph_smoother,
    smoother,
)

__all__ = [
    "AgentState",
    "Constants",
    "Form",
    "GossipLinks",
    "GossipMethod",
    "Links",
    "LocalUpdates",
    "Method",
    "NoisedStep",
    "PublishedADMM",
    "PublishedSettings",
    "RateFacts",
    "Recovered",
    "Round",
    "Variant",
    "agent_step",
    "box",
    "claimed_epsilon",
    "coupling",
    "dp_recal",
    "graph_smoother",
    "message_change",
    "noisy_gossip",
    "nonsmooth_bound",
    "penalised_box",
    "recover",
    "rounds",
    "running_average",
    "smooth_bound",
    "smoother",
    "strongly_convex_bound",
    "unprox_elastic",
    "unprox_none",
]
