"""Links, names and tests that the documentation mentions exist; the page holds together."""

import importlib
import re
import runpy
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"`(tacit(?:\.\w+)+)`")
TEST = re.compile(r"`(test_\w+)`")
FILE = re.compile(r"`((?:tests|docs)/[\w./-]*)`")
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
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.M) if target.is_file() else []
        anchors = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
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
    if last in vars(module):
        return True
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_leads_somewhere(path):
    assert broken(path.read_text(), path) == []


def test_a_broken_link_and_a_broken_heading_are_caught():
    text = "[a](docs/nowhere.md) [b](LICENSE) [c](README.md#no-such-heading) [d](#quick-start)"
    wrong = ["docs/nowhere.md", "README.md#no-such-heading"]
    assert broken(text, ROOT / "README.md") == wrong


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_name_in_the_text_exists(path):
    text = path.read_text()
    assert [name for name in NAME.findall(text) if not resolves(name)] == []
    assert [name for name in FILE.findall(text) if not (ROOT / name).exists()] == []


def test_a_name_that_does_not_exist_is_caught():
    assert not resolves("tacit.engine.door.Ajar")
    assert not resolves("tacit.gossip.Mixing")


def test_every_test_named_in_the_text_exists():
    known = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    named = {name for path in DOCUMENTS for name in TEST.findall(path.read_text())}
    assert len(named) > 10
    assert named - known == set()


def test_every_file_of_the_package_has_its_place_in_the_architecture():
    text = (ROOT / "docs" / "architecture.md").read_text()
    rooms = text.split("## Rooms and layers")[1].split("## The contract")[0]
    package = ROOT / "src" / "tacit"
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0]
        if file.name != "__init__.py" and f"`{room}/`" not in rooms:
            assert re.search(rf"`(?:\w+/)?{file.stem}`", rooms), file


class Page(HTMLParser):
    """Collects ids, links and everything that would be loaded."""

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loaded = [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a":
            self.links.append(values["href"])
        if tag in {"img", "script", "link", "iframe"}:
            self.loaded.append(tag)


def test_the_page_is_self_contained_and_its_links_lead_somewhere():
    build = runpy.run_path(str(ROOT / "docs" / "build.py"))
    page = Page()
    page.feed(build["page"]())
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert page.loaded == []
    assert len(page.ids) == len(set(page.ids))
    assert inside - set(page.ids) == set()
    for link in page.links:
        if link.startswith("../../"):
            assert (ROOT / "docs" / "site" / link).resolve().exists(), link
    for module, names in build["public_names"]():
        assert {f"{module.__name__}.{name}" for name in names} <= set(page.ids)
    assert {"tacit.engine.plan.plan", "tacit.privacy.Ledger", "tacit.engine.door.Live"} <= set(
        page.ids
    )


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_table_has_a_rule_and_rows_of_one_length(path):
    assert misshapen(re.sub(r"```.*?```", "", path.read_text(), flags=re.S)) == []


def test_a_table_without_a_rule_or_with_a_short_row_is_caught():
    assert misshapen("| a | b |\n| 1 | 2 |\n") == ["| a | b |"]
    assert misshapen("| c | d |\n|---|---|\n| 1 |\n") == ["| c | d |"]
    assert misshapen("| e | f |\n|---|---|\n| 1 | 2 |\n") == []
