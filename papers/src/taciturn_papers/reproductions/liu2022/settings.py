"""The numbers of the paper, how many of them a run takes up, and the problems that are solved."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from taciturn import checks
from taciturn.datasets import load, split
from taciturn.errors import InputError
from taciturn.kernel.records import Shards
from taciturn.problems import Logistic, Structured, fused_lasso, lasso, minimise
from taciturn.typing import HostArray
from taciturn_papers.reproductions.arms import packed
from taciturn_papers.reproductions.portions import Portion, Work

DELTA, CLIP = 5e-4, 0.5
LASSO_WEIGHT = 1e-4
# of the graph: learned from that share of the training records, at the first weight that joins any
PUBLIC_SHARE, GRAPH_WEIGHTS = 0.1, (0.4, 0.2, 0.1, 0.05)
OPTIMUM_TOL = 1e-3
ROUNDS = 200  # of the noisy gradient

Kind = Literal["fused", "ridge", "lasso"]


@dataclass(frozen=True)
class Data:
    """A row of Table II: batch on average, weight of the l1 norm, and of the ridge of Figure 3."""

    name: str
    batch: int
    weight: float
    ridge: float
    in_paper: bool


W8A = Data("w8a", 20, 1e-4, 1e-5, in_paper=True)
MUSHROOMS = Data("mushrooms", 10, 1e-5, 1e-5, in_paper=True)
IJCNN1 = Data("ijcnn1", 20, 1e-4, 1e-5, in_paper=False)
ADULT = Data("adult", 20, 1e-4, 1e-5, in_paper=False)


@dataclass(frozen=True)
class Scale:
    """How much is run.

    Attributes
    ----------
    seeds
        Repetitions with noise and batches of their own.
    epochs
        Of 2 n / b steps each.
    records
        At most so many training records.
    """

    data: tuple[Data, ...]
    budgets: tuple[float, ...]
    seeds: int
    epochs: int
    records: int


FULL = Scale(
    data=(W8A, MUSHROOMS, IJCNN1, ADULT),
    budgets=(0.05, 0.1, 0.2, 0.4, 0.8, 1.0),
    seeds=10,
    epochs=3,
    records=25_000,
)
QUICK = Scale(data=(ADULT,), budgets=(0.2, 1.0), seeds=3, epochs=1, records=2_000)


Rows = tuple[Float[HostArray, "_ D"], HostArray]


@dataclass(frozen=True, eq=False)
class Divided:
    """A data set in parts.

    Attributes
    ----------
    train, test
        Features and targets. The public part, which the graph is learned from, is in neither.
    edges
        The graph phi: pairs of columns.
    graph_weight
        Weight of the graphical lasso at which it was found.
    """

    data: Data
    train: Rows
    test: Rows
    edges: Int[HostArray, "e 2"]
    graph_weight: float


@dataclass(frozen=True, eq=False)
class Task:
    """A structured problem on the records of one holder.

    Attributes
    ----------
    rate, inner
        q = b / n of Poisson batches of b records on average; m = 2 n / b, the steps of an epoch.
    optimum, optimum_error
        Least objective and the test error there, without privacy; NaN until it is known.
    """

    kind: Kind
    train: Shards
    test: Shards
    problem: Structured
    rate: float
    inner: int
    optimum: float = math.nan
    optimum_error: float = math.nan

    def gaps(self, models: Float[HostArray, "B D"]) -> Float[HostArray, " B"]:
        """Return the objective of every model above the optimum."""
        objective = self.problem.composed.objective
        values = [float(objective(jnp.asarray(model), self.train)) for model in models]
        return np.array(values) - self.optimum

    def errors(self, models: Float[HostArray, "B D"]) -> Float[HostArray, " B"]:
        """Return the share of test records that every model gets wrong; a margin of 0 is wrong."""
        return _errors(self.test, models)

    @property
    def gap_of_nothing(self) -> float:
        """The gap of the model 0, which needs no record."""
        return float(self.gaps(np.zeros((1, self.train.dimension)))[0])

    @property
    def commonest(self) -> float:
        """The test error of always giving the commoner label."""
        positive = float(np.mean(np.asarray(self.test.stacked.targets[0]) > 0))
        return min(positive, 1 - positive)

    @property
    def empty(self) -> float:
        """The share of test records without an entry: margin 0, which no linear rule decides."""
        return float(np.mean(~np.any(np.asarray(self.test.stacked.features[0]), axis=1)))


def divided(data: Data, scale: Scale) -> Work[Divided]:
    """Return the parts of a data set and the graph of its columns, which is what takes time."""
    parts = split(load(data.name, interval="unit"), seed=0)
    public = int(PUBLIC_SHARE * len(parts.train_targets))
    rest = slice(public, public + scale.records)
    train = (parts.train_features[rest], parts.train_targets[rest])
    test = (parts.test_features, parts.test_targets)

    def compute() -> dict[str, HostArray]:
        edges, weight = _graph(parts.train_features[:public])
        return {"edges": edges, "weight": np.array(weight)}

    portion = Portion(f"{data.name}: graph of the columns", (data, "graph"), compute)
    return Work.of(
        portion, lambda found: Divided(data, train, test, found["edges"], float(found["weight"]))
    )


def _graph(rows: Float[HostArray, "n D"]) -> tuple[Int[HostArray, "e 2"], float]:
    for weight in GRAPH_WEIGHTS:
        try:
            return learned_edges(rows, weight=weight), weight
        except InputError:  # it joins no columns
            continue
    raise InputError(f"no weight in {GRAPH_WEIGHTS} joins two columns; give a smaller one")


def learned_edges(rows: Float[HostArray, "n d"], *, weight: float) -> Int[HostArray, "e 2"]:
    """Return the pairs of columns that a sparse inverse covariance joins (the graph phi).

    scikit-learn's graphical lasso on the correlations of `rows`, to which a hundredth of the
    identity is added so that constant and collinear columns have an inverse.

    **Guarantee.** None: the graph is a function of `rows`, which must therefore be public.

    Parameters
    ----------
    weight
        Of the l1 norm of the inverse; the larger, the fewer edges. Correlations of at most that
        size are joined by no edge on their own.

    Raises
    ------
    InputError
        If the weight is not above 0, or no pair of columns is joined.
    """
    from sklearn.covariance import graphical_lasso  # noqa: PLC0415 - 0.2 s to import

    checks.positive("the weight of the graphical lasso", weight)
    centred = rows - rows.mean(axis=0)
    spread = np.maximum(centred.std(axis=0), 1e-12)
    scaled = np.where(centred.std(axis=0) > 0, centred / spread, 0.0)
    correlation = scaled.T @ scaled / len(rows) + 0.01 * np.eye(rows.shape[1])
    _, precision = graphical_lasso(correlation, alpha=weight, max_iter=200, tol=1e-3)
    joined = np.argwhere(np.triu(np.abs(precision) > 1e-8, k=1))
    if not len(joined):
        raise InputError("the graphical lasso joins no columns; use a smaller weight")
    return np.asarray(joined, dtype=int)


def task(parts: Divided, kind: Kind) -> Task:
    """Return the problem of one kind, without its optimum."""
    train, test = _packed(parts.train), _packed(parts.test)
    problem = _problem(parts.data, kind, parts.edges, train.dimension)
    records = train.counts[0]
    rate, inner = parts.data.batch / records, 2 * records // parts.data.batch
    return Task(kind, train, test, problem, rate, inner)


def solved(subject: Task, name: str) -> Work[Task]:
    """Return the same task of a data set with its optimum."""

    def compute() -> dict[str, HostArray]:
        best = minimise(subject.problem.composed, subject.train, tol=OPTIMUM_TOL)
        error = _errors(subject.test, np.asarray(best.w)[None])[0]
        return {"optimum": np.array([best.value, error])}

    title = f"{name}, {subject.kind}: optimum without privacy"
    return Work.of(
        Portion(title, (name, subject.kind, "optimum"), compute),
        lambda found: dataclasses.replace(
            subject, optimum=float(found["optimum"][0]), optimum_error=float(found["optimum"][1])
        ),
    )


def reordered(subject: Task, parts: Divided, order: Int[HostArray, "D"]) -> Task:
    """Return the same problem with the columns in another order; the graph follows the columns."""
    train, test = (_packed((x[:, order], y)) for x, y in (parts.train, parts.test))
    edges = np.argsort(order)[parts.edges]
    problem = _problem(parts.data, subject.kind, edges, train.dimension)
    return dataclasses.replace(subject, train=train, test=test, problem=problem)


def _problem(data: Data, kind: Kind, edges: HostArray, columns: int) -> Structured:
    if kind == "lasso":
        return lasso(Logistic(), columns, weight=LASSO_WEIGHT)
    ridge = data.ridge if kind == "ridge" else 0.0
    return fused_lasso(Logistic(), edges, columns, weight=data.weight, ridge=ridge)


def _packed(rows: Rows) -> Shards:
    parts = [np.arange(len(rows[1]))]
    return packed(*rows, parts)


def _errors(test: Shards, models: Float[HostArray, "B D"]) -> Float[HostArray, " B"]:
    rows = np.asarray(test.stacked.features[0], np.float64)
    wrong = np.asarray(test.stacked.targets[0]) != np.sign(models @ rows.T)
    return np.asarray(np.mean(wrong, axis=1))
