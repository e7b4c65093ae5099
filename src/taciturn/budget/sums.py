"""What charges amount to: exact running sums, which never drift from the charges behind them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from taciturn.budget.charge import (
    AccountTerms,
    Charge,
    Events,
    Total,
    check_relations,
    cost_of,
    relation_of,
)
from taciturn.errors import InputError

# more than rounding takes from the cost of one charge; sums of costs are exact
_UP = 1 + 1e-12
Pair: TypeAlias = tuple[Fraction, Fraction]
_NOTHING: Pair = (Fraction(0), Fraction(0))


@dataclass(frozen=True)
class Share:
    """What one charge adds to the sums of an account, and takes out of them if it is returned.

    `costs`: of each agent; of the dearest one alone where the division has no name. `values`,
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
    """Running sums over charges: fractions, since what is added must come out again whole.

    **Guarantee.** A double is a fraction, and fractions are added and subtracted without rounding:
    after any history the sums are those of the charges that stand, in any order.

    - `once`: Of charges on divisions without a name: squares and divergences of their dearest
      agents.
    - `divided`: Of every named division, the sums of each agent.
    """

    once: Pair = _NOTHING
    divided: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)
    values: int = 0  # numbers on a lattice
    runs: int = 0  # how many charges

    def plus(self, share: Share, sign: int = 1) -> Sums:
        """Return the sums with one charge more; with sign -1 without one that was added.

        Raises `InputError` if a cost is infinite, or the division has another number of agents.
        """
        added = tuple((_exact(cost.squares), _exact(cost.divergence)) for cost in share.costs)
        name, once, divided = share.partition, self.once, self.divided
        before = (once,) if name is None else divided.get(name, (_NOTHING,) * len(added))
        if name is not None and len(before) != len(added):
            raise InputError(
                f"runs on the division {name!r} have different numbers of agents; "
                "give divisions names of their own"
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
        """What the charges amount to, for the record that they cost most; see `total_of`."""
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
    """Return what a charge adds to the sums of an account.

    Raises `InputError` if relation, unit or colluders and those of the terms do not compose.
    """
    if charge.partition is None:
        costs: tuple[Total, ...] = (largest_cost(terms, order, charge),)
    else:
        by_events = _costs_by_events(terms, order, charge)
        costs = tuple(by_events[events] for events in _observed_events(terms, charge))
    return Share(costs, charge.values, charge.partition)


def total_of(terms: AccountTerms, order: int, charges: Sequence[Charge]) -> Total:
    """Return what charges amount to, for the record that they cost most.

    Raises `InputError` if two charges have one division of the records and different numbers of
    agents, a charge does not suit the terms (`share_of`), or a cost is infinite.

    **Guarantee.** A record belongs to one agent in every division. Within a division its cost is at
    most the largest total of an agent; over divisions the largest are added.
    """
    return next(reversed(list(totals(terms, order, charges))), Total())


def totals(terms: AccountTerms, order: int, charges: Sequence[Charge]) -> Iterator[Total]:
    """Yield what charges amount to after each of them; see `total_of`."""
    sums = Sums()
    for charge in charges:
        sums = sums.plus(share_of(terms, order, charge))
        yield sums.total


def largest_cost(terms: AccountTerms, order: int, charge: Charge) -> Total:
    """Return what a charge costs the agent that it costs most, in each of the two sums."""
    costs = _costs_by_events(terms, order, charge).values()
    return Total(
        max((cost.squares for cost in costs), default=0.0),
        max((cost.divergence for cost in costs), default=0.0),
    )


def _costs_by_events(terms: AccountTerms, order: int, charge: Charge) -> Mapping[Events, Total]:
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
        for events in set(_observed_events(terms, charge))
    }


def _observed_events(terms: AccountTerms, charge: Charge) -> tuple[Events, ...]:
    """Return the events of each agent as the observer of an account sees them."""
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
        raise InputError("an answer of this run costs more than any account holds; add more noise")
    return Fraction(cost)


def _group(pairs: Sequence[tuple[Any, Any]]) -> list[list[Any]]:
    """Return runs of equal pairs, each with its length."""
    return [[len(list(same)), *pair] for pair, same in itertools.groupby(pairs)]


def _spread(groups: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, Any]]:
    for length, first, second in groups:
        yield from itertools.repeat((first, second), int(length))
