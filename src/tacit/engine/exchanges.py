"""The exchange that belongs to a program's wiring."""

from __future__ import annotations

from tacit.engine.exchange import Exchange
from tacit.engine.gossip import Gossiping
from tacit.engine.program import Program
from tacit.engine.relay import OnRelay
from tacit.engine.star import OnStar
from tacit.engine.wiring import Gossip, Relay


def exchange_of(program: Program) -> Exchange:
    """Return how the agents of a program hear of one another."""
    if isinstance(program.wiring, Gossip):
        return Gossiping()
    return OnRelay() if isinstance(program.wiring, Relay) else OnStar()
