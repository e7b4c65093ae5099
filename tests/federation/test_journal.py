"""A journal as an object of Python: who may let go of it, and where."""

import gc
import threading

from tacit.federation.journal import Journal, _claimed


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
