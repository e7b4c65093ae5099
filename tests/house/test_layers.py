"""Law 11: imports point down the layers, and stand at the top of their files."""

import ast
import importlib
import pkgutil
import sys
from functools import cache
from pathlib import Path

import pytest

import taciturn
import taciturn_federation
import taciturn_papers
import taciturn_power

ROOT = Path(taciturn.__file__).parent
VERIFIER = Path(__file__).parents[2] / "verify" / "src" / "taciturn_verify"
# each with the packages that it may import: the core knows none of those that extend it
EXTENSIONS = {
    taciturn_federation: set(),
    taciturn_power: set(),
    taciturn_papers: {"taciturn_power"},
}
# of the engine, what a site does of a run
ENGINE = {
    f"taciturn.engine.{module}"
    for module in ("charging", "credit", "network", "program", "protocol", "running")
}
LAYERS = [
    ("typing", "checks", "errors", "documents"),
    ("kernel",),
    ("problems", "network", "calibration", "certificates", "names"),
    ("features",),
    ("datasets", "budget"),
    ("algorithms", "tables"),
    ("engine",),
    ("models",),
    ("training",),
    ("audit", "counting", "estimators", "regression"),
    ("report",),
    ("cli",),
]
LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_rooms(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "taciturn":
            names.extend(f"taciturn.{a.name}" for a in node.names if not a.name.startswith("_"))
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
    rooms = [name.split(".") for name in names if name.startswith("taciturn.")]
    return [parts[1] for parts in rooms]


def rising(room: str, tree: ast.AST) -> list[str]:
    own = LAYER_OF[room]
    return [
        other
        for other in imported_rooms(tree)
        if other != room and (LAYER_OF[other] > own or (LAYER_OF[other] == own and own > 0))
    ]


FILES = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path.parent != ROOT or path.name not in ("__init__.py", "__main__.py")
]


@cache
def tree_of(path):
    return ast.parse(path.read_text())


TREES = {path: tree_of(path) for path in FILES}


def test_no_import_points_up():
    assert {path: up for path, tree in TREES.items() if (up := rising(room_of(path), tree))} == {}


def test_a_planted_upward_import_is_caught():
    planted = ast.parse("from taciturn.engine import run")
    assert rising("algorithms", planted) == ["engine"]
    assert rising("algorithms", ast.parse("from taciturn import engine")) == ["engine"]
    assert rising("kernel", ast.parse("import taciturn.problems")) == ["problems"]


# rooms of the kernel, from the lowest
KERNEL = [("noise", "records"), ("privacy",), ("questions",), ("door",), ("exact",)]
KERNEL_LAYER = {room: number for number, rooms in enumerate(KERNEL) for room in rooms}
# what the kernel may import that is not ours, and of ours
LIBRARIES = {
    "cryptography", "dp_accounting", "equinox", "jax", "jaxtyping", "mpmath", "numpy",
    "scipy.optimize", "scipy.signal", "scipy.special", "typing_extensions",
}  # fmt: skip
GROUND = {"taciturn", "taciturn.checks", "taciturn.errors", "taciturn.typing"}
# who may ask for answers without noise, or read records: nobody of them makes a certificate
CUSTODIANS = ("audit/", "problems/problem.py", "problems/solve.py", "training/assessment.py")
INSIDE = ("stacked", "unnoised")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "kernel").rglob("*.py")), ids=lambda path: path.stem
)
def test_the_kernel_imports_nothing_of_ours_but_itself_and_the_ground(path):
    tree, parts = TREES[path], path.relative_to(ROOT / "kernel").parts
    own = KERNEL_LAYER[Path(parts[0]).stem] if parts != ("__init__.py",) else len(KERNEL)
    for module, name in imported_names(tree):
        if not module.startswith("taciturn"):
            known = {module, module.split(".")[0]} & (LIBRARIES | set(sys.stdlib_module_names))
            assert known, (path, module)
        elif not module.startswith("taciturn.kernel"):
            assert module in GROUND, (path, module)
            assert module != "taciturn" or name == "checks", path
        else:
            room = [*module.split(".")[2:], name][0]
            same = room == Path(parts[0]).stem
            assert same or KERNEL_LAYER[room] < own, (path, module)


def entering(tree, *, custodian=False):
    """What is imported from within the kernel, or read of records, by what stands outside it."""
    for module, name in imported_names(tree):
        if not f"{module}.".startswith("taciturn.kernel."):
            continue
        rooms = module.split(".")[2:]
        public = len(rooms) == 1 and rooms[0] in KERNEL_LAYER and name is not None
        if rooms == ["exact"]:
            public = public and custodian
        if (rooms and not public) or (
            rooms and name not in importlib.import_module(module).__all__
        ):
            yield f"{module}:{name}"
    if not custodian:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in INSIDE:
                yield f".{node.attr}"


def test_nothing_outside_reaches_into_the_kernel():
    for path, tree in TREES.items():
        inside = str(path.relative_to(ROOT))
        if not inside.startswith("kernel/"):
            custodian = inside.startswith(CUSTODIANS)
            assert list(entering(tree, custodian=custodian)) == [], inside


@pytest.mark.parametrize(
    "planted",
    [
        "from taciturn.kernel.door.door import Live",
        "import taciturn.kernel.door.door",
        "from taciturn.kernel.exact import exact_answers",
        "from taciturn.kernel.door import no_such_name",
        "def rows(shards):\n    return shards.stacked.features",
        "def answer(oracle, shard):\n    return oracle.unnoised(shard, None, 1.0, None)",
    ],
)
def test_a_planted_way_into_the_kernel_is_caught(planted):
    assert len(list(entering(ast.parse(planted)))) == 1


def files_of(package):
    return sorted(Path(package.__path__[0]).rglob("*.py"))


def imported_names(tree):
    """Every name that is imported, with the module that it is imported from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


def reaching_in(tree, allowed=frozenset()):
    """What is imported from below a room of the core, or is not among its public names."""
    for module, name in imported_names(tree):
        rooms = module.split(".")
        if rooms[0] != "taciturn" or module in allowed:
            continue
        if name is None:
            wrong = len(rooms) > 1
        else:
            room = importlib.import_module(module)
            if room is taciturn and (ROOT / f"{name}.py").exists():  # a module of the ground floor
                continue
            wrong = len(rooms) > 2 + (rooms[1:2] == ["kernel"]) or name not in set(
                getattr(room, "__all__", vars(room))
            )
        if wrong:
            yield f"{module}:{name}"


@pytest.mark.parametrize("package", EXTENSIONS, ids=lambda package: package.__name__)
def test_an_extension_rests_on_the_public_interface_of_the_core(package):
    allowed = ENGINE if package is taciturn_federation else frozenset()
    for path in files_of(package):
        assert list(reaching_in(tree_of(path), allowed)) == [], path


@pytest.mark.parametrize(
    "planted",
    [
        "from taciturn.engine.planning import plan",
        "import taciturn.engine",
        "from taciturn.engine import no_such_name",
        "def late():\n    from taciturn.cli.console import emit",
    ],
)
def test_a_planted_import_from_within_is_caught(planted):
    assert len(list(reaching_in(ast.parse(planted), ENGINE))) == 1


def test_the_verifier_shares_no_line_with_the_library_and_is_read_in_an_evening():
    files = sorted(VERIFIER.glob("*.py"))
    names = [name for file in files for name in imported_packages(file)]
    assert set(names) <= {"taciturn_verify", "mpmath", *sys.stdlib_module_names}
    lines = {file.name: len(file.read_text().splitlines()) for file in files}
    assert lines.pop("account.py") <= 250
    assert lines.pop("charges.py") <= 150  # of accounts, too: what a charge costs
    assert sum(lines.values()) <= 810


def imported_packages(path):
    """The top-level packages that a file imports."""
    return {module.partition(".")[0] for module, _ in imported_names(tree_of(path))}


def test_no_package_imports_one_that_it_may_not():
    names = {package.__name__ for package in EXTENSIONS}
    for package, may in {taciturn: set(), **EXTENSIONS}.items():
        for path in files_of(package):
            foreign = names - may - {package.__name__}
            assert imported_packages(path) & foreign == set(), path


# rooms of power flow, from the lowest; files beside them are shared or on top
POWER = ("conic", "methods", "cases", "grids", "models", "state", "dispatch")


def rising_in_power(room, tree):
    modules = (module.split(".") for module, _ in imported_names(tree))
    used = [parts[1] for parts in modules if parts[0] == "taciturn_power" and len(parts) > 1]
    return [one for one in used if one in POWER and POWER.index(one) > POWER.index(room)]


@pytest.mark.parametrize("room", POWER)
def test_no_import_points_up_in_power_flow(room):
    package = Path(taciturn_power.__path__[0])
    files = [*package.glob(f"{room}/*.py"), *package.glob(f"{room}.py")]
    assert files
    for path in files:
        assert rising_in_power(room, tree_of(path)) == [], path
    assert rising_in_power("conic", ast.parse(f"from taciturn_power.{room} import x")) == (
        [] if room == "conic" else [room]
    )


def test_no_import_of_another_room_is_lazy_outside_the_command_line():
    lazy = {p: lazy_rooms(room_of(p), tree) for p, tree in TREES.items() if room_of(p) != "cli"}
    assert {path: names for path, names in lazy.items() if names} == {}


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
    inside = [(name or "").split(".") for name in names if (name or "").split(".")[0] == "taciturn"]
    return [".".join(name) for name in inside if name[1:2] != [room]]


def test_a_planted_lazy_import_is_caught():
    planted = ast.parse("def f():\n    from taciturn.engine import run\n    import scipy.signal")
    assert lazy_rooms("kernel", planted) == ["taciturn.engine"]
    assert lazy_rooms("engine", planted) == []


# they import an engine, in whose environment there is no taciturn
OF_ENGINES = {f"taciturn_federation.engines.{name}" for name in ("flower", "flare")}


def test_every_public_name_imports():
    for package in (taciturn, *EXTENSIONS):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name in OF_ENGINES:
                continue
            loaded = importlib.import_module(module.name)
            for name in getattr(loaded, "__all__", ()):
                assert getattr(loaded, name) is not None


def test_files_and_functions_stay_short():
    for path in [*FILES, *(path for package in EXTENSIONS for path in files_of(package))]:
        text = path.read_text()
        assert text.count("\n") < 800, path
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                size = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                assert size <= 60, (path, node.name)
