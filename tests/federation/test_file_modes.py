"""What a party writes is for its owner alone to read, whatever the umask allows others."""

import os
import stat

import pytest
from tests.federation.wire import site_of

from taciturn.budget import AccountTerms, Guarantee, heads_folder, open_account, private_folder
from taciturn.report import write_folder
from taciturn_federation.reports import events_to


@pytest.fixture(autouse=True)
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def modes(*paths):
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


def test_an_account_its_log_and_its_heads_are_for_the_owner_alone(tmp_path):
    account = open_account(
        "a", Guarantee(epsilon=1.0, delta=1e-4), AccountTerms(), folder=tmp_path / "new"
    )
    with account._connected() as connection:
        connection.execute("BEGIN IMMEDIATE")  # SQLite makes its log and its index
        files = list((tmp_path / "new").iterdir())
        assert len(files) > 1
        assert modes(*files) == {0o600}
    assert modes(tmp_path / "new", heads_folder(), heads_folder().parent) == {0o700}
    assert modes(*(f for f in heads_folder().iterdir() if f.suffix == ".head")) == {0o600}


def test_a_journal_and_its_log_are_for_the_owner_alone(star, tmp_path):
    site = site_of(star, 0, tmp_path / "site")
    files = list((tmp_path / "site").iterdir())
    assert len(files) > 1
    assert modes(*files) == {0o600}
    assert modes(tmp_path / "site") == {0o700}
    site.close()


def test_logs_and_reports_are_for_the_owner_alone(tmp_path):
    with events_to(tmp_path / "site.log", quiet=True) as events:
        events("connected")
    assert modes(tmp_path / "site.log") == {0o600}
    write_folder({"results.json": "{}"}, tmp_path / "out", force=False, certificate="{}")
    assert modes(*(tmp_path / "out").iterdir()) == {0o600}
    assert modes(tmp_path / "out") == {0o700}


def test_a_folder_that_exists_keeps_its_permissions(tmp_path):
    (tmp_path / "shared").mkdir(mode=0o750)
    private_folder(tmp_path / "shared" / "a" / "b")
    assert modes(tmp_path / "shared") == {0o750}
    assert modes(tmp_path / "shared" / "a", tmp_path / "shared" / "a" / "b") == {0o700}
