"""A journal as an object of Python: who may let go of it, and where."""

import gc
import threading

from tacit.federation.journal import Journal


def test_a_journal_that_was_let_go_of_may_be_collected_on_another_thread(tmp_path):
    journal = [Journal(tmp_path / "a.journal")]
    thread = threading.Thread(target=lambda: (journal.clear(), gc.collect()))
    thread.start()
    thread.join()  # an exception in the collector fails the test, by pytest's own hook
    gc.collect()
    Journal(tmp_path / "a.journal").close()
