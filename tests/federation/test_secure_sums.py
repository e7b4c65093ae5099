"""A study under the observer of sums: no answer is read, and the model is the simulated one."""

import dataclasses
import os
import time

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.federation.faults import SPECIAL, under_faults
from tests.federation.studies import kinds, make_study
from tests.federation.wire import (
    changing,
    check_ended,
    check_finished,
    everything,
    local_of,
    meet,
    model_of,
    open_accounts,
    signer_of,
    site_of,
    words,
)
from tests.privacy.certified import certify

from taciturn.engine.running import check_certificate
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import Sum
from taciturn_federation.envelope import Kind, Signer
from taciturn_federation.exchange import TreeExchange
from taciturn_federation.journal import Journal
from taciturn_federation.local import charge_for, masked_trust
from taciturn_federation.masks import Masking, Masks, key_file, remove_stale_keys
from taciturn_federation.reports import Check

DAY = 86_400.0
# whose answers are in what a node of the path sends; 2 is its root
BELOW = {0: [0], 1: [0, 1], 3: [3, 4], 4: [4]}


def key_files(study):
    return [key_file(study.signed.digest, agent) for agent in range(study.agents)]


def total(bodies):
    return np.add.reduce(list(map(words, bodies)))


def test_the_model_is_that_of_one_machine_and_no_answer_is_seen_or_written(
    summed, tmp_path, carried
):
    hub = meet(summed, tmp_path).run_to(3, 0)
    files = key_files(summed)
    secrets = [file.read_bytes() for file in files]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3
    check_finished(hub.run())
    np.testing.assert_array_equal(hub.outcome(0).model, model_of(summed, 7))
    assert not any(file.exists() for file in files)
    sent = {place: body for place, (body,) in hub.answers().items()}
    assert sent.keys() == carried.keys()
    for turn in range(6):  # the sum is exact, and no message is what it carries
        both = [[one[agent, turn] for agent in range(3)] for one in (sent, carried)]
        np.testing.assert_array_equal(*map(total, both))
        assert all(np.all(words(one) != words(other)) for one, other in zip(*both, strict=True))
    hay = everything(hub, tmp_path)
    assert not [place for place, body in carried.items() if body in hay]
    assert not [secret for secret in secrets if secret in hay or secret.hex().encode() in hay]
    assert all(body in hay for body in sent.values())  # the search finds what is there


def test_under_masks_only_the_total_can_be_read_on_any_edge_or_disk(masked_tree, tmp_path, carried):
    hub = meet(masked_tree, tmp_path).run()
    check_finished(hub)
    np.testing.assert_array_equal(hub.outcome(0).model, model_of(masked_tree, 7))
    sent = {place: body for place, (body,) in hub.answers().items()}
    assert sent.keys() == {(agent, turn) for agent in BELOW for turn in range(4)}
    plain = {(agent, turn): total(carried[one, turn] for one in below)
             for agent, below in BELOW.items() for turn in range(4)}  # fmt: skip
    for place, body in sent.items():
        assert np.all(words(body) != plain[place])
    totals = {e.round: e.body for _, e in hub.envelopes(Kind.TOTAL)}
    for turn, body in totals.items():
        np.testing.assert_array_equal(words(body), total(carried[a, turn] for a in range(5)))
    hay = everything(hub, tmp_path)
    found = [*carried.values(), *(one.astype("<i8").tobytes() for one in plain.values())]
    assert not [body for body in found if body in hay]
    assert all(body in hay for body in (*sent.values(), *totals.values()))


@pytest.fixture
def unmasked(carried, monkeypatch):
    """The planted fault: bytes are counted on to be masked, and are not."""
    for name in ("mask", "mask_evaluation"):
        watched = getattr(Masking, name)

        def plain(self, turn, transcript, body, *members, watched=watched):
            watched(self, turn, transcript, body, *members)
            return body

        monkeypatch.setattr(Masking, name, plain)
    return carried


@kinds(slow=("summed", "evaluated_sums"))
def test_without_masks_the_search_finds_the_answers(study, tmp_path, unmasked):
    hay = everything(meet(study, tmp_path).run(), tmp_path)
    assert all(body in hay for body in unmasked.values())


@pytest.mark.slow
def test_without_masks_a_leaf_and_a_subtree_are_read_on_their_edges(
    masked_tree, tmp_path, unmasked
):
    answers = meet(masked_tree, tmp_path).run().answers()
    assert answers[0, 0] == {unmasked[0, 0]}
    both = total([unmasked[0, 0], unmasked[1, 0]])
    assert answers[1, 0] == {both.astype("<i8").tobytes()}


SUMMED = [
    {"centre": True},
    {"precision": "float32", "agents": 5, "observer": Sum(2)},
]


@pytest.mark.slow
@pytest.mark.parametrize("how", SUMMED)
def test_whatever_may_be_summed_ends_as_on_one_machine_to_the_bit(tmp_path, how):
    study = make_study(tmp_path, **{"observer": "sum", **how})
    assert study.signed.proposal.plan().program.summed
    hub = meet(study, tmp_path).run()
    check_finished(hub)
    for party in hub.parties.values():
        np.testing.assert_array_equal(party.outcome.model, model_of(study, 7))
        assert (party.outcome.centre is not None) == bool(how.get("centre"))


def test_the_certificate_rests_on_colluders_and_the_cipher_and_on_no_service(summed):
    certificate = local_of(summed, 0, None).certificate
    assert certificate.observer == "sum"
    assert "the cipher of the masks" in certificate.trust
    assert "at most 1 of them beside the aggregator" in certificate.trust
    assert "secure aggregation" not in " ".join(certificate.lines())
    assert "so nothing is credited to summation" in masked_trust(3, 2)
    # in one process nothing is masked, and nothing else is stated
    assert "secure aggregation" in summed.signed.proposal.plan().certificate.trust


@pytest.mark.slow
def test_where_all_pairs_of_an_agent_may_collude_nothing_is_credited(tmp_path):
    local = local_of(make_study(tmp_path, observer=Sum(2)), 0, None)
    alone = make_study(tmp_path / "messages").signed.proposal.plan()
    assert local.certificate.trust == masked_trust(3, 2)
    largest = np.max(alone.ledger.scale, axis=0)
    assert np.all(local.plan.ledger.scale >= largest * (1 - 1e-6))


@pytest.mark.slow
def test_a_method_that_may_not_be_summed_runs_unmasked_and_its_certificate_states_it(tmp_path):
    study = make_study(tmp_path, observer="sum", algorithm="dp-admm", rounds=3)
    hub = meet(study, tmp_path).run_to(1)
    assert hub.parties[0]._masking is None
    assert "nothing is credited to summation" in local_of(study, 0, None).certificate.trust


# the key of a run's masks


@pytest.mark.slow
def test_a_site_without_its_key_sends_what_it_sent_and_nothing_new(summed, tmp_path):
    hub = meet(summed, tmp_path).run_to(2, 1)
    hub.kill(1)
    key_files(summed)[1].unlink()
    before = [place for place in hub.answers() if place[0] == 1]
    hub.join(1)
    hub.run()
    check_ended(hub, 1, "refused", "the key of this run's masks")
    assert hub.outcome("coordinator").ending == "abandoned"
    assert "masks" not in hub.outcome("coordinator").line
    assert [place for place in hub.answers() if place[0] == 1] == before
    assert hub.answered_once()


def test_a_key_that_was_half_written_is_replaced_and_one_that_was_shown_stays(summed, tmp_path):
    file = key_files(summed)[0]
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half")
    site = site_of(summed, 0, tmp_path)
    shown = site._masking.public
    site.close()
    again = site_of(summed, 0, tmp_path)
    key = X25519PrivateKey.from_private_bytes(file.read_bytes())
    assert again._masking.public == key.public_key().public_bytes_raw() == shown
    again.close()


@pytest.fixture
def killed(summed, tmp_path):
    """The journal of a site that was killed while it waited for the others, and its key's file."""
    meet(summed, tmp_path, seed=None).close()
    journal = Journal(tmp_path / "site0.journal")
    yield journal, key_files(summed)[0]
    journal.close()


def test_a_key_goes_with_a_run_that_no_process_resumed_and_no_other(summed, killed):
    journal, file = killed
    digest = summed.signed.digest
    now = file.stat().st_mtime
    assert remove_stale_keys(journal, now=now + DAY - 60) == []  # the machine may have been off
    assert remove_stale_keys(journal, now=now + 10 * DAY, but=digest) == []  # it is about to resume
    assert file.exists()
    (line,) = remove_stale_keys(journal, now=now + DAY + 60)
    assert "was given up" in line
    assert not file.exists()
    assert all(other.exists() for other in key_files(summed)[1:])  # they are other sites'
    assert journal.run(digest).phase == "abandoned"
    assert remove_stale_keys(journal, now=now + 20 * DAY) == []


def test_a_key_that_a_killed_process_left_after_the_end_goes_at_once(summed, killed):
    journal, file = killed
    journal.set_phase(summed.signed.digest, "finished")
    (line,) = remove_stale_keys(journal)
    assert line.endswith("is over; the key of its masks was removed")
    assert not file.exists()
    assert journal.run(summed.signed.digest).phase == "finished"


def test_a_start_of_the_run_resumes_it_unless_it_was_given_up(summed, tmp_path):
    hub = meet(summed, tmp_path, seed=None).run_to(2, 0)
    hub.kill(0)
    file = key_files(summed)[0]
    os.utime(file, (1e9, 1e9))
    hub.join(0)
    assert time.time() - file.stat().st_mtime < DAY
    hub.kill(0)
    journal = Journal(tmp_path / "site0.journal")
    before = journal.entries(summed.signed.digest)
    remove_stale_keys(journal, now=time.time() + 2 * DAY)
    journal.close()
    hub.join(0)
    assert hub.outcome(0).ending == "abandoned"
    hub.run()
    assert hub.parties[0]._journal.entries(summed.signed.digest) == before
    assert hub.endings() == {"abandoned"}


# the set of participants


def acceptance(study, agent, key):
    values = {"digest": study.signed.digest, "mask": key}
    return signer_of(study, agent).seal_values(Kind.ACCEPTANCE, 0, values)


def started_with(study, folder, agent, payload):
    """A hub at which one site received a start in which the acceptance of an agent is another."""
    folder.mkdir()
    hub = meet(study, folder, sites=[0])
    keys = (bytes([9, agent]) * 16 for agent in range(study.agents))
    accepted = [acceptance(study, agent, key.hex()) for agent, key in enumerate(keys)]
    accepted[0] = hub.parties[0]._acceptance().payload
    accepted[agent] = payload
    start = {"acceptances": [one.hex() for one in accepted]}
    start = signer_of(study).seal_values(Kind.START, 0, start)
    hub.deliver(0, study.signed.subjects.proposal, start)
    return hub


def test_a_start_with_keys_that_are_none_or_anothers_is_refused(summed, tmp_path, monkeypatch):
    run = Signer(bytes(32), 1, summed.keys[1])
    planted = [
        (1, acceptance(summed, 1, "00" * 32), "sinai accepted without a mask key"),
        (2, acceptance(summed, 2, "0901" * 16), "charite has the mask key of sinai"),
        (0, acceptance(summed, 0, "12" * 32), "another mask key for this site"),
        (1, run.seal_values(Kind.ACCEPTANCE, 0, {"mask": "12" * 32}),
         "registry enclosed a message that no site signed"),
    ]  # fmt: skip
    for number, (agent, payload, line) in enumerate(planted):
        monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / f"state{number}"))
        hub = started_with(summed, tmp_path / str(number), agent, payload)
        check_ended(hub, 0, "refused", line)
        assert not hub.answers()
        hub.close()


@pytest.mark.slow
def test_a_coordinator_that_shows_sites_different_sets_is_found_out(summed, tmp_path, carried):
    """The owner of site 2 colludes and signs two keys; site 0 is shown the other one."""

    def start(envelope):
        given = envelope.values["acceptances"]
        given[2] = acceptance(summed, 2, "12" * 32).hex()
        return signer_of(summed).seal_values(Kind.START, 0, {"acceptances": given})

    hub = meet(summed, tmp_path, spoil=changing(summed, Kind.START, start, receiver=0)).run()
    line = "mercy answered round 0 after receiving other values"
    check_ended(hub, "coordinator", "abandoned", line)
    opened = total(body for (body,) in hub.answers().values())
    assert np.all(opened != total(carried.values()))


def test_a_mask_that_is_left_out_ends_the_run_without_a_model(summed, tmp_path, monkeypatch):
    claim = Masks._claim

    def leaving_out(self, turn, transcript, content):
        if turn == 2 and len(self._pairs) == 2 and self._pairs[0][0] != self._pairs[1][0]:
            self._pairs = self._pairs[:1]  # the one in the middle
        claim(self, turn, transcript, content)

    monkeypatch.setattr(Masks, "_claim", leaving_out)
    hub = meet(summed, tmp_path).run()
    check_ended(hub, "coordinator", "abandoned", "the masks do not cancel")


def test_a_node_that_leaves_out_what_is_below_it_ends_the_run_without_a_model(
    masked_tree, tmp_path, monkeypatch
):
    outgoing = TreeExchange.outgoing

    def leaving_out(self, message, bodies):
        return message if self.agent == 1 else outgoing(self, message, bodies)

    monkeypatch.setattr(TreeExchange, "outgoing", leaving_out)
    hub = meet(masked_tree, tmp_path).run()
    check_ended(hub, 2, "refused", "the masks do not cancel")
    assert hub.outcome("coordinator").model is None


@pytest.mark.slow
def test_a_site_that_masks_its_evaluation_for_another_set_ends_the_run_without_a_model(
    evaluated_sums, tmp_path, monkeypatch
):
    mask = Masking.mask_evaluation

    def alone(self, agents, transcript, body):
        return mask(self, [0, 1] if self._agent == 1 else agents, transcript, body)

    monkeypatch.setattr(Masking, "mask_evaluation", alone)
    hub = meet(evaluated_sums, tmp_path).run(seconds=20)
    assert hub.endings() <= {"refused", "abandoned"}
    assert any("do not cancel" in party.outcome.line for party in hub.parties.values())
    assert all(party.outcome.model is None for party in hub.parties.values())


def test_a_site_runs_under_masks_only_if_its_owner_has_the_code_of_the_others(summed, tmp_path):
    """A coordinator could name its keys for all other sites, and take off their masks."""
    others = make_study(tmp_path / "others", observer="sum", rounds=5)
    code = summed.signed.code
    summed.signed.check_agreed(code)
    summed.signed.check_agreed(code.replace("-", " ").upper())
    for wrong in (None, "", others.signed.code, code[:-1], code + "0"):
        with pytest.raises(InputError, match="impersonates the other sites"):
            summed.signed.check_agreed(wrong)
    assert len(code.replace("-", "")) == 40  # two proposals of one code take 2^80 attempts
    member = summed.signed.participants[1].model_copy(update={"key": "00" * 32})
    sites = (summed.signed.participants[0], member, *summed.signed.participants[2:])
    assert summed.signed.model_copy(update={"participants": sites}).code != code
    local = local_of(summed, 0, 7)
    assert any(code in line for line in Check(local, 1, 1, None).lines)
    assert "compared the code of the proposal among themselves" in local.certificate.trust


# accounting


def test_noise_for_all_agents_with_a_colluder_declared_is_refused(summed):
    """The planted fault: 1/sqrt(A) of the noise where one of the agents may collude."""
    plan = summed.signed.proposal.plan()
    less = np.sqrt(2 / 3)
    ledger = dataclasses.replace(plan.ledger, scale=plan.ledger.scale * less)
    program = dataclasses.replace(plan.program, scales=plan.program.scales * less)
    edited = dataclasses.replace(plan, ledger=ledger, program=program)
    check_certificate(plan)
    with pytest.raises(PrivacyError, match="certificate"):
        check_certificate(edited)
    terms = plan.terms
    found = {k: certify(ledger, delta=terms.delta, adjacency=terms.adjacency, observer=Sum(k))
             for k in (0, 1)}  # fmt: skip
    assert found[0].epsilon <= terms.epsilon * (1 + 1e-6)
    assert found[1].epsilon > 1.1 * terms.epsilon


def mu_of(events):
    return float(np.sqrt(sum(count / event.multiplier**2 for event, count in events)))


def test_a_site_is_charged_for_sums_as_every_coalition_tried_by_hand(tmp_path):
    """Unequal counts; rounds that were answered, for accounts of sums and of messages."""
    study = make_study(tmp_path, agents=4, rows=15, observer="sum")
    plan, rounds = study.signed.proposal.plan(), [0, 1, 4]
    ledger = plan.ledger
    for agent in range(4):
        charge = charge_for(plan, agent, rounds)
        worst = 0.0
        for colluder in (other for other in range(4) if other != agent):
            honest = [other for other in range(4) if other != colluder]
            variance = np.sum(ledger.scale[honest][:, rounds] ** 2, axis=0)
            worst = max(worst, float(np.sum(ledger.moves[agent, rounds] ** 2 / variance)))
        assert mu_of(charge.summed[0]) == pytest.approx(np.sqrt(worst), rel=1e-8)
        alone = ledger.moves[agent, rounds] ** 2 / ledger.scale[agent, rounds] ** 2
        assert mu_of(charge.messages[0]) == pytest.approx(np.sqrt(np.sum(alone)), rel=1e-8)
        assert charge.colluders == 1
    assert charge_for(plan, 0, []).summed == ((),)


@pytest.mark.slow
def test_a_lost_site_ends_the_run_and_an_account_of_sums_has_what_was_answered(summed, tmp_path):
    accounts = open_accounts(summed, guarantee=(2.0, 1e-2), observer="sum", colluders=1)
    hub = meet(summed, tmp_path, seed=None, accounts=accounts).run_to(2, 1)
    hub.kill(2)
    hub.run()
    plan = summed.signed.proposal.plan()
    whole = mu_of(charge_for(plan, 0, range(6)).summed[0])
    for agent in (0, 1):
        check_ended(hub, agent, "abandoned", "charite did not answer")
        assert not key_files(summed)[agent].exists()
        answered = sorted(turn for sender, turn in hub.answers() if sender == agent)
        paid = accounts[agent].state().total.squares
        assert paid >= mu_of(charge_for(plan, agent, answered).summed[0]) ** 2 * (1 - 1e-9)
        assert 0 < paid < 0.9 * whole**2


@pytest.mark.slow
def test_under_twenty_faults_nothing_is_opened_twice_and_all_is_charged(
    summed, tmp_path, monkeypatch
):
    """No value of a round is published twice, so no two sums over one round are opened."""
    happened = set()
    for seed in range(1, 25):
        if SPECIAL[seed % len(SPECIAL)] == "table":  # which takes a file with a bad cell
            continue
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.setenv("TACITURN_STATE_DIR", str(folder / "state"))
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
        faults = under_faults(summed, folder, seed, private=bool(seed % 2))
        happened |= set(faults.happened)
        published = faults.hub.answers(Kind.PUBLIC).values()
        assert all(len(bodies) == 1 for bodies in published)
    assert {"drop", "repeat", "delay", "replay", "kill"} <= happened
