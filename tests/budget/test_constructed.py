"""Edits, crashes and restores made on purpose: an account makes no room by any of them."""

import json
import os
import shutil
import sqlite3
from datetime import timedelta

import pytest
from tests.budget.test_account import PURPOSE, charge, state_folder
from tests.budget.test_balance import charged

from taciturn.budget import AccountTerms, Guarantee, open_account, store
from taciturn.errors import InputError

__all__ = ["state_folder"]


@pytest.fixture
def account(tmp_path):
    return open_account("one", Guarantee(1.0, 1e-5), AccountTerms(), folder=tmp_path / "a")


def rows(account):
    with sqlite3.connect(account.file) as c:
        found = c.execute("SELECT number, body, digest FROM entries ORDER BY number").fetchall()
    c.close()
    return found


def appended(account, content):
    """Append an entry, digest right; the head is not touched."""
    number, body, digest = rows(account)[-1]
    content = {"balance": json.loads(body)["balance"], "when": "x", **content}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    with sqlite3.connect(account.file) as c:
        c.execute(
            "INSERT INTO entries VALUES (?,?,?)",
            (number + 1, text, store._digest(digest, number + 1, text)),
        )
    c.close()


def test_a_reopened_run_whose_head_is_behind_leaves_no_room_for_an_older_copy(account, tmp_path):
    """Crash between mark and head; the site resumes (reopened), answers, ends; backup restored."""
    from taciturn.budget import account as r

    shutil.copytree(account.file.parent, tmp_path / "backup")
    one = account.reserve(charge(), PURPOSE)
    real = r.advance_head
    try:
        r.advance_head = lambda *a: (_ for _ in ()).throw(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            one.begin()
    finally:
        r.advance_head = real
    one._held.close()  # the process is gone
    again = account.reopened(one.run)
    # ... answers here, as a site does after resume() ...
    again.close(released=True)
    assert account.state().total.squares > 0
    for file in account.file.parent.iterdir():
        file.unlink()
    for file in (tmp_path / "backup").iterdir():
        shutil.copy2(file, account.file.parent / file.name)
    with pytest.raises(InputError):
        account.state()


@pytest.mark.parametrize("what", ["eats the mark", "eats all from the mark on"])
def test_a_trigger_in_the_file_eats_no_mark(account, what, monkeypatch):
    charged(account, runs=1)
    with sqlite3.connect(account.file) as c:
        c.execute("""CREATE TRIGGER t AFTER INSERT ON entries
            WHEN NEW.body LIKE '%"kind":"opened"%'
            BEGIN DELETE FROM entries WHERE number = NEW.number; END""")
    c.close()
    try:
        before = account_total(account)
    except InputError:
        return  # refused
    answered = False
    try:
        one = account.reserve(charge(), PURPOSE)
        one.use(one.charge)
        answered = True
        one.close(released=True)
    except InputError:
        pass
    # an hour later the next run returns what was never marked
    monkeypatch.setattr("taciturn.budget.account._PATIENCE", timedelta(seconds=-1))
    account.reserve(charge(), PURPOSE).give_back()
    assert not answered or account_total(account) > before


def account_total(account):
    return account.state().total.squares


def test_an_end_that_is_appended_gives_nothing_back(account):
    """Somebody who writes the account file alone, and no head."""
    charged(account, runs=3, mu=0.1)
    before = account_total(account)
    held = [json.loads(body) for _, body, _ in rows(account)]
    for content in [h for h in held if h["kind"] == "reserved"]:
        _, body, _ = rows(account)[-1]
        last = json.loads(body)["balance"]
        empty = content["charge"] | {"messages": {"lists": [[]], "agents": [[0, 1]]}, "values": 0}
        share = {"costs": [[1, 0.0, 0.0]], "values": 0, "partition": None}
        from fractions import Fraction

        once = [str(Fraction(last["once"][0]) - Fraction(content["share"]["costs"][0][1])), "0"]
        appended(
            account,
            {
                "kind": "closed",
                "run": content["run"],
                "result": "released",
                "charge": empty,
                "share": share,
                "instead_of": content["share"],
                "balance": last
                | {"once": once, "values": last["values"] - content["share"]["values"]},
            },
        )
    try:
        one = account.reserve(charge(), PURPOSE)
        one.begin()
        one.close(released=True)
        after = account_total(account)
    except InputError:
        return
    assert after >= before


def test_a_forged_entry_between_reservation_and_mark_is_not_believed(account):
    """Account file and its log alone are written; time of the log set back, size as it was."""
    charged(account, runs=3, mu=0.1)
    wal = account.file.with_name(account.file.name + "-wal")
    with wal.open("ab") as f:  # a longer log: what follows its last frame is not read
        f.write(b"\0" * 4_000_000)
    before = account_total(account)
    charged(account, runs=1, mu=0.1)  # verifies everything
    assert wal.stat().st_size > 3_000_000
    before = account_total(account)
    one = account.reserve(charge(), PURPOSE)
    was = wal.stat()
    ctime = account.file.stat()
    _, body, _ = rows(account)[-1]
    last = json.loads(body)["balance"]
    appended(
        account,
        {"kind": "accepted", "why": "x", "balance": last | {"once": ["0", "0"], "values": 0}},
    )
    assert wal.stat().st_size == was.st_size
    os.utime(wal, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert account.file.stat().st_ctime_ns == ctime.st_ctime_ns
    try:
        one.begin()
        one.close(released=True)
        two = account.reserve(charge(), PURPOSE)
    except InputError:
        return
    assert two.before.total.squares >= before
