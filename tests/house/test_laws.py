"""Every law in the table of LAWS.md has a check and a planted fault in the quick suite."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.conftest import QUICK_SETS

ROOT = Path(__file__).parents[2]
LAWS = range(1, 15)
TEST = re.compile(r"`(test_\w+)`")
# a row that refers to the tests of another: "the messages layer of the audit, same tests as law 5"
SAME = re.compile(r"same tests? as law (\d+)")


def cells(text: str) -> dict[int, tuple[str, str]]:
    """Return the check and the planted fault of each law, as its row of the table has them."""
    rows = re.findall(r"^\| (\d+)\. [^|]*\|([^|]*)\|([^|]*)\|$", text, re.M)
    return {int(number): (check, fault) for number, check, fault in rows}


def named_tests(rows: dict[int, tuple[str, str]], law: int, column: int) -> set[str]:
    """Return the tests that a cell names, itself or by another law's row."""
    cell = rows[law][column]
    elsewhere = [name for n in SAME.findall(cell) for name in TEST.findall(rows[int(n)][column])]
    return {*TEST.findall(cell), *elsewhere}


def quick_tests(code: str) -> set[str]:
    """Return the test functions of a file that are not marked slow, alone or by the whole file."""
    tree = ast.parse(code)
    marks = [n for n in tree.body if isinstance(n, ast.Assign) and "pytestmark" in ast.unparse(n)]
    if any(is_slow(mark.value) for mark in marks):
        return set()
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {f.name for f in functions if not any(map(is_slow, f.decorator_list))}


def is_slow(node: ast.expr) -> bool:
    """Whether a mark, or the mark of a case, is slow."""
    return "mark.slow" in ast.unparse(node)


@cache
def all_quick_tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return set().union(*(quick_tests(file.read_text()) for file in files))


DOCUMENT = (ROOT / "tests" / "LAWS.md").read_text()
ROWS = cells(DOCUMENT)


def test_the_table_has_every_law():
    assert sorted(ROWS) == list(LAWS)


@pytest.mark.parametrize("column", [0, 1], ids=["check", "planted fault"])
@pytest.mark.parametrize("law", LAWS)
def test_the_tests_of_every_law_exist_and_are_quick(law, column):
    named = named_tests(ROWS, law, column)
    assert named
    assert named - all_quick_tests() == set()


def test_the_tests_of_laws_are_quick_in_some_of_their_cases():
    never = {name for name, kept in QUICK_SETS.items() if not kept}
    for law in LAWS:
        assert not never & (named_tests(ROWS, law, 0) | named_tests(ROWS, law, 1))


def test_a_law_without_a_test_and_a_slow_test_are_caught():
    rows = cells("| 5. Audit | `test_a` | `test_b` |\n| 6. Messages | same tests as law 5 | none |")
    assert named_tests(rows, 6, 0) == {"test_a"}
    assert named_tests(rows, 6, 1) == set()
    case = "[1, pytest.param(2, marks=pytest.mark.slow)]"
    assert quick_tests("@pytest.mark.slow\ndef test_a(): ...\ndef test_b(): ...") == {"test_b"}
    assert quick_tests(f"@pytest.mark.parametrize('x', {case})\ndef test_a(x): ...") == set()
    assert quick_tests("pytestmark = pytest.mark.slow\ndef test_a(): ...") == set()
