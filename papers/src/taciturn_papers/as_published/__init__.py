"""Methods, schedules and bounds exactly as their papers print them.

The methods release functions of state without noise, so nothing here is private, and no plan,
certificate or training command uses them. Methods, schedules and bounds serve to check published
claims.
"""

from taciturn_papers.as_published.consensus_bounds import (
    ConsensusFacts,
    consensus_bound,
    smooth_consensus_bound,
)
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

__all__ = [
    "AgentState",
    "ConsensusFacts",
    "Form",
    "GossipLinks",
    "GossipMethod",
    "Links",
    "NoisedStep",
    "PublishedSettings",
    "RateFacts",
    "Recovered",
    "Variant",
    "agent_step",
    "claimed_epsilon",
    "consensus_bound",
    "coupling",
    "dp_recal",
    "message_change",
    "noisy_gossip",
    "nonsmooth_bound",
    "recover",
    "running_average",
    "smooth_bound",
    "smooth_consensus_bound",
    "strongly_convex_bound",
    "unprox_elastic",
    "unprox_none",
]
