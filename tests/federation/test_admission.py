"""Keys stay where they are made, documents say who signed them, and a study admits by name."""

import json
import os
import stat

import pytest
from tests.federation.hubs import admitted_study, joined, proposed
from tests.federation.studies import key_of, write_records

from taciturn.errors import InputError, PrivacyError
from taciturn_federation import (
    Invitation,
    JoinRequest,
    admit,
    join,
    open_site,
    open_study,
    renew_site,
    strike,
)
from taciturn_federation.agreement import check_party
from taciturn_federation.keys import fingerprint, public_key, read_private, write_key, write_private


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
    assert len(keys) == 5
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
        "format", "version", "study", "name", "invitation", "count", "nkey", "certified",
    "taciturn",
        "key", "signature",
    }  # fmt: skip
    _, other = renew_site(open_site(tmp_path / "sites/diabetes/guys"), None)
    assert other == request


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
    older = request.model_copy(update={"taciturn": "0.0.1"}).signed(site.signing_key())
    with pytest.raises(InputError, match=r"guys runs taciturn 0\.0\.1, and this is taciturn"):
        admit(made, older)


def test_a_request_for_another_study_is_refused(study, tmp_path):
    made, _ = study
    (tmp_path / "b").mkdir()
    other, _ = admitted_study(tmp_path / "b", names=())
    _, request = asked(other, tmp_path / "b")
    with pytest.raises(InputError, match="another invitation"):
        admit(made, request)


def test_a_name_is_not_taken_over_by_another_key(study, tmp_path):
    made, _ = study
    data = tmp_path / "thief.csv"
    write_records(data, 5, seed=1)
    _, request = join(tmp_path / "elsewhere", made.invitation, "mercy", data, None)
    with pytest.raises(InputError, match="with other keys"):
        admit(made, request)
    strike(made, "mercy")
    assert admit(made, request).participant.count == 5
    assert [one.participant.name for one in made.members()] == ["mercy", "sinai"]


def test_what_is_struck_off_is_no_user_of_any_proposal(study, tmp_path):
    made, _ = study
    proposed(made)
    old = made.members()[0].participant.nkey
    assert old in {user.nkey for user in made.users()}
    strike(made, "mercy")
    assert old not in {user.nkey for user in made.users()}
    assert [one.participant.name for one in made.members()] == ["sinai"]
    with pytest.raises(InputError, match="has no site 'guys'"):
        strike(made, "guys")


def test_a_site_that_asks_again_keeps_its_keys_and_place_and_has_the_new_count(study, tmp_path):
    made, (site, _) = study
    before = made.members()[0]
    longer = tmp_path / "longer.csv"
    write_records(longer, 25, seed=3)
    site, request = renew_site(site, longer)
    again = admit(made, request)
    assert (again.number, again.participant.count) == (0, 25)
    assert again.participant.keys == before.participant.keys
    assert site.take_part(proposed(made)) == 0


@pytest.mark.parametrize("file", ["nkey.key", "signing.key"])
def test_a_site_has_the_keys_with_which_it_was_admitted_for_good(study, file):
    """Each is certified once; another takes that the site is struck off."""
    made, (site, _) = study
    signed = proposed(made)
    (site.folder / file).unlink()
    write_key(site.folder / file, key_of(3))
    _, request = renew_site(site, None)
    with pytest.raises(InputError, match="there is a site mercy with other keys"):
        admit(made, request)
    with pytest.raises(InputError, match=r"another nkey|none of the participants"):
        site.take_part(signed)


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
    swapped = [one.participant.nkey for one in made.members()]
    planted = signed.model_copy(
        update={
            "participants": (
                signed.participants[0].model_copy(update={"nkey": swapped[1]}),
                *signed.participants[1:],
            )
        }
    )
    with pytest.raises((InputError, PrivacyError)):
        mercy.take_part(planted)


def test_a_study_reads_back(study):
    made, _ = study
    again = open_study(made.folder)
    assert again.invitation == made.invitation
    assert again.coordinator() == made.coordinator()
    with pytest.raises(InputError, match="there is no study"):
        open_study(made.folder / "nothing")


@pytest.mark.parametrize("name", ["", "Mercy", "mercy general", "a" * 33, "../etc", "coordinator"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InputError, match="is no name of"):
        check_party(name)


def test_a_signing_key_that_is_none_is_refused():
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        public_key("xyz")
