"""The proposal: everything public about a run, and its plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from taciturn import algorithms, checks, problems
from taciturn.algorithms import METHODS, Method, Setting
from taciturn.documents import Document, Extended
from taciturn.engine import traffic_of
from taciturn.engine.planning import (
    Plan,
    check_agent_epsilons,
    check_size,
    plan,
    trust_conditions,
)
from taciturn.errors import InputError
from taciturn.features import CONSTANT, Cells, Formula
from taciturn.kernel.privacy import Certificate
from taciturn.kernel.questions import BINS, ClippedErrors, Tally, around
from taciturn.kernel.records import Spec, check_at_one_agent
from taciturn.problems import ClippedLoss, Named, facts_from, in_target_units, weighted
from taciturn.training.facts import (
    MONOTONE,
    WEIGHTS_ARE_PUBLIC,
    DataFacts,
    Evaluation,
    feature_conditions,
    labels_of,
    weights_text,
)
from taciturn.training.parts import Budget, Connection, Count, MethodChoice, Structure, check_seed

MOST_LISTED = 32  # agents whose budgets are printed
MOST_CELLS = 100_000  # of a private evaluation
# weight s of the offsets in an evaluation: they enlarge the noise of the counts by 2.3 % under
# replace_one and 3.8 % under zero_out; at half of it their own noise would be twice as large
OFFSETS = 0.25


class Proposal(Document):
    """Everything public about a run: frozen, checked, and the same bytes everywhere.

    A proposal is data, never code. Its recipient derives bounds, scales, ledger and certificate
    with `plan`, so none of them has to be trusted. Contradictory values raise `InputError`.

    - `counts`: m_i, the number of training records of each agent; with persons the number of
      places, a multiple of K.
    - `split_seed`: Public seed of the split of published data into training and test records; in a
      reproduction also of the division of records among agents and sides.
    - `dealt`: Whether records without owners are dealt to the agents at random.
    - `regulariser`, `constraint`: "none" with a structure.
    - `class_weights`: The public weight of each class, which multiplies the loss of its records, or
      None.
    - `clip`: Bound on the norm of a record's coefficient; may be infinite in a run without noise.
    - `method`: The method, with a value for each of its options.
    - `centre`: Whether the first round learns a private centre of the rows
      (`taciturn.algorithms.Centred`).
    - `network`: None for a star with an aggregator; on a network star methods run along a tree.
    - `evaluation`: The records that are held out, or None.

    **Guarantee.** A proposal contains no record and is derived without one. Its certificate is that
    of `plan`, which depends only on values that the digest covers.
    """

    FORMAT: ClassVar[str] = "taciturn.proposal"
    VERSION: ClassVar[int] = 4

    data: DataFacts
    counts: tuple[Count, ...]
    split_seed: int
    dealt: bool
    loss: Named
    class_weights: tuple[float, ...] | None
    clip: Extended
    regulariser: Named
    constraint: Named
    structure: Structure | None
    method: MethodChoice
    budget: Budget
    rounds: int
    centre: bool
    precision: Literal["float32", "float64"]
    network: Connection | None
    evaluation: Evaluation | None

    @model_validator(mode="after")
    def _consistent(self) -> Proposal:
        checks.at_least("rounds", self.rounds, 1)
        checks.positive("clip", self.clip, allow_infinity=True)
        check_seed("split-seed", self.split_seed)
        check_size(self.rounds, len(self.counts))
        self._check_noise()
        rows = self.budget.terms.adjacency.rows_per_person or 1
        if any(count % rows for count in self.counts):
            raise InputError(
                f"counts are not multiples of {rows}, the places of a person; give every agent "
                f"{rows} for each of its persons"
            )
        if self.network is not None:
            self.network.network(len(self.counts))
        if self.centre:
            one_public = self.network is None or self.network.kind == "tree"
            plain = self.structure is None and self.constraint.name != MONOTONE
            algorithms.check_centre(one_public, plain, self.rounds)
        if self.asks and self.data.table is not None and self.data.table.leave_out:
            raise InputError(
                "the evaluation counts the records that are held out, and rows without a target "
                "are left out of it; leave the evaluation out, or keep only rows with a target"
            )
        if self.evaluation is not None:
            check_at_one_agent(self.budget.agents_per_person)
            if self.budget.unit == "agent":
                raise InputError(
                    "an agent has records both in the training and held out, so the protected unit "
                    "pays for both; leave evaluate out, or protect records or persons"
                )
            self.question  # noqa: B018 - checked
            self.evaluation.check_share(self.counts, self.budget.rows_per_person)
        if ":" not in self.method.name:  # custom methods are not in the table
            self.composition().algorithm.questions(self.rounds)
        return self

    def _check_noise(self) -> None:
        """Raise `InputError` unless the budgets of agents, and the law of the noise, suit."""
        each, facts = self.budget.agent_epsilons, self.facts
        if each is not None:
            check_agent_epsilons(each, facts, self.budget.terms)
        if self.centre and self.setting.mechanism is not None:
            raise InputError(
                "the noise of a private centre is derived for the Gaussian law; leave the centre "
                "out (--no-centre), or the law laplace"
            )

    @property
    def asks(self) -> bool:
        """Whether held-out records are queried about the released model."""
        return self.evaluation is not None and self.evaluation.asked

    @property
    def question(self) -> Tally | ClippedErrors:
        """The question to held-out records or persons.

        Raises `InputError` for so many classes that noise would swamp their counts.
        """
        rows = self.budget.rows_per_person
        if self.data.task == "regression":
            return ClippedErrors(rows_per_person=rows)
        classes, offsets, shift = self.data.classes or 2, None, 0.0
        if self.asks and self.clipped_loss.log_odds:
            weights = self.clipped_loss.log_weights
            # of several classes with weights the cells are not of the most probable class
            offsets = OFFSETS if classes == 2 or max(weights) == min(weights) else None
            shift = float(weights[-1] - weights[0]) if classes == 2 else 0.0
        question = Tally(classes, rows_per_person=rows, offsets=offsets, shift=shift)
        cells = math.prod(question.shape)
        if cells > MOST_CELLS:
            raise InputError(
                f"an evaluation of {question.classes} classes counts records in {cells:,} cells "
                f"({BINS} bins each); at most {MOST_CELLS:,} are counted, so leave evaluate out"
            )
        return question

    @property
    def all_counts(self) -> tuple[int, ...]:
        """The number of records of each agent, including those held out."""
        if self.evaluation is None:
            return self.counts
        held = self.evaluation.counts
        return tuple(kept + out for kept, out in zip(self.counts, held, strict=True))

    @property
    def records(self) -> int:
        """The number of records of all agents, including those held out."""
        return sum(self.all_counts)

    def _check_method(self, method: Method) -> None:
        """Raise `InputError` unless the method has the options and suits structure and network."""
        name, options = self.method.name, self.method.options
        algorithms.check_options(name, method, options)
        needed = (one for one in method.options if one.default is not None)
        missing = [one.title for one in needed if one.name not in options]
        if missing:
            raise InputError(f"{name} has the option {missing[0]}, and no value is given for it")
        check_size(self.rounds * int(options.get("local_updates", 1)), len(self.counts))
        self._check_features(name)
        structured = self.structure is not None
        if structured and method.structure is None:
            raise InputError(f"{name} knows no structure; change the structure or the method")
        if not structured and method.structure == "required":
            raise InputError(f"{name} solves problems with a structure; give one")
        kind = None if self.network is None else self.network.kind
        if kind not in ((None, "tree") if method.network is None else (method.network,)):
            runs = {
                None: "on a star, or on a network along a tree",
                "gossip": "on a network by gossip",
                "relay": "on a network as a relay, along a walk",
            }
            raise InputError(
                f"{name} runs {runs[method.network]}; change the network or the method"
            )

    def _check_features(self, name: str) -> None:
        """Raise `InputError` unless the method called `name` suits the features."""
        features, survival = self.data.feature_map, isinstance(self.problem.loss, problems.Survival)
        if features is not None and features.fixed and name != algorithms.NEWTON:
            raise InputError(f"{name} knows no offset; use {algorithms.NEWTON}, or leave it out")
        linear = self.data.task == "regression" and in_target_units(self.problem.loss)
        if features is not None and features.fixed and linear:
            raise InputError(
                f"an offset does not go with the loss {self.loss}; subtract it from the response "
                "beforehand, in a column of its own"
            )
        timed = isinstance(features, Formula) and features.response is not None
        if timed != survival or (survival and self.precision != "float64"):
            raise InputError(
                f"the loss {self.loss} does not suit the features: a survival time needs a formula "
                "Surv(time, event) ~ ..., a loss of survival times, and double precision"
            )
        table = self.data.table is not None
        if isinstance(features, Cells) != (name == algorithms.COUNTS and table):
            raise InputError(
                f"the method {algorithms.COUNTS} and features of cells belong together; use "
                "taciturn count"
            )

    @property
    def problem(self) -> problems.Problem:
        """The problem: loss, regulariser or structure, constraint."""
        loss = weighted(self.data.loss(self.loss), self.class_weights)
        regulariser, constraint = self.regulariser, self.constraint
        plain = problems.Problem(
            loss,
            problems.regulariser_named(regulariser.name, regulariser.numbers),
            self.data.constraint(constraint),
        )
        if self.structure is None:
            return plain
        if regulariser.name != "none" or constraint.name != "none":
            raise InputError(
                "a structure has weights and comes without a constraint; leave regulariser "
                "and constraint out"
            )
        return self.structure.structured(loss, self.coordinates).composed

    @property
    def clipped_loss(self) -> ClippedLoss:
        """The loss as minimised: its name, and whether scores are log-odds."""
        return ClippedLoss(str(self.loss), self.problem.loss, self.clip)

    @property
    def weights_text(self) -> str | None:
        """The class weights by label, as people read them; None if there are none."""
        if self.class_weights is None:
            return None
        return weights_text(labels_of(self.data) or (), self.class_weights)

    @property
    def units(self) -> int:
        """How many records there are, or persons if persons are protected, at all agents."""
        return sum(self.counts) // (self.budget.rows_per_person or 1)

    @property
    def units_text(self) -> str:
        """`units` in words: "1,000 records", or "200 persons with up to 5 rows each"."""
        rows = self.budget.rows_per_person
        if rows is None:
            return f"{self.units:,} records"
        each = "one row" if rows == 1 else f"up to {rows} rows"
        return f"{self.units:,} persons with {each} each"

    @property
    def coordinates(self) -> int:
        """How many numbers a row has: those of the data, and a constant beside a centre."""
        return self.data.coordinates + self.centre

    @property
    def facts(self) -> Spec:
        """The public facts that planning starts from."""
        return facts_from(
            self.problem,
            self.counts,
            features=self.coordinates,
            record_norm=self.data.row_norm,
            clip=self.clip,
            dealt=self.dealt,
        )

    @property
    def setting(self) -> Setting:
        """What the method is built from: facts about packed rows, or rows around a centre."""
        features = self.data.feature_map
        return Setting(
            problem=self.problem,
            facts=around(self.facts, math.hypot(1.0, CONSTANT)) if self.centre else self.facts,
            clip=self.clip,
            terms=self.budget.terms,
            rounds=self.rounds,
            options=dict(self.method.options),
            fixed=() if features is None else features.fixed,
            cells=features.sizes if isinstance(features, Cells) else (),
        )

    def composition(self, methods: Mapping[str, Method] = METHODS) -> algorithms.Composition:
        """Return the algorithm with its questions.

        Names are looked up in `methods`: that of the library, or one with further methods of the
        caller; a proposal never brings code along. An `InputError` if the method is not in the
        table, or does not suit options, structure or network.
        """
        method = algorithms.method_named(self.method.name, methods)
        self._check_method(method)
        if method.elsewhere is not None:
            return method.elsewhere(self)
        composition = method.build(self.setting)
        if not self.centre:
            return composition
        return algorithms.add_centre(composition, self.facts, self.rounds, CONSTANT)

    def plan(self, methods: Mapping[str, Method] = METHODS) -> Plan:
        """Return the plan: schedules, noise scales, ledger and certificate.

        An `InputError` if the method is not in the table, or no such plan exists
        (`taciturn.engine.plan`).

        **Guarantee.** That of `taciturn.plan`; nothing but this proposal goes into it.
        """
        algorithm, oracles = self.composition(methods)
        network = None if self.network is None else self.network.network(len(self.counts))
        made = plan(
            self.facts,
            algorithm,
            oracles,
            self.budget.terms,
            rounds=self.rounds,
            precision=self.precision,
            network=network,
            mechanism=self.setting.mechanism,
            agent_epsilons=self.budget.agent_epsilons,
        )
        name = self.method.name  # its module was imported here, whatever classes it gave
        if ":" not in name or methods[name].elsewhere is not None:
            return made
        trusted = trust_conditions([name])
        stated = made.certificate.under(trusted, conditional=bool(trusted))
        return dataclasses.replace(made, certificate=stated)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must hold, besides what its records add, for a certificate of this proposal."""
        return (
            *(() if self.structure is None else self.structure.conditions),
            *(() if self.class_weights is None else (WEIGHTS_ARE_PUBLIC,)),
            *feature_conditions(self.data.features),
            *self._directions,
        )

    @property
    def _directions(self) -> tuple[str, ...]:
        if self.constraint.name != MONOTONE:
            return ()
        text = self.data.constraint_text(self.constraint)
        return (f"the directions ({text}) were chosen before anybody looked at the records",)

    @property
    def conditional(self) -> bool:
        """Whether bounds were read off the records: every certificate rests on that."""
        return self.data.table is not None and self.data.table.source == "data"


def leakage_frequency(proposal: Proposal, plan: Plan) -> int | None:
    """Return the privacy leakage frequency of a relay; None for other networks.

    The largest number of answers that an agent gives (PLF, Wang et al. 2024, Theorem 1), counted in
    the ledger that the certificate follows from.
    """
    if proposal.network is None or proposal.network.kind != "relay":
        return None
    return int(np.max(np.sum(plan.ledger.asked, axis=(1, 2))))


def epsilons_text(each: Sequence[float]) -> str:
    """Return finite epsilons as text, in four decimals and never below the values themselves."""
    texts = [f"{math.ceil(one * 1e4) / 1e4:.4f}" for one in each[:MOST_LISTED]]
    more = f" and {len(each) - MOST_LISTED:,} more" if len(each) > MOST_LISTED else ""
    return ", ".join(texts) + more


def agent_rows(proposal: Proposal, plan: Plan, certificate: Certificate) -> list[tuple[str, str]]:
    """Return (name, value) of the epsilon of each agent with a budget, and of a relay's PLF."""
    rows = []
    if proposal.budget.agent_epsilons is not None:
        rows.append(("epsilon of each agent", epsilons_text(certificate.per_agent_epsilon)))
    leakage = leakage_frequency(proposal, plan)
    if leakage is not None:
        rows.append(("privacy leakage frequency", f"{leakage:,} answers of the busiest agent"))
    return rows


def network_rows(proposal: Proposal, plan: Plan) -> list[tuple[str, str]]:
    """Return (name, value) of the network of a plan and of what is sent on it; none on a star."""
    network = proposal.network
    if network is None:
        return []
    messages, numbers = traffic_of(plan.program)
    exchanges = network.exchanges if network.exchanges > 1 else None
    given = (("walk", network.walk), ("cap", network.cap), ("exchanges of a message", exchanges))
    rows = [("network", network.name), *((name, str(value)) for name, value in given if value)]
    if network.kind == "tree":
        tree: Any = plan.network
        along = (
            f"a spanning tree of depth {tree.depth} from agent {tree.root}: in every round sums go "
            f"up its {plan.spec.agents - 1} edges, and the total down"
        )
        readers = (
            "an agent: the sum of the noised messages below each of its edges (the neighbour's "
            "message at the end of a branch) and the total; a reader of all edges: every noised "
            "message, which the certificate is for"
        )
        if plan.program.summed:
            readers = (
                "everybody: the total over all agents; what travels up an edge is under masks, and "
                "looks random short of all agents"
            )
        lost = "the round waits for it: no total is formed without every agent"
        rows += [("sums along", along), ("who reads what", readers), ("a lost agent", lost)]
    sent = f"{messages:,}, one along one edge"
    return [*rows, ("messages sent", sent), ("numbers sent", f"{numbers:,}")]


def network_values(proposal: Proposal, plan: Plan) -> dict[str, Any]:
    """Return the same as JSON values; nothing on a star."""
    network = proposal.network
    if network is None:
        return {}
    messages, numbers = traffic_of(plan.program)
    values: dict[str, Any] = {"name": network.name, "kind": network.kind}
    values |= {"messages_sent": messages, "numbers_sent": numbers}
    leakage = leakage_frequency(proposal, plan)
    if leakage is not None:
        values["privacy_leakage_frequency"] = leakage
    if network.kind == "tree":
        tree: Any = plan.network
        values |= {"root": tree.root, "depth": tree.depth}
    return {"network": values}
