"""A run among parties is the run on one machine, whatever the wire and the processes do."""

import functools
from collections import defaultdict
from unittest import mock

import numpy as np
import pytest
from tests.federation.studies import make_study
from tests.federation.wire import KilledError, answers_seen, envelopes, meet, without_room

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.engine import run
from taciturn.errors import InputError
from taciturn.proposal import StructureRequest
from taciturn_federation.envelope import Kind
from taciturn_federation.journal import Journal
from taciturn_federation.local import Local, charge_for

RING = {"network": "ring"}
METHODS = [
    {"algorithm": "dp-admm"},
    {"algorithm": "linearised-admm", "options": {"local_updates": 3}},
    {"algorithm": "sadmm", "structure": StructureRequest(name="lasso")},
    {"algorithm": "dp-sgd", "evaluate": None},
    {"algorithm": "noisy-gradient", "centre": True},
    {"algorithm": "recal", "network": RING | {"walk": "random", "cap": 3}, "rounds": 9},
    {"algorithm": "walkman", "network": RING, "rounds": 9},
    {"algorithm": "ic-admm", "network": RING},
    {"algorithm": "extra", "network": RING},
]


@functools.cache
def model_of(study, seed):
    proposal = study.signed.proposal
    plan = proposal.plan()
    shards = study.data.shards(proposal.precision, centre=proposal.centre)
    return run(plan, shards, runtime="simulate", seed=seed).model


def all_finished(hub, study, seed=7):
    models = []
    for name, party in hub.parties.items():
        assert party.outcome is not None, (name, party.progress())
        assert party.outcome.ending == "finished", (name, party.outcome.line)
        models.append(party.outcome.model)
        assert party.outcome.certificate is not None
    for model in models:
        expected = models[0] if seed is None else model_of(study, seed)
        np.testing.assert_allclose(model, expected, rtol=0, atol=1e-10)
    coordinator = hub.parties["coordinator"]
    if coordinator.ledger is not None:
        coordinator.plan.ledger.same_as(coordinator.ledger)


def said_once(hub, study):
    """Whether no agent gave two answers in one round, as the witness saw."""
    return all(len(bodies) == 1 for bodies in answers_seen(hub, study).values())


@pytest.mark.parametrize("name", ["star", "ring", "relay"])
def test_every_party_ends_with_the_model_of_one_machine(name, request, tmp_path):
    study = request.getfixturevalue(name)
    hub = meet(study, tmp_path)
    hub.run()
    all_finished(hub, study)
    assert said_once(hub, study)
    assert hub.parties["coordinator"].ledger is not None


@pytest.mark.slow
@pytest.mark.parametrize("asked", METHODS, ids=lambda asked: asked["algorithm"])
def test_every_sound_method_runs_among_parties_as_on_one_machine(tmp_path, asked):
    study = make_study(tmp_path, **asked)
    hub = meet(study, tmp_path)
    hub.run()
    all_finished(hub, study)


def test_no_message_passes_the_coordinator_on_a_network(ring, tmp_path):
    hub = meet(ring, tmp_path)
    hub.run()
    edges = [packet.subject for _, packet in hub.seen if ".edge." in packet.subject]
    assert edges
    heard = hub.parties["coordinator"].subjects
    assert not any(".edge." in subject for subject in heard)
    assert not any(".answer." in packet.subject for _, packet in hub.seen)


def test_a_round_that_all_sites_missed_is_repeated_once_for_all_of_them(star, tmp_path):
    """Repeated for each, A sites that are late would bring A^2 messages, and be later still."""
    lost = []

    def spoil(sender, receiver, packet):
        envelope = star.signed.opener.open(packet.payload)
        if envelope.kind == Kind.PUBLIC and envelope.round == 2 and hub.now < 5:
            lost.append(receiver)
            return []
        # the coordinator's own patience ends with every answer that is late
        return [(0.3 * receiver, packet)] if receiver in (1, 2) else [(0.0, packet)]

    hub = meet(star, tmp_path, spoil=spoil)
    hub.run()
    all_finished(hub, star)
    told = [one for _, _, one in envelopes(hub, star, Kind.PUBLIC) if one.round == 2]
    assert set(lost) == {0, 1, 2}
    assert len(told) <= 12, "at most two a second, whoever asks"


@pytest.mark.parametrize("name", ["star", pytest.param("ring", marks=pytest.mark.slow),
                                  pytest.param("relay", marks=pytest.mark.slow)])  # fmt: skip
def test_killed_in_any_round_a_site_goes_on_where_it_was(name, request, tmp_path):
    study = request.getfixturevalue(name)
    hub = meet(study, tmp_path)
    deaths = []

    def dies(who):
        """Every party dies once, just after it wrote something, before it could say so."""
        if who in deaths or hub.parties[who].progress().round < len(deaths):
            return False
        deaths.append(who)
        return True

    hub.after = dies
    hub.run()
    assert set(deaths) == {"coordinator", 0, 1, 2}
    all_finished(hub, study)
    assert said_once(hub, study)


def test_killed_while_it_writes_a_site_gives_one_answer_and_no_other(star, tmp_path, monkeypatch):
    add, killed = Journal.add, []

    def dying(journal, digest, sent):
        if len(killed) < 2 and sent.round == 2:
            killed.append(sent)
            if len(killed) == 2:
                add(journal, digest, sent)
            raise KilledError
        add(journal, digest, sent)

    monkeypatch.setattr(Journal, "add", dying)
    hub = meet(star, tmp_path, seed=None)
    hub.run()
    all_finished(hub, star, seed=None)
    assert len(killed) == 2
    assert said_once(hub, star)


def test_a_journal_that_forgets_is_seen_by_the_witness(star, tmp_path, monkeypatch):
    """The planted fault of the test above: noise is drawn anew for a round that was answered."""
    hub = meet(star, tmp_path, seed=None)
    hub.run(until=lambda: hub.parties[0].progress().round >= 3)
    hub.die(0)
    monkeypatch.setattr(Journal, "last_round", lambda *_: None)
    monkeypatch.setattr(Journal, "round", lambda *_: None)
    hub.die("coordinator")
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"coordinator.journal{suffix}").unlink(missing_ok=True)
    monkeypatch.setattr(Journal, "add", lambda *_: None)
    hub.join(0, hub.makers[0])
    hub.join("coordinator", hub.makers["coordinator"])
    hub.run(seconds=5)
    assert not said_once(hub, star)


def test_a_coordinator_that_lost_everything_has_the_rounds_said_again(star, tmp_path):
    hub = meet(star, tmp_path)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round >= 4)
    hub.die("coordinator")
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"coordinator.journal{suffix}").unlink(missing_ok=True)
    hub.join("coordinator", hub.makers["coordinator"])
    hub.run()
    all_finished(hub, star)
    assert said_once(hub, star)


def test_a_full_disk_stops_an_answer_and_the_run_goes_on_when_there_is_room(
    star, tmp_path, monkeypatch
):
    lines, tries, add = {"coordinator": [], 0: [], 1: [], 2: []}, [], Journal.add

    def full(journal, digest, sent):
        if sent.round == 3 and "site1" in journal.file.name and len(tries) < 2:
            tries.append(sent)
            return without_room(journal, lambda: add(journal, digest, sent))
        add(journal, digest, sent)

    monkeypatch.setattr(Journal, "add", full)
    hub = meet(star, tmp_path, lines=lines, seed=None)
    hub.run()
    all_finished(hub, star, seed=None)
    assert len(tries) == 2
    assert said_once(hub, star)
    assert any("cannot be written" in line for line in lines[1])


@pytest.mark.slow
def test_a_full_disk_of_the_coordinator_delays_a_value_and_no_more(star, tmp_path, monkeypatch):
    lines, tries, say = {"coordinator": [], 0: [], 1: [], 2: []}, [], Journal.put

    def full(journal, digest, what, content):
        if what == "public.3" and len(tries) < 2:
            tries.append(what)
            raise InputError("the journal cannot be written (database or disk is full)")
        return say(journal, digest, what, content)

    monkeypatch.setattr(Journal, "put", full)
    hub = meet(star, tmp_path, lines=lines)
    hub.run()
    all_finished(hub, star)
    assert len(tries) == 2
    assert any("cannot be written" in line for line in lines["coordinator"])


def guarded_accounts(study):
    terms = AccountTerms(relation="replace_one", unit="record")
    names = [f"body{agent}" for agent in range(study.agents)]
    return [open_account(name, Guarantee(8.0, 1e-2), terms) for name in names]


def covers(account, study, agent, rounds):
    """Whether an account holds at least what was answered in these rounds."""
    total = account.state().total
    charge = charge_for(study.signed.proposal.plan(), agent, sorted(rounds))
    squares = sum(n / event.multiplier**2 for event, n in charge.messages[0])
    return total.squares >= squares * (1 - 1e-9)


def test_a_site_that_never_comes_back_ends_the_run_and_only_answers_are_charged(star, tmp_path):
    accounts = guarded_accounts(star)
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    hub.run(until=lambda: hub.parties[1].progress().round >= 2)
    hub.die(2)
    hub.run()
    whole = charge_for(star.signed.proposal.plan(), 0, range(6)).messages[0][0][0].multiplier
    for agent in (0, 1):
        outcome = hub.parties[agent].outcome
        assert outcome.ending == "abandoned"
        assert "charite did not answer" in outcome.line
        assert outcome.model is None
        seen = {t for (who, t) in answers_seen(hub, star) if who == agent}
        assert covers(accounts[agent], star, agent, seen)
        assert 0 < accounts[agent].state().total.squares < 0.9 / whole**2
    # the one that is gone is charged for the whole run
    assert covers(accounts[2], star, 2, set(range(6)))


def test_a_finished_run_is_charged_whole_and_once_also_after_a_kill(star, tmp_path):
    accounts = guarded_accounts(star)
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    hub.run(until=lambda: hub.parties[1].progress().round >= 2)
    hub.die(1, back=3.0)
    hub.run()
    all_finished(hub, star, seed=None)
    for agent, account in enumerate(accounts):
        runs = account.state().charged
        assert [one.status for one in runs] == ["released"]
        assert covers(account, star, agent, set(range(6)))


@pytest.mark.parametrize("killed", [False, True])
def test_a_bad_cell_is_looked_at_after_the_mark_and_told_to_its_owner_alone(tmp_path, killed):
    study = make_study(tmp_path)
    text = study.files[1].read_text()
    study.files[1].write_text(text[: text.rindex("\n", 0, -1) + 1] + "1.0,spoilt-cell,0.5,a,no\n")
    accounts, lines = guarded_accounts(study), defaultdict(list)
    hub = meet(study, tmp_path, seed=None, accounts=accounts, lines=lines)
    if killed:  # between the mark and the first cell
        with mock.patch.object(Local, "records", side_effect=KilledError):
            hub.run(until=lambda: 1 not in hub.parties)
        assert [one.status for one in accounts[1].state().charged] == ["opened"]
    hub.run()
    assert hub.parties[1].outcome.ending == "refused"
    assert "x1" in hub.parties[1].outcome.line
    assert covers(accounts[1], study, 1, range(6))
    assert "its owner has the reason" in hub.parties["coordinator"].outcome.line
    told = [line for who in ("coordinator", 0, 2) for line in lines[who]]
    assert told
    assert not any("x1" in line or "spoilt" in line for line in told)
    assert not any(agent == 1 for agent, _ in answers_seen(hub, study))


def test_the_model_of_an_abandoned_run_is_released_only_if_the_proposal_said_so(tmp_path):
    study = make_study(tmp_path, release=True)
    hub = meet(study, tmp_path)
    hub.run(until=lambda: hub.parties[1].progress().round >= 2)
    hub.die(2)
    hub.run()
    models = [hub.parties[who].outcome.model for who in ("coordinator", 0, 1)]
    assert hub.parties[0].outcome.ending == "abandoned"
    for model in models:
        np.testing.assert_array_equal(model, models[0])
    assert models[0] is not None


def test_a_coordinator_killed_after_the_end_tells_it_to_all_who_missed_it(ring, tmp_path):
    """The heads are lost on the way to one site, and then the coordinator dies."""
    hub = meet(ring, tmp_path)

    def lost(sender, receiver, packet):
        dropped = receiver == 2 and hub.parties["coordinator"].outcome is not None
        return [] if dropped else [(0.0, packet)]

    hub.spoil = lost
    hub.run(until=lambda: hub.parties[0].outcome is not None)
    hub.die("coordinator")
    hub.spoil = lambda sender, receiver, packet: [(0.0, packet)]
    hub.join("coordinator", hub.makers["coordinator"])
    hub.run()
    all_finished(hub, ring)
