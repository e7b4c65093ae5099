"""Certificates of single ledgers."""

import numpy as np

from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    Ledger,
    Leg,
    Messages,
    ReplaceOne,
    Terms,
    compose,
)

RECORD = Adjacency(ReplaceOne(), "record")


def book(ratios, rounds=4, mechanism=None, scale=1.0, **more):
    """The ledger of agents whose answers move by these ratios of the scale, round by round."""
    shape = (len(ratios), rounds, 1)
    noise = np.broadcast_to(np.reshape(np.multiply(scale, 1.0), (-1, 1, 1)), shape)
    moves = np.array(ratios)[:, None, None] * noise
    return Ledger(np.zeros(shape, int), moves, noise, mechanism or Gaussian(), **more)


def person(rows=5, agents=1, relation=None):
    return Adjacency(relation or ReplaceOne(), "person", rows, agents)


def leg_of(ledger, adjacency=RECORD, observer=None, *, part="training", agents=None, **more):
    """A leg of agents with as many records as each other."""
    records = more.pop("records", (10,) * len(ledger.kind))
    return Leg(part, agents, records, ledger, (), observer or Messages(), adjacency, **more)


def certify(ledger, *, delta=1e-6, adjacency=RECORD, observer=None, **more):
    """The certificate of a ledger by itself."""
    observer = observer or Messages()
    leg = leg_of(ledger, adjacency, observer, **more)
    return compose((leg,), Terms(1.0, delta, adjacency, observer)).certificate()
