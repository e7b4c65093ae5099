"""No refusal of tables, training or estimators repeats a cell, in message, cause or context."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from taciturn.errors import InputError, TaciturnError, reraise_clean
from taciturn.estimators import PrivateLinearRegression, PrivateLogisticRegression, PrivateSVC
from taciturn.kernel.records import pack
from taciturn.problems import MultinomialLogistic
from taciturn.tables import (
    Bounds,
    Categories,
    Form,
    Numeric,
    Source,
    draft_from,
    encode,
    load_table,
    read_table,
)
from taciturn.training import Request, train_on

SECRET, NUMBER = "HIV+8731", 8731.25
BUDGET = {"epsilon": 1.0, "delta": 1e-3, "rounds": 2, "bounds": (0, 1)}
BOUNDS = Bounds(
    "public", "ill", Categories(("no", "yes")),
    {"age": Numeric(0, 100), "town": Categories(("a", "b"))},
)  # fmt: skip


def everything_said(error):
    """Return all that an error and those behind it hold, as text."""
    said = []
    while error is not None:
        said += map(repr, (str(error), error.args, vars(error), getattr(error, "object", "")))
        said += getattr(error, "__notes__", [])
        assert error.__cause__ is None or error.__cause__ is error.__context__
        error = error.__context__
    return "\n".join(said)


def refusal(work, *arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((TaciturnError, ValueError, TypeError)) as seen:
            work(*arguments, **settings)
    return everything_said(seen.value)


def keeps_quiet(said):
    return "8731" not in said and "HIV" not in said


def rows(cell=0.5, count=8):
    cells = [[0.1 * k, 1.0] for k in range(count)]
    cells[3][1] = cell
    return cells


LABELS = [0, 1] * 4
CELLS = {
    "text": SECRET,
    "text in a mapping": {SECRET: 1},
    "bytes": SECRET.encode(),
    "a complex number": complex(NUMBER, 1),
    "a number that is too large": 8731 * 10**400,
    "an infinite number": np.inf,
}


@pytest.mark.parametrize("cell", list(CELLS))
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateSVC, PrivateLinearRegression])
def test_an_estimator_does_not_repeat_a_cell_of_the_features(kind, cell):
    given = {"target_bounds": (0, 1)} if kind is PrivateLinearRegression else {"classes": [0, 1]}
    model, bad = kind(**BUDGET, **given), rows(CELLS[cell])
    for X in (bad, np.array(bad, dtype=object), pd.DataFrame(bad, columns=["age", "test"])):
        assert keeps_quiet(refusal(model.fit, X, LABELS))
    model.fit(rows(), LABELS)
    for X in (bad, np.array(bad, dtype=object)):
        assert keeps_quiet(refusal(model.predict, X))


def test_an_estimator_names_the_column_whose_cell_is_no_number():
    X = pd.DataFrame(rows(SECRET), columns=["age", "test"])
    said = refusal(PrivateLogisticRegression(**BUDGET, classes=[0, 1]).fit, X, LABELS)
    assert "column 'test' of X" in said
    said = refusal(PrivateLogisticRegression(**BUDGET).fit, rows(SECRET), LABELS)
    assert "column 1 of X" in said


def test_an_estimator_does_not_print_records_of_the_wrong_shape():
    model = PrivateLogisticRegression(**BUDGET, classes=[0, 1])
    for X in (NUMBER * np.arange(1, 9), np.full((8, 1, 1), NUMBER), np.full((8, 2), NUMBER + 1j)):
        assert keeps_quiet(refusal(model.fit, X, LABELS))
    assert "Reshape your data" in refusal(model.fit, NUMBER * np.arange(1, 9), LABELS)


@pytest.mark.parametrize(
    "y",
    [
        [SECRET, *[0.5] * 7],
        np.array([SECRET, *[0, 1] * 3, 1], dtype=object),
        [NUMBER + 1j, *[0.5] * 7],
        [[NUMBER, 1], *[[0, 1]] * 7],
        [NUMBER, np.inf, *[0.5] * 6],
    ],
    ids=["text", "text among numbers", "complex", "two columns", "infinite"],
)
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearRegression])
def test_an_estimator_does_not_repeat_a_target(kind, y):
    given = {"classes": [0, 1]} if kind is PrivateLogisticRegression else {}
    assert keeps_quiet(refusal(kind(**BUDGET, **given).fit, rows(), y))


def test_an_estimator_does_not_say_what_range_or_label_it_read_off_the_records():
    near = [[8731e12 + k] for k in range(8)]
    facts = {"epsilon": 1.0, "delta": 1e-3, "rounds": 2}
    for X in (near, [[8731e100 * k] for k in range(8)]):
        said = refusal(PrivateLogisticRegression(**facts, classes=[0, 1]).fit, X, LABELS)
        assert "column 0 of X" in said
        assert keeps_quiet(said)
    said = refusal(PrivateLinearRegression(**BUDGET).fit, rows(), np.ravel(near))
    assert "the target" in said
    assert keeps_quiet(said)
    outside = [SECRET, *["no", "yes"] * 3, "no"]
    said = refusal(PrivateSVC(**BUDGET, classes=["no", "yes"]).fit, rows(), outside)
    assert keeps_quiet(said)
    assert keeps_quiet(refusal(PrivateSVC(**BUDGET).fit, rows(), [SECRET] * 8))


def frame(**cells):
    table = {"age": ["30", "40"], "town": ["a", "b"], "ill": ["no", "yes"]}
    return pd.DataFrame({name: [cells.get(name, c[0]), c[1]] for name, c in table.items()})


@pytest.mark.parametrize("column", ["age", "town", "ill"])
@pytest.mark.parametrize("cell", [c for c in CELLS if c != "a complex number"])
def test_a_table_does_not_repeat_a_cell(column, cell):
    said = refusal(encode, frame(**{column: CELLS[cell]}), BOUNDS, with_target=True)
    assert f"column '{column}'" in said
    assert keeps_quiet(said)


@pytest.mark.parametrize(
    "content",
    [
        f"age,town,ill\n{SECRET},a,no\n40,b,yes\n".encode(),
        f"age,town,ill\n30,{SECRET},no\n40,b,yes\n".encode(),
        f"age,town,ill\n30,a,{SECRET}\n40,b,yes\n".encode(),
        f"age,town,ill\n30,a,no\n40,b,yes,{SECRET}\n".encode(),
        f'age,town,ill\n30,a,no\n40,b,"{SECRET}\n'.encode(),
        f'age,town,ill\n30,a,no\n40,"b"{SECRET},yes\n'.encode(),
        f"age,town,ill\n30,a,no\n{SECRET},b,\xff\n".encode("latin-1"),
    ],
    ids=["number", "category", "label", "a cell too many", "open quote", "text", "no text"],
)
def test_a_file_that_cannot_be_read_is_not_quoted(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    source = Source(path=path, target="ill", bounds=None)
    assert keeps_quiet(refusal(load_table, source, BOUNDS))
    path.with_suffix(".parquet").write_bytes(content)
    source = Source(path=path.with_suffix(".parquet"), target="ill", bounds=None)
    assert keeps_quiet(refusal(load_table, source, BOUNDS))


@pytest.mark.parametrize("first", [f"{SECRET},b,no", f"{SECRET},{SECRET},no", "age,b,no"])
def test_a_file_without_a_header_is_not_quoted(tmp_path, first):
    """Its first record is where the names of columns should be."""
    path = tmp_path / "t.csv"
    path.write_text(f"{first}\n30,a,yes\n")
    wanted, asked = ("the first line of a CSV file must be its header", tmp_path / "agents")
    asked.mkdir()
    (asked / "a.csv").write_text("age,town,ill\n30,a,yes\n")
    (asked / "b.csv").write_bytes(path.read_bytes())
    for work, *given in (
        (load_table, Source(path=path, target="ill", bounds=None), BOUNDS),
        (load_table, Source(path=asked, target="ill", bounds=None), BOUNDS),
        (lambda: draft_from(read_table(path), "ill"),),
    ):
        said = refusal(work, *given)
        assert keeps_quiet(said)
        assert wanted in said


def test_an_estimator_does_not_list_columns_that_the_bounds_do_not_name():
    X = pd.DataFrame(rows(), columns=[SECRET, "1"])
    for given in ({"age": (0, 1)}, {}):
        model = PrivateLogisticRegression(**BUDGET | {"bounds": given}, classes=[0, 1])
        assert keeps_quiet(refusal(model.fit, X, LABELS))


DATED = Bounds(
    "public", "ill", Categories(("no", "yes"), fold_case=True, strip=True, missing=("-",)),
    {
        "age": Numeric(0, 100, date="%Y-%m-%d", missing=("NA",)),
        "town": Categories(("a", "b"), fold_case=True, missing=("?",)),
    },
    form=Form(decimal=",", thousands="."),
)  # fmt: skip


@pytest.mark.parametrize("column", ["age", "town", "ill"])
@pytest.mark.parametrize("cell", [c for c in CELLS if c != "a complex number"])
def test_a_table_with_dates_and_spellings_does_not_repeat_a_cell(column, cell):
    good = frame().assign(age="1970-01-02")
    good[column] = [CELLS[cell], good[column][1]]
    said = refusal(encode, good, DATED, with_target=True)
    assert f"column '{column}'" in said
    assert keeps_quiet(said)
    other = replace(BOUNDS, form=DATED.form)
    assert keeps_quiet(refusal(encode, frame(**{column: CELLS[cell]}), other, with_target=True))


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (f"age;town;ill\n{SECRET};a;no\n", Form()),
        (f"age, years;town;ill\n{SECRET};a,b,c;no\n", Form()),
        (f"age;town;ill\n{SECRET};a;no;1\n", Form(delimiter=";")),
        (f'age;town;ill\n{SECRET};"a"8731;no\n', Form(delimiter=";")),
        (f"age\u20ac,town,ill\n{SECRET},a,no\n", Form(encoding="ascii")),
        (f"age,town,ill\n{SECRET},a,no\n", Form(encoding="utf-16")),
        (f"\ufeffage,town,ill\n{SECRET},a,no", Form(encoding="utf-32")),
    ],
)
def test_a_file_in_another_form_is_not_quoted(tmp_path, content, form):
    (tmp_path / "t.csv").write_bytes(content.encode())
    source = Source(path=tmp_path / "t.csv", target="ill", bounds=None)
    assert keeps_quiet(refusal(load_table, source, replace(BOUNDS, form=form)))
    (tmp_path / "t.xlsx").write_bytes(content.encode())
    assert keeps_quiet(refusal(read_table, tmp_path / "t.xlsx"))


def test_a_draft_that_is_refused_does_not_say_what_occurs():
    cells = [f"{SECRET} {k}" for k in range(150)]
    table = pd.DataFrame({"age": cells, "ill": ["no", "yes"] * 75, "town": cells}, dtype=object)
    assert keeps_quiet(refusal(draft_from, table, "age"))
    assert keeps_quiet(refusal(draft_from, table, "ill"))  # no column is left
    draft = draft_from(table.assign(x=["1", ""] * 75, age="2"), "ill", ignored=("x",))
    assert keeps_quiet("".join(draft.notes.left_out.values()))
    holes = table.assign(x=["8731", "NA"] * 75, age=["8731", ""] * 75)
    assert keeps_quiet(refusal(draft_from, holes, "age"))
    assert keeps_quiet(refusal(draft_from, holes.assign(x="8,731.5", age="1"), "x"))


@pytest.mark.parametrize("column", ["age", "ill"])
def test_bounds_that_cannot_be_filled_in_do_not_say_what_occurs(column):
    near = [str(87310000000000000 + 16 * k) for k in range(30)]
    table = pd.DataFrame({"age": near, "ill": near, "town": ["a", "b"] * 15})
    other = {"age": "ill", "ill": "age"}[column]
    said = refusal(draft_from, table.drop(columns=other), column if column == "ill" else "town")
    assert f"{column!r} span no range" in said
    assert keeps_quiet(said)
    assert keeps_quiet(refusal(draft_from, frame(age="8731", ill=np.inf), "ill"))


def test_numbers_as_labels_are_sorted_by_size_however_they_are_written():
    table = pd.DataFrame({"x": ["1", "2", "3"], "y": ["10", "9", "1e1"]})
    assert draft_from(table, "y").bounds.labels in {("9", "10", "1e1"), ("9", "1e1", "10")}


def test_packing_and_losses_do_not_repeat_a_cell():
    parts, settings = [np.arange(2)], {"record_norm": 1.0, "precision": "float64"}
    for cell in (SECRET, -np.inf, complex(NUMBER, 1)):
        features = np.array([[NUMBER], [cell]], dtype=object)
        said = refusal(pack, features, np.array([0, 1]), parts, **settings)
        assert keeps_quiet(said)
    assert "row 1, column 0" in refusal(
        pack, np.array([[1.0], [np.nan]]), np.array([0, 1]), parts, **settings
    )
    assert keeps_quiet(refusal(MultinomialLogistic(3).check_targets, np.array([0, 8731])))


@pytest.mark.parametrize("labels", [("no", "yes"), ("no", "yes", "maybe")])
def test_a_table_in_which_one_of_the_public_labels_occurs_is_trained_on(tmp_path, labels):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["age,ill", *(f"{k},yes" for k in range(40))]))
    bounds = Bounds("public", "ill", Categories(labels), {"age": Numeric(0, 100)})
    table = load_table(Source(path=path, target="ill", bounds=None), bounds)
    request = Request(epsilon=1.0, delta=1e-3, rounds=20)
    done = train_on(table, request, agents=2)
    assert 0.999 < done.certificate.epsilon <= 1.0
    assert done.warnings == ()


def test_an_error_that_is_told_anew_has_neither_cause_nor_context():
    def quoting():
        return float(SECRET)

    chained = refusal(lambda: _chained(quoting))
    assert not keeps_quiet(chained)  # planted: an error that is chained shows what it quotes
    said = refusal(reraise_clean, quoting, ValueError, lambda _: InputError("give a number"))
    assert keeps_quiet(said)
    assert "give a number" in said


def _chained(work):
    try:
        return work()
    except ValueError as error:
        raise InputError("give a number") from error
