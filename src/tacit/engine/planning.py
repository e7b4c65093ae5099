"""Planning: from public facts and a budget to schedules, noise scales and a predicted ledger.

No data can be reached from here. The order is: noise multiplier from the budget; schedules, which
may depend on it; bounds; scales; ledger and certificate.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tacit import checks
from tacit.algorithms import Algorithm, Noise
from tacit.engine.calibration import first_multiplier, within_budget
from tacit.engine.credit import certificate_of, credits_summation
from tacit.engine.program import Design, Draft, Program, check_noise, connect, drafted, scales_for
from tacit.engine.tracing import check_traces
from tacit.errors import InputError
from tacit.network import Network
from tacit.oracles import Oracle, check_of_library
from tacit.privacy import (
    Adjacency,
    Certificate,
    Gaussian,
    Inside,
    Ledger,
    Mechanism,
    Messages,
    NoNoise,
    Observer,
    SensitivityBound,
    Sum,
    Terms,
)
from tacit.privacy.folding import folded
from tacit.spec import Spec
from tacit.typing import HostArray, Precision

MOST_ANSWERS = 10**8
# fields of a certificate that a run decides; with a seed the attacker's rate is 1
_OF_A_RUN = frozenset({"conditions", "conditional", "reproduction", "attacker_tpr"})


@dataclass(frozen=True)
class Plan:
    """All of a run that is decided before a record is read; `digest` identifies it."""

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
    network: Network = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of the plan as JSON-safe values; arrays as nested lists."""
        network = self.program.network
        on_network = {"network": describe(network)} if network.written else {}
        return on_network | {
            "algorithm": describe(self.program.algorithm),
            "oracles": [describe(oracle) for oracle in self.program.oracles],
            "mechanism": describe(self.program.mechanism),
            "spec": dataclasses.asdict(self.spec),
            "rounds": self.rounds,
            "precision": self.precision,
            "multiplier": self.multiplier,
            "schedules": {name: compact(v) for name, v in self.schedules.items()},
            "scales": compact(self.ledger.scale),
            "steps": compact(self.ledger.steps),
            "sensitivity": [bound.derivation for bound in self.bounds],
            "certificate": self.certificate.to_dict(),
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON: two runs with one digest were the same design.

        What a run adds to the certificate, its conditions and the stamp of a seed, is left out.
        """
        design = self.to_dict()
        stated = design["certificate"].items()
        design["certificate"] = {name: value for name, value in stated if name not in _OF_A_RUN}
        text = json.dumps(design, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def plan(  # noqa: PLR0913 - what is run, on what terms, and how
    spec: Spec,
    algorithm: Algorithm,
    oracles: tuple[Oracle, ...],
    terms: Terms,
    *,
    rounds: int,
    precision: Precision,
    mechanism: Mechanism | None = None,
    network: Network = None,
    multiplier: float | None = None,
) -> Plan:
    """Return the plan of a run that spends exactly the budget of `terms`.

    Parameters
    ----------
    spec
        Public facts.
    oracles
        The questions that the algorithm may ask, in the order of their numbers.
    mechanism
        The law of the noise; Gaussian if none is given.
    network
        None for a star with an aggregator, a `tacit.network.Tree` for its methods without one, a
        `tacit.network.Mixing` for gossip, a `tacit.network.Walk` for a relay, on which a round is
        one hop.
    multiplier
        That of an earlier plan with the same questions and terms, which spares the search; the
        certificate does not rest on it. None: computed here, which may take seconds where batches
        are sampled.

    Raises
    ------
    InputError
        If an answer is not bounded and epsilon is finite, a setting is out of range, an oracle is
        about another loss than the algorithm or differs from the public facts (`Oracle.check`),
        the noise is not the library's, Poisson batches are asked for beyond epsilon 50,
        the oracles differ in the shape of their answers or in where the noise stands, or the
        network does not suit (`tacit.engine.program.connect`). If the run cannot be traced: an
        error in the algorithm or in a question, or a regulariser without a proximal map there.
    PrivacyError
        If the predicted ledger would cost more than the budget, which only a multiplier that was
        given can bring about.

    Notes
    -----
    **Guarantee.** The certificate was computed from the finished ledger, not from z, for every
    agent, and is at most the budget (`tacit.engine.calibration.within_budget`).
    With multiplier z = scale / sensitivity equal for all questions of an agent, n questions of
    Gaussian noise compose to mu = sqrt(n) / z exactly; z is chosen so that the (epsilon, delta)
    curve of that mu passes through the budget, with n that of the agent that answers most (on a
    relay: the privacy leakage frequency; the others spend less).
    Answers and noise stand on a lattice, and the noise is discrete: both make z larger by less than
    a millionth in most plans, and are in the ledger (`tacit.privacy.lattice`).
    A question whose noise has the `relative_multiplier` r has multiplier r z instead, in scales,
    ledger and calibration alike; z is then computed numerically.

    For the observer of sums, the noises of honest agents add: with k colluders, h = max(1, A - k)
    honest agents and the largest sensitivity D, each adds scale z D / sqrt(h). This is used only
    if `credits_summation` shows it; otherwise the plan falls back to the observer of all messages,
    which is always valid. On sampled batches, and for noise inside an objective, z is computed
    numerically (`multiplier_for_all`), which may take seconds, the certificate is the numerical
    accountant's, and summation is never credited.

    A person at up to M agents takes sqrt(M) times the z of a unit at a single agent, and M times
    for the observer of sums (`Adjacency.spread`).
    """
    rounds = checks.at_least("rounds", rounds, 1)
    checks.instance("oracles", oracles, tuple, "give a tuple, as in (Gradient(loss, clip=0.5),)")
    check_size(rounds, spec.agents)
    connected = connect(network, algorithm, spec.agents, rounds)
    check_parts(spec, terms, network)
    algorithm = algorithm.on_network(spec, network)
    questions = _numbered(algorithm, rounds, len(oracles))
    check_size(questions.size, spec.agents)
    law = NoNoise() if np.isinf(terms.epsilon) else (mechanism or Gaussian())
    check_noise(law, oracles, terms.epsilon)
    _check_shapes(oracles, spec)
    _check_questions(oracles, spec, terms.adjacency, algorithm, law)
    bounds = _bounds(oracles, spec, terms.adjacency, law)
    _check_stored(oracles, law, precision)
    inside = _inside(oracles, spec, terms.adjacency)
    design = Design(spec, algorithm, oracles, bounds, law, inside, connected)
    preview = bounds[0].value[:, 0, 0] * oracles[0].noise.relative_multiplier

    def draft(z: float, observer: Observer) -> Draft:
        noise = Noise(z, scales_for(preview, z, observer), oracles[0].sampling.rate)
        return drafted(design, questions, noise, observer, precision)

    @functools.cache  # where a person is at one agent, it is the same for every observer
    def start(spread: float) -> float:
        if multiplier is not None:
            return checks.not_negative("multiplier", multiplier)
        return first_multiplier(design, questions, terms, spread)

    def first(observer: Observer) -> float:
        return start(terms.adjacency.spread(spec.agents, observer))

    observer = terms.observer
    adds = isinstance(law, Gaussian | NoNoise)  # the sum of such noises is accounted for
    if isinstance(observer, Sum) and not (
        adds and credits_summation(draft(first(observer), observer).program)
    ):
        observer = Messages()
    settled = within_budget(
        lambda z: draft(z, observer),
        lambda it: certificate_of(it, oracles, terms, observer, connected, dealt=spec.dealt),
        first(observer),
        terms.epsilon,
        given=multiplier is not None,
    )
    summed = isinstance(observer, Sum) and isinstance(law, Gaussian)
    program = dataclasses.replace(settled.draft.program, summed=summed)
    check_traces(program, spec)
    return Plan(
        spec=spec,
        terms=terms,
        rounds=rounds,
        precision=precision,
        multiplier=settled.multiplier,
        schedules=settled.draft.schedules,
        bounds=bounds,
        ledger=settled.draft.ledger,
        certificate=settled.certificate,
        program=program,
        network=network,
    )


def check_parts(spec: Spec, terms: Terms, network: Network) -> None:
    """Raise `InputError` unless what a run is certified by is described by tacit's own classes."""
    adjacency = terms.adjacency
    check_of_library(spec, terms, adjacency, adjacency.relation, terms.observer, network)


def check_size(questions: int, agents: int) -> None:
    """Raise `InputError` if a run would give more answers than a ledger can hold in memory."""
    if questions * agents > MOST_ANSWERS:
        raise InputError(
            f"{questions} questions to each of {agents} agents are more than {MOST_ANSWERS:.0e} "
            "answers; ask for fewer rounds or local updates"
        )


def _numbered(algorithm: Algorithm, rounds: int, oracles: int) -> HostArray:
    """Return the number of the oracle of every question, -1 for none."""
    questions = np.asarray(algorithm.questions(rounds))
    if questions.ndim != 2 or len(questions) != rounds or questions.shape[1] < 1:
        raise InputError(
            f"{type(algorithm).__name__}.questions returned shape {questions.shape}; "
            f"it must be ({rounds}, questions per round)"
        )
    if not (
        np.issubdtype(questions.dtype, np.integer)
        and -1 <= questions.min() <= questions.max() < oracles
    ):
        raise InputError(
            f"{type(algorithm).__name__} asks questions {sorted(set(questions.ravel().tolist()))}; "
            f"there are {oracles} oracles, so a question is a whole number from -1 to {oracles - 1}"
        )
    return questions.astype(np.int32)


def _inside(oracles: tuple[Oracle, ...], spec: Spec, adjacency: Adjacency) -> Inside | None:
    """Return where the noise stands, once the oracles are seen to agree."""
    laws = [oracle.noise.law(spec, adjacency) for oracle in oracles]
    if len(oracles) > 1 and any(law is not None for law in laws):
        raise InputError(
            "noise inside an objective is accounted for where it is the plan's only question; plan "
            "the other questions separately"
        )
    return laws[0]


def _check_questions(
    oracles: tuple[Oracle, ...],
    spec: Spec,
    adjacency: Adjacency,
    algorithm: Algorithm,
    law: Mechanism,
) -> None:
    """Raise `InputError` unless every question is about the algorithm's loss and these facts."""
    loss, rho = algorithm.loss, algorithm.step_rho
    for oracle in oracles:
        Oracle.check(oracle, spec, adjacency, norm=law.norm, loss=loss, rho=rho)


def _check_shapes(oracles: tuple[Oracle, ...], spec: Spec) -> None:
    shapes = {oracle.answer_shape(spec.shape) for oracle in oracles}
    if len(shapes) != 1:
        raise InputError(
            f"the oracles of a plan must answer in one shape, these do in {sorted(shapes)}; plan "
            "their questions separately"
        )


def _check_stored(oracles: tuple[Oracle, ...], law: Mechanism, precision: Precision) -> None:
    """Raise `InputError` if targets would be rounded whose distance is what is protected."""
    if precision == "float64" or isinstance(law, NoNoise):
        return
    for oracle in oracles:
        if oracle.protects_targets:
            raise InputError(
                f"{type(oracle).__name__} protects a change of a target, and rounding targets to "
                "single precision can make it larger; use the precision float64"
            )


def _bounds(
    oracles: tuple[Oracle, ...], spec: Spec, adjacency: Adjacency, law: Mechanism
) -> tuple[SensitivityBound, ...]:
    """Return the sensitivity bounds; they must be finite unless the run is without noise."""
    bounds = tuple(oracle.bound(spec, adjacency, norm=law.norm) for oracle in oracles)
    for oracle, bound in zip(oracles, bounds, strict=True):
        if isinstance(law, NoNoise) or not np.any(np.isinf(bound.value)):
            continue
        if oracle.protects_targets:
            raise InputError(
                f"{type(oracle).__name__} is bounded where targets change and features are public; "
                f"use the relation TargetChange, not {adjacency.relation.name}"
            )
        raise InputError(
            "nothing bounds one record's gradient under this loss; clip the coefficient (clip=...) "
            "or ask for epsilon infinity"
        )
    return bounds


MOST_WRITTEN = 10_000


def describe(module: Any) -> Any:
    """Return a module as nested JSON-safe values: its class name and its fields.

    Fields without `repr` (the set-up of a solver) are left out. Arrays of more than `MOST_WRITTEN`
    numbers are given by shape, type and digest.
    """
    if isinstance(module, eqx.Module):
        shown = [f.name for f in dataclasses.fields(module) if f.repr]
        fields = {name: describe(getattr(module, name)) for name in shown}
        return {"class": type(module).__name__, **fields}
    if isinstance(module, (np.ndarray, np.generic, jax.Array)):
        return _array(np.asarray(module))
    if isinstance(module, tuple):
        return [describe(part) for part in module]
    return module


def _array(values: HostArray) -> Any:
    if values.size <= MOST_WRITTEN:
        return values.tolist()
    content = np.ascontiguousarray(values).tobytes()
    return {
        "shape": list(values.shape),
        "type": str(values.dtype),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def compact(values: HostArray) -> Any:
    """Return nested lists: of length 1 where an axis repeats its entry, one number if all do."""
    different = folded(values)
    return float(different.flat[0]) if different.size == 1 else different.tolist()
