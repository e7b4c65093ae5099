"""Seeded faults of wire, machines and people, and what a run under them must still keep."""

import random
from collections import defaultdict

import numpy as np
from tests.federation.studies import RING, make_study
from tests.federation.wire import check_finished, covers, meet, open_accounts, signer_of

from taciturn_federation.envelope import COORDINATOR, Kind, Packet

WIRE = ("drop", "repeat", "delay", "cut", "forge", "replay", "foreign")
# one of these befalls each run besides
SPECIAL = ("partition", "slow", "clock", "big", "disk", "table", "kill")
HOW = {
    "star": {},
    "sum": {"observer": "sum"},
    "evaluated": {"evaluate": 0.2, "rounds": 4},
    "ring": {"algorithm": "nids", "network": RING},
    "relay": {"algorithm": "recal", "network": RING, "rounds": 8},
    "tree": {"network": RING, "observer": "sum"},
}
RUNS = 200
GONE = "no message arrived for twice the patience of the study"


def make_studies(folder, agents=5):
    """A study of every kind, and one of each kind with a bad cell in the last file."""
    studies = {}
    for name, how in HOW.items():
        for spoilt in (False, True):
            place = folder / f"{name}-{spoilt}"
            place.mkdir(parents=True)
            studies[name, spoilt] = study = make_study(place, agents=agents, **how)
            if spoilt:
                study.spoil_cell()
    return studies


class Faults:
    """The faults of one run; `happened` counts them by kind."""

    def __init__(self, study, seed, rate=0.03):
        self.random, self.rate, self.study = random.Random(seed), rate, study
        self.special = SPECIAL[seed % len(SPECIAL)]
        self.victim = self.random.choice(["coordinator", *range(study.agents)])
        # packets that the victim receives before, and seconds that the special fault lasts
        self.before, self.lasts = self.random.randrange(12), self.random.choice([3.0, 20.0, 60.0])
        self.began = None
        self.old, self.happened, self.stops, self.hub = [], defaultdict(int), 60, None
        self.signs = self.random.random() < 0.5

    @property
    def now(self):
        """Whether the special fault lasts."""
        return self.began is not None and self.hub.now < self.began + self.lasts

    def __call__(self, sender, receiver, packet):
        self.old.append(packet)
        if self.victim in (sender, receiver) and self.now:
            if self.special == "partition":
                return self._one("partition", [])
            if self.special == "slow":
                return self._one("slow", [(self.random.uniform(1.0, 6.0), packet)])
        if self.stops <= 0 or self.random.random() > self.rate:
            return [(0.0, packet)]
        self.stops -= 1
        kind = self.random.choice(WIRE)
        return self._one(kind, self._spoilt(kind, packet))

    def _one(self, kind, arrives):
        self.happened[kind] += 1
        return arrives

    def _spoilt(self, kind, packet):
        subject, payload = packet
        spoilt = {
            "drop": [],
            "repeat": [(0.0, packet), (0.0, packet)],
            "delay": [(self.random.uniform(0.1, 3.0), packet)],
            "cut": [(0.0, Packet(subject, payload[: self.random.randrange(len(payload))]))],
            "forge": [(0.0, Packet(subject, payload[:-64] + bytes(64)))],
            "replay": [(0.0, packet), (0.5, self.random.choice(self.old))],
            "foreign": [(0.0, packet), (0.0, Packet(subject, _other_run(payload)))],
        }
        return spoilt[kind]

    def after(self, name):
        """Whether a party dies, having written something; other faults of machines begin here."""
        if name == self.victim and self.began is None:
            self.before -= 1
            if self.before < 0:
                self.began = self.hub.now
                self._befall(name)
        often = 4 if self.special == "kill" else 1
        if self.stops <= 0 or self.random.random() > often * self.rate / 4:
            return False
        self.stops -= 10
        self.happened["kill"] += 1
        return True

    def _befall(self, name):
        if self.special == "clock":
            self.happened["clock"] += 1
            self.hub.off[name] = self.random.choice([-3600.0, 3600.0])
        elif self.special == "disk":
            self.happened["disk"] += 1
            self._fill(name)
        elif self.special == "big":
            self.happened["big"] += 1
            self._shout(name)

    def _fill(self, name):
        """No page more for the journal, until there is room again."""
        party = self.hub.parties[name]
        (pages,) = party._journal._connection.execute("PRAGMA page_count").fetchone()
        party._journal._connection.execute(f"PRAGMA max_page_count = {pages}")
        self.full = party

    def room(self):
        """Make room once the fault is over."""
        if not self.now and self.full is not None:
            alive = self.full in self.hub.parties.values()
            if alive:
                self.full._journal._connection.execute("PRAGMA max_page_count = 1000000")
            self.full = None

    def _shout(self, name):
        """8 MB where the plan announces a few bytes: signed by their sender, or by nobody."""
        star = self.study.signed.proposal.network is None
        subjects = self.study.signed.subjects
        content = self.random.randbytes(8 * 2**20)
        if name == "coordinator":
            subject, kind, sender = subjects.public(1), Kind.PUBLIC, COORDINATOR
        else:
            subject = subjects.answer(name) if star else subjects.state(name)
            kind, sender = Kind.MESSAGE, name
        if self.signs:
            content = signer_of(self.study, sender).seal(kind, 1, content)
        self.hub.queue += [(who, Packet(subject, content)) for who in self.hub.parties]

    full = None


def _other_run(payload):
    return payload[:16] + bytes(32) + payload[48:]


def run_seed(studies, folder, seed):
    """One run under seeded faults; it ends as the same model, or as abandoned with a reason."""
    names = tuple(HOW)
    name = names[seed % len(names)]
    spoilt = SPECIAL[seed % len(SPECIAL)] == "table"
    private = bool(seed // len(names) % 2) and name in ("star", "sum", "tree")
    return under_faults(studies[name, spoilt], folder, seed, private=private, name=name)


def under_faults(study, folder, seed, *, private, name=""):
    """One run of a study under seeded faults; with accounts and secret noise if `private`."""
    faults = Faults(study, seed)
    accounts = open_accounts(study) if private else None
    hub = meet(
        study, folder, spoil=faults, seed=None if private else 7,
        accounts=accounts, ready=lambda hub: setattr(faults, "hub", hub),
    )  # fmt: skip
    hub.after = faults.after
    while hub.now < 400:
        hub.run(seconds=1.0)
        faults.room()
        over = all(p.outcome is not None and not p.needed for p in hub.parties.values())
        if over and len(hub.parties) == len(hub.makers):
            break
    if faults.special == "table":
        faults.happened["table"] += 1
    _check(hub, faults, seed=None if private else 7, what=(seed, name))
    for agent, account in enumerate(accounts or ()):
        seen = {turn for (sender, turn) in hub.answers() if sender == agent}
        assert covers(account, study, agent, seen), seed
    hub.close()
    return faults


def _check(hub, faults, *, seed, what):
    outcomes = {name: party.outcome for name, party in hub.parties.items()}
    what = (*what, faults.special, faults.victim, dict(faults.happened),
            {name: one and (one.ending, one.line) for name, one in outcomes.items()})  # fmt: skip
    assert all(outcomes.values()), what
    endings = {one.ending for one in outcomes.values()}
    refusing = {name for name, one in outcomes.items() if one.ending == "refused"}
    assert endings <= {"finished", "abandoned", "refused"}, what
    if faults.special == "table":
        assert refusing <= {hub.study.agents - 1}, what
        assert "finished" not in endings, what
    elif not (faults.special == "big" and faults.signs):
        assert not refusing, what
    if endings == {"finished"}:
        check_finished(hub, seed)
    elif "finished" in endings:  # a site that receives no message any more cannot know of the end
        lines = {one.line for one in outcomes.values() if one.ending == "abandoned"}
        assert lines == {GONE}, what
        models = [one.model for one in outcomes.values() if one.ending == "finished"]
        for model in models:
            np.testing.assert_array_equal(model, models[0])
    assert hub.answered_once(), what
