"""Methods that papers compare with and that `tacit` does not offer by name.

They are planned, certified and run as those of `tacit.algorithms`; but `decor`, whose noise is not
independent between agents, has a certificate and a loop of its own.
"""

from tacit_papers.methods.decor import CorrelatedNoise, calibrated, decor
from tacit_papers.methods.diging import DIGing
from tacit_papers.methods.fixed_point_admm import FixedPointADMM
from tacit_papers.methods.gossip_admm import GossipADMM, RecycledADMM
from tacit_papers.methods.on_the_command_line import fixed_point_admm, gossip_admm, mr_admm
from tacit_papers.methods.rwadmm import RWADMM

__all__ = [
    "RWADMM",
    "CorrelatedNoise",
    "DIGing",
    "FixedPointADMM",
    "GossipADMM",
    "RecycledADMM",
    "calibrated",
    "decor",
    "fixed_point_admm",
    "gossip_admm",
    "mr_admm",
]
