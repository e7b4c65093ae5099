"""The audit of one algorithm: likelihood ratio, replay, residuals, messages, verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from taciturn import checks
from taciturn.algorithms import Value
from taciturn.audit.epsilon import (
    CONFIDENCE,
    LowerBound,
    checked_seed,
    lower_bound,
    ratios,
    seeds_from,
)
from taciturn.audit.neighbours import DataPair
from taciturn.audit.recorded import (
    LONG,
    WIDE,
    ReplayReport,
    ResidualReport,
    randomness_report,
    replay,
    run_residuals,
)
from taciturn.audit.subject import (
    AGENTS,
    Canary,
    Fault,
    Maker,
    Setup,
    canary,
    canary_of,
    composition_of,
    method_of,
    name_of,
    planned,
    plant,
    saturated,
)
from taciturn.engine import compute, records_for_door
from taciturn.engine.planning import Plan
from taciturn.errors import InputError
from taciturn.kernel.door import Live, Supply
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import Messages, Observer, epsilon_of
from taciturn.network import Network

# false alarm rate of an audit; a suite runs hundreds, and planted faults have p-values of 1e-24
LEVEL = 1e-6
DELTA = 1e-5
LEAST_MU, MOST_MU = 1e-3, 100.0
MOST_ROWS = 100  # of an attacked person
Outcome = Literal["consistent", "violated"]


@dataclass(frozen=True)
class AuditReport:
    """The result of each layer of the audit.

    - `claimed_mu`: The mu of the certificate.
    - `likelihood`: Lower bound on mu from runs on each of two neighbouring data sets.
    - `replay`, `residuals`: Tests of one recorded run.
    - `drawn`: Tests of the noise of a run without a seed, with long answers and several blocks of
      rounds.
    """

    algorithm: str
    fault: Fault | None
    claimed_mu: float
    likelihood: LowerBound
    replay: ReplayReport
    residuals: ResidualReport
    drawn: ResidualReport

    @property
    def layers(self) -> dict[str, Outcome]:
        """The outcome of every layer."""
        holds = {
            "likelihood": self.likelihood.mu <= self.claimed_mu,
            "replay": self.replay.bounds_hold,
            "residuals": self.residuals.passes,
            "messages": self.replay.messages_hold,
            "drawn": self.drawn.passes,
        }
        return {name: "consistent" if good else "violated" for name, good in holds.items()}

    @property
    def verdict(self) -> Outcome:
        """`violated` if any layer is."""
        return "violated" if "violated" in self.layers.values() else "consistent"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-safe values."""
        return {
            "algorithm": self.algorithm,
            "fault": self.fault,
            "claimed_mu": self.claimed_mu,
            "realised_mu": self.replay.realised_mu,
            "mu_lower_bound": self.likelihood.mu,
            "confidence": self.likelihood.confidence,
            "mu_reachable": self.likelihood.reachable,
            "runs": self.likelihood.runs,
            **self.layers,
            "worst_change_over_bound": self.replay.worst_ratio,
            "message_gap": self.replay.message_gap,
            "residual_p_values": self.residuals.p_values,
            "drawn_p_values": self.drawn.p_values,
            "verdict": self.verdict,
        }


def audit(  # noqa: PLR0913 - who is attacked, by whom, with what
    algorithm: str | Maker,
    *,
    mu: float,
    runs: int,
    seed: int | None = None,
    fault: Fault | None = None,
    observer: Observer | None = None,
    network: Network | None = None,
    options: Mapping[str, Value] | None = None,
    rows_per_person: int | None = None,
    agents_per_person: int = 1,
    centre: bool = False,
    pair: DataPair | None = None,
) -> AuditReport:
    """Attack `algorithm`, planned to be mu-GDP, on a problem that saturates its bound.

    The attacker knows both data sets and all settings, and has the observer's view. The decision
    threshold is fixed before the runs; confidence is 95 %.

    - `algorithm`: A name in `taciturn.algorithms.METHODS`, or a function from a problem to an
      algorithm (which queries the library's gradient), or to a `Composition`, whose oracles' bounds
      are then audited too. The clip must be 1; the problem saturates the first oracle for which a
      saturating problem is known.
    - `mu`: The planned total; the attack is sharpest between 1 and 2.
    - `runs`: Runs on each of the two data sets, for the likelihood ratio.
    - `seed`: Seed of data and noise; None for one from the operating system. The noise of a run
      without a seed is tested in any case, on a separate run.
    - `fault`: A fault to plant; the verdict must then be `violated`.
    - `observer`: The attacker's view; None for all messages.
    - `network`: A network of `AGENTS` agents, for gossip, a relay or a tree; the hops of a walk are
      the rounds. None: for a named method that needs one, a random walk on a ring or gossip on a
      path.
    - `options`, `centre`: For a named method: its options, and whether it queries rows around a
      private centre.
    - `rows_per_person`, `agents_per_person`: Attack a person with this many rows at each of this
      many agents, instead of a record.
    - `pair`: Two packed data sets, of record norm 1 and in double precision, that differ in one
      record and move your question as far as possible. None for a pair that saturates a question of
      the library.
    """
    if not LEAST_MU <= checks.positive("mu", mu) <= MOST_MU:
        raise InputError(f"mu is {mu:g}; it must be between {LEAST_MU:g} and {MOST_MU:g}")
    seed = checked_seed(runs, seed)
    setup = Setup(
        epsilon=float(epsilon_of(DELTA, mu)),
        delta=DELTA,
        observer=observer or Messages(),
        network=network,
        options=options or {},
        centre=centre,
    )
    setup = _of_persons(setup, rows_per_person, agents_per_person)
    if pair is not None:
        if rows_per_person is not None:
            raise InputError("a pair of data sets differs in one record; leave the persons out")
        agents, records, features = pair[0].agents, pair[0].counts[0], pair[0].dimension
        setup = dataclasses.replace(
            setup, pair=pair, agents=agents, records=records, features=features
        )
    refuse_without_mu(algorithm)
    attacked, plan = prepared(algorithm, setup, seed)
    if fault in ("reused-noise", "repeated-noise") and plan.rounds == 1:
        raise InputError(
            f"{algorithm} draws noise once, so it cannot reuse it; choose another fault"
        )
    if plan.certificate.mu is None:
        raise InputError("this plan has no mu to audit; only Gaussian answers have one")
    one, *others = seeds_from(seed, 3)
    return AuditReport(
        name_of(algorithm),
        fault,
        plan.certificate.mu,
        lower_bound(*ratios(plan, attacked, fault, runs=runs, seeds=others), confidence=CONFIDENCE),
        *recorded(plan, attacked, one, fault),
        _drawn(algorithm, setup, plan.rounds > 1, seed, fault),
    )


def _of_persons(setup: Setup, rows_per_person: int | None, agents_per_person: int) -> Setup:
    """Return the checked setup of an attack on a person; unchanged if a record is attacked."""
    if rows_per_person is None:
        if agents_per_person != 1:
            raise InputError(
                "agents_per_person is given and rows_per_person is not; give both to attack a "
                "person, or neither"
            )
        return setup
    rows = checks.at_least("rows_per_person", rows_per_person, 1)
    agents = checks.at_least("agents_per_person", agents_per_person, 1)
    if rows > MOST_ROWS or agents > AGENTS:
        raise InputError(
            f"an audit cannot attack a person with {rows} rows at {agents} agents; ask for at "
            f"most {MOST_ROWS} rows at {AGENTS} agents"
        )
    return dataclasses.replace(
        setup, rows_per_person=rows, agents_per_person=agents, records=2 * rows
    )


def _drawn(
    subject: str | Maker, setup: Setup, repeats: bool, seed: int, fault: Fault | None
) -> ResidualReport:
    """Return the tests of the noise of a run without a seed, on wide data and many rounds."""
    rounds = LONG if repeats and setup.network is None else None
    pair, plan = prepared_wide(subject, dataclasses.replace(setup, rounds=rounds), WIDE, seed)
    return randomness_report(plan, pair, level=LEVEL, fault=fault)


def prepared_wide(
    subject: str | Maker, setup: Setup, features: int, seed: int
) -> tuple[Canary, Plan]:
    """Return the result of `prepared` on data with more features, where the subject allows them.

    A user's method, or pair, may be restricted to one number of features.
    """
    if setup.pair is None:
        with suppress(InputError):
            return prepared(subject, dataclasses.replace(setup, features=features), seed)
    return prepared(subject, setup, seed)


def prepared(subject: str | Maker, setup: Setup, seed: int) -> tuple[Canary, Plan]:
    """Return the pair that saturates the subject's question, and the plan that is attacked."""
    oracles = composition_of(subject, centre=setup.centre).oracles
    if setup.pair is not None:
        return canary_of(setup.pair, oracles[0]), planned(subject, setup)
    size: dict[str, int] = {"agents": AGENTS, "records": setup.records, "features": setup.features}
    question = saturated(oracles) or oracles[-1]
    pair = canary(**size, seed=seed, oracle=question, adjacency=setup.adjacency)
    return pair, planned(subject, setup)


def refuse_without_mu(subject: str | Maker) -> None:
    """Raise `InputError` unless the answers of a named method have a mu."""
    method = method_of(subject)
    if method is None or not (method.sampled or method.inside):
        return
    what, other = "answers on sampled batches", "audit_sampled"
    if method.inside:
        what, other = "adds noise inside an objective", "audit_perturbed"
    raise InputError(
        f"{subject} {what}, which has no mu to audit; use taciturn.audit.{other}, which bounds "
        "epsilon"
    )


def recorded(
    plan: Plan, pair: Canary, seed: int, fault: Fault | None
) -> tuple[ReplayReport, ResidualReport]:
    """Return replay and residuals of one run on the first data set."""
    program = plan.program
    first, second = (records_for_door(plan, one) for one in (pair.first, pair.second))
    live = Live(program.oracles, program.mechanism, first)
    subject = plant(fault, program.algorithm, live)
    # a faulty method is detected by its messages, which are not sent if integer steps are summed
    summed = program.summed and subject.algorithm is program.algorithm
    program = dataclasses.replace(program, algorithm=subject.algorithm, summed=summed)
    raw = Supply(program.agenda, Stream.seeded(seed), first.rows).block(0, program.rounds)
    _, trace = compute(program, subject.door, raw, keep=frozenset({"answers", "messages"}))
    plan = dataclasses.replace(plan, program=dataclasses.replace(plan.program, summed=summed))
    seen = replay(plan, subject.oracles, trace, first, second, raw=raw)
    return seen, run_residuals(plan, trace, seen.exact, level=LEVEL)
