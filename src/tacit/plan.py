"""Planning: from public facts and a budget to schedules, noise scales and a predicted ledger.

No data can be reached from here. The order is: noise multiplier from the budget; schedules, which
may depend on it; bounds, which may depend on the schedules; scales; ledger and certificate.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from tacit import checks
from tacit.algorithms import Noise, StarAlgorithm
from tacit.credit import credits_summation
from tacit.describe import compact, describe
from tacit.errors import InputError, PrivacyError
from tacit.oracles import Oracle, Size
from tacit.privacy import (
    Adjacency,
    Certificate,
    Gaussian,
    Ledger,
    Mechanism,
    Messages,
    NoNoise,
    Observer,
    SensitivityBound,
    Sum,
    certify,
    gaussian_multiplier,
    mean_gradient_bound,
    multiplier_for,
)
from tacit.program import Program, cast
from tacit.spec import Spec
from tacit.typing import HostArray, Precision

MOST_ANSWERS = 10**8
MOST_EPSILON = 1e6


@dataclass(frozen=True)
class Terms:
    """The privacy that is wanted: a total budget, what neighbouring means, who is watching.

    `epsilon` may be infinite: the run is then without noise and says "no privacy".
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    observer: Observer

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon, allow_infinity=True)
        if MOST_EPSILON < self.epsilon < np.inf:
            raise InputError(
                f"epsilon {self.epsilon:g} protects nothing; give inf for a run without noise"
            )
        checks.delta(self.delta)


@dataclass(frozen=True)
class Plan:
    """A run, decided before any record is touched. Serialisable; `digest` names it."""

    spec: Spec
    terms: Terms
    rounds: int
    precision: Precision
    multiplier: float
    schedules: dict[str, HostArray]
    bounds: tuple[SensitivityBound, ...]
    ledger: Ledger
    certificate: Certificate
    program: Program

    def to_dict(self) -> dict[str, Any]:
        """Return all of the plan as JSON-safe values; arrays as nested lists."""
        return {
            "algorithm": describe(self.program.algorithm),
            "oracles": [describe(oracle) for oracle in self.program.oracles],
            "mechanism": describe(self.program.mechanism),
            "spec": dataclasses.asdict(self.spec),
            "rounds": self.rounds,
            "precision": self.precision,
            "multiplier": self.multiplier,
            "schedules": {name: compact(v) for name, v in self.schedules.items()},
            "scales": compact(self.ledger.scale),
            "sensitivity": [bound.derivation for bound in self.bounds],
            "certificate": self.certificate.to_dict(),
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON: two runs with one digest were the same design."""
        text = json.dumps(self.to_dict(), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def plan(  # noqa: PLR0913 - what is run, on what terms, and how
    spec: Spec,
    algorithm: StarAlgorithm,
    oracles: tuple[Oracle, ...],
    terms: Terms,
    *,
    rounds: int,
    precision: Precision,
    mechanism: Mechanism | None = None,
) -> Plan:
    """Return the plan of a run that spends exactly the budget of `terms`.

    Parameters
    ----------
    spec
        Public facts.
    oracles
        The questions that the algorithm may ask, in the order of their kinds.
    mechanism
        The law of the noise; Gaussian if none is given.

    Raises
    ------
    InputError
        If the record gradients are not bounded and epsilon is finite, or a setting is out of range.
    PrivacyError
        If the predicted ledger would cost more than the budget.

    Notes
    -----
    **Guarantee.** With multiplier z = scale / sensitivity equal for all questions of an agent, n
    questions of Gaussian noise compose to mu = sqrt(n) / z exactly; z is chosen so that the
    (epsilon, delta) curve of that mu passes through the budget. The certificate is computed again
    from the finished ledger, not from z.

    For the observer of sums, the noises of honest agents add: with k colluders, h = max(1, A - k)
    honest agents and the largest sensitivity D, each adds scale z D / sqrt(h). This is used only
    if `credits_summation` shows it; otherwise the plan falls back to the observer of all messages,
    which is always valid.
    """
    rounds = checks.at_least("rounds", rounds, 1)
    check_size(rounds, spec.agents)
    kinds = _questions(algorithm, rounds, len(oracles))
    law = NoNoise() if np.isinf(terms.epsilon) else (mechanism or Gaussian())
    _refuse_unbounded(spec, law)
    multiplier = _multiplier(terms, law, asked=int(np.sum(kinds >= 0)))

    def build(observer: Observer) -> _Draft:
        return _draft(
            _Design(spec, algorithm, oracles, terms, law), kinds, multiplier, observer, precision
        )

    draft = build(terms.observer)
    observer = terms.observer
    if isinstance(observer, Sum) and not _adds_up(draft.program):
        observer = Messages()
        draft = build(observer)
    certificate = certify(
        draft.ledger, delta=terms.delta, adjacency=terms.adjacency, observer=observer
    )
    certificate = _named_as_asked(certificate, terms.observer, observer)
    if not certificate.epsilon <= terms.epsilon * (1 + 1e-9):
        raise PrivacyError(
            f"the plan would spend epsilon {certificate.epsilon:g}; the budget is {terms.epsilon:g}"
        )
    return Plan(
        spec, terms, rounds, precision, multiplier, draft.schedules, draft.bounds, draft.ledger,
        certificate, draft.program,
    )  # fmt: skip


@dataclass(frozen=True)
class _Design:
    spec: Spec
    algorithm: StarAlgorithm
    oracles: tuple[Oracle, ...]
    terms: Terms
    mechanism: Mechanism


@dataclass(frozen=True)
class _Draft:
    schedules: dict[str, HostArray]
    bounds: tuple[SensitivityBound, ...]
    ledger: Ledger
    program: Program


def check_size(rounds: int, agents: int) -> None:
    """Raise `InputError` if a run would give more answers than a ledger can hold in memory."""
    if rounds * agents > MOST_ANSWERS:
        raise InputError(
            f"{rounds} rounds of {agents} agents are more than {MOST_ANSWERS:.0e} answers; "
            "ask for fewer rounds"
        )


def _adds_up(program: Program) -> bool:
    """Whether the sum of honest agents' noises has a law that is accounted for."""
    return isinstance(program.mechanism, Gaussian | NoNoise) and credits_summation(program)


def _questions(algorithm: StarAlgorithm, rounds: int, oracles: int) -> HostArray:
    """Return the kinds of all questions, each of them one of the oracles or -1."""
    kinds = np.asarray(algorithm.questions(rounds))
    if kinds.ndim != 2 or len(kinds) != rounds or kinds.shape[1] < 1:
        raise InputError(
            f"{type(algorithm).__name__}.questions returned shape {kinds.shape}; "
            f"it must be ({rounds}, questions per round)"
        )
    if not (np.issubdtype(kinds.dtype, np.integer) and -1 <= kinds.min() <= kinds.max() < oracles):
        raise InputError(
            f"{type(algorithm).__name__} asks kinds {sorted(set(kinds.ravel().tolist()))}; "
            f"there are {oracles} oracles, so a kind is a whole number from -1 to {oracles - 1}"
        )
    return kinds.astype(np.int32)


def _refuse_unbounded(spec: Spec, mechanism: Mechanism) -> None:
    if not isinstance(mechanism, NoNoise) and np.isinf(spec.gradient_bound):
        raise InputError(
            "nothing bounds one record's gradient under this loss; clip the coefficient (clip=...) "
            "or ask for epsilon infinity"
        )


def _multiplier(terms: Terms, mechanism: Mechanism, *, asked: int) -> float:
    if isinstance(mechanism, NoNoise) or asked == 0:
        return 0.0
    if isinstance(mechanism, Gaussian):
        return gaussian_multiplier(terms.epsilon, terms.delta, asked)
    return multiplier_for(
        mechanism.event,
        rounds=asked,
        epsilon=terms.epsilon,
        delta=terms.delta,
        relation=terms.adjacency.relation,
    )


def _draft(
    design: _Design, kinds: HostArray, multiplier: float, observer: Observer, precision: Precision
) -> _Draft:
    spec, norm, size = design.spec, design.mechanism.norm, Size(*kinds.shape)
    adjacency = design.terms.adjacency
    gradient = mean_gradient_bound(spec, adjacency, norm=norm, rounds=1, questions=1).value[:, 0, 0]
    noise = Noise(multiplier, _scales(gradient, multiplier, observer))
    schedules = design.algorithm.schedule(spec, size.rounds, noise)
    bounds = tuple(
        oracle.bound(spec, adjacency, norm=norm, size=size, values=schedules)
        for oracle in design.oracles
    )
    sensitivity = _by_kind(bounds, kinds)
    scale = _scales(sensitivity, multiplier, observer)
    asked = np.broadcast_to(kinds, sensitivity.shape)
    ledger = Ledger(asked, sensitivity, scale, design.mechanism)
    return _Draft(schedules, bounds, ledger, _program(design, kinds, schedules, scale, precision))


def _by_kind(bounds: tuple[SensitivityBound, ...], kinds: HostArray) -> HostArray:
    """Return the sensitivity `(A, T, E)` of the question in each slot; 0 where there is none."""
    value = np.zeros_like(bounds[0].value)
    for kind, bound in enumerate(bounds):
        value = np.where(kinds == kind, bound.value, value)
    return value


def _scales(sensitivity: HostArray, multiplier: float, observer: Observer) -> HostArray:
    """Return the noise scales for sensitivities with agents on the first axis."""
    if multiplier == 0:
        return np.zeros_like(sensitivity)
    if not isinstance(observer, Sum):
        return multiplier * sensitivity
    honest = max(1, sensitivity.shape[0] - observer.colluders)
    largest = np.max(sensitivity, axis=0, keepdims=True) / np.sqrt(honest)
    return multiplier * np.broadcast_to(largest, sensitivity.shape).copy()


def _program(
    design: _Design,
    kinds: HostArray,
    schedules: dict[str, HostArray],
    scale: HostArray,
    precision: Precision,
) -> Program:
    program = Program(
        algorithm=design.algorithm,
        oracles=design.oracles,
        mechanism=design.mechanism,
        kinds=jnp.asarray(kinds, jnp.int32),
        shared={name: jnp.asarray(v) for name, v in schedules.items() if v.ndim == 1},
        per_agent={name: jnp.asarray(v.T) for name, v in schedules.items() if v.ndim == 2},
        scales=jnp.moveaxis(jnp.asarray(_rounded_up(scale, precision)), 0, -1),
        template=jnp.zeros(design.spec.shape),
    )
    narrowed: Program = cast(program, jnp.dtype(precision))
    return narrowed


def _rounded_up(scale: HostArray, precision: Precision) -> HostArray:
    """Return the scales in the run's precision, never below what was planned."""
    narrow = scale.astype(precision)
    return np.where(narrow < scale, np.nextafter(narrow, np.inf, dtype=narrow.dtype), narrow)


def _named_as_asked(certificate: Certificate, asked: Observer, used: Observer) -> Certificate:
    """Keep the observer's name where it was certified at the value for all messages."""
    if asked == used:
        return certificate
    trust = (
        "none needed: this algorithm asks at private iterates, so nothing is credited to "
        "summation; this is the value for an observer of every message"
    )
    return dataclasses.replace(certificate, observer=asked.name, trust=trust)
