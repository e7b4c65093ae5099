"""A site that was struck off has no way back, and the command says what it saw of the hub."""

import functools
import os
import subprocess
import sys
import threading
import time

import pytest
from tests.federation.hubs import admitted_study, free_port, joined, proposed
from tests.federation.studies import key_of

from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn_federation import (
    admit,
    hub_configuration,
    renew_site,
    run_hub,
    after_strike,
    server_program,
    strike,
)
from taciturn_federation.hub import is_free
from taciturn_federation.keys import write_key

HUB = """
import sys, pathlib, time
from taciturn_federation import open_study, run_hub, server_program
study = open_study(pathlib.Path(sys.argv[1]))
print = lambda *words: (sys.stdout.write(" ".join(map(str, words)) + "\\n"), sys.stdout.flush())
run_hub(study, server_program(), host="127.0.0.1", port=None, stopped=lambda: False,
        event=lambda name, **values: print(name, values.get("pid", "")))
"""


def until(reached, seconds=20.0):
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.02)


class RunningHub:
    """The hub of a study on a thread of this process."""

    def __init__(self, study):
        self.events, self.stop = [], threading.Event()
        self.thread = threading.Thread(
            target=run_hub,
            args=(study, server_program()),
            kwargs={"host": "127.0.0.1", "port": None, "stopped": self.stop.is_set,
                    "event": lambda name, **values: self.events.append(name)},
        )  # fmt: skip

    def __enter__(self):
        self.thread.start()
        until(lambda: "hub_started" in self.events)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


@pytest.fixture
def study(tmp_path):
    pytest.importorskip("nats")
    return admitted_study(tmp_path, port=free_port())


def struck(study, capsys):
    """What the command says that strikes mercy off."""
    code = main(["study", "strike", study.name, "mercy", "--studies", str(study.folder.parent)])
    return code, "".join(capsys.readouterr())


def test_no_key_of_a_site_that_was_ever_struck_off_lives_on_in_a_kept_proposal(study, tmp_path):
    made, (mercy, _) = study
    gone = []
    for number in range(2):
        proposed(made, nonce=f"0{number}")
        before = made.members()
        (site,) = [one.participant for one in before if one.participant.name == "mercy"]
        gone += [site.nkey, site.key]
        strike(made, "mercy")
        mercy.folder.rename(tmp_path / f"away-{number}")
        mercy = joined(made, tmp_path, "mercy")
    assert len(set(gone)) == 4
    assert set(gone) <= made.struck()
    signed = proposed(made, nonce="02")
    assert len(made.proposals()) == 3
    users = {user.nkey for user in made.users()}
    assert not users & set(gone)
    assert users == {made.nkey().public, *(one.nkey for one in signed.participants)}
    text = hub_configuration(made, host="127.0.0.1")
    assert not [key for key in gone if key in text]
    assert mercy.take_part(signed) == 0


def test_neither_key_of_a_site_that_was_struck_off_comes_back(study):
    """Also not with the other one made anew."""
    made, (mercy, _) = study
    _, first = renew_site(mercy, None)
    strike(made, "mercy")
    with pytest.raises(InputError, match="was struck off"):
        admit(made, first)
    keys = {"nkey.key": mercy.nkey().key, "signing.key": mercy.signing_key()}
    for file, kept in keys.items():
        (mercy.folder / file).unlink()
        write_key(mercy.folder / file, key_of(len(file)))
        _, request = renew_site(mercy, None)
        with pytest.raises(InputError, match="was struck off"):
            admit(made, request)
        (mercy.folder / file).unlink()
        write_key(mercy.folder / file, kept)


def test_the_command_says_that_the_hub_disconnected_the_site_once_it_has(study, capsys):
    made, _ = study
    signed = proposed(made)
    gone = signed.participants[0].nkey
    with RunningHub(made) as hub:
        assert gone in (made.folder / "hub.conf").read_text()
        code, said = struck(made, capsys)
        assert (code, "has disconnected it" in said) == (0, True), said
        assert gone not in (made.folder / "hub.conf").read_text()
        until(lambda: "hub_reloaded" in hub.events)
    assert b"Reloaded server configuration" in (made.folder / "hub.log").read_bytes()


def test_the_command_says_where_no_hub_runs_and_what_listens_there(study, capsys):
    made, _ = study
    code, said = struck(made, capsys)
    assert (code, "no hub of it runs on this machine." in said) == (0, True)
    assert "lets mercy in until it takes the new configuration" in said


def test_the_command_fails_where_the_hub_does_not_take_the_configuration(
    study, capsys, monkeypatch
):
    made, _ = study
    proposed(made)
    monkeypatch.setattr("taciturn_federation.hub.Server.reload", lambda self: False)
    quickly = functools.partial(after_strike, patience=1.0)
    monkeypatch.setattr("taciturn_federation.commands.parties.after_strike", quickly)
    with RunningHub(made) as hub:
        code, said = struck(made, capsys)
        until(lambda: "hub_stale" in hub.events)
    assert (code, "mercy may still be connected" in said) == (2, True), said


def test_a_server_ends_with_a_hub_that_is_killed_and_the_next_one_starts(study, capsys):
    """It ran on: strike then changed nothing, and the next hub found its port taken."""
    made, _ = study
    signed = proposed(made)
    words = [sys.executable, "-c", HUB, str(made.folder)]
    hub = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    name, server = hub.stdout.readline().split()
    assert name == "hub_started"
    assert not is_free(_port(made))
    hub.kill()
    hub.communicate()
    until(lambda: is_free(_port(made)) and not _alive(int(server)), seconds=5.0)
    with RunningHub(made):
        assert not is_free(_port(made))
    code, said = struck(made, capsys)
    assert (code, "no hub of it runs on this machine." in said) == (0, True)
    assert signed.participants[0].name == "mercy"


def test_a_second_hub_of_a_study_is_refused(study):
    made, _ = study
    with RunningHub(made), pytest.raises(InputError, match="another hub of study 'diabetes' runs"):
        run_hub(made, server_program(), host="127.0.0.1", port=None, event=print,
                stopped=lambda: True)  # fmt: skip


def test_a_hub_whose_disk_is_full_runs_on_and_takes_the_study_later(study, monkeypatch):
    made, _ = study

    def full(text, out):
        raise InputError("no room")

    with RunningHub(made) as hub:
        with monkeypatch.context() as patched:
            patched.setattr("taciturn_federation.hub.write_text", full)
            signed = proposed(made)
            until(lambda: "hub_stale" in hub.events)
            assert hub.thread.is_alive()
        until(lambda: "hub_reloaded" in hub.events)
        assert hub.events.count("hub_stale") == 1
    assert signed.participants[0].nkey in (made.folder / "hub.conf").read_text()


def _port(study):
    return int(study.invitation.hub.rpartition(":")[2])


def _alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process}/stat") as stat:
        return stat.read().split()[2] != "Z"
