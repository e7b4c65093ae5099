"""A full disk ends no process: what cannot be written waits, or is dropped and counted."""

import errno
import io
import json
from pathlib import Path

from tests.federation.test_breaches import other, seal_of
from tests.federation.test_parties import guarded_accounts
from tests.federation.wire import meet, messages_of

from taciturn_federation import Progress
from taciturn_federation.reports import Events, ProgressDisplay, events_to
from taciturn_federation.envelope import Kind
from taciturn_federation.envelope import Packet


class Disk(io.RawIOBase):
    """A file on a disk that has room for so many more bytes."""

    def __init__(self, room):
        self.content, self.room = b"", room

    def write(self, content):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = min(len(content), self.room)
        self.content, self.room = self.content + content[:written], self.room - written
        return written


def test_a_log_on_a_full_disk_raises_nothing():
    with events_to(Path("/dev/full"), quiet=True) as events:
        for _ in range(3):
            events("said", line="x")


def test_a_log_counts_the_lines_for_which_there_was_no_room_and_goes_on_in_whole_lines():
    disk = Disk(60)
    events = Events(disk, quiet=True)
    for number in range(5):
        events("said", line=str(number))
    disk.room = 10_000
    events("said", line="5")
    events("said", line="6")
    torn, *lines = disk.content.splitlines()
    assert len(torn) == 60
    values = [json.loads(line) for line in lines]
    assert [one["event"] for one in values] == ["log_gap", "said", "said"]
    assert values[0]["dropped"] == 5
    assert [one["line"] for one in values[1:]] == ["5", "6"]


def test_a_closed_terminal_raises_nothing(monkeypatch):
    def closed(*_, **__):
        raise OSError(errno.EIO, "closed")

    monkeypatch.setattr("taciturn_federation.commands.running.error_line", closed)
    Events(None, quiet=False)("hub_away", reason="gone")


def test_a_status_file_that_cannot_be_written_raises_nothing(tmp_path):
    shown = ProgressDisplay(Events(None, quiet=True), tmp_path / "missing" / "run.json", quiet=True)
    shown(Progress(1, 2, ("mercy",), 0.0))
    shown.ended("finished", 2)
    shown.done()


def fill(party):
    """No page more for the journal of a party."""
    (pages,) = party._journal._connection.execute("PRAGMA page_count").fetchone()
    party._journal._connection.execute(f"PRAGMA max_page_count = {pages}")


def empty(party):
    party._journal._connection.execute("PRAGMA max_page_count = 1000000")


def stuffed(party):
    """Fill the free pages of a journal, so that the next write fails."""
    fill(party)
    for size in (5000, 500, 1):  # the last ones fill the pages that have room for a line
        for number in range(10_000):
            try:
                party._journal.put("0" * 64, f"{size}.{number}", bytes(size))
            except ValueError:
                break
        else:
            raise AssertionError("the journal never filled up")


def test_a_breach_on_a_full_disk_ends_the_run_once_there_is_room(star, tmp_path):
    """The process of the coordinator had ended, with an error of its journal."""
    lines = {"coordinator": [], 0: [], 1: [], 2: []}
    hub = meet(star, tmp_path, lines=lines)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round == 3)
    hub.queue = []
    coordinator = hub.parties["coordinator"]
    stuffed(coordinator)
    chain, body = coordinator._transcript, messages_of(hub, star)[0].body
    for content in (body, other(body)):
        sealed = seal_of(star, 0).seal(Kind.MESSAGE, 3, content, transcript=chain)
        hub.tell("coordinator", Packet(star.signed.subjects.answer(0), sealed))
    assert coordinator.outcome is None
    assert "cannot be written" in lines["coordinator"][-1]
    hub.run(seconds=3)
    assert coordinator.outcome is None
    assert coordinator.progress().round == 3
    empty(coordinator)
    hub.run(seconds=3)
    assert "mercy answered round 3 twice" in coordinator.outcome.line


def test_a_site_whose_disk_is_full_when_the_heads_come_ends_with_the_model_later(star, tmp_path):
    """It had ended without a model on its disk, and nobody was left to tell it the end again."""
    hub = meet(star, tmp_path)
    hub.run(until=lambda: hub.parties["coordinator"]._head() is not None)
    site = hub.parties[0]
    stuffed(site)
    hub.run(seconds=5)
    assert site.outcome is None
    empty(site)
    hub.run(seconds=20)
    assert site.outcome.ending == "finished"
    assert site._journal.get(star.signed.digest, "model") is not None


def test_a_refusal_with_journal_and_account_on_a_full_disk_raises_nothing(
    star, tmp_path, monkeypatch
):
    hub = meet(star, tmp_path, seed=None, accounts=guarded_accounts(star), sites=[0])
    site = hub.parties[0]

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("taciturn.budget.account.record", full)
    stuffed(site)
    start = seal_of(star).seal_values(Kind.START, 0, {"acceptances": []})
    hub.tell(0, Packet(star.signed.subjects.proposal, start))
    assert site.outcome.ending == "refused"
