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
    GradientOf,
    Hop,
    Links,
    NoisedStep,
    Variant,
    agent_step,
    claimed_epsilon,
    coupling,
    dp_recal,
    hops,
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
    GossipRound,
    gossip_rounds,
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
from taciturn_papers.as_published.relay_rates import (
    RelayRate,
    activation_probabilities,
    central_step,
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
    "ConsensusFacts",
    "Constants",
    "Form",
    "GossipLinks",
    "GossipMethod",
    "GossipRound",
    "GradientOf",
    "Hop",
    "Links",
    "LocalUpdates",
    "Method",
    "NoisedStep",
    "PublishedADMM",
    "PublishedSettings",
    "RateFacts",
    "Recovered",
    "RelayRate",
    "Round",
    "Variant",
    "activation_probabilities",
    "agent_step",
    "box",
    "central_step",
    "claimed_epsilon",
    "consensus_bound",
    "coupling",
    "dp_recal",
    "gossip_rounds",
    "graph_smoother",
    "hops",
    "message_change",
    "noisy_gossip",
    "nonsmooth_bound",
    "penalised_box",
    "recover",
    "rounds",
    "running_average",
    "smooth_bound",
    "smooth_consensus_bound",
    "smoother",
    "strongly_convex_bound",
    "unprox_elastic",
    "unprox_none",
]
