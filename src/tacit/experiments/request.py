"""What a user asks of a training; everything in it is public."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.plan import Terms
from tacit.privacy import Adjacency, observer_named, relation_named

DEFAULT_ROUNDS = 200
DEFAULT_REGULARISER = "l2:1e-6"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks for; everything in it is public.

    Attributes
    ----------
    agents
        Among how many the records are dealt; not used where the records have owners.
    rounds
        None for `DEFAULT_ROUNDS`.
    seed
        Of the noise; None for the operating system's entropy.
    split_seed
        Of the split into training and test data and of the sharing out among agents.
    loss
        None for the one that suits the targets, see `tacit.experiments.options.loss_named`.
    regulariser, constraint
        See `tacit.experiments.options`; both act on the encoded columns.
    clip
        Public bound on the coefficient of a record; None for its largest norm at the start.
    """

    agents: int
    epsilon: float
    delta: float
    observer: str
    relation: str
    algorithm: str
    rounds: int | None = None
    seed: int | None = None
    split_seed: int = 0
    loss: str | None = None
    regulariser: str = DEFAULT_REGULARISER
    constraint: str = "none"
    clip: float | None = None


def terms_for(request: Request) -> Terms:
    """Return the privacy terms of a request; the unit is one record."""
    adjacency = Adjacency(relation_named(request.relation), "record")
    return Terms(request.epsilon, request.delta, adjacency, observer_named(request.observer))
