"""A messy export through the command line: from its draft of bounds to predictions."""

import json
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from taciturn.cli.main import main

FORM = ["--delimiter", ";", "--decimal", ",", "--thousands", "."]
BUDGET = ["--epsilon", "2", "--delta", "1e-3", "--rounds", "3", "--agents", "2"]


@pytest.fixture
def taciturn_(capsys):
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        done = capsys.readouterr()
        return code, done.out, done.err

    return call


@pytest.fixture
def refused(taciturn_):
    def call(*arguments):
        code, out, err = taciturn_(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("taciturn: error: ")
        return err

    return call


def written(number):
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def write(path, rows, *, target="ill"):
    draw = np.random.default_rng(2)
    lines = [f"number;größe;seen;smokes;{target};note"]
    for k in range(rows):
        pay, day = draw.uniform(500, 4000), 1 + k % 28
        smokes, ill = [" Ja", "ja ", "NEIN"][k % 3], ["Yes", "no"][k % 2]
        label = ill if target == "ill" else written(100 * pay)
        cells = [f"A{k}", written(pay), f"{day}.3.2021", smokes, label, f"text {k}"]
        lines.append(";".join(cells))
    path.write_bytes(("\n".join(lines) + "\n").encode("cp1252"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a classifier and a regression of messy files."""
    folder = tmp_path_factory.mktemp("messy")
    for name, target in (("ill", "ill"), ("cost", "cost")):
        table = folder / f"{name}.csv"
        write(table, 120, target=target)
        printed = StringIO()
        with redirect_stdout(printed):
            ask = ["bounds", table, "--target", target, *FORM, "--encoding", "cp1252"]
            assert main([str(a) for a in ask]) == 0
            (folder / f"{name}.toml").write_text(printed.getvalue(), encoding="utf-8")
            ask = ["train", table, "--target", target, "--bounds", folder / f"{name}.toml"]
            assert main([str(a) for a in [*ask, *BUDGET, "--out", folder / name]]) == 0
    return folder


def test_a_messy_table_is_told_how_to_be_read_from_its_header_alone(taciturn_, refused, tmp_path):
    table = tmp_path / "t.csv"
    write(table, 120)
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
    assert set(made["left_out"]) == {"number", "note"} == set(made["ignore"])
    assert made["columns"]["seen"]["date"] == "%d.%m.%Y"
    assert made["columns"]["smokes"] == {"values": ["Ja", "NEIN"], "fold_case": True}
    assert "größe" in made["columns"]


def test_predict_reads_a_file_in_the_form_of_the_training(trained, taciturn_):
    code, out, err = taciturn_(
        "predict", trained / "ill" / "model.json", trained / "ill.csv", "--json"
    )
    assert (code, err) == (0, "")
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


@pytest.mark.parametrize("name", ["new.xlsx", "NEW.XLS", "new.ods"])
def test_a_spreadsheet_to_predict_is_told_to_be_saved_otherwise(trained, refused, name):
    said = refused("predict", trained / "ill" / "model.json", trained / name)
    assert "save its sheet as CSV or Parquet" in said


def test_columns_are_kept_and_others_passed_over_when_asked(trained, taciturn_, refused):
    model, table = trained / "ill" / "model.json", trained / "more.csv"
    text = (trained / "ill.csv").read_text(encoding="cp1252").splitlines()
    more = ["ward;" + text[0], *(f"W{k};{line}" for k, line in enumerate(text[1:]))]
    table.write_text("\n".join(more), encoding="cp1252")
    assert "nothing is known of the column 'ward'" in refused("predict", model, table)
    assert taciturn_("predict", model, table, "--ignore-extra")[0] == 0
    code, out, _ = taciturn_("predict", model, table, "--keep", "ward", "--keep", "number")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "ward,number,prediction"
    assert lines[3].startswith("W2,A2,")
    assert "no column 'clinic' to keep" in refused("predict", model, table, "--keep", "clinic")


def test_probabilities_are_asked_for_or_left_out(trained, taciturn_, refused):
    model, table = trained / "ill" / "model.json", trained / "ill.csv"
    said = refused("predict", model, table, "--proba")
    assert "robust logistic, clip 0.5" in said
    assert "train with --clip 1," in said
    values = json.loads(model.read_text())
    model = trained / "whole.json"
    model.write_text(json.dumps({**values, "clip": 1}))
    assert "probability of no" in taciturn_("predict", model, table, "--proba")[1]
    assert taciturn_("predict", model, table, "--no-proba")[1].startswith("prediction\n")
    regression, other = trained / "cost" / "model.json", trained / "cost.csv"
    assert "no probabilities" in refused("predict", regression, other, "--proba")


def test_the_prediction_of_a_regression_stays_in_the_declared_range(trained, taciturn_):
    values = json.loads((trained / "cost" / "model.json").read_text())
    least, most = (values["preprocessing"]["target"][end] for end in ("min", "max"))
    for size in (1e9, -1e9):
        values["terms"][0]["coefficient"] = [size]
        (trained / "wild.json").write_text(json.dumps(values))
        out = taciturn_("predict", trained / "wild.json", trained / "cost.csv", "--json")[1]
        assert set(json.loads(out)["predictions"]["prediction"]) == {most if size > 0 else least}


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
    assert (code, printed.count('missing = "indicator"')) == (0, 3)
    assert "# cells are missing: each counts as the middle of the range" in printed
    draft.write_text(printed)
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


def test_show_says_how_cells_are_read(trained, taciturn_):
    out = taciturn_("show", trained / "ill" / "model.json")[1]
    for words in ("delimiter ';'", "written as %d.%m.%Y", "Ja, NEIN; fold_case"):
        assert words in out


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
