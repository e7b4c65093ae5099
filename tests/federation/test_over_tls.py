"""Parties over a real server with TLS: the model of `simulate`, whatever the connection does."""

import asyncio
import contextlib
import dataclasses

import numpy as np
import pytest
from tests.federation.hubs import Told, admitted_study, free_port, proposed, running, served

from taciturn.tables import Source, load_table
from taciturn.training import Proposal, divide, train
from taciturn_federation import Coordinator, Journal, Site, derive
from taciturn_federation.keys import public_key

SEED = 7


def parties(study, sites, signed, folder, *, seed=SEED):
    """The coordinator and the sites of a run, with journals of their own."""
    coordinator = Coordinator(signed, Journal(folder / "coordinator.journal"), study.signing_key())
    found = []
    for site in sites:
        agent = site.take_part(signed)
        key = public_key(study.invitation.key)
        local = derive(signed, site.source(), agent=agent, coordinator=key, seed=seed)
        found.append(Site(local, Journal(site.journal), site.signing_key()))
    return coordinator, found


def simulated(signed, sites, folder, *, seed=SEED):
    """The training of the same proposal on one machine, from the same files in the same order."""
    place = folder / "together"
    place.mkdir()
    for number, site in enumerate(sites):
        (place / f"{number}.csv").write_bytes(site.source().path.read_bytes())
    proposal: Proposal = signed.proposal
    bounds = proposal.data.table.bounds
    table = load_table(Source(path=place, target=bounds.target_name, bounds=None), bounds)
    data = divide(table, None, split_seed=proposal.split_seed)
    return train(data, proposal, reference=False, seed=seed)


def over(hub, signed, sites, coordinator, found, *, seconds=60, links=None, faults=None):
    """The outcomes of a run, coordinator first."""
    links = links or [hub.site_link(site, signed) for site in sites]

    async def all_of_them():
        told = [Told() for _ in range(len(found) + 1)]
        runs = asyncio.gather(
            served(coordinator, hub.coordinator_link(), seconds=seconds, told=told[0]),
            *(
                served(party, link, seconds=seconds, told=one)
                for party, link, one in zip(found, links, told[1:], strict=True)
            ),
        )
        if faults is not None:
            await faults()
        return await runs, told

    try:
        return asyncio.run(all_of_them())
    finally:
        for party in (coordinator, *found):
            party.close()


@contextlib.contextmanager
def a_run(folder, *, names=("mercy", "sinai"), **asked):
    asked = {"centre": False} | asked
    port = free_port()
    study, sites = admitted_study(folder, names, port=port)
    signed = proposed(study, **asked)
    with running(study, port) as hub:
        yield study, sites, signed, hub


def check_outcomes(outcomes, training):
    assert [outcome.ending for outcome in outcomes] == ["finished"] * len(outcomes)
    for outcome in outcomes:
        np.testing.assert_allclose(outcome.model, training.model, rtol=0, atol=1e-10)


def test_two_sites_over_tls_have_the_model_of_simulate(tmp_path):
    with a_run(tmp_path) as (study, sites, signed, hub):
        coordinator, found = parties(study, sites, signed, tmp_path)
        outcomes, told = over(hub, signed, sites, coordinator, found)
    check_outcomes(outcomes, simulated(signed, sites, tmp_path))
    assert [[name for name, _ in one] for one in told] == [["connected"]] * 3


@pytest.mark.slow
def test_a_model_around_a_centre_comes_with_the_centre_that_the_run_released(tmp_path):
    with a_run(tmp_path, centre=True) as (study, sites, signed, hub):
        coordinator, found = parties(study, sites, signed, tmp_path)
        outcomes, _ = over(hub, signed, sites, coordinator, found)
    training = simulated(signed, sites, tmp_path)
    check_outcomes(outcomes, training)
    for outcome in outcomes:
        np.testing.assert_allclose(outcome.centre, training.features.centre, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["nids", "recal", "noisy-gradient"])
def test_sites_of_a_network_have_the_model_of_simulate_and_no_message_passes_the_coordinator(
    tmp_path, algorithm
):
    names = ("mercy", "sinai", "guys", "charite")
    with a_run(tmp_path, names=names, network="ring", algorithm=algorithm, rounds=12) as given:
        study, sites, signed, hub = given
        coordinator, found = parties(study, sites, signed, tmp_path)
        seen = []
        heard = coordinator.receive
        coordinator.receive = lambda packet, now: (seen.append(packet.subject), heard(packet, now))[
            1
        ]
        outcomes, _ = over(hub, signed, sites, coordinator, found)
    check_outcomes(outcomes, simulated(signed, sites, tmp_path))
    assert seen
    assert not [subject for subject in seen if ".edge." in subject or ".answer." in subject]


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

    async def stop(self):
        self.server.close()
        await self.server.wait_closed()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3, 15])
def test_a_partition_is_waited_for_and_the_model_is_the_same(tmp_path, seconds):
    """Short of the time after which a silent connection is given up, and beyond it."""
    with a_run(tmp_path, rounds=40) as (study, sites, signed, hub):
        coordinator, found = parties(study, sites, signed, tmp_path)

        async def all_of_them():
            proxy = Proxy(hub.port)
            port = await proxy.start()
            links = [hub.site_link(site, signed) for site in sites]
            links[1] = dataclasses.replace(links[1], address=f"127.0.0.1:{port}")
            runs = asyncio.gather(
                served(coordinator, hub.coordinator_link(), seconds=90),
                *(served(p, link, seconds=90) for p, link in zip(found, links, strict=True)),
            )
            while coordinator.progress().round < 10:
                await asyncio.sleep(0.01)
            proxy.passes.clear()
            stood = found[1].progress().round
            await asyncio.sleep(seconds)
            assert found[1].progress().round <= stood + 1
            proxy.passes.set()
            outcomes = await runs
            await proxy.stop()
            return outcomes

        try:
            outcomes = asyncio.run(all_of_them())
        finally:
            for party in (coordinator, *found):
                party.close()
    check_outcomes(outcomes, simulated(signed, sites, tmp_path))


@pytest.mark.slow
def test_the_server_is_killed_half_way_and_the_model_is_the_same(tmp_path):
    with a_run(tmp_path, rounds=60) as (study, sites, signed, hub):
        coordinator, found = parties(study, sites, signed, tmp_path)

        async def faults():
            for turn in (10, 30):
                while coordinator.progress().round < turn:
                    await asyncio.sleep(0.005)
                hub.kill()
                await asyncio.sleep(0.3)
                hub.start()

        outcomes, told = over(hub, signed, sites, coordinator, found, faults=faults)
    check_outcomes(outcomes, simulated(signed, sites, tmp_path))
    assert all("hub_lost" in [name for name, _ in one] for one in told)


@pytest.mark.slow
def test_a_site_that_never_comes_is_named_and_one_that_waits_is_stopped_cleanly(tmp_path):
    with a_run(tmp_path) as (study, sites, signed, hub):
        coordinator, (mercy, sinai) = parties(study, sites, signed, tmp_path)
        sinai.close()
        outcomes, _ = over(
            hub, signed, sites[:1], coordinator, [mercy], seconds=3,
            links=[hub.site_link(sites[0], signed)],
        )  # fmt: skip
    assert outcomes == [None, None]
    assert coordinator.progress().waiting_for == ("sinai",)
