"""What a party refuses, each with the violation planted; and the one line that states it."""

import json
import struct

import numpy as np
import pytest
from tests.federation.leaks import leaked, needles
from tests.federation.studies import key_of, make_study, write_records
from tests.federation.wire import (
    changed,
    changing,
    check_ended,
    coordinator_of,
    local_of,
    meet,
    open_accounts,
    signer_of,
    site_of,
    words,
)

from taciturn.algorithms import METHODS
from taciturn.errors import InputError, PrivacyError
from taciturn.tables import Source
from taciturn_federation.envelope import (
    COORDINATOR,
    Kind,
    Opener,
    Packet,
    Signer,
    Subjects,
    matches,
)
from taciturn_federation.journal import Journal
from taciturn_federation.local import derive
from taciturn_federation.site import Site


@pytest.fixture
def half(star, tmp_path):
    """A run on a star that stands before its fourth round."""
    hub = meet(star, tmp_path).run_to(3)
    hub.queue = []
    return hub


def public(hub, turn, body, sender=COORDINATOR, **how):
    """Deliver a public value to one site."""
    payload = signer_of(hub.study, sender, **how).seal(Kind.PUBLIC, turn, body)
    hub.deliver(0, hub.study.signed.subjects.public(turn), payload)


def value_of(hub, turn):
    """The body that the coordinator published for a round."""
    return next(e.body for _, e in hub.envelopes(Kind.PUBLIC) if e.round == turn)


def test_the_same_bytes_again_get_the_stored_answer_and_other_ones_end_the_run(half):
    before = len(half.answers())
    public(half, 1, value_of(half, 1))
    assert half.outcome(0) is None
    assert len(half.answers()[0, 1]) == 1
    public(half, 1, changed(value_of(half, 1)))
    check_ended(half, 0, "refused", "registry sent round 1 twice with different content")
    half.run()
    check_ended(half, "coordinator", "abandoned", "mercy refused: registry sent round 1 twice")
    assert len(half.answers()) == before


@pytest.mark.parametrize(
    ("turn", "spoil", "line"),
    [
        (7, lambda body: body, "which it has none of in a plan of 6 rounds"),
        (999_999_999, lambda body: body, "which it has none of in a plan of 6 rounds"),
        (3, lambda body: body + bytes(8), "the plan announces"),
        (3, lambda body: body[:-8] + struct.pack("<d", float("nan")), "not finite"),
    ],
    ids=["round 7", "a far round", "another shape", "no number"],
)
def test_a_query_that_the_plan_has_not_is_refused(half, turn, spoil, line):
    public(half, turn, spoil(value_of(half, 1)))
    check_ended(half, 0, "refused", line)


def test_what_nobody_signed_is_not_used_and_hurts_no_run(half):
    study, subjects, body = half.study, half.study.signed.subjects, value_of(half, 1)
    right = signer_of(study).seal(Kind.PUBLIC, 3, body)
    planted = {
        "was not signed with the key of registry":
            (subjects.public(3), signer_of(study, key=key_of(77)).seal(Kind.PUBLIC, 3, body)),
        "belongs to another run": (
            subjects.public(3),
            Signer(bytes(32), COORDINATOR, study.coordinator).seal(Kind.PUBLIC, 3, body),
        ),
        "cut short or changed": (subjects.public(3), right[:-70]),
        "takes no part in this run":
            (subjects.public(3), signer_of(study, 17, key_of(17)).seal(Kind.PUBLIC, 3, b"")),
        "on the subject of another party":
            (subjects.public(3), signer_of(study, 1).seal(Kind.PUBLIC, 3, body)),
        "it is not for this party":
            (subjects.edge(1, 2), signer_of(study, 1).seal(Kind.MESSAGE, 2, b"along another edge")),
        "a message that was cut short": (subjects.public(3), b""),
    }  # fmt: skip
    before = half.parties[0].progress().round
    for line, (subject, payload) in planted.items():
        half.deliver(0, subject, payload)
        assert half.outcome(0) is None
        assert half.parties[0].progress().round == before
        assert line in half.lines[0][-1]


def test_a_site_ignores_its_messages_when_the_hub_sends_them_back(ring, tmp_path):
    """Taken for another's, its progress would make it wait for ever."""
    hub = meet(ring, tmp_path).run_to(2, 0)
    site, state = hub.parties[0], ring.signed.subjects.state
    for _ in range(5):
        hub.now += 1.0
        site.tick(hub.now)
    waited = site.progress().seconds
    assert waited > 3
    for kind, values in ((Kind.PROGRESS, {}), (Kind.RESEND_REQUEST, {"kind": int(Kind.PUBLIC)})):
        back = Packet(state(0), signer_of(ring, 0).seal_values(kind, 5, values))
        assert site.receive(back, hub.now) == []
        assert site.progress().seconds == waited
    others = Packet(state(1), signer_of(ring, 1).seal_values(Kind.PROGRESS, 5, {}))
    site.receive(others, hub.now)
    assert site.progress().seconds == 0


# heads: all have one transcript


def test_a_coordinator_that_sends_sites_different_values_is_found_out(star, tmp_path):
    """One site receives another value, from a coordinator that answers for both."""

    def equivocal(envelope):
        if envelope.round != 2:
            return envelope.payload
        named, value = envelope.body[:3], envelope.body[3:]
        return signer_of(star).seal(Kind.PUBLIC, 2, named + changed(value))

    hub = meet(star, tmp_path, spoil=changing(star, Kind.PUBLIC, equivocal, receiver=2)).run()
    line = "charite answered round 2 after receiving other values"
    check_ended(hub, "coordinator", "abandoned", line)


@pytest.mark.parametrize(
    ("dishonest", "line"),
    [
        (lambda head, heads: [*heads[:2], head], "charite received other values than this site"),
        (lambda head, heads: heads[:2], "charite signed no head"),
    ],
    ids=["another head", "a head short"],
)
def test_no_site_accepts_a_model_unless_all_signed_one_head(star, tmp_path, dishonest, line):
    """A coordinator that hides a difference cannot sign the heads of others."""
    head = signer_of(star, 2).seal(Kind.HEAD, 6, b"", transcript=bytes(32)).hex()

    def heads(envelope):
        values = {"heads": dishonest(head, envelope.values["heads"])}
        return signer_of(star).seal_values(Kind.HEADS, 0, values)

    hub = meet(star, tmp_path, spoil=changing(star, Kind.HEADS, heads)).run(seconds=20)
    check_ended(hub, 0, "refused", line)


def test_a_start_without_every_acceptance_is_refused(star, tmp_path):
    hub = meet(star, tmp_path, sites=[0])
    start = signer_of(star).seal_values(Kind.START, 0, {"acceptances": []})
    hub.deliver(0, star.signed.subjects.proposal, start)
    check_ended(hub, 0, "refused", "without the signed acceptance of every site")
    assert not hub.answers()


def test_an_answer_that_a_site_gives_twice_ends_the_run_at_the_coordinator(half):
    body = next(e.body for _, e in half.envelopes())
    transcript = half.parties["coordinator"]._transcript
    for content in (body, changed(body)):
        answer = signer_of(half.study, 0).seal(Kind.MESSAGE, 3, content, transcript=transcript)
        half.deliver("coordinator", half.study.signed.subjects.answer(0), answer)
    line = "mercy sent round 3 twice with different content"
    check_ended(half, "coordinator", "abandoned", line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "turn", "sender", "target"), [("ring", 0, 1, 0), ("tree", 1, 0, 1)],
    indirect=["study"],
)  # fmt: skip
def test_a_neighbour_that_sends_two_messages_for_a_round_is_refused(
    study, turn, sender, target, tmp_path
):
    hub = meet(study, tmp_path).run_to(3, target)
    first = next(e for _, e in hub.envelopes() if (e.sender, e.round) == (sender, turn))
    payload = signer_of(study, sender).seal(
        Kind.MESSAGE, turn, changed(first.body), transcript=first.transcript
    )
    hub.deliver(target, study.signed.subjects.edge(sender, target), payload)
    name = study.signed.participants[sender].name
    check_ended(hub, target, "refused", f"{name} sent round {turn} twice with different content")


@pytest.mark.slow
def test_a_token_for_the_turn_of_another_holder_is_refused(relay, tmp_path):
    hub = meet(relay, tmp_path)
    hub.run(until=lambda: (0, 0) in hub.answers())
    first = next(e for _, e in hub.envelopes() if e.round == 0)
    wrong, target = 2, 1  # the token of hop 0 is agent 0's to send
    payload = signer_of(relay, wrong).seal(Kind.MESSAGE, 0, first.body)
    hub.deliver(target, relay.signed.subjects.edge(wrong, target), payload)
    check_ended(hub, target, "refused", "which it has none of")


# along a tree: 2 is the root of the path 0 - 1 - 2 - 3 - 4


def another_total(study, *, signer, receiver):
    """A wire on which one node receives another total of round 1, signed by a node that lies."""

    def total(envelope):
        if envelope.round != 1:
            return envelope.payload
        body, transcript = changed(envelope.body), envelope.transcript
        return signer_of(study, signer).seal(Kind.TOTAL, 1, body, transcript=transcript)

    return changing(study, Kind.TOTAL, total, receiver=receiver)


@pytest.mark.slow
def test_a_node_cannot_forward_another_total_than_the_root_signed(tree, tmp_path):
    hub = meet(tree, tmp_path, spoil=another_total(tree, signer=1, receiver=0)).run()
    check_ended(hub, 0, "refused", "sinai sent a message of round 1, which it has none of")
    assert hub.outcome("coordinator").ending == "abandoned"


@pytest.mark.slow
def test_a_root_that_sends_branches_different_totals_is_found_out(tree, tmp_path):
    hub = meet(tree, tmp_path, spoil=another_total(tree, signer=2, receiver=3)).run()
    line = "lariboisiere, guys received other values than were published"
    check_ended(hub, "coordinator", "abandoned", line)
    assert {party.outcome.model for party in hub.parties.values()} == {None}


@pytest.mark.slow
def test_under_masks_branches_that_received_different_totals_open_nothing(
    masked_tree, tmp_path, carried
):
    hub = meet(masked_tree, tmp_path, spoil=another_total(masked_tree, signer=2, receiver=3)).run()
    check_ended(hub, 2, "refused", "the masks do not cancel")
    assert {e.round for _, e in hub.envelopes(Kind.TOTAL)} == {0, 1}
    below = [np.add.reduce([words(b) for b in hub.answers()[a, 2]]) for a in (1, 3)]
    plain = np.add.reduce([words(carried[agent, 2]) for agent in (0, 1, 3, 4)])
    assert np.all(np.add.reduce(below) != plain)


@pytest.mark.slow
def test_a_root_that_ends_with_another_model_than_its_heads_gives_none(tree, tmp_path):
    """It sends one site another end than the coordinator."""

    def final(envelope):
        body, transcript = changed(envelope.body), envelope.transcript
        return signer_of(tree, 2).seal(Kind.FINAL, 4, body, transcript=transcript)

    spoil = changing(tree, Kind.FINAL, final, sender=2, receiver=4)
    hub = meet(tree, tmp_path, spoil=spoil).run()
    check_ended(hub, "coordinator", "abandoned", "guys received other values")


# a site derives everything


def derived(study, agent=0, path=None, **how):
    source = Source(path=path or study.files[agent], target="ill", bounds=None)
    key = study.coordinator.public_key()
    return derive(study.signed, source, agent=agent, coordinator=key, **how)


def test_a_file_with_another_count_or_other_columns_is_refused(star, tmp_path):
    other = tmp_path / "other.csv"
    write_records(other, 21, seed=1)
    with pytest.raises(InputError, match=r"has 21 records .* says 20 for mercy"):
        derived(star, path=other)
    other.write_text(star.files[0].read_text().replace("town", "village", 1))
    with pytest.raises(InputError, match=r"village|town"):
        derived(star, path=other)


def test_a_file_that_changed_since_the_run_was_accepted_is_refused(tmp_path):
    study = make_study(tmp_path, rounds=2)
    site_of(study, 0, tmp_path).close()
    write_records(study.files[0], 20, seed=55)
    with pytest.raises(InputError, match="changed since this run was accepted"):
        Site(derived(study, seed=7), Journal(tmp_path / "site0.journal"), study.keys[0])


def test_a_method_of_the_users_own_runs_only_if_the_owner_names_it(star):
    with pytest.raises(InputError, match="only if its owner names it"):
        derived(star, methods={})
    assert derived(star, methods=METHODS).agent == 0


def test_a_reproduction_is_stamped_and_no_account_takes_it(star, tmp_path):
    assert derived(star).certificate.reproduction is False
    assert derived(star, seed=3).certificate.reproduction is True
    with pytest.raises(InputError, match="reproduction"):
        site_of(star, 0, tmp_path, seed=3, account=open_accounts(star)[0])


def test_the_signing_key_of_another_site_or_coordinator_is_refused(star, tmp_path):
    with pytest.raises(InputError, match="another site's"):
        Site(local_of(star, 0, None), Journal(tmp_path / "j"), star.keys[1])
    study = type(star)(**{**vars(star), "coordinator": key_of(5)})
    with pytest.raises(PrivacyError, match="another coordinator"):
        coordinator_of(study, tmp_path)


# envelopes and subjects


def test_an_envelope_opens_as_what_was_sealed_and_no_bit_may_change():
    signer = Signer(bytes(range(32)), 3, key_of(3))
    payload = signer.seal(Kind.MESSAGE, 5, b"numbers", transcript=bytes(32))
    opener = Opener(signer.run, {3: "mercy"}, {3: key_of(3).public_key()})
    envelope = opener.open(payload)
    assert (envelope.kind, envelope.round, envelope.body) == (Kind.MESSAGE, 5, b"numbers")
    for place in range(len(payload)):
        spoilt = bytearray(payload)
        spoilt[place] ^= 1
        with pytest.raises(InputError):
            opener.open(bytes(spoilt))


def test_a_party_may_write_its_own_subjects_only():
    subjects = Subjects("s", "0" * 16)
    for pattern in subjects.of_agent(1, (0, 2))[0]:
        assert subjects.sender(pattern) == 1
    assert not any(matches(p, subjects.edge(0, 2)) for p in subjects.of_coordinator[1])
    with pytest.raises(InputError, match="no subject of the run"):
        subjects.sender("s.other.answer.1")


# nothing of a record leaves


def leaks(hub, folder):
    """What of a record occurs in payloads, journals, accounts, heads or reported lines."""
    hay = [packet.payload for _, packet in hub.seen]
    hay += [f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.suffix != ".csv"]
    hay.append("\n".join(line for lines in hub.lines.values() for line in lines).encode())
    return leaked(needles(hub.study.files, hub.study.data.parts.train_features), hay)


def test_no_row_is_in_what_leaves_a_site_and_a_planted_one_is_found(star, tmp_path):
    hub = meet(star, tmp_path, seed=None).run()
    assert hub.outcome(0).ending == "finished"
    assert leaks(hub, tmp_path) == []
    row = np.asarray(star.data.parts.train_features[7][:2], "<f4").tobytes()
    hub.seen.append((0, Packet("planted", b"x" + row)))
    assert leaks(hub, tmp_path) == [row]
    text = star.files[1].read_text().splitlines()[4].split(",")[1]
    hub.lines[1].append(f"cannot read {text}")
    assert text[:11].encode() in leaks(hub, tmp_path)


def test_control_messages_are_json_and_nothing_else(finished):
    hub, _ = finished
    arrays = {Kind.PUBLIC, Kind.MESSAGE, Kind.FINAL}
    for envelope in (hub.study.signed.opener.open(packet.payload) for _, packet in hub.seen):
        if envelope.kind in arrays:
            named = 3 if envelope.kind == Kind.PUBLIC else 0  # who is asked, a byte each
            assert len(envelope.body) - named in (48, 144), envelope.kind
        elif envelope.body:
            assert isinstance(json.loads(envelope.body), dict)
