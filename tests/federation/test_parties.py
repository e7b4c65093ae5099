"""A run among parties is the run on one machine."""

import numpy as np
import pytest
from tests.federation.studies import make_study
from tests.federation.wire import meet, messages

from tacit.engine import run

STAR = {
    "noisy-gradient": {},
}


def reference(study, seed=7):
    plan = study.signed.proposal.plan()
    shards = study.data.shards(study.signed.proposal.precision)
    return run(plan, shards, runtime="simulate", seed=seed)


def same_model(hub, study):
    expected = reference(study).model
    for party in hub.parties.values():
        assert party.outcome is not None
        assert party.outcome.ending == "finished", party.outcome.line
        np.testing.assert_allclose(party.outcome.model, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("asked", [
    {"algorithm": "noisy-gradient"},
    {"algorithm": "recal", "network": {"network": "ring"}, "rounds": 6},
    {"algorithm": "nids", "network": {"network": "ring"}},
], ids=lambda asked: asked["algorithm"])  # fmt: skip
def test_every_party_ends_with_the_model_of_one_machine(tmp_path, asked):
    study = make_study(tmp_path, **asked)
    hub = meet(study)
    hub.run(seconds=100)
    same_model(hub, study)
    for one in messages(hub, study).values():
        assert len(one) == 1
    coordinator = hub.parties["coordinator"]
    coordinator.plan.ledger.same_as(coordinator.ledger)
