"""The last question under the observer of sums: nobody reads an answer, and all have their sum."""

import numpy as np
import pytest
from tests.federation.studies import make_study
from tests.federation.test_last_question import as_on_one_machine, covers_both, scores_seen
from tests.federation.test_secure_sums import on_disk, words
from tests.federation.wire import envelopes, local_of, meet, without_room

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn_federation.envelope import Kind
from taciturn_federation.journal import Journal
from taciturn_federation.local import charge_for
from taciturn_federation.masks import Masking
from taciturn_federation.site import Rounds


@pytest.fixture(scope="session")
def asked(tmp_path_factory):
    """Three owners, one of whom may collude; a fifth of their records is held out."""
    folder = tmp_path_factory.mktemp("asked-sums")
    return make_study(folder, observer="sum", evaluate=0.2, rounds=3)


@pytest.fixture
def carried(monkeypatch):
    """The plain words of the last answers, by site; nothing but this test sees them."""
    plain, masked = {}, Masking.mask_evaluation

    def watched(self, agents, heard, body):
        plain[self._agent] = body
        return masked(self, agents, heard, body)

    monkeypatch.setattr(Masking, "mask_evaluation", watched)
    return plain


def everything(hub, folder):
    for party in hub.parties.values():
        party._journal.close()
    return on_disk(folder) + b"\0".join(packet.payload for _, packet in hub.seen)


def endings(hub):
    return {party.outcome and party.outcome.ending for party in hub.parties.values()}


@pytest.mark.slow
def test_all_have_the_sum_of_the_last_answers_and_nobody_can_read_one(asked, tmp_path, carried):
    hub = meet(asked, tmp_path)
    hub.run()
    as_on_one_machine(hub, asked)
    sent = {agent: body for agent, (body,) in scores_seen(hub, asked).items()}
    assert sent.keys() == carried.keys() == {0, 1, 2}
    masked, plain = (np.add.reduce([words(one[k]) for k in range(3)]) for one in (sent, carried))
    np.testing.assert_array_equal(masked, plain)
    assert all(np.all(words(sent[agent]) != words(carried[agent])) for agent in sent)
    last = hub.parties["coordinator"].evaluation
    step = 2.0 ** int(last.planned.program.exponents[0, 0, 0])
    np.testing.assert_array_equal(hub.parties[1].outcome.totals, plain * step)
    hay = everything(hub, tmp_path)
    assert not [agent for agent, body in carried.items() if body in hay]
    assert all(body in hay for body in sent.values())  # the search finds what is there


@pytest.mark.slow
def test_without_masks_the_search_finds_the_last_answers(asked, tmp_path, carried, monkeypatch):
    """The planted fault: bytes are counted on to be masked, and are not."""
    watched = Masking.mask_evaluation

    def plain(self, agents, heard, body):
        watched(self, agents, heard, body)
        return body

    monkeypatch.setattr(Masking, "mask_evaluation", plain)
    hub = meet(asked, tmp_path)
    hub.run()
    hay = everything(hub, tmp_path)
    assert all(body in hay for body in carried.values())


def test_the_noise_of_the_last_question_is_what_its_certificate_counts_on(asked):
    """All honest sites together: an answer alone has less noise than the budget asks for."""
    local = local_of(asked, 0, None)
    planned, alone = (
        local.evaluation.planned,
        make_study(asked.folder / "messages", evaluate=0.2, rounds=3),
    )
    single = local_of(alone, 0, None).evaluation.planned
    assert planned.certificate.observer == "sum"
    assert single.certificate.observer == "messages"
    # two of three are honest: sqrt(2) times less each
    ratio = single.ledger.scale / planned.ledger.scale
    assert np.all(np.abs(ratio - np.sqrt(2)) < 0.01)
    assert local.certificate.epsilon >= planned.certificate.epsilon
    assert "the cipher of the masks" in local.certificate.trust


@pytest.mark.slow
def test_masks_cancel_among_those_who_hold_records_out(tmp_path, carried):
    study = make_study(tmp_path, observer="sum", evaluate=0.2, rows=2, rounds=3)
    assert study.signed.proposal.evaluation.counts == (0, 1, 2)
    hub = meet(study, tmp_path)
    hub.run()
    as_on_one_machine(hub, study)
    assert set(scores_seen(hub, study)) == set(carried) == {1, 2}


@pytest.mark.slow
def test_a_site_that_masks_for_another_set_ends_the_run_without_a_model(
    asked, tmp_path, monkeypatch
):
    masked = Masking.mask_evaluation

    def alone(self, agents, heard, body):
        return masked(self, [0, 1] if self._agent == 1 else agents, heard, body)

    monkeypatch.setattr(Masking, "mask_evaluation", alone)
    hub = meet(asked, tmp_path)
    hub.run(seconds=20)
    assert endings(hub) <= {"refused", "abandoned"}
    assert any("do not cancel" in party.outcome.line for party in hub.parties.values())
    assert all(party.outcome.model is None for party in hub.parties.values())


def full_disk(monkeypatch):
    """The disk of one site has no room for its last answer, twice; what it would have told."""
    add, tries = Journal.add, []

    def full(journal, digest, sent):
        if sent.round == 3 and "site1" in journal.file.name:
            tries.append(sent.message)
            if len(tries) < 3:
                return without_room(journal, lambda: add(journal, digest, sent))
        add(journal, digest, sent)

    monkeypatch.setattr(Journal, "add", full)
    return tries


@pytest.mark.slow
def test_a_full_disk_leaves_the_same_last_answer_to_be_told(asked, tmp_path, monkeypatch):
    tries = full_disk(monkeypatch)
    hub = meet(asked, tmp_path, seed=None)
    hub.run()
    assert endings(hub) == {"finished"}
    assert len(tries) == 3
    assert (
        {tries[0]}
        == set(tries)
        == {e.sealed for who, _, e in envelopes(hub, asked, Kind.SCORE) if who == 1}
    )


@pytest.mark.slow
def test_a_last_answer_that_is_drawn_anew_is_another(asked, tmp_path, monkeypatch):
    """The planted fault of the test above."""
    tries, draw = full_disk(monkeypatch), Rounds._draw

    monkeypatch.setattr(Rounds, "_drawn", property(draw, lambda *_: None), raising=False)
    hub = meet(asked, tmp_path, seed=None)
    hub.run()
    assert len(set(tries)) == 3


@pytest.mark.slow
def test_killed_before_and_after_it_is_written_the_last_answer_is_told_once(asked, tmp_path):
    hub, deaths = meet(asked, tmp_path, seed=None), []

    def dies(who):
        here = hub.parties[who].progress().round == 3 and who not in deaths
        return bool(here and (deaths.append(who) or True))

    hub.after = dies
    hub.run()
    assert set(deaths) == {"coordinator", 0, 1, 2}
    assert endings(hub) == {"finished"}
    assert all(len(bodies) == 1 for bodies in scores_seen(hub, asked).values())


@pytest.mark.slow
def test_an_account_for_sums_pays_for_training_and_last_question_at_once(tmp_path):
    study = make_study(tmp_path, observer="sum", evaluate=0.2, rounds=20)
    terms = AccountTerms(relation="replace_one", unit="record", observer="sum", colluders=1)
    accounts = [open_account(f"sums{n}", Guarantee(2.0, 1e-2), terms) for n in range(3)]
    hub = meet(study, tmp_path, seed=None, accounts=accounts)
    hub.run()
    last = hub.parties["coordinator"].evaluation.planned
    for agent in range(3):
        (own,) = accounts[agent].state().charged
        both = [
            charge_for(study.signed.proposal.plan(), agent, range(20)),
            charge_for(last, agent, [0]),
        ]
        assert covers_both(own.charge, both, ("messages", "summed"))
        if agent > 0:  # larger files are better hidden in training: its charge were too little
            assert not covers_both(both[0], both, ("messages", "summed"))
