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


CELLS = (
    ["1", "17", " 7 ", "1e1", '"1"', "170", "0.125"] * 9
    + ["", "x", "1_0", '"', "1\0", "\u0663", "1e999", "nan", '"1""2"', SECRET],
    ["-3.5", "", "NA", "2", '"2"', "+1"] * 9 + ["x", "1,5", '"2', SECRET],
    ["a", "b c", '"b c"', '"two\nlines"', '"two\r\nlines"', '"x,y"', '"q""q"', "é", " a\t"] * 9
    + ["A", '"a"b', 'q"q', "", "a\0", SECRET * 300, f'"{SECRET * 500}"'],
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
        line = draw.choice(["", " ", '"', "\x0b", "1,2,a", "no,1,2,a,no", "1,2", f"{ROW},{SECRET}"])
        lines.insert(draw.randrange(len(lines) + 1), line)
    end = draw.choice(["\n", "\r\n", "\r"])
    raw = written(*lines, end=end, last=draw.choice(["", end]))
    if draw.random() < 0.2:
        place = draw.randrange(len(raw))
        raw = raw[:place] + draw.choice([b"\xff", b"\0", b'"', b"\r", b"\n"]) + raw[place:]
    if draw.random() < 0.1:
        return raw.decode(errors="replace").encode("utf-16")
    return draw.choice([b"", b"", b"", b"\xef\xbb\xbf", b"\n\r\n"]) + raw


def test_files_at_random_are_read_or_refused_the_same_in_blocks_of_any_size(outcome_of):
    ends = [same_in_all_blocks(outcome_of, drawn(random.Random(seed))) for seed in range(30)]
    assert 5 < sum(isinstance(end, str) for end in ends) < 25  # some are read, some refused


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
