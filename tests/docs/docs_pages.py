"""The pages of the documentation, and the blocks of code on them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
AT_ROOT = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "tests/LAWS.md")
FOLDERS = ("docs", "papers/docs")
PAGES = (
    *(ROOT / name for name in AT_ROOT),
    *sorted(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")),
)
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, the file it stands for, its code, and where that begins."""

    language: str
    title: str | None
    code: str
    line: int


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(text):
    """Return the fenced blocks of a page in their order."""
    return [
        Block(match[1], match[2], match[3], text[: match.start(3)].count("\n") + 1)
        for match in BLOCK.finditer(text)
    ]


def commands(code):
    """Return the calls of taciturn in a shell block, each as its words."""
    joined = re.sub(r"\\\n", " ", code)
    lines = (re.sub(r"#.*", "", line) for line in joined.splitlines())
    parts = (part.strip() for line in lines for part in re.split(r"\|+|&&|\s>\s", line))
    return [part.split() for part in parts if part.startswith("taciturn ")]
