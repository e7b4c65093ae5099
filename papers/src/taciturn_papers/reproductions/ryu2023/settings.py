"""The numbers of the paper, and how many of them a run takes up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from jaxtyping import Float

from taciturn.typing import HostArray
from taciturn_papers.reproductions.figure import Measured

Section = Literal["fl", "grid"]
PARTS: tuple[Section, ...] = ("fl", "grid")
PER_UPDATE = (0.05, 0.1, 0.5, 1.0)
Arm = Literal["ObjG", "ObjL", "OutG", "OutL", "OutG projected"]
OBJ: Final = "ObjG"
OUT: Final = "OutG"
PROJECTED: Final = "OutG projected"


def multiplier(arm: str, per_update: float, delta: float) -> float:
    """Return noise scale over sensitivity: sqrt(2 ln(1.25/delta)) / e, or 1/e for Laplace noise."""
    return (1.0 if arm.endswith("L") else math.sqrt(2 * math.log(1.25 / delta))) / per_update


class Trial(NamedTuple):
    """What one curve is measured under.

    Attributes
    ----------
    arm, updates, per_update
        The arm, E, the epsilon of one update.
    rho
        The schedule: "(E.1)", a share of it, or a constant.
    box
        Half the width of the constraint, where it is not the paper's.
    """

    arm: str
    updates: int
    per_update: float
    rho: str = "(E.1)"
    box: float | None = None


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
        "mnist", "femnist", or FILE.csv:TARGET.
    records
        Training records that are dealt out; None: all.
    agents
        P: how many they are dealt out to at random, or, where records have owners, how many of
        these take part, the first ones in the files; None: all owners.
    rounds, updates, per_update, seeds
        T; the values of E; the epsilons of one update; repetitions.
    looks
        After how many of the rounds the metrics are measured.
    box, binding_box
        u of W_p = [-u, u], agent by agent and from the start again where these are fewer; and a
        second one, the same for all, that is small enough to bind; None: it is left out.
    rho, other_rhos
        c_1, c_2 and T_c of (E.1), and the constants of Figure 7.
    step
        eta_t = step / sqrt(t).
    record_norm
        Longer records are scaled down to it; ours: the paper takes the longest that it finds.
    delta
        Of one update and of the total.
    arms
        "OutG projected" is ours, and is run at the first E only.
    """

    data: str
    records: int | None
    agents: int | None
    rounds: int
    updates: tuple[int, ...]
    per_update: tuple[float, ...]
    seeds: int
    looks: int
    box: tuple[float, ...]
    binding_box: float | None
    rho: tuple[float, ...]
    other_rhos: tuple[float, ...] = (0.1, 1.0, 10.0)
    step: float = 1.0
    record_norm: float = 10.0
    delta: float = 1e-6
    arms: tuple[Arm, ...] = (OBJ, OUT, PROJECTED)


@dataclass(frozen=True)
class GridRuns:
    """How much of the power flow is run on one network.

    Attributes
    ----------
    case
        "case14", "case118", or a MATPOWER file.
    rounds, updates, per_update, seeds
        T; the values of E; the epsilons of one update; repetitions: as published.
    totals, question_rounds, question_seeds
        Total epsilons, rounds and repetitions of the comparison of questions.
    readings
        From how many rounds the attacker reads the demand.
    zones
        A number, or a file with one zone per line; "given": those of the case, or three grown.
    beta, delta
        One demand moves by at most beta, per unit; delta of one update and of the total.
    rho, step
        Of the published runs; eta_t = step / sqrt(t).
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
    zones: str = "given"
    beta: float = 0.01
    delta: float = 1e-2
    rho: float = 100.0
    step: float = 1.0


@dataclass(frozen=True)
class Scale:
    """How much is run: "quick", "default" or "full".

    Attributes
    ----------
    bound_rounds, bound_runs
        Rounds and runs of each theorem of section 5 on its small problem.
    """

    name: Literal["quick", "default", "full"]
    learning: tuple[Learning, ...]
    grids: tuple[GridRuns, ...]
    bound_rounds: int = 1_000
    bound_runs: int = 50


_E = (1, 5, 10)
_MNIST, _FEMNIST = (2.0, 5.0, 10_000.0), (0.005, 0.05, 2_000.0)
_FEWER = (0.05, 0.1, 1.0)  # of PER_UPDATE: both ends and one between
_TOTALS = (0.3, 1.0, 3.0, 10.0)
FULL = Scale(
    "full",
    (
        Learning("mnist", None, 10, 5_000, _E, PER_UPDATE, 5, 20, (0.1,), 0.01, _MNIST),
        Learning("femnist", None, None, 5_000, _E, PER_UPDATE, 5, 20, (1.0,), 0.1, _FEMNIST),
    ),
    (
        GridRuns("case14", 100, (1, 5), PER_UPDATE, 5, _TOTALS, 100, 10, 20),
        GridRuns("case118", 100, (1, 5), PER_UPDATE, 5, _TOTALS, 100, 10, 20),
    ),
)
DEFAULT = Scale(
    "default",
    (
        Learning("mnist", None, 10, 100, _E, PER_UPDATE, 5, 8, (0.1,), 0.01, _MNIST),
        Learning("femnist", None, None, 15, _E, _FEWER, 5, 6, (1.0,), 0.1, _FEMNIST),
    ),
    (
        GridRuns("case14", 100, (1, 5), PER_UPDATE, 5, _TOTALS, 40, 5, 8),
        GridRuns("case118", 100, (1, 5), PER_UPDATE, 5, (0.3, 10.0), 25, 5, 4),
    ),
)
QUICK = Scale(
    "quick",
    (
        Learning("mnist", 3_000, 10, 40, (1, 5), (0.05, 1.0), 5, 6, (0.1,), 0.01, _MNIST),
        Learning("femnist", None, 12, 10, (1, 5), (0.05, 1.0), 5, 5, (1.0,), 0.1, _FEMNIST),
    ),
    (
        GridRuns("case14", 20, (1, 5), (0.05, 1.0), 5, (1.0, 10.0), 15, 3, 3),
        GridRuns("case118", 4, (1, 5), (0.05, 1.0), 3, (1.0, 10.0), 4, 1, 1),
    ),
    100,
    20,
)
