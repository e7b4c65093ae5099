"""A study over Flower: a ServerApp beside the coordinator, a ClientApp beside every site.

The ServerApp forwards packets as `routing.Router` says. A message to a node holds packets for its
site; the reply holds those that the site sent. Both apps need flwr and no taciturn.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from .delivery import Packet, Parties
from .routing import Forwarding

# seconds: until a node without packets is asked again, until a message without a reply is given up,
# until the replies are looked for again, and for which a site may compute before its node replies
IDLE, LOST, STEP, COMPUTE = 5.0, 60.0, 0.2, 10.0
_PART = "packets"


def to_record(packets: Iterable[Packet]) -> RecordDict:
    """Return packets as the content of a message of Flower."""
    subjects, payloads = [], []
    for subject, payload in packets:
        subjects.append(subject)
        payloads.append(payload)
    return RecordDict({_PART: ConfigRecord({"subjects": subjects, "payloads": payloads})})


def from_record(content: RecordDict) -> list[Packet]:
    """Return the packets in the content of a message; none, if it holds something else."""
    values: Any = content.get(_PART, {})
    subjects, payloads = values.get("subjects", []), values.get("payloads", [])
    if not (isinstance(subjects, list) and isinstance(payloads, list)):
        return []
    pairs = zip(subjects, payloads)  # noqa: B905 - of a node that may be anyone's
    return [Packet(s, p) for s, p in pairs if isinstance(s, str) and isinstance(p, bytes)]


client = ClientApp()


@client.query()  # type: ignore[untyped-decorator]
def deliver(message: Message, context: Context) -> Message:
    """Hand packets to the parties of this machine, and reply with what they send.

    Where they listen is in the configuration of the node, which its owner writes.
    """
    parties = Parties(str(context.node_config["sockets"]))
    try:
        sent = parties.answers(from_record(message.content), COMPUTE)
    finally:
        parties.close()
    return Message(to_record(sent), reply_to=message)


class _Nodes:
    """The SuperNodes of a run."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> Sequence[Hashable]:
        return list(self._grid.get_node_ids())

    def send(self, node: Any, packets: Sequence[Packet]) -> Hashable | None:
        content = to_record(packets)
        message = Message(content, dst_node_id=node, message_type="query", ttl=LOST)
        return next(iter(self._grid.push_messages([message])), None) or None

    def replies(self, names: Sequence[Any]) -> Iterable[tuple[Hashable, list[Packet] | None]]:
        for reply in self._grid.pull_messages(names) if names else ():
            packets = None if reply.has_error() else from_record(reply.content)
            yield reply.metadata.reply_to_message_id, packets


server = ServerApp()


@server.main()  # type: ignore[untyped-decorator]
def forward(grid: Grid, context: Context) -> None:
    """Forward packets until no coordinator has been there for `leave` seconds."""
    leave: Any = context.run_config["leave"]
    parties = Parties(str(context.run_config["sockets"]))
    forwarding = Forwarding(_Nodes(grid), parties, idle=IDLE, lost=LOST, wait=STEP)
    last = time.monotonic()
    while (now := time.monotonic()) - last < float(leave):
        forwarding.step(now)
        last = now if len(parties) else last
