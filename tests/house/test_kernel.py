"""The kernel is as short as its page says, and its page names all of it."""

import ast
import io
import re
import tokenize
from pathlib import Path

import taciturn

KERNEL = Path(taciturn.__file__).parent / "kernel"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "kernel.md"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
# lines of code without docstrings, comments and lists of names, at most
MOST = {"minimisers": 258, "exact": 80, "all other files": 4852}
# files with an argument of their own: steps that minimise, and what noise inside them costs
GROUP = {"minimisers": "minimisers", "objective": "minimisers", "exact": "exact"}


def code_lines(text):
    """The number of lines that hold code."""
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {n for t in tokens if t.type not in LAYOUT for n in range(t.start[0], t.end[0] + 1)}
    return len(lines - documented)


def files():
    return [path for path in sorted(KERNEL.rglob("*.py")) if path.name != "__init__.py"]


def test_what_must_be_right_does_not_grow():
    found = dict.fromkeys(MOST, 0)
    for path in files():
        found[GROUP.get(path.stem, "all other files")] += code_lines(path.read_text())
    assert {name: lines <= MOST[name] for name, lines in found.items()} == dict.fromkeys(MOST, True)


def test_lines_are_counted_without_docstrings_and_comments():
    assert code_lines('"""Text.\n\nMore."""\n\nx = 1  # why\n# alone\ny = (\n    2\n)\n') == 4


def test_the_page_names_every_file():
    named = set(re.findall(r"`(\w+/\w+)`", PAGE.read_text().split("## In which order")[1]))
    there = {f"{path.parent.name}/{path.stem}" for path in files() if path.parent != KERNEL}
    assert there <= named
