"""What a person asks of a run, and the proposal that follows from it and from public facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
from tacit.engine.plan import check_size
from tacit.privacy import Observer, Sum, observer_named, relation_named
from tacit.problems import Loss, default_clip, facts_from
from tacit.proposal.connection import Wanted, connected
from tacit.proposal.parts import (
    NONE,
    Budget,
    Chosen,
    DataFacts,
    Named,
    Structure,
    problem_of,
)
from tacit.proposal.proposal import Proposal, check_seed
from tacit.typing import Precision

DEFAULT_REGULARISER = Named(name="l2", numbers=(1e-6,))


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a person asks for. None stands for the default that follows from public facts.

    Attributes
    ----------
    algorithm
        A name of `methods`.
    loss
        None for the first that suits the targets.
    clip
        Public bound on the coefficient of a record; None for `coefficient_clip`.
    rounds
        None for the method's own.
    options
        The method's own options, those that are given.
    network
        What is asked of the network, for methods without aggregator.
    methods
        The table of methods, by name.

    Raises
    ------
    InputError
        If anything that needs no facts about the records is out of order.
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
    network: Wanted = field(default_factory=Wanted)
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
        """The method that is asked for."""
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
        """Return the number of rounds: as asked, or the method's own."""
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
        problem=problem, facts=facts, clip=clip, terms=request.budget.terms, rounds=rounds,
        options={},
    )  # fmt: skip
    return Proposal(
        data=data,
        counts=tuple(int(count) for count in counts),
        split_seed=request.split_seed,
        loss=loss_name,
        clip=clip,
        regulariser=regulariser,
        constraint=request.constraint,
        structure=structure,
        method=Chosen(name=request.algorithm, options=settled(method, setting, request.options)),
        budget=request.budget,
        rounds=rounds,
        precision=request.precision,
        network=connected(request.network, method, agents, rounds, seed=request.split_seed),
    )


def coefficient_clip(loss: Loss, request: Request) -> float:
    """Return the public bound on the coefficient of a record.

    By default it is the largest norm that the coefficient can have at the starting point w = 0:
    1/2 for the logistic loss, and 1 for the squared loss, since targets lie in [-1, 1] (half the
    range of the target). The first gradient is then exact, and the noise is as small as that
    allows. A squared loss whose coefficient z - y is clipped at c has the gradient of the Huber
    loss with threshold c. Without privacy nothing is clipped, unless the request says so; nor are
    the coefficients of several margins where minimisers are asked for.

    The question of one-question has no coefficient; there the bound is one on targets.
    """
    if request.clip is not None:
        return checks.positive("clip", request.clip)
    if math.isinf(request.epsilon):
        return math.inf
    if request.method.minimises and loss.outputs is not None:
        return math.inf
    return default_clip(loss)
