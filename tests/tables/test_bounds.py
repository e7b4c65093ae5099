"""Bounds files: what they say of spellings and codings, what they refuse, what is written."""

import tomllib
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables.test_encode import FILE as CODED

from conftest import bounds_of_ill
from taciturn.errors import InputError
from taciturn.tables import (
    Bounds,
    Categories,
    Numeric,
    bounds_text,
    draft_from,
    encode,
    read_bounds,
)
from taciturn.tables.bounds import bounds_from_dict, bounds_to_dict
from taciturn.tables.encode import check_columns

TOWNS = {'"home town"': 'values = ["Aa", "B", 7]'}


GOOD = bounds_of_ill(ignore=["id"], age="min = 0\nmax = 120", **TOWNS)


names = st.text(min_size=1, max_size=8)


numbers = st.floats(-1e100, 1e100)


texts = st.text(max_size=8).map(str.strip)


@st.composite
def facts(draw, least=1):
    if draw(st.booleans()):
        low, high = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
        wide = high - low > max(1e-9 * max(-low, high), 1e-100)
        return Numeric(low, high) if wide else Numeric(0.0, 1.0)
    return Categories(tuple(draw(st.lists(texts, min_size=least, max_size=4, unique=True))))


@st.composite
def all_bounds(draw):
    target, *columns = draw(st.lists(names, min_size=2, max_size=5, unique=True))
    origin = draw(st.sampled_from(["public", "data"]))
    described = {name: draw(facts()) for name in columns}
    interval = draw(st.sampled_from(["symmetric", "unit"]))
    return Bounds(origin, target, draw(facts(least=2)), described, interval=interval)


def test_a_good_file_is_read_as_it_says(tmp_path):
    (tmp_path / "b.toml").write_text(GOOD)
    assert read_bounds(tmp_path / "b.toml") == Bounds(
        "public",
        "ill",
        Categories(("no", "yes")),
        {"age": Numeric(0.0, 120.0), "home town": Categories(("Aa", "B", "7"))},
        ("id",),
    )


@given(bounds=all_bounds())
def test_what_is_written_is_read_again(tmp_path_factory, bounds):
    path = tmp_path_factory.getbasetemp() / "roundtrip.toml"
    path.write_text(bounds_text(bounds), encoding="utf-8", newline="")
    again = read_bounds(path)
    assert again == bounds
    assert list(again.columns) == list(bounds.columns)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('source = "public"', "", "source must be"),
        ('source = "public"', 'source = "guess"', "source must be"),
        ("ignore =", "interval = 1\nignore =", 'interval must be "symmetric"'),
        ("min = 0\n", "min = 120\n", "'age'.*min must be below max"),
        ("min = 0\n", "min = -inf\n", "'age'.*finite"),
        ("min = 0\n", "min = 119.9999999999\n", "'age'.*widen the range"),
        ("min = 0\n", 'min = "0"\n', "'age'.*without quotes"),
        ("min = 0\n", f"min = {'9' * 400}\n", "'age'.*finite"),
        ("min = 0\n", "", "'age' needs min and max"),
        ('["Aa", "B", 7]', "[]", "'home town'.*empty"),
        ('["Aa", "B", 7]', '["B", "B"]', "'home town'.*twice"),
        ('["Aa", "B", 7]', '["B", 1.5]', "'home town'.*text in quotes"),
        ('values = ["no", "yes"]', 'values = ["no"]', "'ill' has one class"),
        ('name = "ill"', "", "target.*name"),
        ('name = "ill"', 'name = "age"', "'age' appears twice"),
        ("[target]", "[target", "not valid TOML"),
        ("[columns.age]", "[column.age]", "it may have columns"),
    ],
)
def test_a_bad_file_is_refused_with_the_column_and_the_fix(tmp_path, old, new, words):
    assert old in GOOD
    (tmp_path / "b.toml").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(InputError, match=words) as caught:
        read_bounds(tmp_path / "b.toml")
    assert "b.toml" in str(caught.value)
    assert "\n" not in str(caught.value).rstrip()


def test_the_file_in_the_readme_is_a_good_one(tmp_path):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    block = readme.split('```toml title="bounds.toml"\n')[1].split("```")[0]
    (tmp_path / "b.toml").write_text(block)
    made = read_bounds(tmp_path / "b.toml")
    assert (made.target_name, made.origin, set(made.columns)) == ("ill", "public", {"age", "sex"})


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_bounds(tmp_path / "none.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not valid TOML"):
        read_bounds(tmp_path / "b.toml")


SPELLED = """
source = "public"

[target]
name = "ill"
values = ["no", "yes"]
fold_case = true
missing = ["-"]

[columns.town]
values = ["Aa", "New York"]
fold_case = true
strip = true

[columns.seen]
date = "%d.%m.%Y"
min = 2020-01-01
max = 2020-12-31

[columns.age]
min = 0
max = 100
missing = ["NA", -9]
"""


FACTS = {
    "town": Categories(("Aa", "New York"), fold_case=True, strip=True),
    "seen": Numeric(18262.0, 18627.0, date="%d.%m.%Y"),
    "age": Numeric(0.0, 100.0, missing=("NA", "-9")),
}


SPELLINGS = Bounds(
    "public", "ill", Categories(("no", "yes"), fold_case=True, missing=("-",)), FACTS
)


FRAME = pd.DataFrame(
    {
        "town": ["aa", "NEW \u00a0york\u200b"],
        "seen": ["1.1.2020", "31.12.2020"],
        "age": ["50", "25"],
        "ill": ["No", "YES"],
    },
    dtype=object,
)


def test_the_file_says_how_cells_are_spelled_and_is_written_as_it_is_read(tmp_path):
    path = tmp_path / "b.toml"
    path.write_text(SPELLED)
    assert read_bounds(path) == SPELLINGS
    path.write_text(bounds_text(SPELLINGS))
    assert read_bounds(path) == SPELLINGS
    assert "max = 18627.0  # 2020-12-31" in path.read_text()


def test_cells_are_compared_as_the_file_says_and_dates_are_days():
    coded = encode(FRAME, SPELLINGS, with_target=True)
    assert coded.features.tolist() == [[1, 0, -1, 0, 1], [0, 1, 1, -0.5, 1]]
    assert coded.targets.tolist() == [-1, 1]
    strict = Bounds("public", "ill", Categories(("No", "YES")), {"town": Categories(("aa",))})
    with pytest.raises(InputError, match="'town', row 2 is empty or not one of"):
        encode(FRAME[["town", "ill"]], strict, with_target=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"age": "NA"}, "column 'age', row 2 is empty; drop"),
        ({"age": "-9"}, "column 'age', row 2 is empty; drop"),
        ({"age": None}, "column 'age', row 2 is empty; drop"),
        ({"ill": "-"}, "column 'ill', row 2 is empty; drop"),
        (
            {"age": "NA", "ill": "-", "town": ""},
            r"column 'town', row 2 is empty, and so are cells of 'age' \(row 2\), 'ill' \(row 2\)",
        ),
        ({"seen": "31.2.2020"}, "'seen', row 2 is no date written as %d.%m.%Y"),
        ({"seen": "secret"}, "'seen', row 2 is no date"),
    ],
)
def test_missing_cells_are_errors_that_name_every_column(changes, words):
    frame = FRAME.copy()
    for name, cell in changes.items():
        frame.loc[1, name] = cell
    with pytest.raises(InputError, match=words) as caught:
        encode(frame, SPELLINGS, with_target=True)
    assert "secret" not in str(caught.value)


def test_a_list_with_the_empty_text_makes_missing_cells_a_category():
    bounds = Bounds(
        "public", "ill", SPELLINGS.target, {"town": Categories(("", "aa"), missing=("NA", "?"))}
    )
    frame = pd.DataFrame({"town": ["aa", "", "NA", "?", None]}, dtype=object)
    rows = encode(frame, bounds, with_target=False).features
    assert rows[:, 0].tolist() == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (SPELLED, "strip = true", "stripp = true", "'town': it has 'stripp'; it may have centre"),
        (SPELLED, "strip = true", "min = 0", "'town' needs min and max"),
        (SPELLED, "min = 0\n", "min = 0\nfold_case = true\n", "'age': it has 'fold_case'"),
        (SPELLED, '["Aa", "New York"]', '["Aa", "AA"]', "'town': the value 'aa' is listed twice"),
        (SPELLED, '["NA", -9]', '"NA"', "'age': missing is 'NA'; write \"indicator\", \"fill\""),
        (SPELLED, '["NA", -9]', '{as = "indicator", fil = 7}', "'age': missing must be a list"),
        (SPELLED, '["NA", -9]', "{fill = 7}", "'age': fill is given without as; add as"),
        (SPELLED, '["NA", -9]', '{as = "fill", fill = 101}', "'age': fill is 101 and the range"),
        (SPELLED, '["NA", -9]', '{as = "fill", fill = "7"}', "'age': fill must be a number"),
        (SPELLED, "strip = true", 'missing = "fill"', "column 'town': fill is for numbers"),
        (SPELLED, 'missing = ["-"]', 'missing = "indicator"', "missing of the target 'ill' is"),
        (SPELLED, '["NA", -9]', '[""]', "'age': missing has \"\""),
        (SPELLED, 'missing = ["-"]', 'missing = ["NO"]', "'no' is one of values and of missing"),
        (SPELLED, '"%d.%m.%Y"', '"%d.%m."', "'seen': date is"),
        (SPELLED, '"%d.%m.%Y"', '"%Y %Y"', "'seen': date is"),
        (SPELLED, 'date = "%d.%m.%Y"\n', "", "'seen': min and max must be numbers"),
        (SPELLED, "[columns.age]", "[format]\ndecimal = ';'\n[columns.age]", "decimal is ';'"),
        (CODED, "min = 1\n", "min = -1\n", "'pay': scale is \"log\" and min is -1; numbers below"),
        (CODED, 'scale = "log"\nbins = 3', 'scale = "ln"', "'pay': scale must be \"linear\""),
        (CODED, "bins = 3", "bins = 1001", "'pay': bins is 1001"),
        (CODED, "bins = 3", "bins = 2.5", "'pay': bins must be a whole number, or inner edges"),
        (CODED, "bins = 3", "bins = []", "'pay': bins has 0 edges"),
        (CODED, "[1, 5.5, 20]", "[5, 1]", "'cost': bins has 2 edges that do not increase"),
        (CODED, "centre = 9", "centre = 100", "'cost': centre is 100 and the range is from 0 to"),
        (CODED, "centre = 9", 'centre = "uniform"', "'cost': centre of a range must be a number"),
        (CODED, "weight = 0.5", "weight = 0", "'age': weight is 0; give a number above 0"),
        (CODED, "bins = [2020", 'scale = "log"\nbins = [2020', "'seen': scale is \"log\" and date"),
        (CODED, 'centre = "uniform"', "centre = { x = 1 }", "'sex': centre has 'x', which is not"),
        (CODED, 'centre = "uniform"', "centre = { f = -1 }", "'sex': centre has 2 shares for 2"),
        (CODED, 'centre = "uniform"', "centre = { f = 1, m = 1 }", "'sex': centre has shares that"),
        (CODED, 'centre = "uniform"', "bins = 2", "'sex': it has 'bins'"),
        (CODED, 'name = "ill"', 'name = "ill"\nweight = 2', "weight is given for the target"),
    ],
)
def test_a_spelling_or_coding_that_cannot_be_is_one_clear_error(tmp_path, file, old, new, words):
    assert old in file
    (tmp_path / "b.toml").write_text(file.replace(old, new, 1))
    with pytest.raises(InputError, match=words) as caught:
        read_bounds(tmp_path / "b.toml")
    assert "\n" not in str(caught.value)


def test_patterns_name_columns_to_leave_out_and_a_described_one_is_never_left_out():
    file = bounds_of_ill(age="min = 0\nmax = 99", date_1="min = 0\nmax = 9")
    values = tomllib.loads(f'ignore = ["note", "date_*", "x?"]\n{file}')
    bounds = bounds_from_dict(values)
    assert bounds_from_dict(bounds_to_dict(bounds)) == bounds
    known = ["age", "date_1", "ill", "note", "date_of_birth", "x1"]
    check_columns(known, bounds, with_target=True)
    with pytest.raises(InputError) as caught:
        check_columns([*known, "x12", "Date_2", "my_date_"], bounds, with_target=True)
    assert "the columns 'Date_2', 'my_date_', 'x12'; describe each" in str(caught.value)
    frame = pd.DataFrame([["1", "2", "3", "yes"]], columns=["age", "date_1", "date_2", "ill"])
    assert encode(frame, bounds, with_target=True).features[0, 1] == 2 * 2 / 9 - 1


def test_a_draft_leaves_out_the_columns_that_match_a_pattern():
    frame = pd.DataFrame({"a": ["1.5", "2"], "d_1": ["1", "2"], "d_2": ["3", "1"], "y": ["n", "y"]})
    draft = draft_from(frame.astype(object), "y", ignored=("d_*",))
    assert (list(draft.bounds.columns), draft.bounds.ignored) == (["a"], ("d_*",))
    with pytest.raises(InputError, match=r"no column 'e_\*'"):
        draft_from(frame.astype(object), "y", ignored=("e_*",))
