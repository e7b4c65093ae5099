"""What methods cost as agents grow, without noise: Tables I to III."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from taciturn.algorithms import Algorithm
from taciturn.engine import plan, run
from taciturn.kernel.privacy import epsilon_of
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import Shards, pack
from taciturn.network import Graph, complete, erdos_renyi, metropolis, ring, uniform_walk
from taciturn.problems import (
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
    minimise,
    public_facts,
)
from taciturn.typing import HostArray
from taciturn_papers.reproductions.portions import Portion, Work, arrays_of, record_of
from taciturn_papers.reproductions.wang2024.arms import METHODS
from taciturn_papers.reproductions.wang2024.settings import NO_NOISE, OUR_DELTA, Scale

RECORDS, FEATURES, CLOSE = 20, 5, 1e-2
MU = 0.1  # what one answer is taken to cost in the column of spending
GRAPHS: Mapping[str, Callable[[int], Graph]] = MappingProxyType(
    {
        "complete": complete,
        "ring": ring,
        "random": lambda agents: erdos_renyi(agents, 0.4, seed=0),
    }
)
_WALKS = ("RECAL", "RWADMM (reconstructed)")
COMPARED = (*_WALKS, "NIDS", "PG-EXTRA", "gossip ADMM (IC-ADMM)")
_VECTORS = {"RECAL": 3, "RWADMM (reconstructed)": 2, "NIDS": 2, "PG-EXTRA": 2}
LEAST_SQUARES = Problem(Squared(), NoRegulariser(), WholeSpace())


@dataclass(frozen=True)
class Cost:
    """What it took; all NaN if the run was given up.

    Attributes
    ----------
    gradients
        All agents together (the tables' computation).
    plf
        Of the agent asked most.
    messages, bytes
        In double precision.
    epsilon
        Of that agent at `OUR_DELTA`, if every answer were `MU`-GDP.
    """

    gradients: float
    plf: float
    messages: float
    bytes: float
    epsilon: float


def cost(name: str, graph: Graph, most_rounds: int) -> Cost:
    """Return the cost of a method on least squares (17), without noise."""
    shards = least_squares(graph.agents)
    walks = name in _WALKS
    rounds = 10 * most_rounds if walks else most_rounds
    network = uniform_walk(graph, rounds, seed=0) if walks else metropolis(graph)
    algorithm: Algorithm = METHODS[name].algorithm(LEAST_SQUARES)
    made = plan(
        public_facts(LEAST_SQUARES, shards, clip=np.inf), algorithm,
        (Gradient(LEAST_SQUARES.loss, np.inf),),
        NO_NOISE.terms, rounds=rounds, precision="float64", network=network,
    )  # fmt: skip
    done = run(made, shards, runtime="simulate", keep=frozenset({"models"}))
    took = hit(
        np.asarray(done.trace.models), np.asarray(minimise(LEAST_SQUARES, shards, tol=1e-10).w)
    )
    if took is None:
        return Cost(*[np.nan] * 5)
    per_agent = np.sum(made.ledger.asked[:, :took], axis=(1, 2))
    if walks and name != "RECAL":
        messages = 2 * int(np.sum(graph.degrees * per_agent))
    else:
        messages = took if walks else 2 * len(graph.edges) * took
    plf = int(np.max(per_agent))
    size = messages * _VECTORS.get(name, 1) * 8 * FEATURES
    spent = float(epsilon_of(OUR_DELTA, MU * np.sqrt(plf)))
    return Cost(float(np.sum(per_agent)), plf, messages, size, spent)


def hit(models: Float[HostArray, "T D"], truth: Float[HostArray, " D"]) -> int | None:
    """Return the number of rounds after which the relative error stays below `CLOSE`.

    Examples
    --------
    >>> hit(np.array([[0.0], [0.999], [0.5], [1.001], [1.0]]), np.ones(1))
    4
    """
    apart = np.linalg.norm(models - truth, axis=1) / np.linalg.norm(truth)
    far = np.flatnonzero(apart > CLOSE)
    first = int(far[-1]) + 2 if far.size else 1
    return first if first <= len(models) else None


def least_squares(agents: int) -> Shards:
    """Return `RECORDS` rows of norm at most 1 per agent, on one noisy linear model."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((agents * RECORDS, FEATURES))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    y = x @ draw.standard_normal(FEATURES) + 0.1 * draw.standard_normal(len(x))
    owners = np.split(np.arange(len(x)), agents)
    return pack(x, y, owners, record_norm=1.0, precision="float64")


Scaling = dict[tuple[str, str, int], Cost]


def scaling(scale: Scale) -> Work[Scaling]:
    """Return the costs by graph, method and number of agents."""
    cases = [(kind, name, size) for kind in GRAPHS for name in COMPARED for size in scale.sizes]

    def portion(kind: str, name: str, size: int) -> Portion:
        def compute() -> dict[str, HostArray]:
            return arrays_of(cost(name, GRAPHS[kind](size), scale.most_rounds))

        title = f"Tables I to III: {kind}, {name}, {size} agents"
        return Portion(title, (kind, name, size), compute)

    return Work(
        tuple(portion(*case) for case in cases),
        lambda results: {case: record_of(Cost, results[case]) for case in cases},
    )


def power_of(costs: Scaling, kind: str, name: str, sizes: tuple[int, ...], what: str) -> float:
    """Return p of the fit cost ~ agents^p; NaN if fewer than two runs came to an end."""
    values = np.array([getattr(costs[kind, name, n], what) for n in sizes])
    known = np.isfinite(values)
    if np.sum(known) < 2:
        return float("nan")
    logs = np.log(np.array(sizes)[known]), np.log(values[known])
    return float(np.polyfit(*logs, 1)[0])
