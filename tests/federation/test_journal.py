"""A journal as an object of Python: who may let go of it, and where."""

import gc
import shutil
import sqlite3
import threading
import time

import pytest
from tests.federation.wire import meet

from taciturn.errors import InputError
from taciturn_federation.journal import Entry
from taciturn_federation.journal import Journal, RunRow, Sent, _claimed


def test_a_journal_that_was_let_go_of_may_be_collected_on_another_thread(tmp_path):
    journal = [Journal(tmp_path / "a.journal")]
    thread = threading.Thread(target=lambda: (journal.clear(), gc.collect()))
    thread.start()
    thread.join()  # an exception in the collector fails the test, by pytest's own hook
    gc.collect()
    Journal(tmp_path / "a.journal").close()


def test_a_marker_that_could_not_be_written_is_nobodys_and_a_written_one_is_its_journals(tmp_path):
    marker = tmp_path / "run-1-0.journal"
    assert _claimed(marker, "one")
    assert _claimed(marker, "one")
    assert not _claimed(marker, "another")
    marker.write_text("")  # as an earlier version left it when the disk was full
    assert not _claimed(marker, "another")
    assert [file.name for file in tmp_path.iterdir()] == [marker.name]


EDITS = (
    "DELETE FROM sent WHERE round >= 2",
    "DELETE FROM sent WHERE round = 0",
    "DELETE FROM answer WHERE round = 1",
    "DELETE FROM run",
    "DELETE FROM said WHERE what = 'head'",
    "UPDATE sent SET message = x'00' WHERE round = 3",
    "UPDATE sent SET heard = x'00' WHERE round = 3",
    "UPDATE sent SET chain = x'00' WHERE round = 3",
    "UPDATE sent SET state = x'' WHERE round = (SELECT max(round) FROM sent)",
    "UPDATE sent SET state = x'00' WHERE round = 3",
    "UPDATE sent SET round = 17 WHERE round = 3",
    "UPDATE answer SET scale = scale * 2 WHERE round = 3",
    "UPDATE run SET phase = 'accepted'",
    "UPDATE run SET reserved = 'another'",
    "UPDATE said SET content = x'00' WHERE what = 'head'",
    "INSERT INTO said VALUES ('x', 'y', x'00')",
    "INSERT INTO answer SELECT run, 17, local, kind, scale, exponent, rate, batch FROM answer "
    "WHERE round = 3",
)


@pytest.fixture
def finished(star, tmp_path):
    """The journal of a site whose run is over."""
    hub = meet(star, tmp_path)
    hub.run()
    for party in hub.parties.values():
        party._journal.close()
    return tmp_path / "site0.journal"


def edited(file, statement):
    connection = sqlite3.connect(file)
    with connection:
        changed = connection.execute(statement).rowcount
    connection.close()
    assert changed


def test_a_journal_of_a_run_opens_as_it_was_closed(finished):
    Journal(finished).close()


def test_a_journal_of_which_a_row_is_gone_added_or_changed_is_refused(finished):
    """The chain alone was checked: rows were cut off without a word."""
    for number, statement in enumerate(EDITS):
        copy = finished.with_name(f"{number}.journal")
        shutil.copy(finished, copy)
        edited(copy, statement)
        with pytest.raises(InputError, match="was edited or is damaged: its table"):
            Journal(copy)


def test_a_journal_of_many_rounds_opens_quickly_and_cut_to_six_not_at_all(tmp_path):
    run, rounds = "ab" * 32, 300
    journal = Journal(tmp_path / "a.journal")
    journal._connection.execute("PRAGMA synchronous = OFF")
    journal.begin(RunRow(run, "{}", 0, "", "", "running", ""))
    entry = Entry(0, 0, 1.5, 0, 1.0, 0)
    for turn in range(rounds):
        journal.add(run, Sent(turn, bytes(32), bytes(1000), bytes(800), bytes(32)), [entry])
    journal.close()
    began = time.perf_counter()
    Journal(tmp_path / "a.journal").close()
    assert time.perf_counter() - began < 5.0
    edited(tmp_path / "a.journal", "DELETE FROM sent WHERE round >= 6")
    with pytest.raises(InputError, match="its table 'sent'"):
        Journal(tmp_path / "a.journal")
