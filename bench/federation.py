"""A round of a study over TLS on this machine, beside the same bytes without us, and its floor.

All parties are in one process, so their work adds up; a study's sites have machines of their own.
"""

from __future__ import annotations

import asyncio
import csv
import itertools
import logging
import os
import secrets
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.clock import fresh_process
from taciturn.tables import read_bounds
from taciturn.training import DataFacts, NetworkRequest, Request, TableFacts, propose
from taciturn_federation import (
    Coordinator,
    Journal,
    Link,
    Outcome,
    Packet,
    Progress,
    Server,
    Site,
    Watch,
    admit,
    derive,
    hub_configuration,
    join,
    keep_proposal,
    new_study,
    serve,
    server_program,
    sign,
)
from taciturn_federation.journal import Entry, RoundRow
from taciturn_federation.keys import public_key

_FIRST = 10  # rounds that are not counted
_ROWS, _CELLS = 200, 200_000


class Echo:
    """A party that answers every public value with as many bytes, and nothing else."""

    def __init__(self, hears: str, says: str, rounds: int, size: int) -> None:
        self.subjects, self._says = (hears,), says
        self._left, self._payload = rounds, bytes(size)
        self.outcome: Outcome | None = None
        self.needed = False

    def start(self, now: float) -> list[Packet]:
        """Return nothing: it waits."""
        del now
        return []

    def receive(self, packet: Packet, now: float) -> list[Packet]:
        """Return the answer."""
        del packet, now
        self._left -= 1
        if not self._left:
            self.outcome = Outcome("finished", "")
        return [Packet(self._says, self._payload)]

    def tick(self, now: float) -> list[Packet]:
        """Return nothing."""
        del now
        return []

    def progress(self) -> Progress:
        """Return nothing of interest."""
        return Progress(0, 0, (), 0.0)

    def close(self) -> None:
        """Let go of nothing."""


class Asks(Echo):
    """The party that publishes, waits for all, and publishes the next."""

    def __init__(self, says: str, hears: str, rounds: int, size: int, sites: int) -> None:
        super().__init__(hears, says, rounds, size)
        self._sites, self._came, self._begun = sites, 0, 0.0
        self.times: list[float] = []

    def receive(self, packet: Packet, now: float) -> list[Packet]:
        """Return the next value once all have answered."""
        self._came += 1
        if self._came % self._sites:
            return []
        self.times.append(time.perf_counter())
        return super().receive(packet, now)

    def tick(self, now: float) -> list[Packet]:
        """Return the first value, when the others listen."""
        self._begun = self._begun or now
        if self.times or self._came or now - self._begun < 1:
            return []
        self._came = 0
        self._begun = float("inf")
        return [Packet(self._says, self._payload)]


class Study:
    """A study with its hub in a folder, all sites admitted and in this process."""

    def __init__(self, folder: Path, sites: int, columns: int, classes: int, **asked: Any) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        bounds = _bounds(folder, columns, classes)
        table = TableFacts.of(read_bounds(bounds))
        hub = f"localhost:{self.port}"
        self.study = new_study(folder / "study", "bench", table, hub=hub, rows_per_person=None)
        self.sites = []
        for number in range(sites):
            name = f"site{number}"
            data = _records(folder / f"{name}.csv", columns, classes, seed=number)
            site, request = join(folder / name, self.study.invitation, name, data, None)
            admit(self.study, request)
            self.sites.append(site)
        request_ = Request(epsilon=1.0, delta=1e-5, precision="float32", centre=False, **asked)
        members = [one.participant for one in self.study.members()]
        counts = [one.count for one in members]
        proposal = propose(DataFacts.of(table.bounds), counts, request_)
        self.signed = sign(
            "bench",
            proposal,
            members,
            coordinator=self.study.coordinator(),
            key=self.study.signing_key(),
            nonce=secrets.token_hex(16),
            patience=120.0,
            release_abandoned=False,
        )
        keep_proposal(self.study, self.signed)
        self.folder = folder

    @contextmanager
    def hub(self) -> Iterator[None]:
        """Run the server."""
        file = self.folder / "hub.conf"
        file.write_text(hub_configuration(self.study, host="127.0.0.1", port=self.port))
        server = Server(server_program(), file, self.folder / "hub.log", self.port)
        try:
            yield
        finally:
            server.stop()

    def links(self) -> list[Link]:
        """Return how each comes to the hub, the coordinator first."""
        for site in self.sites:
            site.take_part(self.signed)
        certificate, address = self.study.invitation.certificate, f"127.0.0.1:{self.port}"
        nkeys = [self.study.nkey(), *(site.nkey() for site in self.sites)]
        return [Link(address, certificate, nkey) for nkey in nkeys]

    def parties(self) -> list[Any]:
        """Return coordinator and sites, each with a journal."""
        key = public_key(self.study.invitation.key)
        journal = Journal(self.folder / "coordinator.journal")
        found: list[Any] = [Coordinator(self.signed, journal, self.study.signing_key())]
        for site in self.sites:
            agent = site.take_part(self.signed)
            local = derive(self.signed, site.source(), agent=agent, coordinator=key)
            found.append(Site(local, Journal(site.journal), site.signing_key()))
        return found


def star_rounds(
    sites: int = 10, columns: int = 104, classes: int = 2, rounds: int = 60
) -> dict[str, float]:
    """Return milliseconds a round of a star over TLS, of the same bytes alone, and of parts."""
    with _folder() as folder:
        study = Study(folder, sites, columns, classes, rounds=rounds)
        with study.hub():
            took = _marks(study, study.parties())
            size = 4 * columns * (1 if classes == 2 else classes)
            bare = _bare(study, rounds, size)
    parts = _parts(size)
    serial = parts["signature, ms"] * (sites + 1) + parts["verification, ms"] * (2 * sites)
    return {
        "a round, median ms": took,
        "the same bytes alone, median ms": bare,
        "ratio": took / bare,
        **parts,
        "signatures and their checks of a round, ms": serial,
        "load": os.getloadavg()[0],
    }


def relay_hops(sites: int = 8, columns: int = 104, rounds: int = 160) -> dict[str, float]:
    """Return milliseconds a hop of a relay on a ring."""
    ring = NetworkRequest(network="ring")
    with _folder() as folder:
        study = Study(folder, sites, columns, 2, rounds=rounds, algorithm="recal", network=ring)
        parties = study.parties()
        with study.hub():
            return {"a hop, median ms": _marks(study, parties), "load": os.getloadavg()[0]}


def check_of_a_site() -> dict[str, float]:
    """Return seconds and MiB of `taciturn site check`: a start, and all that a site derives."""
    with _folder() as folder:
        study = Study(folder, 3, 104, 2, rounds=100)
        file, sites = folder / "proposal.json", folder / "sites"
        file.write_text(study.signed.to_json())
        (sites / "bench").mkdir(parents=True)
        study.sites[0].folder.rename(sites / "bench" / "site0")
        command = ["site", "check", str(file), "--name", "site0", "--sites", str(sites)]
        found = [fresh_process([sys.executable, "-m", "taciturn", *command]) for _ in range(3)]
    return {
        "start and check, median s": statistics.median(seconds for _, seconds, _ in found),
        "peak memory, MiB": max(memory for _, _, memory in found),
        "load": os.getloadavg()[0],
    }


def _marks(study: Study, parties: Sequence[Any]) -> float:
    """Return the median of milliseconds a round, by when parties finish one."""
    times: dict[int, float] = {}
    for party in parties:
        party.receive = _watched(party, times)
    try:
        outcomes = asyncio.run(_all(parties, study.links()))
    finally:
        for party in parties:
            party.close()
    assert outcomes[0] is not None
    assert outcomes[0].ending == "finished", outcomes[0].line
    turns = sorted(turn for turn in times if turn >= _FIRST)
    pairs = itertools.pairwise(turns)
    return 1e3 * statistics.median((times[b] - times[a]) / (b - a) for a, b in pairs)


def _watched(party: Any, times: dict[int, float]) -> Any:
    receive_packet = party.receive

    def watched(packet: Packet, now: float) -> list[Packet]:
        packets: list[Packet] = receive_packet(packet, now)
        times.setdefault(party.progress().round, time.perf_counter())
        return packets

    return watched


def _bare(study: Study, rounds: int, size: int) -> float:
    subjects, sites = study.signed.subjects, len(study.sites)
    asks = Asks(subjects.public(0), subjects.answer(), rounds, size, sites)
    others = [
        Echo(subjects.public(), subjects.answer(number), rounds, size) for number in range(sites)
    ]
    asyncio.run(_all([asks, *others], study.links()))
    return 1e3 * float(np.median(np.diff(asks.times[_FIRST:])))


async def _all(parties: Sequence[Any], links: Sequence[Link]) -> list[Outcome | None]:
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    stop = asyncio.Event()
    runs = (serve(party, link, Watch(), stop) for party, link in zip(parties, links, strict=True))
    return list(await asyncio.gather(*runs))


def _parts(size: int, repeats: int = 60) -> dict[str, float]:
    """Return what each message costs whoever carries it: a signature, its check, a journal."""
    key, content = Ed25519PrivateKey.generate(), bytes(160)
    public, signature = key.public_key(), key.sign(content)
    with _folder() as folder:
        journal = Journal(folder / "journal")
        entries = (Entry(0, 0, 1.0, -20, 1.0, 0),)

        def written(turn: int) -> None:
            journal.add("run", RoundRow(turn, bytes(32), bytes(size), b"", bytes(32), entries))

        found = {
            "signature, ms": _median(lambda _: key.sign(content), repeats),
            "verification, ms": _median(lambda _: public.verify(signature, content), repeats),
            "journal, ms": _median(written, repeats),
        }
        journal.close()
    return found


def _median(work: Any, repeats: int) -> float:
    times = []
    for turn in range(repeats):
        began = time.perf_counter()
        work(turn)
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times)


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a folder, which holds the heads of journals too."""
    before = os.environ.get("TACITURN_STATE_DIR")
    with tempfile.TemporaryDirectory() as name:
        os.environ["TACITURN_STATE_DIR"] = str(Path(name) / "state")
        try:
            yield Path(name)
        finally:
            os.environ.pop("TACITURN_STATE_DIR")
            if before is not None:
                os.environ["TACITURN_STATE_DIR"] = before


def _bounds(folder: Path, columns: int, classes: int) -> Path:
    values = [f"c{number}" for number in range(classes)]
    lines = ['source = "public"', "[target]", 'name = "y"', f"values = {values}", "[columns]"]
    lines += [f"x{number} = {{ min = -4.0, max = 4.0 }}" for number in range(columns - 1)]
    file = folder / "bounds.toml"
    file.write_text("\n".join(lines).replace("'", '"') + "\n")
    return file


def _records(file: Path, columns: int, classes: int, *, seed: int) -> Path:
    draw = np.random.default_rng(seed)
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(f"x{number}" for number in range(columns - 1)), "y"])
        for row in range(min(_ROWS, max(20, _CELLS // columns))):
            cells = np.round(draw.standard_normal(columns - 1), 3).tolist()
            writer.writerow([*cells, f"c{row % classes}"])
    return file
