"""What a party refuses, each with the violation planted; and the one line that says so."""

import dataclasses
import json
import shutil
import struct

import numpy as np
import pytest
from tests.federation.leaks import leaked, needles
from tests.federation.studies import key_of, make_study, write_records
from tests.federation.wire import (
    answers_seen,
    coordinator_of,
    envelopes,
    meet,
    messages_of,
    site_of,
)

from taciturn.algorithms import METHODS
from taciturn.budget import heads_folder
from taciturn.errors import InputError, PrivacyError
from taciturn.tables import Source
from taciturn_federation.envelope import (
    COORDINATOR,
    Envelope,
    Kind,
    Opener,
    Signer,
    Subjects,
    matches,
)
from taciturn_federation.envelope import Packet
from taciturn_federation.journal import Journal
from taciturn_federation.local import derive


@pytest.fixture
def half(star, tmp_path):
    """A run on a star that stands before its fourth round, and the lines that parties report."""
    lines = {"coordinator": [], 0: [], 1: [], 2: []}
    hub = meet(star, tmp_path, lines=lines)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round == 3)
    hub.queue = []
    return star, hub, lines


def seal_of(study, sender=COORDINATOR, key=None):
    own = study.coordinator if sender == COORDINATOR else study.keys[sender]
    return Signer(study.signed.run, sender, key or own)


def public(study, turn, body, **how):
    return Packet(study.signed.subjects.public(turn), seal_of(study, **how).seal(
        Kind.PUBLIC, turn, body
    ))  # fmt: skip


def value_of(hub, study, turn):
    """The body that the coordinator published for a round."""
    return next(e.body for _, _, e in envelopes(hub, study, Kind.PUBLIC) if e.round == turn)


def other(body):
    return struct.pack("<d", struct.unpack("<d", body[:8])[0] + 1e-9) + body[8:]


def ended(hub, who, ending, text):
    outcome = hub.parties[who].outcome
    assert outcome is not None
    assert outcome.ending == ending
    assert text in outcome.line, outcome.line
    assert "\n" not in outcome.line
    assert outcome.model is None


def test_another_content_for_a_round_that_was_answered_ends_the_run(half):
    study, hub, _ = half
    before = len(answers_seen(hub, study))
    hub.tell(0, public(study, 1, other(value_of(hub, study, 1))))
    ended(hub, 0, "refused", "registry sent round 1 twice with different content")
    hub.run()
    ended(hub, "coordinator", "abandoned", "mercy refused: registry sent round 1 twice")
    assert len(answers_seen(hub, study)) == before


def test_the_same_bytes_again_get_the_stored_answer(half):
    study, hub, _ = half
    hub.tell(0, public(study, 1, value_of(hub, study, 1)))
    assert hub.parties[0].outcome is None
    assert len(answers_seen(hub, study)[0, 1]) == 1


@pytest.mark.parametrize("turn", [7, 999_999_999])
def test_a_round_that_the_plan_has_not_is_refused(half, turn):
    study, hub, _ = half
    hub.tell(0, public(study, turn, value_of(hub, study, 1)))
    ended(hub, 0, "refused", "which it has none of in a plan of 6 rounds")


def test_a_query_of_another_shape_is_refused(half):
    study, hub, _ = half
    hub.tell(0, public(study, 3, value_of(hub, study, 1) + bytes(8)))
    ended(hub, 0, "refused", "the plan announces")


def test_a_query_that_is_not_finite_is_refused(half):
    study, hub, _ = half
    body = struct.pack("<d", float("nan")) + value_of(hub, study, 1)[8:]
    hub.tell(0, public(study, 3, body))
    ended(hub, 0, "refused", "not finite")


def _forged(study, hub):
    return public(study, 3, value_of(hub, study, 1), key=key_of(77))


def _of_another_run(study, hub):
    seal = Signer(bytes(32), COORDINATOR, study.coordinator)
    body = value_of(hub, study, 1)
    return Packet(study.signed.subjects.public(3), seal.seal(Kind.PUBLIC, 3, body))


def _cut(study, hub):
    packet = public(study, 3, value_of(hub, study, 1))
    return packet._replace(payload=packet.payload[:-70])


def _of_a_stranger(study, hub):
    return public(study, 3, value_of(hub, study, 1), sender=17, key=key_of(17))


def _on_anothers_subject(study, hub):
    sealed = seal_of(study, 1).seal(Kind.PUBLIC, 3, value_of(hub, study, 1))
    return Packet(study.signed.subjects.public(3), sealed)


def _for_somebody_else(study, hub):
    sealed = seal_of(study, 1).seal(Kind.MESSAGE, 2, b"a message along another edge")
    return Packet(study.signed.subjects.edge(1, 2), sealed)


def _nothing(study, hub):
    return Packet(study.signed.subjects.public(3), b"")


@pytest.mark.parametrize(
    ("plant", "line"),
    [
        (_forged, "was not signed with the key of registry"),
        (_of_another_run, "belongs to another run"),
        (_cut, "cut short or changed"),
        (_of_a_stranger, "takes no part in this run"),
        (_on_anothers_subject, "came on the subject of somebody else"),
        (_for_somebody_else, "for somebody else"),
        (_nothing, "was cut short"),
    ],
)
def test_what_nobody_signed_is_not_used_and_hurts_no_run(half, plant, line):
    study, hub, lines = half
    if plant is _of_a_stranger:
        packet = Packet(
            study.signed.subjects.public(3),
            Signer(study.signed.run, 17, key_of(17)).seal(Kind.PUBLIC, 3, b""),
        )
    else:
        packet = plant(study, hub)
    before = hub.parties[0].progress().round
    hub.tell(0, packet)
    assert hub.parties[0].outcome is None
    assert hub.parties[0].progress().round == before
    assert any(line in said for said in lines[0]), lines[0]


def test_a_site_passes_over_its_own_words_when_the_hub_sends_them_back(ring, tmp_path):
    """Taken for another's, its own word of progress would make it wait for ever."""
    study, hub = ring, meet(ring, tmp_path)
    hub.run(until=lambda: hub.parties[0].progress().round == 2)
    site, state = hub.parties[0], study.signed.subjects.state
    for _ in range(5):
        hub.now += 1.0
        site.tick(hub.now)
    waited = site.progress().seconds
    assert waited > 3
    for kind, values in ((Kind.PROGRESS, {}), (Kind.RESEND_REQUEST, {"kind": int(Kind.PUBLIC)})):
        own = Packet(state(0), seal_of(study, 0).seal_values(kind, 5, values))
        assert site.receive(own, hub.now) == []
        assert site.progress().seconds == waited
    others = Packet(state(1), seal_of(study, 1).seal_values(Kind.PROGRESS, 5, {}))
    site.receive(others, hub.now)
    assert site.progress().seconds == 0


def test_a_coordinator_that_tells_sites_different_things_is_found_out(star, tmp_path):
    """One site hears another value throughout, from a coordinator that answers for both."""
    hub = meet(star, tmp_path)
    honest = hub.spoil

    def equivocal(sender, receiver, packet):
        if sender == "coordinator" and receiver == 2 and ".public.2" in packet.subject:
            body = star.signed.opener.open(packet.payload).body
            return [(0.0, public(star, 2, other(body)))]
        return honest(sender, receiver, packet)

    hub.spoil = equivocal
    hub.run()
    ended(hub, "coordinator", "abandoned", "charite answered round 2 having received something else")


def test_no_site_accepts_a_model_if_the_heads_disagree(star, tmp_path):
    """A coordinator that hides the difference cannot sign the heads of others."""
    hub = meet(star, tmp_path)

    def equivocal(sender, receiver, packet):
        if packet.subject.endswith(".proposal"):
            envelope = star.signed.opener.open(packet.payload)
            if envelope.kind == Kind.HEADS:
                return [(0.0, _with_another_head(star, envelope))]
        return [(0.0, packet)]

    hub.spoil = equivocal
    hub.run(seconds=20)
    ended(hub, 0, "refused", "charite received something else than this site")


def _with_another_head(study, envelope):
    """The heads, with one that its site really signed, of another end."""
    heads = envelope.values["heads"]
    heads[2] = seal_of(study, 2).seal(Kind.HEAD, 6, b"", transcript=bytes(32)).hex()
    values = {"heads": heads}
    return Packet(study.signed.subjects.proposal, seal_of(study).seal_values(Kind.HEADS, 0, values))


def test_heads_that_lack_a_site_are_refused(star, tmp_path):
    hub = meet(star, tmp_path)

    def short(sender, receiver, packet):
        if packet.subject.endswith(".proposal"):
            envelope = star.signed.opener.open(packet.payload)
            if envelope.kind == Kind.HEADS:
                values = {"heads": envelope.values["heads"][:2]}
                sealed = seal_of(star).seal_values(Kind.HEADS, 0, values)
                return [(0.0, packet._replace(payload=sealed))]
        return [(0.0, packet)]

    hub.spoil = short
    hub.run(seconds=20)
    ended(hub, 0, "refused", "charite signed no head")


def test_a_start_without_every_acceptance_is_refused(star, tmp_path):
    hub = meet(star, tmp_path, sites=[0])
    values = {"acceptances": []}
    start = seal_of(star).seal_values(Kind.START, 0, values)
    hub.tell(0, Packet(star.signed.subjects.proposal, start))
    ended(hub, 0, "refused", "without the signed acceptance of every site")
    assert not answers_seen(hub, star)


def test_an_answer_that_a_site_gives_twice_ends_the_run_at_the_coordinator(half):
    study, hub, _ = half
    turn = hub.parties["coordinator"].progress().round
    chain = next(e.transcript for _, _, e in envelopes(hub, study) if e.round == turn - 1)
    coordinator = hub.parties["coordinator"]
    body = messages_of(hub, study)[0].body
    chain = coordinator._transcript
    for content in (body, other(body)):
        sealed = seal_of(study, 0).seal(Kind.MESSAGE, turn, content, transcript=chain)
        hub.tell("coordinator", Packet(study.signed.subjects.answer(0), sealed))
    ended(hub, "coordinator", "abandoned", "mercy answered round 3 twice with different content")


def test_a_neighbour_that_sends_two_messages_for_a_round_is_refused(ring, tmp_path):
    hub = meet(ring, tmp_path)
    hub.run(until=lambda: hub.parties[0].progress().round >= 3)
    said = next(e for _, _, e in envelopes(hub, ring) if e.sender == 1 and e.round == 0)
    sealed = seal_of(ring, 1).seal(Kind.MESSAGE, 0, other(said.body))
    hub.tell(0, Packet(ring.signed.subjects.edge(1, 0), sealed))
    ended(hub, 0, "refused", "sinai sent round 0 twice with different content")


def test_a_token_for_the_turn_of_another_holder_is_refused(relay, tmp_path):
    hub = meet(relay, tmp_path)
    hub.run(until=lambda: (0, 0) in answers_seen(hub, relay))
    said = next(e for _, _, e in envelopes(hub, relay) if e.round == 0)
    wrong, target = 2, 1  # the token of hop 0 is agent 0's to send
    sealed = seal_of(relay, wrong).seal(Kind.MESSAGE, 0, said.body)
    hub.tell(target, Packet(relay.signed.subjects.edge(wrong, target), sealed))
    ended(hub, target, "refused", "which it has none of")


def test_more_privacy_loss_than_the_account_has_is_no_acceptance(star, tmp_path):
    from tests.federation.test_parties import guarded_accounts

    accounts = guarded_accounts(star)
    tight = dataclasses.replace(accounts[0])
    for _ in range(200):
        reservation = None
        try:
            reservation = tight.reserve(*_charge(star))
        except InputError:
            break
        reservation.begin()
        reservation.close(released=True)
    with pytest.raises(InputError, match="epsilon"):
        site_of(star, 0, tmp_path, seed=None, account=tight)
    assert Journal(tmp_path / "site0.journal").run(star.signed.digest) is None


def _charge(study):
    from taciturn.engine.charging import purpose_of
    from taciturn_federation.local import charge_for

    plan = study.signed.proposal.plan()
    return charge_for(plan, 0, range(plan.rounds)), purpose_of(plan, "test")


# a site derives everything


def derived(study, agent=0, path=None, **how):
    source = Source(path=path or study.files[agent], target="ill", bounds=None)
    key = study.coordinator.public_key()
    return derive(study.signed, source, agent=agent, coordinator=key, **how)


def test_a_file_with_another_count_is_refused(star, tmp_path):
    write_records(tmp_path / "other.csv", 21, seed=1)
    with pytest.raises(InputError, match=r"has 21 records .* says 20 for mercy"):
        derived(star, path=tmp_path / "other.csv")


def test_a_file_with_other_columns_is_refused(star, tmp_path):
    text = star.files[0].read_text().replace("town", "village", 1)
    (tmp_path / "other.csv").write_text(text)
    with pytest.raises(InputError, match=r"village|town"):
        derived(star, path=tmp_path / "other.csv")


def test_a_file_that_changed_since_the_run_was_accepted_is_refused(tmp_path):
    study = make_study(tmp_path)
    hub = meet(study, tmp_path)
    hub.run(until=lambda: hub.parties[0].progress().round >= 2)
    hub.die(0)
    write_records(study.files[0], 20, seed=55)
    local = derived(study, seed=7)
    from taciturn_federation.site import Site

    with pytest.raises(InputError, match="changed since this run was accepted"):
        Site(local, Journal(tmp_path / "site0.journal"), study.keys[0])


def test_a_method_of_the_users_own_runs_only_if_the_owner_names_it(star):
    with pytest.raises(InputError, match="only if its owner names it"):
        derived(star, methods={})
    assert derived(star, methods=METHODS).agent == 0


def test_a_reproduction_is_stamped_and_no_account_takes_it(star, tmp_path):
    from tests.federation.test_parties import guarded_accounts

    assert derived(star).certificate.reproduction is False
    assert derived(star, seed=3).certificate.reproduction is True
    with pytest.raises(InputError, match="reproduction"):
        site_of(star, 0, tmp_path, seed=3, account=guarded_accounts(star)[0])


def test_the_signing_key_of_another_site_is_refused(star, tmp_path):
    from taciturn_federation.site import Site

    with pytest.raises(InputError, match="another site's"):
        Site(derived(star), Journal(tmp_path / "j"), star.keys[1])


def test_a_coordinator_needs_the_key_of_the_proposal(star, tmp_path):
    study = dataclasses.replace(star)
    study.coordinator = key_of(5)
    with pytest.raises(PrivacyError, match="another coordinator"):
        coordinator_of(study, tmp_path)


# the journal


def test_a_second_process_on_a_journal_stops(tmp_path):
    first = Journal(tmp_path / "a.journal")
    with pytest.raises(InputError, match="another process uses the journal"):
        Journal(tmp_path / "a.journal")
    first.close()
    Journal(tmp_path / "a.journal").close()


def test_a_copy_of_a_journal_in_use_stops_too(tmp_path):
    first = Journal(tmp_path / "a.journal")
    shutil.copy(tmp_path / "a.journal", tmp_path / "b.journal")
    for suffix in ("-wal", "-shm"):
        shutil.copy(tmp_path / f"a.journal{suffix}", tmp_path / f"b.journal{suffix}")
    with pytest.raises(InputError, match="another process"):
        Journal(tmp_path / "b.journal")
    first.close()


def test_a_journal_that_was_restored_from_a_backup_is_noticed(star, tmp_path):
    hub = meet(star, tmp_path)
    hub.run(until=lambda: hub.parties[0].progress().round >= 1)
    for party in hub.parties.values():
        party._journal.close()
    shutil.copy(tmp_path / "site0.journal", tmp_path / "backup")
    shutil.rmtree(tmp_path / "state" / "x", ignore_errors=True)
    for name in ("coordinator", 0, 1, 2):
        hub.die(name)
    for name in ("coordinator", 0, 1, 2):
        hub.join(name, hub.makers[name])
    hub.run()
    for party in hub.parties.values():
        party._journal.close()
    shutil.copy(tmp_path / "backup", tmp_path / "site0.journal")
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"site0.journal{suffix}").unlink(missing_ok=True)
    with pytest.raises(InputError, match="older than what was said from it"):
        Journal(tmp_path / "site0.journal")


def test_a_journal_without_a_head_is_refused(tmp_path):
    Journal(tmp_path / "a.journal").close()
    for head in heads_folder().glob("journal-*.head"):
        head.unlink()
    with pytest.raises(InputError, match="older than what was said"):
        Journal(tmp_path / "a.journal")


def test_a_run_is_not_begun_again_with_a_new_journal(star, tmp_path):
    site_of(star, 0, tmp_path).close()
    (tmp_path / "new").mkdir()
    with pytest.raises(InputError, match="begun with another journal"):
        site_of(star, 0, tmp_path / "new")


# envelopes and subjects


def test_an_envelope_opens_as_what_was_sealed_and_no_bit_may_change():
    seal = Signer(bytes(range(32)), 3, key_of(3))
    sealed = seal.seal(Kind.MESSAGE, 5, b"numbers", transcript=bytes(32))
    opener = Opener(seal.run, {3: "mercy"}, {3: key_of(3).public_key()})
    opened = opener.open(sealed)
    assert (opened.kind, opened.round, opened.body) == (Kind.MESSAGE, 5, b"numbers")
    assert isinstance(opened, Envelope)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(InputError):
            opener.open(bytes(changed))


def test_a_party_may_write_its_own_subjects_only():
    subjects = Subjects("s", "0" * 16)
    for pattern in subjects.of_agent(1, (0, 2))[0]:
        assert subjects.sender(pattern) == 1
    assert not any(matches(p, subjects.edge(0, 2)) for p in subjects.of_coordinator[1])
    with pytest.raises(InputError, match="no subject of the run"):
        subjects.sender("s.other.answer.1")


# nothing of a record leaves


def leaks(study, hub, folder, lines):
    """What of a record occurs in payloads, journals, accounts, heads or reported lines."""
    hay = [packet.payload for _, packet in hub.seen]
    hay += [f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.suffix != ".csv"]
    hay.append("\n".join(line for said in lines.values() for line in said).encode())
    return leaked(needles(study.files, study.data.parts.train_features), hay)


def test_no_row_is_in_what_leaves_a_site_and_a_planted_one_is_found(star, tmp_path):
    lines = {"coordinator": [], 0: [], 1: [], 2: []}
    hub = meet(star, tmp_path, seed=None, lines=lines)
    hub.run()
    assert hub.parties[0].outcome.ending == "finished"
    assert leaks(star, hub, tmp_path, lines) == []
    row = np.asarray(star.data.parts.train_features[7][:2], "<f4").tobytes()
    hub.seen.append((0, Packet("planted", b"x" + row)))
    assert leaks(star, hub, tmp_path, lines) == [row]
    text = star.files[1].read_text().splitlines()[4].split(",")[1]
    lines[1].append(f"cannot read {text}")
    assert text[:11].encode() in leaks(star, hub, tmp_path, lines)


def test_control_messages_are_json_and_nothing_else(star, tmp_path):
    hub = meet(star, tmp_path)
    hub.run()
    arrays = {Kind.PUBLIC, Kind.MESSAGE, Kind.FINAL}
    opened = [star.signed.opener.open(packet.payload) for _, packet in hub.seen]
    for envelope in opened:
        if envelope.kind in arrays:
            assert len(envelope.body) in (48, 144), envelope.kind
        elif envelope.body:
            assert isinstance(json.loads(envelope.body), dict)
