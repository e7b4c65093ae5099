"""The unit and the container file that the page for operators shows can be used as they stand."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from taciturn_federation.commands.parties import site

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "operate.md"
INSTRUCTIONS = {"FROM", "COPY", "RUN", "USER", "ENV", "VOLUME", "ENTRYPOINT"}


def shown(title):
    """The block of the page with a title."""
    found = re.search(rf'```\w+ title="{re.escape(title)}"\n(.*?)```', PAGE.read_text(), re.S)
    assert found, title
    return found.group(1)


def verified(unit, folder):
    """What systemd says of a unit; its program is one that is there."""
    file = folder / "taciturn-site@.service"
    file.write_text(unit.replace("/opt/taciturn/bin/taciturn", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(folder / "taciturn-site@diabetes.service")],
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode, [line for line in done.stderr.splitlines() if str(file) in line]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_has_nothing_to_say_of_the_unit_and_something_of_a_spoilt_one(tmp_path):
    unit = shown("taciturn-site@.service")
    assert verified(unit, tmp_path) == (0, [])
    code, lines = verified(unit.replace("RestartSec=", "RestartSeconds="), tmp_path)
    assert lines, code


def options(words):
    return {word.split("=")[0] for word in words if word.startswith("--")}


def test_the_commands_of_unit_and_container_have_options_that_there_are():
    (run,) = [c for name, c in get_command(site).commands.items() if name == "run"]
    known = {name for option in run.params for name in option.opts}
    unit = shown("taciturn-site@.service").replace("\\\n", " ")
    command = re.search(r"ExecStart=(.*)", unit).group(1)
    text = PAGE.read_text().replace("\\\n", " ")
    podman = re.search(r"taciturn-site site run (.*)", text).group(1)
    for given in (shlex.split(command), shlex.split(podman)):
        assert options(given)
        assert options(given) <= known
    assert not options(["--nothing-of-the-kind"]) <= known


def test_the_container_file_installs_the_clone_and_runs_as_a_user():
    lines = shown("Containerfile").replace("\\\n", " ").splitlines()
    parsed = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert {instruction for instruction, _ in parsed} == INSTRUCTIONS
    file = dict(parsed)
    source, clone = file["COPY"].split()
    assert source == "."
    assert f"{clone} {clone}/federation" in file["RUN"]
    assert json.loads(file["ENTRYPOINT"]) == ["taciturn"]
    folders = dict(word.split("=") for word in file["ENV"].split())
    volumes = set(json.loads(file["VOLUME"]))
    assert {folders["XDG_DATA_HOME"], folders["XDG_STATE_HOME"]} == volumes
    order = [instruction for instruction, _ in parsed]
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert "root" not in file["USER"]
