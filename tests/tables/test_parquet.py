"""A Parquet file is read in pieces as the same table in CSV is: rows, refusals, certificate."""

import traceback
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from taciturn.errors import InputError
from taciturn.tables import Source, load_table
from taciturn.tables.pieces import stored_pieces
from taciturn.tables.read import read_table

pytestmark = pytest.mark.slow


BOUNDS = """source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns]
age = { min = 0, max = 99 }
pay = { min = -10, max = 10, bins = 3 }
weight = { min = 1, max = 90, missing = "indicator" }
town = { values = ["a", "b c", "two\\nlines", "x,y", "é"] }
"""


ROWS = 500


SECRET = "SECRET"


def frame():
    draw = np.random.default_rng(0)
    gaps = draw.random(ROWS) < 0.2
    return pd.DataFrame(
        {
            "age": draw.integers(0, 120, ROWS),
            "pay": np.round(draw.uniform(-11, 11, ROWS), 3),
            "weight": np.where(gaps, np.nan, np.round(draw.uniform(0, 95, ROWS), 2)),
            "town": draw.choice(["a", "b c", "two\nlines", "x,y", "é"], ROWS).astype(object),
            "ill": draw.choice(["no", "yes"], ROWS).astype(object),
        }
    )


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    monkeypatch.setattr("taciturn.tables.pieces.ROWS_AT_ONCE", 64)
    (tmp_path / "bounds.toml").write_text(BOUNDS)

    def load(file, **how):
        source = Source(path=tmp_path / file, target="ill", bounds=tmp_path / "bounds.toml")
        return load_table(source, **how)

    return load


@pytest.fixture
def in_csv(tmp_path):
    def write(table):
        table.to_csv(tmp_path / "t.csv", index=False)
        return "t.csv"

    return write


@pytest.fixture
def in_parquet(tmp_path):
    def write(table, **how):
        parquet.write_table(table, tmp_path / "t.parquet", **how)
        return "t.parquet"

    return write


def with_column(name, cells):
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    return table.set_column(table.column_names.index(name), name, cells)


def cast(name, kind):
    return with_column(name, pa.Table.from_pandas(frame())[name].cast(kind))


STORED = {
    "as pandas writes it": lambda: pa.Table.from_pandas(frame()),
    "whole numbers of 8 bits": lambda: cast("age", pa.int8()),
    "numbers as text": lambda: with_column("age", pa.array(map(str, frame().age))),
    "decimals": lambda: cast("pay", pa.decimal128(12, 3)),
    "holes and no numbers": lambda: with_column(
        "weight", pa.array([None if np.isnan(x) else x for x in frame().weight])
    ),
    "texts by number": lambda: with_column("town", pa.array(frame().town).dictionary_encode()),
    "long texts": lambda: cast("town", pa.large_string()),
    "blanks around": lambda: with_column("town", pa.array(" " + frame().town + " ")),
}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
def test_rows_are_those_of_the_same_table_in_csv(stored, loaded, in_csv, in_parquet):
    grouped = {"row_group_size": 90, "compression": "zstd"}
    truth, found = loaded(in_csv(frame())), loaded(in_parquet(stored(), **grouped))
    assert found.features.tobytes() == truth.features.tobytes()
    assert found.targets.tobytes() == truth.targets.tobytes()
    assert found.clipped == truth.clipped > 0
    assert found.conditions == truth.conditions


FAULTS = {
    "an empty cell": ("age", ""),
    "text for a number": ("pay", SECRET),
    "a category that is none": ("town", SECRET),
    "a label that is none": ("ill", SECRET),
}


@pytest.mark.parametrize(("name", "cell"), FAULTS.values(), ids=FAULTS)
def test_a_refusal_is_that_of_the_same_table_in_csv_and_shows_no_cell(
    name, cell, loaded, in_csv, in_parquet
):
    cells = [str(one) for one in frame()[name]]
    cells[321] = cell
    stored = [None if one == "" else one for one in cells]
    files = in_csv(frame().assign(**{name: cells})), in_parquet(with_column(name, pa.array(stored)))
    said = []
    for file in files:
        with pytest.raises(InputError, match=f"column '{name}', row 322") as told:
            loaded(file)
        said.append(str(told.value).partition(file)[2])
    assert said[0] == said[1]
    assert SECRET not in said[1]


@pytest.mark.parametrize("name", ["town", "age"])
def test_text_that_is_none_is_refused_and_shows_no_cell(name, loaded, in_parquet, tmp_path):
    cells = [str(one).encode() for one in frame()[name]]
    cells[321] = f"{SECRET} München".encode("latin-1")
    file = in_parquet(with_column(name, pa.array(cells).view(pa.string())))
    for read in (loaded, lambda name: read_table(tmp_path / name)):
        with pytest.raises(InputError, match="text that is not UTF-8") as told:
            read(file)
        shown = "".join(traceback.format_exception(told.value))
        assert SECRET not in shown


OTHER = {
    "no row": (lambda: pa.Table.from_pandas(frame()[:0]), "has no rows"),
    "lists": (lambda: with_column("age", pa.array([[x] for x in frame().age])), "'age', row 1 is"),
    "moments": (lambda: with_column("age", pa.array(pd.to_datetime(frame().age))), "'age', row 1"),
    "nothing but holes": (lambda: with_column("age", pa.nulls(ROWS)), "'age', row 1 is empty"),
    "a column twice": (
        lambda: (
            pa.Table.from_pandas(frame())
            .append_column("age", pa.nulls(ROWS))
            .replace_schema_metadata()
        ),
        "two columns of one name",
    ),
    "a column more": (
        lambda: pa.Table.from_pandas(frame()).append_column("street", pa.nulls(ROWS)),
        "nothing is known of the column 'street'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("table", "said"), OTHER.values(), ids=OTHER)
def test_what_is_no_table_of_numbers_and_texts_is_refused(table, said, loaded, in_parquet):
    with pytest.raises(InputError, match=said) as told:
        loaded(in_parquet(table()))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("kept", [0, 1_000, -1])
def test_a_file_that_was_cut_is_refused(kept, loaded, in_parquet, tmp_path):
    file = in_parquet(pa.Table.from_pandas(frame()))
    raw = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(raw[:kept])
    with pytest.raises(InputError, match="cannot be read as a Parquet file; is it cut short"):
        loaded(file)


def test_pieces_of_a_file_are_some_rows_at_a_time(loaded, in_parquet):
    """Planted fault: row groups, which may be the whole file."""
    heard = []
    file = in_parquet(pa.Table.from_pandas(frame()))
    loaded(file, report=lambda done, total: heard.append(done) if total else None)
    assert heard == [*range(0, ROWS, 64), ROWS]


def test_reading_holds_a_few_rows_and_not_the_file(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    names = [f"c{k}" for k in range(20)]
    with parquet.ParquetWriter(
        tmp_path / "long.parquet", pa.schema([(name, pa.float64()) for name in names])
    ) as file:
        for _ in range(20):
            file.write_table(pa.table({name: draw.random(20_000) for name in names}))
    size = (tmp_path / "long.parquet").stat().st_size
    assert held(tmp_path / "long.parquet") < size / 4
    opened = parquet.ParquetFile
    monkeypatch.setattr(  # planted: all of the file is fetched beforehand
        parquet, "ParquetFile", lambda file, **_: opened(file, pre_buffer=True)
    )
    assert held(tmp_path / "long.parquet") > size / 2


def held(path):
    """The most bytes that are held while a file is read in pieces, those that Arrow makes apart."""
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            assert sum(len(frame) for frame in stored_pieces(file)) == 400_000
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
