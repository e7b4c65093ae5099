"""Parquet files that differ in one record read every other record the same, to the bit.

What one record may do here is to the type of a column: a program that stores a table without a type
of its own for each column stores whole numbers as floating-point ones beside an empty cell, or all
of them as text beside a text.
"""

import io
import random
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest
from neighbours import Read, fuzzed, reader
from pyarrow import parquet

from taciturn.tables import read_bounds

BOUNDS = """source = "public"
[target]
name = "ill"
values = ["0", "1"]
[columns]
age = { min = 0, max = 99 }
long = { min = 0, max = 1e17 }
pay = { min = -900, max = 900, missing = { as = "indicator", spellings = ["NA", -9] } }
weight = { min = 0.001, max = 90, scale = "log" }
grade = { values = ["1", "2", "3"], missing = "indicator" }
town = { values = ["a", "b c", "é"], missing = "indicator" }
"""
ROWS = 30
ODD = [
    None, float("nan"), 0, 1, -9, -9.0, 17, 17.5, 0.1, -0.0, 2**53 + 1, 2.0**60, 2**63, 2**64 - 1,
    float("inf"), True, Decimal("1.50"), Decimal("NaN"), "17", "17\u00a0", "1_0", "NA", "", " ",
    "a", "a\0", "\0", "0", "1.0", "x" * 3000, "0." + "3" * 900, "é",
]  # fmt: skip
WAYS = ("as pandas stores it", "with a type each", "texts and numbers by number", "as text")
KINDS = {
    "who": pa.int64(), "site": pa.string(), "age": pa.int64(), "long": pa.int64(),
    "pay": pa.int64(), "weight": pa.float64(), "grade": pa.int64(), "town": pa.string(),
    "ill": pa.int64(),
}  # fmt: skip


def good(draw):
    """Return the cells of a record that is accepted."""
    return {
        "who": draw.choice([1, 2, 3, 2**53 - 1]),
        "site": draw.choice(["north", "south"]),
        "age": draw.randrange(99),
        "long": draw.randrange(2**52, 2**56),
        "pay": draw.choice([-9, draw.randrange(-900, 900)]),
        "weight": draw.choice([draw.uniform(0.001, 90), 0.125]),
        "grade": draw.randrange(1, 4),
        "town": draw.choice(["a", "b c", "é"]),
        "ill": draw.randrange(2),
    }


def odd(draw):
    """Return the cells of a record of which one or two are odd."""
    cells = good(draw)
    for name in draw.sample(list(cells), draw.randrange(1, 3)):
        cells[name] = draw.choice(ODD)
    return cells


def stored(records, way):
    """Return the table of records; None if it cannot be stored so."""
    try:
        if way == "with a type each":
            schema = pa.schema(list(KINDS.items()))
            return pa.Table.from_pylist(records, schema=schema)
        frame = pd.DataFrame(records)
        if way == "as text":
            frame = frame.map(lambda cell: None if cell is None else str(cell))
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if way == "texts and numbers by number":
            names, columns = table.column_names, [c.dictionary_encode() for c in table.columns]
            return pa.table(dict(zip(names, columns, strict=True)))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return table


def content(table, **how):
    file = io.BytesIO()
    parquet.write_table(table, file, **how)
    return file.getvalue()


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    path = tmp_path_factory.mktemp("bounds") / "bounds.toml"
    path.write_text(BOUNDS)
    return read_bounds(path)


def cases(draw, files, way, records):
    """Yield neighbours of two files with each record at some place."""
    for record in records:
        place = draw.choice([0, 1, ROWS // 2, ROWS - 1])
        both = [stored([*f[:place], record, *f[place + 1 :]], way) for f in files]
        if None not in both:
            yield [content(table, row_group_size=11) for table in both], place, True


def pair(draw, way):
    files = [[good(draw) for _ in range(ROWS)] for _ in range(2)]
    return files, [content(stored(records, way)) for records in files]


@pytest.mark.parametrize("way", WAYS)
def test_one_record_of_a_parquet_file_changes_no_other(way, known, tmp_path):
    draw = random.Random(way)
    files, bases = pair(draw, way)
    read = reader(tmp_path / "t.parquet", known)
    found = fuzzed(read, bases, cases(draw, files, way, (odd(draw) for _ in range(40))))
    assert set(found) == {"same", "refused"}, found
    assert min(found.values()) > 1


@pytest.mark.slow
@pytest.mark.parametrize("column", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_no_odd_cell_of_any_column_changes_another_record(way, column, known, tmp_path):
    draw = random.Random(f"{way} {column}")
    files, bases = pair(draw, way)
    read = reader(tmp_path / "t.parquet", known)
    records = ({**good(draw), column: cell} for cell in draw.sample(ODD, 12))
    assert set(fuzzed(read, bases, cases(draw, files, way, records))) <= {"same", "refused"}


@pytest.mark.parametrize("odd_cell", [{"pay": None}, {"grade": None}, {"town": "a", "pay": -9}])
def test_a_large_file_reads_every_other_record_the_same_wherever_its_pieces_end(
    odd_cell, known, tmp_path
):
    draw, place = random.Random(0), 8_191
    read = reader(tmp_path / "t.parquet", known)
    records = [good(draw) for _ in range(9_000)]
    whole = read(content(stored(records, "with a type each")))
    records[place] = {**good(draw), **odd_cell}
    changed = read(content(stored(records, "with a type each")))
    assert whole.others(place, len(records)) == changed.others(place, len(records))


def test_a_reader_of_whole_columns_as_floats_is_caught(known, tmp_path):
    """Planted fault: codes of missing cells compared as texts, which floats write with a point."""
    draw, way = random.Random(0), WAYS[0]
    files, bases = pair(draw, way)
    read = reader(tmp_path / "t.parquet", known)
    record = {**good(draw), "pay": None}

    def by_text(raw):
        found = read(raw)
        pay = parquet.read_table(io.BytesIO(raw))["pay"]
        if isinstance(found, str) or not pa.types.is_floating(pay.type):
            return found
        rows = [
            (x[::-1] if code == -9 else x, y)
            for (x, y), code in zip(found.rows, pay.to_pylist(), strict=True)
        ]
        return Read(rows, found.persons, found.sites)

    assert fuzzed(read, bases, cases(draw, files, way, [record])) == {"same": 1}
    assert fuzzed(by_text, bases, cases(draw, files, way, [record])) == {"differs": 1}


def test_what_one_record_did_is_found_in_what_is_stored():
    """Or the comparisons above would say nothing of types."""
    draw = random.Random(0)
    records = [good(draw) for _ in range(ROWS)]
    kinds = [stored([{**records[0], "age": cell}, *records[1:]], WAYS[0]) for cell in (1, None)]
    assert [table.schema.field("age").type for table in kinds] == [pa.int64(), pa.float64()]
    texts = [column.type for column in stored(records, "as text").columns]
    assert all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in texts)


@pytest.mark.parametrize("column", ["who", "age", "town"])
def test_a_moment_that_no_calendar_holds_is_refused_in_one_line(column, known, tmp_path):
    """Pandas 3 raises an error of no kind that is told anew where such a cell becomes text."""
    far = pa.array([2**62] * ROWS, pa.int64()).cast(pa.timestamp("ms", tz="Europe/Berlin"))
    records = stored(pair(random.Random(0), WAYS[0])[0][0], WAYS[0]).replace_schema_metadata(None)
    table = records.set_column(records.column_names.index(column), column, far)
    read = reader(tmp_path / "t.parquet", known)
    found = read(content(table))
    if int(pd.__version__.partition(".")[0]) >= 3:
        assert f"column {column!r} holds a cell that has no text" in found
    elif column == "who":  # before, it has one
        assert isinstance(found, Read)
    else:
        assert f"column {column!r}, row 1" in found
