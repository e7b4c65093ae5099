"""Whatever a party signs, others neither fail on it nor take the blame for it."""

import json

import numpy as np
import pytest
from tests.federation.fuzzing import CONTROL, Fuzzer
from tests.federation.studies import make_study
from tests.federation.test_breaches import ended, seal_of
from tests.federation.wire import envelopes, meet

from taciturn.errors import TaciturnError
from taciturn_federation.envelope import COORDINATOR, Envelope, Kind, check_control, matches, one_line
from taciturn_federation.envelope import Packet
from taciturn_federation.local import check_entries, entries_from_json

HUGE = 10**400
FEW, MANY = 25, 40_000


def near_the_end(study, folder, lines=None):
    """A run in which every site has said all, and the coordinator has heard nothing of the end."""
    hub = meet(study, folder, lines=lines)
    whole = hub.spoil

    def held(sender, receiver, packet):
        if receiver == "coordinator" and sender == 1 and packet.subject.endswith("state.1"):
            return []
        return whole(sender, receiver, packet)

    hub.spoil = held
    hub.run(until=lambda: hub.parties["coordinator"]._head() is not None)
    hub.queue = []
    return hub


def column_with(study, plan, **changed):
    """The column that a site would send, of which every entry has other values."""
    names = ("local", "kind", "scale", "exponent", "rate", "batch")
    right = {"local": 0, "kind": 0, "scale": 1.0, "exponent": 0, "rate": 1.0, "batch": 0}
    entry = json.dumps([{**right, **changed}[name] for name in names])
    text = f'{{"kinds":[[{entry}]],"rounds":{[0] * plan.rounds}}}'
    return text.replace("1e999", "Infinity").encode()


@pytest.mark.parametrize(
    "changed",
    [
        {"local": float("inf")},
        {"kind": 10**30},
        {"scale": HUGE},
        {"scale": float("nan")},
        {"local": -1},
        {"local": 1},
        {"exponent": 10**30},
        {"exponent": 1024},
        {"rate": 1.5},
        {"rate": 0.0},
        {"batch": -1},
        {"kind": 0.5},
        {"kind": True},
    ],
)
def test_a_malformed_column_is_told_as_that_and_names_its_site(star, tmp_path, changed):
    """The first three had ended the coordinator's process; others counted as no answer."""
    hub = near_the_end(star, tmp_path)
    coordinator = hub.parties["coordinator"]
    sealed = seal_of(star, 1).seal(
        Kind.LEDGER_ENTRIES, 6, column_with(star, coordinator.plan, **changed)
    )
    hub.tell("coordinator", Packet(star.signed.subjects.state(1), sealed))
    ended(hub, "coordinator", "abandoned", "sinai sent ")
    assert "ledger" in coordinator.outcome.line.lower()


def test_a_column_of_another_ledger_names_its_site(star, tmp_path):
    hub = near_the_end(star, tmp_path)
    coordinator = hub.parties["coordinator"]
    subject, seal = star.signed.subjects.state(1), seal_of(star, 1)
    body = column_with(star, coordinator.plan, scale=0.1)
    hub.tell("coordinator", Packet(subject, seal.seal(Kind.LEDGER_ENTRIES, 6, body)))
    head = coordinator._head()
    hub.tell("coordinator", Packet(subject, seal.seal(Kind.HEAD, 6, b"", transcript=head)))
    hub.spoil = lambda sender, receiver, packet: [(0.0, packet)] if sender != 1 else []
    hub.run(seconds=5)
    ended(hub, "coordinator", "abandoned", "sinai answered otherwise than planned")


@pytest.mark.parametrize("turn", ["-" + "1" + "0" * 30, "1.0", "true", "7", "null"])
def test_a_request_for_a_round_that_is_none_names_who_sent_it(ring, tmp_path, turn):
    """The victim had refused with `an error in taciturn`, told to all as a fault of its own."""
    hub = meet(ring, tmp_path)
    hub.run(until=lambda: hub.parties[0].progress().round >= 2)
    body = f'{{"kind":17,"sender":0,"round":{turn}}}'.encode()
    sealed = seal_of(ring, 1).seal(Kind.RESEND_REQUEST, 2, body)
    hub.tell(0, Packet(ring.signed.subjects.edge(1, 0), sealed))
    ended(hub, 0, "refused", "sinai sent a message of the kind RESEND_REQUEST")
    (told,) = [e for who, _, e in envelopes(hub, ring, Kind.REFUSAL) if who == 0]
    assert "sinai sent a message of the kind RESEND_REQUEST" in told.values["line"]


def test_numbers_that_overflow_in_a_sum_name_their_sender_and_not_the_coordinator(star, tmp_path):
    hub = meet(star, tmp_path)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round == 3)
    hub.queue = []
    coordinator = hub.parties["coordinator"]
    chain, subjects = coordinator._transcript, star.signed.subjects
    for agent in range(star.agents):
        content = np.full(6, 1.3e154 if agent == 1 else 0.25 * 1.3e154, "<f8").tobytes()
        sealed = seal_of(star, agent).seal(Kind.MESSAGE, 3, content, transcript=chain)
        hub.tell("coordinator", Packet(subjects.answer(agent), sealed))
    outcome = coordinator.outcome
    if outcome is None:  # the step was small enough
        hub.run(seconds=2)
    lines = [party.outcome.line for party in hub.parties.values() if party.outcome]
    assert not [line for line in lines if "registry" in line]


def test_numbers_from_which_a_site_computes_none_name_their_sender(ring, tmp_path):
    hub = meet(ring, tmp_path)

    def loud(sender, receiver, packet):
        if sender == 1 and packet.subject.endswith("edge.1.0"):
            envelope = ring.signed.opener.open(packet.payload)
            if envelope.kind == Kind.MESSAGE and envelope.round >= 1:
                body = np.full(6, -1.3e154, "<f8").tobytes()
                sealed = seal_of(ring, 1).seal(
                    Kind.MESSAGE, envelope.round, body, transcript=envelope.transcript
                )
                return [(0.0, Packet(packet.subject, sealed))]
        return [(0.0, packet)]

    hub.spoil = loud
    hub.run(seconds=20)
    lines = [party.outcome.line for party in hub.parties.values() if party.outcome]
    assert lines
    assert all("sinai" in line for line in lines), lines


def test_a_refusal_is_one_line_at_its_sender_and_at_every_reader(star, tmp_path):
    """Line breaks and escape sequences of a refusal had reached every report and log."""
    lines = {"coordinator": [], 0: [], 1: [], 2: []}
    hub = meet(star, tmp_path, lines=lines)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round == 2)
    told = "no\nrun finished\x1b[2J\u202e" + "x" * 1000
    sealed = seal_of(star, 1).seal_values(Kind.REFUSAL, 0, {"line": told})
    hub.tell("coordinator", Packet(star.signed.subjects.state(1), sealed))
    hub.run(seconds=5)
    for who in ("coordinator", 0, 2):
        line = hub.parties[who].outcome.line
        assert line.isprintable()
        assert len(line) < 400
        assert r"sinai refused: no run finished\x1b[2J\u202e" in line
        assert all(one.isprintable() for one in lines[who])
    site = hub.parties[1]
    site.outcome = None
    (packet,) = site._fail("two\nlines\x07", breach=True)
    assert star.signed.opener.open(packet.payload).values["line"] == r"two lines\x07"


def test_a_long_text_of_line_breaks_is_one_short_line():
    assert one_line("\n" * 10**6) == ""
    assert one_line("a\r\n\tb") == "a b"
    assert len(one_line("\x00" * 1000)) == 300


def test_a_number_that_json_does_not_have_is_refused_in_every_control_message(star):
    plan = star.signed.proposal.plan()
    names = star.signed.opener.names
    for kind in CONTROL:
        for text in ('{"a":Infinity}', '{"a":NaN}', "[1]", "7", '{"a":'):
            envelope = Envelope(kind, 1, 0, b"", text.encode(), b"", b"")
            if kind != Kind.PROPOSAL:
                with pytest.raises(TaciturnError, match="sinai sent a message"):
                    check_control(envelope, names, plan.rounds)


# the fuzzer


def go_on(party, noted):
    """Note what would end a party, which goes on."""
    if hasattr(party, "_farewell"):
        fail = lambda line, breach: noted.append((line, line if breach else "")) or []
        party._fail = fail
    else:
        party._abandon = lambda line: noted.append((line, line)) or []


def fuzzed(study, folder, seed, number):
    """Parties of a run in its middle, to which others say all kinds of things."""
    lines = {"coordinator": [], 0: [], 1: [], 2: []}
    hub = meet(study, folder, lines=lines)
    star = study.signed.proposal.network is None
    hub.run(until=lambda: hub.parties["coordinator"].progress().round == 2)
    noted, victims = [], (0, "coordinator")
    for who in victims:
        go_on(hub.parties[who], noted)
    subjects = study.signed.subjects
    places = {
        (0, 1): [subjects.state(1), subjects.ask(1), subjects.edge(1, 0)],
        (0, COORDINATOR): [subjects.proposal, subjects.public(2)],
        ("coordinator", 1): [subjects.state(1), subjects.ask(1), subjects.answer(1)],
    }
    fuzzer = Fuzzer(study, hub.parties["coordinator"].plan, seed)
    chain = hub.parties["coordinator"]._transcript if star else bytes(32)
    for (who, sender), known in places.items():
        party, name = hub.parties[who], study.signed.opener.names[sender]
        heard = [p for p in known if any(matches(one, p) for one in party.subjects)]
        for kind in Kind if heard else ():
            for _ in range(number):
                sealed = seal_of(study, sender).seal(
                    kind, fuzzer.turn(), fuzzer.body(kind), transcript=chain
                )
                party._verdict = None
                before = len(noted)
                party.receive(Packet(fuzzer.random.choice(heard), sealed), hub.now)
                for line, told in noted[before:]:
                    assert name in line, (kind, line)
                    assert name in told, (kind, told)
                    assert "error in taciturn" not in line
                hub.now += 1e-3
    assert len(noted) > 100
    return noted


@pytest.mark.parametrize("name", ["star", "ring"])
def test_whatever_a_party_signs_nobody_fails_and_the_right_one_is_named(name, request, tmp_path):
    fuzzed(request.getfixturevalue(name), tmp_path, 1, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["star", "ring", "relay"])
def test_a_hundred_messages_of_each_kind_name_the_right_party(name, request, tmp_path):
    fuzzed(request.getfixturevalue(name), tmp_path, 2, 100)


@pytest.mark.slow
@pytest.mark.unchecked  # of annotations: twice as fast, and as in use
@pytest.mark.parametrize("kind", CONTROL)
def test_many_thousand_control_messages_of_each_kind_name_their_sender(star, kind):
    plan = star.signed.proposal.plan()
    names, fuzzer = star.signed.opener.names, Fuzzer(star, plan, int(kind))
    refused = 0
    for _ in range(MANY):
        envelope = Envelope(kind, 1, fuzzer.turn(), b"", fuzzer.body(kind), b"", b"")
        line = told_of(lambda: checked(envelope, names, plan))  # noqa: B023 - called at once
        assert line is None or "sinai" in line
        refused += line is not None
    assert refused > MANY // 10


def checked(envelope, names, plan):
    """What a coordinator does with a control message before it uses it."""
    check_control(envelope, names, plan.rounds)
    if envelope.kind == Kind.LEDGER_ENTRIES:
        column = entries_from_json(envelope.values, [1] * plan.rounds, "sinai")
        agents = plan.program.agents
        check_entries(plan.ledger, [column] * agents, ["sinai"] * agents)


def told_of(work):
    """The message of an error that is ours, or None; another one fails the test."""
    try:
        work()
    except TaciturnError as error:
        return str(error)
    return None


def test_no_number_told_at_the_end_breaks_the_figures(tmp_path):
    study = make_study(tmp_path, evaluate=0.2, rounds=4)
    hub = meet(study, tmp_path)
    last = hub.parties["coordinator"].evaluation
    (leaf,) = last.layout.leaves
    for number in (0.0, -1e9, 2.9e50, -2.9e50):  # of three sites
        last.score(np.full(leaf.shape, number)).lines()
    with pytest.raises(TaciturnError, match="sinai sent a number"):
        last.layout.unpack_from("sinai", np.full(leaf.shape, 1.1e50, leaf.dtype).tobytes())
