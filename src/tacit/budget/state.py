"""What the entries of an account add up to: its terms, its runs, what is charged, what is left."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from tacit import checks
from tacit.budget.caps import Caps, Guarantee, caps_of
from tacit.budget.chain import Entry
from tacit.budget.charge import Charge, Cost, Events, check_relations, cost_of, relation_of
from tacit.errors import InputError
from tacit.privacy import Relation, epsilon_of
from tacit.privacy.terms import Unit, observer_named
from tacit.typing import HostArray

FORMAT, VERSION = "tacit.account", 1
# more than rounding takes from sums of doubles, of which an account has fewer than a million
_UP = 1 + 1e-9

Status: TypeAlias = Literal["reserved", "opened", "released", "failed", "returned"]


@dataclass(frozen=True)
class AccountTerms:
    """What an account is about: its relation and unit, and whom it is against.

    Attributes
    ----------
    relation
        As `tacit.budget.relation_text` writes it.
    observer, colluders
        "messages", or "sum" with the number of agents who tell their noise.

    Raises
    ------
    InputError
        If one of them is unknown.
    """

    relation: str = "replace_one"
    unit: str = "record"
    observer: str = "messages"
    colluders: int = 1

    def __post_init__(self) -> None:
        relation_of(self.relation)
        if self.unit not in get_args(Unit):
            raise InputError(f"unit is {self.unit!r}; it must be 'record', 'agent' or 'person'")
        observer_named(self.observer)
        checks.at_least("colluders", self.colluders, 0)

    @property
    def neighbours(self) -> Relation:
        """The relation."""
        return relation_of(self.relation)


@dataclass(frozen=True)
class Purpose:
    """What a run is, for the reader of an account and for what a refusal says would fit.

    Attributes
    ----------
    what
        In a few words.
    proposal, plan
        Their digests; the first is None where there is no proposal.
    epsilon, delta, mu
        As its plan certifies them.
    rounds
        How many it has.

    Raises
    ------
    InputError
        If a number is NaN or out of range, which no account could hold.
    """

    what: str
    proposal: str | None
    plan: str
    epsilon: float
    delta: float
    mu: float | None
    rounds: int

    def __post_init__(self) -> None:
        checks.not_negative("epsilon", self.epsilon, allow_infinity=True)
        checks.not_negative("delta", self.delta)
        if self.mu is not None:
            checks.not_negative("mu", self.mu, allow_infinity=True)
        checks.at_least("rounds", self.rounds, 0)


@dataclass(frozen=True)
class ChargedRun:
    """A run as an account holds it.

    Attributes
    ----------
    number
        Of its first entry.
    files
        Salted digests of the files that it read.
    """

    run: str
    number: int
    when: str
    purpose: Purpose
    charge: Charge
    process: Mapping[str, Any]
    status: Status = "reserved"
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Total:
    """What is charged, in the three sums that have a cap."""

    squares: float
    divergence: float
    values: int


@dataclass(frozen=True)
class Change:
    """A raised guarantee, or an account that was accepted as it is: when, and in words."""

    number: int
    when: str
    what: str


@dataclass(frozen=True)
class State:
    """An account as its entries have it.

    Attributes
    ----------
    identity, name, salt
        The first and last are random.
    opened
        When.
    last
        The last entry.
    """

    identity: str
    name: str
    salt: str
    opened: str
    guarantee: Guarantee
    terms: AccountTerms
    runs: tuple[ChargedRun, ...]
    changes: tuple[Change, ...]
    last: Entry

    @property
    def caps(self) -> Caps:
        """The caps that follow from the guarantee."""
        return caps_of(self.guarantee)

    @property
    def charged(self) -> tuple[ChargedRun, ...]:
        """The runs that were not returned."""
        return tuple(run for run in self.runs if run.status != "returned")

    @property
    def total(self) -> Total:
        """What is charged."""
        return total_of(self.terms, self.caps.order, [run.charge for run in self.charged])

    @property
    def left(self) -> Total:
        """What the caps leave."""
        total, caps = self.total, self.caps
        return Total(
            max(0.0, caps.squares - total.squares),
            max(0.0, caps.divergence - total.divergence),
            max(0, caps.values - total.values),
        )

    def epsilon_left(self, left: Total | None = None) -> float:
        """Return the epsilon of Gaussian answers that would fit, at the account's share of delta.

        It is what a run may be planned for, and no guarantee.
        """
        squares = (self.left if left is None else left).squares
        share = (1 - self.guarantee.curves) * self.guarantee.delta
        return epsilon_of(share, math.sqrt(squares))

    def cost(self, run: ChargedRun) -> Cost:
        """Return what a run costs the agent that it costs most, as the observer sees it."""
        return largest_cost(self.terms, self.caps.order, run.charge)

    def run(self, run: str) -> ChargedRun:
        """Return the run of that name."""
        return next(one for one in self.runs if one.run == run)


def total_of(terms: AccountTerms, order: int, charges: Sequence[Charge]) -> Total:
    """Return what charges amount to, for the record that they cost most.

    Raises
    ------
    InputError
        If two charges have one division of the records and different numbers of agents, or a
        charge does not suit the terms (`costs_of`).

    Notes
    -----
    **Guarantee.** A record belongs to one agent in every division. Within a division its cost is at
    most the largest total of an agent; over divisions the largest are added.
    """
    return next(reversed(list(totals(terms, order, charges))), Total(0.0, 0.0, 0))


def totals(terms: AccountTerms, order: int, charges: Sequence[Charge]) -> Iterator[Total]:
    """Yield what charges amount to after each of them; see `total_of`."""
    divided: dict[str, HostArray] = {}
    once, values = Cost(), 0
    for charge in charges:
        if charge.partition is None:
            once += largest_cost(terms, order, charge)
        else:
            costs = np.array([(c.squares, c.divergence) for c in costs_of(terms, order, charge)])
            before = divided.get(charge.partition, np.zeros_like(costs))
            if before.shape != costs.shape:
                raise InputError(
                    f"runs on the division {charge.partition!r} have different numbers of agents; "
                    "give divisions names of their own"
                )
            divided[charge.partition] = before + costs
        values += charge.values
        shared = [Cost(*np.max(costs, axis=0).tolist()) for costs in divided.values()]
        whole = sum(shared, once)
        yield Total(whole.squares * _UP, whole.divergence * _UP, values)


def largest_cost(terms: AccountTerms, order: int, charge: Charge) -> Cost:
    """Return what a charge costs the agent that it costs most, in each of the two sums."""
    costs = _costs_by_events(terms, order, charge).values()
    return Cost(
        max((cost.squares for cost in costs), default=0.0),
        max((cost.divergence for cost in costs), default=0.0),
    )


def costs_of(terms: AccountTerms, order: int, charge: Charge) -> list[Cost]:
    """Return each agent's cost of a charge, as the account's observer sees it.

    Raises
    ------
    InputError
        If relation or unit differ in a way that does not compose.
    """
    by_events = _costs_by_events(terms, order, charge)
    return [by_events[events] for events in _seen(terms, charge)]


def _costs_by_events(terms: AccountTerms, order: int, charge: Charge) -> Mapping[Events, Cost]:
    """Return the cost of every list of events that some agent has."""
    run = relation_of(charge.relation)
    check_relations(run, terms.neighbours)
    if charge.unit != terms.unit:
        raise InputError(
            f"the run hides a change of one {charge.unit} and the account one of one {terms.unit}, "
            "which do not add up; plan the run for the unit of the account, or charge another one"
        )
    return {
        events: cost_of(events, run=run, account=terms.neighbours, order=order)
        for events in set(_seen(terms, charge))
    }


def _seen(terms: AccountTerms, charge: Charge) -> tuple[Events, ...]:
    """Return the events of each agent as the observer of an account sees them."""
    if terms.observer == "sum" and charge.summed is not None:
        if charge.colluders >= terms.colluders:
            return charge.summed
        raise InputError(
            f"the run is private against {charge.colluders} colluding agents and the account "
            f"against {terms.colluders}; plan the run for as many"
        )
    return charge.messages


def state_of(entries: Sequence[Entry]) -> State:
    """Return the state of an account whose chain has been checked.

    Raises
    ------
    InputError
        If an entry is not one that this version of the library writes.
    """
    first = entries[0].content
    if first.get("format") != FORMAT or first["version"] != VERSION:
        raise InputError(
            f"the account is of another version than {VERSION}, which is the one that this version "
            "of tacit reads; use the one that wrote it"
        )
    state = State(
        identity=first["id"],
        name=first["name"],
        salt=first["salt"],
        opened=first["when"],
        guarantee=Guarantee(**first["guarantee"]),
        terms=AccountTerms(**first["terms"]),
        runs=(),
        changes=(),
        last=entries[0],
    )
    return extended(state, entries[1:])


def extended(state: State, entries: Sequence[Entry]) -> State:
    """Return the state after further entries."""
    runs = {run.run: run for run in state.runs}
    changes = list(state.changes)
    for entry in entries:
        content = entry.content
        match content["kind"]:
            case "reserved":
                runs[content["run"]] = _reserved(entry.number, content)
            case "opened" | "returned" as status:
                runs[content["run"]] = _with(runs[content["run"]], status=status)
            case "closed":
                runs[content["run"]] = _closed(runs[content["run"]], content)
            case "files":
                runs[content["run"]] = _with(runs[content["run"]], files=tuple(content["digests"]))
            case "raised":
                guarantee = Guarantee(**content["guarantee"])
                changes.append(Change(entry.number, content["when"], _raised(guarantee)))
                state = dataclasses.replace(state, guarantee=guarantee)
            case "accepted":
                changes.append(Change(entry.number, content["when"], content["why"]))
            case kind:
                raise InputError(
                    f"account {state.name!r} holds an entry of the kind {kind!r}, which a later "
                    "version of tacit wrote; use that version"
                )
    last = entries[-1] if entries else state.last
    return dataclasses.replace(state, runs=tuple(runs.values()), changes=tuple(changes), last=last)


def _raised(guarantee: Guarantee) -> str:
    return f"raised: the guarantee is epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g}"


def _closed(run: ChargedRun, content: Mapping[str, Any]) -> ChargedRun:
    """Return a run that has ended; one that others ended early costs what was answered."""
    answered = content.get("charge")
    charge = run.charge if answered is None else Charge.from_dict(answered)
    return _with(run, status=content["result"], charge=charge)


def _with(run: ChargedRun, **changed: Any) -> ChargedRun:
    return dataclasses.replace(run, **changed)


def _reserved(number: int, content: Mapping[str, Any]) -> ChargedRun:
    charge = Charge.from_dict(content["charge"])
    purpose = {name: _number(value) for name, value in content["purpose"].items()}
    return ChargedRun(
        run=content["run"],
        number=number,
        when=content["when"],
        purpose=Purpose(**purpose),
        charge=charge,
        process=content["process"],
    )


def _number(value: Any) -> Any:
    return math.inf if value == "infinity" else value
