"""Accounts as files: a verifier that shares no line with us accepts them, and none that changed."""

import dataclasses
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from taciturn.budget import (
    Account,
    AccountTerms,
    Charge,
    Guarantee,
    Purpose,
    accounts_in,
    open_account,
    renyi_divergence,
    store,
)
from taciturn.budget import balance as balances
from taciturn.errors import AccountError, InputError
from taciturn.kernel.privacy import (
    FixedSize,
    GaussianAnswer,
    LaplaceAnswer,
    ReplaceOne,
    Sampled,
    TargetChange,
    ZeroOut,
)
from taciturn_verify.account import verify_account
from taciturn_verify.charges import find_caps, find_divergence
from taciturn_verify.command import main
from taciturn_verify.losses import Event

PURPOSE = Purpose("training at Mercy", None, "0" * 64, 0.5, 1e-5, 0.1, 10)
STEP = {"values": 10, "least_scale": 2.0**24}
SECRETS = re.compile("Mercy|Sinai|training")


def charge(*agents, relation="replace_one", unit="record", **more):
    return Charge(relation, unit, agents, **{**STEP, **more})


def gaussian(mu, count=1):
    return ((GaussianAnswer(1 / mu), count),)


def answer(account, charge, *, released=True, answered=None):
    reservation = account.reserve(charge, PURPOSE)
    reservation.begin()
    reservation.note_files(["ab" * 32])
    reservation.close(released=released, answered=answered)


def run_many(folder):
    """Charge runs of every kind and end, on named divisions and others, and raise the guarantee."""
    account = open_account("many", Guarantee(4.0, 1e-5, 0.5), AccountTerms(), folder=folder)
    table = account.for_table(["age", "ill"])
    answer(table, charge(gaussian(0.05), gaussian(0.1), partition="Mercy, Sinai"))
    batches = ((GaussianAnswer(20), 3), (Sampled(GaussianAnswer(4), 0.01), 50))
    answer(table, charge(batches, (), partition="Mercy, Sinai"))
    answer(account, charge(((LaplaceAnswer(50), 2), (FixedSize(GaussianAnswer(9), 10, 990), 40))))
    answer(account, charge(gaussian(0.1), relation="zero_out"), released=False)
    answer(account, charge(gaussian(0.1, 4)), answered=charge(gaussian(0.1, 2), values=5))
    account.reserve(charge(gaussian(0.1)), PURPOSE).give_back()
    account.raise_to(Guarantee(5.0, 2e-5, 0.5))
    account.reserve(charge(gaussian(0.1)), PURPOSE).begin()  # its end is unknown
    answer(account, charge(gaussian(0.2)))
    table.reserve(charge(gaussian(0.1)), PURPOSE)


def run_in_batches(folder):
    """Charge an account under zero_out by batches, one that has a rate of 1 among them."""
    terms = AccountTerms(relation="zero_out")
    account = open_account("batches", Guarantee(1.0, 1e-6, 0.9, 20), terms, folder=folder)
    for event in (Sampled(LaplaceAnswer(20), 0.05), Sampled(GaussianAnswer(5), 0.02)):
        answer(account, charge(((event, 30),), relation="zero_out"))
    answer(account, charge(((Sampled(GaussianAnswer(90), 1.0), 3),), relation="zero_out"))


def run_in_sums(folder):
    """Charge an account against an observer of sums, which credits summation."""
    account = open_account("sums", Guarantee(1, 1e-5), AccountTerms(observer="sum"), folder=folder)
    agents = [gaussian(0.9), gaussian(0.8), gaussian(0.7)]
    for colluders in (1, 2):
        answer(account, charge(*agents, summed=(gaussian(0.05),) * 3, colluders=colluders))


def run_until_full(folder):
    """Charge an account of targets until nothing fits."""
    terms = AccountTerms(relation="target_change:0.5", unit="person")
    account = open_account("full", Guarantee(0.3, 1e-4), terms, folder=folder)
    relation = {"relation": "target_change:0.5", "unit": "person"}
    mu = account.state().caps.squares ** 0.5
    answer(account, charge(gaussian(mu / 2, 3), **relation))
    answer(account, charge(gaussian(mu / 2 * (1 - 1e-9)), **relation))
    with pytest.raises(AccountError, match="no room"):
        account.reserve(charge(gaussian(1e-3), **relation), PURPOSE)


def run_together(folder):
    """Have several processes charge one account at once."""
    open_account("together", Guarantee(1.0, 1e-6), AccountTerms(), folder=folder)
    words = [sys.executable, "-m", "tests.budget.crashing", str(folder), "together"]
    with ThreadPoolExecutor() as pool:
        calls = [[*words, str(folder / f"witness-{seed}"), "12", str(seed)] for seed in range(3)]
        assert not any(pool.map(subprocess.call, calls))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of accounts, whose heads lie in the folder `heads` in it."""
    folder = tmp_path_factory.mktemp("accounts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACITURN_STATE_DIR", str(folder))
        for make in (run_many, run_in_batches, run_in_sums, run_until_full, run_together):
            make(folder)
    return folder


@pytest.fixture
def copied(folder, tmp_path, monkeypatch):
    """A copy of that folder, as another machine might get it."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    monkeypatch.setenv("TACITURN_STATE_DIR", str(copy))
    return copy


NAMES = ("batches", "full", "many", "sums", "together")


@pytest.mark.parametrize("name", NAMES)
def test_an_account_of_the_library_follows(folder, name, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(folder))
    verdict = verify_account(folder / f"{name}.account")
    assert verdict.verdict == "follows", verdict
    state = next(one.state() for one in accounts_in(folder) if one.name == name)
    figures = verdict.figures
    assert figures["digest"] == state.last.digest
    assert figures["epsilon_left"] == pytest.approx(state.epsilon_left(), rel=1e-6, abs=1e-6)
    assert figures["share_of_squares_spent"] == pytest.approx(
        state.total.squares / state.caps.squares
    )
    assert 0 < figures["epsilon_spent"] <= state.guarantee.epsilon * (1 + 1e-9)


def test_every_end_of_a_run_is_counted(copied, capsys):
    assert main([str(copied / "many.account")]) == 0
    summary = capsys.readouterr().out
    assert "5 released, 1 failed, 1 opened, 1 reserved, 1 returned" in summary
    assert "epsilon 5 at delta 2e-05" in summary
    assert not SECRETS.search(summary)
    assert main([str(copied / "many.account"), "--json"]) == 0
    told = capsys.readouterr().out
    assert json.loads(told)["verdict"] == "follows"
    assert not SECRETS.search(told)


def test_what_is_spent_is_what_an_account_with_such_caps_promises(copied):
    full = verify_account(copied / "full.account").figures
    assert full["epsilon_spent"] == pytest.approx(0.3, rel=1e-8)


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee(1.0, 1e-6),
        Guarantee(0.01, 1e-9),
        Guarantee(20.0, 1e-3, 0.3),
        Guarantee(3.0, 0.4, 0.01, 900),
        Guarantee(0.1, 1e-4, 0.5, 1024),
    ],
)
def test_caps_are_those_of_the_library(guarantee):
    caps, found = balances.caps_of(guarantee), find_caps(**dataclasses.asdict(guarantee))
    assert found.order == caps.order
    for name in ("squares", "divergence", "values"):
        assert getattr(found, name) == pytest.approx(getattr(caps, name), rel=1e-9), name


@pytest.mark.parametrize("order", [2, 7, 40])
def test_no_event_is_cheaper_in_the_library(order):
    """The library's figures are bounds; but for Laplace batches and fixed ones they are exact."""
    for scale in (0.5, 3.0, 40.0):
        for rate in (0.001, 0.2, 1.0):
            for relation, two in ((ReplaceOne(), True), (ZeroOut(), False)):
                sampled = Sampled(GaussianAnswer(scale), rate)
                ours = renyi_divergence(sampled, relation, order)
                theirs = find_divergence(Event("gaussian", 1 / scale, rate, two), order)
                assert theirs <= ours <= theirs * (1 + 2e-9) + 2e-12
            ours = renyi_divergence(Sampled(LaplaceAnswer(scale), rate), ZeroOut(), order)
            theirs = find_divergence(Event("laplace", 1 / scale, rate), order)
            assert theirs <= ours <= 1.3 * theirs
        ours = renyi_divergence(FixedSize(GaussianAnswer(scale), 5, 500), ReplaceOne(), order)
        assert find_divergence(Event("fixed", 1 / scale, 0.01), order) <= ours
    plain = renyi_divergence(LaplaceAnswer(2.0), TargetChange(1.0), order)
    assert find_divergence(Event("laplace", 0.5), order) == pytest.approx(plain, rel=2e-9)


class Forged:
    """An account that somebody changes: its rows, and the head."""

    def __init__(self, folder, name="many"):
        self.file = folder / f"{name}.account"
        with closing(sqlite3.connect(self.file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.rows = connection.execute("SELECT * FROM entries").fetchall()
        self.contents = [json.loads(body) for _, body, _ in self.rows]
        self.head = folder / "heads" / f"{self.contents[0]['id']}.head"
        self.number = store.read_head(self.head).number
        self.kept = self.head.read_bytes()

    def write(self, rows):
        """Replace the entries."""
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("DELETE FROM entries")
            connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)

    def chain(self, contents):
        """Return rows with right digests, and with right balances where there are any."""
        balance, found = None, []
        for content in contents:
            held = content["balance"]
            with suppress(LookupError, InputError):
                if balance is None:
                    held = {**held, "guarantee": content["guarantee"]}
                else:
                    balance = dataclasses.replace(balance.after(content), last=found[-1])
                    held = balance.to_dict()
            last = found[-1] if found else None
            found.append(store.following(last, {**content, "balance": held}))
            if balance is None and content.get("version") == 2:
                balance = balances._opened(found[0])
        return [(entry.number, entry.body, entry.digest) for entry in found]

    def move_head(self, number):
        """Write the head of an entry that the file now holds."""
        with closing(sqlite3.connect(self.file)) as connection:
            rows = connection.execute("SELECT number, digest FROM entries").fetchall()
        self.head.write_bytes(store.head_text(store.Head(*rows[number - 1])))

    @property
    def verdict(self):
        return verify_account(self.file).verdict

    def believed(self):
        """Whether the library itself takes the file for the account."""
        try:
            Account(self.file.stem, self.file.parent).state()
        except (AccountError, InputError):
            return False
        return True


def changed(content, path, value):
    """Return an entry with another value at a path."""
    content = json.loads(json.dumps(content))
    *above, last = path
    inside = content
    for key in above:
        inside = inside[key]
    inside[last] = value(inside[last]) if callable(value) else value
    return content


def halve(costs):
    return [[number, squares / 2, divergence / 2] for number, squares, divergence in costs]


def test_bytes_of_the_file_that_change_an_entry_are_noticed(copied):
    forged, draw = Forged(copied), random.Random(1)
    whole, noticed = forged.file.read_bytes(), 0
    for _ in range(100):
        at = draw.randrange(len(whole))
        forged.file.write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]
        )
        same = False
        with suppress(sqlite3.Error), closing(sqlite3.connect(forged.file)) as connection:
            same = connection.execute("SELECT * FROM entries").fetchall() == forged.rows
        # what no entry is read from is empty space, or a counter of the database
        accepted = main([str(forged.file)]) == 0
        assert same or not accepted, at
        noticed += not accepted
        for suffix in ("-wal", "-shm"):
            forged.file.with_name(f"{forged.file.name}{suffix}").unlink(missing_ok=True)
    assert noticed > 30


def test_entries_that_are_edited_by_hand_are_refused(copied):
    forged = Forged(copied)
    rows, mutations = forged.rows, []
    for i, (number, body, digest) in [*enumerate(rows)][::2]:
        before, after = rows[:i], rows[i + 1 :]
        at = len(body) // 2
        mutations += [
            [*before, (number, f"{body[:at]} {body[at:]}", digest), *after],
            [*before, (number, body, digest[::-1]), *after],
            [*before, (number, body.replace('"run":"', '"run":"0'), digest[:-1] + "g"), *after],
            [*before, *after],
            [*before, *((n - 1, b, d) for n, b, d in after)],
        ]
        if after:
            (_, other, its), *rest = after
            mutations.append([*before, (number, other, its), (number + 1, body, digest), *rest])
        mutations.append([*rows, (len(rows) + 1, body, digest)])
    assert len(mutations) > 75
    for mutation in mutations:
        forged.write(mutation)
        # without its newest entries a chain is one: those after the head, which lower nothing
        harmless = mutation == rows[: len(mutation)] and len(mutation) >= forged.number
        assert harmless or forged.verdict == "does not follow", len(mutation)


def list_forgeries(contents):
    """Return contents that somebody wrote who has digests right, and heads, but not the rules."""
    number = {content["kind"]: i for i, content in reversed([*enumerate(contents)])}
    reserved, opened, closed = (number[kind] for kind in ("reserved", "opened", "closed"))
    early = next(i for i, c in enumerate(contents) if "instead_of" in c)
    raised, returned = number["raised"], number["returned"]

    def changing(i, *path_and_value):
        *path, value = path_and_value
        return [*contents[:i], changed(contents[i], path, value), *contents[i + 1 :]]

    def adding(i, content, at=None):
        at = i + 1 if at is None else at
        return [*contents[:at], content, *contents[at:]]

    return {
        "a share lowered": changing(reserved, "share", "costs", halve),
        "values lowered": changing(reserved, "share", "values", 1),
        "a charge raised": changing(
            reserved, "charge", "messages", "lists", 0, 0, "multiplier", 1.0
        ),
        "a charge on a coarse lattice": changing(reserved, "charge", "least_scale", 2.0),
        "a charge without a lattice": changing(reserved, "charge", "least_scale", 0.0),
        "a dealt division with a name": changing(reserved, "charge", "dealt", True),
        "another unit": changing(reserved, "charge", "unit", "agent"),
        "another relation": changing(reserved, "charge", "relation", "zero_out"),
        "another division": changing(reserved, "share", "partition", "Mercy"),
        "an agent less": changing(reserved, "share", "costs", lambda costs: costs[:1]),
        "an unknown event": changing(
            reserved, "charge", "messages", "lists", 0, 0, "event", "geometric"
        ),
        "a share of 1.0 agents": changing(reserved, "share", "costs", 0, 0, 1.0),
        "a number in quotes": changing(
            reserved, "charge", "messages", "lists", 0, 0, "multiplier", "20.0"
        ),
        "a note within a charge": changing(reserved, "charge", "messages", "note", 1),
        "a run twice": adding(closed, contents[reserved]),
        "opened twice": adding(opened, contents[opened]),
        "closed twice": adding(closed, contents[closed]),
        "returned after the mark": adding(
            opened, {**contents[returned], "run": contents[opened]["run"]}
        ),
        "returned twice": adding(returned, contents[returned]),
        "never opened": [*contents[:opened], *contents[opened + 1 :]],
        "an unknown end": changing(closed, "result", "lost"),
        "another share taken back": changing(early, "instead_of", "costs", 0, 1, 9.0),
        "a charge of nobody": changing(early, "share", "costs", halve),
        "a guarantee lowered": changing(raised, "guarantee", "epsilon", 3.9),
        "an order changed": changing(raised, "guarantee", "order", 9),
        "a guarantee so small that the caps are exceeded": [
            changed(contents[0], ("guarantee", "epsilon"), 0.05),
            *(c for c in contents[1:] if c["kind"] != "raised"),
        ],
        "opened once more": adding(reserved, contents[0]),
        "no opening": contents[1:],
        "a field more": changing(reserved, "note", 1),
        "an unknown kind": adding(closed, {**contents[closed], "kind": "forgiven"}),
        "another version": changing(0, "version", 1),
        "no time": [*contents[:-1], {k: v for k, v in contents[-1].items() if k != "when"}],
    }


@pytest.mark.unchecked  # the rules of an account, and not those of its annotations
def test_a_chain_that_breaks_a_rule_is_refused_whatever_its_digests_and_head(copied):
    forged = Forged(copied)
    forgeries = list_forgeries(forged.contents)
    assert len(forgeries) == 32
    for name, contents in forgeries.items():
        forged.head.write_bytes(forged.kept)
        forged.write(forged.chain(contents))
        assert forged.verdict == "does not follow", name
        assert not forged.believed(), name
        forged.move_head(len(contents))
        assert forged.verdict == "does not follow", name
        assert not forged.believed(), name


def test_a_balance_that_is_not_that_of_the_entries_is_refused(copied):
    forged = Forged(copied)
    for path, value in (
        (("balance", "runs"), 0),
        (("balance", "values"), 1),
        (("balance", "once"), ["0", "0"]),
        (("balance", "divided"), {}),
        (("balance", "waiting"), {}),
        (("balance", "tables"), []),
        (("balance", "guarantee", "epsilon"), 9.0),
        (("balance", "first"), None),
    ):
        rows, last = forged.rows[:-1], store.Entry(*forged.rows[-2])
        entry = store.following(last, changed(forged.contents[-1], path, value))
        forged.write([*rows, (entry.number, entry.body, entry.digest)])
        assert forged.verdict == "does not follow", path
        assert not forged.believed(), path


def test_a_chain_that_was_written_anew_with_its_head_is_not_noticed(copied):
    """What the page says no chain can show; without the head it is."""
    forged = Forged(copied)
    reserved = next(i for i, c in enumerate(forged.contents) if c["kind"] == "reserved")
    contents = [*forged.contents]
    contents[reserved] = changed(contents[reserved], ("share", "costs"), halve)
    for i in (0, 1):
        path = ("charge", "messages", "lists", i, 0, "multiplier")
        contents[reserved] = changed(contents[reserved], path, lambda z: z * 2**0.5)
    rows = forged.chain(contents)
    forged.write(rows)
    assert forged.verdict == "does not follow"
    forged.move_head(len(rows))
    assert forged.verdict == "follows"


def test_newest_entries_that_were_cut_are_noticed_by_the_head_alone(copied):
    forged = Forged(copied)
    for length in range(1, forged.number):
        forged.write(forged.rows[:length])
        assert forged.verdict == "does not follow"
        forged.move_head(length)
        assert forged.verdict in ("follows", "conditional on")  # as the page says
        forged.head.write_bytes(forged.kept)


def test_a_head_that_was_moved_back_is_never_passed_over(copied):
    forged = Forged(copied)
    assert forged.verdict == "follows"
    for number in range(1, len(forged.rows) + 1):
        forged.move_head(number)
        verdict = forged.verdict
        assert (verdict == "follows") == (number >= forged.number), number
        released_later = any(c.get("result") == "released" for c in forged.contents[number + 2 :])
        assert verdict == "does not follow" or not released_later or number >= forged.number


def test_a_head_that_is_none_of_the_entries_is_refused(copied):
    forged = Forged(copied)
    for number, digest in ((forged.number, "0" * 64), (9999, forged.rows[-1][2])):
        forged.head.write_bytes(store.head_text(store.Head(number, digest)))
        assert forged.verdict == "does not follow"
    # a slot that was cut short leaves the other one, whose head is the one before
    slots = [forged.kept[:160], forged.kept[160:]]
    newest = max((0, 1), key=lambda i: int(slots[i].split()[0]))
    slots[newest] = slots[newest].replace(b" ", b"0", 1)
    forged.head.write_bytes(b"".join(slots))
    assert forged.verdict == "does not follow"


def test_without_a_head_the_verdict_is_conditional(copied, monkeypatch, tmp_path):
    forged = Forged(copied)
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "elsewhere"))
    verdict = verify_account(forged.file)
    assert (verdict.verdict, verdict.reason) == ("conditional on", "no head is at hand")
    shutil.copy(forged.head, forged.file.with_name(forged.head.name))
    assert forged.verdict == "follows"


def test_what_an_owner_states_and_what_follows_the_head_is_a_condition(copied):
    forged = Forged(copied, "full")
    account = next(one for one in accounts_in(copied) if one.name == "full")
    account.raise_to(Guarantee(0.4, 1e-4))
    assert forged.verdict == "follows"
    forged.move_head(forged.number)
    assert forged.verdict == "conditional on"
    forged.head.unlink()
    account.accept()
    assert verify_account(forged.file).reason.startswith("entry 11, by which its owner accepted")


def test_a_charge_that_was_lowered_after_the_head_is_a_condition(copied):
    forged = Forged(copied, "full")
    account = next(one for one in accounts_in(copied) if one.name == "full")
    account.raise_to(Guarantee(0.6, 1e-4))
    relation = {"relation": "target_change:0.5", "unit": "person"}
    answer(
        account, charge(gaussian(0.01, 2), **relation), answered=charge(gaussian(0.01), **relation)
    )
    verdict = verify_account(forged.file)
    assert verdict.verdict == "conditional on"
    assert "lowered a charge" in verdict.reason


def test_another_account_under_the_name_of_one_is_refused(copied):
    for name in ("first", "second"):
        folder = copied / name
        open_account("one", Guarantee(1.0, 1e-5), AccountTerms(), folder=folder)
    file = copied / "first" / "one.account"
    assert verify_account(file).verdict == "follows"
    shutil.copy(copied / "second" / "one.account", file)
    assert verify_account(file).reason == "another account was opened under this name, or accepted"


def test_the_folder_of_one_account_stands_for_it(copied, capsys):
    open_account("one", Guarantee(1.0, 1e-5), AccountTerms(), folder=copied / "one")
    assert main([str(copied / "one")]) == 0
    assert "follows" in capsys.readouterr().out
    assert main([str(copied)]) == 2
    assert "holds 5 accounts" in capsys.readouterr().err
    assert main([str(copied / "nobody.account")]) == 2


def test_a_file_that_is_no_account_does_not_follow(copied):
    file = copied / "full.account"
    for content in (b"", b"SQLite format 3", os.urandom(4096)):
        for suffix in ("-wal", "-shm"):
            file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)
        file.write_bytes(content)
        assert verify_account(file).verdict == "does not follow"
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE entries (number, body, digest)")
    assert verify_account(file).verdict == "does not follow"
