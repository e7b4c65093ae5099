"""A result at a prompt is a few lines, and its curves are a table by round."""

import numpy as np
import pytest
from tests.conftest import make_plan, make_shards
from tests.evaluation.test_evaluation import made, trained

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.engine import run


@pytest.fixture(scope="module")
def shards():
    return make_shards()


def finished(shards, **more):
    return run(make_plan("noisy-gradient", shards), shards, runtime="simulate", **more)


def test_a_run_is_shown_in_ten_lines(shards, tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account("one", Guarantee(9.0, 1e-2), AccountTerms(), folder=tmp_path)
    for one in (finished(shards), finished(shards, seed=1), finished(shards, account=account)):
        lines = repr(one).splitlines()
        assert len(lines) <= 10
        assert max(map(len, lines)) < 200
        assert f"{one.plan.rounds} rounds" in lines[0]
        assert any("epsilon = " in line for line in lines)
        assert ("reproduction" in lines[1]) == one.certificate.reproduction
        assert str(one.model.shape) in repr(one)
    assert "charged to: one" in repr(one)


def test_the_curves_of_a_run_are_a_table_by_round(shards):
    bare, full = finished(shards), finished(shards, keep=frozenset({"models"}), seed=1)
    frame = bare.to_frame()
    assert frame.index.tolist() == list(range(1, bare.plan.rounds + 1))
    assert set(bare.plan.schedules) <= set(frame.columns)
    assert "model_norm" not in frame
    norms = full.to_frame()["model_norm"]
    assert norms.iloc[-1] == pytest.approx(np.linalg.norm(full.model), rel=1e-6)
    assert "models" in repr(full)


@pytest.mark.slow
def test_a_training_is_shown_in_ten_lines_with_its_test_curves():
    training = trained(made())[1]
    lines = repr(training).splitlines()
    assert len(lines) <= 10
    assert "loss capped-exponential" in repr(training)
    frame = training.to_frame()
    assert frame.shape == (training.plan.rounds, 2)
    assert frame["test_error"].iloc[-1] == pytest.approx(training.metrics.test_error)
    assert f"{training.metrics.test_error:.4g}" in repr(training)


def test_test_records_that_are_not_public_show_in_neither(monkeypatch):
    training = trained(made())[1]
    monkeypatch.setattr(type(training), "shows_test", False)
    assert training.to_frame().shape == (training.plan.rounds, 0)
    assert "test error: not shown" in repr(training)
