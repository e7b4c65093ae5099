"""Wang et al. 2024 run again: totals, what is counted, recovery, and the whole page."""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.kernel.records import pack
from taciturn.network import complete, ring, uniform_walk
from taciturn.problems import ElasticNet, Logistic, Problem, minimise
from taciturn_papers.as_published import claimed_epsilon
from taciturn_papers.reproductions import Measured, Reproduction, page
from taciturn_papers.reproductions.wang2024 import notes, settings_of
from taciturn_papers.reproductions.wang2024.arms import (
    CENTRAL,
    METHODS,
    RECAL_HOP,
    STAR,
    Outcome,
    Task,
    outcome,
)
from taciturn_papers.reproductions.wang2024.as_printed import (
    PRINTED,
    RECAL_PRINTED,
    Printed,
    gradient_of,
    leaks,
    noise,
    printed,
)
from taciturn_papers.reproductions.wang2024.costs import COMPARED, FEATURES, GRAPHS, Cost, cost
from taciturn_papers.reproductions.wang2024.figures import (
    figures,
    of_leaks,
    of_scaling,
    orderings,
)
from taciturn_papers.reproductions.wang2024.runs import RECYCLED, Cell, Facts, Solved
from taciturn_papers.reproductions.wang2024.settings import (
    AGENTS,
    AT_TWELVE,
    BUDGETS,
    EQUAL,
    NO_NOISE,
    QUICK,
    Scale,
    our_budgets,
    paper_budgets,
)
from taciturn_papers.reproductions.wang2024.tables import (
    comparison_table,
    fair_tables,
    optima_table,
    scaling_tables,
)

TINY = Scale(
    sets=("ijcnn1",), losses=("logistic",), records=160, hops=96, repetitions=2,
    published_repetitions=1, sizes=(4, 8), most_rounds=100, optimum_tol=1e-6, solver_rounds=4,
    images=(),
)  # fmt: skip


@functools.cache
def task():
    draw = np.random.default_rng(0)
    x = draw.standard_normal((160, 4)) + 0.3
    y = np.sign(x @ np.array([2.0, -1, 0, 1]) + 0.1)
    parts = np.split(np.arange(160), AGENTS)

    def packed(owners):
        return pack(x, y, owners, record_norm=1.0, precision="float32")

    shards, whole = packed(parts), packed([np.arange(160)])
    ours, theirs = (Problem(Logistic(), ElasticNet(a, b)) for a, b in ((1e-5, 1e-3), (0.5, 0.5)))
    best = minimise(ours, shards, tol=1e-6)
    slope = float(jnp.max(jnp.abs(ours.gradient(jnp.zeros(4, jnp.float32), shards))))
    return Task("ijcnn1", "logistic", ours, theirs, 1.0, shards, whole, whole.shard(0),
                np.asarray(best.w), best.value, slope)  # fmt: skip


@pytest.fixture(scope="module")
def recal():
    return outcome(task(), task().problem, "RECAL", AT_TWELVE, TINY)


def test_the_agent_asked_most_spends_the_budget_and_the_others_less(recal):
    counts = [uniform_walk(ring(AGENTS), 96, seed=seed).counts for seed in (0, 1)]
    assert recal.plf == tuple(int(c.max()) for c in counts)
    assert max(recal.per_agent) == pytest.approx(EQUAL, rel=1e-4)
    order = np.argsort(counts[0], kind="stable")
    assert np.all(np.diff(np.array(recal.per_agent)[order]) >= -1e-9)
    assert recal.sent[-1] == pytest.approx(96 * RECAL_HOP / 1000)
    assert recal.gaps.shape == (2,)
    assert np.all(recal.gaps > -1e-5)


def test_every_method_sends_as_many_vectors_as_recal():
    for method in METHODS.values():
        sent = method.rounds(QUICK) * method.vectors
        assert RECAL_HOP * QUICK.hops - method.vectors < sent <= RECAL_HOP * QUICK.hops


@pytest.mark.parametrize("name", PRINTED)
def test_published_noise_charges_itself_what_is_claimed(name):
    """Theorem 4 by hand: rho + 2 sqrt(rho ln(1/delta)), rho the sum of Delta^2 / (2 sigma_t^2)."""
    setting = noise(name, 2.0, 0.25, EQUAL, 40)
    change = 2 * setting.alpha * 2.0 * (2 / (2 * (AGENTS + 1)) if name == RECAL_PRINTED else 1)
    scales = setting.first_scale * setting.decay ** (-np.arange(40) / 2)
    rho = np.sum(change**2 / (2 * scales**2))
    assert rho + 2 * math.sqrt(rho * math.log(1e3)) == pytest.approx(EQUAL, rel=1e-6)
    if name == RECAL_PRINTED:
        assert claimed_epsilon(setting, 2.0, AGENTS, 40, 1e-3) == pytest.approx(EQUAL)


def test_published_runs_use_the_gradient_of_the_agents_own_records():
    point = np.array([0.3, -0.2, 0.5, 0.1])
    exact = task().problem.local_gradient(
        jnp.asarray(point, jnp.float32), task().shards.shard(3), task().shards.counts[3]
    )
    np.testing.assert_allclose(gradient_of(task())(3, point), exact, rtol=1e-4, atol=1e-6)
    for name in PRINTED:
        one = printed(task(), name, EQUAL, TINY)
        assert one.messages == (96 if name == RECAL_PRINTED else 12 * 2 * AGENTS)
        assert np.all(np.isfinite(one.relative))


def test_links_of_the_published_form_give_the_record_away_and_the_sound_ones_do_not():
    rows = np.random.default_rng(1).standard_normal((AGENTS, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    exact, published, sound = leaks(rows, np.ones(AGENTS))
    for one in (exact, published):
        assert math.isinf(one.budget.total)
        assert all(value.mean < 1e-18 for value in one.errors)
    assert sound.budget.total == EQUAL
    assert min(value.mean for value in sound.errors) > 1e-3
    verdicts = [o.verdict for o in of_leaks((exact, published, sound))]
    assert verdicts == ["does not come out", "comes out"]


def test_messages_of_tables_one_to_three_are_counted_on_the_graph():
    gossip = cost("gossip ADMM (IC-ADMM)", complete(4), 400)
    assert gossip.messages == gossip.plf * 12
    assert gossip.bytes == gossip.messages * 8 * FEATURES
    assert gossip.gradients == gossip.plf * 4
    given_up = cost("gossip ADMM (IC-ADMM)", complete(4), 3)
    assert math.isnan(given_up.messages)


def fabricated(error):
    """An outcome with that error everywhere."""
    values = np.array([[1.0] * 5 + [error], [1.0] * 5 + [1.01 * error]])
    return Outcome(
        np.linspace(0.1, 1, 6), values, values, values[:, -1], values[:, -1], (12, 13), 96, 0.1,
        tuple(range(8)),
    )  # fmt: skip


def fabricated_page(ahead):
    """A page on which RECAL has the least errors, or not."""
    settings = (*paper_budgets(), NO_NOISE, AT_TWELVE, *our_budgets())
    outcomes = {
        (name, setting): fabricated(
            (0.1 if ahead else 0.3) / min(setting.total, 99) if name == "RECAL" else 0.01
            if name == CENTRAL else 0.2 / min(setting.total, 99)
        )
        for name in METHODS
        for setting in settings
    }  # fmt: skip
    one = Printed(np.array([0.1, 1.0]), np.ones((1, 2)), np.zeros(1), (12,), 96, 0.1)
    cell = Cell(
        Facts("ijcnn1", "logistic", 20, 1.0, 0.2, 9.0, np.ones(3)), outcomes,
        dict.fromkeys(METHODS, 0.0),
        {(name, total): one for name in PRINTED for total in (EQUAL, BUDGETS[-1])},
    )  # fmt: skip
    costs = {
        (kind, name, agents): Cost(*[float(agents**power)] * 5)
        for kind in GRAPHS
        for power, name in enumerate(COMPARED, start=1)
        for agents in TINY.sizes
    }
    solved = {RECYCLED: Solved(2, 4, 64, Measured.of([0.1]), Measured.of([9.0]), 1.0)}
    return Reproduction(
        "wang2024", "A title", "a run on made-up numbers", ("p",), settings_of(TINY), (0, 1),
        figures([cell], TINY.losses),
        (*fair_tables([cell], solved, TINY), comparison_table([cell], "logistic"),
         optima_table([cell]), *scaling_tables(costs, TINY)),
        (*orderings([cell], TINY.losses), *of_scaling(costs, TINY)), notes(TINY), 1.0,
    )  # fmt: skip


def test_orderings_follow_the_measured_means_and_the_page_stands_alone():
    sound = "relative error at equal totals, sound forms: RECAL is below every other"
    for ahead in (True, False):
        made = fabricated_page(ahead)
        by_claim = {(o.part, o.claim): o.verdict for o in made.orderings}
        assert by_claim["Figure 6", sound] == ("comes out" if ahead else "does not come out")
        # one walk each: measured once
        assert by_claim["Table II", "RECAL sends fewer messages than any other"] == "undecided"
    written = page(made)
    assert "http" not in written.replace("http://www.w3.org", "")
    assert "DP-RECAL as published, claims epsilon 12; no privacy" in written
    assert "n^2" in written
    curves = [c for f in made.to_dict()["figures"] for p in f["panels"] for c in p["curves"]]
    assert all("total_epsilon" in curve for curve in curves)
    star = next(c for c in curves if c["label"] == STAR)
    assert star["total_epsilon"] == EQUAL
