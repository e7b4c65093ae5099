"""A request for a run, and the proposal that follows from it and from public facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tacit import checks
from tacit.algorithms import (
    METHODS,
    Method,
    Setting,
    Value,
    checked_options,
    method_named,
    rounds_by_default,
    settled,
)
from tacit.engine.planning import check_size
from tacit.errors import InputError
from tacit.network import (
    SUFFIXES,
    Graph,
    cyclic_walk,
    network_named,
    read_network,
    uniform_walk,
)
from tacit.privacy import Observer, Sum, observer_named, relation_named
from tacit.problems import Loss, default_clip, facts_from
from tacit.proposal.parts import (
    NONE,
    Budget,
    Connection,
    DataFacts,
    MethodChoice,
    Named,
    Structure,
    problem_of,
)
from tacit.proposal.proposal import Proposal, check_seed
from tacit.typing import Precision

DEFAULT_REGULARISER = Named(name="l2", numbers=(1e-6,))
DEFAULT_NETWORK, DEFAULT_WALK = "ring", "cyclic"
WALKS = ("cyclic", "random")


@dataclass(frozen=True, kw_only=True)
class NetworkRequest:
    """The network of a method without aggregator; None for the default.

    Attributes
    ----------
    network
        A name (`tacit.network.network_named`) or a file of edges.
    walk
        On a relay: "cyclic", a short closed route, or "random", to a neighbour drawn uniformly.
    cap
        On a relay: the most answers of an agent, who from then on only passes the token on.
    """

    network: str | None = None
    walk: str | None = None
    cap: int | None = None

    def check(self, name: str, method: Method) -> None:
        """Raise `InputError` unless the method called `name` has a use for these options."""
        if method.network is None:
            self._refuse(name, ("network", "walk", "cap"), "has an aggregator", "relay", "gossip")
        if method.network == "gossip":
            self._refuse(name, ("walk", "cap"), "asks all agents in every round", "relay")
        if self.walk is not None and self.walk not in WALKS:
            raise InputError(f"walk is {self.walk!r}; choose from {', '.join(WALKS)}")
        if self.cap is not None:
            checks.at_least("cap", self.cap, 1)

    def _refuse(self, name: str, options: tuple[str, ...], why: str, *kinds: str) -> None:
        given = [option for option in options if getattr(self, option) is not None]
        if given:
            suited = ", ".join(other for other, one in METHODS.items() if one.network in kinds)
            raise InputError(
                f"{name} {why}, so leave the {given[0]} out; those who take one are {suited}"
            )


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for a run. None stands for the default that follows from public facts.

    Attributes
    ----------
    algorithm
        A name of `methods`.
    loss
        None for the first that suits the targets.
    clip
        Public bound on the coefficient of a record; None for `coefficient_clip`.
    rounds
        None for the method's default.
    options
        Values of the method's own options; defaults stand for the rest.
    network
        For methods without aggregator.
    methods
        The table of methods by name.

    Raises
    ------
    InputError
        If an option is invalid, as far as that can be checked without facts about the records.
    """

    epsilon: float
    delta: float
    observer: str | Observer = "messages"
    relation: str = "replace_one"
    algorithm: str = "noisy-gradient"
    loss: Named | None = None
    regulariser: Named = DEFAULT_REGULARISER
    constraint: Named = NONE
    clip: float | None = None
    rounds: int | None = None
    options: Mapping[str, Value] = field(default_factory=dict)
    network: NetworkRequest = field(default_factory=NetworkRequest)
    split_seed: int = 0
    precision: Precision = "float32"
    methods: Mapping[str, Method] = field(default_factory=lambda: METHODS)

    def __post_init__(self) -> None:
        method = self.method
        checked_options(self.algorithm, method, self.options)
        if self.rounds is not None:
            checks.at_least("rounds", self.rounds, 1)
        if self.clip is not None:
            checks.positive("clip", self.clip)
        self.network.check(self.algorithm, method)
        check_seed("split-seed", self.split_seed)
        self.budget.terms  # noqa: B018 - checked

    @property
    def method(self) -> Method:
        """The method of that name."""
        return method_named(self.algorithm, self.methods)

    @property
    def budget(self) -> Budget:
        """The terms; the unit is one record."""
        observer = self.observer
        if isinstance(observer, str):
            observer = observer_named(observer)
        return Budget(
            epsilon=checks.positive("epsilon", self.epsilon, allow_infinity=True),
            delta=checks.delta(self.delta),
            relation=relation_named(self.relation).name,
            unit="record",
            observer="sum" if isinstance(observer, Sum) else "messages",
            colluders=observer.colluders if isinstance(observer, Sum) else 0,
        )

    def rounds_among(self, agents: int) -> int:
        """Return the number of rounds: as requested, or the method's default."""
        if self.rounds is not None:
            return self.rounds
        return rounds_by_default(self.method, agents, self.options)


def propose(
    data: DataFacts, counts: Sequence[int], request: Request, structure: Structure | None = None
) -> Proposal:
    """Return the proposal of a request, with every default from public facts alone.

    Parameters
    ----------
    counts
        Records of each agent.

    Raises
    ------
    InputError
        If the request cannot be met; the message names the fix.
    """
    agents, method = len(counts), request.method
    rounds = request.rounds_among(agents)
    check_size(rounds, agents)
    regulariser = request.regulariser if structure is None else NONE
    loss_name, loss = data.loss(request.loss)
    problem = problem_of(loss, regulariser, request.constraint, structure, data.columns)
    clip = coefficient_clip(loss, request)
    facts = facts_from(
        problem, counts, features=data.columns, record_norm=data.record_norm, clip=clip
    )
    setting = Setting(
        problem=problem,
        facts=facts,
        clip=clip,
        terms=request.budget.terms,
        rounds=rounds,
        options={},
    )
    return Proposal(
        data=data,
        counts=tuple(int(count) for count in counts),
        split_seed=request.split_seed,
        loss=loss_name,
        clip=clip,
        regulariser=regulariser,
        constraint=request.constraint,
        structure=structure,
        method=MethodChoice(
            name=request.algorithm, options=settled(method, setting, request.options)
        ),
        budget=request.budget,
        rounds=rounds,
        precision=request.precision,
        network=connection_for(request.network, method, agents, rounds, seed=request.split_seed),
    )


def coefficient_clip(loss: Loss, request: Request) -> float:
    """Return the public bound on the coefficient of a record.

    The default is the largest norm of the coefficient at the starting point w = 0: 1/2 for the
    logistic loss, 1 for the squared loss, whose targets lie in [-1, 1]. The first gradient is then
    exact. A squared loss whose coefficient z - y is clipped at c has the gradient of the Huber loss
    with threshold c. By default nothing is clipped without privacy, or where a method answers with
    minimisers of a loss of several margins. For one-question the bound is on the targets.
    """
    if request.clip is not None:
        return checks.positive("clip", request.clip)
    if math.isinf(request.epsilon):
        return math.inf
    if request.method.minimises and loss.outputs is not None:
        return math.inf
    return default_clip(loss)


def connection_for(
    request: NetworkRequest, method: Method, agents: int, rounds: int, *, seed: int
) -> Connection | None:
    """Return the connection of this many agents in so many rounds; None with an aggregator.

    Parameters
    ----------
    seed
        The public seed of a random walk.

    Raises
    ------
    InputError
        If there is no such network (`tacit.network.network_named`), or it has other agents.
    """
    if method.network is None:
        return None
    name = request.network or DEFAULT_NETWORK
    graph = _graph(name, agents)
    holders, walk = None, None
    if method.network == "relay":
        walk = request.walk or DEFAULT_WALK
        cyclic = walk == "cyclic"
        route = cyclic_walk(graph, rounds) if cyclic else uniform_walk(graph, rounds, seed=seed)
        holders = tuple(route.holders.tolist())
    edges = tuple((int(one), int(other)) for one, other in graph.edges.tolist())
    return Connection(name=name, edges=edges, walk=walk, holders=holders, cap=request.cap)


def _graph(text: str, agents: int) -> Graph:
    if not text.lower().endswith(SUFFIXES):
        return network_named(text, agents)
    graph = read_network(Path(text))
    if graph.agents != agents:
        raise InputError(
            f"the network in {text} has {graph.agents} agents, the data {agents}; make them equal"
        )
    return graph
