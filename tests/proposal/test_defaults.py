"""Defaults that follow from public facts: the feature map and the loss of a request."""

import dataclasses
import math

import numpy as np
import pytest

from taciturn.calibration import mu_of
from taciturn.errors import InputError
from taciturn.problems import Named
from taciturn.training import DataFacts, Request, noise_of_run, propose
from taciturn.training.parts import Structure
from taciturn.training.request import LEAST_RECORDS, MOST_NOISE_OF_RUN

TABLE = DataFacts(
    name="mine", task="binary", classes=2, columns=4, record_norm=2.0, table=None, numbers=3
)
NUMBERS = TABLE.model_copy(update={"task": "regression", "classes": None})
PICTURES = DataFacts(
    name="pictures", task="binary", classes=2, columns=4, record_norm=2.0, table=None, numbers=4,
    picture=(2, 2, 1),
)  # fmt: skip
ASKED = Request(epsilon=1.0, delta=1e-6, centre=None)


def features(data=TABLE, counts=(20_000,), structure=None, **changes):
    proposal = propose(data, counts, dataclasses.replace(ASKED, **changes), structure)
    return proposal.data.features


def test_a_classifier_of_many_records_has_hats():
    assert features() == "hats:10"
    assert features(epsilon=math.inf) == "hats:10"
    assert features(counts=(10_000, 10_000), observer="sum") == "hats:10"


@pytest.mark.parametrize(
    ("data", "counts", "changes"),
    [
        pytest.param(TABLE, (300,), {}, id="more noise than signal"),
        pytest.param(TABLE, (100,), {"epsilon": math.inf}, id="few records"),
        pytest.param(NUMBERS, (20_000,), {}, id="numbers to predict"),
        pytest.param(PICTURES, (20_000,), {}, id="pixels"),
        pytest.param(TABLE.model_copy(update={"numbers": 0}), (20_000,), {}, id="no number"),
        *(
            pytest.param(TABLE, (20_000,), {part: Named.parse(part, text)}, id=text)
            for part, text in (("regulariser", "l1:0.01"), ("constraint", "box:1"))
        ),
        pytest.param(TABLE, (20_000,), {"features": "columns"}, id="columns are asked for"),
        pytest.param(TABLE, (20_000,), {"algorithm": "pvp"}, id="answers that are no gradients"),
    ],
)
def test_others_have_the_columns_themselves(data, counts, changes):
    assert features(data, counts, **changes) is None


def test_a_structure_is_of_columns():
    lasso = Structure(name="lasso", weight=1e-4, ridge=0.0, edges=(), rows=(), source="chain")
    assert features(structure=lasso) is None


def test_features_that_are_asked_for_are_taken_or_refused():
    assert features(features="bins:3", counts=(300,)) == "bins:3"
    with pytest.raises(InputError, match="no column of these records is a number"):
        features(TABLE.model_copy(update={"numbers": 0}), features="hats:5")


@pytest.mark.parametrize("agents", [1, 4])
def test_the_noise_of_a_run_is_what_its_plan_leaves_in_the_mean_of_all_answers(agents):
    """Per coordinate 2 g / (m mu) at an agent of m records, and 1 / sqrt(A) of it in the mean."""
    records, request = 5000, dataclasses.replace(ASKED, features="columns", centre=False)
    proposal = propose(TABLE, (records,) * agents, request)
    exact = math.sqrt(4) * 2 / (records * mu_of(1.0, 1e-6)) / math.sqrt(agents)
    assert noise_of_run(proposal) == pytest.approx(exact, rel=1e-3)
    scale = proposal.plan().ledger.scale
    planned = 2 * np.sqrt(np.sum(scale**2)) / scale.size / proposal.setting.facts.gradient_bound
    assert planned == pytest.approx(exact, rel=1e-3)


def test_hats_begin_where_the_noise_and_the_records_allow():
    """The first numbers of records at which they do, from the formulas of the rule."""
    coordinates, mu = 4 + 3 * 10, mu_of(1.0, 1e-6)
    by_noise = 2 * math.sqrt(coordinates) / (mu * MOST_NOISE_OF_RUN)
    plain = {"centre": False}
    assert features(counts=(math.ceil(by_noise * 1.01),), **plain) == "hats:10"
    assert features(counts=(math.floor(by_noise * 0.99),), **plain) is None
    rich = {"epsilon": 1e6, **plain}
    assert features(counts=(LEAST_RECORDS * coordinates,), **rich) == "hats:10"
    assert features(counts=(LEAST_RECORDS * coordinates - 1,), **rich) is None


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        ({}, "capped-exponential"),
        ({"epsilon": math.inf}, "logistic"),
        ({"algorithm": "dvp"}, "logistic"),
        ({"loss": Named.parse("loss", "hinge:0.5")}, "hinge:0.5"),
    ],
)
def test_two_classes_have_the_loss_that_suits_the_noise(changes, loss):
    """Noise inside an objective needs a second derivative, and without noise nothing is capped."""
    proposal = propose(TABLE, (500,), dataclasses.replace(ASKED, **changes))
    assert str(proposal.loss) == loss


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        ({}, "bounded-multinomial"),
        ({"epsilon": math.inf}, "multinomial"),
        ({"algorithm": "pvp"}, "multinomial"),
    ],
)
def test_several_classes_have_the_bounded_score_where_gradients_are_noised(changes, loss):
    """A step that minimises needs a gradient, and without noise nothing is bounded."""
    data = TABLE.model_copy(update={"task": "multiclass", "classes": 3})
    proposal = propose(data, (500,), dataclasses.replace(ASKED, **changes))
    assert str(proposal.loss) == loss
