"""What is audited: a method by name, or a function from a problem to an algorithm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tacit.algorithms import (
    Algorithm,
    Composition,
    GossipAlgorithm,
    Method,
    RelayAlgorithm,
    Value,
    method_named,
)
from tacit.engine import Plan, plan
from tacit.errors import InputError
from tacit.network import Network, metropolis, path, ring, uniform_walk
from tacit.oracles import Gradient
from tacit.privacy import Adjacency, Messages, Observer, ReplaceOne, Terms
from tacit.problems import NoRegulariser, Problem, Squared, WholeSpace, facts_from
from tacit.proposal import NONE, DataFacts, NetworkRequest, Proposal, Request, Structure, propose
from tacit.typing import Precision

Maker = Callable[[Problem], Algorithm | Composition]
AGENTS, RECORDS, FEATURES, ROUNDS = 3, 4, 5, 10
PROBLEM = Problem(Squared(), NoRegulariser(), WholeSpace())
_DATA = DataFacts(
    name="canary", task="regression", classes=None, columns=FEATURES, record_norm=1.0, table=None
)
_LASSO = Structure(name="lasso", weight=1e-3, ridge=0.0, edges=(), rows=(), source="given")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """On what terms a subject is planned, for `AGENTS` agents with least squares to solve.

    Attributes
    ----------
    clip
        Bound on the coefficient of a record; infinite for a run without noise.
    rounds
        None for `ROUNDS`, or 1 for a method that asks once; on a relay, sweeps.
    network
        None for the usual one: gossip on a path, a random walk on a ring.
    options
        Of a method by name.
    """

    epsilon: float
    delta: float = 1e-5
    observer: Observer = Messages()  # noqa: RUF009 - frozen
    clip: float = 1.0
    rounds: int | None = None
    records: int = RECORDS
    precision: Precision = "float64"
    network: Network | None = None
    options: Mapping[str, Value] = field(default_factory=dict)


def name_of(subject: str | Maker) -> str:
    """Return the name of a subject."""
    return subject if isinstance(subject, str) else getattr(subject, "__name__", repr(subject))


def method_of(subject: str | Maker) -> Method | None:
    """Return the method that is named; None for an algorithm of one's own."""
    return method_named(subject) if isinstance(subject, str) else None


def composition_of(subject: str | Maker, clip: float = 1.0) -> Composition:
    """Return the algorithm with its oracles: the library's gradient where none is named."""
    if isinstance(subject, str):
        return proposal_of(subject, Setup(epsilon=1.0, clip=clip)).composition()
    result = subject(PROBLEM)
    if isinstance(result, Composition):
        return result
    if not isinstance(result, Algorithm):
        raise InputError(
            f"{name_of(subject)} makes a {type(result).__name__} of a problem; it must make an "
            "Algorithm, or a Composition of an algorithm and its oracles"
        )
    return Composition(result, (Gradient(PROBLEM.loss, clip),))


def is_composition(subject: str | Maker) -> bool:
    """Return whether the subject brings oracles of its own, whose clip must be 1."""
    return not isinstance(subject, str) and isinstance(subject(PROBLEM), Composition)


def planned(subject: str | Maker, setup: Setup) -> Plan:
    """Return the plan of a subject."""
    if isinstance(subject, str) and setup.network is None:
        return proposal_of(subject, setup).plan()
    algorithm, oracles = composition_of(subject, setup.clip)
    clip = 1.0 if is_composition(subject) else setup.clip
    rounds, network = setup.rounds or ROUNDS, setup.network
    if network is None and isinstance(algorithm, RelayAlgorithm):
        network = uniform_walk(ring(AGENTS), rounds * AGENTS, seed=0)
    elif network is None and isinstance(algorithm, GossipAlgorithm):
        network = metropolis(path(AGENTS))
    if network is not None:
        rounds = network.fixed_rounds or rounds
    facts = facts_from(
        PROBLEM, [setup.records] * AGENTS, features=FEATURES, record_norm=1.0, clip=clip
    )
    terms = Terms(setup.epsilon, setup.delta, Adjacency(ReplaceOne(), "record"), setup.observer)
    return plan(
        facts, algorithm, oracles, terms, rounds=rounds, precision=setup.precision, network=network
    )


def proposal_of(name: str, setup: Setup) -> Proposal:
    """Return the proposal of a named method; one for structures solves a lasso."""
    method = method_named(name)
    relay = method.network == "relay"
    rounds = setup.rounds or min(ROUNDS, method.rounds)
    wanted = NetworkRequest()
    if method.network is not None:
        wanted = NetworkRequest(
            network="ring" if relay else "path", walk="random" if relay else None
        )
    request = Request(
        epsilon=setup.epsilon,
        delta=setup.delta,
        observer=setup.observer,
        algorithm=name,
        regulariser=NONE,
        clip=None if math.isinf(setup.clip) else setup.clip,
        rounds=_whole_epochs(method, rounds, setup.options) * (AGENTS if relay else 1),
        options=setup.options,
        network=wanted,
        precision=setup.precision,
    )
    structure = _LASSO if method.structure == "required" else None
    return propose(_DATA, [setup.records] * AGENTS, request, structure)


def _whole_epochs(method: Method, rounds: int, options: Mapping[str, Value]) -> int:
    epoch = method.epoch(float(options.get("sampling_rate", 0.1)))
    return epoch * max(1, round(rounds / epoch))
