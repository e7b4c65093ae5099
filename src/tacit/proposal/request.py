"""What a user asks of a training; everything in it is public."""

from __future__ import annotations

from dataclasses import dataclass

from tacit import algorithms, checks
from tacit.algorithms import METHODS, method_named
from tacit.engine.plan import Terms
from tacit.errors import InputError
from tacit.privacy import Adjacency, observer_named, relation_named
from tacit.privacy.events import LEAST_RATE
from tacit.problems.graphs import DEFAULT_GRAPH_WEIGHT

DEFAULT_REGULARISER = "l2:1e-6"
DEFAULT_RATE = 0.1
GRAPH_SOURCES = ("test", "private")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks for; everything in it is public.

    Attributes
    ----------
    agents
        Among how many the records are dealt; not used where the records have owners.
    algorithm
        One of `tacit.algorithms.ALGORITHMS`.
    rounds
        None for the algorithm's own.
    seed
        Of the noise; None for the operating system's entropy.
    split_seed
        Of the split into training and test data and of the sharing out among agents.
    loss
        None for the one that suits the targets, see `tacit.proposal.options.loss_named`.
    regulariser, constraint
        See `tacit.proposal.options`; both act on the encoded columns.
    clip
        Public bound on the coefficient of a record; None for its largest norm at the start.
    sampling_rate
        Of batches, for algorithms that sample; None for `DEFAULT_RATE`.
    batches
        "poisson", or "fixed" for batches of one size without replacement.
    rho
        The ADMM parameter, for algorithms that have one; None for a public choice.
    network, walk, cap
        For algorithms without aggregator, see `tacit.proposal.connection.network_for`.
    local_updates
        Questions of an agent in one round, for algorithms that have local updates.
    structure, graph
        See `tacit.proposal.structures`; a file of the structure, which is public.
    graph_from, graph_weight
        Records that a graph is learned from, "test" or "private", and the weight by which; see
        `tacit.proposal.structures`.
    smoothing
        Strength of Laplacian smoothing, for algorithms for structures.
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
    sampling_rate: float | None = None
    batches: str = "poisson"
    rho: float | None = None
    local_updates: int = 1
    structure: str | None = None
    graph: str | None = None
    graph_from: str | None = None
    graph_weight: float = DEFAULT_GRAPH_WEIGHT
    smoothing: float = 0.0
    network: str | None = None
    walk: str | None = None
    cap: int | None = None


def terms_for(request: Request) -> Terms:
    """Return the privacy terms of a request; the unit is one record."""
    adjacency = Adjacency(relation_named(request.relation), "record")
    return Terms(request.epsilon, request.delta, adjacency, observer_named(request.observer))


def rounds_of(request: Request) -> int:
    """Return the number of rounds that a request asks for, or the method's own.

    The latter is a whole number of epochs for a method that has them.
    """
    method = method_named(request.algorithm)
    if request.rounds is not None:
        return request.rounds
    epoch = method.epoch(sampling_rate(request) or 1.0)
    hops = request.agents if method.network == "relay" else 1
    return epoch * max(1, round(method.rounds / epoch)) * hops


def sampling_rate(request: Request) -> float | None:
    """Return the sampling rate of the method's batches; None if it takes none.

    Raises
    ------
    InputError
        If a rate is given to a method that does not sample, or is not in [1e-9, 1].
    """
    if method_named(request.algorithm).sampled:
        given = DEFAULT_RATE if request.sampling_rate is None else request.sampling_rate
        rate = checks.fraction("sampling-rate", given)
        if rate < LEAST_RATE:
            raise InputError(f"sampling-rate is {rate:g}; it must be at least {LEAST_RATE:g}")
        return rate
    if request.sampling_rate is not None:
        raise InputError(
            f"{request.algorithm} does not sample; leave the sampling rate out or use "
            f"{', '.join(name for name, method in METHODS.items() if method.sampled)}"
        )
    return None


def fixed_batches(request: Request) -> bool:
    """Return `tacit.algorithms.fixed_batches` for a request; `InputError` if it cannot be met."""
    return algorithms.fixed_batches(request.batches, request.algorithm, request.relation)


def local_updates(request: Request) -> int:
    """Return the number of updates an agent makes in one round.

    Raises
    ------
    InputError
        If it is not a whole number above 0, or is given to a method without local updates.
    """
    count = checks.at_least("local-updates", request.local_updates, 1)
    if count > 1 and not method_named(request.algorithm).local:
        raise InputError(
            f"{request.algorithm} makes one update a round; leave the local updates out or use "
            f"{', '.join(name for name, method in METHODS.items() if method.local)}"
        )
    return count


def check_structure(request: Request) -> None:
    """Raise `InputError` unless algorithm, structure and smoothing belong together."""
    method = method_named(request.algorithm)
    solvers = ", ".join(name for name, other in METHODS.items() if other.structured)
    if method.structured and request.structure is None:
        raise InputError(
            f"{request.algorithm} solves problems with a structure; name one with --structure"
        )
    if request.structure is not None and not (method.structured or method.proximal):
        others = ", ".join(name for name, other in METHODS.items() if other.proximal)
        raise InputError(f"{request.algorithm} knows no structure; use {others}, {solvers}")
    if checks.not_negative("smoothing", request.smoothing) and not method.structured:
        raise InputError(f"{request.algorithm} does not smooth; leave it out or use {solvers}")
    if request.graph is not None and request.structure in {None, "lasso"}:
        raise InputError("a graph is for the structures fused-lasso and generalized-lasso")
    _check_graph_source(request)
    if request.structure is not None and request.constraint != "none":
        raise InputError("a structure comes without a constraint; leave the constraint out")


def _check_graph_source(request: Request) -> None:
    if request.graph_from is None:
        return
    if request.graph_from not in GRAPH_SOURCES:
        raise InputError(
            f"graph-from is {request.graph_from!r}; choose from {', '.join(GRAPH_SOURCES)}"
        )
    if request.structure != "fused-lasso" or request.graph is not None:
        raise InputError(
            "a graph is learned for the structure fused-lasso where no file gives one; leave "
            "graph-from or the file out"
        )
    checks.positive("graph-weight", request.graph_weight)
