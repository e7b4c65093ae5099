"""The numbers of the paper, and how many of them a run takes up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from jaxtyping import Float

from taciturn.typing import HostArray
from taciturn_papers.reproductions.figure import Measured

Section = Literal["fl", "grid"]
PARTS: tuple[Section, ...] = ("fl", "grid")
PER_UPDATE = (0.05, 0.1, 0.5, 1.0)

# federated learning: section 6.2.1
DELTA = 1e-6
BOX: Mapping[str, float] = MappingProxyType({"mnist": 0.1, "femnist": 1.0})
RECORD_NORM = 10.0  # ours: the paper takes the longest record that it finds
AGENTS = 10

# power flow: section 6.1.1
BETA, GRID_DELTA, GRID_RHO = 0.01, 1e-2, 100.0


class Trial(NamedTuple):
    """What one curve is measured under: an arm, E, the epsilon of one update, the choice of rho."""

    arm: str
    updates: int
    per_update: float
    rho: str = "(E.1)"


class Sampled:
    """Measurements by trial and metric, `(S, L)`: S repetitions, L of the rounds."""

    samples: dict[tuple[Trial, str], Float[HostArray, "S L"]]

    def at(self, trial: Trial, metric: str) -> Measured:
        """Return the mean and spread of a metric after the last round."""
        return Measured.of(self.samples[trial, metric][:, -1])

    def by_round(self, trial: Trial, metric: str) -> tuple[Measured, ...]:
        """Return a metric at every round that was measured."""
        return Measured.columns(self.samples[trial, metric])


@dataclass(frozen=True)
class Learning:
    """How much of the federated learning is run on one data set.

    Attributes
    ----------
    data
        "mnist" or "femnist".
    records
        Training records of MNIST, dealt out to ten agents; None: all.
    writers
        Agents of FEMNIST, the first ones in the files; None: all that are at hand.
    rounds, updates, per_update, seeds
        T; the values of E; the epsilons of one update; repetitions.
    looks
        After how many of the rounds the metrics are measured.
    """

    data: str
    records: int | None
    writers: int | None
    rounds: int
    updates: tuple[int, ...]
    per_update: tuple[float, ...]
    seeds: int
    looks: int


@dataclass(frozen=True)
class GridRuns:
    """How much of the power flow is run on one network.

    Attributes
    ----------
    rounds, updates, per_update, seeds
        T; the values of E; the epsilons of one update; repetitions: as published.
    totals, question_rounds, question_seeds
        Total epsilons, rounds and repetitions of the comparison of questions.
    readings
        From how many rounds the attacker reads the demand.
    """

    case: str
    rounds: int
    updates: tuple[int, ...]
    per_update: tuple[float, ...]
    seeds: int
    totals: tuple[float, ...]
    question_rounds: int
    question_seeds: int
    readings: int


@dataclass(frozen=True)
class Scale:
    """How much is run: "quick", "default" or "full"."""

    name: Literal["quick", "default", "full"]
    learning: tuple[Learning, ...]
    grids: tuple[GridRuns, ...]


_E = (1, 5, 10)
_FEWER = (0.05, 0.1, 1.0)  # of PER_UPDATE: both ends and one between
_TOTALS = (0.3, 1.0, 3.0, 10.0)
FULL = Scale(
    "full",
    (
        Learning("mnist", None, None, 5_000, _E, PER_UPDATE, 3, 20),
        Learning("femnist", None, None, 5_000, _E, PER_UPDATE, 3, 20),
    ),
    (
        GridRuns("case14", 100, (1, 5), PER_UPDATE, 5, _TOTALS, 100, 10, 20),
        GridRuns("case118", 100, (1, 5), PER_UPDATE, 5, _TOTALS, 100, 10, 20),
    ),
)
DEFAULT = Scale(
    "default",
    (
        Learning("mnist", None, None, 100, _E, _FEWER, 2, 8),
        Learning("femnist", None, None, 20, _E, _FEWER, 2, 6),
    ),
    (
        GridRuns("case14", 100, (1, 5), PER_UPDATE, 3, _TOTALS, 40, 5, 8),
        GridRuns("case118", 25, (1, 5), PER_UPDATE, 2, _TOTALS, 25, 3, 4),
    ),
)
QUICK = Scale(
    "quick",
    (
        Learning("mnist", 3_000, None, 40, (1, 5), (0.05, 1.0), 2, 6),
        Learning("femnist", None, 12, 10, (1, 5), (0.05, 1.0), 2, 5),
    ),
    (
        GridRuns("case14", 20, (1, 5), (0.05, 1.0), 2, (1.0, 10.0), 15, 3, 3),
        GridRuns("case118", 4, (1, 5), (0.05, 1.0), 2, (1.0, 10.0), 4, 1, 1),
    ),
)
