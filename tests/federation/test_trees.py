"""A study along a spanning tree: sums go up, the total comes down, and no server computes."""

import numpy as np
import pytest
from tests.federation.studies import make_study
from tests.federation.test_parties import all_finished, model_of, said_once
from tests.federation.wire import envelopes, meet

from tacit.federation.envelope import Kind

PATH = {"network": "path"}


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """Five owners on a path: 2 is the root, 1 and 3 are below it, 0 and 4 below these."""
    return make_study(tmp_path_factory.mktemp("tree"), agents=5, network=PATH, rounds=4)


@pytest.fixture(scope="session")
def masked(tmp_path_factory):
    """The same under masks."""
    folder = tmp_path_factory.mktemp("masked")
    return make_study(folder, agents=5, network=PATH, rounds=4, observer="sum")


@pytest.mark.parametrize("name", ["tree", "masked"])
def test_every_party_ends_with_the_model_of_one_machine(name, request, tmp_path):
    study = request.getfixturevalue(name)
    assert study.signed.proposal.network.kind == "tree"
    hub = meet(study, tmp_path)
    hub.run()
    all_finished(hub, study)
    np.testing.assert_array_equal(hub.parties[4].outcome.model, model_of(study, 7))
    assert said_once(hub, study)
    assert hub.parties["coordinator"].ledger is not None
