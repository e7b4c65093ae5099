"""What becomes of a run whose account was copied, restored, or left between mark and head."""

import dataclasses
import shutil
from unittest import mock

import pytest
from tests.budget.test_account import PURPOSE, charge
from tests.federation.test_parties import guarded_accounts
from tests.federation.wire import KilledError, answers_seen, local_of, meet

from taciturn.budget import Account
from taciturn.budget import account as r
from taciturn.errors import AccountError, InputError
from taciturn_federation.site import charged_account


def test_a_site_whose_account_was_copied_and_charged_does_not_answer(star, tmp_path):
    accounts = guarded_accounts(star)
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    # a copy of agent 1's account, taken before, is charged by another process meanwhile
    other = tmp_path / "other"
    other.mkdir()
    for file in accounts[1].file.parent.glob("body1.account*"):
        if not file.name.endswith("-shm"):
            shutil.copy2(file, other / file.name)
    copy = Account("body1", other)
    two = copy.reserve(charge(), PURPOSE)
    two.begin()  # writes the head: only this copy may answer from here on
    two.close(released=True)
    hub.run(seconds=60)
    said = {t for who, t in answers_seen(hub, star) if who == 1}
    assert not said


def test_a_resumed_run_that_its_account_does_not_have_is_not_answered(star, tmp_path):
    """The account is restored from before the run and accepted; the run then goes on uncharged."""
    accounts = guarded_accounts(star)
    backup = tmp_path / "backup"
    shutil.copytree(accounts[1].file.parent, backup)
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    hub.run(until=lambda: hub.parties[1].progress().round >= 2)
    before = {t for who, t in answers_seen(hub, star) if who == 1}
    hub.parties[1]._run_account._reservation._held.close()
    hub.die(1)
    for file in accounts[1].file.parent.glob("body1.account*"):
        file.unlink()
    for file in backup.glob("body1.account*"):
        shutil.copy2(file, accounts[1].file.parent / file.name)
    accounts[1].accept()
    with pytest.raises(InputError, match="does not hold this run"):
        hub.join(1, hub.makers[1])
    assert {t for who, t in answers_seen(hub, star) if who == 1} == before


def test_a_site_killed_between_mark_and_head_brings_the_head_up(star, tmp_path):
    accounts = guarded_accounts(star)
    backup = tmp_path / "backup"
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    shutil.copytree(accounts[1].file.parent, backup)
    real, dead = r.advance_head, []

    def killed(connection, balance, file):
        if balance.name == "body1" and not dead:
            dead.append(1)
            raise KilledError
        return real(connection, balance, file)

    with mock.patch.object(r, "advance_head", killed):
        hub.run(until=lambda: 1 not in hub.parties)
    hub.run()
    said = {t for who, t in answers_seen(hub, star) if who == 1}
    assert len(said) == 6, said
    assert accounts[1].state().total.squares > 0
    for file in accounts[1].file.parent.glob("body1.account*"):
        file.unlink()
    for file in backup.glob("body1.account*"):
        if not file.name.endswith("-shm"):
            shutil.copy2(file, accounts[1].file.parent / file.name)
    with pytest.raises(InputError):  # the older copy is noticed
        accounts[1].state()


def test_a_site_charges_the_account_of_its_table_and_no_second_one_for_its_file(star, tmp_path):
    one, two, *_ = guarded_accounts(star)
    local = local_of(star, 0, None)
    hub = meet(star, tmp_path, seed=None, accounts=[one, None, None])
    hub.run(seconds=60)
    assert len(one.state().charged) == 1
    charged_account(one, local)  # again, for its own table
    with pytest.raises(AccountError, match=r"charged to account 'body0'.*--another-account"):
        charged_account(two, local)
    assert charged_account(dataclasses.replace(two, another_account=True), local)
    other = one.for_table(["pressure", "ill"])
    with pytest.raises(AccountError, match="other columns"):
        other.check_table()
