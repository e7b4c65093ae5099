"""A real server lets in whom the study knows, and lets them say what a proposal gives them."""

import asyncio
import socket
import ssl

import pytest
from tests.federation.hubs import (
    Talker,
    Told,
    admitted_study,
    free_port,
    meeting,
    proposed,
    running,
    served,
)

from taciturn.errors import InputError
from taciturn_federation import strike
from taciturn_federation.keys import client_context, new_hub

STAR, RING = {}, {"network": "ring", "algorithm": "nids"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub with a run on a star of two, and one on a ring of four."""
    folder, port = tmp_path_factory.mktemp("hub"), free_port()
    study, sites = admitted_study(folder, ("mercy", "sinai", "guys", "charite"), port=port)
    star, ring = proposed(study), proposed(study, network="ring", algorithm="nids", nonce="01")
    with running(study, port) as one:
        one.sites, one.star, one.ring = sites, star, ring
        yield one


def alone(party, link, seconds=1.0):
    """What is told of a party that meets nobody."""
    told = Told()
    asyncio.run(served(party, link, seconds=seconds, told=told))
    return told


def test_a_site_and_the_coordinator_hear_each_other_over_tls(hub):
    subjects = hub.star.subjects
    # who has heard the other leaves; its answer reaches one that came later
    asks = Talker([subjects.public(0)], subjects.of_coordinator[1], answers=True)
    site = Talker([subjects.answer(0)], subjects.of_agent(0, ())[1], answers=True)
    outcomes = meeting(
        (asks, hub.coordinator_link()), (site, hub.site_link(hub.sites[0], hub.star))
    )
    assert [outcome.ending for outcome in outcomes] == ["finished", "finished"]
    assert asks.got[0].subject == subjects.answer(0)
    assert site.got[0].subject == subjects.public(0)


def foreign_subjects(hub):
    """Who may not write what: another site's, the coordinator's, an edge that is not there."""
    star, ring = hub.star.subjects, hub.ring.subjects
    return [
        (0, star.answer(1)),
        (0, star.state(1)),
        (0, star.ask(1)),
        (0, star.public(0)),
        (0, star.proposal),
        (0, star.edge(0, 1)),
        (0, ring.edge(0, 2)),
        (0, ring.edge(1, 0)),
        (0, "other.0123456789abcdef.answer.0"),
        (None, star.answer(0)),
        (None, ring.edge(0, 1)),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(11))
def test_nobody_writes_a_subject_of_another(hub, number):
    _refused_to_write(hub, number)


def test_a_site_cannot_answer_for_another(hub):
    _refused_to_write(hub, 0)


def _refused_to_write(hub, number):
    agent, subject = foreign_subjects(hub)[number]
    link = hub.coordinator_link()
    if agent is not None:
        link = hub.site_link(hub.sites[agent], hub.star)
    (reason, *_) = alone(Talker([subject]), link, 0.4).reasons()
    assert reason.startswith("the hub does not allow this")
    assert subject in reason


@pytest.mark.slow
def test_nobody_hears_what_is_not_for_it(hub):
    star, ring = hub.star.subjects, hub.ring.subjects
    for subject in (star.answer(), ring.edge(), ring.edge(receiver=1), ">", "*.*.answer.*"):
        link = hub.site_link(hub.sites[0], hub.star)
        (reason, *_) = alone(Talker([], [subject]), link, 0.4).reasons()
        assert "permissions violation for subscription" in reason
    (reason, *_) = alone(Talker([], [ring.edge()]), hub.coordinator_link(), 0.4).reasons()
    assert "permissions violation for subscription" in reason


@pytest.mark.slow
def test_neighbours_speak_along_the_edges_of_their_network(hub):
    ring = hub.ring.subjects
    sites = [hub.site_link(site, hub.ring) for site in hub.sites]
    one = Talker([ring.edge(0, 1)], ring.of_agent(0, ())[1], answers=True)
    other = Talker([ring.edge(1, 0)], ring.of_agent(1, ())[1], answers=True)
    outcomes = meeting((one, sites[0]), (other, sites[1]))
    assert [outcome.ending for outcome in outcomes] == ["finished", "finished"]


@pytest.mark.slow
def test_without_tls_the_server_says_nothing(hub):
    with socket.create_connection(("127.0.0.1", hub.port), timeout=2) as plain:
        plain.settimeout(0.3)
        with pytest.raises(TimeoutError):  # not even its name, before TLS
            plain.recv(1)


@pytest.mark.slow
def test_an_older_tls_is_refused(hub):
    context = client_context(hub.study.invitation.certificate)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", hub.port), timeout=2) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


def test_a_site_believes_no_hub_of_another_study(hub):
    _, certificate = new_hub()
    link = hub.link(hub.sites[0].nkey(), certificate)
    with pytest.raises(InputError, match="is not that of this study"):
        alone(Talker(), link)


@pytest.mark.slow
def test_a_site_that_is_struck_off_is_disconnected_at_once_and_stays_out(tmp_path):
    port = free_port()
    study, sites = admitted_study(tmp_path, port=port)
    signed = proposed(study)
    with running(study, port) as hub:
        told = Told()
        party = Talker([signed.subjects.answer(0)])

        async def struck():
            run = asyncio.create_task(
                served(party, hub.site_link(sites[0], signed), seconds=3, told=told)
            )
            await asyncio.sleep(1)
            strike(study, "mercy")
            hub.reload()
            await run

        asyncio.run(struck())
    names = [name for name, _ in told]
    assert names[:2] == ["connected", "hub_lost"]
    assert "does not know this key" in told.reasons()[-1]
    assert names.count("connected") == 1


@pytest.mark.slow
def test_a_party_comes_back_when_the_server_was_killed(tmp_path):
    port = free_port()
    study, sites = admitted_study(tmp_path, port=port)
    signed = proposed(study)
    subjects = signed.subjects
    with running(study, port) as hub:
        site = Talker([subjects.answer(0)], subjects.of_agent(0, ())[1], enough=15)
        asks = Talker([subjects.public(0)], subjects.of_coordinator[1], enough=15)
        told = Told()
        # who has heard enough still speaks to the other
        site.needed = asks.needed = True

        async def killed():
            links = hub.site_link(sites[0], signed), hub.coordinator_link()
            runs = asyncio.gather(
                served(site, links[0], seconds=60, told=told), served(asks, links[1], seconds=60)
            )
            while not site.got or not asks.got:
                await asyncio.sleep(0.05)
            hub.kill()
            assert min(len(site.got), len(asks.got)) < 15
            hub.start()
            while not runs.done():
                if site.outcome and asks.outcome:
                    site.needed = asks.needed = False
                await asyncio.sleep(0.05)
            return await runs

        outcomes = asyncio.run(killed())
    assert [outcome.ending for outcome in outcomes] == ["finished", "finished"]
    assert [name for name, _ in told][:3] == ["connected", "hub_lost", "connected"]


@pytest.mark.slow
def test_a_message_of_eight_megabytes_arrives_whole(hub):
    subjects = hub.star.subjects
    site = Talker([], subjects.of_agent(0, ())[1])
    asks = Talker([subjects.public(0)], subjects.of_coordinator[1], size=8_000_000)
    meeting(
        (site, hub.site_link(hub.sites[0], hub.star)), (asks, hub.coordinator_link()), seconds=4
    )
    assert len(site.got[0].payload) == 8_000_000
