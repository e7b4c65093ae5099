"""The coordinator's end of an engine: packets between the coordinator and the nodes of the sites.

Standard library only, as this file also runs where an engine is installed and taciturn is not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from .delivery import MAX_WAITING, Packet, Waiting

# by kind of subject: whether those of a node are for the coordinator, and for other nodes
_OF_NODES = {"ask": (True, True), "state": (True, True), "answer": (True, False)}
_OF_COORDINATOR = ("proposal", "public")


class Router:
    """Which packets go where, on a star: the coordinator is beside it, every node elsewhere.

    A node receives no answer of another one. Edges between sites are not routed, since an engine
    does not know which node is which site.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Waiting] = {}
        # what a node took already: parties repeat themselves, which makes no node due
        self._taken: dict[Hashable, dict[int, None]] = {}

    def nodes(self, present: Iterable[Hashable]) -> None:
        """Take the nodes that are there now; what waits for others is dropped."""
        self._waiting = {node: self._waiting.get(node, Waiting()) for node in present}
        self._taken = {node: self._taken.get(node, {}) for node in self._waiting}

    def from_coordinator(self, packets: Iterable[Packet]) -> None:
        """Keep what the coordinator sends for every node."""
        mine = [one for one in packets if _kind(one) in _OF_COORDINATOR]
        for waiting in self._waiting.values():
            waiting.put(mine)

    def from_node(self, node: Hashable, packets: Iterable[Packet]) -> list[Packet]:
        """Keep what a node sends for the others, and return what is for the coordinator."""
        here = []
        for packet in packets:
            coordinator, others = _OF_NODES.get(_kind(packet), (False, False))
            here += [packet] * coordinator
            for other, waiting in self._waiting.items():
                if others and other != node:
                    waiting.put((packet,))
        return here

    def due(self, node: Hashable) -> bool:
        """Whether something new waits for a node, other than requests: those can wait."""
        taken = self._taken.get(node, {})
        return any(
            _kind(packet) != "ask" and hash(packet) not in taken
            for packet in self._waiting.get(node, ())
        )

    def take(self, node: Hashable) -> list[Packet]:
        """Return what waits for a node, and forget it."""
        packets = self._waiting[node].take() if node in self._waiting else []
        taken = self._taken.setdefault(node, {})
        taken.update((hash(packet), None) for packet in packets)
        for one in list(taken)[:-MAX_WAITING]:
            del taken[one]
        return packets

    def lost(self, node: Hashable) -> None:
        """Take that a node may not have received its last packets."""
        self._taken.pop(node, None)


def _kind(packet: Packet) -> str:
    """Return the third token of a subject, `STUDY.RUN.KIND...`."""
    return [*packet.subject.split("."), "", "", ""][2]


@runtime_checkable
class Engine(Protocol):
    """What an engine offers: messages to its nodes, each of which has one reply."""

    def nodes(self) -> Sequence[Hashable]:
        """Return the nodes that are there now."""

    def send(self, node: Hashable, packets: Sequence[Packet]) -> Hashable | None:
        """Send a node a message; return what identifies its reply, None if it cannot be sent."""

    def replies(self, names: Sequence[Hashable]) -> Iterable[tuple[Hashable, list[Packet] | None]]:
        """Return the replies that have come, of those named; None for one that failed."""


@runtime_checkable
class Local(Protocol):
    """The parties of this machine, as `delivery.Parties`."""

    def collect(self, seconds: float) -> list[Packet]:
        """Return what they have sent."""

    def deliver(self, packets: Sequence[Packet]) -> None:
        """Hand packets to those that subscribe to them."""


class Forwarding:
    """The nodes of an engine, each with at most one message under way.

    `idle`: seconds until a node for which nothing new waits is asked again what it has. `lost`:
    until a message without a reply is given up. `wait`: for which the coordinator is waited for.
    """

    def __init__(
        self, engine: Engine, parties: Local, *, idle: float, lost: float, wait: float
    ) -> None:
        self._engine, self._parties, self._router = engine, parties, Router()
        self._idle, self._lost, self._wait = idle, lost, wait
        self._under_way: dict[Hashable, tuple[Hashable, float]] = {}
        self._asked: dict[Hashable, float] = {}

    def step(self, now: float) -> None:
        """Forward what has arrived, and ask the nodes that are due."""
        self._router.nodes(nodes := list(self._engine.nodes()))
        self._router.from_coordinator(self._parties.collect(self._wait))
        for name, packets in self._engine.replies(list(self._under_way)):
            self._receive(name, packets)
        for name, (node, since) in list(self._under_way.items()):
            if node not in nodes or now - since > self._lost:
                self._receive(name, None)
        busy = {node for node, _ in self._under_way.values()}
        for node in nodes:
            idle = now - self._asked.get(node, -self._idle) >= self._idle
            if node not in busy and (idle or self._router.due(node)):
                self._send(node, now)

    def _send(self, node: Hashable, now: float) -> None:
        self._asked[node] = now
        name = self._engine.send(node, self._router.take(node))
        if name is None:
            self._router.lost(node)
        else:
            self._under_way[name] = (node, now)

    def _receive(self, name: Hashable, packets: list[Packet] | None) -> None:
        found = self._under_way.pop(name, None)
        if found is not None and packets is None:
            self._router.lost(found[0])
        elif found is not None:
            self._parties.deliver(self._router.from_node(found[0], packets or []))
