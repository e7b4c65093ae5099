"""Other engines than NATS: sockets of parties, routing on a star, and an engine full of faults."""

import ast
import asyncio
import random
import sys
import threading
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from tests.federation.hubs import Recorder, Talker
from tests.federation.wire import check_finished, coordinator_of, site_of

import taciturn_federation.engines
from taciturn.errors import InputError
from taciturn_federation import SocketLink, serve, write_app
from taciturn_federation.engines import delivery
from taciturn_federation.engines.delivery import Packet, Parties, Waiting, frame, parsed
from taciturn_federation.engines.routing import Forwarding, Router

ENGINES = Path(taciturn_federation.engines.__path__[0])
RUN = "s.r"


class Local:
    """A party of this process, in place of those that listen at sockets."""

    def __init__(self, party, world):
        self.party, self.world, self.sent = party, world, Waiting()
        self.sent.put(party.start(world.now))

    def deliver(self, packets):
        for packet in packets:
            if any(delivery.matches(p, packet.subject) for p in self.party.subjects):
                self.sent.put(self.party.receive(packet, self.world.now))

    def collect(self, _seconds):
        self.sent.put(self.party.tick(self.world.now))
        return self.sent.take()


class Faulty:
    """An engine whose messages are lost, late, doubled and in any order; one node comes and goes.

    `seen` has all that was sent, as a hub would have it.
    """

    def __init__(self, sites, seed):
        self.sites, self.random, self.now, self.seen = sites, random.Random(seed), 0.0, []
        self.pending, self.happened, self.sent = [], defaultdict(int), 0

    def nodes(self):
        away = int(self.now) % 20 > 14
        self.happened["away"] += away
        return [name for name in self.sites if not (away and name == 0)]

    def send(self, node, packets):
        self.sent += 1
        fault = self.random.choice(["", "", "drop", "refuse", "fail", "lose", "late", "double"])
        self.happened[fault] += 1
        if fault == "refuse":
            return None
        local, copies = self.sites[node], 1 + (fault == "double")
        for _ in range(copies * (fault != "drop")):
            mixed = self.random.sample(list(packets), len(packets))
            local.deliver(mixed)
            reply = local.collect(0.0)
            self.seen += [(node, packet) for packet in reply]
            self.random.shuffle(reply)
            reply = None if fault == "fail" else reply
            late = self.random.uniform(0.5, 8.0) if fault == "late" else 0.0
            if fault != "lose":
                self.pending.append((self.now + late, self.sent, reply))
        return self.sent

    def replies(self, names):
        due = [one for one in self.pending if one[0] <= self.now]
        self.pending = [one for one in self.pending if one[0] > self.now]
        return [(name, packets) for _, name, packets in due if name in names]


def over(study, folder, seed, kill=()):
    """The engine over which a study has run, with its parties; sites in `kill` die once."""
    engine = Faulty({}, seed)
    parties = {"coordinator": coordinator_of(study, folder)}
    parties |= {agent: site_of(study, agent, folder) for agent in range(study.agents)}
    engine.study, engine.parties = study, parties
    engine.sites = {agent: Local(parties[agent], engine) for agent in range(study.agents)}
    here = Local(parties["coordinator"], engine)
    forwarding = Forwarding(engine, here, idle=1.0, lost=5.0, wait=0.0)
    while any(p.outcome is None or p.needed for p in parties.values()) and engine.now < 1000:
        engine.now += 0.25
        forwarding.step(engine.now)
        for agent in kill:
            if parties[agent].progress().round > agent and agent not in engine.happened:
                engine.happened[agent] = 1
                parties[agent].close()
                parties[agent] = site_of(study, agent, folder)
                engine.sites[agent] = Local(parties[agent], engine)
    for party in parties.values():
        party.close()
    return engine


@pytest.mark.parametrize("seed", range(3))
def test_over_an_engine_of_faults_every_party_has_the_model_of_one_machine(star, tmp_path, seed):
    engine = over(star, tmp_path, seed, kill=(1, 2))
    engine.answered_once = lambda: True  # below, by subject
    check_finished(engine)
    models = [party.outcome.model for party in engine.parties.values()]
    for model in models:
        np.testing.assert_array_equal(model, models[0])
    answers = defaultdict(set)
    for node, packet in engine.seen:
        if ".answer." in packet.subject:
            round_ = star.signed.opener.open(packet.payload).round
            answers[node, round_].add(packet.payload)
    assert len(answers) == star.agents * 6
    assert all(len(payloads) == 1 for payloads in answers.values())
    wanted = {"drop", "refuse", "fail", "lose", "late", "double", "away", 1, 2}
    assert wanted <= set(engine.happened)


def test_over_the_engine_the_owners_of_a_sum_see_no_answer_of_another(summed, tmp_path):
    engine = over(summed, tmp_path, 5)
    assert {p.outcome.ending for p in engine.parties.values()} == {"finished"}


def test_a_node_receives_no_answer_of_another_and_nothing_that_it_may_not():
    router = Router()
    router.nodes([0, 1])
    kinds = ("ask.0", "state.0", "answer.0", "edge.0.1", "proposal", "public.3", "unknown", "")
    packets = [Packet(f"{RUN}.{kind}", b"x") for kind in kinds] + [Packet("", b"x")]
    here = [packet.subject for packet in router.from_node(0, packets)]
    assert here == [f"{RUN}.ask.0", f"{RUN}.state.0", f"{RUN}.answer.0"]
    assert [one.subject for one in router.take(1)] == [f"{RUN}.ask.0", f"{RUN}.state.0"]
    assert router.take(0) == []
    router.from_coordinator(packets)
    for node in (0, 1):
        assert [one.subject for one in router.take(node)] == [f"{RUN}.proposal", f"{RUN}.public.3"]


def test_what_a_node_took_makes_it_due_again_only_once_it_was_lost():
    router, packet = Router(), Packet(f"{RUN}.public.1", b"x")
    router.nodes([0])
    router.from_coordinator([packet])
    assert router.due(0)
    assert router.take(0) == [packet]
    router.from_coordinator([packet])
    assert not router.due(0)
    router.lost(0)
    assert router.due(0)
    router.nodes([])
    assert router.take(0) == []


def test_what_waits_for_one_receiver_is_bounded_and_each_packet_waits_once():
    waiting = Waiting()
    waiting.put([Packet("a", b"x"), Packet("a", b"x"), Packet("b", b"x")])
    assert waiting.take() == [Packet("a", b"x"), Packet("b", b"x")]
    assert not waiting
    waiting.put(Packet(str(n), b"") for n in range(delivery.MAX_WAITING + 5))
    assert next(iter(waiting)).subject == "5"
    half = bytes(delivery.MAX_BYTES // 2)
    waiting.put([Packet("c", half), Packet("d", half), Packet("e", b"x")])
    assert [one.subject for one in waiting] == ["d", "e"]


def test_a_packet_arrives_in_any_pieces_and_one_that_is_too_long_is_refused():
    data, found = frame(Packet("a.b", b"12")) + frame(Packet("c", b"")), []
    rest = b""
    for byte in data:
        packets, rest = parsed(rest + bytes([byte]))
        found += packets
    assert found == [Packet("a.b", b"12"), Packet("c", b"")]
    assert rest == b""
    with pytest.raises(ValueError, match="longer"):
        parsed(delivery.HEADER.pack(1, delivery.MAX_PAYLOAD + 1))


class Thread:
    """A party over a socket, in a thread; `stop` ends it."""

    def __init__(self, party, folder, recorder=None):
        self.party, self.link, self.result = party, SocketLink(folder), None
        self.watch = (Recorder() if recorder is None else recorder).watch()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        async def until_stopped():
            self.loop, self.stopped = asyncio.get_running_loop(), asyncio.Event()
            return await serve(self.party, self.link, self.watch, self.stopped)

        try:
            self.result = asyncio.run(until_stopped())
        except InputError as error:
            self.result = error

    def join(self):
        self.thread.join(20)
        assert not self.thread.is_alive()
        return self.result


def collected(parties, subject):
    """Wait until a packet on a subject has come."""
    for _ in range(100):
        if any(packet.subject == subject for packet in parties.collect(0.1)):
            return True
    return False


def test_parties_take_packets_of_their_subjects_at_sockets_and_may_end_and_start(tmp_path):
    folder = tmp_path / "sockets"
    big = Talker(["s.r.answer.0"], ["s.r.public.*"], size=3_000_000)
    first = Thread(big, folder)
    parties = Parties(folder)
    assert collected(parties, "s.r.answer.0")
    assert folder.stat().st_mode & 0o777 == 0o700
    parties.deliver([Packet("s.r.edge.1.0", b"not for it"), Packet("s.r.public.1", b"value")])
    while first.thread.is_alive():  # it ends once its last packets were taken
        parties.collect(0.1)
    assert first.join().ending == "finished"
    assert [packet.payload for packet in big.got] == [b"value"]
    assert list(folder.iterdir()) == []
    second = Talker(["s.r.answer.1"], ["s.r.public.*"], answers=True)
    thread = Thread(second, folder)
    assert collected(parties, "s.r.answer.1")
    assert len(parties) == 1
    assert parties.answers([Packet("s.r.public.2", b"v")], 5.0) != []
    while thread.thread.is_alive():
        parties.collect(0.1)
    parties.close()
    assert thread.join().ending == "finished"


def test_a_socket_of_a_killed_process_is_removed_and_a_folder_without_place_is_named(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    stale = folder / f"dead{delivery.SUFFIX}"
    with delivery.socket.socket(delivery.socket.AF_UNIX) as one:
        one.bind(str(stale))
    parties, talker = Parties(folder), Talker(["s.r.answer.0"], ["s.r.public.*"])
    thread = Thread(talker, folder)
    assert collected(parties, "s.r.answer.0")
    assert not stale.exists()
    parties.deliver([Packet("s.r.public.1", b"")])
    while thread.thread.is_alive():
        parties.collect(0.1)
    parties.close()
    assert thread.join().ending == "finished"
    (tmp_path / "file").write_text("")
    for wrong, text in ((tmp_path / "file" / "x", "no socket"), (tmp_path / ("x" * 99), "shorter")):
        assert text in str(Thread(Talker(), wrong).join())


def test_what_an_engine_runs_needs_no_taciturn():
    for file in ENGINES.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            allowed = {*sys.stdlib_module_names, file.stem.replace("flower", "flwr"), "nvflare"}
            assert {name.split(".")[0] for name in names} <= allowed, file


def test_the_app_of_an_engine_is_written_once_and_its_engine_must_be_known(tmp_path):
    how = write_app("flower", tmp_path / "sockets", tmp_path / "app")
    assert str(tmp_path / "app") in how
    assert f'sockets = "{tmp_path}/sockets"' in (tmp_path / "app" / "pyproject.toml").read_text()
    copied = (tmp_path / "app" / "taciturn_engine" / "delivery.py").read_text()
    assert copied == (ENGINES / "delivery.py").read_text()
    with pytest.raises(InputError, match="name a new folder"):
        write_app("flower", tmp_path, tmp_path / "app")
    with pytest.raises(InputError, match="choose flower"):
        write_app("ray", tmp_path, tmp_path / "other")
