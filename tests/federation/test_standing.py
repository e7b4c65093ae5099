"""A standing site starts what its owner's policy allows, and nothing else."""

import errno
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.federation.studies import NAMES, make_study
from tests.federation.wire import signer_of

from taciturn.errors import InputError
from taciturn_federation.envelope import Kind, Packet
from taciturn_federation.standing import Policy, Process, Standing, approve, kept_runs

pytestmark = pytest.mark.unchecked  # the folder of a site and its processes are stood in for
POLICY = """epsilon = 1.5
delta = 1e-3
methods = ["noisy-gradient"]
observers = ["messages", "sum"]
sites = 3
"""


class Child:
    """A process that ends when the test says so."""

    pid = 4711

    def __init__(self):
        self.code = None

    def poll(self):
        return self.code


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("standing"))


@pytest.fixture(scope="module")
def summed(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("summed"), observer="sum")


def checked(signed, **changes):
    """What `taciturn site check --json` says, as far as a policy reads it."""
    claim = {"certificate": {"delta": 1e-3}, "own_epsilon": 1.0, "site": NAMES[0]}
    return claim | {"account": {"refused": ""}} | changes


class Bench:
    """A standing site whose processes are the test's."""

    def __init__(self, study, folder, policy=POLICY, **check):
        self.study, self.file, self.lines = study, folder / "policy.toml", []
        self.file.write_text(policy)
        folder.joinpath("site").mkdir(exist_ok=True)
        self.children, self.events = [], []
        self.site = SimpleNamespace(
            folder=folder / "site", name=NAMES[0], invitation=SimpleNamespace(study="diabetes"),
            take_part=lambda signed: signed.check(study.coordinator.public_key()),
            progress_file=lambda signed: folder / "progress.json",
        )  # fmt: skip
        process = Process(lambda run: checked(run.signed, **check), self.start)
        self.party = Standing(
            self.site, lambda: Policy.read(self.file), process, self.lines.append,
            lambda event, **values: self.events.append((event, values)),
        )  # fmt: skip

    def start(self, run):
        self.children.append(Child())
        return self.children[-1]

    def propose(self, signer=None, now=0.0):
        signer, signed = signer or signer_of(self.study), self.study.signed
        payload = signer.seal(Kind.PROPOSAL, 0, signed.to_json().encode())
        self.party.receive(Packet(signed.subjects.proposal, payload), now)
        self.party.tick(now)


def test_a_run_that_the_policy_allows_is_started_once_and_ends(study, tmp_path):
    bench = Bench(study, tmp_path)
    bench.propose()
    bench.propose(now=5.0)
    assert len(bench.children) == 1
    assert bench.party.counts()["running"] == 1
    values = {"round": 6, "rounds": 6, "waiting_for": [], "seconds": 0.0, "at": 0.0}
    (tmp_path / "progress.json").write_text(json.dumps(values | {"ending": "finished"}))
    bench.children[0].code = 0
    bench.party.tick(10.0)
    assert bench.party.counts()["ended"] == 1
    bench.propose(now=60.0)
    assert len(bench.children) == 1


def test_a_site_that_starts_again_resumes_its_runs(study, tmp_path):
    Bench(study, tmp_path).propose()
    again = Bench(study, tmp_path)
    again.party.tick(0.0)
    assert len(again.children) == 1
    again.children[0].code = 130  # interrupted
    again.party.tick(2.0)
    again.party.tick(20.0)
    assert len(again.children) == 1
    again.party.tick(40.0)
    assert len(again.children) == 2


@pytest.mark.parametrize(
    ("line", "check", "reason"),
    [
        ('methods = ["dp-admm"]', {}, "it is for noisy-gradient"),
        ('observers = ["sum"]', {}, "its observer is messages"),
        ("sites = 4", {}, "it has 3 sites"),
        ("epsilon = 0.5", {}, "it costs epsilon 1"),
        ("delta = 1e-6", {}, "its delta is 0.001"),
        ("", {"account": {"refused": "too little is left"}}, "too little is left"),
        ("", {"account": None}, "the site has no account"),
        ("episilon = 3", {}, "cannot be used"),
    ],
)
def test_a_run_outside_the_policy_waits_for_its_owner(study, tmp_path, line, check, reason):
    name = line.split(" = ")[0]
    kept = [one for one in POLICY.splitlines() if not one.startswith(f"{name} =") or not name]
    bench = Bench(study, tmp_path, "\n".join([*kept, line]), **check)
    bench.propose()
    assert bench.children == []
    (run,) = kept_runs(bench.site)
    assert run.state[0] == "waiting"
    assert reason in run.state[1]
    assert run.folder.name in bench.lines[0]
    with pytest.raises(InputError, match=f"there wait {run.folder.name}"):
        approve(bench.site, "another")
    approve(bench.site, run.folder.name)
    bench.party.tick(2.0)
    assert len(bench.children) == 1


def test_under_sum_every_other_key_must_be_one_that_owners_compared(summed, tmp_path):
    keys = {member.name: member.fingerprint for member in summed.signed.participants[1:]}
    agreed = "[agreed]\n" + "".join(f'{name} = "{key}"\n' for name, key in keys.items())
    for text, started in ((agreed, 1), (agreed.replace(keys["sinai"][:4], "0000"), 0), ("", 0)):
        folder = tmp_path / str(len(text) + started)
        folder.mkdir()
        bench = Bench(summed, folder, POLICY + text)
        bench.propose()
        assert len(bench.children) == started
        if not started:
            assert "sinai" in kept_runs(bench.site)[0].state[1]


def test_what_the_coordinator_did_not_sign_is_no_proposal(study, tmp_path):
    bench = Bench(study, tmp_path)
    bench.propose(signer_of(study, 1))
    bench.propose(signer_of(study, key=study.keys[0]))
    subject = study.signed.subjects.proposal
    for payload in (b"", b"x" * 300, signer_of(study).seal(Kind.PROPOSAL, 0, b"{}")):
        for place in (subject, "diabetes", "", "diabetes.x.proposal"):
            bench.party.receive(Packet(place, payload), 0.0)
    assert kept_runs(bench.site) == []
    assert bench.party.outcome is None


def test_every_step_of_a_run_is_an_event_with_its_run(study, tmp_path):
    bench = Bench(study, tmp_path, POLICY.replace("sites = 3", "sites = 4"))
    bench.propose()
    name = study.signed.subjects.run
    approve(bench.site, name)
    bench.party.tick(2.0)
    values = {"round": 2, "rounds": 6, "waiting_for": ["sinai"], "seconds": 0.5, "at": 0.0}
    (tmp_path / "progress.json").write_text(json.dumps(values))
    assert bench.party.progress()[:3] == (2, 6, ["sinai"])
    (tmp_path / "progress.json").write_text(json.dumps(values | {"ending": "finished"}))
    bench.children[0].code = 0
    bench.party.tick(4.0)
    names = [event for event, _ in bench.events]
    assert names == ["proposal", "decided", "approved", "run_started", "run_stopped"]
    assert {one["run"] for _, one in bench.events} == {name}
    assert bench.events[1][1]["reason"] == "it has 3 sites"
    assert bench.events[0][1]["sites"] == list(NAMES[:3])
    assert bench.party.progress().rounds == 0


def test_a_full_disk_ends_no_standing_site_and_the_run_starts_once_there_is_room(
    study, tmp_path, monkeypatch
):
    bench = Bench(study, tmp_path)
    bench.propose(now=0.0)
    again = Bench(study, tmp_path)
    with monkeypatch.context() as patch:
        for name in ("write_text", "mkdir"):
            patch.setattr(Path, name, full)
        again.party.process = again.party.process._replace(run=full)
        again.party.tick(2.0)
        again.propose(now=4.0)
    again.party.process = again.party.process._replace(run=again.start)
    again.party.tick(60.0)
    assert len(again.children) == 1


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")
