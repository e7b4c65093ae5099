"""End to end on real data: the accuracy that is promised, at a total budget, on fresh noise."""

import dataclasses
import math

import numpy as np
import pytest

from conftest import just_below, trained_on
from taciturn.certificates import stated
from taciturn.datasets import load, split
from taciturn.errors import PrivacyError
from taciturn.kernel.privacy import Certificate
from taciturn.kernel.privacy.certificate import DEALT
from taciturn.kernel.records import Draw
from taciturn.training import DividedData, Request, StructureRequest, divide, proposal_for, train

REQUEST = {"agents": 100, "epsilon": 0.75, "delta": 1e-5}


@pytest.fixture(scope="module")
def adult():
    return load("adult")


def mean_error(dataset, **changes):
    runs = [trained_on(dataset, **REQUEST | changes, split_seed=s) for s in range(5)]
    return float(np.mean([r.metrics.test_error for r in runs])), runs[0]


@pytest.mark.slow
def test_adult_under_messages_at_epsilon_0_75_errs_on_at_most_20_percent(adult):
    error, run = mean_error(adult)
    assert just_below(run.certificate.epsilon, 0.75)
    assert error <= 0.200


@pytest.mark.slow
def test_adult_under_sums_at_epsilon_1_errs_on_at_most_17_percent(adult):
    error, run = mean_error(adult, observer="sum", epsilon=1.0)
    assert just_below(run.certificate.epsilon, 1.0)
    assert "secure aggregation" in run.certificate.trust
    assert error <= 0.170


@pytest.mark.slow
def test_without_privacy_nothing_is_clipped_and_the_certificate_says_so():
    dataset = load("breast_cancer")
    asked = REQUEST | {"agents": 5, "epsilon": math.inf, "rounds": 800}
    run = trained_on(dataset, **asked, reference=True)
    gradient = run.plan.program.oracles[0]
    assert gradient.clip == gradient.loss.lipschitz  # no cut beyond the loss's own bound
    assert run.certificate.epsilon == math.inf
    assert run.metrics.train_loss < 1.5 * run.nonprivate.train_loss


def test_the_test_error_is_that_of_the_model_counted_by_hand():
    dataset = load("breast_cancer")
    run = trained_on(dataset, **REQUEST | {"agents": 5, "rounds": 7})
    parts = split(dataset, seed=0)
    wrong = np.sign(parts.test_features @ run.model) != parts.test_targets
    assert run.metrics.test_error == pytest.approx(np.mean(wrong))


def certificates(thing, seen):
    """Every certificate that is reachable from an object."""
    if id(thing) in seen or isinstance(thing, (str, bytes, int, float, np.ndarray, type)):
        return []
    seen[id(thing)] = thing  # kept, so that its number is not used again
    inside = [*getattr(thing, "__dict__", {}).values()]
    inside += thing.values() if isinstance(thing, dict) else ()
    inside += thing if isinstance(thing, (list, tuple)) else ()
    found = [thing] if isinstance(thing, Certificate) else []
    return found + [one for part in inside for one in certificates(part, seen)]


def test_nothing_reachable_from_a_training_shows_a_certificate_without_conditions_or_stamp():
    dataset = load("breast_cancer")
    run = trained_on(dataset, **REQUEST | {"agents": 5, "rounds": 3}, seed=1)
    reached = certificates(run, {})
    assert reached
    for one in (*reached, run.certificate, run.plan.certificate):
        assert one.reproduction
        assert one.attacker_tpr == 1.0
        assert set(one.conditions) == {DEALT, *dataset.conditions} > {DEALT}
    assert run.plan.to_dict()["certificate"] == stated(run.certificate)
    # the design is the same, whatever was added when it was run
    assert run.plan.digest == run.proposal.plan().digest
    bare = dataclasses.replace(run, plan=run.proposal.plan())
    assert not any(one.reproduction for one in certificates(bare, {}))


def test_warnings_are_given_before_a_record_is_read(monkeypatch):
    def stop(*given, **named):
        raise PrivacyError("stop")

    told, data = [], divide(load("breast_cancer"), 5, split_seed=0)
    request = Request(**{k: v for k, v in REQUEST.items() if k != "agents"}, rounds=5)
    proposal = proposal_for(data, request, StructureRequest())
    monkeypatch.setattr(DividedData, "shards", stop)
    with pytest.raises(PrivacyError, match="stop"):
        train(data, proposal, reference=False, warn=told.append)
    assert any("the model 0" in text for text in told)


def test_the_split_seed_of_a_reproduction_moves_the_shares():
    dataset = load("breast_cancer")
    first, second, other = (
        divide(dataset, 5, split_seed=s, draw=Draw(seed=s)).shards("float32") for s in (0, 0, 1)
    )
    assert np.array_equal(first.stacked.features, second.stacked.features)
    assert not np.array_equal(first.stacked.features, other.stacked.features)
