"""The federated learning of Ryu & Kim 2023: its arms and settings, and its measure of noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from tacit import checks
from tacit.algorithms import LinearisedADMM
from tacit.engine import Plan, Terms, plan
from tacit.errors import InputError
from tacit.oracles import Gradient, Oracle, ProjectedStep
from tacit.privacy import Adjacency, Gaussian, Laplace, Mechanism, Messages, ReplaceOne, account
from tacit.problems import Problem
from tacit.spec import Spec
from tacit.typing import HostArray
from tacit_papers.as_published import Form, PublishedSettings

# c_1, c_2 and T_c of (E.1)
CONSTANTS: Mapping[str, tuple[float, float, int]] = MappingProxyType(
    {"mnist": (2.0, 5.0, 10_000), "femnist": (0.005, 0.05, 2_000)}
)


@dataclass(frozen=True, kw_only=True)
class FederatedArm:
    """One curve of the paper's figures.

    Attributes
    ----------
    constants
        Whose c_1, c_2 and T_c: a key of `CONSTANTS`.
    arm, mechanism
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
    arm: Form
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
        checks.positive("per_update", self.per_update, allow_infinity=True)

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
        algorithm = LinearisedADMM(problem, self.local_updates, self.arm, settings, "records")
        oracle: Oracle = ProjectedStep(problem, math.inf)
        if self.arm == "objective":
            oracle = Gradient(problem.loss, math.inf)
        terms = Terms(self.total, self.delta, Adjacency(ReplaceOne(), "record"), Messages())
        law = None if isinstance(self.mechanism, Gaussian) else self.mechanism
        return plan(
            facts, algorithm, (oracle,), terms,
            rounds=self.rounds, precision="float32", mechanism=law,
        )  # fmt: skip


def noise_magnitude(made: Plan, arm: Form) -> Float[HostArray, " T"]:
    """Return the expectation of (6.5), sum_p sum_e (1/n) sum_i |xi_i|, in the paper's units.

    For "objective" xi is on the gradient of f_p, so its scale is a_p s / A (see
    `LinearisedADMM`); for the other arms on the solution, a_p s / (rho + 1/eta). A coordinate of
    scale s has |xi| = s sqrt(2/pi) on average if it is Gaussian, and s if it follows Laplace.
    Taken from the plan, so nothing is drawn.
    """
    values, scale = made.schedules, made.ledger.scale  # (A, T, E)
    felt = values["weight"] * np.sum(scale, axis=2)
    curvature = values["rho"] + values["inverse_step"]
    unit = made.spec.agents if arm == "objective" else curvature
    average = 1.0 if isinstance(made.ledger.mechanism, Laplace) else math.sqrt(2 / math.pi)
    total: HostArray = average * np.sum(felt, axis=0) / unit
    return total
