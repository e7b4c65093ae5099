"""The app of an engine: a folder with the files of `engines`, in the form that the engine runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from taciturn.errors import InputError
from taciturn.models import write_text

PACKAGE = "taciturn_engine"
_FLOWER = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "taciturn-study"
version = "0.1.0"
description = "Delivers the signed messages of a study; holds no data and no key"
dependencies = ["flwr>=1.42"]

[tool.hatch.build.targets.wheel]
packages = ["{package}"]

[tool.flwr.app]
publisher = "taciturn"

[tool.flwr.app.components]
serverapp = "{package}.flower:server"
clientapp = "{package}.flower:client"

[tool.flwr.app.config]
sockets = "{sockets}"
leave = 60
"""


_META = {"name": "taciturn-study", "min_clients": 1, "resource_spec": {},
         "deploy_map": {"app": ["@ALL"]}}  # fmt: skip
_SITE = {"format_version": 2, "components": [], "executors": [
    {"tasks": ["*"], "executor": {"path": f"{PACKAGE}.flare.SiteExecutor", "args": {}}}
]}  # fmt: skip


class App(NamedTuple):
    """The app of an engine."""

    files: Callable[[Path], dict[str, str]]  # their text, from the folder of the coordinator
    run: str  # how it is run


def _flower(sockets: Path) -> dict[str, str]:
    project = _FLOWER.format(package=PACKAGE, sockets=sockets.absolute())
    return {"pyproject.toml": project, **_package(PACKAGE, "flower.py")}


def _flare(sockets: Path) -> dict[str, str]:
    args = {"sockets": str(sockets.absolute()), "leave": 60}
    study = {"id": "study", "path": f"{PACKAGE}.flare.StudyController", "args": args}
    server = {"format_version": 2, "components": [], "workflows": [study]}
    job = {"meta.json": _META, "app/config/config_fed_server.json": server,
           "app/config/config_fed_client.json": _SITE}  # fmt: skip
    return _package(f"custom/{PACKAGE}", "flare.py") | {
        f"job/{name}": json.dumps(values, indent=2) + "\n" for name, values in job.items()
    }


def _package(folder: str, *names: str) -> dict[str, str]:
    """Return the files that an engine runs."""
    inside = files("taciturn_federation.engines")
    wanted = ("__init__.py", "delivery.py", "routing.py", *names)
    return {f"{folder}/{name}": (inside / name).read_text(encoding="utf-8") for name in wanted}


APPS: Mapping[str, App] = {
    "flower": App(_flower, "flwr run {folder} CONNECTION, where flwr is installed"),
    "nvflare": App(
        _flare,
        f"copy {{folder}}/custom into local/ of the startup kits of server and sites, allow "
        f"{PACKAGE} in their class_allow_list, then nvflare job submit -j {{folder}}/job",
    ),
}


def write_app(engine: str, sockets: Path, folder: Path) -> str:
    """Write the app of an engine to a new folder and return how it is run.

    `sockets` is the folder in which the coordinator listens. Raises `InputError` if there is no
    such engine, or the folder is there already.
    """
    if engine not in APPS:
        raise InputError(f"no engine {engine[:50]!r} is known; choose {' or '.join(APPS)}")
    if folder.exists():
        raise InputError(f"{folder} exists; name a new folder for the app")
    for name, text in APPS[engine].files(sockets).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(text, file)
    return APPS[engine].run.format(folder=folder)
