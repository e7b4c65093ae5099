"""The same signed proposal over NATS, Flower and NVFlare: real processes, some of them killed.

An engine is not among the pinned packages: a test is skipped unless TACITURN_FLOWER or
TACITURN_NVFLARE names the folder of programs of an environment in which it is installed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.federation.engines import NAMES, Machine, called, environment, listens, prepare
from tests.federation.hubs import free_port

pytest.importorskip("nats")
pytestmark = pytest.mark.slow
ROUNDS = 4
PATIENCE = 900  # seconds: an engine starts many processes, and a test machine may be busy


def programs(variable, program):
    """The folder of an engine's programs; the test is skipped where there is none."""
    folder = os.environ.get(variable)
    if folder is None or not (Path(folder) / program).exists():
        pytest.skip(f"{variable} names no folder with {program}: the engine is not installed")
    return Path(folder)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Folders of three parties with a signed proposal, and what a run over NATS gives."""
    if not {"TACITURN_FLOWER", "TACITURN_NVFLARE"} & os.environ.keys():
        pytest.skip("no engine is installed: neither TACITURN_FLOWER nor TACITURN_NVFLARE is set")
    folder = tmp_path_factory.mktemp("engines") / "prepared"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACITURN_STATE_DIR", str(folder / "state"))
        prepare(folder, rounds=ROUNDS)
        machine = Machine(folder, folder.parent / "nats")
        try:
            machine.start("hub", sys.executable, "-m", "taciturn", "study", "hub", "diabetes",
                          "--host", "127.0.0.1")  # fmt: skip
            machine.parties(sockets=False)
            machine.finish(seconds=PATIENCE)
            expected = machine.results(), machine.ledgers()
        finally:
            machine.stop()
    return folder, expected


def check_same(machine, expected):
    """Every party has the model that NATS gives, to the bit, and every site the same entries."""
    models, ledgers = expected
    assert models[0] == models[1] == models[2]
    assert len(ledgers[0]) == ROUNDS
    assert (machine.results(), machine.ledgers()) == expected


def test_over_flower_a_site_and_a_node_are_killed_and_all_is_as_over_nats(prepared, tmp_path):
    at = programs("TACITURN_FLOWER", "flower-superlink")
    machine = Machine(prepared[0], tmp_path / "flower")
    link, home = free_port(), machine.folder / "flwr"
    home.mkdir()
    connection = f'[superlink.here]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
    (home / "config.toml").write_text(connection)
    env = {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "PYTHONPATH": "",
           "FLWR_DISABLE_UPDATE_CHECK": "1", "PATH": f"{at}:{os.environ['PATH']}"}  # fmt: skip

    def submit():
        done = subprocess.run(
            [at / "flwr", "run", "app", "here"], cwd=machine.folder, check=False, text=True,
            env=environment(machine.folder, **env), capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        machine.start(
            "link", at / "flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", link,
            "--disable-runtime-dependency-installation", env=env,
        )  # fmt: skip
        machine.until(lambda: listens(link), seconds=PATIENCE)
        for name in NAMES:
            machine.start(
                f"node-{name}", at / "flower-supernode", "--insecure", "--superlink",
                f"127.0.0.1:{link}", "--port", free_port(), "--node-config",
                f'sockets="{machine.sockets(name)}"', env=env,
            )  # fmt: skip
        called(machine.folder, "study", "engine", "flower", "--sockets",
               str(machine.sockets("coordinator")), "--out", "app")  # fmt: skip
        machine.parties()
        submit()
        machine.until_round(1, seconds=PATIENCE)
        machine.restart("mercy")
        machine.until_round(2, seconds=PATIENCE)
        machine.restart("node-sinai")
        machine.finish(seconds=PATIENCE)
    finally:
        machine.stop()
    check_same(machine, prepared[1])


def allow(local):
    """Let a server or client of NVFlare use what its owner has installed."""
    file = next(local / name for name in ("resources.json", "resources.json.default")
                if (local / name).exists())  # fmt: skip
    values = json.loads(file.read_text())
    values["class_allow_list"].append("taciturn_engine")
    (local / "resources.json").write_text(json.dumps(values))


def test_over_nvflare_a_site_and_its_client_are_killed_and_all_is_as_over_nats(prepared, tmp_path):
    at = programs("TACITURN_NVFLARE", "nvflare")
    machine, port = Machine(prepared[0], tmp_path / "nvflare"), free_port()
    kits = machine.folder / "poc" / "example_project" / "prod_00"
    env = {"NVFLARE_POC_WORKSPACE": str(machine.folder / "poc"), "HOME": str(machine.folder),
           "PYTHONPATH": "", "PATH": f"{at}:{os.environ['PATH']}"}  # fmt: skip

    def nvflare(*words):
        return subprocess.run(
            [at / "nvflare", *words], cwd=machine.folder, check=False, text=True,
            env=environment(machine.folder, **env), capture_output=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def train(name, kind, *settings, **more):
        machine.start(
            name, at / "python", "-m", f"nvflare.private.fed.app.{kind}.{kind}_train", "-m",
            kits / name.removeprefix("node-"), "-s", f"fed_{kind}.json", "--set",
            "secure_train=true", "org=nvidia", "config_folder=config", *settings,
            env=env | more,
        )  # fmt: skip

    try:
        done = nvflare("poc", "prepare", "-c", *NAMES, "--force")
        assert done.returncode == 0, done.stdout + done.stderr
        for file in kits.glob("*/startup/fed_*.json"):
            file.write_text(file.read_text().replace("8002", str(port)))
        called(machine.folder, "study", "engine", "nvflare", "--sockets",
               str(machine.sockets("coordinator")), "--out", "app")  # fmt: skip
        for name in ("server", *NAMES):
            shutil.copytree(machine.folder / "app" / "custom", kits / name / "local" / "custom")
            allow(kits / name / "local")
        train("server", "server")
        machine.until(lambda: listens(port), seconds=PATIENCE)
        for name in NAMES:
            folder = str(machine.sockets(name))
            train(f"node-{name}", "client", f"uid={name}", TACITURN_SOCKETS=folder)
        machine.parties()
        kit = ("--startup-kit", str(kits / "lead@nvidia.com"))
        machine.until(lambda: not nvflare("job", "submit", "-j", "app/job", *kit).returncode,
                      seconds=PATIENCE)  # fmt: skip
        machine.until_round(1, seconds=PATIENCE)
        machine.restart("mercy")
        machine.finish(seconds=PATIENCE)
    finally:
        machine.stop()
    check_same(machine, prepared[1])
