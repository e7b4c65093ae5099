"""A table through the command line: draft of bounds, training, predictions, what is shown."""

import json
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import FIELDS, patients, table_in, training, write

from conftest import just_below
from taciturn.cli.main import main
from taciturn.datasets.adult import BUNDLED, COLUMNS, bundled_text
from taciturn.tables import read_bounds

PRIVATE = ["--epsilon", "1", "--delta", "1e-6"]
EXACT = ["--epsilon", "inf", "--delta", "1e-6"]
FORM = ["--delimiter", ";", "--decimal", ",", "--thousands", "."]
BUDGET = ["--epsilon", "2", "--delta", "1e-3", "--rounds", "3", "--agents", "2"]


@pytest.fixture
def small(tmp_path):
    """The patients in one file, with the column of their clinics, and in a file of each clinic."""
    table_in(tmp_path)
    write(tmp_path / "clinics.csv", [*FIELDS, "clinic"], patients())
    (tmp_path / "agents").mkdir()
    for clinic in range(4):
        rows = [row[:3] for row in patients() if row[3] == f"c{clinic}"]
        write(tmp_path / "agents" / f"c{clinic}.csv", FIELDS, rows)
    return tmp_path


def filled_in(taciturn_, file, target, *more):
    """Bounds as `taciturn bounds` prints them, beside the table."""
    done = taciturn_("bounds", file, "--target", target, *more)
    assert done.code == 0
    assert done.err.startswith("taciturn: warning: these values come from the records")
    path = file.parent / f"{file.stem}.toml"
    path.write_text(done.out)
    return path


def adult_rows(which):
    for line in bundled_text(*BUNDLED[which]).splitlines():
        row = line.split(", ")
        if line and not line.startswith("|") and "?" not in row:
            yield [*row[:-1], row[-1].rstrip(".")]


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
def test_a_folder_and_an_agent_column_give_the_same_run(taciturn_, small):
    seeded = ["--seed", "1", "--json"]
    folder = taciturn_(*training(small, *seeded, "--out", small / "one", data="agents"))
    column = taciturn_(
        *training(
            small, *seeded, "--agent-column", "clinic", "--out", small / "two", data="clinics.csv"
        )
    )
    assert (folder.code, column.code) == (0, 0)
    one, two = (json.loads((small / n / "model.json").read_text()) for n in ("one", "two"))
    assert one["terms"] == two["terms"]
    assert json.loads(folder.out)["agents"] == json.loads(column.out)["agents"] == 4


def test_metrics_on_private_records_appear_only_in_their_own_file(taciturn_, small):
    done = taciturn_(*training(small, "--out", small / "out", "--oracle-metrics"))
    assert done.code == 0
    assert "Test error not shown" in done.out
    assert "oracle_metrics.json is computed from private records" in done.err
    oracle = json.loads((small / "out" / "oracle_metrics.json").read_text())
    outside = sum(not 20 <= float(row[0]) <= 70 for row in patients())
    assert oracle["cells_outside_bounds"] == outside > 0
    results = json.loads((small / "out" / "results.json").read_text())
    assert {results[k] for k in ("test_error", "train_loss", "nonprivate_test_error")} == {None}
    assert results["curves"] == {}
    again = taciturn_(*training(small, "--out", small / "out", "--force"))
    assert again.code == 0
    assert not (small / "out" / "oracle_metrics.json").exists()


def test_a_model_of_no_use_does_not_look_like_a_success(taciturn_, small):
    for name, seed in (("t.csv", 1), ("u.csv", 2)):
        ages = np.random.default_rng(seed).uniform(20, 70, 300)
        rows = [[f"{age:.1f}", "ab"[k % 2], "yes" if k < 9 else "no"] for k, age in enumerate(ages)]
        write(small / name, FIELDS, rows)
    out, test = small / "out", ["--test", small / "u.csv"]
    done = taciturn_(*training(small, *test, "--out", out, "--rounds", 30, "--seed", 1))
    assert done.code == 0
    said = done.out[done.out.index("Test error") :].splitlines()
    assert said[0].startswith("Test error 3.00%")
    assert said[1] == "Baseline 3.00%: always answering 'no', the commonest label of these records"
    assert said[2].startswith("AUC 0.")
    assert said[3].startswith("Brier score 0.")
    assert said[4].startswith("Calibration error ")
    assert said[5] == "Recall: 'no' 100.00%, 'yes' 0.00%"
    assert said[6].startswith("Warning: the model is no better than always answering 'no'")
    shown = taciturn_("show", out / "model.json").out
    assert all(f"  {line}" in shown for line in said[1:7])
    values = json.loads((out / "results.json").read_text())["assessment"]
    assert (values["baseline"], values["better"]) == ("no", False)
    # without test records that are public there is nothing to say
    closed = taciturn_(*training(small, "--out", out, "--force"))
    assert "Baseline" not in closed.out
    assert "kept beside it" in closed.out
    assert json.loads((out / "model.json").read_text())["assessment"] is None
    assert "Baseline" not in taciturn_("show", out / "model.json").out


def test_bounds_from_the_data_make_the_certificate_conditional(taciturn_, small):
    path = filled_in(taciturn_, small / "t.csv", "ill")
    assert read_bounds(path).origin == "data"
    done = taciturn_(*training(small, "--bounds", path, "--out", small / "out"))
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
        ["--loss", "logistic", "--regulariser", "elastic:0.01,0.1", "--constraint", "box:0.5"],
        ["--regulariser", "none", "--constraint", "ball:0.5", "--algorithm", "dp-admm"],
        ["--constraint", "simplex", "--loss", "hinge:1", "--clip", "0.3"],
    ],
)
def test_loss_regulariser_and_constraint_reach_the_run(taciturn_, small, options):
    done = taciturn_(*training(small, *options, "--out", small / "out"))
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
def test_the_name_of_a_data_set_wins_over_a_file(taciturn_, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "breast_cancer").write_text("not a table")
    done = taciturn_("train", "breast_cancer", *EXACT, "--rounds", 2)
    assert "Breast Cancer Wisconsin" in done.out


def test_predictions_do_not_replace_a_file_unless_forced(taciturn_, refused, report, tmp_path):
    model = report / "out" / "model.json"
    table, out = tmp_path / "t.csv", tmp_path / "p.csv"
    write(table, ["age", "town"], [["30", "a"], ["99", "b"]])
    printed = taciturn_("predict", model, table)
    assert printed.out.startswith("prediction,probability of ")
    assert printed.out.count("\n") == 3
    out.write_text("mine")
    assert "--force" in refused("predict", model, table, "--out", out)
    assert out.read_text() == "mine"
    assert taciturn_("predict", model, table, "--out", out, "--force").code == 0
    assert out.read_text() == printed.out
    assert "cannot be written" in refused("predict", model, table, "--out", tmp_path / "no" / "p")
    write(table, ["age", "town", "ward"], [["30", "a", "w"]])
    kept = taciturn_("predict", model, table, "--keep", "ward", "--ignore-extra").out
    assert kept.splitlines()[1].startswith("w,")
    assert "nothing is known of the column 'ward'" in refused("predict", model, table)


def messy(path, rows=120):
    """Write a table as a spreadsheet of the continent exports it."""
    draw = np.random.default_rng(2)
    lines = ["number;größe;seen;smokes;ill;note"]
    for k in range(rows):
        pay = f"{draw.uniform(500, 4000):,.2f}".translate(str.maketrans(",.", ".,"))
        smokes, ill = [" Ja", "ja ", "NEIN"][k % 3], ["Yes", "no"][k % 2]
        lines.append(f"A{k};{pay};{1 + k % 28}.3.2021;{smokes};{ill};text {k}")
    path.write_bytes(("\n".join(lines) + "\n").encode("cp1252"))


def with_seen(draft, written, more=""):
    """Return a draft with its column of dates taken in, as its comments say."""
    ignore, taken = 'ignore = ["number", "seen", "note"]', 'ignore = ["number", "note"]'
    draft = draft.replace(ignore, taken).replace('ignore = ["seen"]', "")
    days = f'min = 2021-03-01\nmax = 2021-03-28\ndate = "{written}"\n'
    return f"{draft}\n[columns.seen]\n{days}{more}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a messy table, its bounds and a model of it."""
    folder = tmp_path_factory.mktemp("messy")
    messy(folder / "ill.csv")
    printed = StringIO()
    with redirect_stdout(printed):
        ask = ["bounds", folder / "ill.csv", "--target", "ill", *FORM, "--encoding", "cp1252"]
        assert main([str(a) for a in ask]) == 0
        draft = with_seen(printed.getvalue(), "%d.%m.%Y")
        (folder / "ill.toml").write_text(draft, encoding="utf-8")
        ask = ["train", folder / "ill.csv", "--target", "ill", "--bounds", folder / "ill.toml"]
        assert main([str(a) for a in [*ask, *BUDGET, "--out", folder / "ill"]]) == 0
    return folder


def test_a_messy_table_is_told_how_to_be_read_from_its_header_alone(taciturn_, refused, tmp_path):
    table = tmp_path / "t.csv"
    messy(table)
    assert "not text in UTF-8" in refused("bounds", table, "--target", "ill")
    line = refused("bounds", table, "--target", "ill", "--encoding", "cp1252")
    assert "looks separated by ;: add --delimiter ';'" in line
    ask = ["bounds", table, "--target", "ill", "--encoding", "cp1252", "--delimiter", ";"]
    code, out, err = taciturn_(*ask)
    assert code == 0
    assert "'größe': it looks like numbers in another form" in err
    assert err.count("\n") == 1
    assert "--decimal ','" in out
    code, out, err = taciturn_(*ask, "--decimal", ",", "--thousands", ".", "--json")
    made = json.loads(out)
    assert made["format"] == dict(
        zip(
            ("delimiter", "decimal", "thousands", "encoding"),
            (";", ",", ".", "cp1252"),
            strict=True,
        )
    )
    assert set(made["left_out"]) == {"number", "seen", "note"} == set(made["ignore"])
    assert 'date = "%d.%m.%Y"' in made["left_out"]["seen"]
    assert made["columns"]["smokes"] == {"values": ["Ja", "NEIN"], "fold_case": True}
    assert "größe" in made["columns"]


def test_predict_reads_a_file_in_the_form_of_the_training(trained, taciturn_):
    code, out, err = taciturn_(
        "predict", trained / "ill" / "model.json", trained / "ill.csv", "--json"
    )
    assert (code, err) == (0, "")
    shown = taciturn_("show", trained / "ill" / "model.json")[1]
    for words in ("delimiter ';'", "written as %d.%m.%Y", "Ja, NEIN; fold_case"):
        assert words in shown
    first = json.loads(out)["predictions"]
    form = {"sep": ";", "decimal": ",", "thousands": ".", "encoding": "cp1252"}
    plain = pd.read_csv(trained / "ill.csv", dtype={"seen": str}, **form)
    plain.to_csv(trained / "plain.csv", index=False)
    options = ["--delimiter", ",", "--decimal", ".", "--thousands", "", "--encoding", "utf-8"]
    code, out, _ = taciturn_(
        "predict", trained / "ill" / "model.json", trained / "plain.csv", "--json", *options
    )
    assert code == 0
    assert json.loads(out)["predictions"] == first


def test_probabilities_are_asked_for_or_left_out(trained, taciturn_, refused):
    model, table = trained / "ill" / "model.json", trained / "ill.csv"
    robust = trained / "robust.json"
    values = json.loads(model.read_text())
    robust.write_text(json.dumps({**values, "loss": "logistic", "clip": 0.5}))
    said = refused("predict", robust, table, "--proba")
    assert "robust logistic, clip 0.5" in said
    assert "train with --clip 1," in said
    assert "probability of no" in taciturn_("predict", model, table, "--proba")[1]
    assert taciturn_("predict", model, table, "--no-proba")[1].startswith("prediction\n")


def test_missing_cells_go_from_the_draft_to_coefficients_and_predictions(
    taciturn_, refused, tmp_path
):
    draw = np.random.default_rng(5)
    lines = ["age,seen,town,ill"]
    for k in range(120):
        age = ["", "NA", str(draw.integers(20, 90))][min(k % 6, 2)]
        seen = "" if k % 7 == 0 else f"2021-03-{1 + k % 28:02d}"
        lines.append(f"{age},{seen},{['', 'Ulm', 'Aalen'][k % 3]},{['no', 'yes'][k % 2]}")
    table, draft, out = tmp_path / "t.csv", tmp_path / "b.toml", tmp_path / "out"
    table.write_text("\n".join(lines) + "\n")
    code, printed, _ = taciturn_("bounds", table, "--target", "ill")
    assert (code, printed.count('missing = "indicator"')) == (0, 2)
    assert "# cells are missing: each counts as the middle of the range" in printed
    draft.write_text(with_seen(printed, "%Y-%m-%d", 'missing = "indicator"\n'))
    ask = ["train", table, "--target", "ill", "--bounds", draft, *BUDGET]
    assert taciturn_(*ask, "--out", out)[0] == 0
    shown = taciturn_("show", out / "model.json")[1]
    for name in ("age=missing", "seen=missing", "town=missing", "a missing cell counts as"):
        assert name in shown
    statement = json.loads((out / "model.json").read_text())["statement"]
    assert any("which columns may have missing cells" in line for line in statement)
    new = tmp_path / "new.csv"
    new.write_text("age,seen,town\n?,,\n50,2021-03-04,Ulm\n")
    code, printed, _ = taciturn_("predict", out / "model.json", new, "--json")
    assert (code, json.loads(printed)["rows"]) == (0, 2)
    draft.write_text(draft.read_text().replace('missing = "indicator"', "", 1))
    assert "is empty; drop such rows or fill them in; in a column to predict from, missing = " in (
        refused(*ask)
    )


def test_a_proposal_carries_the_form_and_options_may_replace_it(trained, taciturn_, refused):
    plan = [
        "plan", "--bounds", trained / "ill.toml", "--records", "120", *BUDGET,
        "--out", trained / "p.json",
    ]  # fmt: skip
    assert taciturn_(*plan)[0] == 0
    train = ["train", trained / "ill.csv", "--proposal", trained / "p.json", "--json"]
    assert taciturn_(*train)[0] == 0
    text = (trained / "ill.csv").read_text(encoding="cp1252").replace(";", "|")
    (trained / "bars.csv").write_text(text, encoding="utf-8")
    other = ["--delimiter", "|", "--encoding", "utf-8"]
    assert taciturn_("train", trained / "bars.csv", *train[2:], *other)[0] == 0
    assert "--delimiter '|'" in refused("train", trained / "bars.csv", *train[2:], *other[2:])


def test_an_option_of_the_form_is_for_tables_alone_and_is_checked(refused, tmp_path):
    line = refused("train", "breast_cancer", "--epsilon", 1, "--delta", "1e-3", "--delimiter", ";")
    assert "--delimiter is for tables of your own" in line
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    for option, value in (("--decimal", "x"), ("--encoding", "none"), ("--delimiter", "ab")):
        line = refused("bounds", tmp_path / "t.csv", "--target", "b", option, value)
        assert option[2:] in line
