"""The units and the container file that the page for operators shows are used as they stand."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from tests.federation.hubs import free_port
from tests.federation.studies import BOUNDS, write_records
from typer.main import get_command

from taciturn.cli.main import main
from taciturn_federation.commands.engines import site, study

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "operate.md"
UNITS = ("taciturn-hub@.service", "taciturn-site@.service")
INSTRUCTIONS = {"FROM", "COPY", "RUN", "USER", "ENV", "VOLUME", "ENTRYPOINT"}


def shown(title):
    """The block of the page with a title."""
    found = re.search(rf'```\w+ title="{re.escape(title)}"\n(.*?)```', PAGE.read_text(), re.S)
    assert found, title
    return found.group(1)


def verified(name, unit, folder):
    """What systemd says of a unit; its program is one that is there."""
    file = folder / name
    file.write_text(unit.replace("/opt/taciturn/bin/taciturn", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(folder / name.replace("@", "@diabetes"))],
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode, [line for line in done.stderr.splitlines() if str(file) in line]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_has_nothing_to_say_of_a_unit_and_something_of_a_spoilt_one(tmp_path, name):
    unit = shown(name)
    assert verified(name, unit, tmp_path) == (0, [])
    code, lines = verified(name, unit.replace("RestartSec=", "RestartSeconds="), tmp_path)
    assert lines, code


def options(words):
    return {word.split("=")[0] for word in words if word.startswith("--")}


def test_the_commands_of_unit_and_container_have_options_that_there_are():
    known, commands = {}, {}
    for group, name, file in ((study, "hub", UNITS[0]), (site, "run", UNITS[1])):
        known[name] = {n for o in get_command(group).commands[name].params for n in o.opts}
        unit = shown(file).replace("\\\n", " ")
        commands[name] = re.search(r"ExecStart=(.*)", unit).group(1)
    text = PAGE.read_text().replace("\\\n", " ")
    podman = re.search(r"taciturn-site site run (.*)", text).group(1)
    for name, given in (*commands.items(), ("run", podman)):
        assert options(shlex.split(given))
        assert options(shlex.split(given)) <= known[name]
    assert not options(["--nothing-of-the-kind"]) <= known["run"]


def test_the_container_file_installs_the_clone_and_runs_as_a_user():
    lines = shown("Containerfile").replace("\\\n", " ").splitlines()
    parsed = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert {instruction for instruction, _ in parsed} == INSTRUCTIONS
    file = dict(parsed)
    source, clone = file["COPY"].split()
    assert source == "."
    assert f"{clone} {clone}/federation" in file["RUN"]
    assert json.loads(file["ENTRYPOINT"]) == ["taciturn"]
    folders = dict(word.split("=") for word in file["ENV"].split())
    volumes = set(json.loads(file["VOLUME"]))
    assert {folders["XDG_DATA_HOME"], folders["XDG_STATE_HOME"]} == volumes
    order = [instruction for instruction, _ in parsed]
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert "root" not in file["USER"]


# the container and the services at work


def environment(folder, inside=""):
    """The places of one machine; of systemd's variables only these."""
    state = folder / inside / "state"
    return {"XDG_DATA_HOME": str(folder / inside / "data"), "XDG_STATE_HOME": str(state)}


def called(folder, *words, inside=""):
    """The output of a command that is run in this process."""
    output = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        mock.patch.dict(os.environ, environment(folder, inside)),
    ):
        os.environ.pop("TACITURN_STATE_DIR", None)
        code = main(words)
    assert code == 0, output.getvalue()
    return output.getvalue()


def founded(folder, inside=""):
    """A study of whose sites none has joined yet, and its invitation."""
    (folder / "bounds.toml").write_text(BOUNDS)
    hub = f"127.0.0.1:{free_port()}"
    called(folder, "study", "new", "diabetes", "--bounds", "bounds.toml", "--hub", hub,
           inside=inside)  # fmt: skip


def proposed(folder, inside=""):
    """Admit the site whose request is there, and propose."""
    request = json.loads((folder / "mercy.request").read_text())
    assert request["name"] == "mercy"
    with mock.patch.object(sys, "stdin", io.StringIO("y\n")):
        called(folder, "study", "admit", "diabetes", "mercy.request", inside=inside)
    called(folder, "study", "propose", "diabetes", "--epsilon", "1", "--delta", "1e-4",
           "--rounds", "4", inside=inside)  # fmt: skip


def command(folder, *words, inside=""):
    """A command of the coordinator as a process."""
    values = os.environ | environment(folder, inside)
    values.pop("TACITURN_STATE_DIR", None)
    return subprocess.Popen([sys.executable, "-m", "taciturn", *words], cwd=folder, env=values)


def service(name, folder):
    """Start the process of a unit for `diabetes`, whose folders are below this one."""
    unit = shown(name).replace("\\\n", " ").replace("%i", "diabetes")
    places = {"/var/lib/taciturn": folder / "lib", "/var/log/taciturn": folder / "log"}
    for place, here in places.items():
        unit = unit.replace(place, str(here))
    lines = unit.split("[Service]")[1].split("[Install]")[0].split("\n")
    settings = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    for kind, here in zip(("State", "Logs"), places.values(), strict=True):
        assert settings[f"{kind}Directory"] == "taciturn"
        here.mkdir(mode=int(settings[f"{kind}DirectoryMode"], 8), exist_ok=True)
    program, *words = shlex.split(settings["ExecStart"])
    assert program == "/opt/taciturn/bin/taciturn"
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "XLA_FLAGS")}
    kept |= dict(word.split("=", 1) for word in shlex.split(settings["Environment"]))
    return subprocess.Popen(
        [sys.executable, "-m", "taciturn", *words], cwd=settings["WorkingDirectory"], env=kept,
        umask=int(settings["UMask"], 8), stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.slow
def test_hub_and_site_run_as_their_units_say_and_keep_the_model_for_their_user_alone(tmp_path):
    lib = tmp_path / "lib"
    lib.mkdir(mode=0o700)
    write_records(lib / "patients.csv", 60, seed=1)
    founded(lib)
    called(lib, "site", "join", "diabetes.invitation", "--name", "mercy", "--data", "patients.csv",
           "--epsilon", "2", "--delta", "1e-3", "--out", "mercy.request")  # fmt: skip
    proposed(lib)
    parties = [service(name, tmp_path) for name in UNITS]
    try:
        coordinator = command(lib, "study", "run", "diabetes.proposal", "--quiet")
        assert coordinator.wait(200) == 0
        assert parties[1].wait(60) == 0
    finally:
        for party in parties:
            party.terminate()
    assert parties[0].wait(30) == 0
    assert (lib / "report-diabetes" / "model.json").is_file()
    logs = {file.name for file in (tmp_path / "log").iterdir()}
    assert logs == {"hub-diabetes.log", "diabetes.log"}
    written = [*(tmp_path / "log").iterdir(), *(lib / "report-diabetes").iterdir(),
               *(lib / "data" / "taciturn" / "accounts").iterdir()]  # fmt: skip
    assert {stat.S_IMODE(file.stat().st_mode) for file in written} == {0o600}
    assert {stat.S_IMODE(file.parent.stat().st_mode) for file in written} == {0o700}


def podman_at(folder):
    """Put our podman on the path, or skip: a real one may want images from elsewhere."""
    mounts = ["unshare", "-m", "mount", "--bind", "/usr", "/usr"]
    if os.name != "posix" or os.geteuid() or subprocess.run(mounts, check=False).returncode:
        pytest.skip("clean trees are made with mounts, for which the rights are missing")
    (folder / "bin").mkdir()
    program = folder / "bin" / "podman"
    script = ROOT / "tests" / "docs" / "podman.py"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    program.chmod(0o755)
    wheels = folder / "store" / "wheels"
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--dest", wheels, "hatchling>=1.25"]
    if subprocess.run(fetch, check=False).returncode:
        pytest.skip("hatchling builds our wheels, and the package index cannot be reached")
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PODMAN_STORE": str(folder / "store")}


def clone(folder):
    """The files of this checkout that git knows, as a clone has them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


@pytest.mark.slow
def test_the_container_is_built_joins_is_charged_and_keeps_its_model_line_by_line(tmp_path):
    place, records = tmp_path / "work", tmp_path / "records"
    place.mkdir()
    records.mkdir()
    values = podman_at(tmp_path)
    clone(place / "taciturn")
    write_records(records / "patients.csv", 60, seed=1)
    (place / "Containerfile").write_text(shown("Containerfile"))
    founded(place)
    (block,) = re.findall(r"```console\n(\$ podman build.*?)```", PAGE.read_text(), re.S)
    lines = block.replace("\\\n", " ").replace("/srv/records", str(records)).splitlines()
    assert all(line.startswith("$ ") for line in lines)
    hub, coordinator, before = None, None, []
    try:
        for line in lines:
            words = line.removeprefix("$ ")
            if "site run" in words:
                proposed(place)
                hub = command(place, "study", "hub", "diabetes", "--host", "127.0.0.1")
                coordinator = command(place, "study", "run", "diabetes.proposal", "--quiet")
            done = subprocess.run(
                ["bash", "-ec", "\n".join([*before, words])], cwd=place, env=values, text=True,
                capture_output=True, timeout=400, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (words, done.stdout, done.stderr)
            before += [words] if words.startswith("run=") else []
        assert coordinator.wait(60) == 0
    finally:
        for party in filter(None, (hub, coordinator)):
            party.terminate()
            party.wait(30)
    kept = subprocess.run(["tar", "-tf", place / "reports.tar"], capture_output=True, text=True,
                          check=True).stdout.split()  # fmt: skip
    assert any(name.endswith("/model.json") for name in kept)
    volume = tmp_path / "store" / "volumes" / "site-data"
    assert list(volume.rglob("mercy.account"))
    assert {file.stat().st_uid for file in volume.rglob("*")} == {10001}
