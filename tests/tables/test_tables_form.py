"""Files written otherwise: separators, numbers, encodings, and the files that are refused."""

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
    encode,
    load_table,
    read_bounds,
    read_table,
    read_tables,
)

CONTINENTAL = Form(delimiter=";", decimal=",", thousands=".")


@pytest.mark.parametrize(
    ("form", "text", "number"),
    [
        (CONTINENTAL, "3.178,40", 3178.4),
        (CONTINENTAL, "-0,5", -0.5),
        (CONTINENTAL, "1.234.567", 1234567),
        (CONTINENTAL, "1234,5e-1", 123.45),
        (CONTINENTAL, ",5", 0.5),
        (Form(thousands=","), "3,178.40", 3178.4),
        (Form(thousands=","), "1,00,000", 100000),
        (Form(thousands="'"), "1\u2019000", 1000),
        (Form(thousands=" ", decimal=","), "1\u00a0234,5", 1234.5),
        (Form(thousands=" ", decimal=","), "1\u202f234,5", 1234.5),
    ],
)
def test_numbers_are_read_in_the_form_of_the_file(form, text, number):
    assert float(form.reader()(text)) == number


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Form(thousands=","), "1,5"),  # a decimal comma, not fifteen
        (Form(thousands=","), "1,2345"),
        (Form(decimal=","), "1.5"),
        (CONTINENTAL, "1.5"),
        (CONTINENTAL, "1,5,5"),
        (CONTINENTAL, ""),
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
        ({"delimiter": ""}, "delimiter"),
        ({"delimiter": ";;"}, "one character"),
        ({"delimiter": "x"}, "no letter"),
        ({"delimiter": '"'}, "quote"),
        ({"delimiter": " "}, "blank"),
        ({"decimal": "x"}, "decimal is 'x'; choose from"),
        ({"thousands": "_"}, "thousands is '_'; choose from"),
        ({"decimal": ",", "thousands": ","}, "must differ"),
        ({"thousands": "."}, "must differ"),
        ({"encoding": "utf-9"}, "'utf-9', which is none that Python knows"),
        ({"encoding": "rot13"}, "encoding"),
        ({"encoding": ""}, "encoding"),
        ({"encoding": "a\0"}, "encoding"),
        ({"quote": "'"}, "format has 'quote'; it may have delimiter, decimal, thousands, encoding"),
        ({"decimal": 1}, "text in quotes"),
    ],
)
def test_a_form_that_cannot_be_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        Form().changed(given)


def test_what_is_given_takes_the_place_of_what_is_stated():
    assert CONTINENTAL.changed({"delimiter": "tab", "decimal": None}) == Form(
        delimiter="\t", decimal=",", thousands="."
    )
    assert CONTINENTAL.changed({"thousands": ""}).thousands == ""


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("age;town;ill", "looks separated by ;: add --delimiter ';'$"),
        ("age\ttown\till", "looks separated by tabs: add --delimiter tab$"),
        ("age|town|ill", r"looks separated by \|: add --delimiter '\|'$"),
        ('"age, in years";town', "--delimiter ';'$"),
        ("pay, EUR;town;ill", "row 1 has 3 cells and the header 2; the header looks separated"),
    ],
)
def test_a_header_that_is_separated_otherwise_is_recognised(tmp_path, header, words):
    (tmp_path / "t.csv").write_text(f"{header}\nsecret|a,b,c\n")
    with pytest.raises(InputError, match=words) as caught:
        read_table(tmp_path / "t.csv")
    assert "secret" not in str(caught.value)


def test_a_header_that_is_separated_as_stated_is_not_doubted(tmp_path):
    (tmp_path / "t.csv").write_text('a,"b;c;d;e"\n1,2\n')
    assert list(read_table(tmp_path / "t.csv")) == ["a", "b;c;d;e"]
    (tmp_path / "t.csv").write_text("a;b\n1;2,5\n")
    frame = read_table(tmp_path / "t.csv", CONTINENTAL)
    assert frame.to_dict(orient="list") == {"a": ["1"], "b": ["2,5"]}


@pytest.mark.parametrize(
    "start",
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
    ],
    ids=lambda start: start[1],
)
@pytest.mark.parametrize("stated", ["utf-8", "cp1252"])
def test_a_byte_order_mark_is_believed_before_the_encoding_that_is_stated(tmp_path, start, stated):
    mark, encoding = start
    (tmp_path / "t.csv").write_bytes(mark + "größe,b\n1,ü\n".encode(encoding))
    frame = read_table(tmp_path / "t.csv", Form(encoding=stated))
    assert frame.to_dict(orient="list") == {"größe": ["1"], "b": ["ü"]}


def test_another_encoding_is_read_where_it_is_named(tmp_path):
    (tmp_path / "t.csv").write_bytes("größe,b\n1,€\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"not text in UTF-8.*--encoding cp1252"):
        read_table(tmp_path / "t.csv")
    frame = read_table(tmp_path / "t.csv", Form(encoding="cp1252"))
    assert frame.to_dict(orient="list") == {"größe": ["1"], "b": ["€"]}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.xlsx", b"PK\x03\x04secret"),
        ("t.csv", b"PK\x03\x04secret"),
        ("t.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1secret"),
        ("t.XLS", b"secret,b\n1,2\n"),
    ],
)
def test_an_excel_file_is_to_be_saved_as_csv_or_parquet(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="save its sheet as CSV or Parquet") as caught:
        read_table(tmp_path / name)
    assert "secret" not in str(caught.value)


def test_an_excel_file_among_those_of_agents_is_not_passed_over(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04")
    assert len(read_tables(tmp_path)) == 1
    (tmp_path / "b.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=r"b\.xlsx is an Excel file"):
        read_tables(tmp_path)


def test_numbers_of_a_parquet_file_are_the_numbers_that_they_are(tmp_path, monkeypatch):
    table = pd.DataFrame({"pay": [1.5, 1234.25], "town": ["a", "b"], "y": ["0", "1"]})
    monkeypatch.setattr("taciturn.tables.pieces.stored_pieces", lambda *_: iter([table]))
    (tmp_path / "t.parquet").touch()
    frame = read_table(tmp_path / "t.parquet", CONTINENTAL)
    bounds = Bounds(
        "public", "y", Categories(("0", "1")),
        {"pay": Numeric(0, 2000), "town": Categories(("a", "b"))}, form=CONTINENTAL,
        interval="unit",
    )  # fmt: skip
    assert (encode(frame, bounds, with_target=True).features[:, 0] * 2000).tolist() == [
        1.5,
        1234.25,
    ]
    assert encode(table, bounds, with_target=True).features[0, 0] * 2000 == 1.5


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
