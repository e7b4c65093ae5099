"""What methods cost as agents grow, without noise: Tables I to III."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float, Int

from taciturn.engine import plan, run
from taciturn.kernel.privacy import epsilon_of
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import Shards, pack
from taciturn.network import Graph, complete, erdos_renyi, metropolis, ring, uniform_walk
from taciturn.problems import NoRegulariser, Problem, Squared, WholeSpace, public_facts
from taciturn.typing import HostArray
from taciturn_papers.as_published import AgentState, agent_step
from taciturn_papers.methods import balanced_walk
from taciturn_papers.reproductions.figure import Measured
from taciturn_papers.reproductions.portions import Arrays, Portion, Work
from taciturn_papers.reproductions.wang2024.arms import ALGORITHMS
from taciturn_papers.reproductions.wang2024.settings import NO_NOISE, OUR_DELTA, Scale

RECORDS, FEATURES, CLOSE = 20, 5, 1e-2
SMOOTHNESS = 1.0  # of the squared loss on rows of norm at most 1
MU = 0.1  # what one answer is taken to cost in the column of spending
GRAPHS: Mapping[str, Callable[[int], Graph]] = MappingProxyType(
    {
        "complete": complete,
        "ring": ring,
        "random": lambda agents: erdos_renyi(agents, 0.4, seed=0),
    }
)
RECAL, OUR_STEPS, BALANCED = "RECAL", "RECAL, our public steps", "RECAL, balanced walk"
RW = "RWADMM (reconstructed)"
RELAYS = (RECAL, OUR_STEPS, BALANCED)
READINGS = {RECAL: "the paper's steps, 1.8 / (L + 1)", OUR_STEPS: "our public steps"}
RIVALS = (RW, "NIDS", "PG-EXTRA", "gossip ADMM (IC-ADMM)")
COMPARED = (*RELAYS, *RIVALS)
_VECTORS = {**dict.fromkeys(RELAYS, 2), RW: 2, "NIDS": 2, "PG-EXTRA": 2}
_FIRST = 1_000  # hops of a walk before its first look
LEAST_SQUARES = Problem(Squared(), NoRegulariser(), WholeSpace())


@dataclass(frozen=True)
class Cost:
    """What it took, in the order of the walks; NaN where a run was given up.

    Attributes
    ----------
    gradients
        All agents together (the tables' computation).
    plf
        Of the agent asked most.
    bytes
        In double precision.
    epsilon
        Of that agent at `OUR_DELTA`, if every answer were `MU`-GDP.
    """

    gradients: Measured
    plf: Measured
    messages: Measured
    bytes: Measured
    epsilon: Measured


def cost(name: str, graph: Graph, scale: Scale) -> Float[HostArray, "W 3"]:
    """Return gradients, PLF and messages of every walk, or of the one run that there is."""
    if name in RELAYS:
        return relay_costs(name, graph, scale)
    seeds = range(scale.walks if name == RW else 1)
    return np.array([_engine_cost(name, graph, seed, scale.most_rounds) for seed in seeds])


def relay_costs(name: str, graph: Graph, scale: Scale) -> Float[HostArray, "W 3"]:
    """Return what RECAL (7) takes without noise on least squares (17), along each walk.

    An error "stays" below a bound here if it does for as many hops as it took to get there.
    """
    longest = (5 if name == BALANCED else 25) * scale.most_rounds
    drawn = balanced_walk if name == BALANCED else uniform_walk
    holders = np.array([drawn(graph, longest, seed=s).holders for s in range(scale.walks)])
    shards = least_squares(graph.agents)
    truth = solution(shards)
    weight, alpha = 1.0, scale.alpha / (SMOOTHNESS + 1)
    if name == OUR_STEPS:  # half of the limit 2 / (L + 1/s) with s = 10/L, as `RECAL` chooses
        weight = 10 / SMOOTHNESS
        alpha = 1 / (weight * SMOOTHNESS + 1)
    apart, look = [], _FIRST
    for models in relay_models(shards, holders, weight, alpha):
        apart.append(np.linalg.norm(models - truth, axis=1) / np.linalg.norm(truth))
        if len(apart) == min(look, longest):
            took = [hit(each) for each in np.array(apart).T]
            if all(hop is not None and 2 * hop <= look for hop in took):
                break
            look *= 2
    return np.array([_counted(each, hop) for each, hop in zip(holders, took, strict=True)])


def _counted(holders: HostArray, took: int | None) -> tuple[float, float, float]:
    if took is None:
        return np.nan, np.nan, np.nan
    return took, float(np.max(np.bincount(holders[:took]))), took


def relay_models(
    shards: Shards, holders: Int[HostArray, "W T"], weight: float, alpha: float
) -> Iterator[Float[HostArray, "W D"]]:
    """Yield the models of RECAL on `weight` times the f_i, all walks together, hop by hop."""
    rows, targets = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    grams = weight * np.einsum("amd,ame->ade", rows, rows) / RECORDS
    right = weight * np.einsum("amd,am->ad", rows, targets) / RECORDS
    walks, agents = np.arange(len(holders)), len(rows)
    x = sent = np.zeros((len(holders), FEATURES))
    copies, duals = (np.zeros((len(holders), agents, FEATURES)) for _ in range(2))
    for at in holders.T:
        before = AgentState(copies[walks, at], duals[walks, at])
        slope = np.einsum("wij,wj->wi", grams[at], before.copy) - right[at]
        x, after = agent_step(before, x, sent, slope, alpha, agents, _same)
        sent = sent + after.dual - before.dual
        copies[walks, at], duals[walks, at] = after
        yield x


def _same(v: HostArray) -> HostArray:
    return v


def _engine_cost(name: str, graph: Graph, seed: int, rounds: int) -> tuple[float, float, float]:
    """Return the same of a method of the library, at its public step size."""
    shards, walks = least_squares(graph.agents), name == RW
    rounds = 10 * rounds if walks else rounds
    network = uniform_walk(graph, rounds, seed=seed) if walks else metropolis(graph)
    made = plan(
        public_facts(LEAST_SQUARES, shards, clip=np.inf), ALGORITHMS[name](LEAST_SQUARES),
        (Gradient(LEAST_SQUARES.loss, np.inf),),
        NO_NOISE.terms, rounds=rounds, precision="float64", network=network,
    )  # fmt: skip
    done = run(made, shards, runtime="simulate", keep=frozenset({"models"}))
    truth = solution(shards)
    apart = np.linalg.norm(np.asarray(done.trace.models) - truth, axis=1) / np.linalg.norm(truth)
    took = hit(apart)
    if took is None:
        return np.nan, np.nan, np.nan
    per_agent = np.sum(made.ledger.asked[:, :took], axis=(1, 2))
    messages = 2 * int(np.sum(graph.degrees * per_agent)) if walks else 2 * len(graph.edges) * took
    return float(np.sum(per_agent)), float(np.max(per_agent)), messages


def hit(apart: Float[HostArray, " T"]) -> int | None:
    """Return the number of rounds after which the relative error stays below `CLOSE`.

    Examples
    --------
    >>> hit(np.array([1.0, 0.001, 0.5, 0.001, 0.0]))
    4
    """
    far = np.flatnonzero(apart > CLOSE)
    first = int(far[-1]) + 2 if far.size else 1
    return first if first <= len(apart) else None


def least_squares(agents: int) -> Shards:
    """Return `RECORDS` rows of norm at most 1 per agent, on one noisy linear model."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((agents * RECORDS, FEATURES))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    y = x @ draw.standard_normal(FEATURES) + 0.1 * draw.standard_normal(len(x))
    owners = np.split(np.arange(len(x)), agents)
    return pack(x, y, owners, record_norm=1.0, precision="float64")


def solution(shards: Shards) -> Float[HostArray, " D"]:
    """Return the solution of (17), of agents with equally many records."""
    rows, targets = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    found: HostArray = np.linalg.lstsq(rows.reshape(-1, FEATURES), targets.ravel())[0]
    return found


Scaling = dict[tuple[str, str, int], Cost]


def scaling(scale: Scale) -> Work[Scaling]:
    """Return the costs by graph, method and number of agents."""
    cases = [(kind, name, size) for kind in GRAPHS for name in COMPARED for size in scale.sizes]

    def portion(kind: str, name: str, size: int) -> Portion:
        def compute() -> dict[str, HostArray]:
            return {"taken": cost(name, GRAPHS[kind](size), scale)}

        title = f"Tables I to III: {kind}, {name}, {size} agents"
        return Portion(title, (kind, name, size), compute)

    return Work(
        tuple(portion(*case) for case in cases),
        lambda results: {case: cost_of(case[1], results[case]) for case in cases},
    )


def cost_of(name: str, found: Arrays) -> Cost:
    """Return the cost of a method from what its walks took, `(walks, 3)`."""
    gradients, plf, messages = np.asarray(found["taken"], float).T
    size = messages * _VECTORS.get(name, 1) * 8 * FEATURES
    spent = np.asarray(epsilon_of(OUR_DELTA, MU * np.sqrt(plf)))
    each = (gradients, plf, messages, size, spent)
    if name in {RW, *RELAYS}:
        return Cost(*map(Measured.of, each))
    return Cost(*(Measured.computed(float(values[0])) for values in each))  # gossip: no chance


def power_of(costs: Scaling, kind: str, name: str, sizes: tuple[int, ...], what: str) -> float:
    """Return p of the fit cost ~ agents^p; NaN if fewer than two runs came to an end."""
    values = np.array([getattr(costs[kind, name, n], what).mean for n in sizes])
    known = np.isfinite(values)
    if np.sum(known) < 2:
        return float("nan")
    logs = np.log(np.array(sizes)[known]), np.log(values[known])
    return float(np.polyfit(*logs, 1)[0])
