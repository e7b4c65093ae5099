"""A hub inside one process, which carries packets as badly as it is told to."""

import random
from collections import defaultdict

from tacit.federation.coordinator import Coordinator
from tacit.federation.envelope import Kind
from tacit.federation.journal import Journal
from tacit.federation.local import derive
from tacit.federation.site import Site
from tacit.federation.subjects import matches
from tacit.tables import Source


class Hub:
    """Parties by name, packets on their way, and a clock.

    `spoil` is called with (sender, receiver, packet) and returns the packets that arrive. The hub
    is a witness too: it keeps all that was sent.
    """

    def __init__(self, spoil=None):
        self.parties, self.queue, self.now = {}, [], 0.0
        self.spoil = spoil or (lambda sender, receiver, packet: [packet])
        self.seen, self.limit = [], 20_000

    def join(self, name, party):
        self.parties[name] = party
        self.send(name, party.start(self.now))

    def leave(self, name):
        return self.parties.pop(name, None)

    def send(self, sender, packets):
        for packet in packets:
            assert len(self.seen) < self.limit, "the parties talk without end"
            self.seen.append((sender, packet))
            for receiver, party in self.parties.items():
                if receiver != sender and any(matches(p, packet.subject) for p in party.subjects):
                    arriving = self.spoil(sender, receiver, packet)
                    self.queue += [(receiver, one) for one in arriving]

    def step(self):
        """Deliver all that is on its way now."""
        batch, self.queue = self.queue, []
        for receiver, packet in batch:
            if receiver in self.parties:
                self.send(receiver, self.parties[receiver].heard(packet, self.now))

    def run(self, *, until=None, seconds=600.0):
        """Go on until all have ended, or `until()` is true."""
        end = self.now + seconds
        while self.now < end:
            while self.queue:
                self.step()
                if until is not None and until():
                    return
            if (until is not None and until()) or not any(
                party.outcome is None or party.needed for party in self.parties.values()
            ):
                return
            self.now += 0.1
            for name, party in list(self.parties.items()):
                self.send(name, party.tick(self.now))


def site_of(study, agent, *, seed=7, folder=None, **how):
    """A site with its journal, as if its process had just started."""
    source = Source(path=study.files[agent], target="ill", bounds=None)
    local = derive(
        study.signed, source, agent=agent, coordinator=study.coordinator.public_key(), seed=seed
    )
    place = folder or study.folder
    return Site(local, Journal(place / f"site{agent}.journal"), study.keys[agent], **how)


def coordinator_of(study, *, name="coordinator", **how):
    return Coordinator(
        study.signed, Journal(study.folder / f"{name}.journal"), study.coordinator, **how
    )


def meet(study, *, spoil=None, seed=7, **how):
    """A hub with all parties of a study."""
    hub = Hub(spoil)
    hub.join("coordinator", coordinator_of(study))
    for agent in range(study.agents):
        hub.join(agent, site_of(study, agent, seed=seed, **how))
    return hub


def dies(hub, name):
    """Kill a party: nothing of it is left but what is on the disk."""
    party = hub.leave(name)
    if party is not None:
        party._journal.close()
    hub.queue = [(receiver, packet) for receiver, packet in hub.queue if receiver != name]


def messages(hub, study):
    """What the witness saw of rounds: the different bytes for each (agent, round)."""
    opener, found = study.signed.opener, defaultdict(set)
    for _, packet in hub.seen:
        try:
            envelope = opener.opened(packet.payload)
        except ValueError:
            continue
        if envelope.kind == Kind.MESSAGE:
            found[envelope.sender, envelope.round].add(packet.payload)
    return found


def seeded(seed):
    return random.Random(seed)
