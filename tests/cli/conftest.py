"""Commands in the process of the tests, and a table that several files train on."""

import json
from typing import NamedTuple

import numpy as np
import pytest
from tests.conftest import bounds_of_ill

from taciturn.cli.main import main

FIELDS = ("age", "town", "ill")
BOUNDS = bounds_of_ill(age="min = 20\nmax = 70", town='values = ["a", "b"]')
SETTINGS = ("--epsilon", "2", "--delta", "1e-3", "--rounds", "3")


class Done(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out, parse_constant=pytest.fail)


def write(path, header, rows):
    """Write a table as text."""
    path.write_text(
        "\n".join([",".join(header), *(",".join(map(str, row)) for row in rows)]) + "\n"
    )


def patients(count=40):
    """Age, town, label and clinic of some patients; some ages lie beyond the bounds."""
    draw = np.random.default_rng(5)
    for k in range(count):
        yield f"{draw.uniform(10, 80):.1f}", "ab"[k % 2], ("no", "yes")[k // 2 % 2], f"c{k % 4}"


def table_in(folder, count=40):
    """Write the patients and their bounds; return the folder."""
    write(folder / "t.csv", FIELDS, (row[:3] for row in patients(count)))
    (folder / "b.toml").write_text(BOUNDS)
    return folder


def training(folder, *more, data="t.csv"):
    """Return the words that train on a table of a folder."""
    table = ("train", folder / data, "--target", "ill", "--bounds", folder / "b.toml")
    return [*table, *SETTINGS, *more]


@pytest.fixture
def taciturn_(capsys):
    """Run a command."""

    def call(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    return call


def error_in(err):
    """Return the one line of an error; lines before it warn, from public facts alone."""
    *warnings, line = err.splitlines(keepends=True)
    assert all(one.startswith("taciturn: warning: ") for one in warnings), err
    assert line.startswith("taciturn: error: "), err
    assert line.endswith("\n")
    return line


@pytest.fixture
def refused(taciturn_):
    """Run, and require: exit code 2, nothing on stdout, one line of an error; return the line."""

    def call(*arguments):
        done = taciturn_(*arguments)
        assert (done.code, done.out) == (2, "")
        return error_in(done.err)

    return call


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """A folder with a table, its bounds and, in `out`, the report of a private training."""
    folder = table_in(tmp_path_factory.mktemp("trained"))
    evaluated = ("--agents", "2", "--evaluate", "0.2", "--quiet", "--out", folder / "out")
    assert main([*map(str, training(folder, *evaluated))]) == 0
    return folder
