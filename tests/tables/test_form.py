"""Files written otherwise: separators, numbers, encodings, several files; what is refused."""

import codecs

import pandas as pd
import pytest

from taciturn.errors import InputError
from taciturn.tables import (
    Bounds,
    Categories,
    Form,
    Numeric,
    Source,
    bounds_text,
    load_table,
    read_bounds,
    read_files,
    read_table,
    read_tables,
)

CONTINENTAL = Form(delimiter=";", decimal=",", thousands=".")


@pytest.mark.parametrize(
    ("form", "text", "number"),
    [
        (CONTINENTAL, "3.178,40", 3178.4),
        (CONTINENTAL, "-0,5", -0.5),
        (CONTINENTAL, "1234,5e-1", 123.45),
        (Form(thousands=","), "1,00,000", 100000),
        (Form(thousands="'"), "1\u2019000", 1000),
        (Form(thousands=" ", decimal=","), "1\u202f234,5", 1234.5),
    ],
)
def test_numbers_are_read_in_the_form_of_the_file(form, text, number):
    assert float(form.reader()(text)) == number


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Form(thousands=","), "1,5"),  # a decimal comma, not fifteen
        (CONTINENTAL, "1.5"),
        (CONTINENTAL, "1,5,5"),
        (CONTINENTAL, ","),
        (CONTINENTAL, "12 EUR"),
        (CONTINENTAL, "\u0663"),
    ],
)
def test_what_is_no_number_in_the_form_is_not_guessed_at(form, text):
    assert form.reader()(text) == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"delimiter": ";;"}, "one character"),
        ({"delimiter": "x"}, "no letter"),
        ({"delimiter": '"'}, "quote"),
        ({"delimiter": " "}, "blank"),
        ({"decimal": "x"}, "decimal is 'x'; choose from"),
        ({"thousands": "."}, "must differ"),
        ({"encoding": "utf-9"}, "'utf-9', which is none that Python knows"),
        ({"encoding": "rot13"}, "encoding"),
        ({"encoding": "a\0"}, "encoding"),
        ({"quote": "'"}, "format has 'quote'; it may have delimiter, decimal, thousands, encoding"),
        ({"decimal": 1}, "text in quotes"),
    ],
)
def test_a_form_that_cannot_be_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        Form().changed(given)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("age;town;ill", "looks separated by ;: add --delimiter ';'$"),
        ("age\ttown\till", "looks separated by tabs: add --delimiter tab$"),
        ('"age, in years";town', "--delimiter ';'$"),
        ("pay, EUR;town;ill", "row 1 has 3 cells and the header 2; the header looks separated"),
    ],
)
def test_a_header_that_is_separated_otherwise_is_recognised(tmp_path, header, words):
    (tmp_path / "t.csv").write_text(f"{header}\nsecret|a,b,c\n")
    with pytest.raises(InputError, match=words) as caught:
        read_table(tmp_path / "t.csv")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (b"", "cp1252"),
    ],
)
def test_a_byte_order_mark_is_believed_before_the_encoding_that_is_stated(tmp_path, mark, encoding):
    (tmp_path / "t.csv").write_bytes(mark + "größe,b\n1,ü\n".encode(encoding))
    frame = read_table(tmp_path / "t.csv", Form(encoding="cp1252"))
    assert frame.to_dict(orient="list") == {"größe": ["1"], "b": ["ü"]}


def test_an_excel_file_among_those_of_agents_is_not_passed_over(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04")
    assert len(read_tables(tmp_path)) == 1
    (tmp_path / "b.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=r"b\.xlsx is an Excel file"):
        read_tables(tmp_path)


def test_the_form_stands_in_the_bounds_file_and_options_go_before_it(tmp_path):
    bounds = Bounds(
        "public", "y", Categories(("0", "1")), {"x": Numeric(0, 4000)}, form=CONTINENTAL,
        interval="unit",
    )  # fmt: skip
    (tmp_path / "b.toml").write_text(bounds_text(bounds))
    assert read_bounds(tmp_path / "b.toml") == bounds
    (tmp_path / "t.csv").write_text("x;y\n3.178,40;0\n4;1\n")
    source = Source(path=tmp_path / "t.csv", target="y", bounds=tmp_path / "b.toml")
    assert (load_table(source).features[:, 0] * 4000).tolist() == pytest.approx([3178.4, 4])
    (tmp_path / "t.csv").write_text("x|y\n3178.40|0\n4|1\n")
    source = Source(
        path=tmp_path / "t.csv", target="y", bounds=tmp_path / "b.toml",
        delimiter="|", decimal=".", thousands="",
    )  # fmt: skip
    table = load_table(source)
    assert (table.features[:, 0] * 4000).tolist() == pytest.approx([3178.4, 4])
    assert table.bounds.form == Form(delimiter="|")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "no rows"),
        (b"a,b\n1,2\n3\n", "row 2 has 1 cells and the header 2"),
        (b"a,b\n1,2,3\n", "row 1 has 3 cells"),
        (b"b,a,c,a\n1,2,3,4\n", "two columns of one name, the first of them column 2;"),
        (b'a,b\n1,"2\n', "not a valid CSV"),
        (b"a,b\n\xff,2\n", "not text in UTF-8.*--encoding cp1252"),
        (b"PK\x03\x04secret", "save its sheet as CSV or Parquet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1secret", "save its sheet as CSV or Parquet"),
    ],
)
def test_files_that_are_not_tables_are_refused(tmp_path, content, words):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_table(tmp_path / "t.csv")
    assert "t.csv" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_marks_blanks_and_quotes_are_read_as_meant(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'\xef\xbb\xbfa, "b, c"\n 1 , x\n\n2,"y,z"\n')
    frame = read_table(tmp_path / "t.csv")
    assert frame.to_dict(orient="list") == {"a": ["1", "2"], "b, c": ["x", "y,z"]}


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"no \.csv"):
        read_tables(tmp_path)


def test_agents_come_by_name_with_the_columns_of_the_first(tmp_path):
    (tmp_path / "b.csv").write_text("y,x\n1,2\n")
    (tmp_path / "a.csv").write_text("x,y\n3,4\n")
    (tmp_path / "notes.txt").write_text("no table")
    first, second = read_tables(tmp_path).values()
    assert first.to_dict(orient="list") == {"x": ["3"], "y": ["4"]}
    assert second.to_dict(orient="list") == {"x": ["2"], "y": ["1"]}
    (tmp_path / "c.csv").write_text("x,z\n3,4\n")
    with pytest.raises(InputError, match=r"c\.csv and a\.csv have different columns"):
        read_tables(tmp_path)


def test_suffixes_count_in_any_case_of_their_letters(tmp_path, monkeypatch):
    (tmp_path / "b.CSV").write_text("y,x\n1,2\n")
    (tmp_path / "a.csv").write_text("x,y\n3,4\n")
    (tmp_path / "c.Parquet").write_bytes(b"PAR1")
    table = pd.DataFrame({"x": [5], "y": [6]})
    monkeypatch.setattr("taciturn.tables.pieces.stored_pieces", lambda *_: iter([table]))
    found = read_tables(tmp_path)
    assert [(file.name, len(frame)) for file, frame in found.items()] == [
        ("a.csv", 1), ("b.CSV", 1), ("c.Parquet", 1),
    ]  # fmt: skip
    assert read_table(tmp_path / "c.Parquet").to_dict(orient="list") == {"x": ["5"], "y": ["6"]}


def test_a_parquet_table_is_read_as_the_same_text(tmp_path, monkeypatch):
    table = pd.DataFrame({"a": [1.5, None], "b": ["x ", "y"], "c": [1, 2]})
    monkeypatch.setattr(
        "taciturn.tables.pieces.stored_pieces", lambda *_: iter([table[:1], table[1:]])
    )
    (tmp_path / "t.parquet").touch()
    frame = read_table(tmp_path / "t.parquet")
    assert frame.to_dict(orient="list") == {"a": ["1.5", ""], "b": ["x", "y"], "c": ["1", "2"]}


AGE = """source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns]
age = { min = 0, max = 99 }
"""


@pytest.mark.parametrize(
    ("header", "message"), [("years,ill", "no column 'age'"), ("age,ill,town", "the column 'town'")]
)
def test_other_columns_are_refused_before_a_cell_is_looked_at(tmp_path, header, message):
    (tmp_path / "bounds.toml").write_text(AGE)
    row = ",".join(["spoilt"] * len(header.split(",")))
    (tmp_path / "t.csv").write_text(f"{header}\n{row}\n")
    source = Source(path=tmp_path / "t.csv", target="ill", bounds=tmp_path / "bounds.toml")
    with pytest.raises(InputError, match=message):
        read_files(source)
    (tmp_path / "t.csv").write_text("age,ill\nspoilt,spoilt\n")
    assert read_files(source).rows == 1


def test_a_header_that_is_separated_as_stated_is_not_doubted(tmp_path):
    (tmp_path / "t.csv").write_text('a,"b;c;d;e"\n1,2\n')
    assert list(read_table(tmp_path / "t.csv")) == ["a", "b;c;d;e"]
    (tmp_path / "t.csv").write_text("a;b\n1;2,5\n")
    frame = read_table(tmp_path / "t.csv", CONTINENTAL)
    assert frame.to_dict(orient="list") == {"a": ["1"], "b": ["2,5"]}
