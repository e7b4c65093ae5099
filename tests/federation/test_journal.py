"""What is on the disk: the journal, files that others cannot read, and a disk that is full."""

import errno
import gc
import io
import json
import os
import shutil
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest
from tests.federation.wire import changed, check_ended, meet, open_accounts, signer_of, site_of

from taciturn.budget import heads_folder, private_folder
from taciturn.errors import InputError, PrivacyError
from taciturn.report import write_folder
from taciturn_federation import Progress
from taciturn_federation.envelope import Kind, Packet
from taciturn_federation.journal import Entry, Journal, RoundRow, RunRow, _claim
from taciturn_federation.reports import Events, ProgressDisplay, events_to, read_progress


def test_a_journal_that_was_dropped_may_be_collected_on_another_thread(tmp_path):
    journal = [Journal(tmp_path / "a.journal")]
    thread = threading.Thread(target=lambda: (journal.clear(), gc.collect()))
    thread.start()
    thread.join()  # an exception in the collector fails the test, by pytest's hook
    gc.collect()
    Journal(tmp_path / "a.journal").close()


def test_a_run_is_claimed_by_one_journal_and_an_empty_marker_is_none_of_its(tmp_path):
    marker = tmp_path / "run-1-0.journal"
    assert _claim(marker, "one")
    assert _claim(marker, "one")
    assert not _claim(marker, "another")
    marker.write_text("")  # as a full disk could leave it
    assert not _claim(marker, "another")
    assert [file.name for file in tmp_path.iterdir()] == [marker.name]


def test_a_second_process_on_a_journal_or_a_copy_of_it_stops(tmp_path):
    first = Journal(tmp_path / "a.journal")
    with pytest.raises(InputError, match="another process uses the journal"):
        Journal(tmp_path / "a.journal")
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(tmp_path / f"a.journal{suffix}", tmp_path / f"b.journal{suffix}")
    with pytest.raises(InputError, match="another process"):
        Journal(tmp_path / "b.journal")
    first.close()
    Journal(tmp_path / "a.journal").close()


def test_a_journal_without_a_head_or_older_than_it_is_refused(tmp_path):
    file = tmp_path / "a.journal"
    Journal(file).close()
    shutil.copy(file, tmp_path / "backup")
    journal = Journal(file)
    journal.put("ab" * 32, "head", b"content")
    journal.close()
    shutil.copy(tmp_path / "backup", file)
    with pytest.raises(InputError, match="older than what was sent from it"):
        Journal(file)
    for head in heads_folder().glob("journal-*.head"):
        head.unlink()
    with pytest.raises(InputError, match="older than what was sent from it"):
        Journal(file)


def test_a_run_is_not_begun_again_with_a_new_journal(star, tmp_path):
    site_of(star, 0, tmp_path).close()
    with pytest.raises(InputError, match="begun with another journal"):
        site_of(star, 0, tmp_path / "new")


def entry_of(kind, turn="0"):
    """The number of the last entry of a kind, about a round, as SQL."""
    where = f'body LIKE \'%"kind":"{kind}"%\' AND body LIKE \'%"round":{turn}%\''
    return f"(SELECT max(number) FROM entries WHERE {where})"


EDITS = (
    # a truncated journal would answer the missing rounds a second time
    "DELETE FROM entries WHERE number > 6",
    "DELETE FROM entries WHERE number = 6",
    'UPDATE entries SET body = replace(body, \'"phase":"finished"\', \'"phase":"accepted"\')',
    f"UPDATE entries SET body = replace(body, ',0,', ',9,') WHERE number = {entry_of('round', 3)}",
    "DELETE FROM content",
    f"DELETE FROM content WHERE entry = {entry_of('round', 0)}",
    f"UPDATE content SET bytes = x'00' WHERE name = 'message' AND entry = {entry_of('round', 3)}",
    "UPDATE content SET bytes = x'00' WHERE name = 'state'",
    "UPDATE content SET bytes = x'' WHERE name = 'value'",
    "UPDATE content SET entry = entry + 1000 WHERE name = 'state'",
    "INSERT INTO content VALUES (3, 'message', x'00')",
    "INSERT INTO content SELECT entry, 'state', x'00' FROM content "
    f"WHERE name = 'message' AND entry = {entry_of('round', 1)}",
)


def edit(file, statement):
    connection = sqlite3.connect(file)
    with connection:
        rows = connection.execute(statement).rowcount
    connection.close()
    assert rows


def test_a_journal_of_which_anything_is_gone_added_or_changed_is_refused(
    finished, tmp_path, monkeypatch
):
    hub, folder = finished
    monkeypatch.setenv("TACITURN_STATE_DIR", str(folder / "state"))
    copy = tmp_path / "copy.journal"
    shutil.copy(folder / "site0.journal", copy)
    journal = Journal(copy)  # as it was closed
    assert journal.last_round(hub.study.signed.digest).round == 6
    assert journal.round(hub.study.signed.digest, 2).state == b""
    journal.close()
    for number, statement in enumerate(EDITS):
        copy = tmp_path / f"{number}.journal"
        shutil.copy(folder / "site0.journal", copy)
        edit(copy, statement)
        with pytest.raises(InputError, match=r"was edited or is damaged|older than"):
            Journal(copy)


def test_a_journal_of_many_rounds_opens_quickly_and_answers_each_once(tmp_path):
    run, rounds = "ab" * 32, 300
    journal = Journal(tmp_path / "a.journal")
    journal.begin(RunRow(run, "{}", 0, "", "", "running", ""))
    entries = (Entry(0, 0, 1.5, 0, 1.0, 0),)
    for turn in range(rounds):
        journal.add(run, RoundRow(turn, bytes(32), bytes(1000), bytes(800), bytes(32), entries))
    with pytest.raises(PrivacyError, match="is in the journal; it is answered once"):
        journal.add(run, RoundRow(7, bytes(32), bytes(1000), bytes(800), bytes(32), entries))
    journal.close()
    began = time.perf_counter()
    journal = Journal(tmp_path / "a.journal")
    assert time.perf_counter() - began < 5.0
    assert journal.entries(run) == dict.fromkeys(range(rounds), entries)
    journal.close()


# files of the owner alone, whatever the umask allows others


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def modes(*paths):
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


def test_journals_accounts_logs_and_reports_are_for_the_owner_alone(star, tmp_path, open_umask):
    account = open_accounts(star, "mode")[0]
    with account._connected() as connection:
        connection.execute("BEGIN IMMEDIATE")  # SQLite makes its log and its index
        files = list(account.file.parent.glob("mode0*"))
        assert len(files) > 1
        assert modes(*files) == {0o600}
    assert modes(account.file.parent, heads_folder(), heads_folder().parent) == {0o700}
    site = site_of(star, 0, tmp_path / "site")
    files = list((tmp_path / "site").iterdir())
    assert len(files) > 1
    assert modes(*files) == {0o600}
    assert modes(tmp_path / "site") == {0o700}
    site.close()
    assert modes(*heads_folder().glob("*.head")) == {0o600}
    with events_to(tmp_path / "site.log", quiet=True) as events:
        events("connected")
    assert modes(tmp_path / "site.log") == {0o600}
    write_folder({"results.json": "{}"}, tmp_path / "out", force=False, certificate="{}")
    assert modes(*(tmp_path / "out").iterdir()) == {0o600}
    assert modes(tmp_path / "out") == {0o700}
    (tmp_path / "shared").mkdir(mode=0o750)
    private_folder(tmp_path / "shared" / "a" / "b")
    assert modes(tmp_path / "shared") == {0o750}  # a folder that exists keeps its permissions
    assert modes(tmp_path / "shared" / "a", tmp_path / "shared" / "a" / "b") == {0o700}


# a full disk ends no process: what cannot be written waits, or is dropped and counted


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


def test_a_log_counts_the_lines_for_which_there_was_no_room_and_goes_on_in_whole_lines():
    with events_to(Path("/dev/full"), quiet=True) as full:
        full("report", line="x")
    disk = Disk(60)
    events = Events(disk, quiet=True)
    for number in range(5):
        events("report", line=str(number))
    disk.room = 10_000
    events("report", line="5")
    events("report", line="6")
    torn, *lines = disk.content.splitlines()
    assert len(torn) == 60
    values = [json.loads(line) for line in lines]
    assert [one["event"] for one in values] == ["log_gap", "report", "report"]
    assert values[0]["dropped"] == 5
    assert [one["line"] for one in values[1:]] == ["5", "6"]


def test_a_closed_terminal_and_a_status_file_without_room_raise_nothing(tmp_path, monkeypatch):
    def closed(*_, **__):
        raise OSError(errno.EIO, "closed")

    monkeypatch.setattr("taciturn_federation.reports.error_line", closed)
    Events(None, quiet=False)("hub_away", reason="gone")
    missing = tmp_path / "missing" / "run.json"
    display = ProgressDisplay(Events(None, quiet=True), missing, quiet=True)
    display(Progress(1, 2, ("mercy",), 0.0))
    display.end("finished")
    display.leave()


def test_bad_messages_without_number_leave_one_line_of_a_kind_and_then_their_count(star, tmp_path):
    file, subjects = tmp_path / "site.log", star.signed.subjects
    with events_to(file, quiet=True) as events:
        site = site_of(star, 0, tmp_path, report=events.report)
        right = signer_of(star).seal(Kind.PUBLIC, 0, bytes(48))
        for number in range(500):
            bad = (
                Packet(subjects.public(0), bytes(number % 180)),
                Packet(
                    subjects.public(0), right[:8] + (number + 99).to_bytes(4, "little") + right[12:]
                ),
                Packet(f"{subjects.study}.{subjects.run}.ask.{number}", right),
                Packet(f"{subjects.study}.{subjects.run}.public.x{number}", right),
                Packet(subjects.public(0), right[:-8] + number.to_bytes(8, "little")),
            )
            for packet in bad:
                assert site.receive(packet, 0.0) == []
        site.close()
    values = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(values) <= 6 * 3, len(values)
    assert max(one.get("times", 1) for one in values) == 100
    lines = {one["line"] for one in values}
    for what in (
        "cut short",
        "takes no part",
        "not for this party",
        "no subject",
        "not signed with",
    ):
        assert [line for line in lines if what in line], (what, lines)


def test_status_tells_whether_a_process_is_at_work_and_not_what_an_old_file_says(tmp_path):
    file = tmp_path / "progress" / "run.json"
    assert read_progress(file) is None
    display = ProgressDisplay(Events(None, quiet=True), file, quiet=True)
    assert read_progress(file).startswith("about to begin (")
    display(Progress(3, 6, ("mercy",), 2.0))
    assert read_progress(file).startswith("round 3 of 6; waiting 2.0 s for mercy (")
    display.leave()  # as a process that is killed
    assert read_progress(file).startswith("stopped, round 3 of 6 (")
    assert read_progress(file).endswith("the same command resumes it")
    display.end("abandoned")
    assert read_progress(file).startswith("abandoned (")
    again = ProgressDisplay(Events(None, quiet=True), file, quiet=True)
    assert read_progress(file).startswith("about to begin (")
    again.leave()


def fill(party):
    """Fill the free pages of a party's journal, so that the next write fails."""
    connection = party._journal._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    for size in (5000, 500, 1):  # the last ones fill the pages that have room for a line
        for number in range(10_000):
            try:
                party._journal.put("0" * 64, f"{size}.{number}", bytes(size))
            except ValueError:
                break
        else:
            raise AssertionError("the journal never filled up")


def make_room(party):
    party._journal._connection.execute("PRAGMA max_page_count = 1000000")


def test_a_breach_on_a_full_disk_ends_the_run_once_there_is_room(star, tmp_path):
    hub = meet(star, tmp_path).run_to(3)
    hub.queue = []
    coordinator = hub.parties["coordinator"]
    fill(coordinator)
    transcript, body = coordinator._transcript, next(e.body for _, e in hub.envelopes())
    for content in (body, changed(body)):
        answer = signer_of(star, 0).seal(Kind.MESSAGE, 3, content, transcript=transcript)
        hub.deliver("coordinator", star.signed.subjects.answer(0), answer)
    assert coordinator.outcome is None
    assert "cannot be written" in hub.lines["coordinator"][-1]
    hub.run(seconds=3)
    assert coordinator.outcome is None
    assert coordinator.progress().round == 3
    make_room(coordinator)
    hub.run(seconds=3)
    check_ended(hub, "coordinator", "abandoned", "mercy sent round 3 twice")


def test_a_site_whose_disk_is_full_when_the_heads_come_ends_with_the_model_later(star, tmp_path):
    hub = meet(star, tmp_path)
    hub.run(until=lambda: hub.parties["coordinator"]._head() is not None)
    site = hub.parties[0]
    fill(site)
    hub.run(seconds=5)
    assert site.outcome is None
    make_room(site)
    hub.run(seconds=20)
    assert site.outcome.ending == "finished"
    assert site._journal.get(star.signed.digest, "model") is not None


def test_a_refusal_with_journal_and_account_on_a_full_disk_raises_nothing(
    star, tmp_path, monkeypatch
):
    hub = meet(star, tmp_path, seed=None, accounts=open_accounts(star), sites=[0])

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("taciturn.budget.account.record", full)
    fill(hub.parties[0])
    start = signer_of(star).seal_values(Kind.START, 0, {"acceptances": []})
    hub.deliver(0, star.signed.subjects.proposal, start)
    assert hub.outcome(0).ending == "refused"
