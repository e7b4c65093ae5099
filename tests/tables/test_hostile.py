"""Files that were written badly or to deceive: blocks of any size read them as one block does."""

import random
from itertools import product

import pytest

from taciturn.errors import InputError
from taciturn.tables import Source, load_table, read_bounds

pytestmark = pytest.mark.slow


BOUNDS = """source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns]
age = { min = 0, max = 99 }
pay = { min = -10, max = 10, missing = "indicator" }
town = { values = ["a", "b c", "two\\nlines", "two\\r\\nlines", "x,y", "q\\"q", "é"] }
"""


HEADER = "age,pay,town,ill"


ROW = "17,-3.5,a,no"


SECRET = "SECRET"  # stands in cells that no refusal may repeat


@pytest.fixture
def outcome_of(tmp_path, monkeypatch):
    """What becomes of a file: its rows as they are kept, or the refusal."""
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    known, path = read_bounds(tmp_path / "bounds.toml"), tmp_path / "t.csv"

    def outcome(raw, size=2**24, rows=2**20, **how):
        path.write_bytes(raw)
        monkeypatch.setattr("taciturn.tables.pieces.BYTES_AT_ONCE", size)
        monkeypatch.setattr("taciturn.tables.pieces.ROWS_AT_ONCE", rows)
        try:
            table = load_table(Source(path=path, target="ill", bounds=None, **how), known)
        except InputError as error:
            return str(error)
        return table.features.tobytes(), table.targets.tobytes(), table.clipped, table.train_rows

    return outcome


def written(*rows, end="\n", last="\n", header=HEADER):
    return (end.join([header, *rows]) + last).encode()


def same_in_all_blocks(outcome, raw, **how):
    """Return what becomes of a file in one block, once blocks of all sizes do the same."""
    truth = outcome(raw, **how)
    settings = [(2**20, 2048), (1024, 2048), (max(len(raw), 1), 2048), (40, 3)]
    settings += [(1, 1)] if len(raw) < 5_000 else []
    for size, rows in settings:
        assert outcome(raw, size, rows, **how) == truth
    assert outcome(raw, 2**24, 1, **how) == truth
    if isinstance(truth, str):
        assert SECRET not in truth
        assert "\n" not in truth
    return truth


READ = {
    "line ends of all three kinds": (f"{HEADER}\n{ROW}\r\n{ROW}\r{ROW}\n".encode(), 3),
    "empty lines": (written("", ROW, "", "", ROW, "", last="\n\n\n"), 2),
    "empty lines before the header": (b"\n\r\n" + written(ROW), 1),
    "a byte-order mark and quotes": (
        b"\xef\xbb\xbf" + written(ROW, header='"age",pay,town,ill'), 1,
    ),
    "utf-16": (written(ROW, '5,,"x,y",yes').decode().encode("utf-16"), 2),
    "a header in quotes over two lines": (
        written(ROW, "1,2,é,yes", header='age,pay,"town\n",ill'), 2,
    ),
    "lines and separators in quotes": (
        written(*['1,2,"two\nlines",no', '3,4,"x,y",yes', '5,6,"q""q",no'] * 20), 60,
    ),
    "windows line ends in quotes": (
        written(*['1,2,"two\r\nlines",no', ROW] * 20, end="\r\n", last="\r\n"), 40,
    ),
    "a category in the last block only": (written(*[ROW] * 200, "1,2,é,yes"), 201),
    "blanks beyond ascii": (written("\u00a07,\u2003-1,b c,yes", "7,-1,b c,yes"), 2),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "rows"), READ.values(), ids=READ)
def test_what_is_a_table_is_read_the_same_in_blocks_of_any_size(raw, rows, outcome_of):
    *_, read = same_in_all_blocks(outcome_of, raw)
    assert read == rows


REFUSED = {
    "nothing": (b"", "is empty"),
    "a byte-order mark alone": (b"\xef\xbb\xbf", "is empty"),
    "a header and empty lines": (written("", "", ""), "has no rows"),
    "a quote that never ends": (written(*[ROW] * 100, f'1,"{SECRET},a,no', ROW), "not a valid CSV"),
    "text behind a quote": (written(ROW, f'1,2,"a"{SECRET},no'), "not a valid CSV"),
    "a quote inside a cell that has none around": (
        written(*[ROW] * 9, f'1,2,{SECRET}"s,no', ROW), "a cell has a quote inside and none around",
    ),
    "a row too short, and later a quote that never ends": (
        written(*[ROW] * 5, f"{SECRET},1", *[ROW] * 90, '1,"2,a,no'), "row 6 has 2 cells",
    ),
    "a row too long, and later no text": (
        written(ROW, f"{ROW},{SECRET}", *[ROW] * 90) + b"1,2,\xff,no\n", "row 2 has 5 cells",
    ),
    "the end of a file that was cut": (written(*[ROW] * 70, "1,2", last=""), "row 71 has 2 cells"),
    "two rows whose cells add up": (written("1,2,a", "no,1,2,a,no"), "row 1 has 3 cells"),
    "bytes that are no text": (written(*[ROW] * 90) + b"1,2,\xff,no\n", "not text in UTF-8"),
    "a long cell in quotes": (written(ROW, f'1,2,"{SECRET * 3_000}",no'), "'town', row 2"),
    "a zero byte in a number": (written(*[ROW] * 9, "1\0,2,a,no"), "'age', row 10"),
    "a category that is none": (written(*[ROW] * 99, f"1,2,{SECRET},no"), "'town', row 100"),
    "a label that is none": (written(*[ROW] * 99, f"1,2,a,{SECRET}"), "'ill', row 100"),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_table_is_refused_in_the_same_words_whatever_the_blocks(raw, said, outcome_of):
    refusal = same_in_all_blocks(outcome_of, raw)
    assert said in refusal


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("before", [0, 1, 4, 8])
def test_a_row_is_too_long_whatever_stands_before_it(quote, before, outcome_of, monkeypatch):
    """Planted fault: a limit on what is left of a block, which depends on where that ends."""
    monkeypatch.setattr("taciturn.tables.pieces.LONGEST_ROW", 120)
    some = [f"{'1' * 7 * k}7,-3.5,a,no" for k in range(before)]
    for length, refused in ((119, False), (120, True), (170, True)):
        row = ",".join(["1", quote + "2" * (length - 7 - 2 * len(quote)) + quote, "a", "no"])
        assert len(row) == length
        for end, size in product(("", f"\n{ROW}\n"), (7, 50, 2**24)):
            found = outcome_of(written(*some, row, last=end), size)
            assert ("a row of more than 119 bytes" in found) == refused


@pytest.mark.parametrize(
    "spelled",
    [
        "0x1", "nan", "-Infinity", "1_000", "1e999", "9" * 400, "\u0663", "1d5", "1 0", "--1", "",
        ".", "True", '"1""2"', SECRET, "0" * 5000 + "7",
    ],
)  # fmt: skip
def test_what_no_table_means_by_a_number_is_refused(spelled, outcome_of):
    refusal = same_in_all_blocks(outcome_of, written(*[ROW] * 70, f"{spelled},2,a,no"))
    assert "column 'age', row 71 is empty" in refusal


CELLS = (
    ["1", "17", " 7 ", "1e1", '"1"', "170", "0.125"] * 9 + ["", "x", "1_0", '"', "1\0", SECRET],
    ["-3.5", "", "NA", "2", '"2"', "+1"] * 9 + ["x", "1,5", '"2', SECRET],
    ["a", "b c", '"b c"', '"two\nlines"', '"x,y"', '"q""q"', "é"] * 9 + ["A", '"a"b', 'q"q', ""],
    ["no", "yes", '"no"'] * 9 + ["maybe", "", " yes"],
)


def drawn(draw):
    """Return a file of which most cells are good, most lines whole and most bytes text."""
    kept = slice(-9, None) if draw.random() < 0.3 else slice(0, 20)
    rows = [[draw.choice(some[kept]) for some in CELLS] for _ in range(draw.randrange(60))]
    if rows and draw.random() < 0.2:
        draw.choice(rows).append(SECRET)
    lines = [",".join(row) for row in rows]
    if draw.random() < 0.3:
        lines.insert(draw.randrange(len(lines) + 1), draw.choice(["", " ", '"', "\x0b"]))
    end = draw.choice(["\n", "\r\n", "\r"])
    raw = written(*lines, end=end, last=draw.choice(["", end]))
    if draw.random() < 0.2:
        place = draw.randrange(len(raw))
        raw = raw[:place] + draw.choice([b"\xff", b"\0", b'"', b"\r", b"\n"]) + raw[place:]
    return b"\xef\xbb\xbf" + raw if draw.random() < 0.2 else raw


def test_files_at_random_are_read_or_refused_the_same_in_blocks_of_any_size(outcome_of):
    ends = [same_in_all_blocks(outcome_of, drawn(random.Random(seed))) for seed in range(12)]
    assert 2 < sum(isinstance(end, str) for end in ends) < 10  # some are read, some refused


def test_a_file_that_changes_while_it_is_read_is_refused(outcome_of, tmp_path):
    """A row before the place of the reader becomes another."""
    path, raw = tmp_path / "t.csv", written(*[ROW] * 100)
    outcome_of(raw, 64)

    def change(done, total):
        if total is not None and done < 50:
            with path.open("r+b") as file:
                file.seek(len(HEADER) + 1)
                file.write(b"18")

    known = read_bounds(tmp_path / "bounds.toml")
    with pytest.raises(InputError, match="changed after its rows were counted"):
        load_table(Source(path=path, target="ill", bounds=None), known, report=change)


def test_an_open_quote_does_not_take_a_file_into_memory(outcome_of, monkeypatch):
    monkeypatch.setattr("taciturn.tables.pieces.LONGEST_ROW", 120)
    said = outcome_of(written(ROW, f'1,2,"{SECRET},no', *[ROW] * 20), 50)
    assert "a row of more than 119 bytes; is a quote left open?" in said
