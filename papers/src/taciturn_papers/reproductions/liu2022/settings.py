"""The numbers of the paper, how many of them a run takes up, and the problems that are solved."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from taciturn import checks
from taciturn.datasets import split
from taciturn.errors import InputError
from taciturn.kernel.records import Shards
from taciturn.problems import (
    Logistic,
    Structured,
    fused_lasso,
    lasso,
    minimise,
    smoothed_share,
)
from taciturn.typing import Array, HostArray, Vector
from taciturn_papers.reproductions.arms import packed
from taciturn_papers.reproductions.data import dataset_named
from taciturn_papers.reproductions.portions import Portion, Work

# Table II: batch on average, weight of the l1 norm, and of the ridge of Figure 3
TABLE_II: Mapping[str, tuple[int, float, float]] = MappingProxyType({
    "covtype": (50, 1e-4, 1e-4),
    "w8a": (20, 1e-4, 1e-5),
    "bio-train": (20, 1e-5, 1e-4),
    "mushrooms": (10, 1e-5, 1e-5),
})  # fmt: skip
# the graph is learned at the first weight that joins any columns
GRAPH_WEIGHTS = (0.4, 0.2, 0.1, 0.05)
OPTIMUM_TOL = 1e-3
_TOGETHER = 32  # models whose margins are computed at once

Kind = Literal["fused", "ridge", "lasso"]


@dataclass(frozen=True)
class Data:
    """A data set, or a file FILE:TARGET; what is None is that of Table II, of w8a if not there."""

    name: str
    batch: int | None = None
    weight: float | None = None
    ridge: float | None = None

    @property
    def in_paper(self) -> str | None:
        """The name in Table II of this data set, or of the file's name; None if it is not there."""
        stem = Path(self.name.rpartition(":")[0] or self.name).stem.replace("_", "-")
        return stem if stem in TABLE_II else None

    @property
    def row(self) -> tuple[int, float, float]:
        """Batch on average, weight of the l1 norm, and of the ridge of Figure 3."""
        batch, weight, ridge = TABLE_II[self.in_paper or "w8a"]
        return (
            self.batch or batch,
            weight if self.weight is None else self.weight,
            ridge if self.ridge is None else self.ridge,
        )


@dataclass(frozen=True)
class Reading:
    """How the choices are made that the paper leaves open or states in two ways.

    Attributes
    ----------
    gamma
        "1" (Section V-B), or "bound": 1 + eta rho |A'A| (Property 2).
    rho
        The penalty; times 1/|A'A| if `per_norm`.
    noise
        "accountant": what the budget needs; "theorems": sigma^2 of Theorems 1 and 2.
    step
        eta of DP-VRADMM, and the factor of the steps of DP-SADMM.
    """

    name: str
    gamma: Literal["1", "bound"] = "1"
    rho: float = 0.1
    per_norm: bool = True
    noise: Literal["accountant", "theorems"] = "accountant"
    epochs: int = 3
    step: float = 1.0

    def __str__(self) -> str:
        gamma = "1" if self.gamma == "1" else "1 + eta rho |A'A|"
        rho = f"{self.rho:g}{' / |A|^2' if self.per_norm else ''}"
        noise = ", sigma of the theorems" if self.noise == "theorems" else ""
        step = "" if self.step == 1 else f", eta times {self.step:g}"
        epochs = f"{self.epochs} epoch{'s' if self.epochs > 1 else ''}"
        return f"gamma = {gamma}, rho = {rho}, {epochs}{noise}{step}"


READINGS = (
    Reading("long"),
    Reading("long-rho-1", rho=1.0, per_norm=False),
    Reading("short-stiff", gamma="bound", rho=1.0),
    Reading("short-rho-1", gamma="bound", rho=1.0, per_norm=False),
    Reading("one-epoch", epochs=1),
    Reading("theorems", noise="theorems"),
)


@dataclass(frozen=True)
class Scale:
    """How much is run, and with which constants.

    Attributes
    ----------
    seeds
        Repetitions with noise and batches of their own.
    epochs
        Of 2 n / b steps each, in the sound forms.
    records
        At most so many training records.
    delta
        Of every budget.
    smoothing
        Strengths v.
    shorter
        Factors of the step of a control without smoothing.
    lipschitz
        l, the bound on a record's gradient in the published algorithms, which clip nothing.
    clip
        The bound that clipping enforces in the sound forms.
    constant, theta
        c_2 of Theorem 1 and theta of Theorem 2, which the paper does not give.
    rounds
        Of the noisy gradient.
    lasso_weight
        lambda_1 of Figure 4.
    public
        Share of the training records from which the graph is learned.
    """

    data: tuple[Data, ...]
    budgets: tuple[float, ...]
    seeds: int
    epochs: int
    records: int
    readings: tuple[Reading, ...] = READINGS
    delta: float = 5e-4
    smoothing: tuple[float, ...] = (1.0, 2.0, 3.0)
    shorter: tuple[float, ...] = (0.3,)
    lipschitz: float = 1.0
    clip: float = 0.5
    constant: float = 1.0
    theta: float = 0.5
    rounds: int = 200
    lasso_weight: float = 1e-4
    public: float = 0.1


FULL = Scale(
    data=(Data("w8a"), Data("mushrooms"), Data("ijcnn1"), Data("adult")),
    budgets=(0.05, 0.1, 0.2, 0.4, 0.8, 1.0),
    seeds=5,
    epochs=3,
    records=25_000,
)
QUICK = Scale(
    data=(Data("adult"),),
    budgets=(0.2, 1.0),
    seeds=5,
    epochs=1,
    records=2_000,
    readings=(READINGS[0], READINGS[3]),
    smoothing=(2.0,),
)


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
    roughness
        Of the best weights on the public part: over columns in order, shuffled, and along the
        graph; and the strength v of smoothing by the public rule.
    """

    data: Data
    train: Rows
    test: Rows
    edges: Int[HostArray, "e 2"]
    graph_weight: float
    roughness: tuple[str, ...] = ("", "", "", "")


@dataclass(frozen=True, eq=False)
class Task:
    """A structured problem on the records of one holder.

    Attributes
    ----------
    batch, rate, inner
        b; q = b / n of Poisson batches of b records on average; m = 2 n / b, the steps of an epoch.
    optimum, optimum_error
        Least objective and the test error there, without privacy; NaN until it is known.
    """

    kind: Kind
    train: Shards
    test: Shards
    problem: Structured
    batch: int
    rate: float
    inner: int
    optimum: float = math.nan
    optimum_error: float = math.nan

    def gaps(self, models: Float[HostArray, "B D"]) -> Float[HostArray, " B"]:
        """Return the objective of every model above the optimum."""
        rows, targets = self.train.stacked.features[0], self.train.stacked.targets[0]
        problem, loss = self.problem.composed, self.problem.loss

        def objective(model: Vector) -> Array:
            values = loss.value(rows @ model.astype(rows.dtype), targets)
            return jnp.mean(values.astype(model.dtype)) + problem.regulariser.value(model)

        values = jax.lax.map(objective, jnp.asarray(models), batch_size=_TOGETHER)
        return np.asarray(values) - self.optimum

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
    parts = split(dataset_named(data.name), seed=0)
    public = int(scale.public * len(parts.train_targets))
    rest = slice(public, public + scale.records)
    train = (parts.train_features[rest], parts.train_targets[rest])
    test = (parts.test_features, parts.test_targets)

    def compute() -> dict[str, HostArray]:
        rows = parts.train_features[:public]
        edges, weight = _graph(rows)
        best = _best((rows, parts.train_targets[:public]), data)
        return {"edges": edges, "weight": np.array(weight), "best": best}

    portion = Portion(f"{data.name}: graph of the columns", (data, "graph"), compute)
    return Work.of(
        portion,
        lambda found: Divided(
            data, train, test, found["edges"], float(found["weight"]),
            _roughness(found["best"], found["edges"]),
        ),
    )  # fmt: skip


def _best(rows: Rows, data: Data) -> Float[HostArray, " D"]:
    """Return the best weights of the lasso on public records."""
    columns = rows[0].shape[1]
    problem = lasso(Logistic(), columns, weight=data.row[1], ridge=1e-3)
    return np.asarray(minimise(problem.composed, _packed(rows), tol=0.01).w)


def _roughness(best: Float[HostArray, " D"], edges: Int[HostArray, "e 2"]) -> tuple[str, ...]:
    def along(pairs: HostArray, weights: HostArray) -> float:
        change = weights[pairs[:, 0]] - weights[pairs[:, 1]]
        return float(np.sum(change**2) / max(np.sum(weights**2), 1e-30))

    places = np.arange(len(best))
    ring = np.stack([places, np.roll(places, -1)], axis=1)
    in_order, shuffled = along(ring, best), along(ring, np.random.default_rng(0).permutation(best))
    strengths = np.linspace(0, 8, 81)
    shares = [(1 + v * in_order) * smoothed_share(len(best), v) for v in strengths]
    chosen = strengths[int(np.argmin(shares))]
    found = (in_order, shuffled, along(edges, best))
    return (*(f"{each:.2f}" for each in found), f"{chosen:.1f}")


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


def task(parts: Divided, kind: Kind, scale: Scale) -> Task:
    """Return the problem of one kind, without its optimum."""
    train, test = _packed(parts.train), _packed(parts.test)
    problem = _problem(parts, kind, scale, train.dimension)
    records, batch = train.counts[0], parts.data.row[0]
    if batch >= records:
        raise InputError(f"{records} records are too few for batches of {batch}; set a smaller one")
    return Task(kind, train, test, problem, batch, batch / records, 2 * records // batch)


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


def _problem(parts: Divided, kind: Kind, scale: Scale, columns: int) -> Structured:
    if kind == "lasso":
        return lasso(Logistic(), columns, weight=scale.lasso_weight)
    _, weight, ridge = parts.data.row
    ridge = ridge if kind == "ridge" else 0.0
    return fused_lasso(Logistic(), parts.edges, columns, weight=weight, ridge=ridge)


def _packed(rows: Rows) -> Shards:
    parts = [np.arange(len(rows[1]))]
    return packed(*rows, parts)


def _errors(test: Shards, models: Float[HostArray, "B D"]) -> Float[HostArray, " B"]:
    rows = np.asarray(test.stacked.features[0], np.float64)
    wrong = np.asarray(test.stacked.targets[0]) != np.sign(models @ rows.T)
    return np.asarray(np.mean(wrong, axis=1))
