"""Ryu & Kim 2023 run again: noise, totals, metrics, verdicts; the command on made-up results."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from taciturn.cli import main
from taciturn.errors import DataError
from taciturn.kernel.privacy import epsilon_of
from taciturn_papers.claims.huang2019_thm2 import exact_epsilon
from taciturn_papers.reproductions import ryu2023
from taciturn_papers.reproductions.portions import Portions, Work
from taciturn_papers.reproductions.ryu2023 import (
    federated,
    learning,
    learning_figures,
    power_figures,
    power_flow,
    theorems,
)
from taciturn_papers.reproductions.ryu2023.federated import Records
from taciturn_papers.reproductions.ryu2023.learning import ERROR, LOSS, Learned
from taciturn_papers.reproductions.ryu2023.power_flow import Answered, Published
from taciturn_papers.reproductions.ryu2023.settings import (
    OBJ,
    OUT,
    PROJECTED,
    GridRuns,
    Learning,
    Scale,
    Trial,
)

TINY = Learning("mnist", None, 3, 4, (1, 2), (0.1, 1.0), 2, 3, (0.1,), 0.01, (2.0, 5.0, 1e4))
GRID = GridRuns("case14", 3, (1, 2), (0.1, 1.0), 2, (1.0, 10.0), 2, 2, 2)


def tiny_records():
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((35, 4)).astype(np.float32), draw.integers(0, 3, 35)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    rows, labels = (tuple(np.split(each[:15], 3)) for each in (x, y))
    return Records("digits made up", rows, labels, x[15:], y[15:], 3, 0.0)


@pytest.fixture(scope="module")
def measured():
    """One group of cases, really run, and the models that the metrics were taken from."""
    one, seen = tiny_records(), []

    def watched(*given):
        for done in federated.simulated(*given):
            seen.append(done.solutions.mean(axis=0))
            yield done

    trials = tuple(Trial(OUT, 2, each) for each in TINY.per_update)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "simulated", watched)
        patch.setattr(learning, "cases", lambda run: [((OUT,), trials)])
        found = Portions().done(learning.learned(TINY, one))
    return found, np.asarray(seen, np.float64).reshape(4, 4, 2, 2, 3)


def test_metrics_are_those_of_the_models_after_the_rounds_that_are_named(measured):
    found, models = measured  # rounds, features, budgets, seeds, classes
    x, y = np.concatenate(found.one.rows), np.concatenate(found.one.labels)
    for look, round_number in enumerate(found.rounds):
        w = models[round_number - 1, :, 1, 1]
        margins = x @ w
        loss = np.mean(np.log(np.exp(margins).sum(1)) - margins[np.arange(15), y])
        trial = Trial(OUT, 2, 1.0)
        assert found.samples[trial, LOSS][1, look] == pytest.approx(loss, rel=1e-5)
        wrong = np.argmax(found.one.test_rows @ w, 1) != found.one.test_labels
        assert found.samples[trial, ERROR][1, look] == pytest.approx(100 * wrong.mean())
        near = np.mean(np.abs(w) >= 0.099)
        assert found.samples[trial, learning.AT_BOX][1, look] == pytest.approx(near)


@pytest.mark.parametrize(("box", "same"), [(1e3, True), (1.0, False)])
def test_an_arm_is_taken_for_another_only_where_no_constraint_acted(box, same):
    """What is not run again has the numbers of the run that was left out."""
    run, one, looks = dataclasses.replace(TINY, box=(box,)), tiny_records(), np.array([1, 4])
    trials = tuple(Trial(OBJ, 2, each) for each in run.per_update)
    found = learning._measured(run, one, looks, (OBJ, OUT, PROJECTED), trials)
    for arm in (OUT, PROJECTED):
        real, _ = learning._runs(run, one, looks, [t._replace(arm=arm) for t in trials])
        np.testing.assert_allclose(found[f"{arm}/{LOSS}"], real[LOSS], rtol=1e-6)
        assert np.array_equal(found[f"{arm}/{LOSS}"], found[f"{OBJ}/{LOSS}"]) == same


def test_the_optimal_duals_are_no_longer_than_gamma_allows(measured):
    """The duals named in `rate_facts`, from gradients computed by hand at some point of the box."""
    run = dataclasses.replace(TINY, record_norm=1.0)
    facts = learning.rate_facts(run, measured[0].one, Trial(OUT, 2, 1.0))
    w = np.random.default_rng(0).uniform(-0.1, 0.1, (4, 3))
    x, y = np.stack(measured[0].one.rows), np.stack(measured[0].one.labels)
    share = np.exp(x @ w)
    share /= share.sum(axis=2, keepdims=True)
    gradients = np.einsum("pmd,pmk->pdk", x, share - np.eye(3)[y]) / 15
    duals = gradients - gradients.mean(axis=0)
    assert 2 * np.linalg.norm(duals) <= facts.gamma
    assert np.linalg.norm(gradients, axis=(1, 2)).max() <= facts.slope


@pytest.fixture(scope="module")
def net():
    return power_flow.linearised(GRID)


def test_the_variances_are_those_of_table_1(net):
    log = 2 * math.log(1.25 / 1e-2)
    for each in (0.05, 1.0):
        want = {
            "ObjG": log * (2 * 0.01 / each) ** 2, "ObjL": 2 * (2 * 0.01 / each) ** 2,
            "OutG": log * (0.01 / each) ** 2, "OutL": 2 * (0.01 / each) ** 2,
        }  # fmt: skip
        for arm, value in want.items():
            found = power_flow.variance(arm, power_flow.published_scale(GRID, arm, each))
            assert found == pytest.approx(value, rel=1e-12)
    one = Published(GRID, net, {})
    ratio = power_flow.variance("ObjG", power_figures.needed_scale(one, "ObjG", 1.0)) / want["ObjG"]
    assert ratio == pytest.approx(5)  # five flows and generators at one bus


def test_one_demand_moves_a_step_by_no_more_than_is_proved_and_by_more_than_published(net):
    """Brute force over all demands of a zone; the published beta is the planted fault."""
    a, step, beta = net.rows[0], net.made.sets.solvers[0].minimum, 0.01
    demand = net.made.relaxation.demand[net.made.parts[0].rows]
    state = net.made.relaxation.flat()[net.made.parts[0].columns]
    pull, tie = 2.0, net.shared[0]
    metric = pull + 100.0 * tie

    def solution(d):
        return step(metric * state - 2 * a.T @ (a @ state + d), metric)

    here = solution(demand)
    moves = [solution(demand + beta * unit) - here for unit in np.eye(len(demand))]
    assert max(np.linalg.norm(m) for m in moves) <= net.sensitivity("OutG", 4) * (1 + 1e-6)
    assert max(np.abs(m).sum() for m in moves) <= net.sensitivity("OutL", 4)
    gradients = 2 * beta * a
    assert np.linalg.norm(gradients, axis=1).max() <= net.sensitivity("ObjG") + 1e-12
    assert np.abs(gradients).sum(axis=1).max() <= net.sensitivity("ObjL") + 1e-12
    assert net.sensitivity("ObjG") > 2 * beta
    assert max(np.linalg.norm(m) for m in moves) > beta


def test_the_total_of_a_published_run_solves_the_gaussian_curve(net):
    trial = Trial("ObjG", 2, 0.5)
    mu = math.sqrt(2 * 7 * 5) * 0.5 / math.sqrt(2 * math.log(125))

    def excess(total):
        beyond = norm.cdf(mu / 2 - total / mu) - math.exp(total) * norm.cdf(-mu / 2 - total / mu)
        return beyond - 1e-2

    net = dataclasses.replace(net, run=dataclasses.replace(GRID, rounds=7))
    assert net.total(trial) == pytest.approx(brentq(excess, 1e-3, 50), rel=1e-6)
    laplace = net.total(Trial("ObjL", 2, 0.5))
    assert 0 < laplace <= 2 * 7 * 5 * 0.5  # never above the plain sum of |a|_1 epsilon


def test_published_noise_has_the_size_that_it_should_and_none_without(net):
    net = dataclasses.replace(net, run=dataclasses.replace(GRID, rounds=20))
    found = power_flow.published_run(net, Trial("OutL", 3, 0.5), seed=0)
    width = sum(a.shape[1] for a in net.rows)
    assert found[:, 0].mean() == pytest.approx(3 * width * 0.01 / 0.5, rel=0.06)
    quiet = power_flow.published_run(net, Trial("ObjG", 5, math.inf), seed=0)
    assert np.all(quiet[:, 0] == 0)
    assert quiet[-1, 1] < 0.2
    assert quiet[-1, 2] < 5e-3


def test_the_patient_attacker_reads_better_where_looks_are_not_averaged():
    small = dataclasses.replace(GRID, question_rounds=6, readings=6)
    made = power_flow.with_hessians(GRID)
    found = [
        power_flow.question_run(made, small, power_flow.LAST_RESIDUAL, 3.0, seed=seed)
        for seed in (0, 1)
    ]
    patient, last = (
        np.mean([values[metric] for values, _ in found])
        for metric in (power_flow.PATIENT, power_flow.ATTACK)
    )
    assert patient < 0.7 * last  # six looks: 1 / sqrt(6)
    noise = 0.01 * math.sqrt(6) / brentq(lambda mu: epsilon_of(1e-2, mu) - 3.0, 0.1, 5)
    assert last == pytest.approx(noise, rel=0.35)  # what was read is the noise, and no less


def made_up_learning(sign):
    """Results as the paper says (sign 1) or upside down (sign -1)."""
    found = Learned(TINY, tiny_records(), np.array([1, 2, 4]), {})
    shift = {OBJ: 0.0, OUT: 2.0, PROJECTED: 1.0, learning.AVERAGED: 0.5}
    for arms, trials in learning.cases(TINY):
        for arm, trial in itertools.product((*arms, learning.AVERAGED), trials):
            value = shift[arm] - 5 * math.log10(min(trial.per_update, 10)) - 0.1 * trial.updates
            for metric in learning.METRICS:
                rows = (10 + sign * value) * np.array([[1, 1, 0.9999], [1, 1, 1.0001]])
                rows *= 1e6 if sign < 0 and arm == learning.AVERAGED else 1  # above any bound
                found.samples[trial._replace(arm=arm), metric] = rows
    if sign < 0:
        for k, rho in enumerate(federated.schedules(TINY)):
            for each in TINY.per_update:
                trial = Trial(OUT, 1, each, rho)
                found.samples[trial, ERROR] = 100.0 * (k + 1) + found.samples[trial, ERROR] / 10
    return found


def made_up_grid(sign):
    net = power_flow.linearised(GRID)
    size = {"ObjL": 1.0, "ObjG": 2.0, "OutL": 3.0, "OutG": 4.0}
    noise = {"OutL": 1.0, "ObjL": 2.0, "OutG": 3.0, "ObjG": 4.0}
    samples = {}
    for trial in power_flow.grid_trials(GRID):
        slack = -5 * math.log10(trial.per_update)
        values = {
            power_flow.NOISE: noise[trial.arm] + slack,
            power_flow.OBJECTIVE: size[trial.arm] + slack,
            power_flow.APART: 5.0 - trial.updates,
        }
        for metric, value in values.items():
            rows = 20 + sign * value
            samples[trial, metric] = np.outer([0.999, 1.001], np.full(GRID.rounds, rows))
    flows = Published(GRID, net, samples)
    order = dict(zip(power_flow.ASKED, (1.0, 2.0, 4.0, 3.0, 5.0), strict=True))
    answers = {}
    for arm, value in order.items():
        for total in GRID.totals:
            for metric in (power_flow.NOISE, power_flow.OBJECTIVE, power_flow.APART):
                answers[arm, total, metric] = (20 + sign * value) * np.array([0.99, 1.01])
            answers[arm, total, power_flow.ATTACK] = np.full(2, 20 + 0.5 * sign)
            answers[arm, total, power_flow.PATIENT] = np.full(2, 20.0)
    return flows, Answered(GRID, answers, 0.1, 0.2, 1.0)


def test_every_claim_can_come_out_and_can_fail():
    """The same numbers, upside down, turn the verdicts around."""
    for sign, expected in ((1, "comes out"), (-1, "does not come out")):
        claims = learning_figures.orderings([made_up_learning(sign)])
        computed = [claim for claim in claims if claim.part == "Figure 5, noise"]
        assert [claim.verdict for claim in computed] == ["comes out"]
        claims = [claim for claim in claims if claim not in computed]
        both = [claim for claim in claims if "than OutG, or ObjG with one" in claim.claim]
        assert {claim.verdict for claim in claims if claim not in both} == {expected}
        # upside down, the errors of OutG are largest all the same
        assert {claim.verdict for claim in both} == {expected if sign > 0 else "comes out in part"}
        flows, answers = made_up_grid(sign)
        claims = power_figures.orderings([flows], [answers])
        fixed = [claim for claim in claims if claim.part == "Table 1"]
        assert [claim.verdict for claim in fixed] == [
            "comes out",
            "does not come out",
        ]  # from numbers, not from runs
        assert {state for claim in fixed for state in claim.states} <= {"in order", "reversed"}
        assert {c.verdict for c in claims if c.part != "Table 1"} == {expected}


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The command with made-up results in place of the runs."""
    out = tmp_path_factory.mktemp("ryu") / "report"
    flows, answers = made_up_grid(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ryu2023, "QUICK", Scale("quick", (TINY,), (GRID,), 4, 3))
        patch.setattr(ryu2023, "records", lambda run: tiny_records())
        patch.setattr(ryu2023, "learned", lambda *given: Work((), lambda _: made_up_learning(1)))
        patch.setattr(ryu2023, "published", lambda *given: Work((), lambda _: flows))
        patch.setattr(ryu2023, "answered", lambda *given: Work((), lambda _: answers))
        code = main(["reproduce", "ryu2023", "--quick", "--out", str(out), "--json"])
    return code, out


def test_the_command_writes_a_page_whose_every_curve_names_its_total(command):
    code, out = command
    assert code == 0
    values = json.loads((out / "results.json").read_text())
    names = [figure["id"] for figure in values["figures"]]
    assert theorems.PART in names
    assert [n for n in names if n.startswith("Figure")] == [
        "Figure 3", "Figure 5, noise", "Figure 5, objective", "Figure 5, test error", "Figure 7"
    ]  # fmt: skip
    assert [table["id"] for table in values["tables"]] == ["Table 1"]
    for figure in values["figures"]:
        for panel in figure["panels"]:
            for curve in panel["curves"]:
                assert np.all(np.isfinite(curve["mean"]))
                assert curve["reference"] or np.all(np.array(curve["total_epsilon"]) > 0)
    curve = values["figures"][names.index("Figure 7")]["panels"][0]["curves"][0]
    want = [exact_epsilon(4, each, 1e-6) for each in (0.1, 1.0)]
    np.testing.assert_allclose(curve["total_epsilon"], want, rtol=1e-9)
    page = (out / "index.html").read_text()
    assert "A quick run" in page
    assert "an update" in page
    assert "total epsilon" in page


def test_missing_records_are_one_line_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    def gone(name, **_):
        raise DataError(f"{name} is not here; get it")

    monkeypatch.setattr("taciturn_papers.reproductions.ryu2023.federated.dataset_named", gone)
    out = tmp_path / "report"
    for size in ("--quick", "--full"):
        assert main(["reproduce", "ryu2023", "--part", "fl", size, "--out", str(out)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert not out.exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["ryu2023", "--part", "nothing"], "choose from fl, grid"),
        (["huang2019", "--part", "fl"], "leave it out"),
        (["ryu2023", "--quick", "--full"], "not both"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(given, said, capsys):
    assert main(["reproduce", *given]) == 2
    assert said in capsys.readouterr().err
