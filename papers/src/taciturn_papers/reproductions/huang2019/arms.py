"""The competitors of the paper and ours; what a run of each achieves."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn.algorithms import ADMM, DPADMM, DualMessage, Noise, NoisyGradient, at_agents
from taciturn.datasets import Dataset, split
from taciturn.engine import Plan, Trace
from taciturn.errors import InputError
from taciturn.kernel.privacy import Terms
from taciturn.kernel.questions import Gradient, Oracle, PerturbedStep, ProximalStep
from taciturn.kernel.records import Shard, Shards, Spec, random_partition
from taciturn.problems import L1, L2, Named, Problem
from taciturn.training import DataFacts, Request, propose
from taciturn.typing import Array, HostArray
from taciturn_papers.reproductions.arms import Arm, different, packed, packed_test, swept
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.huang2019.settings import Kind, Scale, by_round
from taciturn_papers.reproductions.portions import Portion, Results, Work

DP_ADMM, DPSGD, PVP, DVP = "DP-ADMM as published", "DPSGD", "PVP", "DVP"
PUBLIC, OURS, EXACT = "DP-ADMM, public c_w", "noisy gradient (ours)", "ADMM without noise"


class ConstantStep(NoisyGradient):
    """Noisy gradient descent as the paper's DPSGD at sampling ratio 1: one step size, last iterate.

    Attributes
    ----------
    step_size
        The learning rate.
    """

    step_size: float = eqx.field(static=True, kw_only=True)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return {
            "step_size": np.full(rounds, self.step_size),
            "momentum": np.zeros(rounds),
            "averaging": np.ones(rounds),
        }


def published_arm(kind: Kind, scale: Scale) -> Arm:
    """Return DP-ADMM with the constants of the paper: (29) for l1, (34) for l2."""
    algorithm = partial(
        DPADMM,
        rho=scale.rho,
        radius=scale.c_w(kind),
        step_rule=scale.steps(kind),
        regulariser_at=scale.regulariser_at,
    )
    return Arm(DP_ADMM, algorithm, _gradient(scale.clip), scale.clip, scale.rounds, ("c_w",))


def descent_arm(scale: Scale) -> Arm:
    """Return the paper's DPSGD: all records in every round."""
    algorithm = partial(ConstantStep, step_size=scale.learning_rate)
    return Arm(DPSGD, algorithm, _gradient(scale.clip), scale.clip, scale.rounds)


class NamedArm(Arm):
    """A method of the table with the settings that `taciturn train` would choose."""

    @override
    def plan(self, problem: Problem, shards: Shards, terms: Terms) -> Plan:
        facts = DataFacts(
            name="records",
            task="binary",
            classes=2,
            columns=shards.dimension,
            record_norm=shards.record_norm,
            table=None,
        )
        assert isinstance(problem.regulariser, L1 | L2)
        kind = "l1" if isinstance(problem.regulariser, L1) else "l2"
        request = Request(
            epsilon=terms.epsilon,
            delta=terms.delta,
            observer=terms.observer,
            relation=terms.adjacency.relation.name,
            algorithm="dp-admm" if self.name == PUBLIC else "noisy-gradient",
            regulariser=Named(name=kind, numbers=(problem.regulariser.weight,)),
            clip=self.clip,
            rounds=self.rounds,
        )
        return propose(facts, shards.counts, request).plan()


def public_arm(name: str, scale: Scale) -> Arm:
    """Return DP-ADMM or our noisy gradient with the settings that `taciturn train` would choose."""
    clip = scale.public_clip
    return NamedArm(name, NoisyGradient, _gradient(clip), clip, scale.public_rounds)


def exact_arm(name: str, scale: Scale) -> Arm:
    """Return ADMM with exact steps: Algorithm 1, PVP (Algorithm 2) or DVP.

    The first two differ in their terms alone: without noise, and with noise on the answer.
    """

    def oracle(problem: Problem) -> Oracle:
        agents = at_agents(problem, scale.regulariser_at)
        step = ProximalStep(agents, clip=scale.clip, rho=scale.rho, record_norm=1.0)
        return PerturbedStep(step) if name == DVP else replace(step, tol=scale.tolerance)

    algorithm = partial(ADMM, rho=scale.rho, regulariser_at=scale.regulariser_at)
    return Arm(name, algorithm, oracle, scale.clip, scale.rounds)


def _gradient(clip: float) -> Callable[[Problem], Oracle]:
    return lambda problem: Gradient(problem.loss, clip)


@dataclass(frozen=True)
class Records:
    """One repetition's records: shared out among agents, and a test part."""

    shards: Shards
    test: Shard

    @property
    def digest(self) -> str:
        """What tells these training records from others; a file of the user's may change."""
        data = self.shards.stacked
        content = (np.asarray(data.features).tobytes(), np.asarray(data.targets).tobytes())
        return hashlib.sha256(b"".join(content)).hexdigest()[:16]


def records(dataset: Dataset, rows: int, agents: int, *, seed: int) -> Records:
    """Return `rows` training records dealt out at random, and all test records, by one seed."""
    parts = split(dataset, seed=seed)
    owners = list(random_partition(rows, agents, seed=seed))
    shards = packed(parts.train_features, parts.train_targets, owners, norm=dataset.record_norm)
    test = packed_test(parts.test_features, parts.test_targets, norm=dataset.record_norm)
    return Records(shards, test)


@jax.jit
def errors(problem: Problem, test: Shard, iterates: Float[Array, "B A D"]) -> Float[Array, " B"]:
    """Return the mean over the agents' iterates of the fraction of wrong labels on test records."""

    def of_run(models: Float[Array, "A D"]) -> Float[Array, ""]:
        return jnp.mean(problem.loss.error(test.features @ models.T, test.targets[:, None]))

    found: Array = jax.lax.map(of_run, iterates)
    return found


@jax.jit
def losses(problem: Problem, data: Shard, iterates: Float[Array, "B A D"]) -> Float[Array, " B"]:
    """Return the empirical loss (1/n) sum_i (1/m_i) sum_j l(a_ij, b_ij, w_i), no regulariser.

    `iterates` holds a w_i for every agent; the same for all to measure one model.
    """
    values = jax.vmap(_local_loss, (None, 0, 1), 1)(problem, data, iterates)
    return jnp.mean(values, axis=1)


@jax.jit
def augmented(
    problem: Problem,
    data: Shard,
    iterates: Float[Array, "T A D"],
    publics: Float[Array, "T D"],
    rho: Float[Array, ""] | float,
) -> Float[Array, " T"]:
    """Return sum_i (f_i(wbar_i^k) + rho |wbar_i^k - wbar^k|) after every round k.

    wbar are means over the rounds so far; f_i has the regulariser, as in section V of the paper.
    The means of a non-smooth method start one round earlier, at w_i^0: hand over the iterates
    shifted by one round then.
    """
    rounds = jnp.arange(1, len(publics) + 1, dtype=publics.dtype)
    local_iterates = jnp.cumsum(iterates, axis=0) / rounds[:, None, None]
    shared = jnp.cumsum(publics, axis=0) / rounds[:, None]
    values = jax.vmap(_local_loss, (None, 0, 1), 1)(problem, data, local_iterates)
    values = values + jax.vmap(jax.vmap(problem.regulariser.value))(local_iterates)
    apart = jnp.linalg.norm(local_iterates - shared[:, None], axis=-1)
    return jnp.sum(values + rho * apart, axis=1)


def _local_loss(problem: Problem, shard: Shard, models: Float[Array, "B D"]) -> Float[Array, " B"]:
    """Return the mean loss of one agent's records at every model; the mask counts them."""
    values = problem.loss.value(shard.features @ models.T, shard.targets[:, None])
    total: Array = shard.mask @ values
    return total / jnp.sum(shard.mask)


ERROR, LOCAL_ERROR = "test error, %", "test error at the agents' iterates, %"
LOSS, LOCAL_LOSS = "empirical loss at the common model", "empirical loss at the agents' iterates"
METRICS = (ERROR, LOCAL_ERROR, LOSS, LOCAL_LOSS)
AUGMENTED = "augmented objective"


@dataclass(frozen=True)
class Outcome:
    """What was measured.

    Attributes
    ----------
    samples
        By budget and metric: one value for each repetition, `(R,)`; `(R, T)` for `AUGMENTED`.
    refused
        Settings that no plan of this method can meet, with the reason.
    """

    arm: Arm
    samples: dict[tuple[Budget, str], HostArray]
    refused: dict[Budget, str]

    def at(self, budget: Budget, metric: str) -> Measured:
        """Return the mean and spread of a metric at the last round."""
        return Measured.of(self.samples[budget, metric])

    def course(self, budget: Budget) -> tuple[Measured, ...]:
        """Return the augmented objective after every round."""
        return Measured.columns(self.samples[budget, AUGMENTED])

    def spent(self, budget: Budget) -> Budget:
        """Return what a run under this budget spends."""
        return by_round(budget, self.arm.rounds)


def measured(  # noqa: PLR0913 - one parameter per fact about the runs
    arm: Arm,
    problem: Problem,
    budgets: Sequence[Budget],
    dealt: Callable[[int], Records],
    repetitions: int,
    *,
    where: str,
    rho: float,
    followed: Callable[[Budget], bool] = lambda _: False,
) -> Work[Outcome]:
    """Return what an arm achieves under every budget; repetition r draws its noise from seed r.

    All budgets of a repetition share the noise draws, scaled by what each of them needs.

    Parameters
    ----------
    dealt
        From the seed of a repetition to its records.
    where
        What tells these runs from others of the arm.
    rho
        The weight of the distance in the augmented objective.
    followed
        The budgets whose augmented objective is measured after every round.
    """
    first = dealt(0)
    plans, refused = planned(arm, problem, budgets, first)
    known = (where, arm.name, first.digest)
    chosen, places = different(list(plans.values()))
    watched = frozenset(p for s, p in zip(plans, places, strict=True) if followed(s))

    def portion(seed: int) -> Portion:
        def compute() -> dict[str, HostArray]:
            looks = _look(problem, chosen, dealt(seed), seed=seed, watched=watched, rho=rho)
            return {
                f"{place} {metric}": value
                for place, look in enumerate(looks)
                for metric, value in look.items()
            }

        title = f"{where}: {arm.name}, {len(chosen)} budgets, repetition {seed + 1}"
        return Portion(title, (*known, seed), compute)

    def whole(results: Results) -> Outcome:
        looks = [results[(*known, seed)] for seed in range(repetitions) if plans]
        samples = {
            (budget, metric): np.stack([look[f"{place} {metric}"] for look in looks])
            for budget, place in zip(plans, places, strict=True)
            for metric in (*METRICS, AUGMENTED)
            if f"{place} {metric}" in looks[0]
        }
        return Outcome(arm, samples, refused)

    return Work(tuple(map(portion, range(repetitions if plans else 0))), whole)


def planned(
    arm: Arm, problem: Problem, budgets: Sequence[Budget], one: Records
) -> tuple[dict[Budget, Plan], dict[Budget, str]]:
    """Return the plans of the budgets that can be met, and why the others cannot."""
    plans, refused = {}, {}
    for budget in dict.fromkeys(budgets):
        try:
            plans[budget] = arm.plan(problem, one.shards, budget.terms)
        except InputError as error:
            refused[budget] = str(error)
    return plans, refused


def _look(
    problem: Problem,
    plans: list[Plan],
    one: Records,
    *,
    seed: int,
    watched: frozenset[int],
    rho: float,
) -> list[dict[str, HostArray]]:
    """Return the metrics of every plan in one repetition."""
    keep = frozenset({"messages", "models"} if watched else {"messages"})
    models, trace = swept(plans, one.shards, seed=seed, keep=keep)
    local_iterates = _local_iterates(models, trace)
    shared = jnp.broadcast_to(models[:, None], local_iterates.shape)
    data = one.shards.stacked
    values = {
        ERROR: 100 * np.asarray(errors(problem, one.test, shared[:, :1])),
        LOCAL_ERROR: 100 * np.asarray(errors(problem, one.test, local_iterates)),
        LOSS: np.asarray(losses(problem, data, shared)),
        LOCAL_LOSS: np.asarray(losses(problem, data, local_iterates)),
    }
    looks = [
        {name: np.asarray(v[place]) for name, v in values.items()} for place in range(len(plans))
    ]
    for place in watched:
        looks[place][AUGMENTED] = _followed(problem, one, place, trace, rho)
    return looks


def _local_iterates(models: Array, trace: Trace) -> Array:
    """Return the agents' last iterates `(B, A, D)`: the model itself where they keep none."""
    agents = trace.records.kind.shape[-1]
    if isinstance(trace.messages, DualMessage):
        last: Array = trace.messages.iterate[:, -1]
        return last
    return jnp.broadcast_to(models[:, None], (len(models), agents, models.shape[-1]))


def _followed(problem: Problem, one: Records, place: int, trace: Trace, rho: float) -> HostArray:
    """Return the augmented objective by round; the means of a non-smooth method start at w^0."""
    iterates = trace.messages.iterate[place]
    if not np.isfinite(problem.regulariser.smoothness):
        iterates = jnp.concatenate([jnp.zeros_like(iterates[:1]), iterates[:-1]])
    data = one.shards.stacked
    return np.asarray(augmented(problem, data, iterates, trace.models[place], rho))
