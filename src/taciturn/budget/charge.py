"""What an account is about, and what a run charges to it: events, and what they cost."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """The events of one run, under its own relation and unit.

    Raises `InputError` if there is no agent, the two observers have different numbers of agents, or
    a number is negative: what a charge takes from an account would be nothing, or come back to it.

    - `relation`, `unit`: Which data sets are neighbours: the text of `relation_text`, and the unit.
    - `messages`: For each agent, the events that an observer of every message sees.
    - `summed`: The same for an observer of sums who is told the noise of `colluders` agents; None
      where the plan credits nothing to summation.
    - `least_scale`: The least noise scale, in steps of its lattice; 0 where there is no lattice.
    - `partition`: A public name of the division of the records among agents; None if it has none.
    - `dealt`: Whether records are dealt to the agents at random, by a new draw for every run: such
      a division has no name, since the totals of a named one are added up agent by agent.
    """

    relation: str
    unit: str
    messages: tuple[Events, ...]
    summed: tuple[Events, ...] | None = None
    colluders: int = 0
    values: int = 0  # how many numbers an agent releases, at most
    least_scale: float = math.inf
    partition: str | None = None
    dealt: bool = False

    def __post_init__(self) -> None:
        if self.dealt and self.partition is not None:
            raise InputError(
                f"the division {self.partition!r} has a name, and the records of this run are "
                "dealt to the agents by a new draw, so its costs do not add up agent by agent; "
                "leave the name out, or give each record its owner"
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
        checks.at_least("values", self.values, 0)
        checks.at_least("colluders", self.colluders, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the charge as JSON-safe values; agents with equal events are written once."""
        return {
            "relation": self.relation,
            "unit": self.unit,
            "messages": _group_agents(self.messages),
            "summed": None if self.summed is None else _group_agents(self.summed),
            "colluders": self.colluders,
            "values": self.values,
            "least_scale": self.least_scale if math.isfinite(self.least_scale) else None,
            "partition": self.partition,
            "dealt": self.dealt,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Charge:
        """Return the charge of `to_dict`."""
        given = dict(values)
        summed, least = given["summed"], given["least_scale"]
        given["messages"] = _spread_agents(given["messages"])
        given["summed"] = None if summed is None else _spread_agents(summed)
        given["least_scale"] = math.inf if least is None else float(least)
        return cls(**given)


@dataclass(frozen=True)
class Total:
    """What events amount to, in the three sums that have a cap."""

    squares: float = 0.0
    divergence: float = 0.0
    values: int = 0


def cost_of(
    events: Sequence[tuple[Event, int]], *, run: Relation, account: Relation, order: int
) -> Total:
    """Return what events under the relation of a run amount to under that of an account.

    mu^2 is added up over Gaussian answers on all records, Renyi divergences over the others. Raises
    `InputError` if the relations do not compose (`check_relations`), or no bound is known for an
    event.

    **Guarantee.** Neighbours under replace_one are two steps of zero_out apart, and two steps of mu
    are one of 2 mu (Dong, Roth and Su 2022, theorem 2.14), whatever else was answered.
    """
    check_relations(run, account)
    steps = 1 if run == account else 2
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
            f"the run hides a change of {relation_text(run)} and the account one of "
            f"{relation_text(account)}, which do not add up; plan the run under that of the "
            "account, or charge another one"
        )


def relation_text(relation: Relation) -> str:
    """Return the name of a relation with its numbers, as `relation_of` reads it."""
    beta = f":{relation.beta!r}" if isinstance(relation, BoundedChange | TargetChange) else ""
    return f"{relation.name}{beta}"


@functools.lru_cache(maxsize=64)
def relation_of(text: str) -> Relation:
    """Return the relation of such a text.

    Raises `InputError` if there is none.
    """
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
            return {"event": "gaussian", "multiplier": multiplier}
        case LaplaceAnswer(multiplier):
            return {"event": "laplace", "multiplier": multiplier}
        case Sampled(inner, rate):
            return {**_event_dict(inner), "rate": rate}
        case FixedSize(inner, batch, records):
            return {**_event_dict(inner), "batch": batch, "records": records}
        case _:
            raise InputError(
                f"an account cannot hold {type(event).__name__}: nothing finite is known of it; "
                "use noise that is added to the answer"
            )


def _event_from(values: Mapping[str, Any]) -> Event:
    inner = _KINDS[values["event"]](values["multiplier"])
    if "rate" in values:
        return Sampled(inner, values["rate"])
    fixed = "batch" in values
    return FixedSize(inner, values["batch"], values["records"]) if fixed else cast("Event", inner)


def _group_agents(agents: tuple[Events, ...]) -> dict[str, Any]:
    """Return the different lists of events, and for runs of agents the number of theirs."""
    kinds = {events: kind for kind, events in enumerate(dict.fromkeys(agents))}
    runs = itertools.groupby(kinds[events] for events in agents)
    return {
        "lists": [[{**_event_dict(event), "count": n} for event, n in events] for events in kinds],
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
    """What an account is about: its relation and unit, and whom it is against.

    `relation`: as `relation_text` writes it. `observer`, `colluders`: "messages", or "sum" with the
    number of agents who tell their noise. Raises `InputError` if one of them is unknown.
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
    def observer_text(self) -> str:
        """The observer, as people read it."""
        if self.observer != "sum":
            return self.observer
        return f"{self.observer} with {self.colluders} colluding"

    @property
    def neighbours(self) -> Relation:
        """The relation."""
        return relation_of(self.relation)


@dataclass(frozen=True)
class Purpose:
    """What a run is, for the reader of an account and for what a refusal says would fit.

    `what`: in a few words. `proposal`, `plan`: their digests; the first is None where there is no
    proposal. `epsilon`, `delta`, `mu`: as its plan certifies them. Raises `InputError` if a number
    is NaN or out of range, which no account could hold.
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
        """Return the purpose as JSON-safe values, which know no infinity."""
        values = dataclasses.asdict(self)
        return {name: "infinity" if value == math.inf else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Purpose:
        """Return the purpose of `to_dict`."""
        numbers: dict[str, Any] = {
            name: math.inf for name, value in values.items() if value == "infinity"
        }
        return cls(**{**values, **numbers})


# integrals are sums over at least this many points; what rounding may lose is added
_POINTS = 4001
_MARGIN = 1e-9
_ROUNDING = 1e-12
_MOST_EXPONENT = 700.0
# below it the integrand is not smooth on the grid, and no account has room for such an answer
_LEAST_SCALE = 0.2


@functools.lru_cache(maxsize=4096)
def renyi_divergence(event: Event, relation: Relation, order: int) -> float:
    """Return the Renyi divergence of a whole order a >= 2 that an answer has at most.

    The largest over neighbouring data sets, in both directions, rounded up. Infinite for an answer
    without noise, and where it is too large for double precision. Raises `InputError` if the order
    is no whole number of at least 2, or no sound bound is known for the event under this relation:
    as in `taciturn.kernel.privacy.account`, and for noise inside an objective.

    **Guarantee.** With s the multiplier, q the rate, D the Renyi divergence of order a:

    - Gaussian: a / (2 s^2).
    - Laplace: that of Lap(0, s) and Lap(1, s), which dominate a vector answer
      (`taciturn.kernel.privacy.numerical`; pairs that dominate do so in every divergence), in
      closed form (Mironov 2017, proposition 6).
    - Poisson batches of rate 1 are all records. Else
      the pairs (p, r) of `taciturn.kernel.privacy.numerical` dominate, and D is
      log(integral of p^a r^(1 - a)) / (a - 1), in the larger direction. Gaussian: the trapezoidal
      rule at distances of s / 10 at most, over all but e^-700 of bells of width s, on an integrand
      that is analytic within pi s^2 of the real line: wrong by less than e^-39 for s >= 0.2, and
      infinite, to be safe, below. Laplace: constant ratios outside [0, 1], upper bounds inside.
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
    """Return the divergence of a logarithm of a moment; it cancels near 0, so that is covered."""
    return (max(log_moment, 0.0) + _ROUNDING) / (order - 1)


def _mixtures(scale: float, rate: float, order: int, *, opposite: bool) -> float:
    """Return the divergence of (1-q) N(0) + q N(1) and N(0), or (1-q) N(0) + q N(-1)."""
    if scale < _LEAST_SCALE:
        return math.inf
    # completing the square shows bells between 1 - 2 a and 2 a - 1
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
