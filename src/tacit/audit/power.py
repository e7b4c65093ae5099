"""The power of an attacker on runs as a user makes them, against what the certificate allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from tacit import checks
from tacit.audit.likelihood import upper_rate
from tacit.audit.orders import Order, climbing, staircase
from tacit.audit.porous import Ask, answer_of, most_hits
from tacit.audit.subjects import subject_named
from tacit.engine import Plan
from tacit.privacy import Certificate, ReplaceOne
from tacit.problems import pack
from tacit.typing import HostArray, Precision


@dataclass(frozen=True)
class Power:
    """What an attacker who sees one noised answer of each run attains.

    Attributes
    ----------
    hits, alarms, runs
        Runs on the first data set that are named rightly, runs on the second that are not, and the
        runs on each.
    certificate
        Of the plan.
    """

    hits: int
    alarms: int
    runs: int
    certificate: Certificate

    @property
    def true_positives(self) -> tuple[float, float]:
        """The Clopper-Pearson interval of the rate of true positives, at 98 %."""
        return _interval(self.hits, self.runs)

    @property
    def allowed(self) -> float:
        """The true positives that the certificate allows at the upper bound on the false ones."""
        return most_hits(self.certificate, _interval(self.alarms, self.runs)[1])

    @property
    def ratio(self) -> float:
        """The lower bound on the true positives over what is allowed."""
        return self.true_positives[0] / self.allowed


def power(
    *, records: int, runs: int, precision: Precision = "float32", ask: Ask | None = None
) -> Power:
    """Return what an attacker attains with records that climb the stairs, end to end.

    Runs are as a user makes them, with noise from the operating system. A third of them show where
    the answers lie; a threshold at which a normal attacker has 1 % of false positives is fixed from
    these, and applied to the others. Gradient, one answer, epsilon 1.
    """
    checks.at_least("runs", runs, 3)
    subject = subject_named("gradient", records, ReplaceOne())
    planned = subject.planned(records, 2, precision)
    trials = climbing(subject, staircase(records, Order(), 1.0, precision), records, 2)
    sides = ((trials.features, trials.targets), (trials.others, trials.other_targets))
    first, second = (_first_coordinates(planned, *side, runs, ask or answer_of) for side in sides)
    known = max(1, runs // 3)
    gap = float(np.mean(first[:known]) - np.mean(second[:known]))
    way, scale = (1.0 if gap >= 0 else -1.0), float(planned.ledger.scale.flat[0])
    threshold = float(np.mean(way * second[:known])) - float(ndtri(0.01)) * scale
    hits, alarms = (int(np.sum(way * side[known:] > threshold)) for side in (first, second))
    return Power(hits, alarms, runs - known, planned.certificate)


def _first_coordinates(
    planned: Plan, features: HostArray, targets: HostArray, runs: int, ask: Ask
) -> HostArray:
    parts = [np.arange(targets.shape[1])]
    shards = pack(
        features[0], targets[0], parts, record_norm=1.0, precision=planned.precision, enforce="clip"
    )
    return np.array([float(ask(planned, shards)[0]) for _ in range(runs)])


def _interval(events: int, runs: int) -> tuple[float, float]:
    return 1 - upper_rate(runs - events, runs, 0.02), upper_rate(events, runs, 0.02)
