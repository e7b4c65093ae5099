"""Parties over a real server with TLS: the model of `simulate`, and no record in transit."""

import asyncio
import contextlib
import dataclasses
import errno
import json

import numpy as np
import pytest
from tests.federation.hubs import (
    Recorder,
    Talker,
    admitted_study,
    free_port,
    proposed,
    running,
    served,
)
from tests.federation.leaks import FLOATS, leaked, needles, raw_rows
from tests.federation.studies import key_of

from taciturn.tables import Source, load_table
from taciturn.training import divide, train
from taciturn_federation import (
    Coordinator,
    Journal,
    Link,
    Nkey,
    Packet,
    RunReport,
    Site,
    StudyFolder,
    User,
    Watch,
    derive,
    serve,
)
from taciturn_federation.envelope import Kind
from taciturn_federation.keys import public_key

pytest.importorskip("nats")
SEED = 7


class Run:
    """A run of a study over a hub; `parties` are the coordinator and the sites, with journals."""

    def __init__(self, folder, hub, study, sites, signed, seed=SEED):
        self.folder, self.hub, self.study, self.sites = folder, hub, study, sites
        self.signed, key = signed, public_key(study.invitation.key)
        self.coordinator = Coordinator(signed, Journal(folder / "c.journal"), study.signing_key())
        self.parties = [self.coordinator]
        for site in sites:
            agent = site.take_part(signed)
            local = derive(signed, site.source(), agent=agent, coordinator=key, seed=seed)
            self.parties.append(Site(local, Journal(site.journal), site.signing_key()))
        self.links = [hub.coordinator_link(), *(hub.site_link(site, signed) for site in sites)]
        self.recorders = [Recorder() for _ in self.parties]

    async def outcomes(self, seconds=60, faults=None):
        """The outcomes of all parties, coordinator first."""
        runs = asyncio.gather(*(
            served(party, link, seconds=seconds, recorder=recorder)
            for party, link, recorder in
            zip(self.parties, self.links, self.recorders, strict=True)
        ))  # fmt: skip
        if faults is not None:
            await faults()
        return await runs

    def check(self, outcomes):
        """All end with the model of one machine, from the same files in the same order."""
        place = self.folder / "together"
        place.mkdir()
        for number, site in enumerate(self.sites):
            (place / f"{number}.csv").write_bytes(site.source().path.read_bytes())
        proposal = self.signed.proposal
        bounds = proposal.data.table.bounds
        table = load_table(Source(path=place, target=bounds.target_name, bounds=None), bounds)
        data = divide(table, None, split_seed=proposal.split_seed)
        training = train(data, proposal, reference=False, seed=SEED)
        assert [outcome.ending for outcome in outcomes] == ["finished"] * len(outcomes)
        for outcome in outcomes:
            np.testing.assert_allclose(outcome.model, training.model, rtol=0, atol=1e-10)
            if proposal.centre:
                centre = training.features.centre
                np.testing.assert_allclose(outcome.centre, centre, rtol=0, atol=1e-10)


@contextlib.contextmanager
def a_run(folder, *, names=("mercy", "sinai"), seed=SEED, rows=20, **asked):
    port = free_port()
    study, sites = admitted_study(folder, names, port=port, rows=rows)
    signed = proposed(study, **({"centre": False} | asked))
    with running(study, port) as hub:
        run = Run(folder, hub, study, sites, signed, seed)
        try:
            yield run
        finally:
            for party in run.parties:
                party.close()


def test_two_sites_over_tls_have_the_model_of_simulate(tmp_path):
    with a_run(tmp_path) as run:
        outcomes = asyncio.run(run.outcomes())
    run.check(outcomes)
    assert [[name for name, _ in one] for one in run.recorders] == [["connected"]] * 3


def test_a_party_whose_hub_never_comes_gives_up_and_no_trouble_of_its_watch_ends_it(tmp_path):
    """The patience runs without a connection; a disk behind log and status may be full."""
    port = free_port()
    study, (site, _) = admitted_study(tmp_path, port=port)
    signed = proposed(study, start_patience=1.0)
    key = public_key(study.invitation.key)
    local = derive(signed, site.source(), agent=0, coordinator=key)
    party, called = Site(local, Journal(site.journal), site.signing_key()), []

    def full(*values, **_):
        called.append(values)
        raise OSError(errno.ENOSPC, "No space left on device")

    link = Link(f"127.0.0.1:{port}", study.invitation.certificate, site.nkey())
    outcome = asyncio.run(asyncio.wait_for(
        serve(party, link, Watch(full, full), asyncio.Event()), timeout=30
    ))  # fmt: skip
    party.close()
    assert (outcome.ending, outcome.model) == ("abandoned", None)
    assert "no message of coordinator arrived for 2 s" in outcome.line
    assert called
    Watch(full, full).note("hub_away", reason="nothing listens")
    assert called[-1] == ("hub_away",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [{"centre": True, "names": ("mercy", "sinai")}, {"network": "ring", "algorithm": "nids"},
     {"network": "ring", "algorithm": "recal"}, {"network": "ring"}],
    ids=["centre", "gossip", "relay", "tree"],
)  # fmt: skip
def test_sites_have_the_model_of_simulate_and_no_message_passes_the_coordinator(tmp_path, how):
    names = ("mercy", "sinai", "guys", "charite")
    with a_run(tmp_path, **({"names": names, "rounds": 12} | how)) as run:
        seen, receive = [], run.coordinator.receive

        def received(packet, now):
            seen.append(packet.subject)
            return receive(packet, now)

        run.coordinator.receive = received
        outcomes = asyncio.run(run.outcomes())
    run.check(outcomes)
    assert seen
    if "network" in how:
        assert not [one for one in seen if ".edge." in one or ".answer." in one]


class Proxy:
    """A wire that can be cut: connections through it stay open, and nothing passes."""

    def __init__(self, port):
        self.port = port
        self.passes = asyncio.Event()
        self.passes.set()

    async def start(self):
        self.server = await asyncio.start_server(self._one, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def _one(self, reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self.passes.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3, 15])
def test_a_partition_is_waited_for_and_the_model_is_the_same(tmp_path, seconds):
    """Short of the time after which a silent connection is given up, and beyond it."""
    with a_run(tmp_path, rounds=40) as run:
        coordinator, _, sinai = run.parties

        async def all_of_them():
            proxy = Proxy(run.hub.port)
            address = f"127.0.0.1:{await proxy.start()}"
            run.links[2] = dataclasses.replace(run.links[2], address=address)

            async def cut():
                while coordinator.progress().round < 10:
                    await asyncio.sleep(0.01)
                proxy.passes.clear()
                stood = sinai.progress().round
                await asyncio.sleep(seconds)
                assert sinai.progress().round <= stood + 1
                proxy.passes.set()

            outcomes = await run.outcomes(90, cut)
            proxy.server.close()
            await proxy.server.wait_closed()
            return outcomes

        outcomes = asyncio.run(all_of_them())
    run.check(outcomes)


@pytest.mark.slow
def test_the_server_is_killed_half_way_and_the_model_is_the_same(tmp_path):
    with a_run(tmp_path, rounds=60) as run:

        async def faults():
            for turn in (10, 30):
                while run.coordinator.progress().round < turn:
                    await asyncio.sleep(0.005)
                run.hub.kill()
                await asyncio.sleep(0.3)
                run.hub.start()

        outcomes = asyncio.run(run.outcomes(faults=faults))
    run.check(outcomes)
    assert all("hub_lost" in [name for name, _ in one] for one in run.recorders)


# no record is in what the hub carries, as it stands there after TLS, nor in what is written


class Planting:
    """A site that sends what is planted, besides what it should."""

    def __init__(self, site, plants):
        self.site, self.plants = site, list(plants)

    def __getattr__(self, name):
        return getattr(self.site, name)

    def receive(self, packet, now):
        packets = self.site.receive(packet, now)
        if self.plants:
            payload = self.site._signer.seal(Kind.PROGRESS, 0, self.plants.pop())
            packets = [*packets, Packet(self.site._exchange.subjects.state(0), payload)]
        return packets


def listened(folder, monkeypatch, plants=()):
    """A private run with an evaluation, and the packets of a spy at the hub: a user of all."""
    nkey, users = Nkey(key_of(70)), StudyFolder.users
    monkeypatch.setattr(
        StudyFolder, "users", lambda one: (*users(one), User(nkey.public, (), (">",)))
    )
    spy = Talker([], [">"], enough=10**9)
    with a_run(folder, rows=40, seed=None, evaluate=0.2, centre=True) as run:
        run.parties[1] = Planting(run.parties[1], plants)

        async def all_of_them():
            listens = asyncio.ensure_future(served(spy, run.hub.link(nkey), seconds=60))
            await asyncio.sleep(1.0)  # until it is connected, so that it misses nothing
            outcomes = await run.outcomes()
            await asyncio.sleep(0.2)
            spy.outcome = outcomes[0]
            await listens
            return outcomes

        outcomes = asyncio.run(all_of_them())
    return run, outcomes, spy


@pytest.mark.slow
def test_no_row_is_in_the_payloads_at_the_hub_nor_in_journals_and_reports(tmp_path, monkeypatch):
    run, outcomes, spy = listened(tmp_path, monkeypatch)
    assert {outcome.ending for outcome in outcomes} == {"finished"}
    subjects = {packet.subject.split(".")[2] for packet in spy.got}
    assert {"public", "answer", "state", "proposal"} <= subjects
    for agent, outcome in zip((None, 0, 1), outcomes, strict=True):
        score = run.coordinator.evaluation.score(outcome.totals)
        report = RunReport(signed=run.signed, plan=run.coordinator.plan, outcome=outcome,
                           score=score, seconds=1.0, agent=agent)  # fmt: skip
        report.save(tmp_path / f"report-{agent}", force=False)
    payloads = [packet.payload for packet in spy.got]
    assert sum(map(len, payloads)) > 10_000
    written = [f.read_bytes() for f in tmp_path.rglob("*") if f.is_file() and f.suffix != ".csv"]
    wanted = []
    for site in run.sites:
        table = load_table(site.source(), site.invitation.table.bounds)
        wanted += needles([site.source().path], table.features)
    assert leaked(wanted, [*payloads, *written]) == []


@pytest.mark.slow
def test_a_planted_row_is_found_at_the_hub_in_every_form(tmp_path, monkeypatch):
    """The planted fault of the test above: a site that sends two numbers of one of its rows."""
    pair = [0.123456789012, -1.987654321098]
    plants = [np.asarray(pair, dtype).tobytes()[:8] for dtype in FLOATS]
    plants += [json.dumps({"row": plants[0].hex()}).encode(), f"a cell {pair[0]:.12f}".encode()]
    _, _, spy = listened(tmp_path, monkeypatch, plants)
    file = tmp_path / "planted.csv"
    file.write_text(f"x0,x1,x2,town,ill\n{pair[0]:.12f},{pair[1]:.12f},0.5,a,no\n")
    assert raw_rows(file)[0, 0] == pair[0]
    found = leaked(needles([file]), [packet.payload for packet in spy.got])
    assert set(plants[:4]) <= set(found)
    assert f"{pair[0]:.12f}"[:11].encode() in found
    alone = [packet.payload for packet in spy.got if plants[0].hex().encode() in packet.payload]
    assert alone
    assert plants[0] in leaked(needles([file]), alone)
