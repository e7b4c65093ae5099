"""A hub inside one process, which carries packets as badly as it is told to."""

import functools
from collections import defaultdict

from taciturn_federation.coordinator import Coordinator
from taciturn_federation.envelope import Kind, matches
from taciturn_federation.journal import Journal
from taciturn_federation.local import derive
from taciturn_federation.site import Site


class KilledError(BaseException):
    """A process that is ended while it computes or writes."""


class Hub:
    """Parties by name, packets on their way, and a clock, which some parties' may differ from.

    `spoil` is called with (sender, receiver, packet) and returns pairs of a delay and a packet that
    arrives. The hub is a witness too: it keeps all that was sent.
    """

    def __init__(self, spoil=None):
        self.parties, self.makers, self.now = {}, {}, 0.0
        self.off = defaultdict(float)
        self.queue, self.later = [], []
        self.spoil = spoil or (lambda sender, receiver, packet: [(0.0, packet)])
        self.after = lambda name: False
        self.seen = []

    def join(self, name, maker):
        self.makers[name] = maker
        self.parties[name] = maker()
        self.send(name, self.parties[name].start(self.clock(name)))

    def clock(self, name):
        """The time as a party reads it."""
        return self.now + self.off[name]

    def die(self, name, *, back=None):
        """Kill a party: nothing of it is left but what is on the disk; it may come back."""
        party = self.parties.pop(name, None)
        if party is None:
            return
        party._journal.close()
        if back is not None:
            self.later.append((self.now + back, name, None))

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

    def tell(self, receiver, packet):
        """Hand a packet to one party, as if somebody had sent it."""
        self.send(receiver, self.parties[receiver].receive(packet, self.clock(receiver)))

    def step(self):
        """Deliver all that is on its way now."""
        batch, self.queue = self.queue, []
        for receiver, packet in batch:
            if receiver not in self.parties:
                continue
            try:
                packets = self.parties[receiver].receive(packet, self.clock(receiver))
            except KilledError:
                self.die(receiver, back=2.0)
                continue
            if self.after(receiver):  # killed before it could say what it had written
                self.die(receiver, back=2.0)
                continue
            self.send(receiver, packets)

    def run(self, *, until=lambda: False, seconds=100.0):
        """Go on until all have ended, or `until()` is true."""
        end = self.now + seconds
        while self.now < end:
            while self.queue:
                self.step()
                if until():
                    return
            ended = all(p.outcome is not None and not p.needed for p in self.parties.values())
            if until() or (ended and not self.later):
                return
            self.tick()

    def tick(self):
        """Let a tenth of a second pass."""
        self.now += 0.1
        due = [one for one in self.later if one[0] <= self.now]
        self.later = [one for one in self.later if one[0] > self.now]
        for _, name, packet in due:
            if packet is not None:
                self.queue.append((name, packet))
            elif name not in self.parties:
                self.join(name, self.makers[name])
        for name, party in list(self.parties.items()):
            self.send(name, party.tick(self.clock(name)))


@functools.cache
def local_of(study, agent, seed):
    key = study.coordinator.public_key()
    return derive(study.signed, study.source(agent), agent=agent, coordinator=key, seed=seed)


def site_of(study, agent, folder, *, seed=7, **how):
    """A site with its journal, as if its process had just started."""
    local = local_of(study, agent, seed)
    return Site(local, Journal(folder / f"site{agent}.journal"), study.keys[agent], **how)


def coordinator_of(study, folder, *, name="coordinator", **how):
    return Coordinator(study.signed, Journal(folder / f"{name}.journal"), study.coordinator, **how)


def meet(study, folder, *, spoil=None, seed=7, sites=None, lines=None, accounts=None, ready=None):
    """A hub with all parties of a study; `lines` collects what each party reports."""
    hub, lines = Hub(spoil), defaultdict(list) if lines is None else lines
    if ready is not None:
        ready(hub)
    who = functools.partial(coordinator_of, study, folder)
    hub.join("coordinator", lambda: who(report=lines["coordinator"].append))
    for agent in range(study.agents) if sites is None else sites:
        how = {"seed": seed, "report": lines[agent].append}
        if accounts is not None:
            how["account"] = accounts[agent]
        hub.join(agent, functools.partial(site_of, study, agent, folder, **how))
    return hub


def without_room(journal, work):
    """What some work returns while the database refuses every write of a journal."""
    journal._connection.execute("PRAGMA query_only = ON")
    try:
        return work()
    finally:
        journal._connection.execute("PRAGMA query_only = OFF")


def envelopes(hub, study, kind=Kind.MESSAGE):
    """What the witness saw of a kind, opened."""
    for sender, packet in hub.seen:
        try:
            envelope = study.signed.opener.open(packet.payload)
        except ValueError:
            continue
        if envelope.kind == kind:
            yield sender, packet, envelope


def answers_seen(hub, study):
    """The different bytes that the witness saw for each (agent, round), the last question's too."""
    found = defaultdict(set)
    for kind in (Kind.MESSAGE, Kind.SCORE):
        for _, _, envelope in envelopes(hub, study, kind):
            found[envelope.sender, envelope.round].add(envelope.body)
    return found


def messages_of(hub, study):
    """The envelopes of rounds, as they were sent."""
    return [envelope for _, _, envelope in envelopes(hub, study)]
