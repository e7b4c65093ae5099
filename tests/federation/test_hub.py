"""A real server lets in the users of the study, with the rights that a proposal gives them."""

import asyncio
import contextlib
import functools
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest
from tests.federation.hubs import (
    Recorder,
    Talker,
    admitted_study,
    free_port,
    meeting,
    proposed,
    running,
    served,
)
from tests.federation.studies import key_of

from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn_federation import (
    Link,
    Nkey,
    SignedProposal,
    after_strike,
    run_hub,
    server_program,
    strike,
)
from taciturn_federation.hub import is_free
from taciturn_federation.keys import client_context, new_hub

pytest.importorskip("nats")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub with a run on a star of four, and one on a ring of them."""
    folder, port = tmp_path_factory.mktemp("hub"), free_port()
    study, sites = admitted_study(folder, ("mercy", "sinai", "guys", "charite"), port=port)
    star, ring = proposed(study), proposed(study, network="ring", algorithm="nids", nonce="01")
    with running(study, port) as one:
        one.sites, one.star, one.ring = sites, star, ring
        yield one


def alone(party, link, seconds=1.0):
    """The events of a party that meets no other."""
    recorder = Recorder()
    asyncio.run(served(party, link, seconds=seconds, recorder=recorder))
    return recorder


# who is let in


def reason_for(link):
    """Why a party that has this link is not connected; it never is."""
    events = alone(Talker(["a.b.answer.0"]), link, seconds=0.4)
    assert "connected" not in [name for name, _ in events]
    return events.reasons()[0]


class Borrowed(Nkey):
    """A key that is shown as another party's."""

    @property
    def public(self):
        return self.shown


def borrowed(shown, key):
    nkey = Borrowed(key)
    object.__setattr__(nkey, "shown", shown)
    return nkey


def test_a_connection_without_an_nkey_is_refused(hub):
    assert "does not know this key" in reason_for(hub.link(borrowed(None, key_of(1))))


def test_a_connection_that_answers_no_challenge_is_refused(hub):
    """Spoken by hand: with the public nkey of a site, and no signature."""
    public = hub.star.participants[0].nkey

    async def connect():
        context = client_context(hub.study.invitation.certificate)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", hub.port, ssl=context, server_hostname="hub"
        )
        info = json.loads((await reader.readline()).removeprefix(b"INFO "))
        options = {"verbose": False, "pedantic": False, "nkey": public}
        writer.write(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        line = await reader.readline()
        writer.close()
        return info, line

    info, line = asyncio.run(connect())
    assert info["auth_required"] is True
    assert info["nonce"]
    assert line == b"-ERR 'Authorization Violation'\r\n"


def test_an_nkey_that_no_proposal_names_is_refused(hub):
    """Nor is a signing key an nkey."""
    for key in (key_of(40), hub.study.signing_key(), hub.sites[0].signing_key()):
        assert "does not know this key" in reason_for(hub.link(Nkey(key)))


def test_the_public_nkey_of_another_party_does_not_connect_without_its_secret(hub):
    for shown in (hub.star.participants[1].nkey, hub.study.nkey().public):
        link = hub.link(borrowed(shown, hub.sites[0].nkey().key))
        assert "does not know this key" in reason_for(link)


class Middle:
    """A man in the middle: TLS with another certificate, and all that it reads of parties."""

    def __init__(self, folder, hub):
        key, self.certificate = new_hub()
        (folder / "middle.key").write_bytes(key)
        (folder / "middle.pem").write_text(self.certificate)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "middle.pem", folder / "middle.key")
        self.hub, self.read = hub, []

    async def _one(self, reader, writer):
        trusted = client_context(self.hub.study.invitation.certificate)
        there, back = await asyncio.open_connection(
            "127.0.0.1", self.hub.port, ssl=trusted, server_hostname="hub"
        )
        await asyncio.gather(self._pump(reader, back, self.read), self._pump(there, writer, []))

    async def _pump(self, reader, writer, read):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                read.append(data)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def meet(self, certificate):
        """The events of a site that trusts a certificate and comes this way."""
        server = await asyncio.start_server(self._one, "127.0.0.1", 0, ssl=self.context)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        link = Link(address, certificate, self.hub.sites[0].nkey())
        subjects, recorder = self.hub.star.subjects, Recorder()
        try:
            party = Talker([subjects.answer(0)], subjects.of_agent(0, ())[1])
            await served(party, link, seconds=1.0, recorder=recorder)
        finally:
            server.close()
        return recorder


def test_a_hub_with_another_certificate_is_sent_nothing(hub, tmp_path):
    middle = Middle(tmp_path, hub)
    with pytest.raises(InputError, match="is not that of this study"):
        asyncio.run(middle.meet(hub.study.invitation.certificate))
    assert middle.read == []


@pytest.mark.slow
def test_a_party_that_pinned_nothing_would_be_read_by_the_man_in_the_middle(hub, tmp_path):
    """The planted fault of the test above: its certificate is the one that is accepted."""
    middle = Middle(tmp_path, hub)
    events = asyncio.run(middle.meet(middle.certificate))
    assert "connected" in [name for name, _ in events]
    assert hub.sites[0].nkey().public.encode() in b"".join(middle.read)


@pytest.mark.slow
def test_without_tls_or_with_an_older_one_the_server_answers_nothing(hub):
    with socket.create_connection(("127.0.0.1", hub.port), timeout=2) as plain:
        plain.settimeout(0.3)
        with pytest.raises(TimeoutError):  # not even its name, before TLS
            plain.recv(1)
    context = client_context(hub.study.invitation.certificate)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", hub.port), timeout=2) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


# who may publish and subscribe to what


def foreign_subjects(hub):
    """Of another site, of the coordinator, of an edge that is not there; by agent."""
    star, ring = hub.star.subjects, hub.ring.subjects
    return [
        (0, star.answer(1)), (0, star.state(1)), (0, star.ask(1)), (0, star.public(0)),
        (0, star.proposal), (0, star.edge(0, 1)), (0, ring.edge(0, 2)), (0, ring.edge(1, 0)),
        (0, "other.0123456789abcdef.answer.0"), (None, star.answer(0)), (None, ring.edge(0, 1)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "numbers", [(0,), pytest.param(range(1, 11), marks=pytest.mark.slow)], ids=["one", "all"]
)
def test_no_party_publishes_on_a_subject_of_another(hub, numbers):
    for number in numbers:
        agent, subject = foreign_subjects(hub)[number]
        link = hub.coordinator_link()
        if agent is not None:
            link = hub.site_link(hub.sites[agent], hub.star)
        (reason, *_) = alone(Talker([subject]), link, 0.4).reasons()
        assert reason.startswith("the hub does not allow this")
        assert subject in reason


@pytest.mark.slow
def test_no_party_receives_what_is_not_for_it(hub):
    star, ring = hub.star.subjects, hub.ring.subjects
    links = [(subject, hub.site_link(hub.sites[0], hub.star)) for subject in
             (star.answer(), ring.edge(), ring.edge(receiver=1), ">", "*.*.answer.*")]  # fmt: skip
    for subject, link in (*links, (ring.edge(), hub.coordinator_link())):
        (reason, *_) = alone(Talker([], [subject]), link, 0.4).reasons()
        assert "permissions violation for subscription" in reason


@pytest.mark.slow
def test_a_message_of_eight_megabytes_arrives_whole(hub):
    subjects = hub.star.subjects
    site = Talker([], subjects.of_agent(0, ())[1])
    asks = Talker([subjects.public(0)], subjects.of_coordinator[1], size=8_000_000)
    links = hub.site_link(hub.sites[0], hub.star), hub.coordinator_link()
    meeting((site, links[0]), (asks, links[1]), seconds=4)
    assert len(site.got[0].payload) == 8_000_000


# a site that is struck off, and the process that keeps the server up to date

HUB = """
import sys, pathlib, time
from taciturn_federation import open_study, run_hub, server_program
study = open_study(pathlib.Path(sys.argv[1]))
print = lambda *words: (sys.stdout.write(" ".join(map(str, words)) + "\\n"), sys.stdout.flush())
run_hub(study, server_program(), host="127.0.0.1", port=None, stopped=lambda: False,
        event=lambda name, **values: print(name, values.get("pid", "")))
"""


def until(reached, seconds=20.0):
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.02)


class RunningHub:
    """The hub of a study on a thread of this process."""

    def __init__(self, study):
        self.events, self.stop = [], threading.Event()
        self.thread = threading.Thread(
            target=run_hub,
            args=(study, server_program()),
            kwargs={"host": "127.0.0.1", "port": None, "stopped": self.stop.is_set,
                    "event": lambda name, **values: self.events.append(name)},
        )  # fmt: skip

    def __enter__(self):
        self.thread.start()
        until(lambda: "hub_started" in self.events)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


@pytest.fixture
def study(tmp_path):
    return admitted_study(tmp_path, port=free_port())[0]


def struck(study, capsys):
    """Exit code and output of the command that strikes mercy off."""
    code = main(["study", "strike", study.name, "mercy", "--studies", str(study.folder.parent)])
    return code, "".join(capsys.readouterr())


@pytest.mark.slow
def test_a_site_that_is_struck_off_is_disconnected_at_once_and_stays_out(tmp_path):
    port = free_port()
    study, sites = admitted_study(tmp_path, port=port)
    signed = proposed(study)
    with running(study, port) as hub:
        recorder = Recorder()
        party = Talker([signed.subjects.answer(0)])

        async def strike_it():
            link = hub.site_link(sites[0], signed)
            run = asyncio.create_task(served(party, link, seconds=3, recorder=recorder))
            await asyncio.sleep(1)
            strike(study, "mercy")
            hub.reload()
            await run

        asyncio.run(strike_it())
    names = [name for name, _ in recorder]
    assert names[:2] == ["connected", "hub_lost"]
    assert "does not know this key" in recorder.reasons()[-1]
    assert names.count("connected") == 1


def test_the_command_states_that_the_hub_disconnected_the_site_once_it_has(study, capsys):
    gone = proposed(study).participants[0].nkey
    with RunningHub(study) as hub:
        with pytest.raises(InputError, match="another hub of study 'diabetes' runs"):
            run_hub(study, server_program(), host="127.0.0.1", port=None, event=print,
                    stopped=lambda: True)  # fmt: skip
        assert gone in (study.folder / "hub.conf").read_text()
        code, output = struck(study, capsys)
        assert (code, "has disconnected it" in output) == (0, True), output
        assert gone not in (study.folder / "hub.conf").read_text()
        until(lambda: "hub_reloaded" in hub.events)
    assert b"Reloaded server configuration" in (study.folder / "hub.log").read_bytes()


def test_the_command_fails_where_the_hub_does_not_take_the_configuration(
    study, capsys, monkeypatch
):
    proposed(study)
    monkeypatch.setattr("taciturn_federation.hub.Server.reload", lambda self: False)
    quickly = functools.partial(after_strike, patience=1.0)
    monkeypatch.setattr("taciturn_federation.commands.parties.after_strike", quickly)
    with RunningHub(study) as hub:
        code, output = struck(study, capsys)
        until(lambda: "hub_stale" in hub.events)
    assert (code, "mercy may still be connected" in output) == (2, True), output


def test_a_server_ends_with_a_hub_that_is_killed_and_the_next_one_starts(study, capsys):
    """If it ran on, a strike would change nothing, and the next hub find its port taken."""
    proposed(study)
    port = int(study.invitation.hub.rpartition(":")[2])
    words = [sys.executable, "-c", HUB, str(study.folder)]
    hub = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    name, server = hub.stdout.readline().split()
    assert name == "hub_started"
    assert not is_free(port)
    hub.kill()
    hub.communicate()
    until(lambda: is_free(port) and not is_alive(int(server)), seconds=5.0)
    with RunningHub(study):
        assert not is_free(port)
    code, output = struck(study, capsys)
    assert (code, "no hub of it runs on this machine." in output) == (0, True)
    assert "admits mercy until it loads the new configuration" in output


def test_a_hub_whose_disk_is_full_runs_on_and_takes_the_study_later(study, monkeypatch):
    def full(text, out):
        raise InputError("no room")

    with RunningHub(study) as hub:
        with monkeypatch.context() as patched:
            patched.setattr("taciturn_federation.hub.write_text", full)
            signed = proposed(study)
            until(lambda: "hub_stale" in hub.events)
            assert hub.thread.is_alive()
        until(lambda: "hub_reloaded" in hub.events)
        assert hub.events.count("hub_stale") == 1
    assert signed.participants[0].nkey in (study.folder / "hub.conf").read_text()


def test_a_hub_whose_output_has_no_room_starts_its_server_again(study):
    proposed(study)
    words = ["study", "hub", study.name, "--host", "127.0.0.1", "--studies"]
    command = [sys.executable, "-m", "taciturn", *words, str(study.folder.parent)]
    full = open("/dev/full", "w")  # noqa: SIM115 - closed below
    port = int(study.invitation.hub.rpartition(":")[2])
    with full, subprocess.Popen(command, stdout=full, stderr=full) as hub:
        until((study.folder / "hub.json").exists)  # written once the server runs
        time.sleep(0.3)
        (server,) = children_of(hub.pid)
        os.kill(server, signal.SIGKILL)
        until(lambda: hub.poll() is not None or set(children_of(hub.pid)) - {server})
        until(lambda: hub.poll() is not None or not is_free(port))
        ended = hub.poll()
        hub.terminate()
    assert ended is None


def children_of(process):
    with open(f"/proc/{process}/task/{process}/children") as children:
        return [int(one) for one in children.read().split()]


def test_a_hub_at_rest_reads_no_proposal_and_takes_one_that_changed(study, monkeypatch):
    """Fifty proposals, read at every look, took a sixth of a core."""
    for number in range(3):
        proposed(study, nonce=f"0{number}")
    read, from_json = [], SignedProposal.from_json.__func__
    monkeypatch.setattr(
        SignedProposal,
        "from_json",
        classmethod(lambda cls, text: (read.append(1), from_json(cls, text))[1]),
    )
    with RunningHub(study) as hub:
        time.sleep(0.6)  # the first looks
        before = len(read)
        time.sleep(1.0)
        assert len(read) == before
        signed = proposed(study, nonce="aa")
        until(lambda: "hub_reloaded" in hub.events)
    assert len(read) > before
    assert signed.subjects.run in (study.folder / "hub.conf").read_text()


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process}/stat") as stat:
        return stat.read().split()[2] != "Z"
