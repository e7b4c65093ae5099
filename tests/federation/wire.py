"""A hub inside one process, whose faults a test plants, and what a run over it must keep."""

import functools
from collections import defaultdict

import numpy as np
from tests.federation.studies import ACCOUNT_TERMS

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.engine import run
from taciturn_federation.coordinator import Coordinator
from taciturn_federation.envelope import COORDINATOR, Kind, Packet, Signer, matches
from taciturn_federation.journal import Journal
from taciturn_federation.local import charge_for, derive
from taciturn_federation.site import Site


class KilledError(BaseException):
    """A process that is ended while it computes or writes."""


class Hub:
    """Parties by name, packets in transit, and a clock, from which some parties' may differ.

    `spoil` is called with (sender, receiver, packet) and returns pairs of a delay and a packet that
    arrives. The hub is a witness too: it keeps all that was sent, and what each party reports.
    """

    def __init__(self, study, spoil=None):
        self.study, self.spoil = study, spoil or (lambda sender, receiver, packet: [(0.0, packet)])
        self.parties, self.makers, self.now = {}, {}, 0.0
        self.off = defaultdict(float)
        self.queue, self.later, self.seen = [], [], []
        self.lines = defaultdict(list)
        self.after = lambda name: False

    def join(self, name, maker=None):
        """Start the process of a party; without a maker, again."""
        self.makers[name] = maker or self.makers[name]
        self.parties[name] = self.makers[name]()
        self.send(name, self.parties[name].start(self.clock(name)))

    def clock(self, name):
        """The time as a party reads it."""
        return self.now + self.off[name]

    def kill(self, *names, back=None):
        """Kill parties: nothing of them is left but what is on the disk; they may come back."""
        for name in names:
            party = self.parties.pop(name, None)
            if party is not None:
                party._journal.close()
                if back is not None:
                    self.later.append((self.now + back, name, None))

    def restart(self, *names):
        self.kill(*names)
        for name in names:
            self.join(name)

    def send(self, sender, packets):
        for packet in packets:
            self.seen.append((sender, packet))
            assert len(self.seen) < 20_000, "the parties talk without end"
            for receiver, party in self.parties.items():
                if receiver != sender and any(matches(p, packet.subject) for p in party.subjects):
                    for delay, one in self.spoil(sender, receiver, packet):
                        if delay:
                            self.later.append((self.now + delay, receiver, one))
                        else:
                            self.queue.append((receiver, one))

    def deliver(self, receiver, subject, payload):
        """Hand a packet to one party, as of any sender."""
        packet = Packet(subject, payload)
        self.send(receiver, self.parties[receiver].receive(packet, self.clock(receiver)))

    def step(self):
        """Deliver all that is in transit now."""
        batch, self.queue = self.queue, []
        for receiver, packet in batch:
            if receiver not in self.parties:
                continue
            try:
                packets = self.parties[receiver].receive(packet, self.clock(receiver))
            except KilledError:
                self.kill(receiver, back=2.0)
                continue
            if self.after(receiver):  # killed before it could send what it had written
                self.kill(receiver, back=2.0)
                continue
            self.send(receiver, packets)

    def run(self, *, until=lambda: False, seconds=100.0):
        """Go on until all have ended, or `until()` is true."""
        end = self.now + seconds
        while self.now < end:
            while self.queue:
                self.step()
                if until():
                    return self
            ended = all(p.outcome is not None and not p.needed for p in self.parties.values())
            if until() or (ended and not self.later):
                return self
            self.tick()
        return self

    def run_to(self, turn, who="coordinator"):
        """Go on until a party has so many rounds behind it."""
        return self.run(until=lambda: self.parties[who].progress().round >= turn)

    def tick(self):
        """Let a quarter of a second pass."""
        self.now += 0.25
        due = [one for one in self.later if one[0] <= self.now]
        self.later = [one for one in self.later if one[0] > self.now]
        for _, name, packet in due:
            if packet is not None:
                self.queue.append((name, packet))
            elif name not in self.parties:
                self.join(name)
        for name, party in list(self.parties.items()):
            self.send(name, party.tick(self.clock(name)))

    def outcome(self, who):
        return self.parties[who].outcome

    def endings(self):
        return {party.outcome and party.outcome.ending for party in self.parties.values()}

    def close(self):
        for party in self.parties.values():
            party._journal.close()

    def envelopes(self, kind=Kind.MESSAGE):
        """What the witness saw of a kind, opened, with who sent it."""
        for sender, packet in self.seen:
            try:
                envelope = self.study.signed.opener.open(packet.payload)
            except ValueError:
                continue
            if envelope.kind == kind:
                yield sender, envelope

    def answers(self, *kinds):
        """The different bytes that the witness saw for each (agent, round)."""
        found = defaultdict(set)
        for kind in kinds or (Kind.MESSAGE, Kind.SCORE):
            for _, envelope in self.envelopes(kind):
                found[envelope.sender, envelope.round].add(envelope.body)
        return found

    def answered_once(self):
        """Whether no agent gave two answers in one round."""
        return all(len(bodies) == 1 for bodies in self.answers().values())


def changing(study, kind, change, *, sender=None, receiver=None):
    """A wire on which messages of a kind arrive as `change(envelope)`: bytes, or lost if None."""

    def spoil(source, target, packet):
        envelope = study.signed.opener.open(packet.payload)
        if envelope.kind != kind or (sender, receiver) not in {
            (s, r) for s in (None, source) for r in (None, target)
        }:
            return [(0.0, packet)]
        payload = change(envelope)
        return [] if payload is None else [(0.0, packet._replace(payload=payload))]

    return spoil


@functools.cache
def local_of(study, agent, seed):
    key = study.coordinator.public_key()
    return derive(study.signed, study.source(agent), agent=agent, coordinator=key, seed=seed)


def site_of(study, agent, folder, *, seed=7, **how):
    """A site with its journal, as if its process had just started."""
    local = local_of(study, agent, seed)
    return Site(local, Journal(folder / f"site{agent}.journal"), study.keys[agent], **how)


def coordinator_of(study, folder, **how):
    return Coordinator(
        study.signed, Journal(folder / "coordinator.journal"), study.coordinator, **how
    )


def meet(study, folder, *, spoil=None, seed=7, sites=None, accounts=None, ready=lambda hub: None):
    """A hub with all parties of a study, or some of its sites."""
    hub = Hub(study, spoil)
    ready(hub)
    report = hub.lines["coordinator"].append
    hub.join("coordinator", functools.partial(coordinator_of, study, folder, report=report))
    for agent in range(study.agents) if sites is None else sites:
        hub.join(agent, maker_of(hub, agent, folder, seed=seed, accounts=accounts))
    return hub


def maker_of(hub, agent, folder, *, seed=7, accounts=None):
    how = {} if accounts is None else {"account": accounts[agent]}
    report = hub.lines[agent].append
    return functools.partial(site_of, hub.study, agent, folder, seed=seed, report=report, **how)


def dying_once(hub, *, slowness=1):
    """Have every party die once, just after it wrote something; the list of the dead."""
    deaths = []

    def dies(name):
        if name in deaths or hub.parties[name].progress().round < len(deaths) // slowness:
            return False
        deaths.append(name)
        return True

    hub.after = dies
    return deaths


def lose_journal(folder, name):
    for suffix in ("", "-wal", "-shm"):
        (folder / f"{name}.journal{suffix}").unlink(missing_ok=True)


def forgetting(hub, folder, agent, monkeypatch):
    """The planted fault: a site that forgot what it answered is asked again."""
    hub.kill(agent, "coordinator")
    monkeypatch.setattr(Journal, "last_round", lambda *_: None)
    monkeypatch.setattr(Journal, "round", lambda *_: None)
    monkeypatch.setattr(Journal, "add", lambda *_: None)
    lose_journal(folder, "coordinator")
    hub.join(agent)
    hub.join("coordinator")
    return hub.run(seconds=5)


def without_room(journal, work):
    """What some work returns while the database refuses every write of a journal."""
    journal._connection.execute("PRAGMA query_only = ON")
    try:
        return work()
    finally:
        journal._connection.execute("PRAGMA query_only = OFF")


def full_at(monkeypatch, turn, site="site1", times=2):
    """Give a site no room for its answer of a round; return the rows that it tries to write."""
    add, tries = Journal.add, []

    def full(journal, digest, row):
        if row.round == turn and site in journal.file.name:
            tries.append(row)
            if len(tries) <= times:
                return without_room(journal, lambda: add(journal, digest, row))
        return add(journal, digest, row)

    monkeypatch.setattr(Journal, "add", full)
    return tries


@functools.cache
def model_of(study, seed):
    proposal = study.signed.proposal
    shards = study.data.shards(proposal.precision, centre=proposal.centre)
    return run(proposal.plan(), shards, runtime="simulate", seed=seed).model


def check_finished(hub, seed=7):
    """Every party has the model of one machine, and no agent gave two answers in a round."""
    models = []
    for name, party in hub.parties.items():
        assert party.outcome is not None, (name, party.progress())
        assert party.outcome.ending == "finished", (name, party.outcome.line)
        models.append(party.outcome.model)
        assert party.outcome.certificate is not None
    for model in models:
        expected = models[0] if seed is None else model_of(hub.study, seed)
        np.testing.assert_allclose(model, expected, rtol=0, atol=1e-10)
    assert hub.answered_once()


def check_ended(hub, who, ending, text):
    """A party ended without a model, for a reason in one line."""
    outcome = hub.outcome(who)
    assert outcome is not None
    assert (outcome.ending, outcome.model) == (ending, None), outcome
    assert text in outcome.line, outcome.line
    assert "\n" not in outcome.line


def signer_of(study, sender=COORDINATOR, key=None):
    return Signer(study.signed.run, sender, key or study.key(sender))


def changed(body):
    """A body that differs in its last binary place, of numbers or words."""
    return bytes([body[0] ^ 1]) + body[1:]


def words(body):
    return np.frombuffer(body, "<i8")


def on_disk(folder):
    files = [f for f in folder.rglob("*") if f.is_file() and f.suffix not in (".csv", ".masks")]
    return b"\0".join(file.read_bytes() for file in files)


def everything(hub, folder):
    """All bytes that were written or sent."""
    hub.close()
    return on_disk(folder) + b"\0".join(packet.payload for _, packet in hub.seen)


def open_accounts(study, name="body", guarantee=(8.0, 1e-2), **terms):
    terms = AccountTerms(**(ACCOUNT_TERMS | terms))
    names = [f"{name}{agent}" for agent in range(study.agents)]
    return [open_account(name, Guarantee(*guarantee), terms) for name in names]


def covers(account, study, agent, rounds):
    """Whether an account holds at least what was answered in these rounds."""
    charge = charge_for(study.signed.proposal.plan(), agent, sorted(rounds))
    squares = sum(n / event.multiplier**2 for event, n in charge.messages[0])
    return account.state().total.squares >= squares * (1 - 1e-9)
