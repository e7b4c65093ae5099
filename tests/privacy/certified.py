"""Certificates of single ledgers."""

from taciturn.kernel.privacy import Leg, Messages, Terms, compose


def leg_of(ledger, adjacency, observer=None, *, part="training", agents=None, **more):
    """A leg of agents with as many records as each other."""
    records = more.pop("records", (10,) * len(ledger.kind))
    return Leg(part, agents, records, ledger, (), observer or Messages(), adjacency, **more)


def certify(ledger, *, delta, adjacency, observer, **more):
    """The certificate of a ledger by itself."""
    leg = leg_of(ledger, adjacency, observer, **more)
    return compose((leg,), Terms(1.0, delta, adjacency, observer)).certificate()
