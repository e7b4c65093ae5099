"""A study with sites that were admitted, a hub on this machine, and parties that only talk."""

import asyncio
import contextlib
import socket

import pytest
from tests.federation.studies import BOUNDS, write_records

from taciturn.models import write_text
from taciturn.tables import read_bounds
from taciturn.training import DataFacts, NetworkRequest, Request, TableFacts, propose
from taciturn_federation import (
    Link,
    Outcome,
    Packet,
    Progress,
    Server,
    Watch,
    admit,
    hub_configuration,
    join,
    keep_proposal,
    new_study,
    serve,
    server_program,
    sign,
)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def admitted_study(folder, names=("mercy", "sinai"), *, port=None, rows=20, name="diabetes"):
    """A study, its sites, and who is who."""
    bounds = folder / "bounds.toml"
    bounds.write_text(BOUNDS)
    table = TableFacts.of(read_bounds(bounds))
    hub = f"localhost:{port or 4222}"
    place = folder / "studies" / name
    study = new_study(place, name, table, hub=hub, rows_per_person=None)
    sites = [joined(study, folder, one, rows) for one in names]
    return study, sites


def joined(study, folder, name, rows=20):
    data = folder / f"{name}.csv"
    write_records(data, rows, seed=len(name))
    site, request = join(folder / "sites" / study.name / name, study.invitation, name, data, None)
    admit(study, request)
    return site


def proposed(study, *, network=None, nonce="00", start_patience=None, **asked):
    """A signed proposal to all who may take part, kept in the study."""
    table = study.invitation.table
    sites = [one.participant for one in study.members()]
    settings = {"epsilon": 1.0, "delta": 1e-3, "rounds": 4, "precision": "float64"} | asked
    if network is not None:
        settings["network"] = NetworkRequest(network=network)
    request = Request(**settings)
    proposal = propose(DataFacts.of(table.bounds), [site.count for site in sites], request)
    signed = sign(
        study.name,
        proposal,
        sites,
        coordinator=study.coordinator(),
        key=study.signing_key(),
        nonce=nonce,
        patience=60.0,
        start_patience=start_patience,
        release_abandoned=False,
    )
    keep_proposal(study, signed)
    return signed


class Hub:
    """The server of a study, with its configuration as of now."""

    def __init__(self, study, port):
        self.study, self.port = study, port
        self.file, self.log = study.folder / "hub.conf", study.folder / "hub.log"
        self.start()

    def start(self):
        self._write()
        self.server = Server(server_program(), self.file, self.log, self.port)

    def reload(self):
        self._write()
        self.server.reload()

    def kill(self):
        self.server.process.kill()
        self.server.stop()

    def _write(self):
        write_text(hub_configuration(self.study, host="127.0.0.1", port=self.port), self.file)

    def link(self, nkey, certificate=None):
        certificate = certificate or self.study.invitation.certificate
        return Link(f"127.0.0.1:{self.port}", certificate, nkey)

    def site_link(self, site, signed):
        site.take_part(signed)
        return self.link(site.nkey())

    def coordinator_link(self):
        return self.link(self.study.nkey())


@contextlib.contextmanager
def running(study, port):
    pytest.importorskip("nats")
    hub = Hub(study, port)
    try:
        yield hub
    finally:
        hub.server.stop()


class Talker:
    """A party that repeats the same packets until it has received enough."""

    def __init__(self, publishes=(), subscribes=(), enough=1, size=8, answers=False):
        self.publishes, self.subjects = publishes, tuple(subscribes)
        self.enough, self.answers = enough, answers
        self.payload, self.got, self.outcome, self.needed = b"x" * size, [], None, False

    def _packets(self):
        return [Packet(subject, self.payload) for subject in self.publishes]

    def start(self, now):
        return self._packets()

    def receive(self, packet, now):
        self.got.append(packet)
        if len(self.got) >= self.enough:
            self.outcome = Outcome("finished", f"received {len(self.got)}")
        return self._packets() if self.answers else []

    def tick(self, now):
        return self._packets()

    def progress(self):
        return Progress(len(self.got), self.enough, (), 0.0)

    def close(self):
        pass


class Recorder(list):
    """The events of a party."""

    def watch(self):
        return Watch(event=lambda name, **values: self.append((name, values)))

    def reasons(self):
        return [values["reason"] for _, values in self if "reason" in values]


async def served(party, link, *, seconds, recorder=None):
    """The outcome of a party that is stopped after some time."""
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, stop.set)
    return await serve(party, link, (Recorder() if recorder is None else recorder).watch(), stop)


def meeting(*pairs, seconds=20.0):
    """The outcomes of several parties, each with its link, at one time."""

    async def all_of_them():
        return await asyncio.gather(*(served(p, link, seconds=seconds) for p, link in pairs))

    return asyncio.run(all_of_them())
