"""A study under the observer of sums: no answer is read, and the model is the simulated one."""

import dataclasses

import numpy as np
import pytest
from tests.federation.faults import SPECIAL, under_faults
from tests.federation.studies import make_study
from tests.federation.test_parties import (
    all_finished,
    model_of,
    said_once,
)
from tests.federation.wire import answers_seen, envelopes, local_of, meet, site_of, without_room
from tests.privacy.certified import certify

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.engine.running import check_certificate
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import Sum
from taciturn_federation import journal as journal_module
from taciturn_federation.envelope import COORDINATOR, Kind, Signer
from taciturn_federation.envelope import Packet
from taciturn_federation.journal import Journal
from taciturn_federation.local import charge_for, masked_trust
from taciturn_federation.masks import Masking, MaskKey, Masks, Unmasked, key_file
from taciturn_federation.reports import Check


@pytest.fixture(scope="session")
def summed(tmp_path_factory):
    """Three owners of unequal files, one of whom may collude, noisy-gradient, six rounds."""
    return make_study(tmp_path_factory.mktemp("summed"), observer="sum")


@pytest.fixture
def carried(monkeypatch):
    """The plain words of every round, by site; nothing but this test sees them."""
    plain, masked = {}, Masking.mask

    def watched(self, turn, heard, body):
        plain[self._agent, turn] = body
        return masked(self, turn, heard, body)

    monkeypatch.setattr(Masking, "masked", watched)
    return plain


def seal_of(study, sender=COORDINATOR):
    own = study.coordinator if sender == COORDINATOR else study.keys[sender]
    return Signer(study.signed.run, sender, own)


def key_files(study):
    return [key_file(study.signed.digest, agent) for agent in range(study.agents)]


def words(body):
    return np.frombuffer(body, "<i8")


def on_disk(folder):
    files = [f for f in folder.rglob("*") if f.is_file() and f.suffix not in (".csv", ".masks")]
    return b"\0".join(file.read_bytes() for file in files)


def test_the_model_is_that_of_one_machine_and_no_answer_is_seen_or_written(
    summed, tmp_path, carried
):
    hub = meet(summed, tmp_path)
    hub.run(until=lambda: hub.parties[0].progress().round >= 3)
    files = key_files(summed)
    secrets = [file.read_bytes() for file in files]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3
    hub.run()
    all_finished(hub, summed)
    np.testing.assert_array_equal(hub.parties[0].outcome.model, model_of(summed, 7))
    assert said_once(hub, summed)
    assert not any(file.exists() for file in files)
    sent = {place: body for place, (body,) in answers_seen(hub, summed).items()}
    assert sent.keys() == carried.keys()
    for turn in range(6):  # the sum is exact, and no message is what it carries
        both = [[one[agent, turn] for agent in range(3)] for one in (sent, carried)]
        masked, plain = (np.add.reduce(list(map(words, bodies))) for bodies in both)
        np.testing.assert_array_equal(masked, plain)
        assert all(np.all(words(one) != words(other)) for one, other in zip(*both, strict=True))
    for party in hub.parties.values():
        party._journal.close()
    hay = on_disk(tmp_path) + b"\0".join(packet.payload for _, packet in hub.seen)
    assert not [place for place, body in carried.items() if body in hay]
    assert not [secret for secret in secrets if secret in hay or secret.hex().encode() in hay]
    assert all(body in hay for body in sent.values())  # the search finds what is there


SUMMED = [
    {"centre": True},
    {"precision": "float32", "agents": 5, "observer": Sum(2)},
]


@pytest.mark.slow
@pytest.mark.parametrize("asked", SUMMED)
def test_whatever_may_be_summed_ends_as_on_one_machine_to_the_bit(tmp_path, asked):
    study = make_study(tmp_path, **{"observer": "sum", **asked})
    assert study.signed.proposal.plan().program.summed
    hub = meet(study, tmp_path)
    hub.run()
    all_finished(hub, study)
    for party in hub.parties.values():
        np.testing.assert_array_equal(party.outcome.model, model_of(study, 7))
        assert (party.outcome.centre is not None) == bool(asked.get("centre"))


@pytest.mark.slow
def test_without_masks_the_search_finds_the_answers(summed, tmp_path, carried, monkeypatch):
    """The planted fault: bytes are counted on to be masked, and are not."""
    watched = Masking.mask

    def plain(self, turn, heard, body):
        watched(self, turn, heard, body)
        return body

    monkeypatch.setattr(Masking, "masked", plain)
    hub = meet(summed, tmp_path)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round >= 1)
    assert any(carried[0, 0] in packet.payload for _, packet in hub.seen)


def test_the_certificate_rests_on_colluders_and_the_cipher_and_on_no_service(summed):
    certificate = local_of(summed, 0, None).certificate
    assert certificate.observer == "sum"
    assert "the cipher of the masks" in certificate.trust
    assert "at most 1 of them beside the aggregator" in certificate.trust
    assert "secure aggregation" not in " ".join(certificate.lines())
    assert "so nothing is credited to summation" in masked_trust(3, 2)
    # in one process nothing is masked, and nothing else is said
    assert "secure aggregation" in summed.signed.proposal.plan().certificate.trust


@pytest.mark.slow
def test_where_all_pairs_of_an_agent_may_collude_nothing_is_credited(tmp_path):
    study = make_study(tmp_path, observer=Sum(2))
    local = local_of(study, 0, None)
    alone = make_study(tmp_path / "messages").signed.proposal.plan()
    assert local.certificate.trust == masked_trust(3, 2)
    assert "so nothing is credited to summation" in local.certificate.trust
    largest = np.max(alone.ledger.scale, axis=0)
    assert np.all(local.plan.ledger.scale >= largest * (1 - 1e-6))


@pytest.mark.slow
def test_a_method_that_may_not_be_summed_runs_unmasked_and_says_so(tmp_path):
    study = make_study(tmp_path, observer="sum", algorithm="dp-admm", rounds=3)
    hub = meet(study, tmp_path)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round >= 1)
    assert isinstance(hub.parties[0]._masking, Unmasked)
    assert not isinstance(hub.parties[0]._masking, Masking)
    assert "nothing is credited to summation" in local_of(study, 0, None).certificate.trust


@pytest.mark.slow
def test_killed_in_any_round_a_site_says_the_same_masked_bytes(summed, tmp_path):
    hub, deaths = meet(summed, tmp_path), []

    def dies(who):
        if who in deaths or hub.parties[who].progress().round < len(deaths):
            return False
        deaths.append(who)
        return True

    hub.after = dies
    hub.run()
    assert set(deaths) == {"coordinator", 0, 1, 2}
    all_finished(hub, summed)
    assert said_once(hub, summed)


@pytest.mark.slow
def test_a_coordinator_that_lost_everything_has_the_same_set_and_sums(summed, tmp_path):
    hub = meet(summed, tmp_path)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round >= 4)
    hub.die("coordinator")
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"coordinator.journal{suffix}").unlink(missing_ok=True)
    hub.join("coordinator", hub.makers["coordinator"])
    hub.run()
    all_finished(hub, summed)
    assert said_once(hub, summed)


@pytest.mark.slow
def test_a_full_disk_leaves_a_round_to_be_masked_again(summed, tmp_path, monkeypatch):
    tries, add = [], Journal.add

    def full(journal, digest, sent):
        if sent.round == 3 and "site1" in journal.file.name and len(tries) < 2:
            tries.append(sent)
            return without_room(journal, lambda: add(journal, digest, sent))
        add(journal, digest, sent)

    monkeypatch.setattr(Journal, "add", full)
    hub = meet(summed, tmp_path, seed=None)
    hub.run()
    all_finished(hub, summed, seed=None)
    assert tries[0].message == tries[1].message
    assert said_once(hub, summed)


@pytest.mark.slow
def test_a_site_without_its_key_says_what_it_said_and_nothing_new(summed, tmp_path):
    lines = {"coordinator": [], 0: [], 1: [], 2: []}
    hub = meet(summed, tmp_path, lines=lines)
    hub.run(until=lambda: hub.parties[1].progress().round >= 2)
    hub.die(1)
    key_files(summed)[1].unlink()
    before = [place for place in answers_seen(hub, summed) if place[0] == 1]
    hub.join(1, hub.makers[1])
    hub.run()
    assert hub.parties[1].outcome.ending == "refused"
    assert "the key of this run's masks" in hub.parties[1].outcome.line
    assert hub.parties["coordinator"].outcome.ending == "abandoned"
    assert "masks" not in hub.parties["coordinator"].outcome.line
    assert [place for place in answers_seen(hub, summed) if place[0] == 1] == before
    assert said_once(hub, summed)


@pytest.mark.slow
def test_a_key_that_was_half_written_is_made_anew_and_one_that_was_shown_stays(summed, tmp_path):
    file = key_files(summed)[0]
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half")
    site = site_of(summed, 0, tmp_path)
    shown = {"mask": site._masking.public.hex()}
    site.close()
    again = site_of(summed, 0, tmp_path)
    assert {"mask": again._masking.public.hex()} == shown
    assert MaskKey(file.read_bytes()).public.hex() == shown["mask"]
    again.close()


# the set of participants


def acceptance(study, agent, key):
    values = {"digest": study.signed.digest, "mask": key}
    return seal_of(study, agent).seal_values(Kind.ACCEPTANCE, 0, values)


def started_with(study, folder, *changed):
    """A hub at which one site was told a start in which somebody's acceptance is another."""
    hub = meet(study, folder, sites=[0])
    own = hub.parties[0]._acceptance().payload
    keys = (bytes([9, agent]) * 16 for agent in range(study.agents))
    accepted = [acceptance(study, agent, key.hex()) for agent, key in enumerate(keys)]
    accepted[0] = own
    for agent, sealed in changed:
        accepted[agent] = sealed
    values = {"acceptances": [one.hex() for one in accepted]}
    start = seal_of(study).seal_values(Kind.START, 0, values)
    hub.tell(0, Packet(study.signed.subjects.proposal, start))
    return hub


def test_a_start_with_keys_that_are_none_or_anothers_is_refused(summed, tmp_path):
    own = b"".join([b"\x09\x01"] * 16).hex()
    planted = [
        ((1, acceptance(summed, 1, "00" * 32)), "sinai accepted without a key of masks"),
        ((2, acceptance(summed, 2, own)), "charite has the key of masks of sinai"),
        ((0, acceptance(summed, 0, "12" * 32)), "another key of masks for this site"),
    ]
    for number, (changed, line) in enumerate(planted):
        folder = tmp_path / str(number)
        folder.mkdir()
        hub = started_with(summed, folder, changed)
        assert hub.parties[0].outcome.ending == "refused", line
        assert line in hub.parties[0].outcome.line
        assert not answers_seen(hub, summed)
        hub.parties[0].close()
        key_files(summed)[0].unlink(missing_ok=True)
        for marker in (key_files(summed)[0].parent).glob("run-*.journal"):
            marker.unlink()


def test_an_acceptance_of_another_run_starts_nothing(summed, tmp_path):
    seal = Signer(bytes(32), 1, summed.keys[1])
    hub = started_with(summed, tmp_path, (1, seal.values(Kind.ACCEPTANCE, 0, {"mask": "12" * 32})))
    assert hub.parties[0].outcome.ending == "refused"
    assert "registry handed on what no site signed" in hub.parties[0].outcome.line
    assert hub.parties[0].progress().round == 0
    assert not answers_seen(hub, summed)


@pytest.mark.slow
def test_a_coordinator_that_shows_sites_different_sets_is_found_out(summed, tmp_path, carried):
    """The owner of site 2 colludes and signs two keys; site 0 is shown the other one."""
    hub = meet(summed, tmp_path)

    def shown(sender, receiver, packet):
        if receiver == 0 and packet.subject.endswith(".proposal"):
            envelope = summed.signed.opener.open(packet.payload)
            if envelope.kind == Kind.START:
                given = envelope.values["acceptances"]
                given[2] = acceptance(summed, 2, "12" * 32).hex()
                again = seal_of(summed).seal_values(Kind.START, 0, {"acceptances": given})
                return [(0.0, packet._replace(payload=again))]
        return [(0.0, packet)]

    hub.spoil = shown
    hub.run()
    outcome = hub.parties["coordinator"].outcome
    assert outcome.ending == "abandoned"
    assert "mercy answered round 0 having received something else" in outcome.line
    opened = np.add.reduce([words(body) for (body,) in answers_seen(hub, summed).values()])
    plain = np.add.reduce([words(body) for body in carried.values()])
    assert np.all(opened != plain)


def test_a_mask_that_is_left_out_ends_the_run_without_a_model(summed, tmp_path, monkeypatch):
    claim = Masks._claim

    def leaving_out(self, turn, heard, content):
        if turn == 2 and len(self._pairs) == 2 and self._pairs[0][0] != self._pairs[1][0]:
            self._pairs = self._pairs[:1]  # the one in the middle
        claim(self, turn, heard, content)

    monkeypatch.setattr(Masks, "_claim", leaving_out)
    hub = meet(summed, tmp_path)
    hub.run()
    outcome = hub.parties["coordinator"].outcome
    assert outcome.ending == "abandoned"
    assert "the masks do not cancel" in outcome.line
    assert outcome.model is None


@pytest.mark.slow
def test_a_process_that_forgot_what_it_masked_is_seen_by_the_witness(summed, tmp_path, monkeypatch):
    """The planted fault: two messages under one stream, whose difference is plain."""
    hub = meet(summed, tmp_path, seed=None)
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
    assert not said_once(hub, summed)
    first, again = (words(body) for body in answers_seen(hub, summed)[0, 0])
    assert np.all(np.abs(first - again) < 2**40)  # noise alone: far from uniform words


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
    terms = AccountTerms(relation="replace_one", unit="record", observer="sum", colluders=1)
    accounts = [open_account(f"body{n}", Guarantee(2.0, 1e-2), terms) for n in range(3)]
    hub = meet(summed, tmp_path, seed=None, accounts=accounts)
    hub.run(until=lambda: hub.parties[1].progress().round >= 2)
    hub.die(2)
    hub.run()
    plan = summed.signed.proposal.plan()
    whole = mu_of(charge_for(plan, 0, range(6)).summed[0])
    for agent in (0, 1):
        assert hub.parties[agent].outcome.ending == "abandoned"
        assert "charite did not answer" in hub.parties[agent].outcome.line
        assert hub.parties[agent].outcome.model is None
        assert not key_files(summed)[agent].exists()
        answered = sorted(t for who, t in answers_seen(hub, summed) if who == agent)
        paid = accounts[agent].state().total.squares
        assert paid >= mu_of(charge_for(plan, agent, answered).summed[0]) ** 2 * (1 - 1e-9)
        assert 0 < paid < 0.9 * whole**2


def opened_once(hub, study):
    """Whether the coordinator published one value for a round at most, as the witness saw."""
    published = {}
    for _, _, envelope in envelopes(hub, study, Kind.PUBLIC):
        published.setdefault(envelope.round, set()).add(envelope.body)
    return all(len(bodies) == 1 for bodies in published.values())


@pytest.mark.slow
def test_under_a_few_faults_nothing_is_opened_twice(summed, tmp_path, monkeypatch):
    _soak(summed, tmp_path, monkeypatch, [1])


@pytest.mark.slow
def test_under_thirty_faults_nothing_is_opened_twice_and_all_is_charged(
    summed, tmp_path, monkeypatch
):
    happened = _soak(summed, tmp_path, monkeypatch, range(2, 37))
    assert {"drop", "repeat", "delay", "replay", "kill"} <= set(happened)


def _soak(study, tmp_path, monkeypatch, seeds):
    """Runs under faults: models, endings, said bytes and accounts are looked at, and openings."""
    happened = set()
    for seed in seeds:
        if SPECIAL[seed % len(SPECIAL)] == "table":  # which takes a file with a bad cell
            continue
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.setenv("TACITURN_STATE_DIR", str(folder / "state"))
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
        faults = under_faults(study, folder, seed, private=bool(seed % 2))
        happened |= set(faults.happened)
        assert opened_once(faults.hub, study)
    return happened


def test_a_site_runs_under_masks_only_if_its_owner_has_the_code_of_the_others(summed, tmp_path):
    """A coordinator could name keys of its own for all other sites, and take off their masks."""
    others = make_study(tmp_path / "others", observer="sum", rounds=5)
    code = summed.signed.code
    summed.signed.check_agreed(code)
    summed.signed.check_agreed(code.replace("-", " ").upper())
    for wrong in (None, "", others.signed.code, code[:-1], code + "0"):
        with pytest.raises(InputError, match="stands in for the other sites"):
            summed.signed.check_agreed(wrong)
    assert (
        len(code.replace("-", "")) == 40
    )  # whoever makes two proposals of one code has 2^80 to try
    changed = dict(vars(summed.signed.participants[1]), key="00" * 32)
    member = type(summed.signed.participants[1])(**changed)
    sites = (summed.signed.participants[0], member, *summed.signed.participants[2:])
    played = summed.signed.model_copy(update={"participants": sites})
    assert played.code != code
    local = local_of(summed, 0, 7)
    said = Check(local, 1, 1, None)._of_keys()
    assert any(code in line for line in said)
    assert "compared the code of the proposal among themselves" in local.certificate.trust


@pytest.mark.slow
def test_a_head_that_could_not_be_written_once_ends_no_run(tmp_path, monkeypatch):
    study = make_study(tmp_path / "study", observer="sum", rounds=4)
    write, tries = journal_module.write_head, []

    def full(file, link, **how):
        body = link.body.replace(" ", "")
        if '"kind":"sent"' in body and '"round":1' in body and not tries:
            tries.append(link)
            raise OSError(28, "No space left on device")
        return write(file, link, **how)

    monkeypatch.setattr(journal_module, "write_head", full)
    hub = meet(study, tmp_path)
    hub.run(seconds=150)
    assert tries
    assert said_once(hub, study)
    all_finished(hub, study)
