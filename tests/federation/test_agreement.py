"""The signed proposal: who asks, who takes part, and nothing that is verify_packet."""

import json

import pytest
from tests.federation.studies import key_of, make_study

from taciturn.errors import InputError, PrivacyError
from taciturn_federation.agreement import SignedProposal, sign


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path)


def test_a_signed_proposal_reads_back_as_itself_and_its_signature_is_right(study):
    again = SignedProposal.from_json(study.signed.to_json())
    assert again == study.signed
    assert again.digest == study.signed.digest
    again.check(study.coordinator.public_key())


def test_a_changed_proposal_is_refused(study):
    values = json.loads(study.signed.to_json())
    values["proposal"]["budget"]["epsilon"] = 3.0
    with pytest.raises(PrivacyError, match="changed since it was signed"):
        SignedProposal.from_json(json.dumps(values)).check(study.coordinator.public_key())


def test_another_coordinator_is_refused(study):
    with pytest.raises(PrivacyError, match="another coordinator"):
        study.signed.check(key_of(5).public_key())


def test_a_party_with_another_version_is_refused_by_name(study):
    values = json.loads(study.signed.to_json()) | {"taciturn": "9.9.9", "unheard": 1}
    with pytest.raises(InputError, match=r"needs taciturn 9\.9\.9"):
        SignedProposal.from_json(json.dumps(values))


def test_no_model_of_an_abandoned_run_is_promised_where_no_party_has_it(tmp_path):
    with pytest.raises(InputError, match="without an aggregator no party has the model so far"):
        make_study(tmp_path, algorithm="nids", network={"network": "ring"}, release=True)


def test_counts_that_are_not_the_proposals_are_refused(study):
    members = (study.signed.participants[0], *study.signed.participants[:2])
    with pytest.raises(InputError, match="counts"):
        sign(
            "diabetes",
            study.signed.proposal,
            members,
            coordinator=study.signed.coordinator,
            key=study.coordinator,
            nonce="00",
            patience=1.0,
            release_abandoned=False,
        )


def test_a_site_without_a_place_in_the_proposal_is_told_so(study):
    assert study.signed.agent_of(study.keys[1].public_key()) == 1
    with pytest.raises(InputError, match="ask the coordinator to admit"):
        study.signed.agent_of(key_of(50).public_key())
