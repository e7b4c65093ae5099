"""Nobody is told to install `tacit` from a package index, where it is somebody else's package."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALL = re.compile(
    r"(?:pip3?|pipx|uv|uvx|conda|mamba|poetry)\s+(?:pip\s+)?(?:install|add|run|download)\b"
    r"[^`\n]*?(?<![\w/.-])tacit(?:-papers)?(?![\w/.-])"
)


def strangers(text):
    """The places of a text that name the package of the index."""
    return [match.group() for match in INSTALL.finditer(text)]


def files():
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ".txt", ".cfg", ".sh", ""}
    return [ROOT / name for name in listed.splitlines() if Path(name).suffix in kinds]


def test_code_and_documentation_install_from_the_clone():
    texts = [path for path in files() if path != Path(__file__) and path.is_file()]
    assert len(texts) > 500
    found = {str(path): strangers(path.read_text(errors="replace")) for path in texts}
    assert {path: said for path, said in found.items() if said} == {}


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("pip install tacit", True),
        ('pip install --no-cache-dir "tacit[federation]==0.1.0"', True),
        ("uv pip install 'tacit[power]'", True),
        ("pip install tacit-papers", True),
        ("pip install -e '.[power]'", False),
        ('pip install "/opt/tacit[federation]"', False),
        ("pip install -e papers", False),
    ],
)
def test_a_command_for_the_index_is_caught_and_one_for_the_clone_is_not(text, caught):
    assert bool(strangers(text)) == caught
