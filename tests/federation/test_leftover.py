"""The key of a run's masks goes, also where no process of the site saw the run's end."""

import os
import time

import pytest
from tests.federation.studies import make_study
from tests.federation.test_secure_sums import key_files
from tests.federation.wire import meet

from taciturn_federation.journal import Journal
from taciturn_federation.masks import remove_stale_keys

DAY = 86_400.0


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("left"), observer="sum")


@pytest.fixture
def killed(study, tmp_path):
    """The journal of a site that was killed while it waited for the others, and its key's file."""
    meet(study, tmp_path, seed=None, sites=[0, 1, 2]).die(0)
    journal = Journal(tmp_path / "site0.journal")
    yield journal, key_files(study)[0]
    journal.close()
    for file in key_files(study):
        file.unlink(missing_ok=True)


def test_a_key_goes_with_a_run_that_nobody_went_on_with_and_no_other(study, killed):
    journal, file = killed
    digest = study.signed.digest
    now = file.stat().st_mtime
    assert remove_stale_keys(journal, now=now + DAY - 60) == []  # the machine may have been off
    assert remove_stale_keys(journal, now=now + 10 * DAY, but=digest) == []  # it is about to go on
    assert file.exists()
    (line,) = remove_stale_keys(journal, now=now + DAY + 60)
    assert "was given up" in line
    assert not file.exists()
    assert all(other.exists() for other in key_files(study)[1:])  # they are other sites'
    assert journal.run(digest).phase == "abandoned"
    assert remove_stale_keys(journal, now=now + 20 * DAY) == []


def test_a_key_that_a_killed_process_left_after_the_end_goes_at_once(study, killed):
    journal, file = killed
    journal.set_phase(study.signed.digest, "finished")
    (line,) = remove_stale_keys(journal)
    assert line.endswith("is over; the key of its masks was removed")
    assert not file.exists()
    assert journal.run(study.signed.digest).phase == "finished"


@pytest.mark.slow
def test_a_run_that_was_given_up_is_not_gone_on_with(study, tmp_path):
    """The planted fault keeps its key and its phase: then it goes on."""
    hub = meet(study, tmp_path, seed=None)
    hub.run(until=lambda: hub.parties[0].progress().round >= 2)
    hub.die(0)
    journal = Journal(tmp_path / "site0.journal")
    before = journal.entries(study.signed.digest)
    remove_stale_keys(journal, now=time.time() + 2 * DAY)
    journal.close()
    hub.join(0, hub.makers[0])
    assert hub.parties[0].outcome.ending == "abandoned"
    hub.run(seconds=100)
    assert hub.parties[0]._journal.entries(study.signed.digest) == before
    assert {party.outcome.ending for party in hub.parties.values()} == {"abandoned"}


@pytest.mark.slow
def test_a_start_of_the_run_counts_as_going_on_with_it(study, killed, tmp_path):
    journal, file = killed
    journal.close()
    os.utime(file, (1e9, 1e9))
    hub = meet(study, tmp_path, seed=None, sites=[0])
    assert time.time() - file.stat().st_mtime < DAY
    hub.die(0)
