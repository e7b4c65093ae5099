"""Law 11: imports point down the layers, and stand at the top of their files."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import tacit

ROOT = Path(tacit.__file__).parent
LAYERS = [
    ("typing", "checks", "errors", "spec"),
    ("noise", "masks"),
    ("problems", "network", "privacy", "features"),
    ("oracles", "datasets", "budget"),
    ("algorithms", "tables"),
    ("engine",),
    ("proposal",),
    ("audit", "models", "evaluation"),
    ("estimators", "training"),
    ("tuning",),
    ("report",),
    ("federation",),
    ("cli",),
    ("power",),
]
LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_rooms(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
    rooms = [name.split(".") for name in names if name.startswith("tacit.")]
    return [parts[1] for parts in rooms]


def rising(room: str, tree: ast.AST) -> list[str]:
    own = LAYER_OF[room]
    return [
        other
        for other in imported_rooms(tree)
        if other != room and (LAYER_OF[other] > own or (LAYER_OF[other] == own and own > 0))
    ]


FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_points_up(path):
    assert rising(room_of(path), ast.parse(path.read_text())) == []


def test_a_planted_upward_import_is_caught():
    planted = ast.parse("from tacit.engine import run")
    assert rising("oracles", planted) == ["engine"]
    assert rising("privacy", ast.parse("import tacit.problems")) == ["problems"]


# rooms of power flow, from the lowest; files beside them are shared or on top
POWER = ("cases", "grids", "models", "balance", "moment", "day")


def rising_in_power(room, tree):
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    used = [name.split(".")[2] for name in names if name.startswith("tacit_power.")]
    return [one for one in used if one in POWER and POWER.index(one) > POWER.index(room)]


@pytest.mark.parametrize("room", POWER)
def test_no_import_points_up_in_power_flow(room):
    for path in (ROOT / "power" / room).glob("*.py"):
        assert rising_in_power(room, ast.parse(path.read_text())) == [], path
    assert rising_in_power("cases", ast.parse(f"from tacit_power.{room} import x")) == (
        [] if room == "cases" else [room]
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_of_another_room_is_lazy_outside_the_command_line(path):
    if room_of(path) != "cli":
        assert lazy_rooms(room_of(path), ast.parse(path.read_text())) == []


def lazy_rooms(room, tree):
    """The rooms that functions import: what takes long to import may be a library's, or its own."""
    nodes = [
        node
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    ]
    names = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    inside = [(name or "").split(".") for name in names if (name or "").split(".")[0] == "tacit"]
    return [".".join(name) for name in inside if name[1:2] != [room]]


def test_a_planted_lazy_import_is_caught():
    planted = ast.parse("def f():\n    from tacit.engine import run\n    import scipy.signal")
    assert lazy_rooms("privacy", planted) == ["tacit.engine"]
    assert lazy_rooms("engine", planted) == []


def test_every_public_name_imports():
    for module in pkgutil.walk_packages([str(ROOT)], "tacit."):
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            assert getattr(loaded, name) is not None


def test_files_and_functions_stay_short():
    for path in FILES:
        text = path.read_text()
        assert text.count("\n") < 800, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                size = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                assert size <= 60, (path, node.name)


def test_the_package_imports_without_touching_the_test_tools():
    code = "import sys, tacit.cli.main; assert not {'pytest', 'hypothesis'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
