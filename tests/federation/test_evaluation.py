"""A study with an evaluation: one more question, to records that no training has seen."""

import dataclasses
from unittest import mock

import numpy as np
import pytest
from tests.federation.studies import RING, kinds, make_study
from tests.federation.wire import (
    KilledError,
    changed,
    changing,
    check_ended,
    covers,
    everything,
    local_of,
    meet,
    open_accounts,
    signer_of,
    words,
)

from taciturn.engine import charge_of
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.records import Draw
from taciturn.training import labels_of, train
from taciturn.training.evaluation import Scale, ask_held_out, score_of_totals
from taciturn_federation.envelope import BreachError, Kind
from taciturn_federation.journal import Journal
from taciturn_federation.local import Local, Released, charge_for
from taciturn_federation.site import Site

ROUNDS = 3
STUDIES = [
    {},
    {"algorithm": "nids", "network": RING},
    {"algorithm": "recal", "network": RING, "rounds": 9},
    {"algorithm": "noisy-gradient", "centre": True, "features": "bins:4"},
    {"algorithm": "noisy-gradient", "rows_per_person": 2, "precision": "float32"},
    {"observer": "sum", "centre": True},
    {"observer": "sum", "network": RING},
    {"rows": 2},  # the first owner holds nothing out
    {"rows": 2, "observer": "sum"},
]


def scores_seen(hub):
    """The different answers in the evaluation that the witness saw, by agent."""
    return {agent: bodies for (agent, _), bodies in hub.answers(Kind.SCORE).items()}


def check_score(hub):
    """Every party has model, score and certificate of one machine."""
    study = hub.study
    training = train(study.data, study.signed.proposal, reference=False, seed=7)
    expected, whole = training.private_score, training.certificate
    for party in hub.parties.values():
        outcome = party.outcome
        assert outcome.ending == "finished", outcome.line
        close = 1e-10 if study.signed.proposal.precision == "float64" else 1e-6
        np.testing.assert_allclose(outcome.model, training.model, rtol=0, atol=close)
        score = hub.parties["coordinator"].evaluation.score(outcome.totals)
        assert (score.records, score.unit) == (expected.records, expected.unit)
        np.testing.assert_allclose(score.confusion, expected.confusion, rtol=0, atol=1e-9)
        for name in ("estimate", "low", "high"):
            mine, theirs = getattr(score.error, name), getattr(expected.error, name)
            assert mine == pytest.approx(theirs, abs=1e-10)
        ours = outcome.certificate
        assert (ours.epsilon, ours.mu) == (whole.epsilon, whole.mu)
        between = [one for one in ours.conditions if one not in whole.conditions]
        assert tuple(one for one in ours.conditions if one not in between) == whole.conditions
        persons = study.signed.proposal.budget.rows_per_person is not None
        assert len(between) == persons  # that sites share no persons, which one machine can see
        assert ours.per_agent_epsilon == whole.per_agent_epsilon


def test_every_party_has_the_answers_that_one_machine_gets_about_the_same_model(
    evaluated, tmp_path
):
    hub = meet(evaluated, tmp_path).run()
    coordinator, (proposal, data) = hub.parties["coordinator"], (
        evaluated.signed.proposal, evaluated.data,
    )  # fmt: skip
    scale = Scale(labels_of(proposal.data), 1.0)
    expected = ask_held_out(
        proposal, coordinator.plan, coordinator.outcome.model, data.evaluated(),
        trained_on=data.shards("float64").origin, seed=7,
    )  # fmt: skip
    figures = score_of_totals(proposal, expected.plan, expected.totals, scale)
    score = coordinator.evaluation.score(coordinator.outcome.totals)
    np.testing.assert_allclose(score.confusion, figures.confusion, rtol=0, atol=1e-9)
    assert score.error.low == pytest.approx(figures.error.low, abs=1e-10)
    for party in hub.parties.values():
        assert party.outcome.ending == "finished"
        np.testing.assert_array_equal(party.outcome.totals, coordinator.outcome.totals)
        assert party.outcome.certificate.epsilon == expected.certificate.epsilon
    assert {agent: len(bodies) for agent, bodies in scores_seen(hub).items()} == {0: 1, 1: 1, 2: 1}
    entries = hub.parties[1]._journal.entries(evaluated.signed.digest)[ROUNDS]
    planned = coordinator.evaluation.planned.ledger
    assert [entry.scale for entry in entries] == planned.scale[1, 0].tolist()
    # no number that a site may send breaks the figures
    (leaf,) = coordinator.evaluation.layout.leaves
    for number in (0.0, -1e9, 2.9e50, -2.9e50):  # of three sites
        coordinator.evaluation.score(np.full(leaf.shape, number)).lines()
    content = np.full(leaf.shape, 1.1e50, leaf.dtype).tobytes()
    with pytest.raises(BreachError, match="sinai sent a number"):
        coordinator.evaluation.layout.unpack_from("sinai", content)


@pytest.mark.slow
@pytest.mark.parametrize("how", STUDIES, ids=str)
def test_a_score_among_parties_is_that_of_one_machine_for_all_kinds_of_records(tmp_path, how):
    study = make_study(tmp_path, evaluate=0.2, **({"rounds": ROUNDS} | how))
    hub = meet(study, tmp_path).run()
    check_score(hub)
    counts = study.signed.proposal.evaluation.counts
    assert set(scores_seen(hub)) == set(np.flatnonzero(counts))
    assert (0 in scores_seen(hub)) == (how.get("rows") is None)


@pytest.mark.slow
def test_all_have_the_sum_of_the_answers_and_no_party_can_read_one(
    evaluated_sums, tmp_path, carried
):
    hub = meet(evaluated_sums, tmp_path).run()
    check_score(hub)
    sent = {agent: body for agent, (body,) in scores_seen(hub).items()}
    plain = {agent: carried[agent, "evaluation"] for agent in range(3)}
    assert sent.keys() == plain.keys()
    opened, total = (np.add.reduce([words(one[k]) for k in range(3)]) for one in (sent, plain))
    np.testing.assert_array_equal(opened, total)
    assert all(np.all(words(sent[agent]) != words(plain[agent])) for agent in sent)
    leg = hub.parties["coordinator"].evaluation
    step = 2.0 ** int(leg.planned.program.exponents[0, 0, 0])
    np.testing.assert_array_equal(hub.outcome(1).totals, total * step)
    hay = everything(hub, tmp_path)
    assert not [agent for agent, body in plain.items() if body in hay]
    assert all(body in hay for body in sent.values())  # the search finds what is there


@pytest.mark.slow
def test_the_noise_of_an_evaluation_is_what_its_certificate_counts_on(evaluated_sums, evaluated):
    """All honest sites together: an answer alone has less noise than the budget needs."""
    local, alone = local_of(evaluated_sums, 0, None), local_of(evaluated, 0, None)
    planned, single = local.evaluation.planned, alone.evaluation.planned
    assert planned.certificate.observer == "sum"
    assert single.certificate.observer == "messages"
    # two of three are honest: sqrt(2) times less each
    ratio = single.ledger.scale / planned.ledger.scale
    assert np.all(np.abs(ratio - np.sqrt(2)) < 0.01)
    assert local.certificate.epsilon >= planned.certificate.epsilon
    assert "the cipher of the masks" in local.certificate.trust


# which records are held out


def test_a_site_holds_out_the_records_that_one_machine_does_and_trains_on_no_other(evaluated):
    rows = evaluated.data.parts.train_features
    for agent in range(evaluated.agents):
        local = local_of(evaluated, agent, 7).records(Draw.secret())
        assert not set(local.owners[0]) & set(local.held_out[0])
        table = local.parts.train_features
        held_out, owners = evaluated.data.held_out[agent], evaluated.data.owners[agent]
        np.testing.assert_array_equal(table[local.held_out[0]], rows[held_out])
        np.testing.assert_array_equal(table[local.owners[0]], rows[owners])


def test_records_that_were_trained_on_do_not_enter_the_evaluation(evaluated):
    """The planted fault of the test above: the whole file is handed to the evaluation."""
    local = local_of(evaluated, 0, 7)
    records = local.records(Draw.secret())
    every = dataclasses.replace(records, owners=records.held_out, held_out=records.owners)
    model = Released(np.zeros(evaluated.signed.proposal.facts.shape))
    with pytest.raises(PrivacyError, match="not as many as the proposal says"):
        local.evaluation.leg(0, every, model, 7)


def dying_at(moments, deaths):
    """`Journal` methods that end the process of site1 at each of these moments once."""
    add, set_phase, put = Journal.add, Journal.set_phase, Journal.put

    def dies(journal, moment):
        if "site1" in journal.file.name and moment in moments and moment not in deaths:
            deaths.append(moment)
            raise KilledError

    def adding(journal, digest, row):
        dies(journal, ("before", row.round))
        add(journal, digest, row)
        dies(journal, ("after", row.round))

    def phase(journal, digest, name, **how):
        set_phase(journal, digest, name, **how)
        dies(journal, ("after", name))

    def putting(journal, digest, what, content):
        stored = put(journal, digest, what, content)
        dies(journal, ("after", what))
        return stored

    return mock.patch.multiple(Journal, add=adding, set_phase=phase, put=putting)


def divisions_of(study, folder, moments):
    """The rows that each site trained on and held out at each of its starts; deaths; the hub."""
    seen, deaths, records = {}, [], Local.records

    def noted(local, draw):
        data, agent = records(local, draw), local.agent
        sides = (data.owners[0], data.held_out[0])
        if data.persons is not None:
            sides = map(data.persons.places, sides)
        seen.setdefault(agent, []).append(tuple(tuple(side.tolist()) for side in sides))
        return data

    with dying_at(moments, deaths), mock.patch.object(Local, "records", noted):
        hub = meet(study, folder, seed=None).run()
    assert hub.endings() == {"finished"}
    return seen, deaths, hub


MOMENTS = (("before", 0), ("after", 1), ("before", ROUNDS), ("after", ROUNDS))


@pytest.mark.parametrize(
    ("first", "persons"), [("running", None), pytest.param("division", 1, marks=pytest.mark.slow)]
)
def test_a_site_that_is_killed_again_and_again_never_divides_its_records_again(
    tmp_path, first, persons
):
    how = {} if persons is None else {"rows_per_person": persons, "algorithm": "noisy-gradient"}
    study = make_study(tmp_path, evaluate=0.2, rounds=ROUNDS, **how)
    moments = (("after", first), *MOMENTS)
    seen, deaths, hub = divisions_of(study, tmp_path, moments)
    assert set(deaths) == set(moments)
    assert max(map(len, seen.values())) >= len(MOMENTS)
    for starts in seen.values():
        assert len(set(starts)) == 1
        assert not set(starts[0][0]) & set(starts[0][1]) - {-1}
    sent = b"".join(packet.payload for _, packet in hub.seen)
    sites = [party for party in hub.parties.values() if isinstance(party, Site)]
    keys = {party._journal.get(study.signed.digest, "division") for party in sites}
    assert len(keys) == len(sites) == 3
    for key in keys:
        assert key not in sent
        assert key.hex().encode() not in sent


@pytest.mark.slow
def test_a_site_that_draws_again_at_every_start_is_caught(evaluated, tmp_path):
    """The planted fault of the test above: the draw is not stored."""
    put = Journal.put

    def forgetful(journal, digest, what, content):
        return content if what == "division" else put(journal, digest, what, content)

    with mock.patch.object(Journal, "put", forgetful):
        seen, deaths, _ = divisions_of(evaluated, tmp_path, (("before", ROUNDS),))
    assert deaths
    assert any(len(set(starts)) > 1 for starts in seen.values())


# one answer, written before it is sent, and paid for


def test_the_answer_in_an_evaluation_is_written_before_it_is_sent(evaluated, tmp_path):
    hub = meet(evaluated, tmp_path)
    with mock.patch.object(Journal, "add", side_effect=InputError("the disk is full")):
        hub.run(seconds=2)
        assert not scores_seen(hub)


@kinds(slow=("evaluated", "evaluated_sums"))
def test_an_answer_that_was_forgotten_is_seen_by_the_witness(study, tmp_path):
    """The planted fault of the tests of kills and full disks: the last answer is drawn again."""
    hub = meet(study, tmp_path, seed=None, spoil=changing(study, Kind.HEADS, lambda _: None))
    hub.run(until=lambda: len(scores_seen(hub)) == 3)
    hub.kill(1)
    stored = Journal.round
    last_round = mock.patch.object(Journal, "last_round", lambda j, run: stored(j, run, ROUNDS))
    with (
        last_round,
        mock.patch.object(Journal, "round", return_value=None),
        mock.patch.object(Journal, "add", return_value=None),
    ):
        hub.join(1)
        hub.run(seconds=5)
    assert len(scores_seen(hub)[1]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("network", [None, RING])
def test_killed_after_it_signed_its_head_a_site_ends_with_the_model(tmp_path, network):
    """All others have left with the model by then: the end is in its journal."""
    how = {} if network is None else {"network": network, "algorithm": "nids"}
    study = make_study(tmp_path, evaluate=0.2, rounds=ROUNDS, **how)
    hub = meet(study, tmp_path, spoil=changing(study, Kind.HEADS, lambda _: None, receiver=1))
    hub.run(until=lambda: hub.outcome(0) is not None)
    hub.kill(0, 1, 2)
    hub.spoil = lambda sender, receiver, packet: [(0.0, packet)]
    hub.join(1)
    hub.run(seconds=20)
    check_score(hub)


@pytest.mark.slow
def test_a_site_that_sends_two_answers_is_refused(evaluated, tmp_path):
    def lying(sender, receiver, packet):
        envelope = evaluated.signed.opener.open(packet.payload)
        if (sender, receiver, envelope.kind) != (1, 0, Kind.SCORE):
            return [(0.0, packet)]
        lie = signer_of(evaluated, 1).seal(Kind.SCORE, ROUNDS, changed(envelope.body))
        return [(0.0, packet._replace(payload=lie)), (0.0, packet)]

    hub = meet(evaluated, tmp_path, spoil=lying).run(seconds=20)
    check_ended(hub, 0, "refused", "sinai sent round 3 twice")
    assert hub.outcome("coordinator").ending == "abandoned"


def covers_both(charge, both, observers=("messages",)):
    """Whether a charge has no more noise than each of two, for each observer."""
    return all(
        getattr(charge, name)[0][0][0].multiplier <= getattr(one, name)[0][0][0].multiplier
        for one in both
        for name in observers
    )


def test_an_account_is_charged_the_larger_of_training_and_evaluation(evaluated):
    """That counts more numbers than a training of three rounds answers."""
    for agent in range(evaluated.agents):
        local = local_of(evaluated, agent, None)
        last = local.evaluation.planned
        both = [charge_for(local.plan, agent, range(3)), charge_for(last, agent, [0])]
        assert both[0].values < both[1].values  # the charge of the training alone is too little
        assert local.charge.values == both[1].values
        assert covers_both(local.charge, both)
        assert local.charge_for([0, 1]) == charge_for(local.plan, agent, [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("observer", ["messages", "sum"])
def test_one_reservation_pays_for_training_and_evaluation(tmp_path, observer):
    study = make_study(tmp_path, evaluate=0.2, rounds=20, observer=observer)
    how = {"observer": "sum", "colluders": 1} if observer == "sum" else {}
    accounts = open_accounts(study, guarantee=(2.0, 1e-2), **how)
    hub = meet(study, tmp_path, seed=None, accounts=accounts).run()
    plan, last = study.signed.proposal.plan(), hub.parties["coordinator"].evaluation.planned
    names = ("messages", "summed") if how else ("messages",)
    for agent, account in enumerate(accounts):
        (run,) = account.state().charged
        assert run.status == "released"
        both = [charge_for(plan, agent, range(20)), charge_for(last, agent, [0])]
        assert covers_both(run.charge, both, names)
        if not how:
            assert run.charge.messages == both[0].messages
            ((event, _),) = charge_of(last).messages[agent]
            assert event.multiplier >= run.charge.messages[0][0][0].multiplier
        elif agent > 0:  # larger files are better hidden in training: its charge is too little
            assert not covers_both(both[0], both, names)


@pytest.mark.slow
@pytest.mark.parametrize("answered", [True, False])
def test_a_run_that_ends_in_its_evaluation_is_charged_for_that_if_it_was_answered(
    evaluated, tmp_path, answered
):
    accounts = open_accounts(evaluated)
    silent = (lambda e: e.kind == Kind.SCORE) if answered else (lambda e: e.round >= 2)
    opened = evaluated.signed.opener.open
    hub = meet(evaluated, tmp_path, seed=None, accounts=accounts)
    hub.spoil = lambda s, _, p: [] if s == 1 and silent(opened(p.payload)) else [(0.0, p)]
    hub.run()
    assert hub.endings() == {"abandoned"}
    (run,) = accounts[0].state().charged
    entries = hub.parties[0]._journal.entries(evaluated.signed.digest)
    assert (ROUNDS in entries) == answered
    assert covers(accounts[0], evaluated, 0, set(entries) - {ROUNDS})
    training = charge_for(evaluated.signed.proposal.plan(), 0, range(3))
    assert (run.charge.values > training.values) == answered
