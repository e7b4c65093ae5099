"""Replay: what every answer would have been exactly, under D and D', on the same public history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.engine import simulate
from tacit.engine.door import Private, Recorded, Replay
from tacit.engine.planning import Plan
from tacit.engine.protocol import Trace
from tacit.oracles import Oracle
from tacit.typing import HostArray, Key, PyTree


@dataclass(frozen=True)
class ReplayReport:
    """What one recorded run says about a pair of data sets.

    Attributes
    ----------
    exact
        `(T, E, A, *shape)`: un-noised answers of the first data set.
    worst_ratio
        Largest |exact(D) - exact(D')| / bound over all answers; above 1 breaks law 1.
    realised_mu, planned_mu
        sqrt(sum |change|^2 / scale^2) of the pair on this history, and sqrt(sum (bound/scale)^2),
        the certificate's mu for an observer of messages; the largest agent's. On sampled batches
        both are those of an observer who knows the batches.
    message_gap
        Largest difference between a message as sent and as recomputed from recorded answers,
        relative to the largest message; above rounding it is a leak.
    """

    exact: HostArray
    worst_ratio: float
    realised_mu: float
    planned_mu: float
    message_gap: float

    @property
    def bounds_hold(self) -> bool:
        """Whether every change is within its bound and the realised mu within the planned one."""
        return self.worst_ratio <= 1 + 1e-9 and self.realised_mu <= self.planned_mu * (1 + 1e-9)

    @property
    def messages_hold(self) -> bool:
        """Whether the wire carried nothing but functions of recorded answers (1e-10)."""
        return self.message_gap <= 1e-10


def replay(
    plan: Plan,
    oracles: tuple[Oracle, ...],
    trace: Trace,
    first: Private,
    second: Private,
    *,
    key: Key | None = None,
) -> ReplayReport:
    """Return the replay of a run that kept its answers and messages.

    Parameters
    ----------
    oracles
        The questions as they were really answered (a broken one, if that is what is audited).
    trace
        Of a run on `first`.
    key
        The key of that run, if an oracle samples: its batches are then drawn again.
    """
    answers = trace.records.answer
    exact, messages = _exact(plan, Replay(oracles, key), answers, first)
    other, _ = _exact(plan, Replay(oracles, key), answers, second)
    change = _norms(exact - other, plan.ledger.mechanism.norm)
    ledger = plan.ledger
    bound, scale = np.moveaxis(ledger.sensitivity, 0, -1), np.moveaxis(ledger.scale, 0, -1)
    asked = np.moveaxis(ledger.asked, 0, -1)
    realised = np.sqrt(np.sum(_quotient(change, scale, asked) ** 2, axis=(0, 1)))
    return ReplayReport(
        exact=exact,
        worst_ratio=float(np.max(_quotient(change, bound, asked))),
        realised_mu=float(np.max(realised)),
        planned_mu=float(np.max(np.sqrt(np.sum(ledger.ratios() ** 2, axis=(1, 2))))),
        message_gap=_gap(messages, trace.messages),
    )


def _exact(plan: Plan, door: Replay, answers: Any, private: Private) -> tuple[HostArray, PyTree]:
    recorded = Recorded(private, jnp.moveaxis(answers, 2, 0))
    _, trace = simulate(plan.program, door, recorded, keep=frozenset({"messages"}))
    return np.asarray(trace.records.exact), trace.messages


def _quotient(change: HostArray, size: HostArray, asked: HostArray) -> HostArray:
    """Return change / size where a question was asked; elsewhere infinity for any change, or 0."""
    unasked = np.where(change > 0, np.inf, 0.0)
    return np.divide(change, size, out=unasked, where=asked)


def _norms(change: HostArray, norm: str) -> HostArray:
    flat = change.reshape(*change.shape[:3], -1)
    norms: HostArray = np.linalg.norm(flat, ord=1 if norm == "l1" else 2, axis=-1)
    return norms


def _gap(recomputed: PyTree, sent: PyTree) -> float:
    pairs = zip(jax.tree.leaves(recomputed), jax.tree.leaves(sent), strict=True)
    difference, size = 0.0, 1e-300
    for ours, theirs in pairs:
        difference = max(difference, float(jnp.max(jnp.abs(ours - theirs))))
        size = max(size, float(jnp.max(jnp.abs(theirs))))
    return difference / size
