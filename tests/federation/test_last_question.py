"""A study with an evaluation: one more question, to records that no training has seen."""

import dataclasses
from unittest import mock

import numpy as np
import pytest
from tests.federation.studies import make_study
from tests.federation.test_breaches import other, seal_of
from tests.federation.test_parties import guarded_accounts
from tests.federation.wire import KilledError, envelopes, local_of, meet

from taciturn.engine import charge_of
from taciturn.errors import InputError, PrivacyError
from taciturn.evaluation import ask_held_out, score_of_totals, score_units
from taciturn.kernel.records import Draw
from taciturn.proposal import labels_of
from taciturn.training import train
from taciturn_federation.envelope import Kind
from taciturn_federation.envelope import Packet, Released
from taciturn_federation.journal import Journal
from taciturn_federation.local import charge_for

RING = {"network": "ring"}
STUDIES = [
    {},
    {"algorithm": "nids", "network": RING, "rounds": 3},
    {"algorithm": "recal", "network": RING, "rounds": 9},
    {"algorithm": "noisy-gradient", "centre": True, "features": "bins:4"},
    {"algorithm": "noisy-gradient", "rows_per_person": 2, "precision": "float32"},
    {"observer": "sum", "centre": True, "rounds": 3},
    {"observer": "sum", "network": RING, "rounds": 3},
]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Three owners on a star, a fifth of whose records is held out."""
    return make_study(tmp_path_factory.mktemp("asked"), evaluate=0.2, rounds=3)


def simulated(study, seed=7):
    return train(study.data, study.signed.proposal, reference=False, seed=seed)


def scores_seen(hub, study):
    """The different answers to the last question that the witness saw, by agent."""
    found = {}
    for _, _, envelope in envelopes(hub, study, Kind.SCORE):
        found.setdefault(envelope.sender, set()).add(envelope.body)
    return found


def as_on_one_machine(hub, study):
    training = simulated(study)
    expected = training.private_score
    for party in hub.parties.values():
        outcome = party.outcome
        assert outcome.ending == "finished", outcome.line
        np.testing.assert_allclose(outcome.model, training.model, rtol=0, atol=1e-6)
        if study.signed.proposal.precision == "float64":
            np.testing.assert_allclose(outcome.model, training.model, rtol=0, atol=1e-10)
        last = getattr(party, "last", None) or party._local.evaluation
        score = last.score(outcome.totals)
        assert score.records == expected.records
        assert score.unit == expected.unit
        np.testing.assert_allclose(score.confusion, expected.confusion, rtol=0, atol=1e-9)
        for name in ("estimate", "low", "high"):
            mine, theirs = getattr(score.error, name), getattr(expected.error, name)
            assert mine == pytest.approx(theirs, abs=1e-10)
        ours, whole = outcome.certificate, training.certificate
        assert (ours.epsilon, ours.mu) == (whole.epsilon, whole.mu)
        between = [one for one in ours.conditions if one not in whole.conditions]
        assert tuple(one for one in ours.conditions if one not in between) == whole.conditions
        persons = study.signed.proposal.budget.rows_per_person is not None
        assert len(between) == persons  # that sites share no persons, which one machine can see
        assert ours.per_agent_epsilon == whole.per_agent_epsilon


def test_every_party_has_the_answers_that_one_machine_gets_about_the_same_model(asked, tmp_path):
    hub = meet(asked, tmp_path)
    hub.run()
    coordinator = hub.parties["coordinator"]
    proposal, plan = asked.signed.proposal, coordinator.plan
    scale = score_units(proposal, labels_of(proposal.data), 1.0)
    held, trained_on = asked.data.evaluated(), asked.data.shards("float64").origin
    model = coordinator.outcome.model
    expected = ask_held_out(proposal, plan, model, held, trained_on=trained_on, seed=7)
    figures = score_of_totals(proposal, expected.plan, expected.totals, scale)
    score = coordinator.evaluation.score(coordinator.outcome.totals)
    np.testing.assert_allclose(score.confusion, figures.confusion, rtol=0, atol=1e-9)
    assert score.error.low == pytest.approx(figures.error.low, abs=1e-10)
    for party in hub.parties.values():
        assert party.outcome.ending == "finished"
        np.testing.assert_array_equal(party.outcome.totals, coordinator.outcome.totals)
        assert party.outcome.certificate.epsilon == expected.certificate.epsilon
    assert {agent: len(bodies) for agent, bodies in scores_seen(hub, asked).items()} == {
        0: 1, 1: 1, 2: 1,
    }  # fmt: skip
    entries = Journal.answers(hub.parties[1]._journal, asked.signed.digest)[3]
    planned = hub.parties["coordinator"].evaluation.planned.ledger
    assert [entry.scale for entry in entries] == planned.scale[1, 0].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("how", STUDIES, ids=lambda how: how.get("algorithm", "star"))
def test_a_score_among_parties_is_that_of_one_machine_for_all_kinds_of_records(tmp_path, how):
    study = make_study(tmp_path, evaluate=0.2, **({"rounds": 4} | how))
    hub = meet(study, tmp_path)
    hub.run()
    as_on_one_machine(hub, study)


@pytest.mark.slow
def test_an_agent_that_holds_nothing_out_says_nothing_and_all_have_the_score(tmp_path):
    study = make_study(tmp_path, evaluate=0.2, rows=2, rounds=3)
    assert study.signed.proposal.evaluation.counts == (0, 1, 2)
    hub = meet(study, tmp_path)
    hub.run()
    as_on_one_machine(hub, study)
    assert set(scores_seen(hub, study)) == {1, 2}


def test_a_site_holds_out_the_records_that_one_machine_does_and_trains_on_no_other(asked):
    rows = asked.data.parts.train_features
    for agent in range(asked.agents):
        own = local_of(asked, agent, 7).records(Draw.secret())
        assert not set(own.owners[0]) & set(own.held_out[0])
        table = own.parts.train_features
        np.testing.assert_array_equal(table[own.held_out[0]], rows[asked.data.held_out[agent]])
        np.testing.assert_array_equal(table[own.owners[0]], rows[asked.data.owners[agent]])


def test_records_that_were_trained_on_are_not_asked_about_the_model(asked):
    """The planted fault of the test above: the whole file is handed to the last question."""
    local = local_of(asked, 0, 7)
    own = local.records(Draw.secret())
    every = dataclasses.replace(own, owners=own.held_out, held_out=own.owners)
    model = Released(np.zeros(asked.signed.proposal.facts.shape))
    with pytest.raises(PrivacyError, match="not as many as the proposal says"):
        local.evaluation.answering(0, every, model, 7)


@pytest.mark.slow
def test_killed_before_and_after_it_writes_its_last_answer_a_site_gives_one(asked, tmp_path):
    add, killed = Journal.add, []

    def dying(journal, digest, sent):
        if sent.round == 3 and "site1" in journal.file.name and len(killed) < 2:
            killed.append(sent)
            if len(killed) == 2:
                add(journal, digest, sent)
            raise KilledError
        add(journal, digest, sent)

    with mock.patch.object(Journal, "add", dying):
        hub = meet(asked, tmp_path, seed=None)
        hub.run()
    assert len(killed) == 2
    assert {party.outcome.ending for party in hub.parties.values()} == {"finished"}
    assert all(len(bodies) == 1 for bodies in scores_seen(hub, asked).values())


@pytest.mark.slow
def test_an_answer_that_was_forgotten_is_seen_by_the_witness(asked, tmp_path):
    """The planted fault of the test above: the last answer is drawn anew."""
    hub = meet(asked, tmp_path, seed=None)
    lost = hub.spoil
    hub.spoil = lambda s, r, p: [] if _is_head(asked, p) else lost(s, r, p)
    hub.run(until=lambda: len(scores_seen(hub, asked)) == 3)
    hub.die(1)
    with (
        mock.patch.object(Journal, "round", return_value=None),
        mock.patch.object(Journal, "add", return_value=None),
    ):
        hub.join(1, hub.makers[1])
        hub.run(seconds=5)
    assert len(scores_seen(hub, asked)[1]) == 2


def _is_head(study, packet):
    return study.signed.opener.open(packet.payload).kind == Kind.HEADS


@pytest.mark.slow
@pytest.mark.parametrize("network", [None, RING])
def test_killed_after_it_signed_its_head_a_site_ends_with_the_model(tmp_path, network):
    """All others have left with the model by then: what the end was is in its own journal."""
    how = {} if network is None else {"network": network, "algorithm": "nids"}
    study = make_study(tmp_path, evaluate=0.2, rounds=3, **how)
    hub = meet(study, tmp_path)
    hub.spoil = lambda s, r, p: [] if r == 1 and _is_head(study, p) else [(0.0, p)]
    hub.run(until=lambda: hub.parties[0].outcome is not None)
    hub.die(1)
    hub.die(0)
    hub.die(2)
    hub.spoil = lambda s, r, p: [(0.0, p)]
    hub.join(1, hub.makers[1])
    hub.run(seconds=20)
    outcome = hub.parties[1].outcome
    assert outcome is not None
    assert outcome.ending == "finished"
    np.testing.assert_allclose(outcome.model, simulated(study).model, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_a_site_that_tells_two_last_answers_is_refused(asked, tmp_path):
    hub = meet(asked, tmp_path)

    def lying(sender, receiver, packet):
        envelope = asked.signed.opener.open(packet.payload)
        if (sender, receiver, envelope.kind) != (1, 0, Kind.SCORE):
            return [(0.0, packet)]
        lie = seal_of(asked, 1).seal(Kind.SCORE, 3, other(envelope.body))
        return [(0.0, Packet(packet.subject, lie)), (0.0, packet)]

    hub.spoil = lying
    hub.run(seconds=20)
    assert hub.parties[0].outcome.ending == "refused"
    assert "sinai sent round 3 twice" in hub.parties[0].outcome.line
    assert hub.parties["coordinator"].outcome.ending == "abandoned"


@pytest.mark.slow
def test_one_reservation_pays_for_training_and_last_question(tmp_path):
    study = make_study(tmp_path, evaluate=0.2, rounds=20)
    accounts = guarded_accounts(study)
    hub = meet(study, tmp_path, seed=None, accounts=accounts)
    hub.run()
    for agent, account in enumerate(accounts):
        (own,) = account.state().charged
        assert own.status == "released"
        training = charge_for(study.signed.proposal.plan(), agent, range(20))
        assert own.charge.messages == training.messages
        last = hub.parties["coordinator"].evaluation.planned
        ((event, _),) = charge_of(last).messages[agent]
        assert event.multiplier >= own.charge.messages[0][0][0].multiplier


def test_an_account_is_charged_the_larger_of_training_and_last_question(asked):
    """That counts more numbers than a training of three rounds answers."""
    for agent in range(asked.agents):
        local = local_of(asked, agent, None)
        both = [charge_for(local.plan, agent, range(3)), charge_for(local.evaluation.planned, agent, [0])]
        assert both[0].values < both[1].values  # charged for the training alone it were too little
        assert local.charge.values == both[1].values
        assert covers_both(local.charge, both)
        assert local.charge_for([0, 1]) == charge_for(local.plan, agent, [0, 1])


def covers_both(charge, both, observers=("messages",)):
    """Whether a charge has no more noise than each of two, for each observer."""
    return all(
        getattr(charge, name)[0][0][0].multiplier <= getattr(one, name)[0][0][0].multiplier
        for one in both
        for name in observers
    )


@pytest.mark.slow
@pytest.mark.parametrize("answered", [True, False])
def test_a_run_that_ends_at_its_last_question_is_charged_for_that_if_it_was_answered(
    asked, tmp_path, answered
):
    accounts = guarded_accounts(asked)
    hub = meet(asked, tmp_path, seed=None, accounts=accounts)
    silent = (lambda e: e.kind == Kind.SCORE) if answered else (lambda e: e.round >= 2)
    opened = asked.signed.opener.open
    hub.spoil = lambda s, r, p: [] if s == 1 and silent(opened(p.payload)) else [(0.0, p)]
    hub.run()
    assert {party.outcome.ending for party in hub.parties.values()} == {"abandoned"}
    (own,) = accounts[0].state().charged
    assert (3 in hub.parties[0]._journal.entries(asked.signed.digest)) == answered
    training = charge_for(asked.signed.proposal.plan(), 0, range(3))
    assert (own.charge.values > training.values) == answered


def test_the_last_question_is_written_down_before_it_is_told(asked, tmp_path):
    hub = meet(asked, tmp_path)
    with mock.patch.object(Journal, "add", side_effect=InputError("the disk is full")):
        hub.run(seconds=2)
        assert not scores_seen(hub, asked)
