"""The terms of an account, the charge of a run, its cost, and exact sums of costs."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias, cast, get_args

import numpy as np
from scipy.special import gammaln, logsumexp

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    BoundedChange,
    Event,
    Exact,
    FixedSize,
    GaussianAnswer,
    LaplaceAnswer,
    Relation,
    ReplaceOne,
    Sampled,
    TargetChange,
    Unit,
    ZeroOut,
)
from taciturn.names import observer_named, relation_named
from taciturn.typing import HostArray

Events: TypeAlias = tuple[tuple[Event, int], ...]


@dataclass(frozen=True)
class Charge:
    """The events of one run, with its relation and unit.

    - `relation`, `unit`: The neighbouring relation, in the form of `relation_text`, and its unit.
    - `messages`: The events of each agent for an observer of every message.
    - `summed`: The same for an observer of sums who knows the noise of `colluders` agents; None if
      the plan does not credit summation.
    - `least_scale`: The least noise scale, in steps of its lattice; 0 without a lattice.
    - `partition`: A public name of the division of the records among agents; None if it has none.
    - `dealt`: Whether every run deals the records to the agents by a new random draw: such a
      division has no name, since the totals of a named one are added agent by agent.

    Raises `InputError` if there is no agent, the two observers differ in the number of agents, or a
    number is negative, which would return budget.
    """

    relation: str
    unit: str
    messages: tuple[Events, ...]
    summed: tuple[Events, ...] | None = None
    colluders: int = 0
    values: int = 0  # the largest count of numbers that an agent releases
    least_scale: float = math.inf
    partition: str | None = None
    dealt: bool = False

    def __post_init__(self) -> None:
        if self.dealt and self.partition is not None:
            raise InputError(
                f"the division has the name {self.partition!r}, but this run deals the records to "
                "the agents by a new draw, so its costs cannot be added agent by agent; leave the "
                "name out, or give each record its owner"
            )
        agents = len(self.messages)
        if agents == 0 or (self.summed is not None and len(self.summed) != agents):
            raise InputError(
                f"a charge has {agents} agents for messages and "
                f"{'none' if self.summed is None else len(self.summed)} for sums; give the events "
                "of every agent"
            )
        for events in {*self.messages, *(self.summed or ())}:
            for _, count in events:
                checks.at_least("the count of an event", count, 1)
        for name in ("values", "colluders"):
            object.__setattr__(self, name, checks.at_least(name, getattr(self, name), 0))

    def to_dict(self) -> dict[str, Any]:
        """Return the charge as JSON-safe values; equal lists of events are written once."""
        return {
            **vars(self),
            "messages": _group_agents(self.messages),
            "summed": None if self.summed is None else _group_agents(self.summed),
            "least_scale": float(self.least_scale) if math.isfinite(self.least_scale) else None,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Charge:
        """Return the charge of `to_dict`."""
        given = dict(values)
        summed, least = given["summed"], given["least_scale"]
        given["messages"] = _spread_agents(given["messages"])
        given["summed"] = None if summed is None else _spread_agents(summed)
        given["dealt"] = bool(given["dealt"])
        given["least_scale"] = math.inf if least is None else float(least)
        return cls(**given)


@dataclass(frozen=True)
class Total:
    """A cost, in the three capped sums."""

    squares: float = 0.0
    divergence: float = 0.0
    values: int = 0


def cost_of(
    events: Sequence[tuple[Event, int]], *, run: Relation, account: Relation, order: int
) -> Total:
    """Return the cost of events under a run's relation, charged under an account's.

    mu^2 is summed over Gaussian answers on all records, Renyi divergences over the others. Raises
    `InputError` if the relations do not compose (`check_relations`), or no bound is known for an
    event.

    **Guarantee.** Neighbours under replace_one are two zero_out steps apart, and by group privacy
    two steps of mu are one of 2 mu (Dong, Roth and Su 2022, theorem 2.14), whatever else was
    answered.
    """
    check_relations(run, account)
    steps = 1 if run == account else 2  # of the run's relation per step of the account's
    squares, divergences = [], []
    for event, count in events:
        if isinstance(event, GaussianAnswer):
            squares.append(count * (steps / event.multiplier) ** 2)
        elif isinstance(event, Exact):
            squares.append(math.inf)
        elif steps == 1:
            divergences.append(count * renyi_divergence(event, run, order))
        else:
            raise InputError(
                f"{type(event).__name__} under {run.name} is not charged to an account under "
                f"{account.name}; plan the run under {account.name}"
            )
    return Total(math.fsum(squares), math.fsum(divergences))


def check_relations(run: Relation, account: Relation) -> None:
    """Raise `InputError` unless events under one relation can be charged under the other."""
    if run != account and not (isinstance(run, ZeroOut) and account.name == "replace_one"):
        raise InputError(
            f"the run has the relation {relation_text(run)} and the account "
            f"{relation_text(account)}, which do not compose; plan the run under the relation of "
            "the account, or charge another account"
        )


def relation_text(relation: Relation) -> str:
    """Return a relation's name with its parameter, in the form that `relation_of` parses."""
    beta = f":{relation.beta!r}" if isinstance(relation, BoundedChange | TargetChange) else ""
    return f"{relation.name}{beta}"


@functools.lru_cache(maxsize=64)
def relation_of(text: str) -> Relation:
    """Parse the text of `relation_text`; `InputError` if it names no relation."""
    name, _, number = text.partition(":")
    kinds = {kind.name: kind for kind in (BoundedChange, TargetChange)}
    if name not in kinds:
        return relation_named(text)
    try:
        return kinds[name](float(number))
    except ValueError as error:
        raise InputError(f"relation is {text!r}; give its beta, as in {name}:0.01") from error


_KINDS: Mapping[str, type[Any]] = {"gaussian": GaussianAnswer, "laplace": LaplaceAnswer}


def _event_dict(event: Event) -> dict[str, Any]:
    match event:
        case GaussianAnswer(multiplier):
            return {"event": "gaussian", "multiplier": float(multiplier)}
        case LaplaceAnswer(multiplier):
            return {"event": "laplace", "multiplier": float(multiplier)}
        case Sampled(inner, rate):
            return {**_event_dict(inner), "rate": float(rate)}
        case FixedSize(inner, batch, records):
            return {**_event_dict(inner), "batch": int(batch), "records": int(records)}
        case _:
            raise InputError(
                f"an account cannot hold {type(event).__name__}, for which no finite cost is "
                "known; use noise that is added to the answer"
            )


def _event_from(values: Mapping[str, Any]) -> Event:
    inner = _KINDS[values["event"]](float(values["multiplier"]))
    if "rate" in values:
        return Sampled(inner, float(values["rate"]))
    if "batch" in values:
        return FixedSize(inner, int(values["batch"]), int(values["records"]))
    return cast("Event", inner)


def _group_agents(agents: tuple[Events, ...]) -> dict[str, Any]:
    """Return the distinct lists of events, and for runs of equal agents their list and length."""
    kinds = {events: kind for kind, events in enumerate(dict.fromkeys(agents))}
    runs = itertools.groupby(kinds[events] for events in agents)
    return {
        "lists": [
            [{**_event_dict(event), "count": int(n)} for event, n in events] for events in kinds
        ],
        "agents": [[kind, len(list(same))] for kind, same in runs],
    }


def _spread_agents(values: Mapping[str, Any]) -> tuple[Events, ...]:
    lists = [
        tuple((_event_from(entry), int(entry["count"])) for entry in entries)
        for entries in values["lists"]
    ]
    return tuple(lists[kind] for kind, length in values["agents"] for _ in range(length))


@dataclass(frozen=True)
class AccountTerms:
    """The relation, unit and observer of an account.

    `relation`: in the form of `relation_text`. `observer`, `colluders`: "messages", or "sum" with
    the number of agents who reveal their noise. Raises `InputError` if one of them is unknown.
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
        object.__setattr__(self, "colluders", checks.at_least("colluders", self.colluders, 0))

    @property
    def observer_text(self) -> str:
        """The observer, as text for readers."""
        if self.observer != "sum":
            return self.observer
        return f"{self.observer} with {self.colluders} colluding"

    @property
    def neighbours(self) -> Relation:
        """The neighbouring relation."""
        return relation_of(self.relation)


@dataclass(frozen=True)
class Purpose:
    """The purpose of a run, shown to readers of an account and used to suggest a run that fits.

    `what`: a short description. `proposal`, `plan`: their digests; None for a run without a
    proposal. `epsilon`, `delta`, `mu`: as certified by the plan. Raises `InputError` if a number is
    NaN or out of range.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the purpose as JSON-safe values; JSON has no infinity."""
        values = dataclasses.asdict(self)
        return {name: "infinity" if value == math.inf else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Purpose:
        """Return the purpose of `to_dict`."""
        numbers: dict[str, Any] = {
            name: math.inf for name, value in values.items() if value == "infinity"
        }
        return cls(**{**values, **numbers})


# covers the rounding of one cost; sums of costs are exact
_UP = 1 + 1e-12
Pair: TypeAlias = tuple[Fraction, Fraction]
_NOTHING: Pair = (Fraction(0), Fraction(0))


@dataclass(frozen=True)
class Share:
    """The contribution of one charge to the sums of an account, subtracted if it is returned.

    `costs`: of each agent; of the agent it costs most if the division has no name. `values`,
    `partition`: as in the charge.
    """

    costs: tuple[Total, ...]
    values: int
    partition: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the share as JSON-safe values."""
        pairs = [(cost.squares, cost.divergence) for cost in self.costs]
        return {"costs": _group(pairs), "values": self.values, "partition": self.partition}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Share:
        """Return the share of `to_dict`."""
        costs = tuple(Total(float(a), float(b)) for a, b in _spread(values["costs"]))
        return cls(costs, int(values["values"]), values["partition"])


@dataclass(frozen=True)
class Sums:
    """Running sums over charges, as fractions, so that a returned charge is subtracted exactly.

    **Guarantee.** A double is a fraction, and fractions are added and subtracted without rounding:
    after any history the sums equal those of the remaining charges, in any order.

    - `once`: Over charges on unnamed divisions: squares and divergences of the agent each costs
      most.
    - `divided`: For every named division, the sums of each agent.
    """

    once: Pair = _NOTHING
    divided: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)
    values: int = 0  # released numbers
    runs: int = 0  # number of charges

    def plus(self, share: Share, sign: int = 1) -> Sums:
        """Return the sums with one charge more; with sign -1, without one that was added.

        Raises `InputError` if a cost is infinite, or the division has another number of agents.
        """
        added = tuple((_exact(cost.squares), _exact(cost.divergence)) for cost in share.costs)
        name, once, divided = share.partition, self.once, self.divided
        before = (once,) if name is None else divided.get(name, (_NOTHING,) * len(added))
        if name is not None and len(before) != len(added):
            raise InputError(
                f"runs on the division {name!r} have different numbers of agents; "
                "give each division a separate name"
            )
        after = tuple(
            (old[0] + sign * new[0], old[1] + sign * new[1])
            for old, new in zip(before, added, strict=False)
        )
        if name is None:
            once = after[0]
        else:
            divided = {**divided, name: after}
        return Sums(once, divided, self.values + sign * share.values, self.runs + sign)

    def minus(self, share: Share) -> Sums:
        """Return the sums without a charge that was added."""
        return self.plus(share, -1)

    @property
    def total(self) -> Total:
        """The total for the record with the highest cost; see `total_of`."""
        squares, divergence = self.once
        for agents in self.divided.values():
            squares += max(pair[0] for pair in agents)
            divergence += max(pair[1] for pair in agents)
        return Total(float(squares) * _UP, float(divergence) * _UP, self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as JSON-safe values."""
        return {
            "once": [str(part) for part in self.once],
            "divided": {
                name: _group([(str(a), str(b)) for a, b in agents])
                for name, agents in self.divided.items()
            },
            "values": self.values,
            "runs": self.runs,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Sums:
        """Return the sums of `to_dict`."""
        squares, divergence = values["once"]
        divided = {
            str(name): tuple((Fraction(a), Fraction(b)) for a, b in _spread(agents))
            for name, agents in values["divided"].items()
        }
        once = (Fraction(squares), Fraction(divergence))
        return cls(once, divided, int(values["values"]), int(values["runs"]))


def share_of(terms: AccountTerms, order: int, charge: Charge) -> Share:
    """Return the contribution of a charge to the sums of an account.

    Raises `InputError` if relation, unit or colluders do not compose with those of the terms.
    """
    if charge.partition is None:
        costs: tuple[Total, ...] = (largest_cost(terms, order, charge),)
    else:
        by_events = _costs_by_events(terms, order, charge)
        costs = tuple(by_events[events] for events in _observed_events(terms, charge))
    return Share(costs, charge.values, charge.partition)


def total_of(terms: AccountTerms, order: int, charges: Sequence[Charge]) -> Total:
    """Return the total of charges for the record with the highest cost.

    Raises `InputError` if two charges on the same division have different numbers of agents, a
    charge does not suit the terms (`share_of`), or a cost is infinite.

    **Guarantee.** A record belongs to one agent in every division. Within a division its cost is at
    most the largest total of an agent; over divisions these maxima are added.
    """
    return next(reversed(list(totals(terms, order, charges))), Total())


def totals(terms: AccountTerms, order: int, charges: Sequence[Charge]) -> Iterator[Total]:
    """Yield the total after each charge; see `total_of`."""
    sums = Sums()
    for charge in charges:
        sums = sums.plus(share_of(terms, order, charge))
        yield sums.total


def largest_cost(terms: AccountTerms, order: int, charge: Charge) -> Total:
    """Return a charge's cost to the agent it costs most, in each of the two sums."""
    costs = _costs_by_events(terms, order, charge).values()
    return Total(
        max((cost.squares for cost in costs), default=0.0),
        max((cost.divergence for cost in costs), default=0.0),
    )


def _costs_by_events(terms: AccountTerms, order: int, charge: Charge) -> Mapping[Events, Total]:
    """Return the cost of every distinct list of events of an agent."""
    run = relation_of(charge.relation)
    check_relations(run, terms.neighbours)
    if charge.unit != terms.unit:
        raise InputError(
            f"the run protects one {charge.unit} and the account one {terms.unit}, which do not "
            "compose; plan the run for the unit of the account, or charge another account"
        )
    return {
        events: cost_of(events, run=run, account=terms.neighbours, order=order)
        for events in set(_observed_events(terms, charge))
    }


def _observed_events(terms: AccountTerms, charge: Charge) -> tuple[Events, ...]:
    """Return the events of each agent for the observer of an account."""
    if terms.observer == "sum" and charge.summed is not None:
        if charge.colluders >= terms.colluders:
            return charge.summed
        raise InputError(
            f"the run is private against {charge.colluders} colluding agents and the account "
            f"against {terms.colluders}; plan the run for as many"
        )
    return charge.messages


def _exact(cost: float) -> Fraction:
    if not math.isfinite(cost):
        raise InputError("an answer of this run exceeds any account; add more noise")
    return Fraction(cost)


def _group(pairs: Sequence[tuple[Any, Any]]) -> list[list[Any]]:
    """Return runs of equal pairs, each with its length."""
    return [[len(list(same)), *pair] for pair, same in itertools.groupby(pairs)]


def _spread(groups: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, Any]]:
    for length, first, second in groups:
        yield from itertools.repeat((first, second), int(length))


_POINTS = 4001  # least number of quadrature points
_MARGIN = 1e-9  # relative margin for the rounding of a divergence
_ROUNDING = 1e-12  # absolute margin for the rounding of a logarithm near 0
_MOST_EXPONENT = 700.0
# below it the grid does not resolve the integrand; such an answer fits no account in any case
_LEAST_SCALE = 0.2


@functools.lru_cache(maxsize=4096)
def renyi_divergence(event: Event, relation: Relation, order: int) -> float:
    """Return an upper bound on an answer's Renyi divergence of integer order a >= 2.

    It is the largest over neighbouring data sets, in both directions, rounded up; infinite without
    noise, and beyond double precision. Raises `InputError` if the order is not an integer of at
    least 2, or no bound is known for the event under this relation: as in
    `taciturn.kernel.privacy.account`, and for noise inside an objective.

    **Guarantee.** With s the multiplier, q the rate, D the Renyi divergence of order a:

    - Gaussian: a / (2 s^2).
    - Laplace: that of Lap(0, s) and Lap(1, s), which dominate a vector answer
      (`taciturn.kernel.privacy.numerical`; a dominating pair dominates in every divergence), in
      closed form (Mironov 2017, proposition 6).
    - Poisson batches of rate 1 are all records. Otherwise the pairs (p, r) of
      `taciturn.kernel.privacy.numerical` dominate, and D is log(integral of p^a r^(1 - a)) / (a -
      1), in the larger direction. Gaussian: the trapezoidal rule with spacing at most s / 10, over
      all but e^-700 of the mass of normal densities of standard deviation s, on an integrand that
      is analytic within pi s^2 of the real line: the error is below e^-39 for s >= 0.2, and below
      that s the result is infinite. Laplace: constant ratios outside [0, 1], upper bounds inside.
    - Batches of fixed size b out of n, replace_one: theorem 9 of Wang, Balle and Kasiviswanathan
      (2019) with gamma = b / n and the divergences j / (2 s^2) of the orders j.
    """
    order = checks.at_least("the order of a divergence", order, 2)
    if isinstance(event, Sampled) and event.rate == 1:
        event = event.event
    match event, relation:
        case GaussianAnswer(multiplier), _:
            found = order / (2 * multiplier**2)
        case LaplaceAnswer(multiplier), _:
            once = math.log(order / (2 * order - 1)) + (order - 1) / multiplier
            again = math.log((order - 1) / (2 * order - 1)) - order / multiplier
            found = _over(float(np.logaddexp(once, again)), order)
        case Sampled(GaussianAnswer(multiplier), rate), ZeroOut():
            found = _mixtures(multiplier, rate, order, opposite=False)
        case Sampled(GaussianAnswer(multiplier), rate), ReplaceOne():
            found = _mixtures(2 * multiplier, rate, order, opposite=True)
        case Sampled(LaplaceAnswer(multiplier), rate), ZeroOut():
            found = _sampled_laplace(multiplier, rate, order)
        case FixedSize(GaussianAnswer(multiplier), batch, records), ReplaceOne():
            found = _fixed_size(multiplier, batch / records, order)
        case _:
            raise InputError(
                f"an account has no bound for {type(event).__name__} under {relation.name}; use "
                "Gaussian or Laplace noise that is added to the answer, Poisson batches under "
                "zero_out (Gaussian: replace_one too), or fixed ones under replace_one"
            )
    return found * (1 + _MARGIN)


def _over(log_moment: float, order: int) -> float:
    """Return the divergence from the logarithm of a moment, which suffers cancellation near 0."""
    return (max(log_moment, 0.0) + _ROUNDING) / (order - 1)


def _mixtures(scale: float, rate: float, order: int, *, opposite: bool) -> float:
    """Return the divergence of (1-q) N(0) + q N(1) from N(0), or from (1-q) N(0) + q N(-1)."""
    if scale < _LEAST_SCALE:
        return math.inf
    # by completing the square, the normal densities are centred between 1 - 2 a and 2 a - 1
    reach = 2 * order + math.sqrt(2 * _MOST_EXPONENT) * scale
    count = max(_POINTS, math.ceil(20 * reach / scale))
    points, width = np.linspace(-reach, reach, count), 2 * reach / (count - 1)
    first = _log_mixture(points, scale, rate, 1.0)
    second = _log_mixture(points, scale, rate, -1.0) if opposite else _log_normal(points, scale)
    pairs = [(first, second)] if opposite else [(first, second), (second, first)]
    moments = [
        float(logsumexp(order * one - (order - 1) * other)) + math.log(width)
        for one, other in pairs
    ]
    return max(_over(moment, order) for moment in moments)


def _log_normal(x: HostArray, scale: float) -> HostArray:
    logs: HostArray = -(x**2) / (2 * scale**2) - math.log(scale * math.sqrt(2 * math.pi))
    return logs


def _log_mixture(x: HostArray, scale: float, rate: float, shift: float) -> HostArray:
    mixed: HostArray = np.logaddexp(
        math.log1p(-rate) + _log_normal(x, scale), math.log(rate) + _log_normal(x - shift, scale)
    )
    return mixed


def _sampled_laplace(scale: float, rate: float, order: int) -> float:
    """Return the divergence of (1-q) Lap(0) + q Lap(1) and Lap(0), in the larger direction."""
    edges = np.linspace(0, 1, _POINTS)
    logs = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * edges - 1) / scale)
    # the logarithms of the masses of Lap(0) below 0, in the cells of [0, 1], and above 1
    cells = math.log(0.5) - edges[:-1] / scale + math.log(-math.expm1(-1 / scale / (_POINTS - 1)))
    below, above = math.log(0.5), math.log(0.5) - 1 / scale
    moments = []
    for power in (order, 1 - order):
        inside = power * (logs[1:] if power > 0 else logs[:-1])
        parts = [below + power * logs[0], above + power * logs[-1], *(cells + inside)]
        moments.append(float(logsumexp(parts)))
    return max(_over(moment, order) for moment in moments)


def _fixed_size(scale: float, rate: float, order: int) -> float:
    orders = np.arange(2, order + 1)
    choices = gammaln(order + 1) - gammaln(orders + 1) - gammaln(order - orders + 1)
    of_order = orders / (2 * scale**2)
    terms = choices + orders * math.log(rate) + (orders - 1) * of_order + math.log(2)
    first = 1 / scale**2  # of order 2
    log_expm1 = math.log(math.expm1(first)) if first < 30 else first + math.log1p(-math.exp(-first))
    least = min(math.log(4) + log_expm1, first + math.log(2))
    terms[0] = choices[0] + 2 * math.log(rate) + least
    return _over(float(logsumexp([0.0, *terms])), order)
