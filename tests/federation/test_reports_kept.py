"""Every party keeps its model, and a report names the run that it is about."""

import json

import pytest
from tests.federation.test_parties import guarded_accounts
from tests.federation.wire import meet

from taciturn.engine import Charged
from taciturn.engine.charging import purpose_of
from taciturn.errors import InputError
from taciturn_federation import RunReport
from taciturn_federation.commands.running import Shows, _report
from taciturn_federation.local import charge_for

SHOWS = Shows(None, force=False, quiet=True, log=None, json=True)


def charged_beside(account, plan):
    """Another run on the same account, reserved and released now."""
    reservation = account.reserve(charge_for(plan, 0, range(1)), purpose_of(plan, "another"))
    reservation.begin()
    reservation.close(released=True)
    return reservation.run


def test_on_a_shared_account_a_report_names_its_own_run(star, tmp_path):
    """It named the last run of the account, whoever's that was."""
    accounts = guarded_accounts(star)
    plan = star.signed.proposal.plan()
    before = charged_beside(accounts[0], plan)
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round == 3)
    between = charged_beside(accounts[0], plan)
    hub.run()
    after = charged_beside(accounts[0], plan)
    site = hub.parties[0]
    assert site.outcome.ending == "finished"
    own, (first, last) = site.charged_as, accounts[0].around(site.charged_as)
    runs = [run.run for run in accounts[0].state().runs]
    assert runs == [before, own, between, after]
    assert (first.sums.runs, last.sums.runs) == (1, 3)
    hub.die(0)
    hub.join(0, hub.makers[0])  # the same command again, once the run is over
    assert hub.parties[0].charged_as == own
    assert accounts[0].around(own)[1].sums.runs == 3
    with pytest.raises(InputError, match="has no run 'other'"):
        accounts[0].around("other")
    assert Charged("body0", own, first, last).run == own


@pytest.fixture
def ended(star, tmp_path):
    hub = meet(star, tmp_path)
    hub.run()
    site = hub.parties[0]
    return RunReport(signed=star.signed, plan=site._local.plan, outcome=site.outcome, score=None,
                 seconds=1.0, agent=0)  # fmt: skip


def test_without_a_folder_named_the_model_is_kept_beside_the_journal(ended, tmp_path, capsys):
    """It was in no file: the budget was spent, and the model gone with the process."""
    kept = tmp_path / "reports" / "run"
    SHOWS.check(kept)
    for _ in range(2):  # the same command again adds no certificate
        _report(ended, SHOWS, kept)
        assert json.loads(capsys.readouterr().out)["out"] == str(kept)
        assert (kept / "model.json").exists()
        assert [file.name for file in kept.glob("certificate-*")] == ["certificate-1.json"]
        SHOWS.check(kept)


def test_a_run_without_a_model_leaves_no_report_there(ended, tmp_path):
    kept = tmp_path / "reports" / "run"
    without = ended.outcome._replace(ending="abandoned", model=None, certificate=None)
    with pytest.raises(InputError, match="abandoned"):
        _report(RunReport(**{**vars(ended), "outcome": without}), SHOWS, kept)
    assert not kept.exists()
