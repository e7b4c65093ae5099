"""The wheels, installed in a clean environment: what their users get."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ADULT = ["train", "adult", "--agents", "10", "--rounds", "5", "--epsilon", "1", "--delta", "1e-6"]
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
        pinned = ("--no-compile", "--constraint", ROOT / "constraints.txt")
        done = self.run("pip", "install", "--quiet", *pinned, *wheels)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the library and of what extends it, by folder."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder]
    every = [ROOT, *(ROOT / part for part in PARTS)]
    done = subprocess.run([*build, *every], capture_output=True, text=True, check=False)
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


GRID = ["grid", "case14", "--beta", "0.01", "--epsilon", "1", "--delta", "1e-2", "--json"]
# a command that each brings, and what its answer holds; papers needs power
COMMANDS = {
    "federation": (["study", "--help"], None),
    "power": (GRID, "epsilon"),
    "papers": (["claims", "huang2019/thm2", "--json"], "verdict"),
    "verify": (["verify", "--help"], None),
}


def test_the_library_trains_alone_and_each_extension_brings_its_commands(
    wheels, installed, tmp_path
):
    done = installed.run("taciturn", *ADULT, "--json", "--out", "report")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert (values["agents"], values["rounds"]) == (10, 5)
    assert 0.999 < values["epsilon"] <= 1.0
    # its template is no Python file
    assert "</html>" in (installed.folder / "report" / "report.html").read_text()
    for part, (command, held) in COMMANDS.items():
        before = installed.run("taciturn", *command)
        assert (before.returncode, before.stdout, before.stderr.count("\n")) == (2, "", 1)
        assert f"pip install -e {part}" in before.stderr
        installed.install(wheels[part])
        after = installed.run("taciturn", *command)
        assert after.returncode == 0, after.stderr
        assert held is None or held in json.loads(after.stdout)
    # the verifier needs nothing of the library
    alone = Environment(tmp_path)
    alone.install(wheels["verify"])
    verdict = alone.run("taciturn-verify", installed.folder / "report")
    assert verdict.returncode == 0, verdict.stderr
    assert ": follows: " in verdict.stdout
    names = json.loads(alone.run("pip", "list", "--format", "json").stdout)
    assert {one["name"] for one in names} <= {"mpmath", "pip", "setuptools", "taciturn-verify"}
