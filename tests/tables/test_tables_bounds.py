"""Bounds files: what they say, what they refuse, and what is filled in from a table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import bounds_of_ill
from taciturn.errors import InputError
from taciturn.tables import (
    Bounds,
    Categories,
    Numeric,
    bounds_text,
    draft_from,
    read_bounds,
)

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
        ("ignore =", "interval = []\nignore =", 'interval must be "symmetric"'),
        ("min = 0\n", "min = 120\n", "'age'.*min must be below max"),
        ("min = 0\n", "min = 500\n", "'age'.*min must be below max"),
        ("min = 0\n", "min = nan\n", "'age'.*min must be below max"),
        ("min = 0\n", "min = -inf\n", "'age'.*finite"),
        ("min = 0\n", "min = -1e101\n", "'age'.*finite"),
        ("min = 0\n", "min = 119.9999999999\n", "'age'.*widen the range"),
        ("min = 0\n", 'min = "0"\n', "'age'.*without quotes"),
        ("min = 0\n", "min = true\n", "'age'.*without quotes"),
        ("min = 0\n", f"min = {'9' * 400}\n", "'age'.*finite"),
        ("min = 0\n", "", "'age' needs min and max"),
        ("min = 0\n", "min = 0\nvalues = []\n", "'age' needs min and max"),
        ('["Aa", "B", 7]', "[]", "'home town'.*empty"),
        ('["Aa", "B", 7]', '["B", "B"]', "'home town'.*twice"),
        ('["Aa", "B", 7]', '["B", 1.5]', "'home town'.*text in quotes"),
        ('["Aa", "B", 7]', '"B"', "'home town'.*text in quotes"),
        ('values = ["no", "yes"]', 'values = ["no"]', "'ill' has one class"),
        ('name = "ill"', "", "target.*name"),
        ('name = "ill"', 'name = "age"', "'age' appears twice"),
        ("['id']", "['age']", "'age' appears twice"),
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


def test_filled_in_bounds_are_what_occurs_and_say_where_they_come_from():
    draw = np.random.default_rng(0)
    numbers = draw.normal(size=40)
    frame = pd.DataFrame(
        {
            "x": [repr(float(v)) for v in numbers],
            "town": ["a", "b"] * 20,
            "constant": ["5"] * 40,
            "note": [f"text {k}" for k in range(40)],
            "y": [str(v) for v in range(40)],
        },
        dtype=object,
    )
    made = draft_from(frame, "y", ignored=("note",)).bounds
    assert made.origin == "data"
    assert made.columns["x"] == Numeric(numbers.min(), numbers.max())
    assert made.columns["town"] == Categories(("a", "b"))
    assert made.columns["constant"] == Numeric(5.0, 10.0)
    assert made.ignored == ("note",)
    assert made.target == Numeric(0.0, 39.0)
    assert draft_from(frame, "town", ignored=("note",)).bounds.target == Categories(("a", "b"))


def test_free_text_is_ignored_and_numbers_with_few_values_are_labels():
    rows = 200
    frame = pd.DataFrame(
        {
            "note": [f"text {k}" for k in range(rows)],
            "x": [str(k) for k in range(rows)],
            "y": [str(k % 11) for k in range(rows)],
        },
        dtype=object,
    )
    made = draft_from(frame, "y").bounds
    assert made.ignored == ("note",)
    assert made.target == Categories(tuple(str(k) for k in range(11)))


@pytest.mark.parametrize(
    ("cells", "words"),
    [(["1", ""], "'x', row 2 is empty"), (["inf", "1"], "'x', row 1 is infinite")],
)
def test_filling_in_refuses_cells_that_training_would_refuse(cells, words):
    with pytest.raises(InputError, match=words):
        draft_from(pd.DataFrame({"x": cells, "y": ["a", "b"]}, dtype=object), "x")
