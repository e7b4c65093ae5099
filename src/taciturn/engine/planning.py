"""Planning: from public facts and a budget to schedules, noise scales and a predicted ledger.

This module has no access to records. It computes, in order, the noise multiplier from the budget;
schedules, which may depend on it; bounds; scales; ledger and certificate.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from taciturn import checks
from taciturn.algorithms import Algorithm, Noise
from taciturn.calibration import (
    budget_after_lattice,
    deviation_of,
    gaussian_multiplier,
    lattice_share,
    multiplier_for_all,
    scales_for,
    spread_of,
)
from taciturn.certificates import stated
from taciturn.engine.credit import check_traces, credits_summation, leg_of
from taciturn.engine.program import (
    Design,
    Draft,
    Program,
    check_noise,
    connect,
    drafted,
)
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel import privacy
from taciturn.kernel.privacy import Law, Terms, folded, lattice_width
from taciturn.kernel.questions import Oracle, check_of_library, custom_classes, name_of_class
from taciturn.kernel.records import Side, Spec
from taciturn.network import Network
from taciturn.typing import HostArray, Precision

# share of a budget that may remain unspent if the total is computed numerically
_CLOSE = 1e-6
# a certificate further below the budget than this is so by design: it bounds the worst agent
_FAR = 1e-3
# relative excess of epsilon that rounding can cause at a multiplier taken from another plan
_OTHER_LATTICE = 1e-5
_MOST_TRIES = 30
# -d log(epsilon) / d log(multiplier): the first guess, and the limits of later estimates
_SLOPE, _FLATTEST, _STEEPEST = 3.0, 0.25, 20.0
MOST_ANSWERS = 10**8  # per run: a ledger holds one entry for each
MOST_WRITTEN = 10_000  # largest array that a plan is written with in full
# packages of this project, whose methods are trusted
_EXTENSIONS = ("taciturn_federation", "taciturn_papers", "taciturn_power")
# fields of a certificate that depend on the run; with a seed the attacker's rate is 1
_OF_A_RUN = frozenset({"conditions", "conditional", "reproduction", "attacker_tpr"})


class _Trial(NamedTuple):
    """A multiplier, the draft at it, and the draft's certificate.

    `excess`: log(epsilon / budget) within [-1, 1]; positive exactly if epsilon exceeds the budget.
    """

    multiplier: float
    draft: Draft
    certificate: privacy.Certificate
    excess: float


def within_budget(
    draft: Callable[[float], Draft],
    certify: Callable[[privacy.Ledger], privacy.Certificate],
    start: float,
    epsilon: float,
    *,
    given: bool,
    agent_epsilons: Sequence[float] | None = None,
) -> _Trial:
    """Return the least of the multipliers tried whose certificate is within the budget.

    `start`: the first multiplier. `agent_epsilons`: the budget of each agent, if these differ; its
    own epsilon must then be within it. `given`: whether the caller chose the multiplier; it may
    then leave any part of the budget unspent, and is raised only if rounding makes it exceed the
    budget. Raises `PrivacyError` if the caller's multiplier is too small for the budget.

    **Guarantee.** `certificate.epsilon <= epsilon`, or `certificate.per_agent_epsilon[i] <=
    agent_epsilons[i]` for every agent i, was evaluated on the finished ledger of the returned
    draft. The search does not assume that a numerical accountant is monotone: its grid
    moves with the multiplier, so epsilon jumps by about 1e-7 relative, and the lattice step doubles
    where a scale passes a power of two. If the total is not a mu, the search ends within a
    millionth of the budget, or with the least multiplier within it of 30 tries. For Gaussian
    answers, whose curve is exact, the first multiplier is as close.
    """

    def evaluate(multiplier: float) -> _Trial:
        drafted = draft(multiplier)
        certificate = certify(drafted.ledger)
        excess = _largest_excess(certificate, epsilon, agent_epsilons)
        return _Trial(multiplier, drafted, certificate, excess)

    trial, best = evaluate(start), None
    exact = given or start == 0 or trial.draft.ledger.has_mu or trial.excess < -_FAR
    room, most = math.inf if exact else _CLOSE, _OTHER_LATTICE if given else math.inf
    low, high, slope = -math.inf, math.inf, _SLOPE
    for _ in range(_MOST_TRIES):  # secant steps in logarithms, within a bracket
        if trial.excess <= 0 and (best is None or trial.multiplier < best.multiplier):
            best = trial
        if -room <= trial.excess <= 0 or trial.excess > most or start == 0:
            break
        place = math.log(trial.multiplier)
        low, high = (place, high) if trial.excess > 0 else (low, place)
        step = (trial.excess + _CLOSE / 2) / slope
        if not low < place + step < high:
            step = (low + high) / 2 - place  # the end that was passed is finite
        if step == 0:
            break
        last, trial = trial, evaluate(trial.multiplier * math.exp(step))
        slope = min(max((last.excess - trial.excess) / step, _FLATTEST), _STEEPEST)
    if best is None:
        raise PrivacyError(
            f"the plan would spend epsilon {trial.certificate.epsilon:.9g}; the budget is "
            f"{epsilon:g}. Leave the multiplier out, or give a larger one or a larger epsilon"
        )
    return best


def _largest_excess(
    certificate: privacy.Certificate, epsilon: float, agent_epsilons: Sequence[float] | None
) -> float:
    """Return the excess over the budget, or the largest of an agent over its own."""
    pairs = [(certificate.epsilon, epsilon)]
    if agent_epsilons is not None:
        pairs += zip(certificate.per_agent_epsilon, agent_epsilons, strict=True)
    return max(_excess(spent, budget) for spent, budget in pairs)


def _excess(spent: float, budget: float) -> float:
    """Return log(spent / budget) within [-1, 1]: 0 without a budget, positive exactly beyond it."""
    if not spent <= budget:
        return max(math.log(min(spent / budget, math.e)), math.ulp(1.0))
    return 0.0 if math.isinf(budget) else math.log(max(spent / budget, math.exp(-1)))


def first_multiplier(design: Design, asked: HostArray, terms: Terms, spread: float) -> float:
    """Return the multiplier at which answers and noise on their lattice fit the budget.

    Relative accuracy about 1e-6; `within_budget` refines it. `asked`: the oracle of every question
    to the agents whose budget it is, `(A, T, E)`. `spread`: the cost of a unit at several agents
    relative to one at a single agent (`spread_of`).
    """
    agents, adjacency, mechanism = design.spec.agents, terms.adjacency, design.mechanism
    some = asked >= 0
    if isinstance(mechanism, privacy.NoNoise) or design.inside is not None or not np.any(some):
        return spread * _multiplier(design, asked, terms)
    values = math.prod(design.oracles[0].answer_shape(design.spec.shape))
    answers = int(np.max(np.sum(some, axis=(1, 2)))) * min(adjacency.agents_per_person, agents)
    law: Law = "laplace" if isinstance(mechanism, privacy.Laplace) else "gaussian"
    epsilon, delta = budget_after_lattice(
        terms.epsilon, terms.delta, values=values * answers, law=law
    )
    left = dataclasses.replace(terms, epsilon=epsilon, delta=delta)
    real = spread * _multiplier(design, asked, left)
    width = lattice_width(values, mechanism.norm)
    shares = [
        lattice_share(
            1.01 * real * oracle.noise.relative_multiplier,
            width,
            poisson=oracle.sampling.rate < 1 and not oracle.sampling.size,
        )
        for oracle in design.oracles
    ]
    # the lattice enlarges every sensitivity by at most its share
    return real * (1 + max(shares)) * (1 + 1e-12)


def relative_noise(
    design: Design, asked: HostArray, terms: Terms, agent_epsilons: Sequence[float]
) -> tuple[float, HostArray]:
    """Return the least multiplier of an agent, and the multiplier of each relative to it, `(A,)`.

    **Guarantee.** The multiplier z_i of agent i is the least at which its answers, as many as it
    gives, cost epsilon_i (`first_multiplier`). Agents hold disjoint records and draw their noise
    independently, so what an observer of all messages learns about a record of agent i costs the
    answers of agent i alone (`taciturn.kernel.privacy.compose`): z_i need not depend on the budget
    or the noise of another agent. The certificate is recomputed from the finished ledger for every
    agent (`within_budget`), so an error here could only waste or refuse, not overspend.
    """
    known: dict[tuple[float, bytes], float] = {}
    each = []
    for number, epsilon in enumerate(agent_epsilons):
        row = asked[number : number + 1]
        counts = np.bincount(row.ravel() + 1, minlength=len(design.oracles) + 1)[1:]
        key = (epsilon, counts.tobytes())
        if key not in known:
            known[key] = first_multiplier(design, row, replace_epsilon(terms, epsilon), 1.0)
        each.append(known[key])
    least = min((z for z in each if z > 0), default=0.0)
    return least, np.array([max(z, least) / least if least else 1.0 for z in each])


def _of_agents(
    design: Design, asked: HostArray, terms: Terms, agent_epsilons: Sequence[float] | None
) -> tuple[Design, float | None]:
    """Return the design with the relative noise of each agent's budget, and the first multiplier.

    Without budgets of agents the design is unchanged and the multiplier None.
    """
    if agent_epsilons is None:
        return design, None
    check_agent_epsilons(agent_epsilons, design.spec, terms)
    if design.inside is not None:
        raise InputError(
            "noise inside an objective is calibrated for all agents together; leave the budgets "
            "of agents (agent-epsilons) out, or use noise that is added to the answer"
        )
    common, relative = relative_noise(design, asked, terms, agent_epsilons)
    return dataclasses.replace(design, relative=relative), common


def replace_epsilon(terms: Terms, epsilon: float) -> Terms:
    """Return the terms with another budget."""
    return dataclasses.replace(terms, epsilon=epsilon)


def check_agent_epsilons(agent_epsilons: Sequence[float], spec: Spec, terms: Terms) -> None:
    """Raise `InputError` unless each agent can have a budget of its own on these terms."""
    for epsilon in agent_epsilons:
        replace_epsilon(terms, checks.positive("an agent's epsilon", epsilon))
    why = None
    if len(agent_epsilons) != spec.agents:
        why = f"there are {len(agent_epsilons)} and {spec.agents} agents; give one for each"
    elif max(agent_epsilons) != terms.epsilon:
        why = (
            f"the largest is {max(agent_epsilons):g} and epsilon, the budget of the whole run, "
            f"{terms.epsilon:g}; make them equal"
        )
    elif not isinstance(terms.observer, privacy.Messages):
        why = (
            "under the observer sum every record is protected by the noise of all agents, so that "
            "none can have less than another; use the observer messages"
        )
    elif spec.dealt:
        why = (
            "the records have no owners and are dealt to the agents by a secret draw, so a record "
            "may be at any of them; give each agent its own file or name the agent of each row"
        )
    elif terms.adjacency.agents_per_person > 1:
        why = "a person has rows at several agents, all of which cost it; let each be at one agent"
    if why is not None:
        raise InputError(f"a budget is given for each agent (agent-epsilons), but {why}")


def _multiplier(design: Design, asked: HostArray, terms: Terms) -> float:
    """Return the multiplier at which all questions fit the budget, without a lattice."""
    mechanism, inside = design.mechanism, design.inside
    if asked.strides[0] == 0:  # one row, broadcast: all agents have the same questions
        asked = asked[:1]
    per_agent = [Counter(row[row >= 0].tolist()) for row in asked]
    most = functools.reduce(operator.or_, per_agent)  # by question, the largest count of an agent
    if isinstance(mechanism, privacy.NoNoise) or not most:
        return 0.0
    counts = [(design.oracles[number], count) for number, count in most.items()]
    plain = all(o.sampling.rate == 1 and o.noise.relative_multiplier == 1 for o, _ in counts)
    if isinstance(mechanism, privacy.Gaussian) and inside is None and plain:
        answers = max(counter.total() for counter in per_agent)
        return gaussian_multiplier(terms.epsilon, terms.delta, answers)

    def event(multiplier: float) -> privacy.Event:
        if inside is None:
            return mechanism.event(multiplier)
        # an upper bound on the cost of any agent's answer
        worst = (float(np.max(part)) for part in (inside.jacobian, inside.output_ratio))
        return privacy.PerturbedAnswer(multiplier, *worst)

    def events(multiplier: float) -> list[tuple[privacy.Event, int]]:
        return [
            (oracle.sampling.charged(event(multiplier * oracle.noise.relative_multiplier)), count)
            for oracle, count in counts
        ]

    return multiplier_for_all(
        events, epsilon=terms.epsilon, delta=terms.delta, relation=terms.adjacency.relation
    )


@dataclass(frozen=True)
class Plan:
    """A run as fixed before any record is read; identified by `digest`."""

    spec: Spec
    terms: Terms
    rounds: int
    precision: Precision
    multiplier: float
    schedules: dict[str, HostArray]
    bounds: tuple[privacy.SensitivityBound, ...]
    ledger: privacy.Ledger
    certificate: privacy.Certificate
    program: Program
    network: Network = None
    part: Side = "training"

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-safe values; arrays as nested lists."""
        on_star = self.network is None
        return ({} if on_star else {"network": describe(self.program.network)}) | {
            "algorithm": describe(self.program.algorithm),
            "oracles": [describe(oracle) for oracle in self.program.oracles],
            "mechanism": describe(self.program.mechanism),
            "spec": dataclasses.asdict(self.spec),
            "rounds": self.rounds,
            "precision": self.precision,
            "multiplier": self.multiplier,
            "schedules": {name: compact(v) for name, v in self.schedules.items()},
            "scales": compact(self.ledger.scale),
            "steps": compact(self.ledger.step),
            "sensitivity": [bound.derivation for bound in self.bounds],
            "certificate": stated(self.certificate),
        }

    @property
    def leg(self) -> privacy.Leg:
        """The plan's answers as a leg, derived from the questions, not from the certificate."""
        program, terms = self.program, self.terms
        observer = terms.observer if program.summed else privacy.Messages()
        asked = (self.ledger, program.oracles, terms, observer, program.network)
        return leg_of(*asked, self.spec, self.part)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON, without what a run adds to its certificate."""
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
    mechanism: privacy.Mechanism | None = None,
    network: Network = None,
    multiplier: float | None = None,
    part: Side = "training",
    agent_epsilons: Sequence[float] | None = None,
) -> Plan:
    """Return the plan of a run that spends exactly the budget of `terms`.

    - `spec`: Public facts.
    - `oracles`: The algorithm's questions, in the order of their numbers.
    - `mechanism`: The law of the noise; None for Gaussian.
    - `network`: None for a star, which has an aggregator; a `taciturn.network.Tree` for star
      methods without one, a `Mixing` for gossip, a `Walk` for a relay, on which a round is one hop.
    - `multiplier`: That of an earlier plan with the same questions and terms, to avoid the search
      (seconds if batches are sampled); the certificate does not rely on it.
    - `part`: The records queried: those trained on, or those held out.
    - `agent_epsilons`: The budget of each agent, the largest equal to `terms.epsilon`; None if all
      agents have the same. For the observer of all messages, records with owners and noise that is
      added to answers.

    Raises `InputError` if a setting is out of range; an answer is unbounded at a finite epsilon; an
    oracle disagrees with the algorithm's loss, the public facts (`Oracle.check`) or the other
    oracles' shape or noise; the noise is not the library's; Poisson batches are planned beyond
    epsilon 50; the network does not suit (`taciturn.engine.program.connect`); or the run cannot be
    traced (`taciturn.engine.credit.check_traces`). `PrivacyError` if a given `multiplier` costs
    more than the budget.

    **Guarantee.** The certificate is computed from the finished ledger, for every agent, and is at
    most the budget (`within_budget`). n questions of Gaussian noise with multiplier z = scale /
    sensitivity compose to mu = sqrt(n) / z exactly; z is chosen so that the curve of that mu passes
    through (epsilon, delta), with n that of the agent that answers most (on a relay: the privacy
    leakage frequency). Noise is discrete, on a lattice, which enlarges z by less than a millionth
    in most plans and is recorded in the ledger (`taciturn.kernel.privacy.mechanisms`). A question
    of `relative_multiplier` r has multiplier r z in scales, ledger and calibration; z is then
    computed numerically (`multiplier_for_all`), as for sampled batches and noise inside an
    objective.

    For the observer of sums, the noises of honest agents add: with k colluders, h = max(1, A - k)
    honest agents and the largest sensitivity D, each adds scale z D / sqrt(h). This requires
    `credits_summation`; otherwise the plan is for the observer of all messages, which is always
    valid. A person at up to M agents takes sqrt(M) times the z of a unit at one agent, and M times
    for the observer of sums (`taciturn.calibration.spread_of`).

    With `agent_epsilons` the multiplier of agent i is z r_i, r_i from epsilon_i and the number of
    its own answers (`relative_noise`), and the certificate of the finished ledger has
    `per_agent_epsilon[i] <= agent_epsilons[i]` for every agent. On a relay an agent with few
    answers then has less noise than the one that answers most.
    """
    rounds = checks.at_least("rounds", rounds, 1)
    checks.instance("oracles", oracles, tuple, "give a tuple, as in (Gradient(loss, clip=0.5),)")
    check_size(rounds, spec.agents)
    connected = connect(network, algorithm, spec.agents, rounds)
    check_parts(spec, terms, network)
    algorithm = algorithm.on_network(spec, network)
    questions = _numbered(algorithm, rounds, len(oracles))
    check_size(questions.size, spec.agents)
    law = privacy.NoNoise() if np.isinf(terms.epsilon) else (mechanism or privacy.Gaussian())
    check_noise(law, oracles, terms.epsilon)
    bounds, inside = _bounds(oracles, spec, terms.adjacency, algorithm, law, precision)
    design = Design(spec, terms.adjacency, algorithm, oracles, bounds, law, inside, connected)
    asked = connected.asked(questions)
    design, common = _of_agents(design, asked, terms, agent_epsilons)
    # schedules depend on the noise on question 0, before the scales of all questions are known
    preview = bounds[0].value[:, 0, 0] * oracles[0].noise.relative_multiplier * design.relative

    def draft(z: float, observer: privacy.Observer) -> Draft:
        deviation = deviation_of(scales_for(preview, z, observer), law)
        noise = Noise(z, deviation, oracles[0].sampling.rate)
        return drafted(design, questions, noise, observer, precision)

    known = common if multiplier is None else checks.not_negative("multiplier", multiplier)

    @functools.cache  # observers share the start for a person at one agent
    def start(spread: float) -> float:
        return first_multiplier(design, asked, terms, spread) if known is None else known

    def first(observer: privacy.Observer) -> float:
        return start(spread_of(terms.adjacency, spec.agents, observer))

    observer = terms.observer
    # only these laws have an accountant for the sum of noises
    adds = isinstance(law, privacy.Gaussian | privacy.NoNoise)
    if isinstance(observer, privacy.Sum) and not (
        adds and credits_summation(draft(first(observer), observer).program)
    ):
        observer = privacy.Messages()

    def certify(ledger: privacy.Ledger) -> privacy.Certificate:
        leg = leg_of(ledger, oracles, terms, observer, connected, spec, part)
        return privacy.compose((leg,), terms).certificate()

    found = within_budget(
        lambda z: draft(z, observer), certify, first(observer), terms.epsilon,
        given=multiplier is not None, agent_epsilons=agent_epsilons,
    )  # fmt: skip
    summed = isinstance(observer, privacy.Sum) and isinstance(law, privacy.Gaussian)
    program = dataclasses.replace(found.draft.program, summed=summed)
    if algorithm.runs_here:
        check_traces(program, spec)
    trusted = trusted_code(program)
    certificate = found.certificate.under(trusted, conditional=bool(trusted))
    return Plan(
        spec, terms, rounds, precision, found.multiplier, found.draft.schedules, bounds,
        found.draft.ledger, certificate, program, network, part,
    )  # fmt: skip


def trusted_code(program: Program) -> tuple[str, ...]:
    """Return the conditions of a certificate because of foreign code in the process with records.

    Methods, losses, sets and questions of neither the library nor its extensions.
    """
    parts = (program.algorithm, *program.oracles)
    return trust_conditions(name_of_class(kind) for part in parts for kind in custom_classes(part))


def trust_conditions(names: Iterable[str]) -> tuple[str, ...]:
    """Return these conditions for code with the names `module:name`."""
    foreign = [n for n in names if n.partition(":")[0].partition(".")[0] not in _EXTENSIONS]
    return tuple(
        f"{name} runs in the process that holds the records; that it reads them through the door "
        "alone is its author's word"
        for name in dict.fromkeys(foreign)
    )


def check_parts(spec: Spec, terms: Terms, network: Network) -> None:
    """Raise `InputError` unless spec, terms and network are of the library's classes."""
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
    """Return the checked oracle number of every question, -1 for none."""
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


def _bounds(
    oracles: tuple[Oracle, ...],
    spec: Spec,
    adjacency: privacy.Adjacency,
    algorithm: Algorithm,
    law: privacy.Mechanism,
    precision: Precision,
) -> tuple[tuple[privacy.SensitivityBound, ...], privacy.Inside | None]:
    """Return sensitivity bounds, finite if there is noise, and the law of noise in an objective.

    Raises `InputError` unless every question suits the algorithm's loss, these facts and the
    others.
    """
    shapes = {oracle.answer_shape(spec.shape) for oracle in oracles}
    if len(shapes) != 1:
        raise InputError(
            f"the oracles of a plan must answer in one shape, these do in {sorted(shapes)}; plan "
            "their questions separately"
        )
    quiet, loss, rho = isinstance(law, privacy.NoNoise), algorithm.loss, algorithm.step_rho
    for oracle in oracles:
        Oracle.check(oracle, spec, adjacency, norm=law.norm, loss=loss, rho=rho)
    bounds = tuple(oracle.bound(spec, adjacency, norm=law.norm) for oracle in oracles)
    for oracle, bound in zip(oracles, bounds, strict=True):
        name, bounded = type(oracle).__name__, quiet or not np.any(np.isinf(bound.value))
        if oracle.protects_targets and not bounded:
            raise InputError(
                f"{name} is bounded where targets change and features are public; "
                f"use the relation TargetChange, not {adjacency.relation.name}"
            )
        if not bounded:
            raise InputError(
                "nothing bounds one record's gradient under this loss; clip the coefficient "
                "(clip=...) or ask for epsilon infinity"
            )
        if oracle.protects_targets and precision != "float64" and not quiet:
            raise InputError(
                f"{name} protects a change of a target, and rounding targets to single precision "
                "can make it larger; use the precision float64"
            )
    return bounds, oracles[0].noise.law(spec, adjacency)


def describe(module: Any) -> Any:
    """Return a module as nested JSON-safe values: its class name and its fields.

    Fields without `repr` are omitted. Arrays above `MOST_WRITTEN` numbers are given by shape, type
    and digest.
    """
    if isinstance(module, eqx.Module):
        shown = [f.name for f in dataclasses.fields(module) if f.repr]
        fields = {name: describe(getattr(module, name)) for name in shown}
        return {"class": type(module).__name__, **fields}
    if isinstance(module, (np.ndarray, np.generic, jax.Array)):
        values = np.asarray(module)
        if values.size <= MOST_WRITTEN:
            return values.tolist()
        digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
        return {"shape": list(values.shape), "type": str(values.dtype), "sha256": digest}
    if isinstance(module, tuple):
        return [describe(part) for part in module]
    return module


def compact(values: HostArray) -> Any:
    """Return nested lists, of length 1 along constant axes, or one number if all are equal."""
    different = folded(values)
    return float(different.flat[0]) if different.size == 1 else different.tolist()
