"""One competitor under several budgets, over all repetitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from tacit.algorithms import DualMessage
from tacit.engine import Plan, Trace
from tacit.errors import InputError
from tacit.problems import Problem
from tacit.typing import Array, HostArray
from tacit_papers.reproductions.arms import Arm, different, swept
from tacit_papers.reproductions.figure import Budget, Measured
from tacit_papers.reproductions.huang2019.measure import Records, augmented, errors, losses
from tacit_papers.reproductions.huang2019.settings import RHO, Setting

ERROR, LOSS, OWN_LOSS = "test error, %", "empirical loss", "empirical loss at agents' own iterates"
AUGMENTED = "augmented objective"


@dataclass(frozen=True)
class Outcome:
    """What was measured.

    Attributes
    ----------
    samples
        By setting and metric: one value for each repetition, `(R,)`; `(R, T)` for `AUGMENTED`.
    refused
        Settings that no plan of this method can meet, with the reason.
    """

    arm: Arm
    samples: dict[tuple[Setting, str], HostArray]
    refused: dict[Setting, str]

    def at(self, setting: Setting, metric: str) -> Measured:
        """Return the mean and spread of a metric at the last round."""
        return Measured.of(self.samples[setting, metric])

    def by_round(self, setting: Setting) -> tuple[Measured, ...]:
        """Return the augmented objective after every round."""
        return tuple(Measured.of(column) for column in self.samples[setting, AUGMENTED].T)

    def budget(self, setting: Setting) -> Budget:
        """Return what a run under this setting spends."""
        return setting.budget(self.arm.rounds)


def trial(
    arm: Arm,
    problem: Problem,
    settings: Sequence[Setting],
    repetitions: Sequence[Records],
    *,
    followed: Callable[[Setting], bool] = lambda _: False,
) -> Outcome:
    """Return what an arm achieves under every setting; repetition r draws its noise from seed r.

    All settings of a repetition share the noise draws, scaled by what each of them needs.

    Parameters
    ----------
    followed
        The settings whose augmented objective is measured after every round.
    """
    plans, refused = planned(arm, problem, settings, repetitions[0])
    chosen, places = different(list(plans.values()))
    watched = frozenset(p for s, p in zip(plans, places, strict=True) if followed(s))
    looks = [
        _look(problem, chosen, one, seed=seed, watched=watched)
        for seed, one in enumerate(repetitions)
    ]
    samples = {
        (setting, metric): np.stack([look[place][metric] for look in looks])
        for setting, place in zip(plans, places, strict=True)
        for metric in looks[0][place]
    }
    return Outcome(arm, samples, refused)


def planned(
    arm: Arm, problem: Problem, settings: Sequence[Setting], one: Records
) -> tuple[dict[Setting, Plan], dict[Setting, str]]:
    """Return the plans of the settings that can be met, and why the others cannot."""
    plans, refused = {}, {}
    for setting in dict.fromkeys(settings):
        try:
            plans[setting] = arm.plan(problem, one.shards, setting.terms)
        except InputError as error:
            refused[setting] = str(error)
    if not plans:
        raise InputError(f"{arm.name} can meet none of its budgets: {refused}; ask for larger ones")
    return plans, refused


def _look(
    problem: Problem, plans: list[Plan], one: Records, *, seed: int, watched: frozenset[int]
) -> list[dict[str, HostArray]]:
    """Return the metrics of every plan in one repetition."""
    keep = frozenset({"messages", "models"} if watched else {"messages"})
    models, trace = swept(plans, one.shards, seed=seed, keep=keep)
    own = _own_iterates(models, trace)
    shared = jnp.broadcast_to(models[:, None], own.shape)
    data = one.shards.stacked
    values = {
        ERROR: 100 * np.asarray(errors(problem, one.test, models)),
        LOSS: np.asarray(losses(problem, data, shared)),
        OWN_LOSS: np.asarray(losses(problem, data, own)),
    }
    looks = [{name: v[place] for name, v in values.items()} for place in range(len(plans))]
    for place in watched:
        looks[place][AUGMENTED] = _followed(problem, one, place, trace)
    return looks


def _own_iterates(models: Array, trace: Trace) -> Array:
    """Return the agents' last iterates `(B, A, D)`: the model itself where they keep none."""
    agents = trace.records.kind.shape[-1]
    if isinstance(trace.messages, DualMessage):
        last: Array = trace.messages.iterate[:, -1]
        return last
    return jnp.broadcast_to(models[:, None], (len(models), agents, models.shape[-1]))


def _followed(problem: Problem, one: Records, place: int, trace: Trace) -> HostArray:
    """Return the augmented objective by round; the means of a non-smooth method start at w^0."""
    iterates = trace.messages.iterate[place]
    if not np.isfinite(problem.regulariser.smoothness):
        iterates = jnp.concatenate([jnp.zeros_like(iterates[:1]), iterates[:-1]])
    data = one.shards.stacked
    return np.asarray(augmented(problem, data, iterates, trace.models[place], RHO))
