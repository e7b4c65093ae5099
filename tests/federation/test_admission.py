"""Keys stay where they are made, documents say who signed them, and a study admits by name."""

import json
import os
import stat

import pytest
from tests.federation.hubs import NOW, admitted_study, joined, proposed
from tests.federation.studies import write_records

from tacit.errors import InputError, PrivacyError
from tacit_federation import (
    Invitation,
    JoinRequest,
    admit,
    join,
    open_site,
    open_study,
    renew_site,
    renew_study,
    strike,
)
from tacit_federation import authority as x
from tacit_federation.keys import fingerprint, public_key, read_private, signed_by, write_private
from tacit_federation.study import user_in


@pytest.fixture
def study(tmp_path):
    return admitted_study(tmp_path)


def asked(study, tmp_path, name="guys", rows=20):
    data = tmp_path / f"{name}.csv"
    write_records(data, rows, seed=9)
    return join(tmp_path / "sites" / study.name / name, study.invitation, name, data, None)


def private_files(folder):
    return [file for file in folder.rglob("*.key*") if file.is_file()]


def test_every_key_is_for_its_user_alone_and_in_no_document(study, tmp_path):
    made, sites = study
    keys = [*private_files(made.folder), *private_files(sites[0].folder)]
    assert len(keys) == 6
    assert {stat.S_IMODE(file.stat().st_mode) for file in keys} == {0o600}
    assert {stat.S_IMODE(f.stat().st_mode) for f in (made.folder, sites[0].folder)} == {0o700}
    _, request = asked(made, tmp_path)
    documents = [made.invitation.to_json(), request.to_json(), proposed(made).to_json()]
    for file in keys:
        body = "".join(file.read_text().splitlines()[1:-1])
        assert all(body[:40] not in document for document in documents)


def test_a_key_that_others_can_read_is_not_used(study):
    _, (site, _) = study
    os.chmod(site.folder / "signing.key", 0o640)
    with pytest.raises(InputError, match="others can read"):
        site.signing_key()


def test_a_key_is_not_replaced(tmp_path):
    write_private(tmp_path / "one.key", b"first")
    with pytest.raises(InputError, match="not replaced"):
        write_private(tmp_path / "one.key", b"second")
    assert read_private(tmp_path / "one.key") == b"first"


def test_a_request_holds_the_count_and_no_more_of_the_file(study, tmp_path):
    made, _ = study
    _, request = asked(made, tmp_path, rows=20)
    assert request.count == 20
    text = request.to_json()
    cells = (tmp_path / "guys.csv").read_text().replace(",", "\n").split()
    assert not [cell for cell in cells if len(cell) > 6 and cell in text]
    assert set(json.loads(text)) == {
        "format", "version", "study", "name", "invitation", "count", "certificate", "tacit", "key",
        "signature",
    }  # fmt: skip
    _, other = renew_site(open_site(tmp_path / "sites/diabetes/guys"), None, new_key=False)
    assert {**json.loads(other.to_json()), "certificate": "", "signature": ""} == {
        **json.loads(text), "certificate": "", "signature": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [("count", 21), ("name", "sinai"), ("study", "other"), ("invitation", "00")],
)
def test_a_request_that_was_changed_on_its_way_is_refused(study, tmp_path, field, value):
    made, _ = study
    _, request = asked(made, tmp_path)
    changed = json.loads(request.to_json()) | {field: value}
    with pytest.raises(InputError, match="changed on its way"):
        JoinRequest.from_json(json.dumps(changed))


def test_an_invitation_that_was_changed_or_not_signed_is_refused(study):
    made, _ = study
    text = made.invitation.to_json()
    with pytest.raises(InputError, match="changed on its way"):
        Invitation.from_json(text.replace("localhost:4222", "evil.test:4222"))
    unsigned = Invitation.from_json(json.dumps(json.loads(text) | {"signature": ""}))
    with pytest.raises(InputError, match="is not signed"):
        unsigned.check_signed()


def test_fingerprints_differ_with_every_key_and_count(study, tmp_path):
    made, _ = study
    _, one = asked(made, tmp_path)
    _, other = asked(made, tmp_path, name="kings")
    assert len({one.fingerprint, other.fingerprint, made.invitation.fingerprint}) == 3
    assert [len(group) for group in one.fingerprint.split()] == [4] * 8
    assert fingerprint(one.to_json().encode()) == one.fingerprint


def test_a_site_with_another_version_is_refused_by_name(study, tmp_path):
    made, _ = study
    site, request = asked(made, tmp_path)
    older = request.model_copy(update={"tacit": "0.0.1"}).signed(site.signing_key())
    with pytest.raises(InputError, match=r"guys runs tacit 0\.0\.1, and this is tacit"):
        admit(made, older, NOW)


def test_a_request_for_another_study_is_refused(study, tmp_path):
    made, _ = study
    (tmp_path / "b").mkdir()
    other, _ = admitted_study(tmp_path / "b", names=())
    _, request = asked(other, tmp_path / "b")
    with pytest.raises(InputError, match="another invitation"):
        admit(made, request, NOW)


def test_a_name_is_not_taken_over_by_another_key(study, tmp_path):
    made, _ = study
    data = tmp_path / "thief.csv"
    write_records(data, 5, seed=1)
    _, request = join(tmp_path / "elsewhere", made.invitation, "mercy", data, None)
    with pytest.raises(InputError, match="with another signing key"):
        admit(made, request, NOW)
    strike(made, "mercy")
    assert admit(made, request, NOW).participant.count == 5
    assert [one.participant.name for one in made.members()] == ["mercy", "sinai"]


def test_what_is_struck_off_is_no_user_of_any_proposal(study, tmp_path):
    made, _ = study
    proposed(made)
    old = made.members()[0].participant.certificate
    assert user_in(old) in {user.name for user in made.users()}
    strike(made, "mercy")
    assert user_in(old) not in {user.name for user in made.users()}
    assert [one.participant.name for one in made.members()] == ["sinai"]
    with pytest.raises(InputError, match="has no site 'guys'"):
        strike(made, "guys")


def test_a_renewed_certificate_is_of_another_user_only_with_another_key(study):
    made, (site, _) = study
    old = made.members()[0].participant.certificate
    _, request = renew_site(site, None, new_key=False)
    same = admit(made, request, NOW).participant.certificate
    assert (user_in(same), same == old) == (user_in(old), False)
    _, request = renew_site(site, None, new_key=True)
    other = admit(made, request, NOW)
    assert user_in(other.participant.certificate) != user_in(old)
    assert other.number == 0
    signed = proposed(made)
    assert site.take_part(signed) == 0


def test_a_struck_key_does_not_come_back(study):
    made, (site, _) = study
    strike(made, "mercy")
    _, request = renew_site(site, None, new_key=False)
    with pytest.raises(InputError, match="was struck off"):
        admit(made, request, NOW)


def test_a_site_takes_part_only_in_what_its_coordinator_signed_for_its_key(study, tmp_path):
    made, (mercy, sinai) = study
    signed = proposed(made)
    assert (mercy.take_part(signed), sinai.take_part(signed)) == (0, 1)
    forged = signed.model_copy(update={"patience": 1.0})
    with pytest.raises(PrivacyError, match="signature"):
        mercy.take_part(forged)
    stranger = joined(made, tmp_path, "guys")
    with pytest.raises(InputError, match="none of the participants"):
        stranger.take_part(signed)
    swapped = [one.participant.certificate for one in made.members()]
    planted = signed.model_copy(
        update={
            "participants": (
                signed.participants[0].model_copy(update={"certificate": swapped[1]}),
                *signed.participants[1:],
            )
        }
    )
    with pytest.raises((InputError, PrivacyError)):
        mercy.take_part(planted)


def test_a_study_reads_back_and_its_own_certificates_are_renewed(study):
    made, _ = study
    again = open_study(made.folder)
    assert again.invitation == made.invitation
    before = made.certificate.read_text()
    renew_study(again, NOW)
    assert made.certificate.read_text() != before
    assert user_in(made.certificate.read_text()) == user_in(before)
    with pytest.raises(InputError, match="there is no study"):
        open_study(made.folder / "nothing")


def test_certificates_of_parties_have_no_alternative_names_and_the_hubs_has(study):
    made, _ = study
    certificate = x.read_certificate(made.members()[0].participant.certificate)
    assert "subjectAltName" not in {e.oid._name for e in certificate.extensions}
    hub = x.read_certificate((made.folder / "hub.pem").read_text())
    assert "subjectAltName" in {e.oid._name for e in hub.extensions}
    assert certificate.not_valid_before_utc < NOW  # a clock that is late by hours is no trouble


def test_a_certificate_of_another_authority_is_told_apart(study):
    made, _ = study
    certificate = x.read_certificate(made.members()[0].participant.certificate)
    x.check_certificate(certificate, made.authority().certificate)
    with pytest.raises(InputError, match="not of this study's authority"):
        x.check_certificate(certificate, x.new_authority("diabetes", NOW).certificate)


@pytest.mark.parametrize("name", ["", "Mercy", "mercy general", "a" * 33, "../etc", "coordinator"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InputError, match="is no name of"):
        x.check_party(name)


def test_a_signature_is_of_its_key_and_content():
    assert not signed_by("00" * 32, "00", b"anything")
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        public_key("xyz")
