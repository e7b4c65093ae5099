"""The balance that every entry holds: exact, in the chain, and all that a charge is decided on."""

import dataclasses
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from fractions import Fraction

import pytest
from tests.budget.test_account import EDITS, PURPOSE, charge, edit, run_on, spent
from tests.budget.test_crashes import environment

from taciturn.budget import AccountTerms, Charge, Guarantee, open_account, store
from taciturn.budget import balance as balances
from taciturn.budget.charge import Sums, share_of
from taciturn.budget.store import connected, digest_of
from taciturn.errors import AccountError, InputError
from taciturn.kernel.privacy import GaussianAnswer, LaplaceAnswer, Sampled


@pytest.fixture
def account(tmp_path):
    return open_account("one", Guarantee(8.0, 1e-5, 0.3), AccountTerms(), folder=tmp_path / "a")


def replayed(account):
    """Add up what stands from the file alone: by SQL, JSON and fractions, without taciturn."""
    with sqlite3.connect(account.file) as connection:
        rows = connection.execute("SELECT body FROM entries ORDER BY number").fetchall()
    connection.close()
    costs, values = {}, {}
    for (body,) in rows:
        content = json.loads(body)
        run = content.get("run")
        if "charge" in content:
            held = content["charge"]
            costs[run] = [
                sum(
                    count["count"] / Fraction(count["multiplier"]) ** 2
                    for count in held["messages"]["lists"][kind]
                    if count["event"] == "gaussian"
                )
                for kind, length in held["messages"]["agents"]
                for _ in range(length)
            ]
            costs[run], values[run] = (held["partition"], costs[run]), held["values"]
        if content["kind"] == "returned":
            del costs[run], values[run]
    once = sum((max(c) for name, c in costs.values() if name is None), Fraction(0))
    for division in {name for name, _ in costs.values() if name is not None}:
        agents = zip(*(c for name, c in costs.values() if name == division), strict=True)
        once += max(map(sum, agents))
    return once, sum(values.values()), len(costs)


def some_charge(draw):
    """Return a charge of a random kind: on one, two or no divisions, of two agents or one."""
    mus = [draw.uniform(1e-4, 3e-2) for _ in range(2)]
    events = [((GaussianAnswer(1 / mu), draw.randint(1, 5)),) for mu in mus]
    kind = draw.randrange(4)
    if kind == 3:
        events[1] = ((LaplaceAnswer(draw.uniform(500, 5000)), 1),)
    return charge(
        messages=tuple(events), values=draw.randint(0, 99), partition=(None, "a", "b", None)[kind]
    )


def lived(account, entries, *, seed):
    """Let an account live: charges, returns, early ends and failures, interleaved, by seed."""
    draw, waiting = random.Random(seed), []
    for _ in range(entries):
        waiting.append(account.reserve(some_charge(draw), PURPOSE))
        while waiting and draw.random() < 0.6:
            one = waiting.pop(draw.randrange(len(waiting)))
            if draw.random() < 0.3:
                one.give_back()
                continue
            one.begin()
            fewer = tuple(events[:1] for events in one.charge.messages)
            ended = dataclasses.replace(one.charge, messages=fewer, values=0)
            one.close(released=True, answered=ended if draw.random() < 0.3 else None)


@pytest.mark.parametrize("entries", [15, pytest.param(400, marks=pytest.mark.slow)])
def test_running_sums_are_those_of_an_independent_replay(account, entries):
    lived(account, entries, seed=entries)
    state = account.state()
    exact, values, runs = replayed(account)
    assert exact <= Fraction(state.total.squares) <= exact * (1 + Fraction(1, 10**11))
    assert (state.total.values, state.sums.runs) == (values, runs)
    assert len(state.charged) == runs
    assert any(run.status == "returned" for run in state.runs)


def test_what_was_added_comes_out_again_whole():
    """Planted fault: sums of doubles, which keep a residue of what was returned."""
    terms, draw = AccountTerms(), random.Random(3)
    shares = [share_of(terms, 9, some_charge(draw)) for _ in range(40)]
    sums = Sums()
    for share in shares:
        sums = sums.plus(share)
    assert Sums.from_dict(json.loads(json.dumps(sums.to_dict()))) == sums
    for share in draw.sample(shares, len(shares)):
        sums = sums.minus(share)
    assert sums.total.squares == sums.total.divergence == sums.total.values == sums.runs == 0
    floats = [cost.squares for share in shares for cost in share.costs]
    drifting = sum(floats)
    for one in draw.sample(floats, len(floats)):
        drifting -= one
    assert drifting != 0


def test_a_process_adds_up_each_entry_once_and_sees_an_early_one_that_was_edited(
    account, monkeypatch
):
    run_on(account, 0.01, count=5)
    after, numbers = balances._run_after, []

    def counted(run, entry):
        numbers.append(entry.number)
        return after(run, entry)

    monkeypatch.setattr(balances, "_run_after", counted)
    run_on(account, 0.01, count=2)
    assert numbers
    assert len(numbers) == len(set(numbers)) < 8
    edit(account, EDITS[0])
    with pytest.raises(InputError, match="edited"):
        account.reserve(charge(), PURPOSE)


def test_threads_that_read_accounts_at_once_do_not_stop_one_another(monkeypatch):
    monkeypatch.setattr(balances, "_KNOWN", {})
    given = {"kind": "account", "id": "1", "salt": "", "terms": {**vars(AccountTerms())}}
    given["guarantee"] = dataclasses.asdict(Guarantee(1.0, 1e-6))
    opened = [balances.opening_content({**given, "name": str(k)}) for k in range(100)]
    first = [store.following(None, content) for content in opened]
    finished, interval = [], sys.getswitchinterval()

    def read():
        for one in first * 12:
            balances.read_state(one.content["name"], [one])
        finished.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    try:
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(finished) == 4


def test_nothing_after_the_head_makes_room_though_its_digest_is_right(account):
    """Entries behind the head rest on the chain alone: an edit may write their digests anew."""
    run_on(account, 0.01, count=3)
    last = account.state().last
    content = json.loads(last.body)
    content["balance"]["once"] = ["0", "0"]
    for number, body in ((last.number, content), (last.number + 1, content | {"why": "so"})):
        kind = {"kind": "accepted"} if number > last.number else {}
        text = json.dumps(body | kind, sort_keys=True, separators=(",", ":"))
        with connected(account.file) as connection:
            before = digest_of(connection, number - 1)
            connection.execute(
                "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)",
                (number, text, store._digest(before, number, text)),
            )
        with pytest.raises(InputError, match="is not that of its entries"):
            account.reserve(charge(), PURPOSE)


def test_a_run_of_infinite_cost_is_refused_and_nothing_is_charged(tmp_path):
    account = open_account("z", Guarantee(8.0, 1e-5, 0.5), AccountTerms("zero_out"),
                           folder=tmp_path)  # fmt: skip
    endless = Charge("zero_out", "record", (((Sampled(GaussianAnswer(0.05), 0.1), 1),),),
                     least_scale=2.0**24)  # fmt: skip
    with pytest.raises(AccountError, match="no room"):
        account.reserve(endless, PURPOSE)
    assert account.state().sums == Sums()


def appended(account, change):
    """Append an entry, digest right, made of the last balance; the head is not touched."""
    with connected(account.file) as connection:
        last = connection.execute("SELECT * FROM entries ORDER BY number DESC").fetchone()
        balance = json.loads(last[1])["balance"]
        content = {"balance": balance, "when": "x", **change(balance)}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        row = (last[0] + 1, text, store._digest(last[2], last[0] + 1, text))
        connection.execute("INSERT INTO entries VALUES (?, ?, ?)", row)


def test_a_reopened_run_whose_head_is_behind_leaves_no_room_for_an_older_copy(
    account, tmp_path, monkeypatch
):
    """Crash between mark and head; the site resumes (reopened), answers, ends; backup restored."""
    shutil.copytree(account.file.parent, tmp_path / "backup")
    one = account.reserve(charge(), PURPOSE)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("taciturn.budget.account.advance_head", killed)
        with pytest.raises(KeyboardInterrupt):
            one.begin()
    one._held.close()  # the process is gone
    account.reopened(one.run).close(released=True)  # it answers here, as a site after resume()
    assert spent(account) > 0
    shutil.rmtree(account.file.parent)
    shutil.copytree(tmp_path / "backup", account.file.parent)
    with pytest.raises(InputError):
        account.state()


def test_a_trigger_in_the_file_eats_no_mark(account, monkeypatch):
    run_on(account, 0.01)
    edit(
        account,
        """CREATE TRIGGER t AFTER INSERT ON entries WHEN NEW.body LIKE
        '%"kind":"opened"%' BEGIN DELETE FROM entries WHERE number = NEW.number; END""",
    )
    before, answered = None, False
    with suppress(InputError):
        before = spent(account)
        run_on(account)
        answered = True
    if before is not None:
        # an hour later the next run returns what was never marked
        monkeypatch.setattr("taciturn.budget.account._PATIENCE", timedelta(seconds=-1))
        account.reserve(charge(), PURPOSE).give_back()
        assert not answered or spent(account) > before


def test_an_end_that_is_appended_gives_nothing_back(account):
    """Somebody who writes the account file alone, and no head."""
    run_on(account, count=3)
    before = spent(account)
    with connected(account.file) as connection:
        rows = connection.execute("SELECT body FROM entries ORDER BY number").fetchall()
    held = [json.loads(body) for (body,) in rows]
    for content in [h for h in held if h["kind"] == "reserved"]:
        share, nothing = content["share"], {"costs": [[1, 0.0, 0.0]], "values": 0}
        empty = content["charge"] | {"messages": {"lists": [[]], "agents": [[0, 1]]}, "values": 0}

        def ended(last, content=content, share=share, nothing=nothing, empty=empty):
            once = str(Fraction(last["once"][0]) - Fraction(share["costs"][0][1]))
            less = {"once": [once, "0"], "values": last["values"] - share["values"]}
            return {
                "kind": "closed", "run": content["run"], "result": "released", "charge": empty,
                "share": nothing | {"partition": None}, "instead_of": share, "balance": last | less,
            }  # fmt: skip

        appended(account, ended)
    with suppress(InputError):
        run_on(account)
        assert spent(account) >= before


def test_a_forged_entry_between_reservation_and_mark_is_not_believed(account):
    """Account file and its log alone are written; time of the log set back, size as it was."""
    run_on(account, count=3)
    wal = account.file.with_name(account.file.name + "-wal")
    with wal.open("ab") as file:  # a longer log: what follows its last frame is not read
        file.write(b"\0" * 4_000_000)
    run_on(account)  # verifies everything
    assert wal.stat().st_size > 3_000_000
    before, one = spent(account), account.reserve(charge(), PURPOSE)
    was, changed = wal.stat(), account.file.stat().st_ctime_ns
    less = {"once": ["0", "0"], "values": 0}
    appended(account, lambda last: {"kind": "accepted", "why": "x", "balance": last | less})
    assert wal.stat().st_size == was.st_size
    os.utime(wal, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert account.file.stat().st_ctime_ns == changed
    with suppress(InputError):
        one.begin()
        one.close(released=True)
        assert account.reserve(charge(), PURPOSE).before.total.squares >= before


_TWO = """
import sys
from pathlib import Path
from tests.budget.test_account import *
run_on(Account("one", Path(sys.argv[1])), 0.01, count=int(sys.argv[2]))
"""


@pytest.mark.slow
def test_two_processes_at_once_keep_one_balance(account):
    command = [sys.executable, "-c", _TWO, str(account.file.parent), "40"]
    state = os.environ["TACITURN_STATE_DIR"]
    pair = [subprocess.Popen(command, env=environment(state)) for _ in range(2)]
    assert [one.wait(120) for one in pair] == [0, 0]
    exact, _, runs = replayed(account)
    found = account.state()
    assert runs == found.sums.runs == 80
    assert exact <= Fraction(found.total.squares) <= exact * (1 + Fraction(1, 10**11))
    run_on(account, 0.01, count=1)
