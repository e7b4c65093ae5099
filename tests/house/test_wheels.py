"""The wheels, installed in a clean environment: what their users get."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ADULT = [
    "train",
    "adult",
    "--agents",
    "10",
    "--rounds",
    "5",
    "--epsilon",
    "1",
    "--delta",
    "1e-6",
    "--json",
]
PARTS = ("federation", "power", "papers", "verify")
OFFLINE = ("No matching distribution found for hatchling", "Could not find a version that")


class Environment:
    """A virtual environment that sees no checkout."""

    def __init__(self, folder):
        self.folder, self.bin = folder, folder / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

    def run(self, *command):
        # neither the checkout nor the packages of the tests
        hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
        environment = {k: v for k, v in os.environ.items() if k not in hidden}
        environment |= {"XDG_DATA_HOME": f"{self.folder}/data"}
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def install(self, *wheels):
        done = self.run(
            "pip",
            "install",
            "--quiet",
            "--no-compile",
            "--constraint",
            ROOT / "constraints.txt",
            *wheels,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the library and of what extends it, by folder."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder]
    done = subprocess.run(
        [*build, ROOT, *(ROOT / part for part in PARTS)],
        capture_output=True,
        text=True,
        check=False,
    )
    if any(words in done.stderr for words in OFFLINE):
        pytest.skip("hatchling builds the wheels, and the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    (library,) = folder.glob("taciturn-*.whl")
    return {"": library, **{part: next(folder.glob(f"taciturn_{part}-*.whl")) for part in PARTS}}


@pytest.fixture(scope="module")
def installed(wheels, tmp_path_factory):
    """An environment with the library alone."""
    environment = Environment(tmp_path_factory.mktemp("clean"))
    environment.install(wheels[""])
    return environment


def test_the_library_alone_trains_on_adult_and_writes_its_page(installed):
    done = installed.run("taciturn", *ADULT, "--out", "report")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert (values["agents"], values["rounds"]) == (10, 5)
    assert 0.999 < values["epsilon"] <= 1.0
    # its template is no Python file
    assert "</html>" in (installed.folder / "report" / "report.html").read_text()


GRID = ["grid", "case14", "--beta", "0.01", "--epsilon", "1", "--delta", "1e-2", "--json"]
# a command that each brings, and what its answer holds
COMMANDS = {
    "federation": (["study", "--help"], None),
    "power": (GRID, "epsilon"),
    "papers": (["claims", "huang2019/thm2", "--json"], "verdict"),
    "verify": (["verify", "--help"], None),
}


@pytest.mark.parametrize("part", PARTS)
def test_each_extension_brings_its_commands_to_the_library_alone(wheels, part, tmp_path, installed):
    command, held = COMMANDS[part]
    before = installed.run("taciturn", *command)
    assert (before.returncode, before.stdout, before.stderr.count("\n")) == (2, "", 1)
    assert f"pip install -e {part}" in before.stderr
    environment = Environment(tmp_path)
    environment.install(wheels[""], *([wheels["power"]] if part == "papers" else []), wheels[part])
    after = environment.run("taciturn", *command)
    assert after.returncode == 0, after.stderr
    assert held is None or held in json.loads(after.stdout)


def test_the_verifier_needs_nothing_of_the_library(wheels, installed, tmp_path):
    report = tmp_path / "report"
    made = installed.run("taciturn", *ADULT, "--out", report)
    assert made.returncode == 0, made.stderr
    alone = Environment(tmp_path)
    alone.install(wheels["verify"])
    verdict = alone.run("taciturn-verify", report)
    assert verdict.returncode == 0, verdict.stderr
    assert ": follows: " in verdict.stdout
    names = json.loads(alone.run("pip", "list", "--format", "json").stdout)
    assert {one["name"] for one in names} <= {"mpmath", "pip", "setuptools", "taciturn-verify"}
