"""A user's own table through the command line: train, predict, show, bounds; and bad input."""

import csv
import json
import shutil
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression

from conftest import bounds_of_ill, just_below
from taciturn.cli.main import main
from taciturn.datasets.adult import BUNDLED, COLUMNS, bundled_text
from taciturn.tables import read_bounds

PRIVATE = ["--epsilon", "1", "--delta", "1e-6"]
EXACT = ["--epsilon", "inf", "--delta", "1e-6"]


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def taciturn_(capsys):
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture
def refused(taciturn_):
    """Run, and require: exit code 2, nothing on stdout, one line on stderr; return the line."""

    def call(*arguments):
        done = taciturn_(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("taciturn: error: ")
        assert done.err.count("\n") == 1
        return done.err

    return call


def filled_in(taciturn_, file, target, *more):
    """Bounds as `taciturn bounds` prints them, beside the table."""
    done = taciturn_("bounds", file, "--target", target, *more)
    assert done.code == 0
    assert done.err.startswith("taciturn: warning: these values come from the records")
    path = file.parent / f"{file.stem}.toml"
    path.write_text(done.out)
    return path


# three real tables


def adult_rows(which):
    for line in bundled_text(*BUNDLED[which]).splitlines():
        row = line.split(", ")
        if line and not line.startswith("|") and "?" not in row:
            yield [*row[:-1], row[-1].rstrip(".")]


def write(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.mark.slow
def test_adult_with_its_categories_goes_from_csv_to_predictions(taciturn_, tmp_path):
    header = [*(column.name for column in COLUMNS), "income"]
    train, test, out = tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "out"
    write(train, header, adult_rows(0))
    write(test, header, adult_rows(1))
    bounds = filled_in(taciturn_, train, "income")
    bounds.write_text(bounds.read_text().replace('source = "data"', 'source = "public"'))
    done = taciturn_(
        "train", train, "--target", "income", "--bounds", bounds, "--agents", 50, *PRIVATE,
        "--observer", "sum", "--test", test, "--out", out, "--json", "--rounds", 100,
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    values = json.loads(done.out)
    assert values["records"] == 30_162
    assert just_below(values["epsilon"], 1.0)
    assert values["conditional"] is False
    assert values["test_error"] < 0.19
    assert values["train_loss"] is None
    predicted = tmp_path / "p.csv"
    assert taciturn_("predict", out / "model.json", test, "--out", predicted).code == 0
    guesses, truth = pd.read_csv(predicted)["prediction"], pd.read_csv(test)["income"]
    assert np.mean(guesses != truth) == pytest.approx(values["test_error"], abs=1e-3)
    shown = taciturn_("show", out / "model.json", "--largest", 5)
    for needed in ("epsilon = 1.0000", "binary model of 'income'", "Preprocessing", "age: clipped"):
        assert needed in shown.out


@pytest.mark.slow
def test_digits_go_from_csv_to_predictions(taciturn_, tmp_path):
    frame = load_digits(as_frame=True).frame
    train, test, out = tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "out"
    frame[:1437].to_csv(train, index=False)
    frame[1437:].to_csv(test, index=False)
    bounds = filled_in(taciturn_, train, "target")
    done = taciturn_(
        "train", train, "--target", "target", "--bounds", bounds, *EXACT, "--rounds", 600,
        "--agents", 3, "--regulariser", "l2:1e-3", "--test", test, "--out", out,
    )  # fmt: skip
    assert done.code == 0
    assert "no privacy" in done.out
    predicted = taciturn_("predict", out / "model.json", test, "--json")
    guesses = json.loads(predicted.out)["predictions"]["prediction"]
    # the same objective solved by another library: columns to [-1, 1], a constant, l2
    x, y = frame.iloc[:, :-1].to_numpy(), frame["target"].to_numpy()
    low, high = x[:1437].min(axis=0), x[:1437].max(axis=0)
    rows = (np.clip(x, low, high) - low) / np.where(high > low, high - low, 1)
    rows = np.column_stack([2 * rows - 1, np.ones(len(rows))])
    fit = LogisticRegression(C=1 / (1e-3 * 1437), fit_intercept=False, tol=1e-8, max_iter=10_000)
    expected = fit.fit(rows[:1437], y[:1437]).predict(rows[1437:])
    assert np.mean(np.array(guesses, int) == expected) > 0.99
    assert f"Test error {np.mean(np.array(guesses, int) != y[1437:]):.2%}" in done.out


@pytest.mark.slow
def test_diabetes_goes_from_csv_to_predictions_of_the_least_squares_fit(taciturn_, tmp_path):
    frame = load_diabetes(as_frame=True, scaled=False).frame
    train, test, out = tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "out"
    frame[:342].to_csv(train, index=False)
    frame[342:].to_csv(test, index=False)
    bounds = filled_in(taciturn_, train, "target")
    done = taciturn_(
        "train", train, "--target", "target", "--bounds", bounds, *EXACT, "--rounds", 4000,
        "--agents", 1, "--regulariser", "none", "--test", test, "--out", out, "--oracle-metrics",
        "--json", "--reference",
    )  # fmt: skip
    assert done.code == 0
    assert "do not publish it" in done.err
    fit = LinearRegression().fit(frame.iloc[:342, :-1], frame["target"][:342])
    # rows outside the bounds are clipped before the model sees them
    low, high = frame[:342].iloc[:, :-1].min(), frame[:342].iloc[:, :-1].max()
    expected = fit.predict(frame[342:].iloc[:, :-1].clip(low, high, axis=1))
    predicted = json.loads(taciturn_("predict", out / "model.json", test, "--json").out)
    assert np.abs(np.array(predicted["predictions"]["prediction"]) - expected).max() < 2.0
    values = json.loads(done.out)
    mean_square = np.mean((expected - frame["target"][342:]) ** 2)
    assert values["test_error"] == pytest.approx(np.sqrt(mean_square), rel=0.01)
    assert values["error"] == "root-mean-square error"
    oracle = json.loads((out / "oracle_metrics.json").read_text())
    residuals = fit.predict(frame.iloc[:342, :-1]) - frame["target"][:342]
    assert oracle["train_error"] == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=0.01)
    assert "do not publish" in oracle["warning"]
    assert oracle["cells_outside_bounds"] == 0
    page = (out / "report.html").read_text()
    assert "root-mean-square error" in page
    assert f"{oracle['train_error']:.4g}" not in page


# a small table

BOUNDS = bounds_of_ill(age="min = 20\nmax = 70", town='values = ["a", "b"]')


def small_rows(count=40):
    draw = np.random.default_rng(5)
    for k in range(count):
        yield [f"{draw.uniform(10, 80):.1f}", "ab"[k % 2], ("no", "yes")[k // 2 % 2], f"c{k % 4}"]


@pytest.fixture
def small(tmp_path):
    write(tmp_path / "t.csv", ["age", "town", "ill"], [row[:3] for row in small_rows()])
    write(tmp_path / "clinics.csv", ["age", "town", "ill", "clinic"], small_rows())
    (tmp_path / "agents").mkdir()
    for clinic in range(4):
        rows = [row[:3] for row in small_rows() if row[3] == f"c{clinic}"]
        write(tmp_path / "agents" / f"c{clinic}.csv", ["age", "town", "ill"], rows)
    (tmp_path / "b.toml").write_text(BOUNDS)
    return tmp_path


def command(folder, data="t.csv", *more):
    return [
        "train", folder / data, "--target", "ill", "--bounds", folder / "b.toml", "--epsilon", "2",
        "--delta", "1e-3", "--rounds", "3", *more,
    ]  # fmt: skip


@pytest.mark.slow
def test_a_folder_and_an_agent_column_give_the_same_run(taciturn_, small):
    seeded = ["--seed", "1", "--json"]
    folder = taciturn_(*command(small, "agents", *seeded, "--out", small / "one"))
    column = taciturn_(
        *command(small, "clinics.csv", *seeded, "--agent-column", "clinic", "--out", small / "two")
    )
    assert (folder.code, column.code) == (0, 0)
    one, two = (json.loads((small / n / "model.json").read_text()) for n in ("one", "two"))
    assert one["terms"] == two["terms"]
    assert json.loads(folder.out)["agents"] == json.loads(column.out)["agents"] == 4


def test_metrics_on_private_records_appear_only_in_their_own_file(taciturn_, small):
    done = taciturn_(*command(small, "t.csv", "--out", small / "out", "--oracle-metrics"))
    assert done.code == 0
    assert "Test error not shown" in done.out
    assert "oracle_metrics.json is computed from private records" in done.err
    oracle = json.loads((small / "out" / "oracle_metrics.json").read_text())
    outside = sum(not 20 <= float(row[0]) <= 70 for row in small_rows())
    assert oracle["cells_outside_bounds"] == outside > 0
    results = json.loads((small / "out" / "results.json").read_text())
    assert {results[k] for k in ("test_error", "train_loss", "nonprivate_test_error")} == {None}
    assert results["curves"] == {}
    again = taciturn_(*command(small, "t.csv", "--out", small / "out", "--force"))
    assert again.code == 0
    assert not (small / "out" / "oracle_metrics.json").exists()


def test_a_model_of_no_use_does_not_look_like_a_success(taciturn_, small):
    for name, seed in (("t.csv", 1), ("u.csv", 2)):
        ages = np.random.default_rng(seed).uniform(20, 70, 300)
        rows = [[f"{age:.1f}", "ab"[k % 2], "yes" if k < 9 else "no"] for k, age in enumerate(ages)]
        write(small / name, ["age", "town", "ill"], rows)
    out, test = small / "out", ["--test", small / "u.csv"]
    done = taciturn_(*command(small, "t.csv", *test, "--out", out, "--rounds", 30, "--seed", 1))
    assert done.code == 0
    said = done.out[done.out.index("Test error") :].splitlines()
    assert said[0].startswith("Test error 3.00%")
    assert said[1] == "Baseline 3.00%: always answering 'no', the commonest label of these records"
    assert said[2].startswith("AUC 0.")
    assert said[3] == "Recall: 'no' 100.00%, 'yes' 0.00%"
    assert said[4].startswith("Warning: the model is no better than always answering 'no'")
    shown = taciturn_("show", out / "model.json").out
    assert all(f"  {line}" in shown for line in said[1:5])
    values = json.loads((out / "results.json").read_text())["assessment"]
    assert values["baseline"] == "no"
    assert not values["better"]
    assert json.loads((out / "model.json").read_text())["assessment"] == values
    page = (out / "report.html").read_text()
    assert "warning: the model is no better than always answering" in page
    # without test records that are public there is nothing to say
    closed = taciturn_(*command(small, "t.csv", "--out", out, "--force"))
    assert "Baseline" not in closed.out
    assert "kept beside it" in closed.out
    assert json.loads((out / "model.json").read_text())["assessment"] is None
    assert "Baseline" not in taciturn_("show", out / "model.json").out


def test_bounds_from_the_data_make_the_certificate_conditional(taciturn_, small):
    path = filled_in(taciturn_, small / "t.csv", "ill")
    assert read_bounds(path).origin == "data"
    done = taciturn_(*command(small, "t.csv", "--bounds", path, "--out", small / "out"))
    assert done.code == 0
    assert "certificate is conditional" in done.err
    assert (
        "Condition: ranges, category lists and labels were filled in from the records" in done.out
    )
    assert json.loads((small / "out" / "results.json").read_text())["conditional"] is True
    for said in (done.out, taciturn_("show", small / "out" / "model.json").out):
        first = said.split("Certificate", 1)[1].splitlines()[1].strip()
        assert first.startswith("Conditional")
        assert "this run alone" in said
    assert "Conditional: epsilon" in (small / "out" / "report.html").read_text()
    for name in ("plan", "model"):
        assert json.loads((small / "out" / f"{name}.json").read_text())["certificate"][
            "conditional"
        ]
    assert "filled in from the records" in (small / "out" / "report.html").read_text()


def test_bounds_of_a_folder_and_with_an_agent_column(taciturn_, small):
    made = json.loads(taciturn_("bounds", small / "agents", "--target", "ill", "--json").out)
    table = taciturn_(
        "bounds", small / "clinics.csv", "--target", "ill", "--agent-column", "clinic", "--json"
    )
    assert json.loads(table.out) == {**made, "ignore": ["clinic"]}
    assert made["target"] == {"name": "ill", "values": ["no", "yes"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--loss", "hinge:0.5", "--regulariser", "l1:0.01"],
        ["--loss", "logistic", "--regulariser", "elastic:0.01,0.1", "--constraint", "box:0.5"],
        ["--regulariser", "none", "--constraint", "ball:0.5", "--algorithm", "dp-admm"],
        ["--constraint", "simplex", "--loss", "hinge:1", "--clip", "0.3"],
    ],
)
def test_loss_regulariser_and_constraint_reach_the_run(taciturn_, small, options):
    done = taciturn_(*command(small, "t.csv", *options, "--out", small / "out"))
    assert done.code == 0
    page = (small / "out" / "report.html").read_text()
    for value in options[1:4:2]:  # a loss under its clip is named with it
        assert f"<td>{value}</td>" in page or f"<td>robust {value}, clip " in page
    model = json.loads((small / "out" / "model.json").read_text())
    # back to the encoded columns: age per half its range, the levels of town, the constant
    age, a, b = (term["coefficient"][0] for term in model["terms"][1:])
    weights = np.array([age * 25, a, b, model["terms"][0]["coefficient"][0] + 45 * age])
    if "box:0.5" in options:
        assert np.abs(weights).max() <= 0.5 + 1e-6
    if "ball:0.5" in options:
        assert np.linalg.norm(weights) <= 0.5 + 1e-6
    if "simplex" in options:
        assert weights.sum() == pytest.approx(1, abs=1e-5)
        assert weights.min() >= -1e-6


@pytest.mark.slow
def test_a_data_set_writes_a_model_that_can_be_shown(taciturn_, tmp_path, refused):
    done = taciturn_(
        "train", "breast_cancer", *EXACT, "--rounds", 3, "--constraint", "ball:1",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.code == 0
    shown = taciturn_("show", tmp_path / "out" / "model.json", "--largest", 30)
    assert "worst radius" in shown.out
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert np.linalg.norm([term["coefficient"] for term in model["terms"]]) <= 1 + 1e-6
    write(tmp_path / "t.csv", ["x"], [["1"]])
    assert "bundled" in refused("predict", tmp_path / "out" / "model.json", tmp_path / "t.csv")


@pytest.mark.slow
def test_the_name_of_a_data_set_wins_over_a_file(taciturn_, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "breast_cancer").write_text("not a table")
    done = taciturn_("train", "breast_cancer", *EXACT, "--rounds", 2)
    assert "Breast Cancer Wisconsin" in done.out


# bad input


def change(folder, name, old, new):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))


DAMAGE = {
    "empty file": (lambda f: (f / "t.csv").write_text(""), "is empty"),
    "no rows": (lambda f: (f / "t.csv").write_text("age,town,ill\n"), "no rows"),
    "cut short": (lambda f: (f / "t.csv").write_text("age,town,ill\n30,a,no\n40,b"), "cut short"),
    "not text": (lambda f: (f / "t.csv").write_bytes(b"\xff\xfe\x00"), "UTF-8"),
    "no file": (lambda f: (f / "t.csv").unlink(), "cannot be read"),
    "third label": (
        lambda f: (f / "t.csv").write_text("age,town,ill\n30,a,no\n40,b,maybe\n"), "'ill', row 2",
    ),
    "text for a number": (
        lambda f: (f / "t.csv").write_text("age,town,ill\nx,a,no\n40,b,yes\n"), "'age', row 1",
    ),
    "missing cell": (
        lambda f: (f / "t.csv").write_text("age,town,ill\n30,a,no\n,b,yes\n"), "'age', row 2",
    ),
    "infinite cell": (
        lambda f: (f / "t.csv").write_text("age,town,ill\n30,a,no\ninf,b,yes\n"), "'age', row 2",
    ),
    "unknown category": (
        lambda f: (f / "t.csv").write_text("age,town,ill\n30,z,no\n40,b,yes\n"), "'town', row 1",
    ),
    "no target column": (
        lambda f: (f / "t.csv").write_text("age,town\n30,a\n40,b\n"), "no column 'ill'",
    ),
    "column not in bounds": (lambda f: change(f, "b.toml", "columns.town", "columns.x"), "town|x"),
    "min above max": (lambda f: change(f, "b.toml", "min = 20", "min = 99"), "min must be below"),
    "bounds not TOML": (lambda f: (f / "b.toml").write_text("[["), "not valid TOML"),
    "no bounds file": (lambda f: (f / "b.toml").unlink(), "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_bad_files_are_one_line_and_nothing_is_written(refused, small, name):
    damage, words = DAMAGE[name]
    damage(small)
    before = sorted(small.rglob("*"))
    line = refused(*command(small, "t.csv", "--agents", "2", "--out", small / "out"))
    assert any(word in line for word in words.split("|"))
    assert sorted(small.rglob("*")) == before


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ("t.csv", ["--target", "income"], "use one name in both"),
        ("t.csv", ["--loss", "multinomial"], "logistic, hinge:H"),
        ("t.csv", ["--loss", "squared"], "logistic, hinge:H"),
        ("t.csv", ["--regulariser", "l5:1"], "elastic:W1,W2"),
        ("t.csv", ["--constraint", "ball:-1"], "above 0"),
        ("t.csv", ["--clip", "0"], "above 0"),
        ("t.csv", ["--agents", "41"], "at most 40"),
        ("t.csv", ["--agent-column", "clinic"], "no column 'clinic'"),
        ("t.csv", ["--agent-column", "town"], "column to learn from"),
        ("clinics.csv", ["--agent-column", "clinic", "--agents", "3"], "leave --agents out"),
        ("clinics.csv", [], "nothing is known of the column 'clinic'"),
        ("agents", ["--agents", "3"], "leave --agents out"),
        ("agents", ["--agent-column", "clinic"], "leave --agent-column out"),
        ("t.csv", ["--test", "nowhere.csv"], "nowhere.csv"),
        ("t.csv", ["--reference"], "--oracle-metrics"),
        ("none.csv", [], "cannot be read"),
        ("x" * 300 + ".csv", [], "cannot be read"),
    ],
)
def test_bad_options_are_one_line_and_nothing_is_written(refused, small, data, options, words):
    before = sorted(small.rglob("*"))
    assert words in refused(*command(small, data, *options, "--out", small / "out"))
    assert sorted(small.rglob("*")) == before


def test_what_is_missing_is_said_with_the_command_that_helps(refused, small):
    plain = ["train", small / "t.csv", *PRIVATE]
    assert "--target COL" in refused(*plain)
    line = refused(*plain, "--target", "ill")
    assert f"taciturn bounds {small / 't.csv'} --target ill > bounds.toml" in line
    assert "--oracle-metrics" in refused(*command(small, "t.csv", "--oracle-metrics"))
    assert "--target" in refused("train", "digits", *PRIVATE, "--target", "x")
    assert "results" in refused(
        "train", "breast_cancer", *PRIVATE, "--oracle-metrics", "--out", small / "o"
    )


def test_agents_with_different_columns_are_refused(refused, small):
    (small / "agents" / "c9.csv").write_text("age,ill\n30,no\n")
    assert "'town' is in one only" in refused(*command(small, "agents"))
    assert "'town' is in one only" in refused("bounds", small / "agents", "--target", "ill")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "income"], "no column 'income'"),
        (["--target", "ill", "--ignore", "income"], "no column 'income'"),
        (["--target", "ill", "--ignore", "ill"], "cannot be ignored"),
        ([], "--target"),
    ],
)
def test_bad_requests_for_bounds_are_refused(refused, small, options, words):
    assert words in refused("bounds", small / "t.csv", *options)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    write(folder / "t.csv", ["age", "town", "ill"], [row[:3] for row in small_rows()])
    (folder / "b.toml").write_text(BOUNDS)
    assert main([str(a) for a in command(folder, "t.csv", "--out", folder / "out")]) == 0
    return folder / "out" / "model.json"


def test_predicting_other_columns_or_from_a_damaged_model_is_refused(refused, model, tmp_path):
    table, cut, out = tmp_path / "t.csv", tmp_path / "cut.json", tmp_path / "p.csv"
    cut.write_text(model.read_text()[:200])
    write(table, ["age", "village"], [["30", "a"]])
    assert "no column 'town'" in refused("predict", model, table, "--out", out)
    write(table, ["age", "town"], [["30", "a"]])
    assert "cut short" in refused("predict", cut, table, "--out", out)
    assert "cut short" in refused("show", cut)
    assert "cannot be read" in refused("show", tmp_path / "none.json")
    assert not out.exists()


def test_predictions_do_not_replace_a_file_unless_forced(taciturn_, refused, model, tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "p.csv"
    write(table, ["age", "town"], [["30", "a"], ["99", "b"]])
    printed = taciturn_("predict", model, table)
    assert printed.out.startswith("prediction\n")
    assert printed.out.count("\n") == 3
    out.write_text("mine")
    assert "--force" in refused("predict", model, table, "--out", out)
    assert out.read_text() == "mine"
    assert taciturn_("predict", model, table, "--out", out, "--force").code == 0
    assert out.read_text() == printed.out
    assert "cannot be written" in refused("predict", model, table, "--out", tmp_path / "no" / "p")


# generated bad input

GARBAGE = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from([b"", b"age", b"age,town,ill", b"age,town,ill\n30,a", b'"', b"\x00,\n"]),
    st.lists(
        st.sampled_from(["30,a,no", "x,a,yes", ",a,no", "inf,b,yes", "30,z,no", "30,a", "1,a,?"]),
        min_size=1, max_size=4,
    ).map(lambda rows: ("age,town,ill\n" + "\n".join([*rows, "nan,a,no"])).encode()),
)  # fmt: skip
BAD_BOUNDS = st.one_of(
    st.binary(max_size=60).map(lambda garbage: b"source = 1\n" + garbage),
    st.sampled_from(
        [
            ("min = 20", "min = 70"),
            ("min = 20", "min = nan"),
            ("min = 20", "min = []"),
            ("[columns.town]", "[columns.age]"),
            ("[columns.town]", "[columns.city]"),
            ('"public"', '"private"'),
            ('["no", "yes"]', '["no"]'),
            ('["a", "b"]', "[[]]"),
            ('["a", "b"]', '["a"]'),
            ("[target]", "[goal]"),
            ("max = 70", ""),
        ]
    ).map(lambda pair: BOUNDS.replace(*pair).encode()),
)
NUMBERS = st.sampled_from(["0", "-1", "nan", "-inf", "x", "", "1e999x"])
BAD_OPTIONS = st.one_of(
    st.tuples(
        st.sampled_from(
            ["--epsilon", "--delta", "--agents", "--rounds", "--clip", "--regulariser",
             "--constraint", "--loss", "--observer", "--relation", "--algorithm"]
        ),
        NUMBERS,
    ),
    st.tuples(
        st.sampled_from(["--target", "--agent-column", "--test"]), st.text("xyz/", min_size=1)
    ),
    st.tuples(st.text("-abcxyz", min_size=3).map(lambda text: "--zz" + text)),
)  # fmt: skip
BAD = st.one_of(
    st.tuples(st.just("t.csv"), GARBAGE),
    st.tuples(st.just("b.toml"), BAD_BOUNDS),
    st.tuples(st.just("options"), BAD_OPTIONS),
)


@pytest.mark.slow
@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(bad=BAD)
def test_generated_bad_input_never_shows_a_traceback_or_writes(small, capsys, bad):
    write(small / "t.csv", ["age", "town", "ill"], [row[:3] for row in small_rows()])
    (small / "b.toml").write_text(BOUNDS)
    where, what = bad
    if where != "options":
        (small / where).write_bytes(what)
    options = list(what) if where == "options" else []
    before = sorted(small.rglob("*"))
    arguments = [*command(small, "t.csv", "--out", small / "out"), *options]
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == 2, (bad, captured)
    assert captured.out == ""
    assert captured.err.startswith("taciturn: error: ")
    assert captured.err.count("\n") == 1
    assert sorted(small.rglob("*")) == before


@settings(
    max_examples=40,  # of four commands each
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), garbage=GARBAGE)
def test_the_other_commands_never_show_a_traceback_either(model, tmp_path, capsys, data, garbage):
    text = model.read_text()
    cut = data.draw(st.integers(0, len(text) - 2))
    width = data.draw(st.integers(0, 5))
    damaged = text[:cut] + data.draw(st.text('0a"{]-.', max_size=3)) + text[cut + width :]
    (tmp_path / "m.json").write_text(damaged)
    (tmp_path / "t.csv").write_bytes(garbage)
    for arguments in (
        ["show", tmp_path / "m.json"],
        ["predict", tmp_path / "m.json", tmp_path / "t.csv"],
        ["predict", model, tmp_path / "t.csv"],
        ["bounds", tmp_path / "t.csv", "--target", "ill"],
    ):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert code in (0, 2)
        assert (code == 0) == (captured.out != "")
        assert captured.err.count("\n") == 1 or (code == 0 and not captured.err)


def test_the_check_of_generated_input_passes_good_input(small, capsys):
    assert main([str(a) for a in command(small, "t.csv", "--out", small / "out")]) == 0
    capsys.readouterr()
    shutil.rmtree(small / "out")
