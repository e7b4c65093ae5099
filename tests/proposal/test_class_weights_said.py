"""Class weights as a person says them, and as proposals, certificates and models state them."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from tests.proposal.proposals import facts, proposed, table_facts

from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn.estimators import PrivateLogisticRegression
from taciturn.models import load_model
from taciturn.training import Proposal, weights_by_label

PRIOR = {"no": 0.95, "yes": 0.05}


def test_a_prior_gives_weights_with_which_the_classes_count_alike():
    weights = weights_by_label(("no", "yes"), None, PRIOR)
    assert weights == pytest.approx((0.05 / 0.95, 1.0))
    assert weights[0] * 0.95 == pytest.approx(weights[1] * 0.05)
    assert weights_by_label((1, 2, 3), None, {1: 0.333, 2: 0.333, 3: 0.333}) == (1.0, 1.0, 1.0)
    assert weights_by_label(("a", "b", "c"), {"b": 0.5}, None) == (1.0, 0.5, 1.0)
    assert weights_by_label(("no", "yes"), None, None) is None


@pytest.mark.parametrize(
    ("weights", "prior", "words"),
    [
        ({"no": 0.5}, PRIOR, "both given"),
        ({"perhaps": 0.5}, None, "'perhaps', which is no label.*no, yes"),
        ({"no": 0.0}, None, "class weight of 'no' is 0"),
        ("balanced", None, "'balanced'.*counted from the records.*public shares"),
        (None, [0.5, 0.5], "a list; it must be a number for each label"),
        (None, {"no": 0.5, "yes": 0.4}, "sum to 0.9"),
    ],
)
@pytest.mark.unchecked
def test_what_is_no_public_weight_is_refused_with_the_cure(weights, prior, words):
    with pytest.raises(InputError, match=words):
        weights_by_label(("no", "yes"), weights, prior)


def test_a_proposal_states_the_weights_and_needs_no_more_noise_for_them():
    plain = proposed(data=table_facts())
    balanced = proposed(data=table_facts(), prior=PRIOR)
    assert balanced.class_weights == pytest.approx((0.05 / 0.95, 1.0))
    assert Proposal.from_json(balanced.to_json()) == balanced
    assert balanced.facts == plain.facts  # the bounds of the loss without weights
    assert balanced.clip == plain.clip
    assert balanced.plan().certificate == plain.plan().certificate
    halved = proposed(data=table_facts(), class_weight={"no": 0.25, "yes": 0.5})
    assert halved.facts.gradient_bound == plain.facts.gradient_bound / 2
    assert halved.facts.smoothness == plain.facts.smoothness / 2


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([30, 1.0], "is 30; weights"),
        ([1.0], "1 class weights are given"),
    ],
)
def test_a_proposal_with_other_weights_is_refused(weights, words):
    values = json.loads(proposed(data=table_facts(), prior=PRIOR).to_json())
    values["class_weights"] = weights
    with pytest.raises(InputError, match=words):
        Proposal.from_json(json.dumps(values))


def test_numbers_have_no_classes_to_weigh():
    with pytest.raises(InputError, match="for a target with labels"):
        proposed("regression", class_weight={"1": 0.5})
    three = proposed("multiclass", data=facts("multiclass"), class_weight={"2": 0.5})
    assert three.class_weights == (1.0, 1.0, 0.5)


def unbalanced():
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (400, 2))
    return x, np.where(x[:, 0] + 0.4 * draw.standard_normal(400) > 0.9, "ill", "fit")


PUBLIC = {"delta": 1e-5, "bounds": (-1, 1), "classes": ["fit", "ill"]}


def test_without_noise_an_estimator_with_weights_is_scikit_learns():
    x, y = unbalanced()
    weights = {"fit": 0.1, "ill": 1.0}
    ours = PrivateLogisticRegression(
        epsilon=math.inf, l2=1e-2, rounds=3000, class_weight=weights, **PUBLIC
    ).fit(x, y)
    rows = np.column_stack([x, np.ones(len(x))])
    theirs = LogisticRegression(C=1 / (1e-2 * len(x)), fit_intercept=False, tol=1e-10)
    theirs.set_params(class_weight=weights, max_iter=10_000).fit(rows, y)
    np.testing.assert_allclose(
        np.append(ours.coef_, ours.intercept_), np.ravel(theirs.coef_), atol=1e-4
    )
    assert ours.score(x, y) == np.mean(ours.predict(x) == y)  # every row counts alike
    # the weights are divided out of the probabilities, and decide the label
    weighted, found = theirs.predict_proba(rows), ours.predict_proba(x)
    expected = weighted / [0.1, 1.0]
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-4)
    assert abs(found[:, 1].mean() - np.mean(y == "ill")) < 0.02 < weighted[:, 1].mean() - 0.1
    chosen = ours.classes_[np.argmax(found * [0.1, 1.0], axis=1)]
    np.testing.assert_array_equal(ours.predict(x), chosen)


def test_weights_go_from_the_command_line_to_the_model_file(capsys, tmp_path):
    def called(*arguments):
        return main(list(map(str, arguments))), *capsys.readouterr()

    x, y = unbalanced()
    table, bounds, out = (tmp_path / name for name in ("t.csv", "b.toml", "out"))
    pd.DataFrame(x, columns=["a", "b"]).assign(state=y).to_csv(table, index=False)
    bounds.write_text(
        'source = "public"\n[target]\nname = "state"\nvalues = ["fit", "ill"]\n'
        "[columns.a]\nmin = -1\nmax = 1\n[columns.b]\nmin = -1\nmax = 1\n"
    )
    run = (
        "train", table, "--target", "state", "--bounds", bounds, "--epsilon", 2, "--delta", 1e-5,
        "--agents", 1, "--rounds", 5,
    )  # fmt: skip
    code, printed, _ = called(*run, "--prior", "fit=0.9", "--prior", "ill=0.1", "--out", out)
    assert code == 0
    assert "Condition: the class weights are public" in printed
    assert load_model(out / "model.json").class_weights == pytest.approx((1 / 9, 1.0))
    assert "Class weights: fit: 0.111111, ill: 1" in called("show", out / "model.json")[1]
    assert "fit: 0.111111, ill: 1" in (out / "report.html").read_text()
    proposal = json.loads((out / "proposal.json").read_text())
    assert proposal["class_weights"] == pytest.approx([1 / 9, 1.0])
    for option in ("fit", "fit=", "fit=much"):
        code, _, said = called(*run, "--class-weight", option)
        assert code == 2
        assert "give a label and a number" in said
    assert "twice for 'fit'" in called(*run, "--prior", "fit=1", "--prior", "fit=0.5")[2]
