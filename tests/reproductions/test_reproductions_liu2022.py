"""Liu et al. 2022 run again: cases, controls, and how the report is put together."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

from tacit.reproductions import Measured, page, plain
from tacit.reproductions.liu2022 import QUICK, build, measure
from tacit.reproductions.liu2022.settings import DELTA, MUSHROOMS

TINY = dataclasses.replace(QUICK, budgets=(1.0,), seeds=2, records=120)


@pytest.fixture(scope="module")
def parts():
    return measure.divided(MUSHROOMS, TINY)


def test_the_public_part_is_not_trained_on(parts):
    whole = measure.load("mushrooms").train_rows
    public = int(0.1 * whole)
    rest = measure.split(measure.load("mushrooms"), seed=0).train_features[public:]
    np.testing.assert_array_equal(parts.train[0], rest[:120])
    assert parts.edges.max() < 112


def test_the_graph_follows_the_columns_into_another_order(parts):
    order = np.random.default_rng(0).permutation(112)
    given = measure.case(MUSHROOMS, parts, "fused")
    moved = measure.case(MUSHROOMS, parts, "fused", order)
    model = np.random.default_rng(1).standard_normal(112)
    ours, theirs = (
        float(case.problem.composed.objective(jnp.asarray(x), case.train))
        for case, x in ((given, model), (moved, model[order]))
    )
    assert ours == pytest.approx(theirs, rel=1e-6)
    wrong = float(given.problem.composed.objective(jnp.asarray(model[order]), moved.train))
    assert wrong != pytest.approx(theirs, rel=1e-6)  # a graph left behind is seen


def test_every_arm_of_the_lasso_spends_the_same_total(parts):
    subject = measure.case(MUSHROOMS, parts, "lasso")
    for arm in (measure.sadmm, measure.vradmm(0.0), measure.renyi, measure.proximal):
        made = measure.planned(subject, arm, 1.0, TINY)
        assert made.certificate.epsilon == pytest.approx(1.0, rel=1e-4)
        assert made.certificate.delta == DELTA


def test_the_report_has_four_figures_and_verdicts(monkeypatch):
    value = iter(np.linspace(1, 2, 10_000))

    def scores(subject, arm, epsilon, setting):
        return measure.Scores(Measured.of([next(value)] * 2), Measured.of([0.1, 0.2]))

    monkeypatch.setattr(measure, "scores", scores)
    made = build(TINY, lambda line: None)
    assert [figure.id for figure in made.figures] == ["figure1", "figure2", "figure3", "figure4"]
    found = json.loads(json.dumps(plain(made)))
    curve = found["figures"][0]["panels"][0]["curves"][0]
    assert curve["budgets"][0]["total"] == 1.0
    verdicts = {ordering.claim: ordering.comes_out for ordering in made.orderings}
    assert not verdicts["smoothing lowers the objective gap"]  # scores rise from arm to arm
    assert "not at hand" in " ".join(made.notes)
    assert "<svg" in page(made)
