"""An account on the disk: reserved before records are read, kept, chained, and refused if cut."""

import copy
import dataclasses
import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from taciturn.budget import (
    Account,
    AccountTerms,
    Charge,
    Guarantee,
    Purpose,
    accounts_in,
    open_account,
    store,
)
from taciturn.budget import balance as balances
from taciturn.budget.balance import balance_of
from taciturn.budget.store import connected, entries_of, head_file, locked, place_file, read_head
from taciturn.calibration import mu_of
from taciturn.errors import AccountError, InputError
from taciturn.kernel.privacy import GaussianAnswer, LaplaceAnswer, Sampled
from taciturn.report.accounts import account_text

PURPOSE = Purpose("a test", None, "0" * 64, 0.5, 1e-5, 0.1, 10)


@pytest.fixture
def account(tmp_path):
    return open_account("one", Guarantee(1.0, 1e-5), AccountTerms(), folder=tmp_path / "accounts")


def charge(mu=0.1, **more):
    given = {"relation": "replace_one", "unit": "record", "values": 10, "least_scale": 2.0**24}
    events = (((GaussianAnswer(1 / mu), 1),),)
    return Charge(**{**given, "messages": events, **more})


def spent(account):
    return account.state().total.squares


def run_on(account, mu=0.1, count=1):
    """Let runs be charged, answered and closed."""
    for _ in range(count):
        reservation = account.reserve(charge(mu), PURPOSE)
        reservation.use(reservation.charge)
        reservation.close(released=True)


def test_a_run_that_was_closed_as_failed_elsewhere_is_not_released(account):
    """As where Ctrl-C abandons the thread that runs it, which may be about to end."""
    one = account.reserve(charge(), PURPOSE)
    one.use(one.charge)
    account.reopened(one.run).close(released=False)
    with pytest.raises(AccountError, match="'failed'"):
        one.close(released=True)
    state = account.state()
    assert [run.status for run in state.charged] == ["failed"]
    assert state.total.squares > 0


def uses(account):
    """Whatever reads an account, or charges it."""
    return account.state, lambda: account.reserve(charge(), PURPOSE)


def test_a_run_is_reserved_marked_answered_and_closed(account):
    reservation = account.reserve(charge(), PURPOSE)
    assert account.state().runs[0].status == "reserved"
    reservation.begin()
    assert account.state().runs[0].status == "opened"
    balance, state = reservation.close(released=True), account.state()
    assert state.runs[0].status == "released"
    assert state.balance == balance
    assert state.total.squares == pytest.approx(0.01)
    assert state.left.squares == pytest.approx(state.caps.squares - 0.01)


def test_a_reservation_comes_back_until_it_is_marked_and_never_after(account):
    account.reserve(charge(), PURPOSE).give_back()
    assert (spent(account), account.state().runs[0].status) == (0.0, "returned")
    kept = account.reserve(charge(), PURPOSE)
    kept.begin()
    kept.give_back()
    assert spent(account) == pytest.approx(0.01)
    failed = account.reserve(charge(), PURPOSE)
    failed.begin()
    failed.close(released=False)
    assert account.state().runs[2].status == "failed"
    assert spent(account) == pytest.approx(0.02)


def test_the_mark_is_refused_once_a_reservation_was_returned_by_another(account, monkeypatch):
    late = account.reserve(charge(), PURPOSE)
    account.reserve(charge(), PURPOSE).give_back()
    assert account.state().runs[0].status == "reserved"  # for an hour
    monkeypatch.setattr("taciturn.budget.account._PATIENCE", timedelta(seconds=-1))
    other = account.reserve(charge(), PURPOSE)
    with pytest.raises(AccountError, match="returned"):
        late.begin()
    other.begin()
    assert [run.status for run in account.state().runs] == ["returned", "returned", "opened"]


def test_a_reservation_is_good_for_one_run_with_its_events(account):
    reservation = account.reserve(charge(), PURPOSE)
    with pytest.raises(AccountError, match="another run"):
        reservation.use(charge(0.2))
    copies = [copy.copy(reservation), dataclasses.replace(reservation)]
    reservation.use(charge())
    for one in (reservation, *copies):
        with pytest.raises(AccountError, match="used already"):
            one.use(charge())
    again = account.reserve(charge(), PURPOSE)
    again.begin()
    with pytest.raises(AccountError, match="'opened'"):
        again.begin()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
# JAX warns of every fork, as an error in a callback; the child here does not use it
@pytest.mark.filterwarnings("ignore:os.fork", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fork_pays_for_no_run_with_the_reservation_of_its_parent(account):
    reservation = account.reserve(charge(), PURPOSE)
    reservation.begin()
    child = os.fork()
    if child == 0:
        used = True
        with suppress(AccountError):
            reservation.use(charge())
            used = False
        os._exit(0 if used else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    reservation.use(charge())


def test_of_two_threads_with_one_reservation_only_one_runs(account, monkeypatch):
    write, writing = store.write_head, threading.Event()

    def slow(file, last):
        writing.set()
        time.sleep(0.1)
        write(file, last)

    monkeypatch.setattr(store, "write_head", slow)
    reservation = account.reserve(charge(), PURPOSE)
    first = threading.Thread(target=reservation.use, args=(charge(),))
    first.start()
    writing.wait(10)
    with pytest.raises(AccountError, match="used already"):
        reservation.use(charge())
    first.join()


def test_a_purpose_that_no_account_could_hold_is_bad_input():
    for name, value in (*((k, math.nan) for k in ("epsilon", "delta", "mu")), ("mu", -1)):
        with pytest.raises(InputError, match=name):
            dataclasses.replace(PURPOSE, **{name: value})


def test_a_run_refused_for_its_numbers_is_told_of_rounds_and_of_no_epsilon(account):
    most = account.state().caps.values
    account.reserve(charge(0.01, values=most - 50), PURPOSE)
    with pytest.raises(AccountError, match=r"at most 5 of its 10 rounds release no more") as told:
        account.reserve(charge(0.01, values=100), PURPOSE)
    assert "largest epsilon" not in str(told.value)
    account.reserve(charge(0.01, values=50), PURPOSE)  # what it says would fit
    assert account.state().epsilon_left() == 0
    with pytest.raises(AccountError, match="no run like it fits"):
        account.reserve(charge(0.01, values=100), PURPOSE)


def test_a_run_beyond_the_account_is_refused_with_what_is_left_and_what_would_fit(account):
    account.reserve(charge(0.2), PURPOSE)
    with pytest.raises(
        AccountError,
        match=r"remaining budget is epsilon 0\.\d{4} at delta .*largest epsilon that would fit",
    ):
        account.reserve(charge(0.2), PURPOSE)
    assert spent(account) == pytest.approx(0.04)
    for other, words in (
        (charge(messages=(((LaplaceAnswer(50.0), 1),),)), "opened without a share"),
        (charge(0.01, least_scale=2.0**23), "lattice"),
        (charge(0.01, values=10**13), "numbers, of which the account admits"),
    ):
        with pytest.raises(AccountError, match=words):
            account.reserve(other, PURPOSE)
    assert spent(account) == pytest.approx(0.04)


def test_what_would_fit_of_batches_is_a_number_of_rounds(tmp_path):
    account = open_account("c", Guarantee(1.0, 1e-5, 0.5), AccountTerms(), folder=tmp_path)
    batches = charge(messages=(((Sampled(GaussianAnswer(4.0), 0.05), 900),),))
    purpose = Purpose("a test", None, "0" * 64, 5.0, 1e-5, None, 900)
    with pytest.raises(AccountError, match=r"at most (\d+) of its 900 rounds") as refused:
        account.reserve(batches, purpose)
    fits = int(str(refused.value).split("at most ")[1].split()[0])
    more = charge(messages=(((Sampled(GaussianAnswer(4.0), 0.05), fits + 1),),))
    with pytest.raises(AccountError):
        account.reserve(more, purpose)
    account.reserve(charge(messages=(((Sampled(GaussianAnswer(4.0), 0.05), fits),),)), purpose)


def test_an_account_never_holds_more_than_its_caps(account):
    """Planted fault of the filter: a check that looks at the new run alone."""
    for _ in range(7):  # floor(0.268^2 / 0.01)
        account.reserve(charge(0.1), PURPOSE)
    with pytest.raises(AccountError):
        account.reserve(charge(0.1), PURPOSE)
    state = account.state()
    assert state.total.squares <= state.caps.squares < state.total.squares + 0.01


def edit(account, statement):
    with sqlite3.connect(account.file) as connection:
        connection.execute(statement)
    connection.close()


EDITS = [
    "UPDATE entries SET body = replace(body, 'a test', 'b test') WHERE number = 2",
    "UPDATE entries SET body = replace(body, '1e-05', '1e-04') WHERE number = 1",
    "UPDATE entries SET digest = 'x' WHERE number = 4",
    # the balance of the last one, and that of the one that a head stands at
    """UPDATE entries SET body = replace(body, '"runs":3', '"runs":0') WHERE number = 10""",
    """UPDATE entries SET body = replace(body, '"runs":3', '"runs":0') WHERE number = 9""",
    "DELETE FROM entries WHERE number = 3",
    "DELETE FROM entries WHERE number >= 9",
    "DELETE FROM entries WHERE number BETWEEN 5 AND 7",
    "DELETE FROM entries",
    "UPDATE entries SET number = number + 100",
    "DROP TABLE entries",
]


@pytest.mark.parametrize("statement", EDITS)
def test_an_account_that_was_edited_or_cut_is_refused(account, statement):
    run_on(account, 0.01, count=3)
    edit(account, statement)
    for use in uses(account):
        with pytest.raises(InputError, match=r"edited|cut|damaged|empty|cannot be used|not hold"):
            use()


@pytest.mark.parametrize("whole", [True, False])
def test_an_older_copy_is_refused_until_its_owner_accepts_it_by_name(account, tmp_path, whole):
    """In place of the folder, or file by file, with its log."""
    run_on(account)
    older, folder = tmp_path / "older", account.file.parent
    shutil.copytree(folder, older)
    run_on(account)
    if whole:
        shutil.rmtree(folder)
    shutil.copytree(older, folder, dirs_exist_ok=True)
    words = r"older copy.*taciturn budget accept one" if whole else "cut or replaced"
    for use in uses(account):
        with pytest.raises(InputError, match=words):
            use()
    state = account.accept()
    assert "not those that end in number" in state.changes[0].what
    account.reserve(charge(), PURPOSE).begin()
    assert "accepted" in account.state().changes[0].what


def test_of_two_copies_that_are_reserved_at_once_only_one_is_answered(account, tmp_path):
    shutil.copytree(account.file.parent, tmp_path / "copy")
    copy = Account("one", tmp_path / "copy")
    one, other = account.reserve(charge(0.2), PURPOSE), copy.reserve(charge(0.2), PURPOSE)
    one.use(charge(0.2))
    with pytest.raises(InputError, match="a copy of account 'one' was charged"):
        other.use(charge(0.2))
    assert spent(account) == pytest.approx(0.04)
    with pytest.raises(InputError, match="cut or replaced"):
        copy.state()


def test_copies_write_their_head_one_after_the_other(account, tmp_path, monkeypatch):
    """Their locks are two: between reading the head and writing it, a copy must not write it."""
    shutil.copytree(account.file.parent, tmp_path / "copy")
    both = [
        one.reserve(charge(0.2), PURPOSE) for one in (account, Account("one", tmp_path / "copy"))
    ]
    opened, write, reading = [], store.write_head, threading.Event()

    def slow(file, last):
        reading.set()
        time.sleep(0.1)
        write(file, last)

    def use(reservation):
        with suppress(InputError):
            reservation.use(charge(0.2))
            opened.append(reservation)

    monkeypatch.setattr(store, "write_head", slow)
    threads = [threading.Thread(target=use, args=(one,)) for one in both]
    for thread in threads:
        thread.start()
        reading.wait(10)
    for thread in threads:
        thread.join()
    assert len(opened) == 1


def test_an_account_without_its_head_is_refused_until_it_is_accepted(account, state_folder):
    account.reserve(charge(), PURPOSE).begin()
    shutil.rmtree(state_folder)
    with pytest.raises(InputError, match="no head"):
        account.state()
    account.accept()
    assert spent(account) == pytest.approx(0.01)
    # nothing is written where nothing is amiss
    before = account.state()
    assert account.accept() == before


def test_a_head_that_is_cut_short_while_it_is_written_leaves_the_one_before(account):
    first, second = account.reserve(charge(), PURPOSE), account.reserve(charge(), PURPOSE)
    second.begin()
    first.begin()  # a head never goes back
    file = head_file(account.state().identity)
    content, head = file.read_bytes(), read_head(file)
    assert head.number == account.state().last.number
    for slot in (0, 160):
        torn = bytearray(content)
        torn[slot : slot + 100] = b"\0" * 100
        file.write_bytes(torn)
        assert read_head(file) in {head, None} or read_head(file).number < head.number
        account.state()
    file.write_bytes(b"")
    with pytest.raises(InputError, match="no head"):
        account.state()


def test_raising_replaces_the_guarantee_by_a_larger_one_only(account):
    account.reserve(charge(), PURPOSE)
    state = account.raise_to(Guarantee(2.0, 1e-5, 0.2))
    assert state.caps.squares > 0.1
    assert state.caps.divergence > 0
    assert state.total.squares == pytest.approx(0.01)
    assert account.state().guarantee.epsilon == 2.0
    for smaller in (Guarantee(1.0, 1e-5), Guarantee(2.0, 1e-6, 0.2), Guarantee(2.0, 1e-5, 0.9),
                    Guarantee(2.5, 1e-5), Guarantee(3.0, 1e-5, 0.2, 99)):  # fmt: skip
        with pytest.raises(AccountError):
            account.raise_to(smaller)
    assert account.raise_to(Guarantee(3.0, 1e-5, 0.2)).caps.order == state.caps.order


def test_an_account_is_opened_once_and_whole(tmp_path):
    folder = tmp_path / "new" / "accounts"
    open_account("a", Guarantee(1.0, 1e-5), AccountTerms(), folder=folder)
    with pytest.raises(AccountError, match="already"):
        open_account("a", Guarantee(9.0, 1e-5), AccountTerms(), folder=folder)
    assert [one.name for one in accounts_in(folder)] == ["a"]
    assert sorted(file.name for file in folder.iterdir()) == ["a.account"]
    assert Account("a", folder).state().guarantee.epsilon == 1.0


def test_a_name_that_is_none_is_refused_and_nothing_is_written(tmp_path):
    for name in ("", "../a", "a/b", ".a", "a b", "x" * 65, "a\n", "ä"):
        with pytest.raises(InputError, match="not a valid name of an account"):
            open_account(name, Guarantee(1.0, 1e-5), AccountTerms(), folder=tmp_path / "f")
    assert not (tmp_path / "f").exists()
    for wrong in ({"relation": "near"}, {"unit": "row"}, {"observer": "nobody"}):
        with pytest.raises(InputError):
            AccountTerms(**wrong)


def test_an_account_that_is_not_there_or_no_account_is_refused(tmp_path):
    with pytest.raises(InputError, match="taciturn budget open missing"):
        Account("missing", tmp_path).state()
    (tmp_path / "text.account").write_text("not a database" * 100)
    with pytest.raises(InputError, match="cannot be used"):
        Account("text", tmp_path).state()
    assert sorted(f.name for f in tmp_path.iterdir()) == ["text.account"]


def copied_over(account, folder):
    """Put another account of the same name, opened elsewhere, in the place of one that is used."""
    run_on(account)
    other = open_account("one", Guarantee(1.0, 1e-5), AccountTerms(), folder=folder)
    for file in account.file.parent.iterdir():
        file.unlink()
    shutil.copy(other.file, account.file)


def test_another_account_that_is_copied_over_one_of_its_name_is_refused(account, tmp_path):
    copied_over(account, tmp_path / "elsewhere")
    for use in uses(account):
        with pytest.raises(InputError, match=r"is not the account 'one'.*budget accept one"):
            use()
    state = account.accept()
    assert "in the place of another account" in state.changes[0].what
    account.reserve(charge(), PURPOSE).begin()
    assert len(account.state().charged) == 1
    # planted: without the note of what was opened there it is believed
    copied_over(account, tmp_path / "again")
    place_file(account.file).unlink()
    assert account.state().charged == ()


def test_a_file_under_another_name_is_refused(account):
    shutil.copy(account.file, account.file.with_name("two.account"))
    with pytest.raises(InputError, match="is the account 'one'"):
        Account("two", account.folder).state()


def test_a_clock_that_goes_backwards_changes_nothing(account, monkeypatch):
    account.reserve(charge(), PURPOSE).begin()

    class Earlier(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(1971, 1, 1, tzinfo=tz)

    monkeypatch.setattr(balances, "datetime", Earlier)
    account.reserve(charge(), PURPOSE).begin()
    state = account.state()
    assert state.runs[1].when < state.runs[0].when
    assert state.runs[1].number > state.runs[0].number
    assert state.total.squares == pytest.approx(0.02)


def test_two_threads_do_not_both_get_the_last_of_an_account(account):
    account.reserve(charge(0.2), PURPOSE)  # of 0.268^2 there is room for one more of 0.1
    got, refused = [], []

    def reserve():
        try:
            got.append(account.reserve(charge(0.15), PURPOSE))
        except AccountError:
            refused.append(1)

    threads = [threading.Thread(target=reserve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 3)


def test_where_the_lock_is_held_for_too_long_nothing_is_charged(account, monkeypatch):
    monkeypatch.setattr("taciturn.budget.store.PATIENCE", 0.05)
    holder = sqlite3.connect(account.file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(InputError, match="locked"):
        account.reserve(charge(), PURPOSE)
    holder.execute("ROLLBACK")
    holder.close()
    assert spent(account) == 0


def test_where_the_head_cannot_be_written_no_record_may_be_read(account, monkeypatch):
    reservation = account.reserve(charge(), PURPOSE)

    def full(file, last):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_head", full)
        with pytest.raises(InputError, match="No space left"):
            reservation.begin()
    with pytest.raises(AccountError, match="'opened'"):
        reservation.use(charge())
    assert spent(account) == pytest.approx(0.01)


_AS_ANOTHER_USER = """
import os, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from tests.budget.test_account import *
folder = Path(sys.argv[1])
if os.geteuid() == 0:  # who may write anywhere
    os.setuid(65534)
one = Account("one", folder)
for use in (
    lambda: one.reserve(charge(), PURPOSE),
    lambda: one.raise_to(Guarantee(9.0, 1e-5)),
    lambda: open_account("two", Guarantee(1.0, 1e-5), AccountTerms(), folder=folder),
):
    try:
        use()
    except InputError as error:
        print("refused" if "cannot be used" in str(error) else error)
"""


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_in_a_folder_that_cannot_be_written_to_nothing_is_charged(monkeypatch):
    # a folder of its own: those of pytest are closed to other users
    with tempfile.TemporaryDirectory() as made:
        root, folder = Path(made), Path(made) / "accounts"
        monkeypatch.setenv("TACITURN_STATE_DIR", str(root))
        account = open_account("one", Guarantee(1.0, 1e-5), AccountTerms(), folder=folder)
        before = account.state()
        for place, mode in ((root, 0o755), (folder, 0o555), (account.file, 0o444)):
            place.chmod(mode)
        paths = [os.getcwd(), *filter(None, sys.path)]
        command = [sys.executable, "-c", _AS_ANOTHER_USER, str(folder), *paths]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        folder.chmod(0o755)
        account.file.chmod(0o644)
        assert done.stdout == "refused\n" * 3, done.stderr
        assert account.state() == before


def test_an_entry_of_a_later_version_is_refused(account):
    with connected(account.file) as connection, locked(connection):
        balances.record(connection, account.state().balance, {"kind": "lent"})
    with pytest.raises(InputError, match="later version"):
        account.state()


def test_entries_hold_events_and_no_epsilon_of_the_account(account):
    account.reserve(charge(), PURPOSE)
    with sqlite3.connect(account.file) as connection:
        (body,) = connection.execute("SELECT body FROM entries WHERE number = 2").fetchone()
    connection.close()
    held = json.loads(body)["charge"]
    assert held["messages"]["lists"] == [[{"count": 1, "event": "gaussian", "multiplier": 10.0}]]
    assert "epsilon" not in held


def test_what_an_editor_of_the_file_alone_appends_is_believed_if_it_follows(account):
    """The limit that `docs/explanation/accounts.md` states: digests have no key."""
    run_on(account)
    with connected(account.file) as connection, locked(connection):
        larger = dataclasses.asdict(Guarantee(20.0, 1e-5))
        content = {"kind": "raised", "guarantee": larger}
        balances.record(connection, account.state().balance, content)
    assert account.state().guarantee.epsilon == 20.0
    assert "raised" in account.state().changes[0].what  # and it is shown


@pytest.mark.parametrize("curves", [0.0, 0.5])
@pytest.mark.parametrize("terms", [AccountTerms(), AccountTerms(observer="sum", colluders=2)])
def test_what_is_left_is_one_epsilon_that_fits_at_the_delta_of_the_account(tmp_path, curves, terms):
    account = open_account("one", Guarantee(1.0, 1e-5, curves), terms, folder=tmp_path)
    account.reserve(charge(0.1), PURPOSE)
    state = account.state()
    said = state.left_text()
    observer = "messages" if terms.observer == "messages" else "sum with 2 colluding"
    shown = math.floor(state.epsilon_left() * 1e4) / 1e4
    assert said == f"epsilon {shown:.4f} at delta 1e-05 (observer {observer})"
    assert f"Left: {said}" in account_text(state)
    assert "mu" not in said
    # a run that is planned for it fits, and one for a little more does not
    fits = mu_of(state.epsilon_left(), 1e-5)
    with pytest.raises(AccountError):
        account.reserve(charge(fits * 1.001), PURPOSE)
    account.reserve(charge(fits * 0.999), PURPOSE)


def test_an_account_is_bound_to_the_columns_of_the_first_table_that_was_read(account):
    first, second = account.for_table(["age", "ill"]), account.for_table(["age", "pay"])
    reservation = first.reserve(charge(0.01), PURPOSE)
    with pytest.raises(AccountError, match=r"other columns.*--another-table"):  # not even meanwhile
        second.reserve(charge(0.01), PURPOSE)
    reservation.give_back()
    second.reserve(charge(0.01), PURPOSE).give_back()  # the first one has read nothing
    assert account.state().tables == ()


def test_another_table_is_charged_once_its_owner_says_so(account):
    run_on(account.for_table(["age", "ill"]))
    run_on(account.for_table(["ill", "age"]))  # in another order
    other = account.for_table(["age", "ill", "pay"])
    before = account.state()
    with pytest.raises(AccountError, match=r"other columns.*--another-table"):
        run_on(other)
    with pytest.raises(AccountError, match="other columns"):
        other.check_table()
    assert account.state() == before
    run_on(dataclasses.replace(other, another_table=True))
    run_on(other)  # from then on it is one of its tables
    run_on(account)  # and runs of which no table is known are not looked at
    assert len(account.state().tables) == 2


def test_accounts_of_earlier_versions_name_no_tables(account):
    with connected(account.file) as connection:
        opened = entries_of(connection, account.name)[0]
    del opened.content["balance"]["tables"]
    assert balance_of(opened, opened).tables == ()
