"""Methods used for comparison in papers that `taciturn` does not offer by name.

They are planned, certified and run as those of `taciturn.algorithms`, except `decor`: its noise is
not independent between agents, so it has its own accounting and loop.
"""

from taciturn_papers.methods.balanced_walk import balanced_walk
from taciturn_papers.methods.decor import CorrelatedNoise, calibrated, decor
from taciturn_papers.methods.diging import DIGing
from taciturn_papers.methods.fixed_point import FixedPointADMM
from taciturn_papers.methods.on_the_command_line import fixed_point_admm, gossip_admm, mr_admm
from taciturn_papers.methods.pairwise import GossipADMM, RecycledADMM
from taciturn_papers.methods.rwadmm import RWADMM

__all__ = [
    "RWADMM",
    "CorrelatedNoise",
    "DIGing",
    "FixedPointADMM",
    "GossipADMM",
    "RecycledADMM",
    "balanced_walk",
    "calibrated",
    "decor",
    "fixed_point_admm",
    "gossip_admm",
    "mr_admm",
]
