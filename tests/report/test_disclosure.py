"""A certificate in the terms of the deployments registry and of NIST says nothing that it lacks."""

import copy
import json

import pytest
from tests.privacy.test_certificate_files import PLANNED, of_proposal
from tests.proposal.proposals import examples
from tests.report.test_recomputed import document

from taciturn.report.disclosure import TO_FILL_IN, nist_page, registry_record

# of schemas/deployments-schema.yaml of opendp/deployments-registry-data, commit 3e9c812
FIELDS = {
    "basic": "name data_curators intended_use data_product_type data_product_region description "
    "publication_date data_product_sector",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters "
    "privacy_parameters_details",
    "deployment_model": "model_name model_name_details actors release_type release_type_details "
    "data_source_type data_source_type_details access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors",
}
REQUIRED = {*FIELDS["basic"].split(), "registry_authors"} - {"data_product_sector"}
BLOCKS = (
    "Privacy parameters", "Unit of privacy", "Algorithms and correctness", "Utility", "Bias",
    "Trust models", "Side channels", "Access control", "Data collection exposure",
)  # fmt: skip


@pytest.fixture(scope="module")
def files():
    kinds = ("laplace", "agents", "unbounded", "claimed", "persons across, sum")
    made = {name: PLANNED[name]() for name in kinds}
    made |= {name: of_proposal(examples()[name]) for name in ("evaluated", "sum")}
    return {name: document(one) for name, one in made.items()}


def test_a_record_has_the_fields_of_the_registry_and_no_others(files):
    for file in files.values():
        record = registry_record(file)
        assert set(record) == {"url_slug", "status", "tier", "deployment"}
        assert set(record["deployment"]) == set(FIELDS)
        names = {name for part in record["deployment"].values() for name in part}
        assert names >= REQUIRED
        for part, fields in record["deployment"].items():
            assert set(fields) <= set(FIELDS[part].split())
        json.dumps(record, allow_nan=False)


def test_figures_are_those_of_the_certificate_and_none_where_nothing_is_promised(files):
    file = files["evaluated"]
    parameters = registry_record(file)["deployment"]["privacy_loss"]["privacy_parameters"]
    assert parameters == {"epsilon": file["claim"]["epsilon"], "delta": file["terms"]["delta"]}
    seeded = copy.deepcopy(file)
    seeded["claim"]["reproduction"] = True
    for none in (seeded, files["unbounded"]):
        loss = registry_record(none)["deployment"]["privacy_loss"]
        assert loss["privacy_parameters"] == {}
        assert "No privacy is promised" in loss["privacy_parameters_details"]
        assert "no privacy" in nist_page(none).lower() or "not private" in nist_page(none)


def test_what_a_certificate_does_not_say_is_left_to_whoever_publishes(files):
    record = registry_record(files["evaluated"])["deployment"]
    for name in ("name", "intended_use", "publication_date", "data_product_region"):
        assert record["basic"][name] == TO_FILL_IN
    assert record["implementation"]["justification"] == TO_FILL_IN
    assert TO_FILL_IN in record["implementation"]["mechanisms"]
    assert record["deployment_model"]["model_name"] == TO_FILL_IN


def test_every_block_of_the_pyramid_is_answered_once_and_every_condition_stands_there(files):
    for file in files.values():
        page = nist_page(file)
        assert [page.count(f"## {block} (section") for block in BLOCKS] == [1] * len(BLOCKS)
        assert all(f"- {condition}" in page for condition in file["conditions"])
