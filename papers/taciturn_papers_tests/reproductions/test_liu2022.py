"""Liu et al. 2022 run again: cases, controls, equal totals, and how the report is put together."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from taciturn.datasets import load, split
from taciturn.engine import records_for_door, reproduction, simulate
from taciturn.errors import InputError, PrivacyError
from taciturn_papers.reproductions import liu2022, plain
from taciturn_papers.reproductions.arms import repeated
from taciturn_papers.reproductions.liu2022 import QUICK, arms, build, settings
from taciturn_papers.reproductions.liu2022.arms import proximal, renyi, sadmm, vradmm
from taciturn_papers.reproductions.liu2022.settings import ADULT, DELTA
from taciturn_papers.reproductions.portions import Portions, Work

TINY = dataclasses.replace(QUICK, data=(ADULT,), budgets=(0.5, 1.0), seeds=2, records=60)
ONE = dataclasses.replace(TINY, budgets=(1.0,))


@pytest.fixture(scope="module")
def parts():
    return Portions().done(settings.divided(ADULT, TINY))


def tiny(parts, kind="fused"):
    """Return a task without the cost of its optimum."""
    train, test = settings._packed(parts.train), settings._packed(parts.test)
    problem = settings._problem(ADULT, kind, parts.edges, train.dimension)
    return settings.Task(kind, train, test, problem, 20 / 60, 6, 0.0, 0.2)


@pytest.fixture(scope="module")
def plans(parts):
    """Two plans of DP-VRADMM, the second with twice the noise; neither multiplier is searched."""
    multipliers = [{"differences": (each,)} for each in (10.0, 20.0)]
    return [arms.planned(tiny(parts), vradmm("public"), ONE, m)[0] for m in multipliers]


def test_the_graphical_lasso_finds_the_neighbours_of_a_chain():
    draw = np.random.default_rng(0)
    precision = 1.5 * np.eye(5) + sum(0.7 * np.eye(5, k=k) for k in (-1, 1))
    rows = draw.multivariate_normal(np.zeros(5), np.linalg.inv(precision), 4000)
    edges = settings.learned_edges(rows, weight=0.1)
    assert {(0, 1), (1, 2), (2, 3), (3, 4)} <= {tuple(edge) for edge in edges}
    assert max(j - i for i, j in edges) <= 2  # the l1 norm joins some second neighbours too
    with pytest.raises(InputError, match="joins no columns"):
        settings.learned_edges(rows, weight=10.0)


def test_the_public_part_is_not_trained_on(parts):
    whole = split(load("adult", interval="unit"), seed=0).train_features
    np.testing.assert_array_equal(parts.train[0], whole[len(whole) // 10 :][:60])
    assert parts.edges.max() < whole.shape[1]


def test_the_graph_follows_the_columns_into_another_order(parts):
    given = tiny(parts)
    columns = given.train.dimension
    order = np.random.default_rng(0).permutation(columns)
    moved = settings.reordered(given, parts, order)
    model = np.random.default_rng(1).standard_normal((1, columns))
    ours, theirs = given.gaps(model)[0], moved.gaps(model[:, order])[0]
    assert ours == pytest.approx(theirs, rel=1e-6)
    np.testing.assert_array_equal(given.errors(model), moved.errors(model[:, order]))
    left_behind = dataclasses.replace(moved, problem=given.problem)
    assert left_behind.gaps(model[:, order])[0] != pytest.approx(theirs, rel=1e-6)


def test_methods_that_ask_the_same_spend_the_total_and_too_little_noise_is_refused(parts, plans):
    subject, known = tiny(parts, "lasso"), {}
    for arm in (sadmm("public"), renyi("published"), proximal()):
        (made,) = arms.planned(subject, arm, ONE, known)
        known[arm.asks] = (made.multiplier,)
        assert made.certificate.epsilon == pytest.approx(1.0, rel=1e-4)
        assert made.certificate.delta == DELTA
    assert plans[1].certificate.epsilon < 0.6 * plans[0].certificate.epsilon < 0.6
    known["gradients"] = (0.9 * known["gradients"][0],)
    with pytest.raises(PrivacyError, match="would spend epsilon"):
        arms.planned(subject, proximal(), ONE, known)


@pytest.fixture
def _compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("_compile_quickly")
def test_budgets_and_seeds_in_one_program_are_the_runs_one_by_one(parts, plans):
    shards = tiny(parts).train
    together = repeated(plans, shards, seeds=(3, 4), keep=frozenset())[0]
    program, private = plans[1].program, records_for_door(plans[1], shards)
    alone, _ = simulate(program, *reproduction(program, private, 4), keep=frozenset())
    np.testing.assert_allclose(together[1, 1], alone, rtol=1e-4, atol=1e-6)
    assert not np.allclose(together[1, 1], together[1, 0])
    assert not np.allclose(together[1, 1], together[0, 1])
    less = dataclasses.replace(plans[1], program=plans[0].program)  # less noise than planned
    with pytest.raises(PrivacyError):
        repeated([less], shards, seeds=(3,), keep=frozenset())


def test_verdicts_and_notes_follow_what_was_measured(monkeypatch):
    def scored(task, arm, scale, known):
        # published steps: variance reduction is ahead; public steps: behind; smoothing is worse
        name = arm.name
        if "ours" in name:
            name = "DP-SADMM, public steps, v = -1"
        ahead = ("DP-VRADMM" in name) == ("published" in name)
        gap = 1.0 - 0.5 * ahead + 0.1 * ("v =" in name) - 0.6 * ("published" not in name)
        budgets = 1 if arm.reference else 2
        return {
            "gap": np.tile([gap, gap + 1e-3], (budgets, 1)),
            "error": np.full((budgets, 2), 0.1),
        }

    monkeypatch.setattr(liu2022, "scored", scored)
    monkeypatch.setattr(liu2022, "task", tiny)
    monkeypatch.setattr(liu2022, "solved", lambda subject, name: Work((), lambda _: subject))
    monkeypatch.setattr(liu2022, "multipliers", lambda *given: Work((), lambda _: (1.0, 1.0)))
    made = build(TINY, Portions())
    names = ["Figure 1", "Figure 1, public steps", "Figure 2", "Figure 3", "Figure 4"]
    assert [figure.id for figure in made.figures] == names
    found = json.loads(json.dumps(plain(made)))
    assert found["figures"][0]["panels"][0]["curves"][0]["total_epsilon"] == [0.5, 1.0]
    verdicts = {(o.part, o.claim): o.verdict for o in made.orderings}
    smooth, plainly = "DP-VRADMM, published steps, v = 2", "DP-VRADMM, published steps"
    worse = verdicts["Figure 1", f"objective gap: {smooth} is better than {plainly}"]
    assert worse == "does not come out"
    rival = "DP-SADMM, published steps"
    better = verdicts["Figure 2", f"objective gap: {plainly} is better than {rival}"]
    assert better == "comes out"
    tied = verdicts["Figure 2", f"test error: {plainly} is better than {rival}"]
    assert tied == "undecided"
    notes = " ".join(made.notes)
    assert "at 6 of 6 places with the published steps and at 0 with public steps" in notes
    assert "does not pay for its questions" in notes
    assert "covtype and bio-train are not at hand" in notes
    assert made.figures[2].panels[0].curves[-1].reference
    optimum, commonest = made.figures[0].panels[1].curves[-2:]
    assert optimum.y[0].mean == 0.2
    positive = float(np.mean(np.asarray(split(load("adult"), seed=0).test_targets) > 0))
    assert commonest.y[0].mean == pytest.approx(min(positive, 1 - positive))
    assert made.run == "a run on 60 records"
