"""`python -m bench` goes on when data cannot be had, and keeps what it measured."""

import json
from urllib.error import URLError

import pytest
from bench import __main__ as bench

from taciturn.errors import DataError, MissingPackageError


def raising(error):
    def part():
        raise error

    return part


@pytest.fixture
def parts(monkeypatch):
    parts = {
        "first": lambda: {"ms": 1.5},
        "w8a": raising(DataError("w8a cannot be fetched")),
        "offline": raising(URLError("no route to host")),
        "masks": raising(MissingPackageError("cryptography is missing")),
        "last": lambda: {"ms": 2.5},
    }
    monkeypatch.setattr(bench, "PARTS", parts)
    return parts


def test_a_part_without_its_data_is_named_and_the_others_are_measured(parts, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench", "--json"])
    bench.main()
    figures = json.loads(capsys.readouterr().out)
    assert (figures["first"], figures["last"]) == ({"ms": 1.5}, {"ms": 2.5})
    assert figures["w8a"] == {"not measured": "w8a cannot be fetched"}
    assert list(figures) == ["machine", *parts]
    monkeypatch.setattr("sys.argv", ["bench"])
    bench.main()
    said = capsys.readouterr().out
    assert "w8a cannot be fetched" in said
    assert "2.5" in said
