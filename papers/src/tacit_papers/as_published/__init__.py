"""Methods exactly as their papers print them, with what their links give away.

They release functions of un-noised state, so nothing here is private: no plan, no certificate and
no command that trains reaches them. They serve to check published claims.
"""

from tacit_papers.as_published.dp_recal import (
    AgentState,
    Links,
    Setting,
    Variant,
    agent_step,
    claimed_epsilon,
    coupling,
    dp_recal,
)
from tacit_papers.as_published.exact_recovery import Recovered, recover, unprox_elastic, unprox_none
from tacit_papers.as_published.noisy_gossip import (
    GossipLinks,
    GossipMethod,
    message_change,
    noisy_gossip,
)

__all__ = [
    "AgentState",
    "GossipLinks",
    "GossipMethod",
    "Links",
    "Recovered",
    "Setting",
    "Variant",
    "agent_step",
    "claimed_epsilon",
    "coupling",
    "dp_recal",
    "message_change",
    "noisy_gossip",
    "recover",
    "unprox_elastic",
    "unprox_none",
]
