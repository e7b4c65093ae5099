"""Persons in a study: nobody sees at how many sites one is, so certificates say what is taken."""

import dataclasses
import math

import numpy as np
import pytest
from tests.federation.studies import make_study
from tests.federation.test_parties import all_finished
from tests.federation.wire import local_of, meet

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.engine import charge_of
from taciturn.training import train
from taciturn_federation.local import charge_for


@pytest.fixture(scope="module")
def at_two(tmp_path_factory):
    """Three owners; a person has up to two rows at each of up to two of them."""
    folder = tmp_path_factory.mktemp("at-two")
    return make_study(folder, rows_per_person=2, agents_per_person=2)


def mu_of(charge):
    (((event, _),),) = charge.messages
    return 1 / event.multiplier


def test_a_certificate_says_at_how_many_sites_a_person_is_taken_to_be(at_two, tmp_path):
    two = local_of(at_two, 0, None).certificate
    assert any("no more than 2 of the sites" in line for line in two.conditions)
    assert "at each of up to 2 agents" in two.record
    own = np.sort(at_two.signed.proposal.plan().certificate.per_agent_mu)
    assert two.mu == pytest.approx(math.hypot(own[-1], own[-2]), rel=1e-6)
    study = make_study(tmp_path, rows_per_person=2)
    one = local_of(study, 0, None).certificate
    assert any("no more than one of the sites" in line for line in one.conditions)
    records = make_study(tmp_path / "records")
    assert "of the sites" not in " ".join(local_of(records, 0, None).certificate.conditions)


def test_an_account_is_charged_what_all_sites_of_a_person_tell_together(at_two):
    plan = at_two.signed.proposal.plan()
    own = plan.certificate.per_agent_mu
    for agent in range(3):
        charge = local_of(at_two, agent, None).charge
        others = max(own[:agent] + own[agent + 1 :])
        together = math.hypot(own[agent], others)
        assert mu_of(charge) >= together * (1 - 1e-9)
        assert own[agent] < together * 0.9  # the site's own answers alone were too little
        assert charge.messages == charge_of(plan).messages[agent : agent + 1]
        # in which rounds others answered is not known: an abandoned run stays charged whole
        assert charge_for(plan, agent, [0]) == charge


@pytest.mark.slow
def test_a_run_with_persons_at_two_sites_is_charged_as_it_was_derived(at_two, tmp_path):
    terms = AccountTerms(relation="replace_one", unit="person")
    accounts = [open_account(f"people{n}", Guarantee(4.0, 1e-2), terms) for n in range(3)]
    hub = meet(at_two, tmp_path, seed=None, accounts=accounts)
    hub.run()
    assert {party.outcome.ending for party in hub.parties.values()} == {"finished"}
    for agent, account in enumerate(accounts):
        (run,) = account.state().charged
        assert run.charge == local_of(at_two, agent, None).charge


@pytest.mark.slow
def test_persons_at_two_sites_are_trained_on_as_on_one_machine(at_two, tmp_path):
    seeded = meet(at_two, tmp_path, seed=7)
    seeded.run()
    all_finished(seeded, at_two)
    model = train(at_two.data, at_two.signed.proposal, reference=False, seed=7).model
    np.testing.assert_allclose(seeded.parties[0].outcome.model, model, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_a_run_that_others_end_stays_charged_whole_where_persons_are_at_several(at_two, tmp_path):
    terms = AccountTerms(relation="replace_one", unit="person")
    accounts = [open_account(f"whole{n}", Guarantee(4.0, 1e-2), terms) for n in range(3)]
    hub = meet(at_two, tmp_path, seed=None, accounts=accounts)
    hub.run(until=lambda: hub.parties[1].progress().round >= 2)
    hub.die(2)
    hub.run()
    assert hub.parties[0].outcome.ending == "abandoned"
    (run,) = accounts[0].state().charged
    assert dataclasses.asdict(run.charge) == dataclasses.asdict(local_of(at_two, 0, None).charge)
