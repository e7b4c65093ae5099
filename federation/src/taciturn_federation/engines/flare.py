"""A study over NVFlare: a controller beside the coordinator, an executor beside every site.

Both live in the job's processes as long as the job does, and exchange auxiliary messages: the
controller's holds packets for a site, the reply those that the site sent. Both need nvflare and no
taciturn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

from .delivery import Packet, Parties, frame, parsed
from .routing import Forwarding

TOPIC, PART = "taciturn.packets", "frames"
# the owner of a site names the folder of its sockets by this variable of the client's process; {}
# in it stands for the client's name
FOLDER = "TACITURN_SOCKETS"
# seconds: until a site without packets is asked again, until a reply is given up, for which the
# coordinator is waited for, and for which a site may compute before its client replies
IDLE, LOST, STEP, COMPUTE = 0.5, 40.0, 0.02, 10.0
_MOST = 64  # clients that are waited for at once


def to_shareable(packets: Iterable[Packet], message: Shareable) -> Shareable:
    """Return a message of NVFlare with packets added."""
    message[PART] = b"".join(map(frame, packets))
    return message


def from_shareable(message: Any) -> list[Packet] | None:
    """Return the packets in a message; None if it is no message, or says that it failed."""
    if not isinstance(message, Shareable) or message.get_return_code() != ReturnCode.OK:
        return None
    content = message.get(PART)
    try:
        return parsed(content)[0] if isinstance(content, bytes) else None
    except ValueError:
        return None


class SiteExecutor(Executor):  # type: ignore[misc]
    """Hands packets to the parties of this machine, and replies with what they send."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Take messages from the start of the job to its end."""
        if event_type == EventType.START_RUN:
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._deliver)

    def execute(self, *_: Any) -> Shareable:
        """Refuse: a study has no tasks of NVFlare."""
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _deliver(self, request: Shareable, fl_ctx: Any, **_: Any) -> Shareable:
        parties = Parties(os.environ[FOLDER].format(fl_ctx.get_identity_name()))
        try:
            sent = parties.answers(from_shareable(request) or [], COMPUTE)
        finally:
            parties.close()
        return to_shareable(sent, make_reply(ReturnCode.OK))


class _Clients:
    """The clients of a job, each of which is waited for in a separate thread."""

    def __init__(self, engine: Any, threads: ThreadPoolExecutor) -> None:
        self._engine, self._threads = engine, threads
        self._replies: dict[Hashable, Future[list[Packet] | None]] = {}
        self._sent = 0

    def nodes(self) -> Sequence[Hashable]:
        return [client.name for client in self._engine.get_clients()]

    def send(self, node: Any, packets: Sequence[Packet]) -> Hashable | None:
        self._sent += 1
        self._replies[self._sent] = self._threads.submit(self._ask, node, packets)
        return self._sent

    def replies(self, names: Sequence[Hashable]) -> Iterable[tuple[Hashable, list[Packet] | None]]:
        self._replies = {name: self._replies[name] for name in names}
        for name, reply in self._replies.items():
            if reply.done():
                yield name, None if reply.exception() else reply.result()

    def _ask(self, node: str, packets: Sequence[Packet]) -> list[Packet] | None:
        with self._engine.new_context() as context:
            replies = self._engine.send_aux_request(
                [node], TOPIC, to_shareable(packets, Shareable()), LOST, context, optional=True
            )
        return from_shareable(replies.get(node))


class StudyController(Controller):  # type: ignore[misc]
    """Forwards packets until no coordinator has been there for `leave` seconds.

    `sockets`: the folder in which the coordinator listens.
    """

    def __init__(self, sockets: str, leave: float = 60.0) -> None:
        super().__init__()
        self._sockets, self._leave = sockets, leave

    def start_controller(self, fl_ctx: Any) -> None:
        """Do nothing before the job runs."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """Do nothing once it has ended."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Forward packets until the coordinator has left, or the job is aborted."""
        parties = Parties(self._sockets)
        with ThreadPoolExecutor(_MOST, "taciturn") as threads:
            clients = _Clients(fl_ctx.get_engine(), threads)
            forwarding = Forwarding(clients, parties, idle=IDLE, lost=LOST + 5, wait=STEP)
            last = time.monotonic()
            while (now := time.monotonic()) - last < self._leave and not abort_signal.triggered:
                forwarding.step(now)
                last = now if len(parties) else last
        parties.close()
