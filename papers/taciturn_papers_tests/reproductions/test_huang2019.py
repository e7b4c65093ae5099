"""Huang et al. 2019 run again: noise, totals, metrics and the whole command at a tiny scale."""

from __future__ import annotations

import dataclasses
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.algorithms import METHODS
from taciturn.cli import main
from taciturn.errors import InputError
from taciturn.problems import L1, L2, Logistic, Named, Problem
from taciturn.training import DataFacts, Request, propose
from taciturn_papers.reproductions import Measured, changed, huang2019
from taciturn_papers.reproductions.arms import different, swept
from taciturn_papers.reproductions.figure import Budget
from taciturn_papers.reproductions.huang2019 import arms, notes
from taciturn_papers.reproductions.huang2019.arms import (
    AUGMENTED,
    METRICS,
    Outcome,
    Records,
    augmented,
    losses,
    planned,
)
from taciturn_papers.reproductions.huang2019.figures import (
    NO_PLAN,
    bound_on,
    figures,
    orderings,
    times,
    times_table,
    totals_table,
)
from taciturn_papers.reproductions.huang2019.runs import Half, Optimum
from taciturn_papers.reproductions.huang2019.settings import (
    NO_NOISE,
    Scale,
    by_delta,
    by_epsilon,
    by_round,
    equal_totals,
    published,
)
from taciturn_papers.reproductions.portions import Portions
from taciturn_papers_tests.made_up import make_shards

RIDGE = Problem(Logistic(), L2(1e-6))
TINY = Scale(
    kinds=("l1",), records=400, agents=4, per_round=(0.05, 0.1), deltas=(1e-4, 1e-5),
    divisions=(2, 4), rounds=3, public_rounds=3, repetitions=2, division_repetitions=2,
    solver_repetitions=1, optimum_tol=1e-2, timed=(), timings=1,
)  # fmt: skip


def noise_of_26(m, epsilon, delta):
    """(26) in gradient units, c_1 = 1: sigma (rho + 1/eta)."""
    return 2 * math.sqrt(2 * math.log(1.25 / delta)) / (m * epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-5), (0.1, 1e-3), (0.2, 1e-6)])
def test_the_noise_of_a_round_is_that_of_26(epsilon, delta):
    shards = make_shards(agents=3, records=20, precision="float32")
    setting = published(epsilon, delta, 7)
    scale = dataclasses.replace(TINY, rounds=7)
    for arm in (arms.published_arm("l2", scale), arms.descent_arm(scale)):
        plan = arm.plan(RIDGE, shards, setting.terms)
        assert plan.ledger.scale.shape == (3, 7, 1)
        np.testing.assert_allclose(plan.ledger.scale, noise_of_26(20, epsilon, delta), rtol=1e-6)
    assert by_round(setting, 7).per_round == pytest.approx(epsilon, rel=1e-9)


def test_the_total_of_the_main_setting_is_the_known_one():
    assert published(0.1, 1e-5, 100).total == pytest.approx(0.751, abs=5e-4)


def test_published_step_sizes_are_those_of_the_paper():
    """(29) and (34) with the numbers printed in section VI, m = 20 records an agent, k = 1, 2."""
    shards = make_shards(agents=3, records=20, features=4, precision="float32")
    setting, k = published(0.1, 1e-5, 2), np.array([1, 2])
    log = math.log(1.25 / 1e-5)
    for kind, problem in (("l1", Problem(Logistic(), L1(1e-6))), ("l2", RIDGE)):
        scale = dataclasses.replace(TINY, rounds=2)
        plan = arms.published_arm(kind, scale).plan(problem, shards, setting.terms)
        first = (1 + 1e-6 * math.sqrt(4)) ** 2 + 8 * 4 * log / (20 * 0.1) ** 2
        want = {
            "l1": 23 / np.sqrt(2 * k * first),
            "l2": 1 / (0.25 + 1e-6 + 4 * np.sqrt(4 * k * log) / (20 * 0.1 * 89)),
        }[kind]
        np.testing.assert_allclose(plan.schedules["step_size"][0], want, rtol=1e-6)


def test_the_paper_s_descent_is_plain_gradient_descent_without_noise():
    shards = make_shards(agents=2, records=15, features=3, precision="float32")
    arm = arms.descent_arm(dataclasses.replace(TINY, rounds=4))
    (model,), _ = swept([arm.plan(RIDGE, shards, NO_NOISE.terms)], shards, seed=0, keep=frozenset())
    x = np.asarray(shards.stacked.features, np.float64).reshape(-1, 3)
    y = np.asarray(shards.stacked.targets, np.float64).ravel()
    w = np.zeros(3)
    for _ in range(4):
        gradient = -((y / (1 + np.exp(y * (x @ w)))) @ x) / len(y)
        w = (w - 0.1 * gradient) / (1 + 0.1 * 1e-6)
    np.testing.assert_allclose(model, w, rtol=1e-5)


def test_the_augmented_objective_is_the_one_of_section_vi():
    shards = make_shards(agents=2, records=6, features=3)
    problem = Problem(Logistic(), L2(0.3))
    draw = np.random.default_rng(0)
    iterates, publics = draw.standard_normal((4, 2, 3)), draw.standard_normal((4, 3))
    found = augmented(problem, shards.stacked, jnp.asarray(iterates), jnp.asarray(publics), 0.1)
    x, y = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    for k in range(4):
        own, shared = iterates[: k + 1].mean(0), publics[: k + 1].mean(0)
        value = sum(
            np.mean(np.log1p(np.exp(-y[i] * (x[i] @ own[i])))) + 0.15 * own[i] @ own[i]
            + 0.1 * np.linalg.norm(own[i] - shared)
            for i in range(2)
        )  # fmt: skip
        assert float(found[k]) == pytest.approx(value, rel=1e-12)
    loss = float(losses(problem, shards.stacked, jnp.asarray(iterates[:1]))[0])
    rows = [np.mean(np.log1p(np.exp(-y[i] * (x[i] @ iterates[0, i])))) for i in range(2)]
    assert loss == pytest.approx(np.mean(rows), rel=1e-12)


def test_plans_that_add_the_same_noise_are_run_once():
    """Under sum DP-ADMM is given no credit, the gradient method is."""
    shards = make_shards(agents=4, precision="float32")
    both = [Budget(1.0, 1e-5, seen) for seen in ("messages", "sum")]
    admm, ours = arms.published_arm("l2", TINY), arms.public_arm(arms.OURS, TINY)
    assert different([admm.plan(RIDGE, shards, s.terms) for s in both])[1] == [0, 0]
    assert different([ours.plan(RIDGE, shards, s.terms) for s in both])[1] == [0, 1]


AT_AGENTS = {"regulariser_at": "agents"}
BY_NAME = [
    ("dp-admm", "l1", arms.DP_ADMM,
     {"rho": 0.1, "radius": 23.0, "step_rule": "nonsmooth", **AT_AGENTS}),
    ("dp-admm", "l2", arms.DP_ADMM,
     {"rho": 0.1, "radius": 89.0, "step_rule": "smooth", **AT_AGENTS}),
    ("noisy-gradient", "l2", arms.DPSGD, {"step_size": 0.1}),
    ("pvp", "l2", arms.PVP, {"rho": 0.1, **AT_AGENTS}),
    ("dvp", "l2", arms.DVP, {"rho": 0.1, **AT_AGENTS}),
    ("pvp", "l2", arms.PVP, {"rho": 0.1}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "kind", "arm", "options"), BY_NAME)
def test_a_method_by_name_with_the_paper_s_numbers_is_the_arm(method, kind, arm, options):
    if not all(METHODS[method].has(option) for option in options):
        pytest.skip(f"{method} has not all of {', '.join(options)}")
    shards = make_shards(agents=3, records=400, features=4, precision="float32")
    place = options.get("regulariser_at", "server")
    scale = dataclasses.replace(TINY, rounds=4, weight=0.01, regulariser_at=place)
    # with noise the method by name averages its last iterates, which the paper's does not
    epsilon = math.inf if method == "noisy-gradient" else 2.0
    made = {
        arms.DP_ADMM: lambda: arms.published_arm(kind, scale),
        arms.DPSGD: lambda: arms.descent_arm(scale),
    }.get(arm, lambda: arms.exact_arm(arm, scale))()
    request = Request(
        epsilon=epsilon, delta=1e-5, rounds=4, clip=1.0, algorithm=method, options=options,
        loss=Named(name="logistic", numbers=()), regulariser=Named(name=kind, numbers=(0.01,)),
    )  # fmt: skip
    facts = DataFacts(
        name="made up", task="binary", classes=2, columns=4, record_norm=1.0, table=None
    )
    plans = [
        made.plan(scale.problem(kind), shards, Budget(epsilon, 1e-5).terms),
        propose(facts, shards.counts, request).plan(),
    ]
    np.testing.assert_allclose(plans[0].ledger.scale, plans[1].ledger.scale, rtol=1e-9)
    first, second = (swept([one], shards, seed=5, keep=frozenset())[0] for one in plans)
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)
    assert np.linalg.norm(first) > 0.001  # both moved; a step of DPSGD is short


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The quick run through the command line, at a tiny scale."""
    out = tmp_path_factory.mktemp("reproduce") / "report"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(huang2019, "QUICK", TINY)
        code = main(["reproduce", "huang2019", "--quick", "--out", str(out), "--json"])
    return code, out


def test_the_command_writes_page_and_numbers(command):
    code, out = command
    assert code == 0
    values = json.loads((out / "results.json").read_text())
    assert [figure["id"] for figure in values["figures"]] == ["Figure 1", "Figure 2", "Figure 3"]
    for figure in values["figures"]:
        for panel in figure["panels"]:
            for curve in panel["curves"]:
                assert np.all(np.isfinite(curve["mean"]))
                assert curve["reference"] or np.all(np.array(curve["total_epsilon"]) > 0)
    page = (out / "index.html").read_text()
    assert "run again: a quick run on 400 records" in page
    assert "A quick run" in page
    assert "c_w not private" in page


def test_all_methods_of_a_figure_spend_the_same_totals(command):
    values = json.loads((command[1] / "results.json").read_text())
    panel = values["figures"][2]["panels"][0]
    want = [published(each, 1e-5, 3).total for each in (0.05, 0.1)]
    private = {c["label"]: c for c in panel["curves"] if not c["reference"]}
    assert set(private) == {arms.DP_ADMM, arms.DPSGD, arms.PUBLIC, arms.OURS}
    for curve in private.values():
        np.testing.assert_allclose(curve["total_epsilon"], want, rtol=1e-9)
    theirs = private[arms.DP_ADMM]
    np.testing.assert_allclose(theirs["epsilon_per_round"], [0.05, 0.1], rtol=1e-5)
    assert theirs["not_private"] == ["c_w"]


def test_records_and_constants_of_one_s_own_are_those_of_the_run(tmp_path):
    draw = np.random.default_rng(0)
    file = tmp_path / "own.csv"
    rows = [f"{x:.3f},{z:.3f},{'yes' if x > z else 'no'}" for x, z in draw.uniform(size=(90, 2))]
    file.write_text("\n".join(["first,second,paid", *rows]))
    settings = [
        "kinds=l1", f"data={file}:paid", "agents=3", "per_round=0.5", "deltas=0.01", "rho=0.3",
        "c_w_l1=4", "repetitions=1", "divisions=3", "regulariser_at=server", "timed=",
        "clip=0.7", "weight=0.02", "learning_rate=0.4", "main_epsilon=0.5", "main_delta=0.01",
    ]  # fmt: skip
    scale = changed(TINY, settings)
    found = huang2019.build(scale, Portions())
    listed = dict(found.settings)
    assert "81 training records, 2 columns" in listed["data"]
    assert listed["c_w and step rule of DP-ADMM as published"] == "l1: 4, nonsmooth"
    assert any("The paper has 40,000 records" in note for note in found.notes)
    first, *_ = found.figures[2].panels
    labels = {curve.label for curve in first.curves if not curve.reference}
    assert {arms.DP_ADMM, arms.DPSGD} <= labels
    assert all(np.isfinite(value.mean) for curve in first.curves for value in curve.y)
    assert "bound" not in " ".join(curve.label for curve in found.figures[1].panels[0].curves)
    file.write_text(file.read_text().replace("yes", "maybe", 1))
    with pytest.raises(InputError, match="no target of two values"):
        huang2019.build(scale, Portions())


def test_every_constant_of_the_paper_reaches_its_arm():
    scale = changed(TINY, ["rho=0.3", "c_w_l1=4", "steps_l1=smooth", "clip=0.7", "tolerance=0.01",
                           "learning_rate=0.4", "regulariser_at=server"])  # fmt: skip
    problem = scale.problem("l1")
    theirs, exact = arms.published_arm("l1", scale), arms.exact_arm(arms.PVP, scale)
    admm = theirs.algorithm(problem)
    assert (admm.rho, admm.radius, admm.step_rule) == (0.3, 4.0, "smooth")
    assert (admm.regulariser_at, theirs.oracle(problem).clip) == ("server", 0.7)
    assert arms.descent_arm(scale).algorithm(problem).step_size == 0.4
    step = exact.oracle(problem)
    assert (step.rho, step.tol, step.clip) == (0.3, 0.01, 0.7)
    assert not isinstance(step.problem.regulariser, L1)
    assert exact.algorithm(problem).rho == 0.3


def fabricated(value):
    """A half whose metrics are `value(method, setting, agents)`, DVP without its smallest total."""
    scale = dataclasses.replace(TINY, kinds=("l2",))
    settings = dict.fromkeys((*by_epsilon(scale), *by_delta(scale), *equal_totals(scale), NO_NOISE))
    makers = {
        arms.DP_ADMM: arms.published_arm("l2", scale),
        arms.DPSGD: arms.descent_arm(scale),
        **{name: arms.public_arm(name, scale) for name in (arms.PUBLIC, arms.OURS)},
        **{name: arms.exact_arm(name, scale) for name in (arms.EXACT, arms.PVP, arms.DVP)},
    }

    def outcome(name, agents=4):
        refused = {by_epsilon(scale)[0]: "too little"} if name == arms.DVP else {}
        samples = {
            (setting, metric): np.array([-1e-6, 1e-6]) + value(name, setting, agents)
            for setting in settings
            if setting not in refused
            for metric in METRICS
        }
        samples |= {
            (setting, AUGMENTED): np.full((2, 3), value(name, setting, agents))
            for setting in settings
        }
        return Outcome(makers[name], samples, refused)

    divided = {
        agents: {name: outcome(name, agents) for name in (arms.DP_ADMM, arms.OURS)}
        for agents in (2, 4)
    }
    optimum = Optimum(15.0, 0.3, 0.3, 80.0)
    made = {name: outcome(name) for name in makers}
    return Half("l2", made, divided, optimum, np.ones(9), 3), scale


def as_the_paper_says(name, setting, agents):
    method = {arms.EXACT: 0.0, arms.OURS: 0.5, arms.PUBLIC: 0.7, arms.DP_ADMM: 1.0}.get(name, 9.0)
    slack = 0.0 if math.isinf(setting.total) else 1 / by_round(setting, 3).per_round
    return 1 + method + 0.01 * slack - math.log10(setting.delta) + 0.1 * agents


def test_every_claim_can_come_out_and_can_fail():
    """The same numbers, upside down, turn every verdict of the paper around."""
    half, scale = fabricated(as_the_paper_says)
    assert all(claim.verdict == "comes out" for claim in orderings(half, scale))
    upside_down, _ = fabricated(lambda *place: 1e9 - as_the_paper_says(*place))
    assert {claim.verdict for claim in orderings(upside_down, scale)} == {"does not come out"}
    slow, quick = (Measured.of([9.1, 9.0, 8.9]),), (Measured.of([0.9, 1.1, 1.0]),)
    timed = dataclasses.replace(scale, timed=(0.1,))
    table = {arms.EXACT: slow, arms.PVP: slow, arms.DVP: (None,), arms.DP_ADMM: quick}
    assert {claim.verdict for claim in times(table, timed)} == {"comes out"}
    table |= {arms.EXACT: quick, arms.PVP: quick, arms.DP_ADMM: slow}
    assert {claim.verdict for claim in times(table, timed)} == {"does not come out"}
    assert NO_PLAN in times_table(table, timed).rows[0]


def test_an_error_is_judged_at_both_places_and_a_loss_where_the_paper_takes_it():
    half, scale = fabricated(as_the_paper_says)
    name = "test error: DP-ADMM is better than PVP"
    for (setting, metric), values in half.outcomes[arms.PVP].samples.items():
        worse = metric == arms.ERROR
        half.outcomes[arms.PVP].samples[setting, metric] = values - (20 if worse else 0)
    claims = {claim.claim: claim for claim in orderings(half, scale)}
    assert claims[name].verdict == "comes out under some readings"
    assert claims[name].count == (
        "at the agents' iterates: 3 of 3; at the common model: 0 of 3, 3 reversed"
    )
    assert claims[f"{arms.LOSS}: DP-ADMM is better than PVP"].whose == "ours"
    assert claims[f"{arms.LOCAL_LOSS}: DP-ADMM is better than PVP"].whose == "paper"


def test_numbers_of_more_seeds_are_compared_on_those_of_both():
    half, scale = fabricated(as_the_paper_says)
    outcome = half.outcomes[arms.DP_ADMM]
    for place, values in outcome.samples.items():
        outcome.samples[place] = np.concatenate([values, values + 50])
    claims = {claim.claim: claim for claim in orderings(half, scale)}
    pairs = claims["test error: DP-ADMM is better than DPSGD"].pairs
    assert {pair.smaller[1].repetitions for pair in pairs} == {2}
    assert claims["test error: DP-ADMM is better than DPSGD"].verdict == "comes out"


def test_errors_and_losses_are_means_over_the_agents():
    shards = make_shards(agents=2, records=9, features=3)
    models = np.random.default_rng(1).standard_normal((4, 2, 3))
    test = shards.shard(0)
    x, y = np.asarray(test.features), np.asarray(test.targets)
    want = [np.mean([np.mean(y * (x @ w) < 0) for w in run]) for run in models]
    np.testing.assert_allclose(arms.errors(RIDGE, test, jnp.asarray(models)), want, rtol=1e-6)
    assert 0 < want[0] < 1


def test_a_budget_that_a_method_cannot_meet_is_left_out_and_said():
    half, scale = fabricated(as_the_paper_says)
    comparison = figures(half, scale)[2]
    lengths = {curve.label: len(curve.x) for curve in comparison.panels[0].curves}
    assert (lengths[arms.DVP], lengths[arms.PVP]) == (1, 2)
    claims = {claim.claim: claim for claim in orderings(half, scale)}
    assert len(claims["test error: DP-ADMM is better than DVP"].pairs) == 2 * 2
    assert len(claims["test error: DP-ADMM is better than PVP"].pairs) == 2 * 3
    assert any("DVP has no plan" in note and "too little" in note for note in notes((half,), scale))
    rows = totals_table(half, scale).rows
    assert len(rows) == 6 * 4
    assert {row[2] for row in rows} == {"messages", "sum"}
    assert [row[1] for row in rows[-6:]] == ["1"] * 6


def test_objective_perturbation_cannot_meet_the_smallest_total_and_others_can():
    """One record bends the problem by J = log(1 + 1/(4 m rho)) a round, whatever the noise."""
    shards = make_shards(agents=2, records=12, precision="float32")
    records = Records(shards, shards.shard(0))
    tight = Budget(1e-3, 1e-5)
    assert list(planned(arms.exact_arm(arms.PVP, TINY), RIDGE, (tight,), records)[0]) == [tight]
    plans, refused = planned(arms.exact_arm(arms.DVP, TINY), RIDGE, (tight,), records)
    assert plans == {}
    assert list(refused) == [tight]
    arm = arms.exact_arm(arms.DVP, TINY)
    work = arms.measured(arm, RIDGE, (tight,), lambda _: records, 2, where="here", rho=0.1)
    assert work.portions == ()
    assert list(work.whole({}).refused) == [tight]


def test_the_bounds_of_a_figure_are_those_of_the_printed_settings():
    """(30) to (37) with the numbers of section VI: n = 100, m = 400, d = 104, rho = beta = 0.1."""
    half = Half("l2", {}, {}, Optimum(15.0, 0.3, 0.3, 80.0), np.ones(9), 104)
    budget = published(0.1, 1e-5, 100)
    log, n, m, t = math.log(1.25e5), 100, 400, 100
    m3, m4 = n * 4 * 89 * math.sqrt(104 * log) / (m * 0.1), n * (89**2 * 0.350001 + 0.1) / 2
    want = n * half.optimum.objective + m3 / math.sqrt(t) + m4 / t
    assert bound_on(half, huang2019.FULL, budget, t) == pytest.approx(want, rel=1e-6)
    half = dataclasses.replace(half, kind="l1")
    slope = 1 + 1e-6 * math.sqrt(104)
    m1 = n * 23 * math.sqrt(2 * slope**2 + 16 * 104 * log / (m * 0.1) ** 2)
    want = n * half.optimum.objective + m1 / math.sqrt(t) + n * (0.1 * 23**2 + 0.1) / 2 / t
    assert bound_on(half, huang2019.FULL, budget, t) == pytest.approx(want, rel=1e-6)


def test_an_unknown_paper_is_one_line_with_the_list(capsys):
    assert main(["reproduce", "nobody1999"]) == 2
    assert "choose from huang2019" in capsys.readouterr().err
