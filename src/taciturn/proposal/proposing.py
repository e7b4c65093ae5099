"""From a request to a proposal: every default follows from public facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from taciturn.algorithms import MOST_NOISE, SHARE, Method, Setting, noise_share, settled
from taciturn.engine.planning import Plan, check_size
from taciturn.errors import InputError
from taciturn.network import SUFFIXES, Graph, cyclic_walk, network_named, read_network, uniform_walk
from taciturn.problems import Loss, default_clip, facts_from, held_out_counts
from taciturn.proposal.data_facts import (
    DataFacts,
    Evaluation,
    labels_of,
    weighted,
    weights_by_label,
)
from taciturn.proposal.parts import NONE, Connection, MethodChoice, Structure, problem_of
from taciturn.proposal.proposal import Proposal, facts_of_method
from taciturn.proposal.request import (
    DEFAULT_NETWORK,
    DEFAULT_REGULARISER,
    DEFAULT_WALK,
    NetworkRequest,
    Request,
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

    Parameters
    ----------
    counts
        Records of each agent, with those that are to be held out for an evaluation.
    dealt
        Whether records have no owners and are dealt to several agents at random.
    """
    if request.centre is None:
        return _around_a_centre_that_pays(data, counts, request, structure, dealt=dealt)
    agents, method = len(counts), request.method
    evaluation = None
    if request.evaluate is not None:
        held = held_out_counts(counts, request.evaluate, rows_per_person=request.rows_per_person)
        evaluation = Evaluation(share=float(request.evaluate), counts=held)
        counts = [count - out for count, out in zip(counts, held, strict=True)]
    rounds = request.rounds_among(agents)
    check_size(rounds, agents)
    regulariser = request.regulariser if structure is None else NONE
    loss_name, plain = data.loss(request.loss)
    weights = weights_by_label(labels_of(data), request.class_weight, request.prior)
    loss = weighted(plain, weights)
    columns = data.coordinates + request.centre
    problem = problem_of(loss, regulariser, request.constraint, structure, columns)
    clip = coefficient_clip(loss, request)
    norm = data.row_norm
    facts = facts_from(problem, counts, features=columns, record_norm=norm, clip=clip, dealt=dealt)
    setting = Setting(
        problem=problem,
        facts=facts_of_method(facts, request.centre),
        clip=clip,
        terms=request.budget.terms,
        rounds=rounds,
        options={},
    )
    return Proposal(
        data=data,
        counts=tuple(int(count) for count in counts),
        split_seed=request.split_seed,
        dealt=dealt,
        loss=loss_name,
        class_weights=weights,
        clip=clip,
        regulariser=regulariser,
        constraint=request.constraint,
        structure=structure,
        method=MethodChoice(
            name=request.algorithm, options=settled(method, setting, request.options)
        ),
        budget=request.budget,
        rounds=rounds,
        centre=request.centre,
        precision=request.precision,
        network=connection_for(request.network, method, agents, rounds, seed=request.split_seed),
        evaluation=evaluation,
    )


def _around_a_centre_that_pays(
    data: DataFacts,
    counts: Sequence[int],
    request: Request,
    structure: Structure | None,
    *,
    dealt: bool,
) -> Proposal:
    """Return the proposal with a private centre if it is known to pay, else the one without.

    A row around a centre has the same norm wherever the record is, which a class may not depend on
    but a number does; and what regulariser, constraint or structure say is about the columns.
    """
    without = propose(data, counts, replace(request, centre=False), structure, dealt=dealt)
    columns_matter = (
        request.regulariser not in (NONE, DEFAULT_REGULARISER)
        or request.constraint != NONE
        or structure is not None
    )
    if data.task == "regression" or columns_matter or math.isinf(request.epsilon):
        return without
    try:
        centred = propose(data, counts, replace(request, centre=True), structure, dealt=dealt)
        share = noise_of_centre(centred, centred.plan(request.methods))
    except InputError:  # a method that cannot, or a single round
        return without
    return centred if share <= MOST_NOISE else without


def noise_of_centre(proposal: Proposal, plan: Plan) -> float:
    """Return how far noise moves the centre of a plan, as a share of the norm of a row."""
    scales = plan.ledger.scale[:, 0, 0]
    columns, norm = proposal.data.coordinates, proposal.data.row_norm
    return noise_share(scales, columns=columns, record_norm=norm)


def centre_text(proposal: Proposal, plan: Plan) -> str | None:
    """Return what is said of the centre of a plan; None without one."""
    if not proposal.centre:
        return None
    return (
        f"around a private centre, learned in the first round for {SHARE:.0%} of the budget; its "
        f"noise is {noise_of_centre(proposal, plan):.2g} of a row's norm"
    )


def centre_warning(proposal: Proposal, plan: Plan) -> tuple[str, ...]:
    """Return a warning if there is a centre that does not pay (`taciturn.algorithms.Centred`)."""
    share = noise_of_centre(proposal, plan) if proposal.centre else 0.0
    if share <= MOST_NOISE:
        return ()
    return (
        f"the noise of the centre is {share:.2g} of a row's norm, which moves rows at random; "
        "say --no-centre, or use more records, a larger epsilon, or the observer sum",
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
        return float(request.clip)
    unclipped = request.method.minimises and loss.outputs is not None
    return math.inf if math.isinf(request.epsilon) or unclipped else default_clip(loss)


def connection_for(
    request: NetworkRequest, method: Method, agents: int, rounds: int, *, seed: int
) -> Connection | None:
    """Return the connection of this many agents in so many rounds; None with an aggregator.

    A method with an aggregator has one unless a network is named, and a tree on that. `seed` is the
    public seed of a random walk.
    """
    if method.network is None and request.network is None:
        return None
    name = request.network or DEFAULT_NETWORK
    graph = _graph(name, agents)
    holders, walk = None, None
    if method.network == "relay":
        walk = request.walk or DEFAULT_WALK
        cyclic = walk == "cyclic"
        route = cyclic_walk(graph, rounds) if cyclic else uniform_walk(graph, rounds, seed=seed)
        holders = tuple(route.holders.tolist())
    edges = tuple(map(tuple, graph.edges.tolist()))
    return Connection(
        name=name,
        edges=edges,
        walk=walk,
        holders=holders,
        cap=request.cap,
        tree=method.network is None,
        exchanges=request.exchanges or 1,
    )


def _graph(text: str, agents: int) -> Graph:
    if not text.lower().endswith(SUFFIXES):
        return network_named(text, agents)
    graph = read_network(Path(text))
    if graph.agents != agents:
        raise InputError(
            f"the network in {text} has {graph.agents} agents, the data {agents}; make them equal"
        )
    return graph
