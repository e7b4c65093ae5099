"""The conformance kit: the laws that every method and every oracle must satisfy, in one call.

    print(check(Mine))                           # a function from a problem to an algorithm
    print(check("noisy-gradient"))               # or the name of a method
    print(check(MyQuestion(loss, 1.0)))

Where possible, a check is also run on a planted fault: a missed fault counts as a violation, since
the check then proves nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.algorithms import StarAlgorithm, Value
from taciturn.audit.auditing import audit, prepared_wide, recorded
from taciturn.audit.neighbours import DataPair, Search, changed_places
from taciturn.audit.recorded import ResidualReport
from taciturn.audit.subject import (
    AGENTS,
    FEATURES,
    PROBLEM,
    Maker,
    Setup,
    canary,
    composition_of,
    method_of,
    name_of,
    planned,
    saturated,
)
from taciturn.engine import Plan, run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import Relation, ReplaceOne, Unit, ZeroOut
from taciturn.kernel.questions import Oracle
from taciturn.kernel.records import Shards, pack
from taciturn.problems import minimise
from taciturn.typing import HostArray

Outcome = Literal["holds", "violated", "not searched well enough", "does not apply"]
MU, EPSILON = 1.5, 2.0
EQUAL = 1e-10
ROUNDING = 1e-9
UNITS: tuple[Unit, ...] = ("record", "agent", "person")
# without noise: the largest share of the initial gap that may remain, on all records and on batches
CLOSE, CLOSE_ON_BATCHES = 0.01, 0.3
_WIDE = 20  # features in the test of halved noise: a method with one question releases few numbers
RECORDS = 40  # per agent, in the test of convergence
_WITHOUT_NOISE: dict[str, Any] = {"epsilon": math.inf, "clip": math.inf}


@dataclass(frozen=True)
class Law:
    """The outcome of one law; `seen`: the measured numbers, or why it does not apply."""

    name: str
    outcome: Outcome
    seen: str


@dataclass(frozen=True)
class Conformance:
    """The laws of one subject."""

    subject: str
    laws: tuple[Law, ...]

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the violated laws."""
        return tuple(law.name for law in self.laws if law.outcome == "violated")

    @property
    def undecided(self) -> tuple[str, ...]:
        """The names of the laws that were not searched well enough."""
        return tuple(law.name for law in self.laws if law.outcome == "not searched well enough")

    @property
    def passes(self) -> bool:
        """Whether no law is violated, and every law that applies was searched well enough."""
        return not self.violated and not self.undecided

    def __str__(self) -> str:
        name, outcome = (
            max(len(getattr(law, part)) for law in self.laws) for part in ("name", "outcome")
        )
        rows = (f"  {law.name:<{name}}  {law.outcome:<{outcome}}  {law.seen}" for law in self.laws)
        verdict = "fails" if self.violated else "passes" if self.passes else "undecided"
        return "\n".join([f"{self.subject}: {verdict}", *rows])


def check(subject: str | Maker | Oracle, **settings: Any) -> Conformance:
    """Return the outcome of every law: of `check_method`, or `check_oracle` for an oracle."""
    if isinstance(subject, Oracle):
        return check_oracle(subject, **settings)
    return check_method(subject, **settings)


def check_method(
    subject: str | Maker,
    *,
    runs: int = 300,
    rounds: int = 200,
    seed: int = 0,
    options: Mapping[str, Value] | None = None,
) -> Conformance:
    """Return the outcome of every law for a method.

    - `subject`: The name of a method, or a function from a problem to an algorithm (which then
      queries the library's gradient) or to a `Composition` of an algorithm and its oracles.
    - `runs`: Runs on each of two data sets, for the likelihood ratio.
    - `rounds`: Rounds without noise, after which at most a hundredth of the initial gap may remain
      (three tenths on batches).
    - `options`: Those of a named method.
    """
    method, options = method_of(subject), options or {}
    if method is not None and method.sampled:
        options = {"sampling_rate": 0.5, **options}  # batches with a visible effect
    setup = Setup(epsilon=EPSILON, options=options)
    plan, shards = planned(subject, setup), _records(setup)
    laws = (
        _ledger(plan, shards),
        _determinism(plan, shards),
        _runtimes(plan, shards),
        *_attacked(subject, setup, runs, seed),
        _permutation(subject, setup),
        _convergence(subject, setup, rounds),
    )
    return Conformance(name_of(subject), laws)


def check_oracle(
    oracle: Oracle,
    *,
    query: Callable[[jax.Array], object] | None = None,
    pair: DataPair | None = None,
    trials: int = 2000,
    seed: int = 0,
) -> Conformance:
    """Return the outcome of the law of sensitivity for an oracle, each relation and each unit.

    The search, over `trials` pairs of neighbouring data sets and queries of many magnitudes, finds
    faults but proves nothing: the proof belongs in the oracle's **Guarantee**. Both norms are
    measured. The planted fault, which the same search must detect, is half the bound: if no answer
    moved by more, a bound of half the true size would pass unnoticed, and the verdict is *not
    searched well enough*.

    - `query`: Maps a vector of a row's dimension to a query; None for a `Point`. The dimension is
      `FEATURES`, or that of the pair.
    - `pair`: Two packed data sets of one agent that differ in one unit and move the answer as far
      as possible: tested, besides random pairs, under every relation and unit for which they are
      neighbours. Give a pair if a random search does not approach the bound.
    """
    if not isinstance(oracle, Oracle):
        raise InputError(
            f"check_oracle was given {oracle!r}; it takes an oracle, for example "
            "Gradient(Logistic(), clip=0.5)"
        )
    relations: tuple[Relation, ...] = (ReplaceOne(), ZeroOut())
    if pair is not None and all(changed_places(pair, one) is None for one in relations):
        raise InputError(
            "the two data sets are not neighbours: they must differ in records of one agent, all "
            "of them replaced or all of them absent from one data set"
        )
    laws = []
    for relation in relations:
        search = Search(oracle, relation, query)
        laws += [_sensitivity(search, relation, unit, pair, trials, seed) for unit in UNITS]
    return Conformance(type(oracle).__name__, tuple(laws))


def _law(name: str, holds: bool, seen: str) -> Law:
    return Law(name, "holds" if holds else "violated", seen)


def _sensitivity(
    search: Search, relation: Relation, unit: Unit, pair: DataPair | None, trials: int, seed: int
) -> Law:
    name = f"sensitivity, {relation.name}, {unit}"
    try:
        search.bound(unit)
    except InputError as error:
        return Law(name, "does not apply", str(error))
    reached = search.largest(unit, trials=trials, seed=seed)
    if pair is not None:
        reached = max(reached, search.largest_between(pair, unit, trials=trials, seed=seed))
    seen = f"reached {reached:.3f} of the bound; planted: half the bound, at {2 * reached:.3f}"
    if not reached <= 1 + ROUNDING:
        return Law(name, "violated", seen)
    if not 2 * reached > 1 + ROUNDING:
        return Law(name, "not searched well enough", f"{seen}; give a pair of data sets")
    return Law(name, "holds", seen)


def _ledger(plan: Plan, shards: Shards) -> Law:
    """Test that the observed ledger equals the planned one, and that half the noise is refused."""
    try:
        run(plan, shards, runtime="simulate", seed=0)
    except PrivacyError as error:
        return _law("ledger", False, str(error))
    program = dataclasses.replace(plan.program, scales=plan.program.scales / 2)
    try:
        run(dataclasses.replace(plan, program=program), shards, runtime="simulate", seed=0)
    except PrivacyError:
        return _law("ledger", True, "as planned; half the noise is refused")
    return _law("ledger", False, "a program with half the planned noise was run")


def _determinism(plan: Plan, shards: Shards) -> Law:
    """Test that a seed gives the same bits twice, and another seed different bits."""
    first, again, other = (
        run(plan, shards, runtime="simulate", seed=seed).model for seed in (1, 1, 2)
    )
    decides = np.array_equal(first, again) and not np.array_equal(first, other)
    seen = "same bits with one seed, others with another"
    return _law("determinism", decides, seen if decides else "the seed does not decide the run")


def _runtimes(plan: Plan, shards: Shards) -> Law:
    runtimes: tuple[Literal["simulate", "serial"], ...] = ("simulate", "serial")
    gap = _relative(*(run(plan, shards, runtime=one, seed=1).model for one in runtimes))
    return _law("runtimes", gap <= EQUAL, f"simulate and serial differ by {gap:.1e}")


def _attacked(subject: str | Maker, setup: Setup, runs: int, seed: int) -> list[Law]:
    """Return the layers of the audit, each tested for detecting half the noise."""
    method = method_of(subject)
    if method is not None and method.inside:
        why = "noise inside an objective: see audit_perturbed"
        return [Law(name, "does not apply", why) for name in ("replay", "messages", "likelihood")]
    if _sampled(composition_of(subject).oracles) or (
        method is not None and method.structure == "required"
    ):
        return _replayed(subject, setup, seed)
    honest, faulty = (
        audit(subject, mu=MU, runs=runs, seed=seed, fault=fault, options=dict(setup.options))
        for fault in (None, "halved-noise")
    )
    halved = _halved(subject, setup, seed)
    seen = {
        "replay": f"answers moved by {honest.replay.worst_ratio:.3f} of their bound",
        "residuals": f"least p-value {min(honest.residuals.p_values.values()):.2g}; with half the "
        f"noise {min(halved.p_values.values()):.2g}",
        "messages": f"sent and recomputed differ by {honest.replay.message_gap:.1e}",
        "likelihood": f"mu at least {honest.likelihood.mu:.2f} of {honest.claimed_mu:.2f}; with "
        f"half the noise {faulty.likelihood.mu:.2f}",
    }
    return [
        _law(
            name,
            honest.layers[name] == "consistent" and not (name == "residuals" and halved.passes),
            text,
        )
        for name, text in seen.items()
    ]


def _halved(subject: str | Maker, setup: Setup, seed: int) -> ResidualReport:
    """Return the tests of a run with half its recorded noise, on wide data if possible."""
    pair, plan = prepared_wide(subject, setup, _WIDE, seed)
    return recorded(plan, pair, seed, "halved-noise")[1]


def _replayed(subject: str | Maker, setup: Setup, seed: int) -> list[Law]:
    """Return replay and messages of one run, whose batches the replay reproduces."""
    known = saturated(composition_of(subject).oracles)  # None: the gradient's pair
    pair = canary(
        agents=AGENTS, records=setup.records, features=setup.features, seed=seed, oracle=known
    )
    seen, _ = recorded(planned(subject, setup), pair, seed, None)
    return [
        _law("replay", seen.bounds_hold, f"answers moved by {seen.worst_ratio:.3f} of their bound"),
        _law(
            "messages", seen.messages_hold, f"sent and recomputed differ by {seen.message_gap:.1e}"
        ),
        Law("likelihood", "does not apply", "answers on batches: see audit_sampled"),
    ]


def _permutation(subject: str | Maker, setup: Setup) -> Law:
    """Test that, without noise, a star's result does not depend on the order of agents."""
    name = "permuted agents"
    plan = planned(subject, dataclasses.replace(setup, **_WITHOUT_NOISE))
    if not isinstance(plan.program.algorithm, StarAlgorithm):
        return Law(name, "does not apply", "on a network agents differ by their place")
    if _sampled(plan.program.oracles):
        return Law(name, "does not apply", "batches are drawn by agent")
    shards = _records(setup)
    order = np.arange(AGENTS)[::-1]
    stacked = jax.tree.map(lambda leaf: leaf[order], shards.stacked)
    turned = dataclasses.replace(shards, stacked=stacked)
    models = [run(plan, one, runtime="simulate", seed=0).model for one in (shards, turned)]
    gap = _relative(*models)
    return _law(name, gap <= EQUAL, f"models differ by {gap:.1e}")


def _convergence(subject: str | Maker, setup: Setup, rounds: int) -> Law:
    """Test that, without noise, the gap to the certified optimum closes."""
    method = method_of(subject)
    rounds = 1 if method is not None and method.rounds == 1 else rounds
    exact = dataclasses.replace(setup, records=RECORDS, rounds=rounds, **_WITHOUT_NOISE)
    plan, shards = planned(subject, exact), _records(exact)
    problem = getattr(plan.program.algorithm, "problem", PROBLEM)
    problem = problem if hasattr(problem, "objective") else PROBLEM
    model = run(plan, shards, runtime="simulate", seed=0).model
    least = minimise(problem, shards, tol=1e-9).value
    start, end = (
        float(problem.objective(jnp.asarray(w), shards)) - least
        for w in (np.zeros_like(model), model)
    )
    left = end / start
    allowed = CLOSE_ON_BATCHES if _sampled(plan.program.oracles) else CLOSE
    seen = f"{max(left, 0.0):.1e} of the first gap is left after {plan.rounds} rounds"
    return _law("convergence", left <= allowed, seen)


def _sampled(oracles: tuple[Oracle, ...]) -> bool:
    return any(oracle.sampling.rate < 1 for oracle in oracles)


def _records(setup: Setup) -> Shards:
    """Return records of norm at most 1 from one noisy linear model."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((AGENTS * setup.records, FEATURES))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    targets = rows @ np.linspace(-1, 1, FEATURES) + 0.1 * draw.standard_normal(len(rows))
    targets = np.clip(targets, -1, 1)  # the bound on targets of methods that have one
    owners = np.split(np.arange(len(rows)), AGENTS)
    return pack(rows, targets, owners, record_norm=1.0, precision=setup.precision)


def _relative(one: HostArray, other: HostArray) -> float:
    return float(np.max(np.abs(one - other)) / max(float(np.max(np.abs(one))), 1e-300))
