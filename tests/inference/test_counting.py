"""Counted tables and survival curves beside pandas, scipy and statsmodels, and their margins."""

import json
import math
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy.stats import chi2_contingency
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

from taciturn.audit import audit, check_oracle
from taciturn.cli.main import main
from taciturn.counting import (
    CountingRequest,
    counting_request,
    grouped_table,
    homogeneity,
    log_rank,
    reconciled,
    survival_curves,
    tables_of,
    whole_numbers,
)
from taciturn.datasets import load
from taciturn.errors import InputError
from taciturn.estimators import PrivateLogisticRegression
from taciturn.features import Axis, Block, Cells, Grid, even_grid, feature_map_named
from taciturn.kernel.questions import Counts
from taciturn.tables import inputs_of
from taciturn.tables.bounds import bounds_from_dict
from taciturn.training import Request, train_on
from taciturn_verify import verify

BOUNDS = {
    "source": "public",
    "target": {"name": "days", "min": 0, "max": 100},
    "columns": {
        "arm": {"values": ["a", "b", "c"]},
        "age": {"min": 18, "max": 90, "missing": "indicator"},
        "site of tumour": {"values": ["x | y", "z+w"], "missing": "indicator"},
        "status": {"values": ["alive", "dead"]},
        "died": {"min": 0, "max": 1},
        "entry": {"min": 0, "max": 100},
    },
}
TABLES = (
    "age(40, 65) + `site of tumour` + age(40,65):status | arm; "
    'Surv(days, status == "dead") ~ arm + 1'
)
CUTS = "--cuts=10,20,30,40,50,60,70,80,90"
INPUTS = inputs_of(bounds_from_dict(BOUNDS))


def patients(count=4000, seed=0):
    draw = np.random.default_rng(seed)
    arm = draw.choice(["a", "b", "c"], count, p=[0.5, 0.3, 0.2])
    age = draw.integers(15, 95, count).astype(float)
    age[draw.random(count) < 0.05] = np.nan
    site = draw.choice(["x | y", "z+w", ""], count, p=[0.5, 0.4, 0.1])
    dying = draw.exponential(np.where(arm == "b", 90, 60))
    leaving = draw.uniform(0, 150, count)
    days = np.round(np.minimum(dying, leaving), 1)
    status = np.where(dying <= leaving, "dead", "alive")
    return pd.DataFrame({
        "days": days, "arm": arm, "age": age, "site of tumour": site, "status": status,
        "died": (status == "dead").astype(int), "entry": 0,
    })  # fmt: skip


def toml(bounds):
    lines = [f'source = "{bounds["source"]}"']
    sections = {"target": bounds["target"]}
    sections |= {f'columns."{name}"': fact for name, fact in bounds["columns"].items()}
    for section, fact in sections.items():
        lines += [f"[{section}]", *(f"{k} = {json.dumps(v)}" for k, v in fact.items())]
    return "\n".join(lines) + "\n"


def counted(folder, frame, *more, tables=(TABLES,), bounds=BOUNDS, out="out"):
    """What the command writes: counts.json and the last certificate."""
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "b.toml").write_text(toml(bounds))
    given = ["count", folder / "t.csv", *tables, "--bounds", folder / "b.toml", "--quiet"]
    assert main([str(one) for one in (*given, "--out", folder / out, *more)]) == 0
    return json.loads((folder / out / "counts.json").read_text())


def numbers(table):
    return np.array([[cell["number"] for cell in row] for row in table["cells"]])


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    frame = patients()
    return frame, counted(tmp_path_factory.mktemp("exact"), frame, CUTS, "--without-privacy")


def test_without_privacy_tables_are_those_of_pandas_and_tests_those_of_scipy(exact):
    frame, found = exact
    age = pd.cut(frame.age, [-1, 39.9, 64.9, 200], labels=["< 40", "40 to < 65", ">= 65"])
    age = age.cat.add_categories("(missing)").fillna("(missing)")
    site = frame["site of tumour"].replace("", "(missing)")
    both = age.astype(str) + ", " + frame.status
    for table, column in zip(found["tables"], (age, site, both), strict=False):
        expected = pd.crosstab(column, frame.arm, margins=True).loc[table["rows"]]
        np.testing.assert_array_equal(numbers(table), expected.to_numpy())
        assert table["groups"] == ["a", "b", "c", "all"]
        assert table["totals"] == [*frame.arm.value_counts().sort_index().tolist(), len(frame)]
        statistic, p_value, degrees, _ = chi2_contingency(expected.to_numpy()[:, :3])
        assert table["test"]["statistic"] == pytest.approx(statistic, rel=1e-9)
        assert table["test"]["p_value"] == pytest.approx(p_value, rel=1e-9)
        assert table["test"]["degrees"] == degrees


def on_grid(frame, ends):
    """Times rounded up to the grid; at the end of the range records are censored."""
    ends = np.asarray(ends, float)
    place = np.minimum(np.searchsorted(ends, frame.days, side="left"), len(ends) - 1)
    return ends[place], ((frame.status == "dead") & (frame.days < ends[-1])).to_numpy()


def test_without_privacy_curves_and_log_rank_are_those_of_statsmodels(exact):
    frame, found = exact
    by_arm, together = found["tables"][3:]
    times, died = on_grid(frame, by_arm["ends"])
    for curve in (*by_arm["curves"], *together["curves"]):
        mine = frame.arm == curve["group"] if curve["group"] != "all" else frame.arm != ""
        other = SurvfuncRight(times[mine], died[mine])
        where = np.searchsorted(curve["times"], other.surv_times)
        np.testing.assert_allclose(
            np.array(curve["survival"])[where], other.surv_prob, rtol=0, atol=1e-9
        )
        error = np.array(curve["by_sampling"]) * np.array(curve["survival"])
        np.testing.assert_allclose(error[where], other.surv_prob_se, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(np.array(curve["at_risk"])[where], other.n_risk)
        np.testing.assert_array_equal(np.array(curve["events"])[where], other.n_events)
        assert curve["median"][0] == other.quantile(0.5)
        assert set(curve["by_noise"]) == {0.0}
    statistic, p_value = survdiff(times, died, frame.arm.to_numpy())
    assert by_arm["test"]["statistic"] == pytest.approx(statistic, rel=1e-9)
    assert by_arm["test"]["p_value"] == pytest.approx(p_value, rel=1e-6)
    assert together["test"] is None


def test_a_private_run_adds_up_and_its_certificate_follows(tmp_path, exact):
    frame = exact[0]
    found = counted(tmp_path, frame, CUTS, "--epsilon=3", "--delta=1e-6", "--agents=2")
    tables = found["tables"]
    for table in tables[:3]:
        cells = numbers(table)
        assert cells.min() >= 0
        assert cells.sum(axis=0).tolist() == table["totals"]
        assert table["totals"] == tables[0]["totals"]
        assert cells[:, :3].sum(axis=1).tolist() == cells[:, 3].tolist()
    assert tables[0]["totals"][3] == len(frame)
    assert [curve["at_risk"][0] for curve in tables[3]["curves"]] == tables[0]["totals"][:3]
    for curve in (*tables[3]["curves"], *tables[4]["curves"]):
        for line in ("survival", "low", "high"):
            assert np.all(np.diff([1.0, *curve[line]]) <= 0)
        assert np.all(np.diff(curve["at_risk"]) <= 0)
    certificate = json.loads((tmp_path / "out" / "certificate-1.json").read_text())
    assert verify(certificate).verdict == "follows"
    (question,) = certificate["legs"][0]["questions"]
    assert question == {"kind": "counts", "tables": 5}
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()
    assert main(["show", str(tmp_path / "out")]) == 0


def test_under_summation_the_noises_of_honest_agents_add_up(tmp_path, exact):
    terms = ("--epsilon=3", "--delta=1e-6", "--agents=4", CUTS)
    for observer in ("messages", "sum"):
        counted(tmp_path, exact[0], *terms, f"--observer={observer}", out=observer)
    one, other = (
        json.loads((tmp_path / name / "counts.json").read_text())["noise"]
        for name in ("messages", "sum")
    )
    assert one / other == pytest.approx(math.sqrt(3), rel=1e-3)  # one of four may be a colluder


def test_the_noise_to_expect_is_that_of_the_run(tmp_path, exact, capsys):
    terms = ("--delta=1e-6", "--agents=2", CUTS)
    found = counted(tmp_path, exact[0], "--epsilon=3", *terms)
    capsys.readouterr()
    given = ["count", tmp_path / "t.csv", TABLES, "--bounds", tmp_path / "b.toml", *terms]
    assert main([*map(str, given), "--expect=1,3", "--json"]) == 0
    one, three = json.loads(capsys.readouterr().out)["expected"]
    assert three["noise"] == pytest.approx(found["noise"], rel=1e-9)
    assert one["noise"] > 2 * three["noise"]
    assert main([*map(str, given), "--expect=1", "--epsilon=2"]) == 2
    assert main([*map(str, given), "--expect=1"]) == 0
    assert "hidden below" in capsys.readouterr().out


def test_the_target_is_counted_as_any_column(tmp_path):
    frame = patients(500)
    bounds = {**BOUNDS, "target": {"name": "arm", "values": ["a", "b", "c"]}}
    bounds["columns"] = {k: v for k, v in BOUNDS["columns"].items() if k != "arm"}
    bounds["columns"] |= {"days": {"min": 0, "max": 100, "bins": [25, 50]}}
    found = counted(
        tmp_path, frame, "--without-privacy", bounds=bounds,
        tables=("status | arm", "arm:days", "Surv(days(50), died) ~ 1"),
    )  # fmt: skip
    expected = pd.crosstab(frame.status, frame.arm)
    np.testing.assert_array_equal(numbers(found["tables"][0])[:, :3], expected)
    bins = np.digitize(frame.days, [25, 50])
    expected = pd.crosstab(frame.arm, bins).to_numpy().ravel()
    assert numbers(found["tables"][1])[:, 0].tolist() == expected.tolist()
    two = {**BOUNDS, "target": {"name": "status", "values": ["alive", "dead"]}}
    two["columns"] = {k: v for k, v in BOUNDS["columns"].items() if k != "status"}
    two["columns"] |= {"days": {"min": 0, "max": 100}}
    found = counted(
        tmp_path, frame, "--without-privacy", bounds=two, out="two", tables=("status | arm",)
    )
    expected = pd.crosstab(frame.status, frame.arm)
    np.testing.assert_array_equal(numbers(found["tables"][0])[:, :3], expected)


AXES = st.integers(1, 4)


@st.composite
def asked(draw):
    """Tables by two groupings, noised counts, and how many records there are."""
    groups = [Axis("g", tuple("abc"[: draw(AXES)][:3])), Axis("all", ("all",))]
    blocks = []
    for place in range(draw(st.integers(1, 4))):
        levels = tuple(f"{k}" for k in range(draw(AXES)))
        blocks.append(Block((Axis(f"x{place}", levels),), draw(st.sampled_from(groups))))
    size = sum(block.cells for block in blocks)
    numbers = st.floats(-1e4, 1e4, allow_nan=False)
    noised = draw(st.lists(numbers, min_size=size, max_size=size))
    return blocks, np.array(noised), draw(st.integers(1, 5000))


@given(asked())
@settings(max_examples=60, deadline=None)
def test_margins_add_up_exactly_whatever_the_noise(case):
    blocks, noised, records = case
    found = reconciled(blocks, noised, records, 1.0)
    totals = {}
    for one in found:
        assert one.whole.min() >= 0
        assert one.whole.sum() == records
        same = totals.setdefault(one.block.group, one.whole.sum(axis=0).tolist())
        assert one.whole.sum(axis=0).tolist() == same
        np.testing.assert_allclose(one.cells.sum(axis=0), one.totals, rtol=1e-9, atol=1e-6)
        table = grouped_table(one, records)
        for row in table.cells:
            assert all(cell.low <= cell.number <= cell.high for cell in row)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.integers(0, 10**6))
@settings(deadline=None)
def test_whole_numbers_are_near_and_have_their_sum(values, total):
    found = whole_numbers(np.array(values), total)
    assert found.sum() == total
    assert found.min() >= 0
    exact = np.arange(len(values))
    assert whole_numbers(exact + 1e-12, int(exact.sum())).tolist() == exact.tolist()


def test_least_squares_are_those_of_the_normal_equations_and_so_is_their_covariance():
    group = Axis("g", ("a", "b"))
    blocks = [Block((Axis("x", ("1", "2", "3")),), group), Block((Axis("y", ("1", "2")),), group)]
    noised = np.random.default_rng(0).normal(50, 9, 10)
    found = reconciled(blocks, noised, 400, 4.0)
    totals = np.zeros((4, 10))  # that of all, and equal group totals
    totals[0, :6] = totals[1, 6:] = 1
    totals[2, [0, 2, 4]], totals[2, [6, 8]] = 1, -1
    totals[3, [1, 3, 5]], totals[3, [7, 9]] = 1, -1
    inverse = np.linalg.pinv(totals)
    expected = noised - inverse @ (totals @ noised - np.array([400, 400, 0, 0]))
    mine = np.concatenate([one.cells.ravel() for one in found])
    np.testing.assert_allclose(mine, expected, atol=1e-9)
    covariance = 4.0 * (np.eye(10) - inverse @ totals)
    functions = np.eye(6).reshape(6, 3, 2)
    np.testing.assert_allclose(
        found[0].covariance(functions, functions), covariance[:6, :6], atol=1e-9
    )
    np.testing.assert_allclose(found[0].variances(functions), np.diag(covariance)[:6], atol=1e-9)


# the question, its bound and its faults

SIZES = (3, 4, 2, 2, 5)


class OfOneTable(Counts):
    """Planted fault: several tables with the bound of one."""

    def facts(self, spec):
        return super().facts(spec) | {"tables": 1}


def test_the_search_reaches_the_bound_of_counts_and_no_neighbour_exceeds_it():
    report = check_oracle(Counts(SIZES), trials=100)
    assert report.passes, report
    assert "replace_one, record  holds  reached 1.000" in str(report)
    assert "zero_out, record     holds  reached 1.000" in str(report)


def test_several_tables_under_the_bound_of_one_are_caught():
    report = check_oracle(OfOneTable(SIZES), trials=50)
    assert "sensitivity, replace_one, record" in report.violated


@pytest.mark.slow
def test_the_audit_finds_counts_consistent_and_near_their_bound():
    report = audit("counts", mu=1.5, runs=1000, seed=0)
    assert report.verdict == "consistent", report.layers
    assert 1.1 < report.likelihood.mu < 1.5
    assert audit("counts", mu=1.5, runs=1000, seed=0, fault="halved-noise").verdict != "consistent"


# the cells of records


def test_cells_know_public_cut_points_edges_and_empty_cells():
    cells = Cells(INPUTS, "age(40,65) + arm; Surv(days(10,20), died) ~ 1")
    rows = np.zeros((7, len(INPUTS.names)))
    place = {name: k for k, name in enumerate(INPUTS.names)}
    ages = np.array([15, 39.999, 40, 64, 65, 90, 54])
    rows[:, place["age"]] = (np.clip(ages, 18, 90) - 54) / 36
    rows[6, place["age=missing"]] = 1
    rows[:, place["arm=b"]] = 1
    rows[:, place["died"]] = [1, 1, 1, 1, 1, 1, -1]
    days = np.array([0, 10, 10.01, 20, 99, 100, 5])
    entries = cells.apply(cells.joined(rows, days / 50 - 1))
    sizes = np.array(cells.sizes)
    found = np.floor((entries + 1) / 2 * sizes).astype(int)
    assert found[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert found[:, 1].tolist() == [1] * 7
    assert found[:, 2].tolist() == [1, 1, 3, 3, 5, 4, 0]  # at the end everybody is censored
    assert cells.record_norm == math.sqrt(3)
    assert np.all(np.abs(entries) <= 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no table is asked for"),
        ("weight", "is no column of the bounds file"),
        ("age | arm", "has no public cut points"),
        ("age(40,30)", "give rising numbers between 18 and 90"),
        ("arm(2)", "is a category"),
        ("log(age)", "is no column"),
        ("age(40) | arm | status", "has two groups"),
        ("Surv(days(10)) ~ arm", "is not understood"),
        ("Surv(entry, days, died) ~ arm", "late entry is not counted here"),
        ("Surv(arm, died) ~ 1", "must be a number with a min of 0"),
        ("Surv(age(40), died) ~ 1", "without a scale or missing cells"),
        ('Surv(days(10), status == "gone") ~ 1', "must be one of its values"),
        ("Surv(days(10), entry) ~ 1", "say which one is an event"),
        ("arm:arm:arm:arm:arm:arm:arm:arm", "are counted at once"),
    ],
)
def test_what_cannot_be_counted_is_refused_with_the_reason(text, words):
    with pytest.raises(InputError, match=words):
        Cells(INPUTS, text).blocks  # noqa: B018


def test_requests_that_cannot_be_answered_are_refused_before_anything_is_read():
    bounds, request = bounds_from_dict(BOUNDS), Request(epsilon=1.0, delta=1e-6)
    with pytest.raises(InputError, match="leave one out"):
        counting_request(request, bounds, CountingRequest(("arm",), (1.0,), 3))
    with pytest.raises(InputError, match="is no number of the bounds file"):
        counting_request(request, bounds, CountingRequest(("Surv(arm, died) ~ 1",)))
    left_out = {**BOUNDS, "target": {**BOUNDS["target"], "missing": "leave out"}}
    with pytest.raises(InputError, match="add up to the public number of rows"):
        counting_request(request, bounds_from_dict(left_out), CountingRequest(("arm",)))
    persons = Request(epsilon=1.0, delta=1e-6, rows_per_person=4)
    with pytest.raises(InputError, match="rows of all persons is private"):
        counting_request(persons, bounds, CountingRequest(("arm",)))
    evaluated = Request(epsilon=1.0, delta=1e-6, evaluate=0.2)
    with pytest.raises(InputError, match="no model to evaluate"):
        counting_request(evaluated, bounds, CountingRequest(("arm",)))
    made = counting_request(request, bounds, CountingRequest(("Surv(days, died) ~ arm",)))
    (block,) = feature_map_named(made.features, INPUTS).blocks
    assert block.grid.ends == (*even_grid(0, 100, 12), 100)


@pytest.mark.parametrize("command", ["train", "plan"])
def test_counts_are_no_model(command, tmp_path, capsys):
    patients(50).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "b.toml").write_text(toml(BOUNDS))
    data = [str(tmp_path / "t.csv"), "--target=days"] if command == "train" else ["--records=50"]
    given = [command, *data, f"--bounds={tmp_path / 'b.toml'}", "--epsilon=1", "--delta=1e-3"]
    method, features = "--algorithm=counts", "--features=cells:arm"
    for more in ([method], [features], [method, features]):
        assert main([*given, *more]) == 2
        assert "taciturn count" in capsys.readouterr().err


def test_neither_an_estimator_nor_a_data_set_has_a_method_without_a_model():
    with pytest.raises(InputError, match="releases no model"):
        PrivateLogisticRegression(epsilon=1.0, delta=1e-3, algorithm="counts").fit(
            np.eye(4), [0, 1, 0, 1]
        )
    with pytest.raises(InputError, match="is for a table with bounds"):
        train_on(load("digits"), Request(epsilon=1.0, delta=1e-6, algorithm="counts", rounds=1))


# what noise hides

GRID = Grid("t", "e", (1.0, 2.0, 3.0, 4.0))
LIFE = (Axis("t", ("1", "2", "3", "4")), Axis("e", ("censored", "event")))


def of_life(cells, variance):
    group = Axis("g", ("a", "b"))
    block = Block(LIFE, group, GRID)
    cells = np.asarray(cells, float)
    return reconciled([block], cells.ravel(), int(cells.sum()), variance)[0]


def test_a_curve_ends_and_a_test_is_refused_where_noise_hides_who_is_at_risk():
    cells = np.zeros((4, 2, 2))
    cells[:, 0] = [[400, 400], [300, 300], [10, 10], [5, 5]]
    cells[:, 1] = [[100, 120], [80, 60], [2, 2], [1, 1]]
    clear, noisy = of_life(cells, 0.0), of_life(cells, 100.0)
    assert [len(one.times) for one in survival_curves(clear).curves] == [4, 4]
    assert [len(one.times) for one in survival_curves(noisy).curves] == [2, 2]
    assert log_rank(clear).p_value is not None
    assert "noise" in log_rank(of_life(cells, 1e4)).refused
    assert "too few records" in log_rank(of_life(cells, 1e8)).refused
    nobody = np.zeros((4, 2, 2))
    nobody[3, 0] = 50
    assert log_rank(of_life(nobody, 0.0)).refused is not None


def test_small_counts_are_hidden_and_tests_on_them_refused():
    block = Block((Axis("x", ("u", "v")),), Axis("g", ("a", "b")))
    cells = np.array([[3.0, 5.0], [400.0, 420.0]])
    (noisy,) = reconciled([block], cells.ravel(), 828, 25.0)
    table = grouped_table(noisy, 828)
    assert [cell.hidden for cell in table.cells[0]] == [True, True, True]
    assert [cell.hidden for cell in table.cells[1]] == [False] * 3
    assert "too few records for the noise" in table.test.refused
    (clear,) = reconciled([block], cells.ravel(), 828, 0.0)
    assert "fewer than 5" in homogeneity(clear).refused


def test_tables_are_a_frame_with_a_row_for_each_cell_and_point():
    cells = Cells(INPUTS, "status | arm; Surv(days(50), died) ~ arm")
    found = tables_of(cells, np.full(18, 40.0), 240, 0.0)
    frame = found.to_frame()
    assert len(frame) == 2 * 4 + 3 * 2
    assert frame.number.dropna().sum() == 2 * 240


def test_groups_by_other_cut_points_are_other_groups_however_near_and_are_printed_apart(
    tmp_path, capsys
):
    """Unix times differ after their sixth digit."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({
        "y": 1.0, "t": 1.7e9 + draw.integers(0, 4000, 1000), "arm": draw.choice(["a", "b"], 1000),
    })  # fmt: skip
    bounds = {
        "source": "public", "target": {"name": "y", "min": 0, "max": 1},
        "columns": {"t": {"min": 1.7e9, "max": 1.7e9 + 4000}, "arm": {"values": ["a", "b"]}},
    }  # fmt: skip
    tables = ("arm | t(1700001000)", "arm | t(1700003000)", "arm | t(1700001000, 1700003000)")
    found = counted(tmp_path, frame, "--without-privacy", tables=tables, bounds=bounds)["tables"]
    for table, cut in zip(found, (1.7e9 + 1000, 1.7e9 + 3000), strict=False):
        assert table["totals"][:2] == [(frame.t < cut).sum(), (frame.t >= cut).sum()]
        assert table["groups"][0] == f"< {cut:.0f}"
    printed = capsys.readouterr().out
    assert all(f"n = {sum(frame.t < 1.7e9 + cut):,}" in printed for cut in (1000, 3000))


def test_a_group_without_records_has_no_log_rank_test(tmp_path):
    bounds = {**BOUNDS, "columns": {**BOUNDS["columns"], "arm": {"values": ["a", "b", "c", "d"]}}}
    tables = ('Surv(days, status == "dead") ~ arm',)
    (found,) = counted(tmp_path, patients(300), "--without-privacy", tables=tables, bounds=bounds)[
        "tables"
    ]
    assert found["test"]["p_value"] is None
    assert "no records" in found["test"]["refused"]


def test_columns_may_begin_with_surv_and_times_may_be_called_as_a_letter_of_it():
    bounds = bounds_from_dict({
        "source": "public", "target": {"name": "v", "min": 0, "max": 100},
        "columns": {"Survived": {"values": ["no", "yes"]}, "dead": {"values": ["0", "1"]}},
    })  # fmt: skip
    request = Request(epsilon=1.0, delta=1e-6)
    asked = CountingRequest(("Survived", "Surv(v, dead) ~ Survived"), (30.0,))
    made = counting_request(request, bounds, asked)
    first, second = feature_map_named(made.features, inputs_of(bounds)).blocks
    assert (first.title, first.cells) == ("Survived", 2)
    assert second.grid.ends == (30.0, 100.0)


def test_categories_with_a_centre_are_refused_since_their_entries_are_no_indicators():
    bounds = bounds_from_dict({
        "source": "public", "target": {"name": "v", "min": 0, "max": 1},
        "columns": {"c": {"values": ["p", "q"], "centre": {"q": 1.0}}},
    })  # fmt: skip
    with pytest.raises(InputError, match="a centre or a weight"):
        Cells(inputs_of(bounds), "c").blocks  # noqa: B018


def test_an_answer_that_cannot_be_shown_is_not_lost(tmp_path, capsys, monkeypatch):
    """Planted fault: tables of two groups were once printed by a head for one."""

    def broken(*_):
        raise ValueError("planted")

    monkeypatch.setattr("taciturn.cli.count.counted_tables", broken)
    patients(300).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "b.toml").write_text(toml(BOUNDS))
    given = ["count", tmp_path / "t.csv", "arm", "--bounds", tmp_path / "b.toml", "--quiet"]
    assert main([str(one) for one in (*given, "--epsilon", "1", "--delta", "1e-5")]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "cannot be shown" in one]
    folder = Path(line.split("It is in ")[1])
    assert len(json.loads((folder / "noised.json").read_text())["noised"]) == 3
    assert list(folder.glob("certificate*.json"))
