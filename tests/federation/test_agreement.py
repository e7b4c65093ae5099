"""Keys stay on their machine, documents are signed under a label, and a study admits by name."""

import ast
import base64
import itertools
import json
import os
import pathlib
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.federation.hubs import admitted_study, joined, proposed
from tests.federation.studies import key_of, make_study, write_records

import taciturn_federation
from taciturn.errors import InputError, PrivacyError
from taciturn_federation import (
    Invitation,
    JoinRequest,
    Nkey,
    SignedProposal,
    admit,
    folders,
    hub_configuration,
    join,
    open_site,
    open_study,
    renew_site,
    sign,
    strike,
)
from taciturn_federation.agreement import _unsigned, check_party
from taciturn_federation.envelope import Kind, Opener, Signer
from taciturn_federation.keys import (
    Label,
    certify_nkey,
    check_certificate,
    check_nkey,
    fingerprint,
    is_signed,
    new_hub,
    nkey_bytes,
    nkey_text,
    public_key,
    public_text,
    read_private,
    sign_labelled,
    write_key,
    write_private,
)
from taciturn_federation.moving import move_site, move_study

# an example of the documentation of NATS: the 32 bytes of its seed, and its public half
SEED = "29497ba00f41dd45936b4cc4bda1decb67c128e69fb3d490ee820daf7c318c0a"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


@pytest.fixture
def study(tmp_path):
    return admitted_study(tmp_path)


def requested(study, folder, name="guys", rows=20):
    data = folder / f"{name}.csv"
    write_records(data, rows, seed=9)
    return join(folder / "sites" / study.name / name, study.invitation, name, data, None)


def signed_again(opened, signed, participants):
    return sign(
        opened.name, signed.proposal, participants, coordinator=opened.coordinator(),
        key=opened.signing_key(), nonce="02", patience=60.0, release_abandoned=False,
    )  # fmt: skip


# keys


def test_every_key_is_for_its_user_alone_and_in_no_document(study, tmp_path):
    opened, (site, _) = study
    keys = [file for folder in (opened.folder, site.folder) for file in folder.rglob("*.key*")]
    assert len(keys) == 5
    assert {stat.S_IMODE(file.stat().st_mode) for file in keys} == {0o600}
    assert {stat.S_IMODE(f.stat().st_mode) for f in (opened.folder, site.folder)} == {0o700}
    _, request = requested(opened, tmp_path)
    documents = [opened.invitation.to_json(), request.to_json(), proposed(opened).to_json()]
    for file in keys:
        content = file.read_bytes()
        assert all(content.hex() not in document for document in documents)
        assert all(content[40:80].decode("latin-1") not in d for d in documents if content[40:])
    os.chmod(site.folder / "signing.key", 0o640)
    with pytest.raises(InputError, match="others can read"):
        site.signing_key()


def test_a_key_is_not_replaced(tmp_path):
    write_private(tmp_path / "one.key", b"first")
    with pytest.raises(InputError, match="not replaced"):
        write_private(tmp_path / "one.key", b"second")
    assert read_private(tmp_path / "one.key") == b"first"


@pytest.mark.parametrize("write", ["write_key", "write_text"])
@pytest.mark.parametrize("after", [0, 1])
def test_a_join_that_was_interrupted_is_completed_by_the_same_command(
    study, tmp_path, monkeypatch, write, after
):
    opened, _ = study
    write_records(tmp_path / "guys.csv", 12, seed=2)
    where = tmp_path / "place" / "guys", opened.invitation, "guys", tmp_path / "guys.csv", None
    written, whole = [], getattr(folders, write)

    def killed(*values):
        if len(written) == after:
            raise KeyboardInterrupt
        written.append(whole(*values))

    with monkeypatch.context() as patched:
        patched.setattr(folders, write, killed)
        with pytest.raises(KeyboardInterrupt):
            join(*where)
    if write == "write_key":
        (where[0] / "signing.key").touch(0o600)  # as by a process that was killed in between
    kept = {file.name: file.read_bytes() for file in where[0].iterdir() if file.stat().st_size}
    site, request = join(*where)
    assert kept.items() <= {file.name: file.read_bytes() for file in where[0].iterdir()}.items()
    assert join(*where)[1] == request  # the request itself may not have been written
    assert admit(opened, request).participant.count == 12
    assert open_site(site.folder).facts == site.facts
    write_records(tmp_path / "other.csv", 12, seed=3)
    with pytest.raises(InputError, match=r"another site in .* keys are not replaced"):
        join(*where[:3], tmp_path / "other.csv", None)


def test_a_public_nkey_is_what_nats_writes():
    nkey = Nkey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SEED)))
    assert nkey.public == PUBLIC
    assert nkey_text(nkey_bytes(PUBLIC)) == PUBLIC
    assert nkey_bytes(PUBLIC) == nkey.key.public_key().public_bytes_raw()
    for text in ("", PUBLIC[:-1], PUBLIC + "A", PUBLIC.lower(), PUBLIC[:-1] + "A", "A" + PUBLIC[1:],
                 PUBLIC[:20] + "7" + PUBLIC[21:], PUBLIC + "\n", '" } ]'.ljust(56, "A"),
                 "SU" + PUBLIC[2:]):  # fmt: skip
        with pytest.raises(InputError, match="is not what NATS writes"):
            nkey_bytes(text)


def test_a_party_never_connects_with_its_signing_key(study):
    opened, sites = study
    for party in (opened, *sites):
        assert party.nkey().key.private_bytes_raw() != party.signing_key().private_bytes_raw()
    signing = key_of(1)
    public = nkey_text(signing.public_key().public_bytes_raw())
    certified = certify_nkey(signing, "diabetes", "mercy", public)
    with pytest.raises(InputError, match="connects with its signing key"):
        check_nkey(public_text(signing.public_key()), "diabetes", "mercy", public, certified)


def test_an_nkey_is_certified_for_one_study_one_party_and_one_key():
    key, text = key_of(1), public_text(key_of(1).public_key())
    certified = certify_nkey(key, "diabetes", "mercy", PUBLIC)
    check_nkey(text, "diabetes", "mercy", PUBLIC, certified)
    for values in (
        (text, "asthma", "mercy", PUBLIC),
        (text, "diabetes", "sinai", PUBLIC),
        (text, "diabetes", "mercy", Nkey(key_of(2)).public),
        (public_text(key_of(3).public_key()), "diabetes", "mercy", PUBLIC),
    ):
        with pytest.raises(InputError, match="is not certified by the signing key of"):
            check_nkey(*values, certified)


# labels: a signature of one kind of content is none of another


def test_nothing_is_signed_but_by_the_function_that_takes_a_label():
    """The others: the answer to a challenge of the hub, and the hub's certificate."""
    found = []
    for file in sorted(pathlib.Path(taciturn_federation.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
                names = [one.attr for one in calls if isinstance(one, ast.Attribute)]
                found += [(file.name, node.name)] * names.count("sign")
    assert sorted(found) == [
        ("keys.py", "answer"), ("keys.py", "new_hub"), ("keys.py", "sign_labelled"),
    ]  # fmt: skip


def test_a_signature_under_one_label_is_none_under_another():
    key, content = key_of(1), b"the same content"
    for one, other in itertools.permutations(Label, 2):
        assert not other.value.startswith(one.value)
        signature = sign_labelled(key, one, content)
        assert is_signed(key.public_key(), one, signature, content)
        assert is_signed(key.public_key(), one, signature.hex(), content)
        assert not is_signed(key.public_key(), other, signature, content)
        assert not is_signed(key.public_key(), one, signature, content + b"\n")
    assert all(label.value.index(b"\n") == len(label.value) - 1 for label in Label)
    for signature in ("", "0", "zz", "00" * 63, "00" * 64, b"", bytes(64)):
        assert not is_signed(key.public_key(), Label.REQUEST, signature, b"content")


def test_a_document_or_envelope_with_a_signature_of_another_kind_is_refused(study, tmp_path):
    opened, (mercy, _) = study
    site, request = requested(opened, tmp_path)
    signed = proposed(opened)
    text = signed.model_copy(update={"signature": ""}).to_json().encode()
    key = signed.participants[0].key
    envelope = Signer(bytes(32), 0, mercy.signing_key()).seal(Kind.DONE, 0, b"")
    opener = Opener(bytes(32), {0: "mercy"}, {0: public_key(key)})
    assert opener.open(envelope).kind == Kind.DONE
    nkey = json.dumps({"name": "mercy", "nkey": PUBLIC, "study": "diabetes"},
                      separators=(",", ":")).encode()  # fmt: skip
    check_nkey(key, "diabetes", "mercy", PUBLIC,
               sign_labelled(mercy.signing_key(), Label.NKEY, nkey).hex())  # fmt: skip

    def replayed(document, signer, label):
        signature = sign_labelled(signer, label, _unsigned(document)).hex()
        return json.dumps(json.loads(document.to_json()) | {"signature": signature})

    for label in Label:
        if label is not Label.INVITATION:
            with pytest.raises(InputError, match="not signed by its key"):
                Invitation.from_json(replayed(opened.invitation, opened.signing_key(), label))
        if label is not Label.REQUEST:
            with pytest.raises(InputError, match="not signed by its key"):
                JoinRequest.from_json(replayed(request, site.signing_key(), label))
        if label is not Label.PROPOSAL:
            signature = sign_labelled(opened.signing_key(), label, text).hex()
            with pytest.raises(PrivacyError, match="signature of the proposal is invalid"):
                mercy.take_part(signed.model_copy(update={"signature": signature}))
        if label is not Label.ENVELOPE:
            signature = sign_labelled(mercy.signing_key(), label, envelope[:-64])
            with pytest.raises(InputError, match="was not signed with the key of mercy"):
                opener.open(envelope[:-64] + signature)
        if label is not Label.NKEY:
            signature = sign_labelled(mercy.signing_key(), label, nkey).hex()
            with pytest.raises(InputError, match="is not certified"):
                check_nkey(key, "diabetes", "mercy", PUBLIC, signature)
        # a hub chooses what an nkey signs; what comes back holds for the nkey alone
        answer = base64.b64decode(mercy.nkey().answer(label.value.decode() + "anything"))
        assert is_signed(mercy.nkey().key.public_key(), label, answer, b"anything")
        assert not is_signed(public_key(key), label, answer, b"anything")


def test_a_certificate_of_an_invitation_is_one_and_nothing_else():
    _, one = new_hub()
    _, other = new_hub()
    check_certificate(one)
    for text in ("", one + other, one + "\n", "x" + one, one[:-30], one.replace("\n", "\r\n")):
        with pytest.raises(InputError, match="the hub's certificate cannot be read"):
            check_certificate(text)


# requests and admission


def test_a_request_holds_the_count_and_no_more_of_the_file(study, tmp_path):
    opened, _ = study
    _, request = requested(opened, tmp_path)
    assert request.count == 20
    text = request.to_json()
    cells = (tmp_path / "guys.csv").read_text().replace(",", "\n").split()
    assert not [cell for cell in cells if len(cell) > 6 and cell in text]
    assert set(json.loads(text)) == {
        "format", "version", "study", "name", "invitation", "count", "nkey", "certified",
        "taciturn", "key", "signature",
    }  # fmt: skip
    _, other = renew_site(open_site(tmp_path / "sites/diabetes/guys"), None)
    assert other == request
    for field, value in (("count", 21), ("name", "sinai"), ("study", "other")):
        with pytest.raises(InputError, match="changed on its way"):
            JoinRequest.from_json(json.dumps(json.loads(text) | {field: value}))


def test_an_invitation_that_was_changed_or_not_signed_is_refused(study):
    text = study[0].invitation.to_json()
    with pytest.raises(InputError, match="changed on its way"):
        Invitation.from_json(text.replace("localhost:4222", "evil.test:4222"))
    unsigned = Invitation.from_json(json.dumps(json.loads(text) | {"signature": ""}))
    with pytest.raises(InputError, match="is not signed"):
        unsigned.check_signed()


def test_fingerprints_differ_with_every_key_and_count(study, tmp_path):
    opened, _ = study
    one, other = (requested(opened, tmp_path, name)[1] for name in ("guys", "kings"))
    assert len({one.fingerprint, other.fingerprint, opened.invitation.fingerprint}) == 3
    assert [len(group) for group in one.fingerprint.split()] == [4] * 8
    assert fingerprint(one.to_json().encode()) == one.fingerprint


def test_a_request_of_another_version_or_study_is_refused(study, tmp_path):
    opened, _ = study
    site, request = requested(opened, tmp_path)
    older = request.model_copy(update={"taciturn": "0.0.1"}).signed(site.signing_key())
    with pytest.raises(InputError, match=r"guys runs taciturn 0\.0\.1, and this is taciturn"):
        admit(opened, older)
    (tmp_path / "b").mkdir()
    other, _ = admitted_study(tmp_path / "b", names=())
    with pytest.raises(InputError, match="another invitation"):
        admit(opened, requested(other, tmp_path / "b")[1])


def test_the_hub_moves_by_an_invitation_of_the_same_key_that_differs_in_the_address_alone(
    study, tmp_path
):
    opened, sites = study
    moved = move_study(opened, "hub.example.org:4333")
    assert open_study(opened.folder).invitation == moved.invitation
    site = move_site(sites[0], moved.invitation)
    assert open_site(site.folder).invitation.hub == "hub.example.org:4333"
    # a new count is requested under the new invitation, and admitted
    assert admit(moved, renew_site(site, None)[1]).participant.keys == site_keys(opened, "mercy")
    (tmp_path / "b").mkdir()
    other, _ = admitted_study(tmp_path / "b", names=())
    forged = moved.invitation.model_copy(update={"hub": "evil.example.org:1"})
    bounds = moved.invitation.model_copy(update={"rows_per_person": 2}).signed(opened.signing_key())
    for refused in (
        other.invitation, forged.signed(other.signing_key()), bounds,
        moved.invitation.model_copy(update={"signature": ""}),
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"another address of the hub|not signed"):
            move_site(site, refused)
    with pytest.raises(InputError, match="not signed by its key"):
        Invitation.from_json(forged.to_json())
    with pytest.raises(InputError, match="is no address"):
        move_study(opened, "nowhere")
    assert open_site(site.folder).invitation == moved.invitation


def site_keys(study, name):
    (found,) = (one.participant for one in study.members() if one.participant.name == name)
    return found.keys


def test_a_name_is_not_taken_over_by_another_key(study, tmp_path):
    opened, _ = study
    write_records(tmp_path / "thief.csv", 5, seed=1)
    thief = tmp_path / "elsewhere", opened.invitation, "mercy", tmp_path / "thief.csv", None
    _, request = join(*thief)
    with pytest.raises(InputError, match="with other keys"):
        admit(opened, request)
    strike(opened, "mercy")
    assert admit(opened, request).participant.count == 5
    assert [one.participant.name for one in opened.members()] == ["mercy", "sinai"]


def test_a_site_with_another_request_keeps_its_keys_and_place_and_has_the_new_count(
    study, tmp_path
):
    opened, (site, _) = study
    before = opened.members()[0]
    write_records(tmp_path / "longer.csv", 25, seed=3)
    site, request = renew_site(site, tmp_path / "longer.csv")
    again = admit(opened, request)
    assert (again.number, again.participant.count) == (0, 25)
    assert again.participant.keys == before.participant.keys
    assert site.take_part(proposed(opened)) == 0
    again = open_study(opened.folder)
    assert again.invitation == opened.invitation
    assert again.coordinator() == opened.coordinator()
    with pytest.raises(InputError, match="there is no study"):
        open_study(opened.folder / "nothing")


@pytest.mark.parametrize("file", ["nkey.key", "signing.key"])
def test_a_site_has_the_keys_with_which_it_was_admitted_for_good(study, file):
    """Each is certified once; another takes that the site is struck off."""
    opened, (site, _) = study
    signed = proposed(opened)
    (site.folder / file).unlink()
    write_key(site.folder / file, key_of(3))
    _, request = renew_site(site, None)
    with pytest.raises(InputError, match="there is a site mercy with other keys"):
        admit(opened, request)
    with pytest.raises(InputError, match=r"another nkey|none of the participants"):
        site.take_part(signed)


@pytest.mark.parametrize("what", ["nkey", "key"])
def test_a_key_of_another_party_is_not_admitted_as_an_nkey(study, tmp_path, what):
    opened, _ = study
    for other in (opened.coordinator(), opened.members()[0].participant):
        text = other.nkey if what == "nkey" else nkey_text(bytes.fromhex(other.key))
        site, request = requested(opened, tmp_path, name=f"guys-{other.name}")
        certified = certify_nkey(site.signing_key(), opened.name, site.name, text)
        taken = request.model_copy(update={"nkey": text, "certified": certified})
        with pytest.raises(InputError, match=f"{other.name} has a key of guys"):
            admit(opened, taken.signed(site.signing_key()))


@pytest.mark.parametrize("name", ["", "Mercy", "mercy general", "a" * 33, "../etc", "coordinator"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InputError, match="is no name of"):
        check_party(name)


# strikes


def test_no_key_of_a_site_that_was_ever_struck_off_lives_on_in_a_stored_proposal(study, tmp_path):
    opened, (mercy, _) = study
    gone = []
    for number in range(2):
        proposed(opened, nonce=f"0{number}")
        (site,) = [m.participant for m in opened.members() if m.participant.name == "mercy"]
        gone += [site.nkey, site.key]
        strike(opened, "mercy")
        assert [m.participant.name for m in opened.members()] == ["sinai"]
        mercy.folder.rename(tmp_path / f"away-{number}")
        mercy = joined(opened, tmp_path, "mercy")
    with pytest.raises(InputError, match="has no site 'guys'"):
        strike(opened, "guys")
    assert len(set(gone)) == 4
    assert set(gone) <= opened.struck()
    signed = proposed(opened, nonce="02")
    assert len(opened.proposals()) == 3
    users = {user.nkey for user in opened.users()}
    assert users == {opened.nkey().public, *(one.nkey for one in signed.participants)}
    text = hub_configuration(opened, host="127.0.0.1")
    assert not [key for key in gone if key in text]
    assert mercy.take_part(signed) == 0


def test_a_strike_revokes_keys_that_only_a_stored_proposal_still_names(study, tmp_path):
    """The coordinator removed the file of a member by hand, and admitted the site again."""
    opened, (mercy, _) = study
    old = next(p for p in proposed(opened).participants if p.name == "mercy")
    (opened.folder / "members" / "mercy.json").unlink()
    mercy.folder.rename(tmp_path / "away")
    joined(opened, tmp_path, "mercy")
    strike(opened, "mercy")
    assert {old.key, old.nkey} <= opened.struck()
    assert old.nkey not in hub_configuration(opened, host="127.0.0.1")


def test_neither_key_of_a_site_that_was_struck_off_comes_back(study):
    """Also not with another key in place of the other one."""
    opened, (mercy, _) = study
    _, first = renew_site(mercy, None)
    strike(opened, "mercy")
    with pytest.raises(InputError, match="was struck off"):
        admit(opened, first)
    keys = {"nkey.key": mercy.nkey().key, "signing.key": mercy.signing_key()}
    for file, key in keys.items():
        (mercy.folder / file).unlink()
        write_key(mercy.folder / file, key_of(len(file)))
        with pytest.raises(InputError, match="was struck off"):
            admit(opened, renew_site(mercy, None)[1])
        (mercy.folder / file).unlink()
        write_key(mercy.folder / file, key)


# the signed proposal


def test_a_signed_proposal_reads_back_and_a_changed_or_anothers_is_refused(star):
    key, text = star.coordinator.public_key(), star.signed.to_json()
    again = SignedProposal.from_json(text)
    assert again == star.signed
    assert again.digest == star.signed.digest
    again.check(key)
    values = json.loads(text)
    values["proposal"]["budget"]["epsilon"] = 3.0
    with pytest.raises(PrivacyError, match="changed after signing"):
        SignedProposal.from_json(json.dumps(values)).check(key)
    with pytest.raises(PrivacyError, match="another coordinator"):
        star.signed.check(key_of(5).public_key())
    values = json.loads(text) | {"taciturn": "9.9.9", "unknown": 1}
    with pytest.raises(InputError, match=r"needs taciturn 9\.9\.9"):
        SignedProposal.from_json(json.dumps(values))


def test_no_model_of_an_abandoned_run_is_promised_where_no_party_has_it(tmp_path):
    with pytest.raises(InputError, match="without an aggregator no party has the model so far"):
        make_study(tmp_path, algorithm="nids", network={"network": "ring"}, release=True)


def test_a_site_takes_part_only_in_what_its_coordinator_signed_for_its_key(study, tmp_path):
    opened, (mercy, sinai) = study
    signed = proposed(opened)
    assert (mercy.take_part(signed), sinai.take_part(signed)) == (0, 1)
    with pytest.raises(PrivacyError, match="signature"):
        mercy.take_part(signed.model_copy(update={"patience": 1.0}))
    stranger = joined(opened, tmp_path, "guys")
    with pytest.raises(InputError, match="ask the coordinator to admit"):
        stranger.take_part(signed)
    first, *others = signed.participants
    swapped = first.model_copy(update={"nkey": others[0].nkey})
    with pytest.raises((InputError, PrivacyError)):
        mercy.take_part(signed.model_copy(update={"participants": (swapped, *others)}))


def test_two_who_take_part_have_no_key_in_common_and_their_counts_are_the_proposals(study):
    opened, _ = study
    signed = proposed(opened)
    mercy, sinai = signed.participants
    stolen = key_of(5)
    twice = sinai.model_copy(update={
        "key": public_text(stolen.public_key()), "nkey": mercy.nkey,
        "certified": certify_nkey(stolen, opened.name, "sinai", mercy.nkey)})  # fmt: skip
    with pytest.raises(InputError, match="have the same key"):
        signed_again(opened, signed, [mercy, twice])
    with pytest.raises(InputError, match="counts"):
        signed_again(opened, signed, [mercy, sinai.model_copy(update={"count": 21})])


def test_an_nkey_that_another_signing_key_certified_is_refused(study, tmp_path):
    """By the coordinator that admits, and by every reader of a proposal."""
    opened, (mercy, _) = study
    site, request = requested(opened, tmp_path)
    forged = certify_nkey(key_of(77), opened.name, "guys", request.nkey)
    with pytest.raises(InputError, match="nkey of guys is not certified"):
        admit(opened, request.model_copy(update={"certified": forged}).signed(site.signing_key()))
    assert "guys" not in {one.participant.name for one in opened.admitted()}
    signed = proposed(opened)
    other = Nkey(key_of(78)).public
    forged = certify_nkey(opened.signing_key(), opened.name, "mercy", other)
    forged = signed.participants[0].model_copy(update={"nkey": other, "certified": forged})
    participants = (forged, *signed.participants[1:])
    with pytest.raises(InputError, match="nkey of mercy is not certified"):
        signed_again(opened, signed, participants)
    planted = signed.model_copy(update={"participants": participants})
    with pytest.raises(InputError, match="nkey of mercy is not certified"):
        SignedProposal.from_json(planted.to_json())
    with pytest.raises(PrivacyError, match="signature"):
        mercy.take_part(planted)
