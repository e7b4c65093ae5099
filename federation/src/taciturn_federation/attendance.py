"""Who took part in which round of a run that goes on without some of its sites."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import Envelope
from taciturn_federation.journal import Journal

Ranges: TypeAlias = tuple[tuple[int, int], ...]  # first and last of consecutive rounds


class Attendance(NamedTuple):
    """The rounds, from 0, in whose step a site's answer is.

    They follow from the members in the coordinator's signed values: a site whose answer a round
    went on without is no member of the next one. Each value is in the transcript digest that every
    site compares with the others at the end, so a model is released only if all were shown the same
    members. That the coordinator used the answer of each is on its word under `messages`; under
    `sum` the masks cancel only with all.
    """

    sites: tuple[tuple[str, Ranges], ...]
    missed: Ranges  # under `sum`, the rounds that missed a site and made no step
    unknown: Ranges  # those of which this party was away, or for the next one
    rounds: int  # of the run

    @property
    def values(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"sites": {name: list(map(list, turns)) for name, turns in self.sites},
                "missed": list(map(list, self.missed)),
                "unknown": list(map(list, self.unknown))}  # fmt: skip

    @property
    def lines(self) -> list[str]:
        """The same as sentences; one if every site took part in every round."""
        if all(turns == ((0, self.rounds - 1),) for _, turns in self.sites):
            return [f"Every site took part in all {self.rounds} rounds."]
        lines = [f"{name} took part in {_text(turns)}." for name, turns in self.sites]
        if self.missed:
            lines.append(f"A site was missing in {_text(self.missed)}, which made no step.")
        if self.unknown:
            lines.append(f"This party was away and knows nothing of {_text(self.unknown)}.")
        return lines


def note_members(
    journal: Journal, signed: SignedProposal, turn: int, members: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the members of a round, which are written if sites may be missing."""
    if signed.may_lose:
        content = bytes(agent in members for agent in range(len(signed.participants)))
        journal.put(signed.digest, f"members.{turn}", content)
    return members


def attendance_in(
    journal: Journal, signed: SignedProposal, rounds: int, *, summed: bool
) -> Attendance | None:
    """Return the attendance of a run by the journal of a party; None if all sites must attend."""
    if not signed.may_lose:
        return None
    agents = range(len(signed.participants))
    members = [_members(journal, signed, turn) for turn in range(rounds + 1)]
    steps = [_step(*members[turn : turn + 2], summed=summed) for turn in range(rounds)]
    return Attendance(
        tuple(
            (signed.participants[agent].name, _ranges([agent in (step or ()) for step in steps]))
            for agent in agents
        ),
        _ranges([step is not None and not step for step in steps]),
        _ranges([step is None for step in steps]),
        rounds,
    )


def _members(journal: Journal, signed: SignedProposal, turn: int) -> frozenset[int] | None:
    """Return the members of a round; None if this party has no value of it."""
    content = journal.get(signed.digest, f"members.{turn}")
    published = journal.get(signed.digest, f"public.{turn}")
    if content is None and published is None:
        return None
    # the first bytes of a value name the members (`taciturn_federation.exchange.StarExchange`)
    named = content or Envelope.parse(published or b"").body[: len(signed.participants)]
    return frozenset(agent for agent, member in enumerate(named) if member)


def _step(
    now: frozenset[int] | None, after: frozenset[int] | None, *, summed: bool
) -> frozenset[int] | None:
    """Return those whose answers are in the step after a round, given the members of both."""
    if now is None or after is None:
        return None
    return frozenset() if summed and not now <= after else now & after


def _ranges(chosen: Sequence[bool]) -> Ranges:
    """Return the places of what is chosen, as ranges."""
    edges = [
        at for at, (one, other) in enumerate(pairwise([False, *chosen, False])) if one != other
    ]
    return tuple((first, end - 1) for first, end in zip(edges[::2], edges[1::2], strict=True))


def _text(ranges: Ranges) -> str:
    if not ranges:
        return "no round"
    parts = [f"{first}" if first == last else f"{first}-{last}" for first, last in ranges]
    one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"{'round' if one else 'rounds'} {', '.join(parts)}"
