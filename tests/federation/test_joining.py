"""Sites join through the hub, and a guest who has the invitation can do nothing else."""

import asyncio
import json
import random
import time

import pytest
from nats import errors as nats_errors
from tests.federation.hubs import (
    Recorder,
    Talker,
    admitted_study,
    free_port,
    running,
    served,
)
from tests.federation.studies import BOUNDS, key_of, write_records
from tests.federation.test_processes import Processes, called

from taciturn.errors import InputError
from taciturn_federation import Packet, admit, join
from taciturn_federation.agreement import JoinRequest
from taciturn_federation.envelope import Subjects
from taciturn_federation.hub import MAX_REQUEST, MOST_GUESTS
from taciturn_federation.joining import (
    MOST_IN_A_SECOND,
    MOST_OF_A_NAME,
    MOST_REQUESTS,
    Reception,
    admitted,
    receiving,
    waiting_requests,
)
from taciturn_federation.keys import Nkey, certify_nkey, public_text
from taciturn_federation.transport import Watch, _NatsConnection

pytest.importorskip("nats")


@pytest.fixture
def study(tmp_path):
    return admitted_study(tmp_path, ("mercy",))


def request_of(study, name="sinai", *, number=0, count=20, key=None, **changes):
    """A signed request of a site that has no folder."""
    key = key or key_of(2 * number)
    nkey = Nkey(key_of(2 * number + 1)).public
    invited = study.invitation
    return JoinRequest(
        study=invited.study, invitation=invited.digest, name=name, count=count, nkey=nkey,
        certified=certify_nkey(key, invited.study, name, nkey), signature="",
        taciturn=invited.taciturn, key=public_text(key.public_key()), **changes,
    ).signed(key)  # fmt: skip


class Desk:
    """A reception at which requests arrive one second apart, unless said otherwise."""

    def __init__(self, study):
        self.study, self.lines, self.now = study, [], 0.0
        self.party = Reception(study, self.lines.append)

    def take(self, request, seconds=1.0):
        self.now += seconds
        text = request if isinstance(request, str) else request.to_json()
        packet = Packet(Subjects.of_guests(self.study.name), text.encode())
        assert self.party.receive(packet, self.now) == []
        return [one.request.name for one in waiting_requests(self.study)]


def test_a_request_is_kept_once_and_admits_nobody(study):
    opened, _ = study
    desk, request = Desk(opened), request_of(opened)
    for _ in range(3):
        assert desk.take(request) == ["sinai"]
    assert len(desk.lines) == 1
    assert request.fingerprint in desk.lines[0]
    assert [one.participant.name for one in opened.members()] == ["mercy"]
    admit(opened, request)
    (waiting,) = waiting_requests(opened)
    waiting.file.unlink()
    assert desk.take(request) == []  # a member asks for nothing


def test_what_is_no_valid_request_is_not_kept_and_reported_without_its_words(study, tmp_path):
    opened, _ = study
    desk, request = Desk(opened), request_of(opened)
    (tmp_path / "other").mkdir()
    other, _ = admitted_study(tmp_path / "other", (), name="asthma")
    invalid = (
        "", "{}", "\x00" * 100, "[" * 8000,
        request.to_json().replace("sinai", "guys"),
        json.dumps(json.loads(request.to_json()) | {"signature": ""}),
        request_of(other).to_json(),
        request_of(opened, key=key_of(7)).to_json().replace('"count":20', '"count":21'),
    )  # fmt: skip
    for text in invalid:
        assert desk.take(text) == []
    assert len(set(desk.lines)) == 1
    assert "sinai" not in desk.lines[0]
    assert desk.take(request.to_json() + " " * MAX_REQUEST) == []  # valid, but too long
    assert desk.take(request) == ["sinai"]


def test_requests_are_bounded_for_a_name_in_all_and_in_a_second(study):
    opened, _ = study
    desk = Desk(opened)
    for number in range(MOST_OF_A_NAME + 3):
        names = desk.take(request_of(opened, number=number))
    assert names == ["sinai"] * MOST_OF_A_NAME
    assert "wrong hands" in desk.lines[-1]
    for number in range(MOST_REQUESTS):
        names = desk.take(request_of(opened, f"site{number}", number=number + 20))
    assert len(names) == MOST_REQUESTS
    for one in waiting_requests(opened):
        one.file.unlink()
    desk.now += 1.0
    for number in range(MOST_IN_A_SECOND + 5):
        names = desk.take(request_of(opened, f"site{number}", number=number), seconds=0.001)
    assert len(names) == MOST_IN_A_SECOND
    assert len(desk.take(request_of(opened, "late", number=70))) == MOST_IN_A_SECOND + 1


# what the server lets a guest do


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("guests"), free_port()
    opened, sites = admitted_study(folder, ("mercy", "sinai"), port=port)
    with running(opened, port) as one:
        one.sites = sites
        yield one


def guest(hub):
    return hub.link(hub.study.invitation.guest_nkey())


def test_a_guest_may_publish_requests_and_nothing_else(hub):
    name = hub.study.name
    run = f"{name}.0123456789abcdef"
    listener = Talker((), [Subjects.of_guests(name)], enough=10**9)
    allowed = ("0", f"{run}.proposal", f"{run}.answer.0", f"{name}.proposal", "_INBOX.x")

    async def all_of_them():
        recorder = Recorder()
        waiting = asyncio.create_task(served(listener, hub.coordinator_link(), seconds=3.0))
        for subject in allowed:
            await served(Talker([subject]), guest(hub), seconds=0.5, recorder=recorder)
        denied = len([one for one in recorder.reasons() if "does not allow" in one])
        await served(Talker([Subjects.of_guests(name)]), guest(hub), seconds=0.5)
        await waiting
        return denied

    assert asyncio.run(all_of_them()) == len(allowed)
    assert {packet.subject for packet in listener.got} == {Subjects.of_guests(name)}


@pytest.mark.parametrize("subject", [">", "*.join", "diabetes.join", "diabetes.*.proposal"])
def test_a_guest_receives_nothing_not_even_requests_of_others(hub, subject):
    curious, recorder = Talker((), [subject]), Recorder()

    async def both():
        filed = served(Talker(["diabetes.join"]), guest(hub), seconds=1.0)
        await asyncio.gather(served(curious, guest(hub), seconds=1.0, recorder=recorder), filed)

    asyncio.run(both())
    assert curious.got == []
    assert "does not allow" in recorder.reasons()[0]


def test_a_long_message_of_a_guest_is_refused_and_one_of_a_member_is_not(hub):
    async def published(link, subject, size):
        connection = _NatsConnection((), link, Watch())
        client = await connection._connect()
        client._server_info["max_payload"] = client._max_payload = 10**9
        try:
            await client.publish(subject, b"x" * size)
            await client.flush(timeout=3)
            await asyncio.wait_for(connection._lost.wait(), 1)  # the server ends it a moment later
        except TimeoutError:
            return True
        except (nats_errors.Error, OSError):
            pass
        finally:
            await client.close()
        return False

    def done(*given):
        return asyncio.run(published(*given))

    assert done(guest(hub), "diabetes.join", MAX_REQUEST)
    assert not done(guest(hub), "diabetes.join", MAX_REQUEST + 1)


@pytest.mark.slow
def test_guests_have_so_many_connections_and_members_connect_all_the_same(hub):
    async def connect(link):
        return await _NatsConnection((), link, Watch())._connect()

    async def all_of_them():
        clients, ends = [], time.monotonic() + 20
        try:
            while len(clients) < MOST_GUESTS:
                try:
                    clients.append(await connect(guest(hub)))
                except nats_errors.Error:  # guests of the tests before are about to leave
                    assert time.monotonic() < ends
                    await asyncio.sleep(0.2)
            with pytest.raises(Exception, match="maximum account active connections"):
                await connect(guest(hub))
            clients.append(await connect(hub.link(hub.sites[0].nkey())))
        finally:
            for one in clients:
                await one.close()

    asyncio.run(all_of_them())


# a site that joins


def test_a_site_files_its_request_until_it_is_admitted_and_a_count_is_renewed(tmp_path):
    port = free_port()
    opened, _ = admitted_study(tmp_path, ("mercy",), port=port)
    write_records(tmp_path / "sinai.csv", 20, seed=1)
    site, request = join(tmp_path / "there", opened.invitation, "sinai", tmp_path / "sinai.csv",
                         None)  # fmt: skip
    lines = []

    async def admit_when_it_arrives(hub):
        while not (waiting := waiting_requests(opened)):
            await asyncio.sleep(0.1)
        admit(opened, waiting[0].request)
        hub.reload()
        waiting[0].file.unlink()

    async def joining(hub):
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(120, stop.set)
        there = admitted(site, request, Watch(), stop)
        return (await asyncio.gather(there, admit_when_it_arrives(hub)))[0]

    async def renewing():
        return await admitted(site, site.request(21), Watch(), asyncio.Event())

    with running(opened, port) as hub, receiving(opened, f"127.0.0.1:{port}", lines.append):
        assert asyncio.run(joining(hub))
        assert waiting_requests(opened) == ()
        assert asyncio.run(renewing())
        assert [one.request.count for one in waiting_requests(opened)] == [21]
    assert "sinai asks to join" in lines[0]


def test_an_interrupted_site_ends_though_its_hub_never_comes(tmp_path):
    opened, _ = admitted_study(tmp_path, (), port=free_port())
    write_records(tmp_path / "sinai.csv", 20, seed=1)
    site, request = join(tmp_path / "there", opened.invitation, "sinai", tmp_path / "sinai.csv",
                         None)  # fmt: skip
    recorder = Recorder()

    async def joining():
        stop = asyncio.Event()

        async def interrupt():
            while "hub_away" not in [name for name, _ in recorder]:
                await asyncio.sleep(0.05)
            stop.set()

        interrupted = asyncio.create_task(interrupt())
        try:
            return await asyncio.wait_for(admitted(site, request, recorder.watch(), stop), 60)
        finally:
            interrupted.cancel()

    assert asyncio.run(joining()) is False


# from nothing to the model

SITES = ("mercy", "sinai", "charite")


@pytest.mark.slow
def test_three_sites_have_a_model_after_six_commands(tmp_path):
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    for number, name in enumerate(SITES):
        write_records(tmp_path / f"{name}.csv", 60, seed=number)
    parties = Processes(tmp_path)
    place = tmp_path / "data" / "taciturn"

    def until(reached):
        limit = time.monotonic() + 120
        while not reached():
            assert time.monotonic() < limit, [parties.output(name) for name in parties.words]
            time.sleep(0.2)

    try:
        parties.start("hub", "study", "start", "diabetes", "--bounds", "bounds.toml",
                      "--hub", f"localhost:{free_port()}", "--host", "127.0.0.1")  # fmt: skip
        until((tmp_path / "diabetes.invitation").exists)
        for name in SITES:
            total = ("--epsilon", "2", "--delta", "1e-3", "--allow", "1")
            where = ("--name", name, "--data", f"{name}.csv")
            parties.start(name, "site", "join", "diabetes.invitation", *where, *total)
        until(lambda: parties.output("hub").count("asks to join") == len(SITES))
        # by telephone
        lines = [line for name in SITES for line in parties.output(name).splitlines()]
        read = [line.split("request")[1].strip() for line in lines if "of the request " in line]
        agreed = [word for one in read for word in ("--agreed", one)]
        called(tmp_path, "study", "admit", "diabetes", *SITES, *agreed)
        parties.start("coordinator", "study", "propose", "diabetes", "--epsilon", "1", "--delta",
                      "1e-4", "--rounds", "5", "--run")  # fmt: skip
        parties.wait("coordinator")
        until(lambda: len(list(place.rglob("model.json"))) == 1 + len(SITES))
    finally:
        parties.stop()
    models = [json.loads(one.read_text())["terms"] for one in place.rglob("model.json")]
    assert all(one == models[0] for one in models)
    for name in SITES:
        state = json.loads(called(tmp_path, "budget", "show", name, "--json"))
        assert [run["status"] for run in state["runs"]] == ["released"]
    assert not list(tmp_path.glob("*.request"))
    assert "Traceback" not in "".join(parties.output(name) for name in parties.words)


def test_a_request_of_hostile_values_is_refused_whatever_they_are():
    draw = random.Random(0)
    values = ("null", "1e400", "-1", '"' + "x" * 100 + '"', "[]", "{}", "NaN", '"\\ud800"',
              "9" * 400, '"../../x"')  # fmt: skip
    names = list(JoinRequest.model_fields)
    texts = ["[" * 8000, '{"a":' * 1500, "1" * 8000, "{}", "null", ""]
    texts += [
        "{" + ",".join(f'"{name}":{draw.choice(values)}' for name in names) + "}"
        for _ in range(500)
    ]
    for text in texts:
        with pytest.raises(InputError):
            JoinRequest.from_json(text)
