"""What a site asks others to send again, and what it sends again itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from taciturn_federation.closing import Closing
from taciturn_federation.envelope import Envelope, Kind, Seal
from taciturn_federation.exchange import Exchange, Need
from taciturn_federation.hearing import MOST_WISHES, Spacing
from taciturn_federation.party import Packet
from taciturn_federation.rounds import Rounds


def requests(needs: Sequence[Need], turn: int, exchange: Exchange, seal: Seal) -> list[Packet]:
    """Return what asks for all that is lacking; where nothing is, for the heads of all.

    Of requests that all hear there are a few at once: what they bring serves all who lack it.
    """
    to_all = exchange.subjects.ask(exchange.agent)
    wishes = [(exchange.wish(need), _request(need)) for need in needs]
    heard_by_all = [wish for wish in wishes if wish[0] == to_all]
    kept = [wish for wish in wishes if wish not in heard_by_all[MOST_WISHES:]]
    if not needs:
        kept = [(to_all, {"kind": int(Kind.HEADS)})]
    return [Packet(subject, seal.values(Kind.WISH, turn, values)) for subject, values in kept]


def _request(need: Need) -> dict[str, int]:
    return {"kind": int(need.kind), "sender": need.sender, "round": need.round}


class Repeating:
    """Returns what a neighbour lacks, as it was written."""

    def __init__(self, exchange: Exchange, rounds: Rounds, close: Closing) -> None:
        self._exchange, self._rounds, self._close = exchange, rounds, close
        self._spacing: dict[Any, Spacing] = defaultdict(Spacing)

    def packets(self, subject: str, envelope: Envelope, now: float) -> list[Packet]:
        """Return what answers a request, which `Grammar` has checked."""
        values, subjects, agent = envelope.values(), self._exchange.subjects, self._exchange.agent
        sender, kind = envelope.sender, values["kind"]
        if kind in (Kind.FINAL, Kind.SCORE) and values["sender"] == agent:
            told = self._close.told(kind) if self._rounds.done else None
            spaced = told is not None and self._spacing[kind].allows(now)
            return [Packet(subjects.state(agent), told)] if told is not None and spaced else []
        if kind not in (Kind.MESSAGE, Kind.TOTAL) or subject != subjects.edge(sender, agent):
            return []
        return self._rounds.again(values["round"], subjects.edge(agent, sender))
