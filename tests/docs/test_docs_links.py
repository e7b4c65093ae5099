"""Links, names and tests that the documentation mentions exist; the reference is complete."""

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from docs_pages import PAGES, ROOT, name_of

import taciturn
import taciturn_federation.masks
import taciturn_power

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"`(taciturn(?:\.\w+)+)`")
TEST = re.compile(r"`(test_\w+)`")
SPAN = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?:tests|docs)/[\w./-]*|[\w./-]+/\w+\.py")
ROOTS = [ROOT]
ROOTS += [Path(part.__path__[0]) for part in (taciturn, taciturn_federation, taciturn_power)]
BLOCK = re.compile(r"(?:^\|.*\|$\n?)+", re.M)
RULE = re.compile(r"\|(?: *:?-{3,}:? *\|)+")


def broken(text, document):
    """Return the relative links whose file or heading does not exist."""
    missing = []
    for link in LINK.findall(text):
        path, _, part = link.partition("#")
        if "://" in link:
            continue
        target = document.parent / path if path else document
        readable = target.is_file() and target.suffix == ".md"
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.M) if readable else []
        anchors = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
        if part.startswith("taciturn."):  # an entry of the reference
            shown = re.findall(r"^::: (\S+)", target.read_text(), re.M) if readable else []
            here = any(f"{part}.".startswith(f"{name}.") for name in shown)
            anchors = {part} if here and resolves(part) else set()
        if not target.exists() or (part and part not in anchors):
            missing.append(link)
    return missing


def resolves(name):
    """Whether a dotted name is a module or a public name of one."""
    parent, _, last = name.rpartition(".")
    try:
        module = importlib.import_module(parent)
    except ModuleNotFoundError:
        return False
    if hasattr(module, last):  # names of the package itself are imported when they are used
        return True
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def lost(text):
    """Return the files that a page names, also in a call, and that are not there."""
    words = [word for span in SPAN.findall(text) for word in span.split()]
    files = filter(FILE.fullmatch, words)
    return [name for name in files if not any((root / name).exists() for root in ROOTS)]


def misshapen(text):
    """Return the first lines of tables without a rule, or with rows of unequal length."""
    tables = [block.splitlines() for block in BLOCK.findall(text)]
    return [
        lines[0]
        for lines in tables
        if len(lines) < 2
        or not RULE.fullmatch(lines[1])
        or len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) > 1
    ]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(path):
    assert broken(path.read_text(), path) == []


def test_a_broken_link_and_a_broken_heading_are_caught():
    text = "[a](docs/nowhere.md) [b](LICENSE) [c](README.md#no-such-heading) [d](#install)"
    wrong = ["docs/nowhere.md", "README.md#no-such-heading"]
    for page in ("problems", "tables"):
        text += f" [e](docs/reference/{page}.md#taciturn.problems.Problem)"
    wrong.append("docs/reference/tables.md#taciturn.problems.Problem")
    assert broken(text, ROOT / "README.md") == wrong


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_name_in_the_text_exists(path):
    text = path.read_text()
    assert [name for name in NAME.findall(text) if not resolves(name)] == []
    assert lost(text) == []


def test_a_name_that_does_not_exist_is_caught():
    assert not resolves("taciturn.kernel.door.door.Ajar")
    assert not resolves("taciturn.gossip.Mixing")
    text = "`report/figures.py`, `pytest tests/house tests/gone.py`, `tables/read.py`, `docs/x/`"
    assert lost(text) == ["report/figures.py", "tests/gone.py", "docs/x/"]


def test_every_test_named_in_the_text_exists():
    known = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    named = {name for path in PAGES for name in TEST.findall(path.read_text())}
    assert len(named) > 10
    assert named - known == set()


def test_the_architecture_names_every_room_and_no_other():
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    layers = text.split("## Rooms and layers")[1].split("\n1. ")[1].split("\n\n")[0]
    found = pkgutil.iter_modules(taciturn.__path__)
    rooms = {f"{info.name}/" if info.ispkg else info.name for info in found} - {"__main__"}
    assert set(re.findall(r"`(\S+)`", layers)) == rooms


def purpose(file):
    """Return the first line of a file's docstring, or nothing if it does not end a sentence."""
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n")[0]
    return first if first.endswith((".", ":", "?")) else ""


def test_every_file_states_its_purpose_in_one_line():
    for package in (taciturn, taciturn_federation, taciturn_power):
        for file in Path(package.__path__[0]).rglob("*.py"):
            assert purpose(file), file


def test_a_file_without_a_purpose_is_caught(tmp_path):
    file = tmp_path / "part.py"
    for text, found in (("x = 1", ""), ('"""Unfinished"""', ""), ('"""Done.\n\nMore."""', "Done.")):
        file.write_text(text)
        assert purpose(file) == found


def rooms():
    """Return the rooms of the library that name what is public."""
    found = pkgutil.iter_modules(taciturn.__path__)
    packages = [info.name for info in found if info.ispkg and info.name != "cli"]
    loaded = [importlib.import_module(f"taciturn.{name}") for name in packages]
    loaded += [taciturn_federation, taciturn_federation.masks, taciturn_power]
    of_papers = ("reproductions", "claims", "methods", "as_published", "attacks")
    loaded += [importlib.import_module(f"taciturn_papers.{name}") for name in of_papers]
    return {room.__name__: vars(room)["__all__"] for room in loaded if "__all__" in vars(room)}


def undocumented(room, names, text):
    """Return the public names that a reference page would leave out.

    A page shows all of a room, except functions that share the name of the file they stand in.
    """
    package = importlib.import_module(room)
    files = {info.name for info in pkgutil.iter_modules(getattr(package, "__path__", ()))}
    shown = set(re.findall(r"^::: (\S+)$", text, re.M))
    whole = room in shown
    return [
        name
        for name in names
        if not (whole and name not in files) and f"{room}.{name}.{name}" not in shown
    ]


def test_every_public_name_is_in_the_reference():
    menu = (ROOT / "mkdocs.yml").read_text()
    for room, names in rooms().items():
        parts = room.replace("_", ".").split(".")
        file = f"{parts[1] if parts[1] == 'papers' else parts[-1]}.md"
        page = ROOT / "docs" / "reference" / file
        assert undocumented(room, names, page.read_text()) == []
        assert f"reference/{file}" in menu


def test_a_name_that_the_reference_leaves_out_is_caught():
    assert undocumented("taciturn.tables", ["Table", "encode"], "::: taciturn.tables\n") == [
        "encode"
    ]
    assert undocumented("taciturn.engine", ["Plan"], "::: taciturn.audit\n") == ["Plan"]


def test_the_site_loads_nothing_from_elsewhere():
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings
    loaded = [line for line in settings.splitlines() if "https://" in line or "http://" in line]
    style = (ROOT / "docs" / "style.css").read_text()
    assert loaded == []
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_table_has_a_rule_and_rows_of_one_length(path):
    assert misshapen(re.sub(r"```.*?```", "", path.read_text(), flags=re.S)) == []


def test_a_table_without_a_rule_or_with_a_short_row_is_caught():
    assert misshapen("| a | b |\n| 1 | 2 |\n") == ["| a | b |"]
    assert misshapen("| c | d |\n|---|---|\n| 1 |\n") == ["| c | d |"]
    assert misshapen("| e | f |\n|---|---|\n| 1 | 2 |\n") == []
