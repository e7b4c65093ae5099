"""The exchange that belongs to a program's wiring."""

from __future__ import annotations

from tacit.program import Program
from tacit.runtime.exchange import Exchange
from tacit.runtime.gossip import Gossiping
from tacit.runtime.relay import OnRelay
from tacit.runtime.star import OnStar
from tacit.wiring import Gossip, Relay


def exchange_of(program: Program) -> Exchange:
    """Return how the agents of a program hear of one another."""
    if isinstance(program.wiring, Gossip):
        return Gossiping()
    return OnRelay() if isinstance(program.wiring, Relay) else OnStar()
