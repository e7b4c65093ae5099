"""A table that is read in pieces is the table as a whole: cells, rows, refusals and model."""

import csv
import io
import os
import random
import threading
import tracemalloc
from decimal import Decimal
from itertools import product
from math import inf, nextafter

import numpy as np
import pandas as pd
import pytest

from taciturn.errors import InputError
from taciturn.kernel.records import pack
from taciturn.tables import (
    Source,
    count_table,
    encode,
    encoded_norm,
    load_table,
    read_bounds,
    read_files,
    read_table,
    table_of,
)
from taciturn.tables.form import Form
from taciturn.tables.pieces import text_pieces
from taciturn.training import Request, train_on

FEW = """source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns]
age = { min = 0, max = 99 }
pay = { min = -10, max = 10, missing = ["-9"], bins = 3 }
weight = { min = 1, max = 90, missing = "indicator" }
town = { values = ["a", "b c"], strip = true }
"""


LINES = (
    "17,-3.5,,a,no", "170,1e1,33.25,b  c,yes", " 5 ,.5,NA,a,yes", '"1",+7,  2,"b c",no',
    "", "99,-10,90,a,no", "0,0,1,a,yes", "12.125,3,44,b c,no",
)  # fmt: skip


@pytest.fixture
def pieces_of(monkeypatch):
    def set_size(rows):
        monkeypatch.setattr("taciturn.tables.pieces.ROWS_AT_ONCE", rows)
        monkeypatch.setattr("taciturn.tables.pieces.BYTES_AT_ONCE", 16 * rows)

    return set_size


@pytest.fixture
def source_of(tmp_path):
    def source(rows, **options):
        (tmp_path / "bounds.toml").write_text(FEW)
        lines = ["age,pay,weight,town,ill", *rows]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
        bounds = tmp_path / "bounds.toml"
        return Source(path=tmp_path / "t.csv", target="ill", bounds=bounds, **options)

    return source


def encoded_at_once(source):
    """Return the rows as they are encoded at once, which is what pieces are held to."""
    return encode(read_table(source.path), read_bounds(source.bounds), with_target=True)


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_pieces_are_encoded_as_the_whole_table_is(rows, pieces_of, source_of):
    source = source_of(LINES)
    truth = encoded_at_once(source)
    pieces_of(rows)
    table = load_table(source)
    assert np.array_equal(table.features, truth.features)
    assert np.array_equal(table.targets, truth.targets)
    assert table.clipped == truth.clipped == 1
    assert table.train_rows == 7


FAULTS = {
    "text for a number": ((2, "x,1,1,a,no"),),
    "an empty cell hides what is no number": ((1, "x,1,1,a,no"), (6, "1,1,1,,no")),
    "empty cells of several columns, in several pieces": ((1, ",1,1,a,no"), (5, "1,1,1,,")),
    "the first row of a column": ((3, "inf,1,1,a,no"), (5, "1_0,1,1,a,no")),
    "a third label": ((7, "1,1,1,a,maybe"),),
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("rows", [1, 3])
def test_the_fault_that_is_named_is_that_of_the_whole_table(rows, faults, pieces_of, source_of):
    lines = list(LINES)
    for place, line in faults:
        lines[place] = line
    source = source_of(lines)
    with pytest.raises(InputError) as truth:
        encoded_at_once(source)
    pieces_of(rows)
    with pytest.raises(InputError) as told:
        load_table(source)
    assert str(told.value) == f"{source.path}: {truth.value}"


def test_rows_in_single_precision_are_those_that_packing_stores(source_of):
    """Planted fault: rows rounded to single precision, of which some are longer than the bound."""
    generator = np.random.default_rng(0)
    ends = ("0", "99", "49.5", "0.1")
    lines = [
        f"{ends[k % 4]},{generator.choice([-10, 10, 3.3])},{generator.choice([1, 90])},a,no"
        for k in range(200)
    ]
    source = source_of(lines)
    slanted = FEW.replace("max = 99", "max = 99, weight = 0.1")  # single precision is above 0.1
    source.bounds.write_text(slanted)
    wide, narrow = (load_table(source, precision=p) for p in ("float64", "float32"))
    norm, parts = encoded_norm(wide.bounds), [np.arange(200)]

    def packed(rows):
        shards = pack(rows, wide.targets, parts, record_norm=norm, precision="float32")
        return np.asarray(shards.stacked.features[0])

    assert narrow.features.dtype == np.float32
    assert np.array_equal(packed(narrow.features), packed(wide.features))
    assert np.array_equal(packed(narrow.features), narrow.features)
    rounded = wide.features.astype(np.float32)
    longest = np.sqrt((rounded.astype(float) ** 2).sum(axis=1)).max()
    assert longest > norm
    assert not np.array_equal(rounded, narrow.features)


def test_a_model_of_pieces_is_that_of_the_whole_table_to_the_bit(pieces_of, source_of):
    source = source_of(LINES * 3)
    request = Request(epsilon=1.0, delta=1e-3, rounds=3)
    truth = train_on(load_table(source), request, agents=2, seed=1)
    pieces_of(2)
    table = load_table(source, precision="float32")
    found = train_on(table, request, agents=2, seed=1)
    assert np.array_equal(found.model, truth.model)
    assert found.certificate == truth.certificate


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "1,1,1,a,no\n",
        lambda text: "\n".join(text.splitlines()[:-1]) + "\n",
        lambda text: text.replace("17,", "18,"),
        lambda text: text.replace("age,pay", "pay,age"),
    ],
    ids=["longer", "shorter", "another number", "columns in another order"],
)
def test_a_file_that_changed_after_it_was_counted_is_refused(change, source_of):
    """The rows of agents and persons were told apart by the first reading."""
    source = source_of(LINES)
    files = read_files(source)
    assert table_of(files).train_rows == 7
    source.path.write_text(change(source.path.read_text()))
    with pytest.raises(InputError, match="changed after its rows were counted"):
        table_of(files)


def test_what_can_be_read_once_only_is_kept(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("a,b\n1,2\n3,4\n"))
    writer.start()
    counted = count_table(pipe)
    writer.join()
    for _ in range(2):
        (piece,) = counted.pieces(["b"])
        assert piece["b"].tolist() == ["2", "4"]


def test_who_waits_hears_how_far_the_reading_is(pieces_of, source_of):
    pieces_of(3)
    heard = []
    load_table(source_of(LINES), report=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (7, 7)
    assert {total for done, total in heard} == {None, 7}
    assert [done for done, total in heard if total] == sorted(done for done, t in heard if t)


def test_columns_that_name_owners_are_kept_whatever_piece_they_stand_in(pieces_of, source_of):
    source = source_of([*LINES[:4]], agent_column="ill")
    pieces_of(1)
    assert count_table(source.path, keep=["ill"]).kept["ill"].tolist() == ["no", "yes", "yes", "no"]


def test_counting_holds_a_few_rows_at_a_time(tmp_path, pieces_of):
    """Planted fault: the whole table as text, which grows with the rows."""
    path = tmp_path / "t.csv"
    pieces_of(2048)
    path.write_text("a,b\n" + "123456,abcdef\n" * 20_000)

    def most(work):
        tracemalloc.start()
        work()
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert 2 * most(lambda: count_table(path)) < most(lambda: read_table(path))


@pytest.mark.parametrize("form", ["", '[format]\ndecimal = ","\ndelimiter = ";"\n'])
def test_numbers_that_a_parquet_file_stores_are_those_of_their_text(form, tmp_path, monkeypatch):
    stored = pd.DataFrame(
        {
            "age": [17, 99, 2**53 + 1, 0],
            "pay": [-3.5, 0.1, 1e-7, 1e22],
            "weight": np.array([1.5, np.nan, 90, 0.1], np.float32),
            "town": np.array([1, 2, None, 1], object),
            "ill": ["no", "yes", "no", "yes"],
        }
    )
    listed = 'values = ["1", "2"], missing = "indicator"'
    (tmp_path / "bounds.toml").write_text(
        FEW.replace('values = ["a", "b c"], strip = true', listed)
        .replace("max = 99", "max = 1e17")
        .replace(', missing = ["-9"]', "")
        .replace("[target]", f"{form}[target]", 1)
    )
    path = tmp_path / "t.parquet"
    path.touch()
    parts = [stored[:1], stored[1:3], stored[3:]]
    monkeypatch.setattr("taciturn.tables.pieces.stored_pieces", lambda *_: iter(parts))
    source = Source(path=path, target="ill", bounds=tmp_path / "bounds.toml")
    bounds = read_bounds(source.bounds)
    truth = encode(read_table(path, bounds.form), bounds, with_target=True)
    assert np.array_equal(load_table(source).features, truth.features)
    # whole numbers beside an empty cell, as pandas stores them
    parts[1:3] = [stored[1:].assign(town=[2.0, np.nan, 1.0])]
    assert np.array_equal(load_table(source).features, truth.features)
    parts[1:] = [stored[1:].assign(town=[2.5, np.nan, 1.0])]
    with pytest.raises(InputError, match="'town', row 2"):
        load_table(source)


FORM = Form()


# what cells are made of, the plain and the strange
PLAIN = ("1", "-2.5", "town", "b c", "", " 7", "x ", "é", "\u2003z", "NA", "null", "\ufeffa")


QUOTED = ('"1"', '""', '"b c"', '" 3 "', '"-.5"', ' "led"', '   "x"')


STRANGE = ('"a,b"', '"two\nlines"', '"say ""hi"""', '"in""side"', '"\r\n"', '""""', '"a, ""b"')


def by_csv(raw, encoding="utf-8"):
    """Return the cells of a text below its header, as the standard library reads them."""
    lines = io.StringIO(raw.decode(encoding), newline="")
    rows = [row for row in csv.reader(lines, strict=True, skipinitialspace=True) if row]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def read_pieces(raw, form=FORM, numbers=()):
    file = io.BufferedReader(io.BytesIO(raw))
    frames = [piece.read(piece.names, form, numbers) for piece in text_pieces("t.csv", file, form)]
    return pd.concat(frames)


@pytest.fixture
def bytes_of(monkeypatch):
    def set_size(size):
        monkeypatch.setattr("taciturn.tables.pieces.BYTES_AT_ONCE", size)
        monkeypatch.setattr("taciturn.tables.pieces.ROWS_AT_ONCE", 2)

    return set_size


def drawn_cells(draw, kinds, end):
    """Return rows of three cells each of some kinds, and sometimes an empty line."""
    rows = [",".join(draw.choice(draw.choice(kinds)) for _ in range(3)) for _ in range(40)]
    if STRANGE in kinds:
        rows.insert(draw.randrange(40), "")
    return ("a,b,c" + end + end.join(rows) + draw.choice(["", end])).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("kinds", [(PLAIN,), (PLAIN, QUOTED), (PLAIN, QUOTED, STRANGE)])
@pytest.mark.parametrize("size", [7, 100, 10_000])
def test_blocks_of_any_size_hold_the_cells_that_a_csv_reader_finds(size, kinds, end, bytes_of):
    bytes_of(size)
    draw = random.Random(size)
    for _ in range(4):
        raw = drawn_cells(draw, kinds, end)
        assert read_pieces(raw).to_numpy(object).tolist() == by_csv(raw)


@pytest.mark.parametrize("raw", [b"1,2\n3\n", b"1\n2,3,4\n", b"1,2\n  \n3,4\n"])
def test_lines_of_other_lengths_are_refused_even_if_their_cells_add_up(raw):
    with pytest.raises(InputError, match="cells and the header 2"):
        read_pieces(b"a,b\n" + raw)


def test_a_mark_of_byte_order_inside_a_file_is_part_of_its_cell(bytes_of):
    """Planted fault: pyarrow leaves it out at the start of a block, wherever that is."""
    raw = "a,b\n" + "\ufeff1,x\n" * 9
    for size in range(1, 40):
        bytes_of(size)
        assert read_pieces(raw.encode())["a"].tolist() == ["\ufeff1"] * 9


def test_bytes_that_are_no_text_are_refused_in_any_column():
    with pytest.raises(InputError, match="not text in UTF-8"):
        list(text_pieces("t", io.BufferedReader(io.BytesIO(b"a,b\n1,\xff\n")), FORM, ["a"]))
    assert read_pieces(b"a,b\n\xe9,1\n", Form(encoding="latin-1")).to_numpy().tolist() == [
        ["é", "1"]
    ]


def column_of(texts):
    raw = "n,m\n" + "".join(f"{text},\n" for text in texts)
    return read_pieces(raw.encode(), numbers=["n"])["n"]


def bits(values):
    return np.asarray(values, np.float64).view(np.int64)


def halfway(draw):
    """Return the decimals of a number between two that are stored, in all of their digits."""
    one = draw.uniform(-9, 9) * 10.0 ** draw.randrange(-20, 20)
    return str((Decimal(one) + Decimal(nextafter(one, inf))) / 2)


def test_numbers_of_a_block_are_those_of_python_to_the_bit():
    draw = random.Random(0)
    texts = ["0", "-0", "5.", ".5", "-.25", "007", "999999999999999", "1e5", "1E-400", "9" * 300]
    texts += [
        f"{draw.uniform(-1, 1) * 10 ** draw.randrange(-9, 9):.{digits}{kind}}"
        for digits, kind in product((0, 3, 15, 17, 20), "fge") for _ in range(1_000)
    ]  # fmt: skip
    texts += [halfway(draw) for _ in range(1_000)]
    found = column_of(texts)
    assert found.dtype == np.float64
    assert np.array_equal(bits(found), bits([float(text) for text in texts]))


@pytest.mark.parametrize(
    "text", ["", "-", ".", "1.2.3", "--1", "0x1", "nan", "1_0", "inf", "1e999", "0" * 1001]
)
def test_cells_beside_one_that_is_no_finite_number_are_left_as_text(text):
    """How they are read then is that of `read_number`: the same numbers."""
    assert column_of(["1", text, "2.50"]).tolist() == ["1", text.strip(), "2.50"]


def test_texts_that_differ_late_or_are_long_are_told_apart():
    texts = ["aaaaaaaab", "aaaaaaaac", "", "aaaaaaaa", "a" * 16, "a" * 1000, "b" * 100, "a\0", "a"]
    raw = "n,m\n" + "".join(f"1,{text}\n" for text in texts)
    assert read_pieces(raw.encode())["m"].tolist() == texts


@pytest.mark.parametrize("rows", [1, 100])
def test_a_row_of_another_length_is_refused_before_a_cell_is_looked_at(rows, pieces_of, source_of):
    pieces_of(rows)
    with pytest.raises(InputError, match="row 2 has 4 cells and the header 5"):
        read_files(source_of(["spoilt,1,1,a,no", "1,1,1,a"]))
