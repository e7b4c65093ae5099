"""Blocks of plain text hold the cells that `csv.reader` finds, and numbers as Python reads them."""

import csv
import io
import random

import numpy as np
import pytest

from tacit.tables.blocks import Block, plain_block
from tacit.tables.form import Form
from tacit.tables.pieces import Piece, text_pieces

FORM = Form()
# what cells are made of, the plain and the strange
PLAIN = ("1", "-2.5", "0.125", "town", "b c", "", " 7", "x ", "é", "\u2003z")
QUOTED = ('"1"', '""', '"b c"', '" 3 "', '"-.5"')
STRANGE = ('"a,b"', '"two\nlines"', '"say ""hi"""', '"in""side"', ' "led"', '"\r\n"', '""""')


def by_csv(raw, encoding="utf-8"):
    """Return the cells of a text below its header, as the standard library reads them."""
    lines = io.StringIO(raw.decode(encoding), newline="")
    rows = [row for row in csv.reader(lines, strict=True, skipinitialspace=True) if row]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def by_pieces(raw, form=FORM):
    """Return the same by pieces, and how many of their rows were plain."""
    cells, plain = [], 0
    for piece in text_pieces("t.csv", io.BufferedReader(io.BytesIO(raw)), form):
        frame = piece.text(piece.names, form)
        cells += frame.to_numpy(object).tolist()
        plain += piece.rows if isinstance(piece.cells, Block) else 0
    return cells, plain


@pytest.fixture
def bytes_of(monkeypatch):
    def set_size(size):
        monkeypatch.setattr("tacit.tables.blocks.BYTES_AT_ONCE", size)
        monkeypatch.setattr("tacit.tables.pieces.ROWS_AT_ONCE", 2)

    return set_size


def drawn(draw, kinds, end):
    """Return rows of three cells each of some kinds, and sometimes an empty line."""
    rows = [",".join(draw.choice(draw.choice(kinds)) for _ in range(3)) for _ in range(40)]
    if STRANGE in kinds:
        rows.insert(draw.randrange(40), "")
    return ("a,b,c" + end + end.join(rows) + draw.choice(["", end])).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("kinds", [(PLAIN,), (PLAIN, QUOTED), (PLAIN,) * 30 + (STRANGE,)])
@pytest.mark.parametrize("size", [30, 100, 10_000])
def test_blocks_of_any_size_hold_the_cells_that_a_csv_reader_finds(size, kinds, end, bytes_of):
    bytes_of(size)
    draw, found = random.Random(size), 0
    for _ in range(8):
        raw = drawn(draw, kinds, end)
        cells, plain = by_pieces(raw)
        assert cells == by_csv(raw)
        assert STRANGE in kinds or plain == len(cells) == 40
        found += plain
    assert found or size > 100


def test_a_line_that_is_not_plain_does_not_slow_down_those_that_follow(bytes_of):
    bytes_of(200)
    raw = b'a,b\n"x,y",1\n' + b"plain,1\n" * 5_000
    cells, plain = by_pieces(raw)
    assert cells == by_csv(raw)
    assert plain > 4_900


@pytest.mark.parametrize("raw", [b"1,2\n3\n", b"1,2,3\n4\n", b"1\n2,3,4\n", b"1,2\n\n3,4\n"])
def test_lines_of_other_lengths_are_no_block_even_if_their_cells_add_up(raw):
    assert plain_block(raw, 2, ",", "utf-8") is None


def test_a_cell_beyond_the_limit_of_a_csv_reader_is_no_part_of_a_block():
    assert plain_block(b"a," + b"b" * 200_000 + b"\n", 2, ",", "utf-8") is None


def test_bytes_that_are_no_text_are_refused_in_a_block():
    with pytest.raises(UnicodeError):
        plain_block(b"a,\xff\n", 2, ",", "utf-8")
    assert by_pieces(b"a,b\n\xe9,1\n", Form(encoding="latin-1"))[0] == [["é", "1"]]


def column_of(texts):
    raw = "".join(f"{text},\n" for text in texts).encode()
    return plain_block(raw, 2, ",", "utf-8").numbers(0)


def bits(values):
    return np.asarray(values, np.float64).view(np.int64)


def test_numbers_of_a_block_are_those_of_python_to_the_bit():
    """Planted fault: multiplying by 10^-f, which is rounded before."""
    draw = random.Random(0)
    texts = ["0", "-0", "5.", ".5", "-.25", "007", "999999999999999", "0.0000000000001", "9.9"]
    texts += [
        ("-" * draw.randrange(2)) + f"{draw.random() * 10 ** draw.randrange(-3, 7):.{f}f}"[:14]
        for f in (0, 1, 3, 7) for _ in range(5_000)
    ]  # fmt: skip
    found = column_of(texts)
    assert np.array_equal(bits(found), bits([float(text) for text in texts]))
    assert bits(column_of(["-0"]))[0] == bits([-0.0])[0]
    rounded = [
        float(text.replace(".", "")) * 10.0 ** -len(text.partition(".")[2]) for text in texts
    ]
    assert np.any(bits(found) != bits(rounded))


@pytest.mark.parametrize(
    "text", ["", "-", ".", "-.", "1e5", "+1", "1.2.3", "--1", "1-", "x", "0x1", "nan", "1_0", " 1"]
)
def test_what_is_no_short_decimal_is_left_to_python(text):
    assert column_of(["1", text]) is None
    assert column_of(["1", "1234567890.123456"]) is None


def test_numbers_that_are_left_to_python_are_read_all_the_same():
    cells = ["1e5", "+1", " 2 ", "1234567890.1234567"]
    raw = ("n,m\n" + "".join(f"{cell},1\n" for cell in cells)).encode()
    (piece,) = text_pieces("t.csv", io.BufferedReader(io.BytesIO(raw)), Form())
    assert isinstance(piece, Piece)
    assert isinstance(piece.cells, Block)
    frame = piece.read(["n"], ["n"], Form())
    assert np.array_equal(bits(frame["n"]), bits([float(cell) for cell in cells]))


def test_texts_that_differ_late_or_are_long_are_told_apart():
    texts = ["aaaaaaaab", "aaaaaaaac", "", "aaaaaaaa", "a" * 16, "a" * 100, "b" * 100, "aaaaaaaab"]
    for some in (texts, texts[:5] + texts[7:]):
        raw = "".join(f"1,{text}\n" for text in some).encode()
        assert plain_block(raw, 2, ",", "utf-8").texts(1).tolist() == some
