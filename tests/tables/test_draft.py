"""What `taciturn bounds` makes of a messy table, and what it says about each column."""

import numpy as np
import pandas as pd
import pytest

from taciturn.errors import InputError
from taciturn.tables import (
    Categories,
    Numeric,
    bounds_text,
    draft_from,
    encode,
    read_bounds,
)
from taciturn.tables.columns import USUAL_MISSING

ROWS = 300


def messy():
    draw = np.random.default_rng(4)
    whole = draw.integers(0, 5000, ROWS)
    return pd.DataFrame(
        {
            "patient": [str(7000 + k) for k in range(ROWS)],
            "note": [f"seen {k}" for k in range(ROWS)],
            "level": [f"L{k % 150}" for k in range(ROWS)],
            "pay": [f"{1000 + v:,.2f}" for v in whole],
            "admitted": [f"2021-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(ROWS)],
            "left": [f"{1 + k % 12}/{1 + k % 12}/2021" for k in range(ROWS)],
            "town": [["Ulm", "ulm", "New  Ulm", "New Ulm"][k % 4] for k in range(ROWS)],
            "score": ["high" if k == 7 else f"{k / 7:.3f}" for k in range(ROWS)],
            "blank": [""] * ROWS,
            "height": [f"{v:.3f}" for v in 150 + draw.permutation(ROWS) / 7],
            "ill": [["Yes", "yes", "no"][k % 3] for k in range(ROWS)],
        },
        dtype=object,
    )


def test_every_column_that_is_left_out_is_listed_with_the_reason():
    draft = draft_from(messy(), "ill")
    reasons = {
        "patient": "all its values are different, as in an id",
        "note": "all its 300 texts are different",
        "level": "150 different texts, and at most 100 can be listed",
        "pay": "add --thousands ','",
        "admitted": "it has dates, which identify persons and seldom predict as numbers of days; "
        'to learn from them, give min, max and date = "%Y-%m-%d"',
        "left": 'give min, max and date = "%d/%m/%Y"',
        "score": "numbers but for 1 cells",
        "blank": "every cell is empty",
    }
    assert list(draft.notes.left_out) == list(reasons) == list(draft.bounds.ignored)
    for name, words in reasons.items():
        assert words in draft.notes.left_out[name]
    used = {*draft.bounds.columns, *draft.bounds.ignored, "ill"}
    assert used == set(messy())


def test_spellings_are_merged_and_pointed_out():
    draft = draft_from(messy(), "ill")
    columns, remarks = draft.bounds.columns, draft.notes.remarks
    assert "height" not in remarks  # a measurement, though all values differ
    assert "could also be read as %m/%d/%Y" in draft.notes.left_out["left"]
    assert columns["town"] == Categories(("New Ulm", "Ulm"), fold_case=True, strip=True)
    assert "differ only by case and white space" in remarks["town"][0]
    assert draft.bounds.target == Categories(("no", "Yes"), fold_case=True)
    assert "only by case" in remarks["ill"][0]


def judged(name, cells):
    """Return how a column of this name and these cells is drafted: why it is left out, or it."""
    frame = pd.DataFrame({name: cells, "z": [k / 7 for k in range(len(cells))]})
    frame = frame.assign(z=frame["z"].map(str), y=["a", "b"] * (len(cells) // 2))
    draft = draft_from(frame.astype(object), "y")
    assert (name in draft.notes.left_out) == (name in draft.bounds.ignored)
    return draft.notes.left_out.get(name) or draft.bounds.columns[name]


@pytest.mark.parametrize(
    "name", ["id", "patient_id", "PatientID", "Subject No", "MRN", "ssn", "usubjid", "Unnamed: 0"]
)
def test_a_name_of_an_identifier_leaves_a_column_out(name):
    assert judged(name, ["3", "7", "7", "9"] * 10) == "its name is that of an identifier"


@pytest.mark.parametrize("name", ["fluid", "idle", "record_speed", "visits", "plasma_pid"])
def test_other_names_do_not(name):
    assert judged(name, ["3.5", "7", "7", "9"] * 10) == Numeric(3.5, 9)


@pytest.mark.parametrize("cells", [range(1, 13), [k * k for k in range(60)]])
def test_whole_numbers_that_all_differ_are_an_id_if_they_are_many_or_in_a_row(cells):
    assert judged("x", [*map(str, cells)]) == "all its values are different, as in an id"


def test_a_few_different_whole_numbers_are_no_id():
    cells = [str(17 + k * k) for k in range(12)]
    assert judged("age", cells) == Numeric(17, 138)


@pytest.mark.parametrize("name", ["DOB", "visitdate", "date_of_birth", "death_dt"])
def test_a_name_of_a_date_leaves_a_column_of_numbers_out(name):
    assert judged(name, ["19500312", "19610101", "19720105", "19720105"] * 10) == (
        "its name is that of a date"
    )
    assert judged("update_count", ["1.5", "2"] * 20) == Numeric(1.5, 2)


def test_few_whole_numbers_are_codes_and_two_are_a_number():
    assert judged("grade", ["1", "2", "10"] * 20) == Categories(("1", "2", "10"))
    assert judged("grade", ["1.0", "2.0", "10.0"] * 20) == Categories(("1", "2", "10"))
    assert judged("grade", ["01", "02", "10"] * 20) == Categories(("01", "02", "10"))
    assert judged("grade", ["1", "2"] * 20) == Numeric(1, 2)
    assert judged("grade", ["1", "2", "3.5"] * 20) == Numeric(1, 3.5)
    assert judged("grade", ["1", "2", "3", "4"] * 2) == Numeric(1, 4)  # too few rows to tell
    with_holes = judged("grade", ["1", "2", "10", "NA"] * 20)
    assert with_holes.values == ("", "1", "2", "10")
    assert "na" in with_holes.missing


def test_a_name_of_a_code_gives_a_list_or_leaves_a_column_out():
    few = judged("zip", [f"{1000 + 977 * (k % 40):05d}" for k in range(400)])
    assert isinstance(few, Categories)
    assert len(few.values) == 40
    why = judged("icd9_code", [f"{k % 150}.{k % 7}" for k in range(400)])
    assert why.startswith("its name is that of a code, of which it has 400;")


def test_a_column_left_out_is_taken_in_as_its_comment_says(tmp_path):
    draft = draft_from(messy(), "ill")
    text = bounds_text(draft.bounds, draft.notes)
    assert "take it out of ignore and describe it as\n# [columns.NAME]" in text
    text = text.replace('"admitted", ', "", 2) + (
        '[columns.admitted]\nmin = 2021-01-01\nmax = 2021-12-31\ndate = "%Y-%m-%d"\n'
    )
    (tmp_path / "b.toml").write_text(text)
    rows = encode(messy(), read_bounds(tmp_path / "b.toml"), with_target=True)
    assert rows.clipped == 0


def test_the_draft_is_a_bounds_file_that_encodes_its_table(tmp_path):
    draft = draft_from(messy(), "ill")
    text = bounds_text(draft.bounds, draft.notes)
    (tmp_path / "b.toml").write_text(text)
    bounds = read_bounds(tmp_path / "b.toml")
    assert bounds == draft.bounds
    for name, why in draft.notes.left_out.items():
        assert f'#   "{name}": {why}\n' in text
    rows = encode(messy(), bounds, with_target=True)
    assert rows.clipped == 0
    assert np.unique(rows.targets).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (["1,5", "2"], "--decimal ','"),
        (["1,500", "2"], "--thousands ',' or --decimal ','"),
        (["1.500,5", "2"], "--decimal ',' --thousands '.'"),
        (["1\u00a0500", "2"], "--thousands ' '"),
    ],
)
def test_the_reason_names_the_options_that_would_read_the_numbers(cells, options):
    frame = pd.DataFrame({"x": cells, "z": ["1", "2"], "y": ["a", "b"]}, dtype=object)
    why = draft_from(frame, "y").notes.left_out["x"]
    assert sorted(why.partition(": add ")[2].split(" or ")) == sorted(options.split(" or "))


def column(*cells):
    """Return the draft of a table whose column `x` begins with these cells."""
    cells = [*cells, "0", "0", *map(str, range(2, ROWS - len(cells)))]
    frame = pd.DataFrame({"x": cells, "y": ["a", "b"] * (ROWS // 2)})
    return draft_from(frame.assign(z=["0", *map(str, range(ROWS - 1))]).astype(object), "y")


def test_a_word_that_recurs_among_numbers_is_proposed_as_a_missing_cell():
    draft = column("k.A.", "K.A.", "NA", "unknown", "unknown")
    fact = draft.bounds.columns["x"]
    assert fact == Numeric(0, ROWS - 6, missing=(*USUAL_MISSING, "k.a.", "unknown"), indicator=True)
    assert "texts among the numbers count as missing" in draft.notes.remarks["x"][0]
    assert bounds_text(draft.bounds, draft.notes).count('"unknown"') == 1


@pytest.mark.parametrize("cells", [["oops"], ["90+", "90+"], ["a", "a", "b", "b", "c", "c", "d"]])
def test_a_slip_a_number_with_a_mark_and_many_words_are_no_missing_cells(cells):
    assert "x" in column(*cells, "NA").notes.left_out


def test_bins_and_logarithms_are_proposed_as_comments_and_used_only_when_uncommented(tmp_path):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "cost": np.exp(draw.normal(5, 1.5, 200)).round(2).astype(str),
            "level": draw.normal(size=200).round(3).astype(str),
            "count": draw.integers(0, 9, 200).astype(str),
            "number": [*map(str, range(200))],
            "pay": np.exp(draw.normal(5, 1.5, 200)).round(2).astype(str),
        },
        dtype=object,
    )
    draft = draft_from(frame, "pay")
    assert draft.notes.proposals == {
        "cost": {"scale": "log", "bins": 10},
        "level": {"bins": 10},
    }
    text = bounds_text(draft.bounds, draft.notes)
    assert text.count('# scale = "log"\n# bins = 10\n') == 1
    (tmp_path / "b.toml").write_text(text)
    assert read_bounds(tmp_path / "b.toml") == draft.bounds
    facts = [f for f in draft.bounds.columns.values() if isinstance(f, Numeric)]
    assert not any(f.bins or f.scale == "log" for f in facts)
    (tmp_path / "b.toml").write_text(text.replace("\n# bins", "\nbins").replace("# scale", "scale"))
    used = read_bounds(tmp_path / "b.toml").columns
    assert (used["cost"].scale, used["cost"].bins, used["level"].bins) == ("log", 10, 10)
    assert "proposals" not in bounds_text(draft_from(frame[["count", "pay"]], "pay").bounds)


def test_columns_with_missing_cells_get_an_indicator_and_a_remark(tmp_path):
    frame = messy()
    frame.loc[3, "town"] = ""
    frame.loc[5, "height"] = "n/a"
    frame.loc[1, "note"] = ""  # left out anyway
    draft = draft_from(frame, "ill")
    columns, remarks = draft.bounds.columns, draft.notes.remarks
    assert columns["height"].indicator
    assert "cells are missing: each counts as the middle" in remarks["height"][-1]
    assert columns["town"].values == ("", "New Ulm", "Ulm")
    assert remarks["town"][-1] == "cells are missing: they are a category of their own"
    text = bounds_text(draft.bounds, draft.notes)
    assert text.count('missing = "indicator"') == 2
    assert 'values = ["New Ulm", "Ulm"]' in text
    (tmp_path / "b.toml").write_text(text)
    assert read_bounds(tmp_path / "b.toml") == draft.bounds
    rows = encode(frame, draft.bounds, with_target=True).features
    assert rows.shape == (ROWS, 3 + 2 + 1)


def test_a_target_with_an_empty_cell_is_refused_and_a_spelling_is_pointed_out():
    frame = messy()
    frame.loc[9, "ill"] = ""
    with pytest.raises(InputError, match=r"column 'ill', row 10 is empty; drop such rows"):
        draft_from(frame, "ill")
    frame = messy().assign(town=["NA"] + ["Ulm"] * (ROWS - 1))
    assert "looks like a missing cell" in draft_from(frame, "ill").notes.remarks["town"][0]


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


@pytest.mark.parametrize(
    ("cells", "words"),
    [(["1", ""], "'x', row 2 is empty"), (["inf", "1"], "'x', row 1 is infinite")],
)
def test_filling_in_refuses_cells_that_training_would_refuse(cells, words):
    with pytest.raises(InputError, match=words):
        draft_from(pd.DataFrame({"x": cells, "y": ["a", "b"]}, dtype=object), "x")


def test_one_form_that_reads_all_numbers_in_another_form_is_the_reason_of_each():
    # each alone could be read otherwise too; missing cells and a few words do not hide the numbers
    frame = pd.DataFrame(
        {
            "pay": ["1.500,5"] * 20,
            "height": ["1,500", "NA", "?", "k.A.", *["1,7"] * 16],
            "town": ["1,5 km"] * 20,
            "y": ["a", "b"] * 10,
        },
        dtype=object,
    )
    left_out = draft_from(frame, "y").notes.left_out
    assert left_out == dict.fromkeys(
        ("pay", "height"),
        "it looks like numbers in another form: add --decimal ',' --thousands '.'",
    )


def test_constant_and_skewed_columns_are_pointed_out():
    frame = pd.DataFrame(
        {
            "same": ["7"] * 100,
            "cost": [*map(str, range(96)), *["5000"] * 4],
            "even": [*map(str, range(100))],
            "rare": [*["0"] * 96, *["1"] * 4],
            "y": ["a", "b"] * 50,
        },
        dtype=object,
    )
    remarks = draft_from(frame, "y").notes.remarks
    assert "all cells are equal" in remarks["same"][0]
    assert "19 of 20 values lie in a tenth of this range" in remarks["cost"][0]
    assert "cost" in draft_from(frame, "cost").notes.remarks
    assert not any("every cell" in text or "19 of" in text for text in remarks.get("even", ()))
    assert "rare" not in remarks
