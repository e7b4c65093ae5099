"""The federated learning of Ryu & Kim 2023: its records, its runs and its measure of noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from jaxtyping import Float, Int

from taciturn.kernel.privacy import Gaussian, Laplace, ReplaceOne, account
from taciturn.kernel.records import random_partition
from taciturn.typing import HostArray
from taciturn_papers.as_published.local_schedules import Form
from taciturn_papers.as_published.local_updates import LocalUpdates, Round, box, rounds
from taciturn_papers.reproductions.data import dataset_named
from taciturn_papers.reproductions.figure import Budget
from taciturn_papers.reproductions.ryu2023.settings import (
    PROJECTED,
    Learning,
    Trial,
    multiplier,
)

_WHOLE = "(E.1)"
_SHARE = 100.0  # of (E.1) in Figure 7


@dataclass(frozen=True)
class Records:
    """One data set: the agents' records and a test part, in single precision.

    Attributes
    ----------
    title
        Of the data set.
    rows, labels
        `(I_p, J)` and `(I_p,)` of every agent.
    test_rows, test_labels
        Those of the test part.
    classes
        K.
    shortened
        The share of training records that the norm bound scaled down.
    """

    title: str
    rows: tuple[Float[HostArray, "_ J"], ...]
    labels: tuple[Int[HostArray, " _"], ...]
    test_rows: Float[HostArray, "M J"]
    test_labels: Int[HostArray, " M"]
    classes: int
    shortened: float

    @property
    def counts(self) -> tuple[int, ...]:
        """I_p of every agent."""
        return tuple(map(len, self.labels))

    @property
    def total(self) -> int:
        """I, the number of training records."""
        return sum(self.counts)

    @property
    def shape(self) -> tuple[int, int]:
        """J and K; their product is n, the number of weights."""
        return self.test_rows.shape[1], self.classes


def records(run: Learning) -> Records:
    """Return the records of a run, dealt out at random or by their owners.

    Raises
    ------
    DataError
        If the records are not at hand.
    """
    dataset = dataset_named(run.data)
    if dataset.owners is None:
        most = min(run.records or dataset.train_rows, dataset.train_rows)
        owners = list(random_partition(most, min(run.agents or 1, most), seed=0))
    else:
        owners = list(dataset.owners[: run.agents])
    rows = dataset.features.astype(np.float32)
    norms = np.linalg.norm(rows, axis=1)
    rows *= np.minimum(1, run.record_norm / np.maximum(norms, 1e-9)).astype(np.float32)[:, None]
    labels = dataset.targets if dataset.task == "multiclass" else (dataset.targets > 0) * 1
    return Records(
        title=dataset.title,
        rows=tuple(rows[own] for own in owners),
        labels=tuple(labels[own] for own in owners),
        test_rows=rows[dataset.train_rows :],
        test_labels=labels[dataset.train_rows :],
        classes=dataset.classes or 2,
        shortened=float(np.mean(norms[np.concatenate(owners)] > run.record_norm)),
    )


def schedules(run: Learning) -> dict[str, tuple[float, float, float]]:
    """Return c_1, c_2 and T_c of every schedule of Figure 7, the first of which is (E.1)."""
    first, private, period = run.rho
    shares = {_WHOLE: 1.0, f"{_WHOLE} / {_SHARE:g}": _SHARE}
    found = {name: (first / share, private / share, period) for name, share in shares.items()}
    return found | {f"{rho:g}": (rho, 0.0, math.inf) for rho in run.other_rhos}


def rho_of(run: Learning, trial: Trial) -> Float[HostArray, " T"]:
    """Return rho^t by (E.1) for a trial."""
    first, private, period = schedules(run)[trial.rho]
    t = np.arange(1, run.rounds + 1)
    found: HostArray = np.minimum(1e9, first * 1.2 ** (t // period) + private / trial.per_update)
    return found


def inverse_step(run: Learning) -> Float[HostArray, " T"]:
    """Return 1 / eta_t = sqrt(t) / step."""
    found: HostArray = np.sqrt(np.arange(1, run.rounds + 1)) / run.step
    return found


def noise_scale(run: Learning, one: Records, trial: Trial) -> float:
    """Return sigma, or b of Laplace noise, of one coordinate of xi on the gradient of f_p.

    A record adds x (s - e_y)' / I to it. |s - e_y| is at most sqrt(2) and |s - e_y|_1 at most 2, so
    a record that is replaced moves it by at most 2 sqrt(2) R / I, and in the 1-norm by at most 4
    sqrt(J) R / I, for all records: the supremum that (6.4) is about.
    """
    if math.isinf(trial.per_update):
        return 0.0
    moves = 4 * math.sqrt(one.shape[0]) if trial.arm.endswith("L") else 2 * math.sqrt(2)
    sensitivity = moves * run.record_norm / one.total
    return multiplier(trial.arm, trial.per_update, run.delta) * sensitivity


@cache
def budget_of(run: Learning, trial: Trial) -> Budget:
    """Return what all T E updates of a trial spend at delta: exact for normal noise."""
    if math.isinf(trial.per_update):
        return Budget(math.inf, run.delta)
    law = Laplace() if trial.arm.endswith("L") else Gaussian()
    event = law.event(multiplier(trial.arm, trial.per_update, run.delta))
    events = [(event, run.rounds * trial.updates)]
    return Budget(account(events, delta=run.delta, relation=ReplaceOne()).epsilon, run.delta)


def noise_magnitude(run: Learning, one: Records, trial: Trial) -> Float[HostArray, " T"]:
    """Return the expectation of (6.5), sum_p sum_e (1/n) sum_i |xi_i|; nothing is drawn.

    A coordinate of scale s has |xi| = s sqrt(2/pi) on average if it is normal, and s if it follows
    Laplace. Of an output, xi is on the solution, and rho + 1/eta times shorter.
    """
    average = 1.0 if trial.arm.endswith("L") else math.sqrt(2 / math.pi)
    size = average * noise_scale(run, one, trial) * len(one.counts) * trial.updates
    curvature = rho_of(run, trial) + inverse_step(run)
    found: HostArray = size / (curvature if trial.arm.startswith("Out") else np.ones(run.rounds))
    return found


def simulated(run: Learning, one: Records, trials: Sequence[Trial], seeds: int) -> Iterator[Round]:
    """Yield the rounds of trials that differ in epsilon alone; points are `(J, B S, K)`.

    All trials and arms draw the same noise, scaled to what each needs.
    """
    first, runs = trials[0], len(trials) * seeds
    widths = [first.box or run.box[p % len(run.box)] for p in range(len(one.counts))]
    draws = [[np.random.default_rng((s, p)) for s in range(seeds)] for p in range(len(widths))]
    scales = np.array([noise_scale(run, one, trial) for trial in trials], np.float32)
    columns, classes = one.shape

    def noise(agent: int) -> HostArray:
        found = np.empty((columns, len(trials), seeds, classes), np.float32)
        for seed, draw in enumerate(draws[agent]):
            if first.arm.endswith("L"):
                drawn = draw.laplace(0.0, 1.0, one.shape).astype(np.float32)
            else:
                drawn = draw.standard_normal(one.shape, np.float32)
            np.multiply(drawn[:, None], scales[:, None], out=found[:, :, seed])
        return found.reshape(columns, runs, classes)

    rho = np.stack([rho_of(run, trial) for trial in trials], axis=1)
    inverse = inverse_step(run).astype(np.float32)[:, None, None]
    form: Form = "output" if first.arm.startswith("Out") else "objective"
    yield from rounds(
        LocalUpdates(
            agents=len(one.counts),
            updates=first.updates,
            start=np.zeros((columns, runs, classes), np.float32),
            rho=np.repeat(rho, seeds, axis=1).astype(np.float32)[:, :, None],
            inverse_step=inverse,
            gradient=partial(gradient, one),
            noise=noise,
            within=box(widths),
            form="projected-output" if first.arm == PROJECTED else form,
        )
    )


def gradient(one: Records, agent: int, z: Float[HostArray, "J S K"]) -> Float[HostArray, "J S K"]:
    """Return the gradient of (6.3), f_p = (1/I) times the losses of the agent's records."""
    shares = _margins(one.rows[agent], z)
    shares -= shares.max(axis=2, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=2, keepdims=True)
    shares[np.arange(len(shares)), :, one.labels[agent]] -= 1
    found = one.rows[agent].T @ shares.reshape(len(shares), -1)
    found /= np.float32(one.total)
    return found.reshape(z.shape)


def _margins(rows: HostArray, z: HostArray) -> Float[HostArray, "I S K"]:
    margins: HostArray = rows @ z.reshape(len(z), -1)
    return margins.reshape(len(rows), *z.shape[1:])


def scores(one: Records, z: Float[HostArray, "J S K"]) -> tuple[HostArray, HostArray]:
    """Return F, the mean loss of all records, and test errors in per cent, `(S,)` each."""
    loss = np.zeros(z.shape[1])
    for rows, labels in zip(one.rows, one.labels, strict=True):
        margins = _margins(rows, z)
        most = margins.max(axis=2)
        chosen = margins[np.arange(len(rows)), :, labels]
        total = np.log(np.exp(margins - most[:, :, None]).sum(axis=2))
        loss += np.sum(most + total - chosen, axis=0, dtype=float)
    best = np.argmax(_margins(one.test_rows, z), axis=2)
    return loss / one.total, 100 * np.mean(best != one.test_labels[:, None], axis=0)
