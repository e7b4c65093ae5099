"""Records held out by a public rule are not trained on, and answer one question, paid for once."""

import dataclasses
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import make_plan, make_shards

from taciturn.audit import check_oracle
from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli.main import main
from taciturn.datasets import Dataset
from taciturn.engine.running import check_certificate
from taciturn.errors import InputError, PrivacyError, UtilityWarning
from taciturn.estimators import PrivateLinearRegression
from taciturn.kernel.privacy import Adjacency, ReplaceOne, ZeroOut
from taciturn.kernel.questions import ClippedErrors, Point, Tally
from taciturn.kernel.questions.statistics import cuts_of_scores
from taciturn.kernel.records import check_held_out, hold_out
from taciturn.problems import Named
from taciturn.report import results
from taciturn.report.training import training_page
from taciturn.training import (
    NetworkRequest,
    Proposal,
    Request,
    StructureRequest,
    divide,
    proposal_for,
    released,
    train,
)
from taciturn.training.evaluation import check_covered, evaluation_plan


class TwoIndicators(Tally):
    """Planted fault: label and bin counted apart, with the bound of one joint count."""

    def exact(self, shard, count, query):
        joint = super().exact(shard, count, query).reshape(self.shape)
        sides = jnp.concatenate([joint.sum(axis=1), joint.sum(axis=0)])
        return jnp.pad(sides, (0, math.prod(self.shape) - len(sides)))


def of_classes(vector):
    return Point(jnp.outer(vector, jnp.array([1.0, -1.0, 0.5])))


@pytest.mark.parametrize(
    ("oracle", "query"),
    [
        (Tally(2), None),
        (Tally(2, offsets=0.25), None),
        pytest.param(Tally(2, offsets=0.25, shift=2.0), None, marks=pytest.mark.slow),
        pytest.param(Tally(3, offsets=0.25), of_classes, marks=pytest.mark.slow),
        pytest.param(Tally(3), of_classes, marks=pytest.mark.slow),
        pytest.param(ClippedErrors(), None, marks=pytest.mark.slow),
    ],
)
def test_no_neighbour_moves_the_answer_about_a_model_beyond_its_bound(oracle, query):
    report = check_oracle(oracle, query=query, trials=200)
    assert report.passes, report


class SignedRest(Tally):
    """Planted fault: a rest that moves by twice its weight."""

    def within(self, scores, cells):
        offset, rest = super().within(scores, cells)
        return jnp.stack([offset, 8 * rest - 4])


def test_offsets_beyond_their_range_are_caught():
    report = check_oracle(SignedRest(2, offsets=0.25), trials=200)
    assert "sensitivity, replace_one, record" in report.violated


def test_two_counts_under_the_bound_of_one_are_caught():
    assert "sensitivity, replace_one, record" in check_oracle(TwoIndicators(2), trials=200).violated


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut()])
def test_the_bounds_are_those_of_one_indicator_and_of_three_powers(relation):
    spec = make_plan("noisy-gradient", make_shards()).spec
    adjacency = Adjacency(relation, "record")
    replaced = isinstance(relation, ReplaceOne)
    for norm, joint, powers in (("l2", math.sqrt(2), math.sqrt(3)), ("l1", 2.0, 3.0)):
        expected = joint if replaced else 1.0
        assert np.all(Tally(2).bound(spec, adjacency, norm=norm).value == expected)
        beside = Tally(2, offsets=0.25).bound(spec, adjacency, norm=norm).value
        if norm == "l2":
            assert np.all(beside == math.sqrt(2 + 1.5 / 16 if replaced else 1 + 1.25 / 16))
        else:
            assert np.all(beside == (2.5 if replaced else 1.375))
        assert np.all(ClippedErrors().bound(spec, adjacency, norm=norm).value == powers)


def test_the_cells_are_label_prediction_and_bin_of_the_probability():
    draw = np.random.default_rng(0)
    scores, y = 3 * draw.standard_normal(500), np.sign(draw.standard_normal(500))
    chance = 1 / (1 + np.exp(-scores))
    expected = (y > 0) * 10 + np.floor(chance * 10).astype(int)
    np.testing.assert_array_equal(Tally(2).cells(jnp.asarray(scores), jnp.asarray(y)), expected)
    assert cuts_of_scores(10)[4] == 0
    many, codes = draw.standard_normal((500, 3)), draw.integers(0, 3, 500)
    likely = np.exp(many) / np.exp(many).sum(axis=1, keepdims=True)
    place = np.floor((likely.max(axis=1) - 1 / 3) / (2 / 3) * 10).astype(int)
    expected = (codes * 3 + many.argmax(axis=1)) * 10 + place
    np.testing.assert_array_equal(Tally(3).cells(jnp.asarray(many), jnp.asarray(codes)), expected)


def test_the_rule_divides_row_numbers_by_counts_and_a_public_seed_alone():
    parts = [np.arange(0, 40), np.arange(40, 45), np.arange(45, 46)]
    kept, held = hold_out(parts, 0.2, seed=3)
    assert [len(part) for part in held] == [8, 1, 0]
    for part, one, other in zip(parts, kept, held, strict=True):
        np.testing.assert_array_equal(np.sort(np.concatenate([one, other])), part)
    again = hold_out(parts, 0.2, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(held, again[1], strict=True))
    assert not np.array_equal(held[0], hold_out(parts, 0.2, seed=4)[1][0])
    assert held[0].tolist() != list(range(32, 40))  # files are often sorted
    with pytest.raises(InputError, match="holds no row out"):
        hold_out([np.arange(3)] * 4, 0.1, seed=0)


def made(rows=240):
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (rows, 3)) / math.sqrt(3)
    y = np.where(x[:, 0] + 0.3 * draw.standard_normal(rows) > 0, 1.0, -1.0)
    return Dataset(
        name="made", title="made", features=x, targets=y, task="binary", classes=2,
        feature_names=("a", "b", "c"), train_rows=200, fixed_test=True, public=True, licence="CC0",
        source="here", record_norm=1.0, conditions=(),
    )  # fmt: skip


def asked(**more):
    return Request(**{"epsilon": 2.0, "delta": 1e-4, "rounds": 3, "evaluate": 0.25, **more})


def trained(dataset, *, seed=7, account=None, **more):
    request = asked(**more)
    data = divide(dataset, 2, split_seed=0, evaluate=request.evaluate)
    proposal = proposal_for(data, request, StructureRequest())
    return data, train(data, proposal, reference=False, seed=seed, account=account)


@pytest.fixture(scope="module")
def plain():
    return trained(made(), centre=True, loss=Named(name="logistic", numbers=()))


def test_what_held_out_records_say_does_not_reach_the_model_nor_its_centre(plain):
    data, one = plain
    held = np.concatenate(data.held_out)
    assert len(held) == 50

    def model_with_others(places):
        x, y = data.parts.train_features.copy(), data.parts.train_targets.copy()
        x[places], y[places] = -x[places][:, ::-1], -y[places]
        parts = data.parts._replace(train_features=x, train_targets=y)
        changed = dataclasses.replace(data, parts=parts)
        return train(changed, one.proposal, reference=False, seed=7).model

    np.testing.assert_array_equal(one.model, model_with_others(held))
    # and what trained records say does
    assert np.any(one.model != model_with_others(data.owners[0][:20]))


def test_the_score_is_in_results_model_and_certificate_and_costs_the_larger_budget(plain):
    _, training = plain
    score, certificate = training.private_score, training.certificate
    assert score.records == 50
    # of a loss without probabilities: a record moves two counts and nothing else
    assert score.noise == pytest.approx(math.sqrt(2 * 2) / certificate.mu, rel=1e-5)
    alone = training.plan.certificate.mu
    assert certificate.mu == pytest.approx(alone, rel=1e-6)
    assert certificate.epsilon <= 2.0
    assert any("(training, held out)" in line for line in certificate.lines())
    assert json.loads(json.dumps(results(training, None)))["private_score"]["records"] == 50
    assert released(training).private_score["error"]["low"] <= score.error.estimate
    assert training.evaluation.plan.ledger.kind.shape == (2, 1, 1)


def test_only_scores_that_are_log_odds_are_calibrated(plain):
    clipped, whole = plain[1], trained(made(), centre=True)[1]
    assert clipped.private_score.calibration is None
    assert len(whole.private_score.calibration) > 1
    assert results(clipped, None)["loss"] == "robust logistic, clip 0.5"
    assert results(clipped, None)["clip"] == 0.5
    assert results(whole, None)["loss"] == "capped-exponential"
    model = released(clipped)
    assert (model.clip, str(model.clipped_loss)) == (0.5, "robust logistic, clip 0.5")
    assert clipped.private_score.brier is None
    brier, gap = whole.private_score.brier, whole.private_score.calibration_error
    assert brier.low <= brier.estimate <= brier.high
    assert gap.low <= gap.estimate <= gap.high
    lines = "\n".join(whole.private_score.lines())
    assert "Brier score: 0." in lines
    assert "calibration error, 10 bins: at most" in lines  # fifty records under noise
    # the noise of the counts grows by that of the joint answer alone
    grown = whole.private_score.noise / clipped.private_score.noise
    assert grown == pytest.approx(math.sqrt(1 + 0.75 / 16), rel=1e-5)
    for one, shown in ((clipped, False), (whole, True)):
        html = training_page(one).html()
        assert ("predicted probability" in html) == shown
        assert ("robust logistic, clip 0.5" in html) != shown


def test_rows_that_were_trained_on_are_not_evaluated(plain):
    data, training = plain
    overlap = (data.owners[0][:1], data.held_out[1])
    with pytest.raises(PrivacyError, match="trained on and held out"):
        dataclasses.replace(data, held_out=overlap)
    with pytest.raises(PrivacyError, match="1 rows"):
        check_held_out(data.owners, overlap)
    none = dataclasses.replace(data, held_out=())
    with pytest.raises(InputError, match="propose again"):
        train(none, training.proposal, reference=False, seed=0)


def test_an_agent_that_is_protected_is_in_both_parts_and_no_evaluation_is_free(plain):
    """All records of an agent change together, those that are held out among them."""
    values = json.loads(plain[1].proposal.to_json())
    values["budget"]["unit"] = "agent"
    with pytest.raises(InputError, match="pays for both"):
        Proposal.from_json(json.dumps(values))


def test_a_proposal_says_what_is_held_out_and_other_counts_are_refused(plain):
    proposal = plain[1].proposal
    assert proposal.evaluation.counts == (25, 25)
    assert proposal.records == 200
    assert Proposal.from_json(proposal.to_json()) == proposal
    values = json.loads(proposal.to_json())
    values["evaluation"]["counts"] = [24, 26]
    with pytest.raises(InputError, match="propose again"):
        Proposal.from_json(json.dumps(values))


@pytest.mark.slow
def test_an_account_pays_for_training_and_evaluation_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account("one", Guarantee(3.0, 1e-3), AccountTerms(), folder=tmp_path / "a")
    _, training = trained(made(), seed=None, account=account, centre=False, rounds=20)
    assert training.private_score is not None
    charged = training.charged.after.total.squares
    assert charged == pytest.approx(training.certificate.mu**2, rel=1e-6)
    sampled = proposal_for(
        divide(made(), 2, split_seed=0, evaluate=0.25),
        asked(algorithm="dp-sgd", options={"sampling_rate": 0.2}),
        StructureRequest(),
    )
    with pytest.raises(InputError, match="leave --evaluate or --account out"):
        check_covered(sampled, sampled.plan())


@pytest.mark.slow
def test_on_a_tree_an_agent_that_holds_nothing_out_passes_sums_on_under_the_same_trust():
    request = asked(observer="sum", network=NetworkRequest(network="path"))
    data = divide(made(), 4, split_seed=0, evaluate=0.25)
    plain = proposal_for(data, request, StructureRequest())
    held = plain.model_copy(
        update={"evaluation": plain.evaluation.model_copy(update={"counts": (12, 0, 12, 12)})}
    )
    training = held.plan()
    planned = evaluation_plan(held, training)
    assert planned.spec.agents == 3
    assert planned.network.parents.tolist() == [0, 0, 1]  # 1, the root, passes sums on
    assert planned.certificate.trust == training.certificate.trust
    check_certificate(planned)


def test_an_estimator_holds_rows_out_and_has_a_private_score():
    draw = np.random.default_rng(0)
    x = draw.uniform(0, 1, (2000, 1))
    y = 10 * x[:, 0] + draw.standard_normal(2000)
    model = PrivateLinearRegression(
        epsilon=5, delta=1e-5, bounds=(0, 1), target_bounds=(0, 10), rounds=3, evaluate=0.2
    ).fit(x, y, agents=2)
    score = model.private_score_
    error = np.mean(np.abs(np.clip(model.predict(x), 0, 10) - np.clip(y, 0, 10)))
    assert score.records == 400
    assert score.absolute.low <= error <= score.absolute.high
    assert "held out" in " ".join(model.certificate_.conditions)
    with pytest.raises(InputError, match=r"evaluate is 0\.7"):
        PrivateLinearRegression(
            epsilon=5, delta=1e-5, bounds=(0, 1), target_bounds=(0, 10), evaluate=0.7
        ).fit(x, y)


@pytest.mark.parametrize("step", ["ask_held_out", "score_of_totals"])
def test_a_fit_stands_where_its_evaluation_fails(step, monkeypatch):
    def fails(*_, **__):
        raise KeyError("cell 'smoker' of row 7")

    monkeypatch.setattr(f"taciturn.training.training.{step}", fails)
    x = np.random.default_rng(0).uniform(0, 1, (2000, 1))
    model = PrivateLinearRegression(
        epsilon=5, delta=1e-5, bounds=(0, 1), target_bounds=(0, 10), rounds=3, evaluate=0.2
    )
    with pytest.warns(UtilityWarning, match=r"private evaluation failed: KeyError\. The model"):
        model.fit(x, 10 * x[:, 0])
    assert model.private_score_ is None
    assert np.isfinite(model.predict(x)).all()
    assert "held out" in " ".join(model.certificate_.conditions)  # it may have answered


RUN = ("train", "breast_cancer", "--epsilon", "1", "--delta", "1e-4", "--rounds", "2")


@pytest.mark.parametrize("share", ["0", "0.6", "nan", "1e-6"])
def test_a_share_that_holds_nothing_or_too_much_out_is_one_line(share, tmp_path, capsys):
    assert main([*RUN, "--evaluate", share, "--out", str(tmp_path / "report")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "evaluate" in printed.err
    assert not (tmp_path / "report").exists()


def test_the_planner_says_how_wide_the_interval_will_be(capsys):
    options = ["--epsilon", "1", "--delta", "1e-6", "--rounds", "10", "--evaluate", "0.1"]
    assert main(["plan", "adult", *options, "--agents", "10", "--json"]) == 0
    width = json.loads(capsys.readouterr().out)["evaluation"]
    assert width["records"] == 4000
    # ten cells of twenty, ten agents, noise sqrt(2 + 3 / 32) / mu in each
    noise = 1.96 * math.sqrt(5 * 10 * (2 + 3 / 32)) / 0.23670 / 4000
    assert width["noise"] == pytest.approx(noise, rel=1e-3)
    assert width["most"] == pytest.approx(math.hypot(noise, 1.96 * 0.5 / math.sqrt(4000)), rel=1e-3)
