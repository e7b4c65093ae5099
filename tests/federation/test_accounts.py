"""What a run charges, what becomes of it under faults, and the report that each party keeps."""

import dataclasses
import json
import math
import shutil
from unittest import mock

import numpy as np
import pytest
from tests.budget.test_account import PURPOSE, charge
from tests.federation.studies import make_study
from tests.federation.wire import (
    KilledError,
    check_ended,
    check_finished,
    covers,
    local_of,
    meet,
    open_accounts,
    site_of,
)

from taciturn.budget import Account
from taciturn.budget import account as account_module
from taciturn.engine import Charged, charge_of
from taciturn.engine.charging import purpose_of
from taciturn.errors import AccountError, InputError
from taciturn.training import train
from taciturn_federation import RunReport
from taciturn_federation.accounts import NOWHERE
from taciturn_federation.commands.parties import Output, write_report
from taciturn_federation.journal import Journal
from taciturn_federation.local import Local, charge_for
from taciturn_verify.account import verify_account


def answered(hub, agent):
    return {turn for sender, turn in hub.answers() if sender == agent}


def test_a_site_that_never_comes_back_ends_the_run_and_only_answers_are_charged(star, tmp_path):
    accounts = open_accounts(star)
    hub = meet(star, tmp_path, seed=None, accounts=accounts).run_to(2, 1)
    hub.kill(2)
    hub.run()
    whole = charge_for(star.signed.proposal.plan(), 0, range(6)).messages[0][0][0].multiplier
    for agent in (0, 1):
        check_ended(hub, agent, "abandoned", "charite did not answer")
        assert covers(accounts[agent], star, agent, answered(hub, agent))
        assert 0 < accounts[agent].state().total.squares < 0.9 / whole**2
    # the one that is gone is charged for the whole run
    assert covers(accounts[2], star, 2, set(range(6)))


def test_a_finished_run_is_charged_whole_and_once_also_after_a_kill(star, tmp_path):
    accounts = open_accounts(star)
    hub = meet(star, tmp_path, seed=None, accounts=accounts).run_to(2, 1)
    hub.kill(1, back=3.0)
    check_finished(hub.run(), seed=None)
    for agent, account in enumerate(accounts):
        assert [one.status for one in account.state().charged] == ["released"]
        assert covers(account, star, agent, set(range(6)))


@pytest.mark.parametrize("killed", [False, True])
def test_a_bad_cell_is_read_after_the_mark_and_only_its_owner_learns_of_it(tmp_path, killed):
    study = make_study(tmp_path)
    study.spoil_cell(1)
    accounts = open_accounts(study)
    hub = meet(study, tmp_path, seed=None, accounts=accounts)
    if killed:  # between the mark and the first cell
        with mock.patch.object(Local, "records", side_effect=KilledError):
            hub.run(until=lambda: 1 not in hub.parties)
        assert [one.status for one in accounts[1].state().charged] == ["opened"]
    hub.run()
    check_ended(hub, 1, "refused", "x1")
    assert covers(accounts[1], study, 1, range(6))
    reason = "this site refused earlier" if killed else "a local error of this site"
    check_ended(hub, "coordinator", "abandoned", f"sinai refused: {reason}")
    lines = [line for name in ("coordinator", 0, 2) for line in hub.lines[name]]
    assert lines
    assert not any("x1" in line or "spoilt" in line for line in lines)
    assert not answered(hub, 1)


@pytest.mark.slow
def test_the_model_of_an_abandoned_run_is_released_only_if_the_proposal_said_so(tmp_path):
    study = make_study(tmp_path, release=True)
    hub = meet(study, tmp_path).run_to(2, 1)
    hub.kill(2)
    hub.run()
    models = [hub.outcome(name).model for name in ("coordinator", 0, 1)]
    assert hub.outcome(0).ending == "abandoned"
    assert models[0] is not None
    for model in models:
        np.testing.assert_array_equal(model, models[0])


def test_an_account_of_a_run_that_ended_before_its_first_answer_is_read_and_verified(star):
    account, plan = open_accounts(star)[0], star.signed.proposal.plan()
    reservation = account.reserve(charge_for(plan, 0, range(6)), purpose_of(plan, "ended early"))
    reservation.begin()
    reservation.close(released=False, answered=charge_for(plan, 0, []))
    assert account.state().total.squares == 0
    assert (
        verify_account(account.file).verdict == "conditional on"
    )  # a charge lowered after the head


def test_more_privacy_loss_than_the_account_has_is_no_acceptance(star, tmp_path):
    account, plan = open_accounts(star, guarantee=(2.0, 1e-2))[0], star.signed.proposal.plan()

    def spend():
        for _ in range(200):
            reservation = account.reserve(charge_for(plan, 0, range(6)), purpose_of(plan, "other"))
            reservation.begin()
            reservation.close(released=True)

    with pytest.raises(InputError, match="epsilon"):
        spend()
    with pytest.raises(InputError, match="epsilon"):
        site_of(star, 0, tmp_path, seed=None, account=account)
    assert Journal(tmp_path / "site0.journal").run(star.signed.digest) is None


# accounts that were copied, restored, or left between mark and head


def copy_account(source, target):
    for file in source.glob("body1.account*"):
        if not file.name.endswith("-shm"):
            shutil.copy2(file, target / file.name)


def restore(account, backup):
    for file in account.file.parent.glob("body1.account*"):
        file.unlink()
    copy_account(backup, account.file.parent)


def test_a_site_whose_account_was_copied_and_charged_does_not_answer(star, tmp_path):
    accounts = open_accounts(star)
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    # a copy of agent 1's account, taken before, is charged by another process meanwhile
    other = tmp_path / "other"
    other.mkdir()
    copy_account(accounts[1].file.parent, other)
    two = Account("body1", other).reserve(charge(), PURPOSE)
    two.begin()  # writes the head: only this copy may answer from here on
    two.close(released=True)
    hub.run(seconds=20)
    assert not answered(hub, 1)


def test_a_resumed_run_that_its_account_does_not_have_is_not_answered(star, tmp_path):
    """The account is restored from before the run and accepted; the run would go on uncharged."""
    accounts, backup = open_accounts(star), tmp_path / "backup"
    backup.mkdir()
    copy_account(accounts[1].file.parent, backup)
    hub = meet(star, tmp_path, seed=None, accounts=accounts).run_to(2, 1)
    before = answered(hub, 1)
    hub.parties[1]._reservation._held.close()
    hub.kill(1)
    restore(accounts[1], backup)
    accounts[1].accept()
    with pytest.raises(InputError, match="does not hold this run"):
        hub.join(1)
    assert answered(hub, 1) == before


def test_a_site_killed_between_mark_and_head_brings_the_head_up(star, tmp_path):
    accounts, backup = open_accounts(star), tmp_path / "backup"
    backup.mkdir()
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    copy_account(accounts[1].file.parent, backup)
    real, dead = account_module.advance_head, []

    def killed(connection, balance, file):
        if balance.name == "body1" and not dead:
            dead.append(1)
            raise KilledError
        return real(connection, balance, file)

    with mock.patch.object(account_module, "advance_head", killed):
        hub.run(until=lambda: 1 not in hub.parties)
    hub.run()
    assert len(answered(hub, 1)) == 6
    assert accounts[1].state().total.squares > 0
    restore(accounts[1], backup)
    with pytest.raises(InputError):  # the older copy is noticed
        accounts[1].state()


def test_a_report_names_its_run_on_a_shared_account_which_no_second_one_replaces(star, tmp_path):
    accounts, plan = open_accounts(star), star.signed.proposal.plan()

    def charged_beside():
        """Another run on the same account, reserved and released now."""
        reservation = accounts[0].reserve(charge_for(plan, 0, range(1)), purpose_of(plan, "other"))
        reservation.begin()
        reservation.close(released=True)
        return reservation.run

    before = charged_beside()
    hub = meet(star, tmp_path, seed=None, accounts=accounts).run_to(3)
    between = charged_beside()
    hub.run()
    after, site = charged_beside(), hub.parties[0]
    assert site.outcome.ending == "finished"
    run, (first, last) = site.charged_as, accounts[0].around(site.charged_as)
    assert [one.run for one in accounts[0].state().runs] == [before, run, between, after]
    assert (first.sums.runs, last.sums.runs) == (1, 3)
    hub.restart(0)  # the same command again, once the run is over
    assert hub.parties[0].charged_as == run
    assert accounts[0].around(run)[1].sums.runs == 3
    with pytest.raises(InputError, match="has no run 'other'"):
        accounts[0].around("other")
    assert Charged("body0", run, first, last).run == run
    # the account of its table, and no second one for its file
    local = local_of(star, 0, None)
    local.checked_account(accounts[0])
    with pytest.raises(AccountError, match=r"charged to account 'body0'.*--another-account"):
        local.checked_account(accounts[1])
    assert local.checked_account(dataclasses.replace(accounts[1], another_account=True))
    other = accounts[0].for_table(["pressure", "ill"])
    with pytest.raises(AccountError, match="other columns"):
        other.check_table()


# persons: no site sees at how many sites one is, so certificates state what is assumed


@pytest.fixture(scope="module")
def at_two(tmp_path_factory):
    """Three owners; a person has up to two rows at each of up to two of them."""
    folder = tmp_path_factory.mktemp("at-two")
    return make_study(folder, rows_per_person=2, agents_per_person=2)


def mu_of(charge):
    (((event, _),),) = charge.messages
    return 1 / event.multiplier


def test_a_certificate_states_at_how_many_sites_a_person_is_taken_to_be(at_two, tmp_path, star):
    two = local_of(at_two, 0, None).certificate
    assert any("no more than 2 of the sites" in line for line in two.conditions)
    assert "at each of up to 2 agents" in two.record
    mus = np.sort(at_two.signed.proposal.plan().certificate.per_agent_mu)
    assert two.mu == pytest.approx(math.hypot(mus[-1], mus[-2]), rel=1e-6)
    one = local_of(make_study(tmp_path, rows_per_person=2), 0, None).certificate
    assert any("no more than one of the sites" in line for line in one.conditions)
    assert "of the sites" not in " ".join(local_of(star, 0, None).certificate.conditions)


def test_an_account_is_charged_what_all_sites_of_a_person_reveal_together(at_two):
    plan = at_two.signed.proposal.plan()
    mus = plan.certificate.per_agent_mu
    for agent in range(3):
        charge = local_of(at_two, agent, None).charge
        together = math.hypot(mus[agent], max(mus[:agent] + mus[agent + 1 :]))
        assert mu_of(charge) >= together * (1 - 1e-9)
        assert mus[agent] < together * 0.9  # that of the site's answers alone is too little
        assert charge.messages == charge_of(plan).messages[agent : agent + 1]
        # in which rounds others answered is not known: an abandoned run stays charged whole
        assert charge_for(plan, agent, [0]) == charge


@pytest.mark.slow
@pytest.mark.parametrize("lost", [False, True])
def test_a_run_with_persons_at_two_sites_is_charged_as_it_was_derived(at_two, tmp_path, lost):
    """Also one that others end."""
    accounts = open_accounts(at_two, guarantee=(4.0, 1e-2), unit="person")
    hub = meet(at_two, tmp_path, seed=None, accounts=accounts).run_to(2, 1)
    if lost:
        hub.kill(2)
    hub.run()
    assert hub.outcome(0).ending == ("abandoned" if lost else "finished")
    for agent, account in enumerate(accounts[:2]):
        (run,) = account.state().charged
        expected = local_of(at_two, agent, None).charge
        assert dataclasses.asdict(run.charge) == dataclasses.asdict(expected)


@pytest.mark.slow
def test_persons_at_two_sites_are_trained_on_as_on_one_machine(at_two, tmp_path):
    hub = meet(at_two, tmp_path).run()
    check_finished(hub)
    model = train(at_two.data, at_two.signed.proposal, reference=False, seed=7).model
    np.testing.assert_allclose(hub.outcome(0).model, model, rtol=0, atol=1e-10)


# reports

OUTPUT = Output(None, force=False, quiet=True, log=None, json=True)


@pytest.fixture
def report(finished):
    hub, _ = finished
    site = hub.parties[0]
    return RunReport(signed=hub.study.signed, plan=site._local.plan, outcome=site.outcome,
                     score=None, seconds=1.0, agent=0)  # fmt: skip


def test_without_a_folder_named_the_model_is_kept_beside_the_journal(report, tmp_path, capsys):
    default = tmp_path / "reports" / "run"
    OUTPUT.check(default)
    for _ in range(2):  # the same command again adds no certificate
        write_report(report, OUTPUT, default)
        assert json.loads(capsys.readouterr().out)["out"] == str(default)
        assert (default / "model.json").exists()
        assert [file.name for file in default.glob("certificate-*")] == ["certificate-1.json"]
        OUTPUT.check(default)


def test_the_certificate_of_a_site_without_an_account_states_that_it_is_charged_nowhere(
    report, tmp_path
):
    for agent, stated in ((0, True), (None, False)):  # the coordinator has no records
        one = dataclasses.replace(report, agent=agent)
        certificate = json.loads(one.save(tmp_path / str(agent), force=False).read_text())
        assert (NOWHERE in certificate["conditions"]) == stated
        assert ("charged nowhere" in (tmp_path / str(agent) / "report.html").read_text()) == stated


def test_a_run_without_a_model_leaves_no_report_there(report, tmp_path):
    default = tmp_path / "reports" / "run"
    without = report.outcome._replace(ending="abandoned", model=None, certificate=None)
    with pytest.raises(InputError, match="abandoned"):
        write_report(dataclasses.replace(report, outcome=without), OUTPUT, default)
    assert not default.exists()
