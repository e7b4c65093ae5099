"""The certificate of every run stays, whatever is forced and whenever the process ends."""

import importlib
import json
import os
import shutil
from pathlib import Path

import pytest

from taciturn.errors import InputError
from taciturn.report import numbered, write_folder

# the package hands on a function of that name
saving = importlib.import_module("taciturn.report.save")

NAMES = ("plan.json", "model.json", "report.html")


def files(run):
    """The files of a run; plan and model state its certificate."""
    stated = json.dumps({"certificate": {"run": run}})
    return dict.fromkeys(NAMES, stated)


def report(run, out, **changes):
    certificate = json.dumps({"certificate": {"run": run}, "own": True})
    return write_folder(files(run), out, force=True, certificate=certificate, **changes)


def runs_in(folder):
    """The runs whose certificates stand in a folder, in the order of their numbers."""
    texts = (file.read_text() for file in numbered(folder).values())
    return [json.loads(text)["certificate"]["run"] for text in texts]


def test_every_run_that_is_forced_into_a_folder_adds_its_certificate(tmp_path):
    names = [report(run, tmp_path / "r").name for run in range(3)]
    assert names == [f"certificate-{number}.json" for number in (1, 2, 3)]
    assert runs_in(tmp_path / "r") == [0, 1, 2]
    assert json.loads((tmp_path / "r" / "model.json").read_text())["certificate"]["run"] == 2
    assert {p.name for p in (tmp_path / "r").iterdir()} == {*NAMES, *names}


def test_a_number_that_was_given_is_not_given_again(tmp_path):
    for run in range(3):
        report(run, tmp_path)
    (tmp_path / "certificate-1.json").unlink()
    assert report(3, tmp_path).name == "certificate-4.json"


def test_files_without_a_certificate_leave_those_that_are_there(tmp_path):
    report(0, tmp_path)
    assert write_folder({"report.html": "another page"}, tmp_path, force=True) is None
    assert runs_in(tmp_path) == [0]
    assert json.loads((tmp_path / "plan.json").read_text())["certificate"]["run"] == 0


class Killed(BaseException):
    """The end of the process: nothing runs after it, no clean-up either."""


STEPS = ((os, "link"), (shutil, "rmtree"), *((Path, n) for n in ("mkdir", "replace", "unlink")))


def killed_at(step, monkeypatch, work):
    """Do some work up to one of the calls that change files; return whether it was cut short."""
    done = 0

    def counted(call):
        def counting(*given, **named):
            nonlocal done
            done += 1
            if done > step:
                raise Killed
            return call(*given, **named)

        return counting

    with monkeypatch.context() as patched:
        for place, name in (*STEPS, (saving, "private_opener")):
            patched.setattr(place, name, counted(getattr(place, name)))
        try:
            work()
        except Killed:
            return True
    return False


def lost(folder, monkeypatch):
    """The runs whose certificates are gone from a folder if a process ends at some step."""
    gone, step, cut = set(), 0, True
    while cut:
        out = folder / f"{step}"
        out.mkdir()
        report("first", out)
        report("old", out)
        before = set(runs_in(out))
        cut = killed_at(step, monkeypatch, lambda out=out: report("new", out))
        now = json.loads((out / "model.json").read_text())["certificate"]["run"]
        # certificates stay; if the model is the new one, its certificate is there, too
        gone |= (before | {now}) - set(runs_in(out))
        step += 1
    assert step > 10
    return gone


def test_a_process_that_ends_at_any_step_loses_no_certificate(tmp_path, monkeypatch):
    assert lost(tmp_path, monkeypatch) == set()


def test_a_certificate_that_replaces_the_earlier_one_is_caught(tmp_path, monkeypatch):
    def replaced(text, folder):
        (folder / "certificate-1.json").unlink(missing_ok=True)
        (folder / "certificate-1.json").write_text(text)
        return "certificate-1.json"

    monkeypatch.setattr(saving, "add_certificate", replaced)
    assert lost(tmp_path, monkeypatch) >= {"old"}


def test_a_certificate_that_comes_last_is_caught(tmp_path, monkeypatch):
    added, move, waiting = saving.add_certificate, saving._move, []

    def late(part, target, obsolete):
        move(part, target, obsolete)
        added(waiting.pop(), target)

    def postponed(text, folder):
        waiting.append(text)
        return "none yet"

    monkeypatch.setattr(saving, "_move", late)
    monkeypatch.setattr(saving, "add_certificate", postponed)
    assert lost(tmp_path, monkeypatch) >= {"new"}


def test_two_processes_at_once_get_two_numbers(tmp_path, monkeypatch):
    report(0, tmp_path)
    seen = numbered(tmp_path)
    monkeypatch.setattr(saving, "numbered", lambda folder: {})  # it looked too early
    saving.add_certificate("late", tmp_path)
    monkeypatch.undo()
    assert set(numbered(tmp_path)) == {1, 2}
    assert seen[1].read_text() != "late"


def test_a_file_system_without_links_keeps_them_all_too(tmp_path, monkeypatch):
    def refuse(*given):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    for run in range(3):
        report(run, tmp_path)
    assert runs_in(tmp_path) == [0, 1, 2]


def test_a_certificate_that_cannot_be_written_leaves_the_report_as_it_was(tmp_path, monkeypatch):
    report(0, tmp_path)
    before = {p.name: p.read_text() for p in tmp_path.iterdir()}
    opener = saving.private_opener

    def full(path, flags):
        if Path(path).name.startswith(".certificate"):
            raise OSError(28, "No space left on device")
        return opener(path, flags)

    monkeypatch.setattr(saving, "private_opener", full)
    with pytest.raises(InputError, match="No space left"):
        report(1, tmp_path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == before
