"""The federated learning of Ryu & Kim 2023: its records, its runs and its measure of noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.algorithms import LinearisedADMM
from taciturn.checks import positive
from taciturn.datasets import load
from taciturn.engine import Plan, plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import Gaussian, Laplace, Mechanism, ReplaceOne, account
from taciturn.kernel.questions import Gradient, Oracle, ProjectedStep
from taciturn.kernel.records import Shard, Shards, Spec, random_partition
from taciturn.problems import Box, MultinomialLogistic, NoRegulariser, Problem
from taciturn.typing import Array, HostArray
from taciturn_papers.as_published.local_schedules import Form, PublishedSettings
from taciturn_papers.reproductions.arms import packed
from taciturn_papers.reproductions.figure import Budget
from taciturn_papers.reproductions.ryu2023.settings import AGENTS, BOX, RECORD_NORM, Learning

_BATCH = 8  # models that are measured at a time


@dataclass(frozen=True)
class Records:
    """One data set: the problem, the agents' records, a test part.

    Attributes
    ----------
    shortened
        The share of training records that the norm bound scaled down.
    title
        Of the data set.
    """

    data: str
    title: str
    problem: Problem
    shards: Shards
    test: Shard
    shortened: float

    @property
    def box(self) -> float:
        """Largest absolute value of a weight, u."""
        return BOX[self.data]

    @property
    def size(self) -> int:
        """Number of weights, n."""
        outputs = self.problem.loss.outputs or 1
        return self.shards.dimension * outputs


def records(run: Learning) -> Records:
    """Return the records of a run: MNIST dealt out at random, FEMNIST by writer."""
    dataset = load(run.data, interval="unit")
    if dataset.owners is None:
        owners = list(random_partition(run.records or dataset.train_rows, AGENTS, seed=0))
    else:
        owners = list(dataset.owners[: run.writers])
    used = np.concatenate(owners)
    everyone = [np.arange(dataset.train_rows, len(dataset.targets))]
    trained, tested = (
        packed(dataset.features, dataset.targets, parts, norm=RECORD_NORM)
        for parts in (owners, everyone)
    )  # fmt: skip
    u = BOX[run.data]
    return Records(
        data=run.data,
        title=dataset.title,
        problem=Problem(MultinomialLogistic(dataset.classes or 2), NoRegulariser(), Box(-u, u)),
        shards=trained,
        test=tested.shard(0),
        shortened=float(np.mean(np.linalg.norm(dataset.features[used], axis=1) > RECORD_NORM)),
    )


def scores(one: Records, models: Float[Array, "N D K"]) -> tuple[HostArray, HostArray]:
    """Return (6.3) summed over agents, the mean loss of all records, and test errors in per cent.

    Both are `(N,)`.
    """
    found = _scores(one.problem, one.shards.stacked, one.test, models)
    return np.asarray(found[0]), 100 * np.asarray(found[1])


@jax.jit
def _scores(
    problem: Problem, data: Shard, test: Shard, models: Float[Array, "N D K"]
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    def one(model: Float[Array, "D K"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        values = problem.loss.value(data.features @ model, data.targets)
        loss = jnp.sum(data.mask * values) / jnp.sum(data.mask)
        return loss, jnp.mean(problem.loss.error(test.features @ model, test.targets))

    found: tuple[Array, Array] = jax.lax.map(one, models, batch_size=_BATCH)
    return found


# c_1, c_2 and T_c of (E.1)
CONSTANTS: Mapping[str, tuple[float, float, int]] = MappingProxyType(
    {"mnist": (2.0, 5.0, 10_000), "femnist": (0.005, 0.05, 2_000)}
)


@dataclass(frozen=True, kw_only=True)
class PublishedRun:
    """One run of the paper: what a curve of its figures shows.

    Attributes
    ----------
    constants
        Whose c_1, c_2 and T_c: a key of `CONSTANTS`.
    form, mechanism
        ObjG and OutG are "objective" and "output" with Gaussian noise; ObjL and OutL with Laplace.
    local_updates, rounds
        E and T.
    per_update
        The paper's epsilon of one update; infinity for a run without noise.
    delta
        Of one update and of the total.
    rho
        c_1, c_2 and T_c instead of those of `constants`.
    averaged
        Whether the outputs are averaged as Theorem 5.4 says; else the last ones are released.
    """

    constants: str
    form: Form
    mechanism: Mechanism
    local_updates: int
    rounds: int
    per_update: float
    delta: float
    rho: tuple[float, float, int] | None = None
    averaged: bool = False

    def __post_init__(self) -> None:
        if self.constants not in CONSTANTS:
            raise InputError(
                f"no constants of (E.1) for {self.constants!r}; choose from {', '.join(CONSTANTS)}"
            )
        positive("per_update", self.per_update, allow_infinity=True)

    @property
    def multiplier(self) -> float:
        """Noise over sensitivity of one update: sqrt(2 ln(1.25/delta)) / e, or 1/e for Laplace."""
        root = math.sqrt(2 * math.log(1.25 / self.delta))
        return (1.0 if isinstance(self.mechanism, Laplace) else root) / self.per_update

    @property
    def total(self) -> float:
        """The exact epsilon of all T E updates at `delta`."""
        if math.isinf(self.per_update):
            return math.inf
        events = [(self.mechanism.event(self.multiplier), self.rounds * self.local_updates)]
        return account(events, delta=self.delta, relation=ReplaceOne()).epsilon

    def plan(self, problem: Problem, facts: Spec) -> Plan:
        """Return the plan: (E.1), eta_t = 1/sqrt(t), records weigh equally.

        `facts` must be those without a clip: the loss's own Lipschitz constant, times the enforced
        record norm, is the supremum over all records that (6.4) asks for.
        """
        settings = PublishedSettings(
            *(self.rho or CONSTANTS[self.constants]), self.per_update, "nonsmooth",
            averaged=self.averaged,
        )  # fmt: skip
        algorithm = LinearisedADMM(problem, self.local_updates, self.form, settings, "records")
        oracle: Oracle = ProjectedStep(problem, math.inf)
        if self.form == "objective":
            oracle = Gradient(problem.loss, math.inf)
        terms = Budget(self.total, self.delta).terms
        law = None if isinstance(self.mechanism, Gaussian) else self.mechanism
        return plan(
            facts, algorithm, (oracle,), terms,
            rounds=self.rounds, precision="float32", mechanism=law,
        )  # fmt: skip


def noise_magnitude(made: Plan, form: Form) -> Float[HostArray, " T"]:
    """Return the expectation of (6.5), sum_p sum_e (1/n) sum_i |xi_i|, in the paper's units.

    For "objective" xi is on the gradient of f_p, so its scale is a_p s / A (see
    `LinearisedADMM`); for the other arms on the solution, a_p s / (rho + 1/eta). A coordinate of
    scale s has |xi| = s sqrt(2/pi) on average if it is Gaussian, and s if it follows Laplace.
    Taken from the plan, so nothing is drawn.
    """
    values, scale = made.schedules, made.ledger.scale  # (A, T, E)
    felt = values["weight"] * np.sum(scale, axis=2)
    curvature = values["rho"] + values["inverse_step"]
    unit = made.spec.agents if form == "objective" else curvature
    average = 1.0 if isinstance(made.ledger.mechanism, Laplace) else math.sqrt(2 / math.pi)
    total: HostArray = average * np.sum(felt, axis=0) / unit
    return total
