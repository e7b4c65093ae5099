"""No record is in what the hub carries, as it stands there after TLS, nor in what is written."""

import asyncio
import json

import numpy as np
import pytest
from tests.federation.hubs import Talker, admitted_study, free_port, proposed, running, served
from tests.federation.leaks import FLOATS, leaked, needles, raw_rows
from tests.federation.studies import key_of
from tests.federation.test_over_tls import parties

from taciturn.tables import load_table
from taciturn_federation import RunReport, Nkey, Packet, StudyFolder, User, save_ended
from taciturn_federation.envelope import Kind

pytest.importorskip("nats")


def spy_on(monkeypatch):
    """The nkey of a user of the hub who may hear all and say nothing."""
    nkey, known = Nkey(key_of(70)), StudyFolder.users
    monkeypatch.setattr(
        StudyFolder, "users", lambda one: (*known(one), User(nkey.public, (), (">",)))
    )
    return nkey


class Planting:
    """A site that says what a function of its number of packets returns, besides what it should."""

    def __init__(self, site, plants):
        self.site, self.plants = site, list(plants)

    def __getattr__(self, name):
        return getattr(self.site, name)

    def receive(self, packet, now):
        said = self.site.receive(packet, now)
        if self.plants:
            sealed = self.site._seal.seal(Kind.PROGRESS, 0, self.plants.pop())
            said = [*said, Packet(self.site._exchange.subjects.state(0), sealed)]
        return said


def listened(folder, monkeypatch, plants=()):
    """What a spy at the hub heard of a private run with an evaluation, and who took part."""
    port = free_port()
    study, sites = admitted_study(folder, port=port, rows=40)
    signed = proposed(study, evaluate=0.2, centre=True)
    nkey = spy_on(monkeypatch)
    spy = Talker([], [">"], enough=10**9)
    with running(study, port) as hub:
        coordinator, found = parties(study, sites, signed, folder, seed=None)
        said = [Planting(found[0], plants), found[1]]

        async def all_of_them():
            listens = asyncio.ensure_future(served(spy, hub.link(nkey), seconds=60))
            await asyncio.sleep(1.0)  # until it is connected, so that it misses nothing
            outcomes = await asyncio.gather(
                served(coordinator, hub.coordinator_link(), seconds=60),
                *(served(party, hub.site_link(site, signed), seconds=60)
                  for party, site in zip(said, sites, strict=True)),
            )  # fmt: skip
            await asyncio.sleep(0.2)
            spy.outcome = outcomes[0]
            await listens
            return outcomes

        outcomes = asyncio.run(all_of_them())
    for party in (coordinator, *found):
        party.close()
    return study, sites, signed, coordinator, outcomes, spy


def written(folder):
    """Every file of the folder but the owners' own."""
    return [f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.suffix != ".csv"]


def wanted(sites):
    found = []
    for site in sites:
        source = site.source()
        table = load_table(source, site.invitation.table.bounds)
        found += needles([source.path], table.features)
    return found


@pytest.mark.slow
def test_no_row_is_in_the_payloads_at_the_hub_nor_in_journals_and_reports(tmp_path, monkeypatch):
    _study, sites, signed, coordinator, outcomes, spy = listened(tmp_path, monkeypatch)
    assert {outcome.ending for outcome in outcomes} == {"finished"}
    subjects = {packet.subject.split(".")[2] for packet in spy.got}
    assert {"public", "answer", "state", "proposal"} <= subjects
    for agent, outcome in zip((None, 0, 1), outcomes, strict=True):
        score = coordinator.evaluation.score(outcome.totals)
        ended = RunReport(signed=signed, plan=coordinator.plan, outcome=outcome, score=score,
                      seconds=1.0, agent=agent)  # fmt: skip
        save_ended(ended, tmp_path / f"report-{agent}", force=False)
    payloads = [packet.payload for packet in spy.got]
    assert sum(map(len, payloads)) > 10_000
    assert leaked(wanted(sites), [*payloads, *written(tmp_path)]) == []


@pytest.mark.slow
def test_a_planted_row_is_found_at_the_hub_in_every_form(tmp_path, monkeypatch):
    """The planted fault of the test above: a site that tells two numbers of one of its rows."""
    pair = [0.123456789012, -1.987654321098]
    plants = [np.asarray(pair, dtype).tobytes()[:8] for dtype in FLOATS]
    plants += [json.dumps({"row": plants[0].hex()}).encode(), f"a cell {pair[0]:.12f}".encode()]
    _study, _sites, _, _, _, spy = listened(tmp_path, monkeypatch, plants)
    row = f"{pair[0]:.12f},{pair[1]:.12f},0.5,a,no"
    file = tmp_path / "planted.csv"
    file.write_text(f"x0,x1,x2,town,ill\n{row}\n")
    assert raw_rows(file)[0, 0] == pair[0]
    found = leaked(needles([file]), [packet.payload for packet in spy.got])
    assert set(plants[:4]) <= set(found)
    assert f"{pair[0]:.12f}"[:11].encode() in found
    alone = [packet.payload for packet in spy.got if plants[0].hex().encode() in packet.payload]
    assert alone
    assert plants[0] in leaked(needles([file]), alone)
