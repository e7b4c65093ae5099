"""Whatever a party signs, others neither fail on it nor take the blame for it."""

import json
import random

import numpy as np
import pytest
from tests.federation.studies import kinds
from tests.federation.wire import changing, check_ended, meet, signer_of

from taciturn.errors import TaciturnError
from taciturn_federation.envelope import (
    COORDINATOR,
    Envelope,
    Kind,
    Packet,
    check_control,
    matches,
    one_line,
)
from taciturn_federation.local import check_entries, entries_from_json

FEW, MANY = 25, 4_000


def near_the_end(study, folder):
    """A run in which every site has sent all, and the coordinator lacks the end of site 1."""
    hub = meet(study, folder)
    hub.spoil = lambda sender, receiver, packet: (
        [] if receiver == "coordinator" and packet.subject.endswith("state.1") else [(0.0, packet)]
    )
    hub.run(until=lambda: hub.parties["coordinator"]._head() is not None)
    hub.queue = []
    return hub


def entries_with(plan, **values):
    """The ledger entries that a site would send, each of which has other values."""
    right = {"local": 0, "kind": 0, "scale": 1.0, "exponent": 0, "rate": 1.0, "batch": 0}
    entry = json.dumps(list((right | values).values()))
    return f'{{"kinds":[[{entry}]],"rounds":{[0] * plan.rounds}}}'.encode()


MALFORMED = [
    {"local": float("inf")}, {"kind": 10**30}, {"scale": 10**400}, {"scale": float("nan")},
    {"local": -1}, {"local": 1}, {"exponent": 1024}, {"rate": 1.5}, {"rate": 0.0}, {"batch": -1},
    {"kind": 0.5}, {"kind": True},
]  # fmt: skip


def test_malformed_ledger_entries_name_their_site_and_end_no_process(star, tmp_path):
    plan, names = star.signed.proposal.plan(), star.signed.opener.names
    for values in MALFORMED:
        line = refused_line(1, Kind.LEDGER_ENTRIES, 6, entries_with(plan, **values), names, plan)
        assert line.startswith("sinai sent "), values
        assert "ledger" in line.lower()
    hub = near_the_end(star, tmp_path)
    payload = signer_of(star, 1).seal(Kind.LEDGER_ENTRIES, 6, entries_with(plan, local=1))
    hub.deliver("coordinator", star.signed.subjects.state(1), payload)
    check_ended(hub, "coordinator", "abandoned", "sinai sent no ledger entries of this run")


def test_the_entries_of_another_ledger_name_their_site(star, tmp_path):
    hub = near_the_end(star, tmp_path)
    coordinator = hub.parties["coordinator"]
    subject, signer = star.signed.subjects.state(1), signer_of(star, 1)
    body = entries_with(coordinator.plan, scale=0.1)
    hub.deliver("coordinator", subject, signer.seal(Kind.LEDGER_ENTRIES, 6, body))
    head = signer.seal(Kind.HEAD, 6, b"", transcript=coordinator._head())
    hub.deliver("coordinator", subject, head)
    hub.spoil = lambda sender, receiver, packet: [(0.0, packet)] if sender != 1 else []
    hub.run(seconds=5)
    check_ended(hub, "coordinator", "abandoned", "sinai answered otherwise than planned")


@pytest.mark.parametrize("turn", ["-1" + "0" * 30, "7", "null"])
def test_a_request_for_a_round_that_is_none_names_who_sent_it(ring, tmp_path, turn):
    hub = meet(ring, tmp_path).run_to(2, 0)
    body = f'{{"kind":17,"sender":0,"round":{turn}}}'.encode()
    payload = signer_of(ring, 1).seal(Kind.RESEND_REQUEST, 2, body)
    hub.deliver(0, ring.signed.subjects.edge(1, 0), payload)
    check_ended(hub, 0, "refused", "sinai sent a message of the kind RESEND_REQUEST")
    (refusal,) = [e for sender, e in hub.envelopes(Kind.REFUSAL) if sender == 0]
    assert "sinai sent a message of the kind RESEND_REQUEST" in refusal.values["line"]


def test_numbers_that_overflow_in_a_sum_name_their_sender_and_not_the_coordinator(star, tmp_path):
    hub = meet(star, tmp_path).run_to(3)
    hub.queue = []
    transcript = hub.parties["coordinator"]._transcript
    for agent in range(star.agents):
        content = np.full(6, 1.3e154 if agent == 1 else 0.25 * 1.3e154, "<f8").tobytes()
        payload = signer_of(star, agent).seal(Kind.MESSAGE, 3, content, transcript=transcript)
        hub.deliver("coordinator", star.signed.subjects.answer(agent), payload)
    hub.run(seconds=2)
    lines = [party.outcome.line for party in hub.parties.values() if party.outcome]
    assert not [line for line in lines if "registry" in line]


def test_numbers_from_which_a_site_computes_none_name_their_sender(ring, tmp_path):
    def loud(envelope):
        if envelope.round < 1:
            return envelope.payload
        body, transcript = np.full(6, -1.3e154, "<f8").tobytes(), envelope.transcript
        return signer_of(ring, 1).seal(Kind.MESSAGE, envelope.round, body, transcript=transcript)

    spoil = changing(ring, Kind.MESSAGE, loud, sender=1, receiver=0)
    hub = meet(ring, tmp_path, spoil=spoil).run(seconds=20)
    lines = [party.outcome.line for party in hub.parties.values() if party.outcome]
    assert lines
    assert all("sinai" in line for line in lines), lines


def test_a_refusal_is_one_line_at_its_sender_and_at_every_reader(star, tmp_path):
    hub = meet(star, tmp_path).run_to(2)
    line = "no\nrun finished\x1b[2J\u202e" + "x" * 1000
    refusal = signer_of(star, 1).seal_values(Kind.REFUSAL, 0, {"line": line})
    hub.deliver("coordinator", star.signed.subjects.state(1), refusal)
    hub.run(seconds=5)
    for name in ("coordinator", 0, 2):
        line = hub.outcome(name).line
        assert line.isprintable()
        assert len(line) < 400
        assert r"sinai refused: no run finished\x1b[2J\u202e" in line
        assert all(one.isprintable() for one in hub.lines[name])
    site = hub.parties[1]
    site.outcome = None
    (packet,) = site._fail("two\nlines\x07", breach=True)
    assert star.signed.opener.open(packet.payload).values["line"] == r"two lines\x07"
    assert one_line("\n" * 10**6) == ""
    assert one_line("a\r\n\tb") == "a b"
    assert len(one_line("\x00" * 1000)) == 300


# the fuzzer

CONTROL = [kind for kind in Kind if kind < 16]
ARRAYS = [kind for kind in Kind if kind >= 16]
HOSTILE = (
    None, True, False, "", "x", "no\nyes\x1b[2J\u202e", [], {}, [[]], 0, 1, -1, 2**31, 2**63,
    -(10**30), 10**30, 10**401, 10**4000, 0.0, -0.0, 1.0, 0.5, 1e-320, 1e308, -1e308, "00" * 32,
    "0" * 63, "é", list(range(50)), {"kind": 6},
)  # fmt: skip
LITERALS = ("1" * 5000, "Infinity", "-Infinity", "NaN", "1e999", "[" * 3000, '{"a":' * 3000,
            "\xff", "")  # fmt: skip
NUMBERS = (0.0, -0.0, 1e9, 1e30, -1e100, 1e153, 1.2e154, 1e155, 1.7e308, np.inf, -np.inf, np.nan)


class Fuzzer:
    """Messages that follow the protocol, of one sender and by kind, of which a value is another."""

    def __init__(self, study, plan, seed):
        self.study, self.random = study, random.Random(seed)
        self.agents, self.turns = study.agents, plan.rounds
        head = signer_of(study, 1).seal(Kind.HEAD, self.turns, b"").hex()
        self._heads = [head] * self.agents
        self._proposal = json.loads(study.signed.to_json())
        values = {"digest": study.signed.digest, "taciturn": "0"}
        self._accepted = [
            signer_of(study, agent).seal_values(Kind.ACCEPTANCE, 0, values).hex()
            for agent in range(self.agents)
        ]

    def right(self, kind):
        """The values of a right message."""
        draw = self.random
        return {
            Kind.PROPOSAL: self._proposal,
            Kind.ACCEPTANCE: {
                "digest": self.study.signed.digest, "taciturn": "0.1.0", "mask": "09" * 32,
            },
            Kind.START: {"acceptances": self._accepted},
            Kind.RESEND_REQUEST: {
                "kind": int(draw.choice((Kind.HEADS, *ARRAYS))),
                "sender": draw.choice((*range(self.agents), COORDINATOR)),
                "round": draw.randrange(self.turns + 1),
            },
            Kind.HEADS: {"heads": self._heads},
            Kind.HEAD: {},
            Kind.REFUSAL: {"line": "no room"},
            Kind.DONE: {"ending": draw.choice(("finished", "abandoned"))},
            Kind.END: {"line": "over", "public": "00" * 48},
            Kind.LEDGER_ENTRIES: {
                "kinds": [[[0, 0, 1.5, 0, 1.0, 0]], []], "rounds": [0] * self.turns,
            },
            Kind.PROGRESS: {},
        }[kind]  # fmt: skip

    def body(self, kind):
        """The bytes of a message, of which something is another as a rule."""
        if kind >= 16:
            return self._numbers()
        if kind == Kind.HEAD and self.random.random() < 0.5:
            return b""  # it is right, and its transcript may be another
        text = json.dumps(self._other(self.right(kind)))
        if self.random.random() < 0.2:  # of one value the text
            at = self.random.randrange(len(text))
            text = text[:at] + self.random.choice(LITERALS) + text[at + 1 :]
        return text.encode("latin-1", errors="replace")

    def _other(self, value):
        """A value of which one part is another: at any depth, missing, or one too many."""
        draw = self.random
        if draw.random() < 0.05 or not isinstance(value, (dict, list)) or not value:
            return draw.choice(HOSTILE) if draw.random() < 0.8 else value
        if isinstance(value, dict):
            name = draw.choice(list(value))
            if draw.random() < 0.1:
                return {key: one for key, one in value.items() if key != name}
            return {**value, name: self._other(value[name])}
        at = draw.randrange(len(value))
        if draw.random() < 0.1:
            return [*value, *value]
        return [*value[:at], self._other(value[at]), *value[at + 1 :]]

    def _numbers(self):
        draw, count = self.random, self.random.choice((0, 1, 5, 6, 6, 6, 7, 18))
        values = [draw.choice(NUMBERS) if draw.random() < 0.3 else draw.gauss(0, 1)
                  for _ in range(count)]  # fmt: skip
        content = np.array(values, "<f8").tobytes()
        return content + draw.randbytes(draw.choice((0, 0, 0, 1)))

    def turn(self):
        """The round that a message is about."""
        near = (*range(self.turns + 2), *range(self.turns + 2))
        return self.random.choice((*near, 2**31, 2**32 - 1))


def fuzzed(hub, seed, number):
    """Parties of a run, to which others send all kinds of messages; how many they refused."""
    study = hub.study
    star, subjects, failures = study.signed.proposal.network is None, study.signed.subjects, []

    def fail(line, *, breach):  # what would end a party, which goes on
        failures.append((line, line if breach else ""))
        return []

    for name in (0, "coordinator"):
        hub.parties[name]._fail = fail
    hub.parties["coordinator"]._abandon = lambda line: fail(line, breach=True)
    places = {
        (0, 1): [subjects.state(1), subjects.ask(1), subjects.edge(1, 0)],
        (0, COORDINATOR): [subjects.proposal, subjects.public(2)],
        ("coordinator", 1): [subjects.state(1), subjects.ask(1), subjects.answer(1)],
    }
    fuzzer, draw = Fuzzer(study, hub.parties["coordinator"].plan, seed), random.Random(seed)
    transcript = hub.parties["coordinator"]._transcript if star else bytes(32)
    for (target, sender), known in places.items():
        party, name = hub.parties[target], study.signed.opener.names[sender]
        subscribed = [p for p in known if any(matches(one, p) for one in party.subjects)]
        for kind in Kind if subscribed else ():
            for _ in range(number):
                payload = signer_of(study, sender).seal(
                    kind, fuzzer.turn(), fuzzer.body(kind),
                    transcript=draw.choice((transcript, draw.randbytes(32))),
                )  # fmt: skip
                before = len(failures)
                party.receive(Packet(fuzzer.random.choice(subscribed), payload), hub.now)
                for line, public in failures[before:]:
                    assert name in line, (kind, line)
                    assert name in public, (kind, public)
                    assert "error in taciturn" not in line
                hub.now += 1e-3
    return len(failures)


@kinds("star", slow=("ring",))
def test_whatever_a_party_signs_no_process_fails_and_the_right_one_is_named(study, tmp_path):
    assert fuzzed(meet(study, tmp_path).run_to(2, 0), 1, FEW) > 100


@kinds(slow=("star", "ring", "relay"))
def test_a_hundred_messages_of_each_kind_name_the_right_party(study, tmp_path):
    assert fuzzed(meet(study, tmp_path).run_to(2), 2, 100) > 100


@pytest.mark.slow
@pytest.mark.unchecked
@pytest.mark.parametrize("stage", ["middle", "end"])
def test_signed_messages_of_every_kind_at_a_stage_name_the_right_party(star, tmp_path, stage):
    """The end is where heads and ledger entries are compared; the coordinator lacks one of each."""
    middle = stage == "middle"
    hub = meet(star, tmp_path).run_to(2, 0) if middle else near_the_end(star, tmp_path)
    # ten times as many passed once
    assert fuzzed(hub, 3, 5_000 // (3 * len(Kind)) + 1) > 1_000


@pytest.mark.parametrize("values", [{"started": 1}, {"started": 0.0}, {"more": 10**400}])
def test_a_field_that_the_grammar_does_not_have_names_its_sender(star, values):
    body = json.dumps({"line": "no", **values}).encode()
    line = refused_line(
        1, Kind.REFUSAL, 0, body, star.signed.opener.names, star.signed.proposal.plan()
    )
    assert line.startswith("sinai sent a message of the kind REFUSAL")


def refused_line(sender, kind, turn, body, names, plan):
    """The error of a coordinator that reads a control message, or None; another one fails."""
    envelope = Envelope(kind, sender, turn, b"", body, b"", b"")
    try:
        check_control(envelope, names, plan.rounds)
        if kind == Kind.LEDGER_ENTRIES:
            entries = entries_from_json(envelope.values, [1] * plan.rounds, names[sender])
            agents = plan.program.agents
            check_entries(plan.ledger, [entries] * agents, [names[sender]] * agents)
    except TaciturnError as error:
        return str(error)
    return None


@pytest.mark.parametrize("number", [60, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.unchecked  # of annotations: twice as fast, and as in use
def test_control_messages_of_each_kind_name_their_sender(star, number):
    plan, names = star.signed.proposal.plan(), star.signed.opener.names
    for kind in CONTROL:
        fuzzer, refused = Fuzzer(star, plan, int(kind)), 0
        for _ in range(number):
            line = refused_line(1, kind, fuzzer.turn(), fuzzer.body(kind), names, plan)
            assert line is None or "sinai" in line
            refused += line is not None
        assert refused > number // 10
        for text in ('{"a":Infinity}', '{"a":NaN}', "[1]", "7", '{"a":'):
            line = refused_line(1, kind, 0, text.encode(), names, plan)
            assert kind == Kind.PROPOSAL or "sinai sent a message" in line
