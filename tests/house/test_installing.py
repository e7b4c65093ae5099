"""What anybody is told to install is a distribution of ours, or a folder of the clone."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {
    tomllib.loads(file.read_text())["project"]["name"]
    for file in (ROOT / "pyproject.toml", *ROOT.glob("*/pyproject.toml"))
}
INSTALL = re.compile(
    r"(?:pip3?|pipx|uv|uvx|conda|mamba|poetry)\s+(?:pip\s+)?(?:install|add|run|download)\b([^`\n]*)"
)
# a requirement whose name begins as ours do; a folder of the clone begins with a dot or a slash
NAME = re.compile(r"(?<![\w./-])taci[\w-]*")


def strangers(text):
    """The names in commands of a text that begin like ours and are nobody's."""
    named = (name for command in INSTALL.findall(text) for name in NAME.findall(command))
    return [name for name in named if name not in OURS]


def files():
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ".txt", ".cfg", ".sh", ""}
    return [ROOT / name for name in listed.splitlines() if Path(name).suffix in kinds]


def test_every_name_that_is_installed_is_one_of_ours():
    parts = ("federation", "papers", "power", "verify")
    assert {"taciturn", *(f"taciturn-{part}" for part in parts)} == OURS
    texts = [path for path in files() if path != Path(__file__) and path.is_file()]
    assert len(texts) > 500
    found = {str(path): strangers(path.read_text(errors="replace")) for path in texts}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "folder", ["src", "federation/src", "power/src", "papers/src", "verify/src"]
)
def test_a_message_names_an_install_command_for_our_folders_alone(folder):
    """The name on the package index is nobody's until we register it."""
    for path in (ROOT / folder).rglob("*.py"):
        for command in INSTALL.findall(path.read_text()):
            assert command.lstrip().startswith("-e"), (path, command)


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("pip install tacit", True),
        ('pip install --no-cache-dir "tacit[federation]==0.1.0"', True),
        ("uv pip install taciturn-grid", True),
        ("pip install taciturn", False),
        ("pip install 'taciturn-power[pandapower]'", False),
        ("pip install -e ./power", False),
        ("pip install /opt/tacit /opt/taciturn/federation", False),
    ],
)
def test_a_name_of_somebody_else_is_caught_and_a_folder_is_not(text, caught):
    assert bool(strangers(text)) == caught
