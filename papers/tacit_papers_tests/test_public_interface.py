"""This package rests on the public interface of tacit alone: the interface suffices."""

import ast
import importlib
from pathlib import Path

import pytest

import tacit_papers

SOURCE = Path(tacit_papers.__file__).parent
TESTS = Path(__file__).parent
FILES = [*sorted(SOURCE.rglob("*.py")), *sorted(TESTS.rglob("*.py"))]


def reaching_in(tree):
    """Return what is imported from below a room of tacit, or is not among its public names."""
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            wrong += [name for name in names if name.startswith("tacit.")]
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tacit":
            room = importlib.import_module(node.module)
            known = set(getattr(room, "__all__", vars(room)))
            deep = node.module.count(".") > 1
            wrong += [f"{node.module}.{a.name}" for a in node.names if deep or a.name not in known]
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_every_import_of_tacit_is_of_a_public_name(path):
    assert reaching_in(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    "planted",
    [
        "from tacit.engine.planning import plan",
        "import tacit.engine",
        "from tacit.engine import no_such_name",
        "def late():\n    from tacit.cli.console import emit",
    ],
)
def test_a_planted_import_from_within_is_caught(planted):
    assert len(reaching_in(ast.parse(planted))) == 1


def test_no_file_grows_beyond_four_hundred_lines():
    assert [path.name for path in FILES if path.read_text().count("\n") >= 400] == []


def test_words_that_several_papers_use_have_one_meaning_each():
    words = {"Arm", "Case", "Claim", "Method", "Pair", "Setting", "Trial", "Verdict"}
    defined = [
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name in words
    ]
    assert len(defined) == len(set(defined))
