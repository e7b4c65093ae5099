"""Blocks of text hold the cells that `csv.reader` finds, and numbers as Python reads them."""

import csv
import io
import random
from decimal import Decimal
from itertools import product
from math import inf, nextafter

import numpy as np
import pandas as pd
import pytest

from taciturn.errors import InputError
from taciturn.tables.form import Form
from taciturn.tables.pieces import text_pieces

FORM = Form()
# what cells are made of, the plain and the strange
PLAIN = (
    "1",
    "-2.5",
    "0.125",
    "town",
    "b c",
    "",
    " 7",
    "x ",
    "é",
    "\u2003z",
    "NA",
    "null",
    "\ufeffa",
)
QUOTED = ('"1"', '""', '"b c"', '" 3 "', '"-.5"', ' "led"', '   "x"')
STRANGE = ('"a,b"', '"two\nlines"', '"say ""hi"""', '"in""side"', '"\r\n"', '""""', '"a, ""b"')


def by_csv(raw, encoding="utf-8"):
    """Return the cells of a text below its header, as the standard library reads them."""
    lines = io.StringIO(raw.decode(encoding), newline="")
    rows = [row for row in csv.reader(lines, strict=True, skipinitialspace=True) if row]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def pieces(raw, form=FORM, numbers=()):
    file = io.BufferedReader(io.BytesIO(raw))
    frames = [piece.read(piece.names, form, numbers) for piece in text_pieces("t.csv", file, form)]
    return pd.concat(frames)


@pytest.fixture
def bytes_of(monkeypatch):
    def set_size(size):
        monkeypatch.setattr("taciturn.tables.pieces.BYTES_AT_ONCE", size)
        monkeypatch.setattr("taciturn.tables.pieces.ROWS_AT_ONCE", 2)

    return set_size


def drawn(draw, kinds, end):
    """Return rows of three cells each of some kinds, and sometimes an empty line."""
    rows = [",".join(draw.choice(draw.choice(kinds)) for _ in range(3)) for _ in range(40)]
    if STRANGE in kinds:
        rows.insert(draw.randrange(40), "")
    return ("a,b,c" + end + end.join(rows) + draw.choice(["", end])).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("kinds", [(PLAIN,), (PLAIN, QUOTED), (PLAIN, QUOTED, STRANGE)])
@pytest.mark.parametrize("size", [7, 30, 100, 10_000])
def test_blocks_of_any_size_hold_the_cells_that_a_csv_reader_finds(size, kinds, end, bytes_of):
    bytes_of(size)
    draw = random.Random(size)
    for _ in range(8):
        raw = drawn(draw, kinds, end)
        assert pieces(raw).to_numpy(object).tolist() == by_csv(raw)


@pytest.mark.parametrize("raw", [b"1,2\n3\n", b"1,2,3\n4\n", b"1\n2,3,4\n", b"1,2\n  \n3,4\n"])
def test_lines_of_other_lengths_are_refused_even_if_their_cells_add_up(raw):
    with pytest.raises(InputError, match="cells and the header 2"):
        pieces(b"a,b\n" + raw)


def test_a_mark_of_byte_order_inside_a_file_is_part_of_its_cell(bytes_of):
    """Planted fault: pyarrow leaves it out at the start of a block, wherever that is."""
    raw = "a,b\n" + "\ufeff1,x\n" * 9
    for size in range(1, 40):
        bytes_of(size)
        assert pieces(raw.encode())["a"].tolist() == ["\ufeff1"] * 9


def test_bytes_that_are_no_text_are_refused_in_any_column():
    with pytest.raises(InputError, match="not text in UTF-8"):
        list(text_pieces("t", io.BufferedReader(io.BytesIO(b"a,b\n1,\xff\n")), FORM, ["a"]))
    assert pieces(b"a,b\n\xe9,1\n", Form(encoding="latin-1")).to_numpy().tolist() == [["é", "1"]]


def column_of(texts):
    raw = "n,m\n" + "".join(f"{text},\n" for text in texts)
    return pieces(raw.encode(), numbers=["n"])["n"]


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
    assert pieces(raw.encode())["m"].tolist() == texts
