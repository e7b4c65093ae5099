"""User input: a request for a run, and the proposal with every default from public facts alone."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from jaxtyping import Float, Int

from taciturn import algorithms, checks, network
from taciturn.algorithms import METHODS, Method, Value
from taciturn.engine.planning import Plan, check_size
from taciturn.errors import InputError
from taciturn.features import COLUMNS, HATS
from taciturn.features import usage as usage_of_features
from taciturn.kernel.privacy import Observer, Sum
from taciturn.kernel.records import check_at_one_agent, held_out_counts, held_out_share
from taciturn.names import observer_named, relation_named
from taciturn.problems import CONSTRAINTS, LOSSES, NONE, REGULARISERS, Loss, Named, usage, weighted
from taciturn.training.facts import MONOTONE, DataFacts, Evaluation, labels_of, weights_by_label
from taciturn.training.parts import (
    Budget,
    Connection,
    MethodChoice,
    Structure,
    StructureName,
    check_seed,
)
from taciturn.training.proposal import Proposal
from taciturn.typing import HostArray, Precision

DEFAULT_WEIGHT = Named(name="l1", numbers=(1e-4,))
DEFAULT_REGULARISER = Named(name="l2", numbers=(1e-6,))
MOST_NOISE_OF_RUN, LEAST_RECORDS = 0.03, 5
DEFAULT_NETWORK, DEFAULT_WALK = "ring", "cyclic"
WALKS = ("cyclic", "random")
PRIVACY, MODEL, METHOD, NETWORK = "Privacy", "Model", "Method", "Network"


def option(
    text: str, kind: Any, *, group: str | None = None, shown: str | None = None, **default: Any
) -> Any:
    """Return a field of a request that is also an option of the command line.

    - `text`: A short help text. `kind`: The type of the value.
    - `group`: The panel of the help page; None for the first, with the most common options.
    - `shown`: The default in words; by default that of the field, if any.
    """
    if shown is None and default.get("default") is not None:
        shown = str(default["default"])
    help_text = text if shown is None else f"{text} [default: {shown}]"
    return field(**default, metadata={"help": help_text, "kind": kind, "group": group})


@dataclass(frozen=True, kw_only=True)
class NetworkRequest:
    """The network in place of an aggregator; None for the default.

    - `network`: A name (`taciturn.network.network_named`) or a file of edges. By default an
      aggregator, and a ring for a method that has none.
    - `walk`: On a relay: "cyclic", a short closed route, or "random", to a neighbour drawn
      uniformly.
    - `cap`: On a relay: the largest number of answers of an agent, which then only passes the token
      on.
    - `exchanges`: In gossip: the number of message exchanges per question.
    """

    network: str | None = option(
        "Network in place of an aggregator: ring, path, star, complete, grid, grid:RxC, "
        "erdos-renyi:P, regular:D, or a file of edges (.txt, .csv, .edges, .graphml). Messages are "
        "summed along a spanning tree, unless --algorithm is a gossip or relay method.",
        str, group=NETWORK, default=None,
        shown=f"an aggregator; {DEFAULT_NETWORK} for gossip and relay methods",
    )  # fmt: skip
    walk: str | None = option(
        "Route of a relay's token: cyclic or random.",
        str,
        group=NETWORK,
        default=None,
        shown=DEFAULT_WALK,
    )
    cap: int | None = option(
        "Largest number of answers of one agent on a relay.", int, group=NETWORK, default=None
    )
    exchanges: int | None = option(
        "Message exchanges per question in gossip, at no cost in privacy.",
        int, group=NETWORK, default=None, shown="1",
    )  # fmt: skip

    def check(self, name: str, method: Method) -> None:
        """Raise `InputError` unless the method called `name` supports these options."""
        refused = {
            None: (
                (("walk", "cap"), "has no token", "relay"),
                (("exchanges",), "has the mean in one round already", "gossip"),
            ),
            "gossip": ((("walk", "cap"), "asks all agents in every round", "relay"),),
            "relay": ((("exchanges",), "only moves its one token", "gossip"),),
        }
        for options, why, kind in refused[method.network]:
            given = [option for option in options if getattr(self, option) is not None]
            if given:
                suited = ", ".join(other for other, one in METHODS.items() if one.network == kind)
                raise InputError(
                    f"{name} {why}, so leave the {given[0]} out; methods that take it are {suited}"
                )
        if self.exchanges is not None:
            checks.at_least("exchanges", self.exchanges, 1)
        if self.walk is not None and self.walk not in WALKS:
            raise InputError(f"walk is {self.walk!r}; choose from {', '.join(WALKS)}")
        if self.cap is not None:
            checks.at_least("cap", self.cap, 1)

    def connection(
        self, method: Method, agents: int, rounds: int, *, seed: int
    ) -> Connection | None:
        """Return the connection of these agents for these rounds; None with an aggregator.

        A star method has an aggregator unless a network is named, on which it runs along a tree.
        `seed` is the public seed of a random walk.
        """
        if method.network is None and self.network is None:
            return None
        name, holders, walk = self.network or DEFAULT_NETWORK, None, None
        if name.lower().endswith(network.SUFFIXES):
            graph = network.read_network(Path(name))
            if graph.agents != agents:
                raise InputError(
                    f"the network in {name} has {graph.agents} agents, the data {agents}; make "
                    "them equal"
                )
        else:
            graph = network.network_named(name, agents)
        if method.network == "relay":
            walk = self.walk or DEFAULT_WALK
            if walk == "cyclic":
                route = network.cyclic_walk(graph, rounds)
            else:
                route = network.uniform_walk(graph, rounds, seed=seed)
            holders = tuple(route.holders.tolist())
        return Connection(
            name=name,
            edges=tuple(map(tuple, graph.edges.tolist())),
            walk=walk,
            holders=holders,
            cap=self.cap,
            tree=method.network is None,
            exchanges=self.exchanges or 1,
        )


def methods_text() -> str:
    """Return the names of the methods, grouped by requirement."""
    plain = [n for n, m in METHODS.items() if m.network is None and m.structure != "required"]
    networks = [n for n, m in METHODS.items() if m.network is not None]
    structures = [n for n, m in METHODS.items() if m.structure is not None]
    return (
        f"With an aggregator, or along a spanning tree of --network: {', '.join(plain)}. Gossip "
        f"and relay methods: {', '.join(networks)}. With --structure: {', '.join(structures)}. "
        "A method of your own: module:Class."
    )


def rounds_text() -> str:
    """Return the default number of rounds of the methods."""
    usual = next(iter(METHODS.values())).rounds
    others = (f"; {m.rounds} for {name}" for name, m in METHODS.items() if m.rounds != usual)
    return f"{usual}{''.join(others)}; on a relay, as many sweeps over the agents"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for a run. None stands for the default derived from public facts.

    Raises `InputError` for an invalid option, as far as this can be checked without facts about the
    records.

    - `loss`: None for the default loss of the task.
    - `class_weight`, `prior`: Public weights in (0, 1] by label, or public shares of the labels
      that determine the weights; see `weights_by_label`. Labels of a data set are "-1" and "1", or
      "0" to "K-1".
    - `rows_per_person`, `agents_per_person`: K and M of `Adjacency` if persons are protected; K is
      None if records are.
    - `clip`: Public bound on the coefficient of a record; None for `clip_for`.
    - `centre`: Whether the first round learns a private centre of the rows
      (`taciturn.algorithms.Centred`), around which the model is then linear; None: if its noise is
      small.
    - `features`: The name of a public feature map, applied to every row; None for the default.
    - `agent_epsilons`: The total epsilon of each agent, in the order of the agents; the largest
      must be `epsilon`. None: every agent has `epsilon`.
    - `epochs`: In place of `rounds`, for methods on batches: an epoch of `vradmm` is a snapshot and
      its batches, and one of other methods 1 / sampling rate rounds.
    - `evaluate`: The share of each agent's records, or persons, held out to evaluate the released
      model; None for no evaluation.
    - `methods`: The table of methods, which includes `algorithm`; `options` are values of its
      options.
    """

    epsilon: float = option("Total epsilon; inf for a run without noise.", float)
    delta: float = option(
        "Total delta; choose at most 1/(10 x records). Not needed with --epsilon inf.", float
    )
    rounds: int | None = option("Number of rounds.", int, default=None, shown=rounds_text())
    epochs: int | None = option(
        "Number of epochs, in place of --rounds, of methods on batches.",
        int, group=METHOD, default=None,
    )  # fmt: skip
    agent_epsilons: Sequence[float] | None = option(
        "Budget of each agent, as 0.5,1,2; the largest is epsilon. Needs records with owners.",
        str, group=PRIVACY, default=None, shown="epsilon for every agent",
    )  # fmt: skip
    observer: str | Observer = option(
        "messages: the adversary observes every message; sum: only the sum over all agents, by "
        "secure aggregation in a study and by assumption elsewhere.",
        str, group=PRIVACY, default="messages",
    )  # fmt: skip
    relation: str = option(
        "Neighbouring relation: replace_one or zero_out.",
        str, group=PRIVACY, default="replace_one",
    )  # fmt: skip
    rows_per_person: int | None = option(
        "Protect persons: the largest number of rows used of each. Public.",
        int, group=PRIVACY, default=None,
    )  # fmt: skip
    agents_per_person: int = option(
        "Largest number of agents that hold rows of one person. Public.",
        int, group=PRIVACY, default=1,
    )  # fmt: skip
    evaluate: float | None = option(
        "Share of each agent's records, or persons, held out to score the model.",
        float, default=None,
    )  # fmt: skip
    features: str | None = option(
        f"Public feature map: {usage_of_features()}; or {COLUMNS}.",
        str, default=None, shown=f"{HATS} where they are likely to pay",
    )  # fmt: skip
    clip: float | None = option(
        "Clipping bound on a record's loss derivative.",
        float, group=PRIVACY, default=None, shown="from the loss",
    )  # fmt: skip
    centre: bool | None = option(
        "Learn a private centre of the rows first.",
        bool, group=MODEL, default=False, shown="where its noise is small",
    )  # fmt: skip
    loss: Named | None = option(
        f"{usage(LOSSES)}. Or your own: module:Class.",
        str, group=MODEL, default=None, shown="from the target",
    )  # fmt: skip
    class_weight: Mapping[str, float] | None = option(
        "LABEL=WEIGHT: public weight of a class, in (0, 1]; may be repeated.",
        list[str], group=MODEL, default=None, shown="1",
    )  # fmt: skip
    prior: Mapping[str, float] | None = option(
        "LABEL=SHARE, for every class: its public share; classes then count equally.",
        list[str], group=MODEL, default=None,
    )  # fmt: skip
    regulariser: Named = option(
        f"{usage(REGULARISERS)}.", str, group=MODEL, default=DEFAULT_REGULARISER
    )
    constraint: Named = option(f"{usage(CONSTRAINTS)}.", str, group=MODEL, default=NONE)
    increasing: Sequence[str] = option(
        "COL: a column of a table with which the predicted number, or the probability of the last "
        "label, never falls; may be repeated.",
        list[str], group=MODEL, default=(),
    )  # fmt: skip
    decreasing: Sequence[str] = option(
        "COL: a column of a table with which it never rises; may be repeated.",
        list[str], group=MODEL, default=(),
    )  # fmt: skip
    algorithm: str = option(methods_text(), str, group=METHOD, default="noisy-gradient")
    split_seed: int = option(
        "Seed of the train/test split of published data and, with --seed, of the division.",
        int, group=METHOD, default=0,
    )  # fmt: skip
    options: Mapping[str, Value] = field(default_factory=dict)
    network: NetworkRequest = field(default_factory=NetworkRequest)
    precision: Precision = "float32"
    methods: Mapping[str, Method] = field(default_factory=lambda: METHODS)

    def __post_init__(self) -> None:
        name, given = algorithms.published_method(
            self.algorithm, self.options, self.epsilon, self.methods
        )
        object.__setattr__(self, "algorithm", name)
        object.__setattr__(self, "options", given)
        method = self.method
        algorithms.check_options(self.algorithm, method, self.options)
        self._check_epochs(method)
        if self.rounds is not None:
            checks.at_least("rounds", self.rounds, 1)
        if self.clip is not None:
            checks.positive("clip", self.clip)
        if self.rows_per_person is None and self.agents_per_person != 1:
            raise InputError(
                "agents-per-person is given and rows-per-person is not; give both to protect "
                "persons, or leave both out"
            )
        for name in ("rows_per_person", "agents_per_person"):
            value = getattr(self, name)
            if value is not None and checks.at_least(name, value, 1) >= 2**31:
                raise InputError(f"{name} is {value}; it must be below 2^31")
        if self.evaluate is not None:
            held_out_share(self.evaluate)
            check_at_one_agent(self.agents_per_person)
        self.network.check(self.algorithm, method)
        check_seed("split-seed", self.split_seed)
        self.budget.terms  # noqa: B018 - checked

    def _check_epochs(self, method: Method) -> None:
        """Raise `InputError` unless the method has epochs, if their number is given."""
        if self.epochs is None:
            return
        checks.at_least("epochs", self.epochs, 1)
        if self.rounds is not None:
            raise InputError("epochs and rounds are given, each of which fixes the other; give one")
        if not method.sampled:
            suited = ", ".join(name for name, one in METHODS.items() if one.sampled)
            raise InputError(
                f"{self.algorithm} asks all records in every round and has no epochs; give rounds, "
                f"or use {suited}"
            )

    @property
    def method(self) -> Method:
        """The method of that name."""
        return algorithms.method_named(self.algorithm, self.methods)

    @property
    def budget(self) -> Budget:
        """The terms; the unit is a person if `rows_per_person` is given, else a record."""
        observer = self.observer
        if isinstance(observer, str):
            observer = observer_named(observer)
        return Budget(
            epsilon=checks.positive("epsilon", self.epsilon, allow_infinity=True),
            delta=checks.delta(self.delta),
            relation=relation_named(self.relation).name,
            unit="record" if self.rows_per_person is None else "person",
            observer="sum" if isinstance(observer, Sum) else "messages",
            colluders=observer.colluders if isinstance(observer, Sum) else 0,
            rows_per_person=self.rows_per_person,
            agents_per_person=self.agents_per_person,
            agent_epsilons=None if self.agent_epsilons is None else tuple(self.agent_epsilons),
        )

    def facts_with_features(self, data: DataFacts) -> DataFacts:
        """Return the facts with the requested feature map, if one is requested."""
        return data if self.features is None else data.with_features(self.features)

    def constraint_for(self, data: DataFacts) -> Named:
        """Return the constraint: the given one, or that of the columns with a direction."""
        if not (self.increasing or self.decreasing):
            return self.constraint
        if self.constraint != NONE:
            raise InputError(
                "a constraint is given, and columns in which the model is increasing or "
                "decreasing; leave one out"
            )
        return data.monotone(self.increasing, self.decreasing)

    def clip_for(self, loss: Loss) -> float:
        """Return the public bound on the coefficient of a record.

        The default is `taciturn.algorithms.Method.clip_for`. For one-question the bound is on the
        targets.
        """
        if self.clip is not None:
            return float(self.clip)
        return self.method.clip_for(loss, self.epsilon)


def default_of(option: str) -> Any:
    """Return the default of a field of `Request`, for interfaces with a parameter of that name."""
    return next(one.default for one in fields(Request) if one.name == option)


@dataclass(frozen=True, kw_only=True)
class StructureRequest:
    """A request for a structure of the weights.

    - `structure`: "lasso": weight |x|_1. "fused-lasso": weight (sum over edges |x_i - x_j| +
      |x|_1). "generalized-lasso": weight |A x|_1. None for no structure.
    - `weights`: "l1:W", or "elastic:W1,W2" for a ridge W2 besides; None for "l1:1e-4".
    - `graph`: A public CSV file: edges, or the rows of A. By default neighbouring columns are
      joined in a chain.
    """

    structure: str | None = option(
        f"{', '.join(get_args(StructureName))}.", str, group=MODEL, default=None
    )
    weights: Named | None = None
    graph: str | None = option(
        "Public CSV file: the edges of fused-lasso, the matrix A of generalized-lasso.",
        Path, group=MODEL, default=None,
    )  # fmt: skip

    def check(self, algorithm: str, method: Method) -> None:
        """Raise `InputError` unless structure, graph and the method called `algorithm` agree."""
        if self.structure is None and method.structure == "required":
            raise InputError(
                f"{algorithm} solves problems with a structure; name one with --structure"
            )
        if self.structure is not None and method.structure is None:
            suited = ", ".join(name for name, one in METHODS.items() if one.structure is not None)
            raise InputError(f"{algorithm} knows no structure; use {suited}")
        names = get_args(StructureName)
        if self.structure is not None and self.structure not in names:
            raise InputError(f"structure is {self.structure!r}; choose from {', '.join(names)}")
        if self.graph is not None and self.structure in {None, "lasso"}:
            raise InputError("a graph is for the structures fused-lasso and generalized-lasso")
        if self.structure is not None:
            self._weights()

    def _weights(self) -> tuple[float, float]:
        """Return the weight of the structure and that of the ridge."""
        weights = self.weights or DEFAULT_WEIGHT
        if weights.name == "l1" and len(weights.numbers) == 1:
            return weights.numbers[0], 0.0
        if weights.name == "elastic" and len(weights.numbers) == 2:
            return weights.numbers[0], weights.numbers[1]
        raise InputError(
            f"a structure needs the weight of its l1 norm, not {str(weights)!r}; use l1:W, or "
            "elastic:W1,W2 with a ridge W2"
        )

    def of_columns(self, columns: tuple[str, ...]) -> Structure | None:
        """Return the structure of a model of these encoded columns, with the file's content."""
        if self.structure is None:
            return None
        weight, ridge = self._weights()
        edges, matrix = np.empty((0, 2), int), np.empty((0, len(columns)))
        if self.structure == "fused-lasso":
            edges = chain_of(len(columns))
            if self.graph is not None:
                edges = read_edges(self.graph, columns)
        elif self.structure == "generalized-lasso":
            if self.graph is None:
                raise InputError(
                    "generalized-lasso needs a file with the rows of A; give --graph FILE"
                )
            matrix = read_matrix(self.graph, len(columns))
        return Structure(
            name=self.structure,
            weight=weight,
            ridge=ridge,
            edges=tuple(map(tuple, edges.tolist())),
            rows=tuple(map(tuple, matrix.tolist())),
            source="chain" if self.graph is None else "given",
        )


def propose(
    data: DataFacts,
    counts: Sequence[int],
    request: Request,
    structure: Structure | None = None,
    *,
    dealt: bool = False,
) -> Proposal:
    """Return the proposal of a request, with every default from public facts alone.

    - `counts`: Records of each agent, including those to be held out for an evaluation.
    - `dealt`: Whether records without owners are dealt to several agents at random.
    """
    data = request.facts_with_features(data)
    if request.features is None and data.features is None:
        return _with_features_that_pay(
            request, lambda one: propose(data, counts, one, structure, dealt=dealt)
        )
    if request.centre is None:
        return _around_a_centre_that_pays(
            request, lambda one: propose(data, counts, one, structure, dealt=dealt)
        )
    agents, method = len(counts), request.method
    evaluation = None
    if request.evaluate is not None:
        held = held_out_counts(counts, request.evaluate, rows_per_person=request.rows_per_person)
        evaluation = Evaluation(share=float(request.evaluate), counts=held)
        counts = [count - out for count, out in zip(counts, held, strict=True)]
    loss = request.loss or method.loss_for(data.task, request.epsilon)
    weights = weights_by_label(labels_of(data), request.class_weight, request.prior)
    draft = Proposal.model_construct(
        data=data,
        counts=tuple(counts),
        split_seed=request.split_seed,
        dealt=dealt,
        loss=loss,
        class_weights=weights,
        clip=request.clip_for(weighted(data.loss(loss), weights)),
        regulariser=request.regulariser if structure is None else NONE,
        constraint=request.constraint_for(data),
        structure=structure,
        method=MethodChoice(name=request.algorithm, options={}),
        budget=request.budget,
        rounds=1,
        centre=request.centre,
        precision=request.precision,
        network=None,
        evaluation=evaluation,
    )
    rounds, given = request.rounds, request.options
    if rounds is None:
        rounds = algorithms.rounds_by_default(method, draft.setting, given, request.epochs)
    check_size(rounds, agents)
    options = algorithms.settled(method, replace(draft.setting, rounds=rounds), given)
    stated = {
        "counts": tuple(map(int, counts)),
        "rounds": rounds,
        "method": MethodChoice(name=request.algorithm, options=options),
        "network": request.network.connection(method, agents, rounds, seed=request.split_seed),
    }
    return Proposal(**dict(draft) | stated)


def _of_columns(proposal: Proposal) -> bool:
    """Whether regulariser, constraint or structure refer to the columns, or the target is a number.

    What suits classes, hats and a centre, does not suit numbers. Hats suit a model that is monotone
    in columns.
    """
    plain = proposal.regulariser in (NONE, DEFAULT_REGULARISER)
    plain &= proposal.constraint.name in (NONE.name, MONOTONE)
    return proposal.structure is not None or not plain or proposal.data.task == "regression"


def _with_features_that_pay(request: Request, proposed: Callable[[Request], Proposal]) -> Proposal:
    """Return the proposal with hats if they are likely to pay, else the one of plain columns.

    Hats bend the model but have more coordinates, each with noise from privacy and from sampling.
    On simulated records whose log-odds are linear in all or in half of the columns, the gain in
    test loss follows the noise of the run (`noise_of_run`), whatever the numbers of records and
    columns, and is positive on average up to MOST_NOISE_OF_RUN; without noise it is positive from
    about LEAST_RECORDS records for each coordinate.
    """
    uncentred = replace(request, centre=False)
    plain = proposed(replace(uncentred, features=COLUMNS))
    pays = not (_of_columns(plain) or request.method.minimises) and _has_numbers(plain.data)
    if pays:
        try:
            bent = proposed(replace(uncentred, features=HATS))
        except InputError:  # there would be too many coordinates
            return proposed(replace(request, features=COLUMNS))
        enough = sum(bent.counts) >= LEAST_RECORDS * bent.data.coordinates
        pays = enough and noise_of_run(bent) <= MOST_NOISE_OF_RUN
    return proposed(replace(request, features=HATS if pays else COLUMNS))


def _has_numbers(data: DataFacts) -> bool:
    """Whether rows have numbers with meanings of their own, unlike the pixels of a picture."""
    return data.picture is None and len(data.inputs.numbers) > 0


def noise_of_run(proposal: Proposal) -> float:
    """Return sqrt(D) nu / g, nu the noise per coordinate of the mean of all gradients of a run.

    That is the noise of one mean gradient at the whole budget. D is the number of coordinates of
    the model, and g the bound on the gradient of a record.
    """
    setting = replace(proposal.setting, rounds=1)
    noise = algorithms.noise_of_gradients(setting, setting.terms.observer).of_mean
    return math.sqrt(setting.facts.dimension) * noise / setting.facts.gradient_bound


def _around_a_centre_that_pays(
    request: Request, proposed: Callable[[Request], Proposal]
) -> Proposal:
    """Return the proposal with a private centre if it is known to pay, else the one without.

    A row around a centre has the same norm for every record.
    """
    without = proposed(replace(request, centre=False))
    if _of_columns(without) or without.constraint != NONE or math.isinf(request.epsilon):
        return without
    try:
        centred = proposed(replace(request, centre=True))
        share = noise_of_centre(centred, centred.plan(request.methods))
    except InputError:  # the method does not support one, or there is a single round
        return without
    return centred if share <= algorithms.MOST_NOISE else without


def noise_of_centre(proposal: Proposal, plan: Plan) -> float:
    """Return the noise of a plan's centre relative to the norm of a row."""
    scales = plan.ledger.scale[:, 0, 0]
    columns, norm = proposal.data.coordinates, proposal.data.row_norm
    return algorithms.noise_share(scales, columns=columns, record_norm=norm)


def centre_text(proposal: Proposal, plan: Plan) -> str | None:
    """Return a sentence about the centre of a plan; None without one."""
    if not proposal.centre:
        return None
    return (
        f"around a private centre, learned in the first round for {algorithms.SHARE:.0%} of the "
        f"budget; its noise is {noise_of_centre(proposal, plan):.2g} of a row's norm"
    )


def centre_warning(proposal: Proposal, plan: Plan) -> tuple[str, ...]:
    """Return a warning if there is a centre that does not pay (`taciturn.algorithms.Centred`)."""
    share = noise_of_centre(proposal, plan) if proposal.centre else 0.0
    if share <= algorithms.MOST_NOISE:
        return ()
    return (
        f"the noise of the centre is {share:.2g} of a row's norm, which moves rows at random; "
        "say --no-centre, or use more records, a larger epsilon, or the observer sum",
    )


def chain_of(columns: int) -> Int[HostArray, "e 2"]:
    """Return the edges that join neighbouring columns."""
    nodes = np.arange(columns)
    return np.stack([nodes[:-1], nodes[1:]], axis=1)


def read_edges(path: str, columns: tuple[str, ...]) -> Int[HostArray, "e 2"]:
    """Return the edges in a CSV file: two columns a line, by name or by number from 0."""
    number = {name: place for place, name in enumerate(columns)}
    number |= {str(place): place for place in range(len(columns)) if str(place) not in number}
    edges = []
    for line, cells in enumerate(_lines(path), start=1):
        places = [number.get(cell.strip()) for cell in cells]
        if len(places) != 2 or None in places:
            raise InputError(
                f"{path}, line {line}: {','.join(cells)!r} does not join two of the "
                f"{len(columns)} columns; write two names, or numbers from 0"
            )
        edges.append(places)
    return np.array(edges, dtype=int).reshape(-1, 2)


def read_matrix(path: str, columns: int) -> Float[HostArray, "m n"]:
    """Return the rows of a CSV file of numbers, one number per column of the model."""
    rows = []
    for line, cells in enumerate(_lines(path), start=1):
        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            row = []
        if len(row) != columns:
            raise InputError(f"{path}, line {line}: expected {columns} numbers, one per column")
        rows.append(row)
    return np.array(rows, dtype=float).reshape(-1, columns)


def _lines(path: str) -> list[list[str]]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}); give a CSV file"
        ) from error
    return [cells for cells in csv.reader(text.splitlines()) if cells]
