"""What the processes of a training compare before a charge, and which rows each of them keeps."""

import dataclasses
import json
import os
import socket

import numpy as np
import pytest
from tests.cli.test_cli_cluster import BOUNDS

from tacit.cli import accounts
from tacit.cli.children import FAILED, Children
from tacit.cli.cluster import DONE
from tacit.cli.outcome import Output
from tacit.cli.worker import check_among, is_loopback
from tacit.engine.processes import Processes
from tacit.errors import InputError
from tacit.problems import Devices, Draw
from tacit.proposal import Request, StructureRequest
from tacit.tables import Source, read_files
from tacit.training import proposal_ahead

OUTPUT = Output(None, force=False, reference=False, oracle_metrics=False, json=False)


class Echo:
    """A store in which the other process says what this one does, but for some facts."""

    def __init__(self, **others):
        self.others, self.said = others, {}

    def key_value_set(self, name, text):
        facts = json.loads(text)
        self.said[name] = text
        self.said[f"{name[:-1]}1"] = json.dumps({**facts, **self.others})

    def key_value_dir_get(self, room):
        return [(name, text) for name, text in self.said.items() if name.startswith(room)]


def among(options, **others):
    processes = Processes(0, 2, Echo(**others))
    check_among(processes, OUTPUT, options, graph_from=None)


def test_processes_with_different_options_are_told_which(tmp_path):
    options = {"agent_column": "here", "seed": None, "bounds": tmp_path / "a.toml"}
    among(options)
    with pytest.raises(InputError, match=r"differ in --agent-column \(here and there\)"):
        among(options, **{"--agent-column": "there"})
    with pytest.raises(InputError, match=r"differ in --seed \(None and 3\)"):
        among(options, **{"--seed": 3})
    with pytest.raises(InputError, match="differ in --bounds"):
        among(options, **{"--bounds": None})
    with pytest.raises(InputError, match="differ in numpy"):
        among(options, numpy="1.0")


def test_digests_are_compared_and_not_shown():
    with pytest.raises(InputError) as refused:
        Processes(0, 2, Echo(files=["b" * 64])).agree("files", {"files": ["a" * 64]})
    assert "differ in files;" in str(refused.value)
    assert "aaa" not in str(refused.value)


def test_what_processes_cannot_do_is_refused_before_they_are_compared(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="read once only"):
        among({"data": tmp_path / "pipe.csv"})
    check_among(None, OUTPUT, {"data": tmp_path / "pipe.csv"}, graph_from="private")


def test_names_of_this_machine_alone_are_known():
    """Not its name among others, which some systems have for loopback in a file of their own."""
    assert all(map(is_loopback, ("127.0.0.1", "127.0.0.2", "localhost", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.0.2.1", "", socket.gethostname())))


class Ended:
    """A process that was killed, with what it said before."""

    def __init__(self, *lines):
        self.returncode, self.stdout = -9, None
        self.stderr = [f"{line}\n" for line in lines]

    def poll(self):
        return self.returncode


@pytest.mark.unchecked
@pytest.mark.parametrize("lines", [(), ("a line of XLA",), (DONE,)])
def test_a_killed_process_is_said_to_have_released_nothing_only_where_that_is_so(lines, capsys):
    assert Children({0: Ended(*lines)}, charges=True, lines={0: []}).code() == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("tacit: error: process 0 of this run ended by signal 9")
    assert ("nothing was released" in said) == (DONE not in lines)


@pytest.mark.unchecked
def test_why_another_process_stopped_is_told_where_it_cannot_say_so_itself(capsys):
    other = "tacit: error: process 0 of this run stopped: RuntimeError"
    children = Children({0: Ended(), 1: Ended(other)}, charges=True, lines={0: [], 1: []})
    assert children.code() == FAILED
    assert capsys.readouterr().err == f"{other}\n"


MARKED = 77.125  # an age that one row has, of the first agent


class SecondOfTwo(Devices):
    """Devices of two processes, seen from the second one."""

    def local(self, agents):
        return range(agents // 2, agents)


class FirstOfTwo(Devices):
    """The same, seen from the first one."""

    def local(self, agents):
        return range(agents // 2)


def kept(tmp_path, monkeypatch, devices, **asked):
    """What a process keeps of a table in which one row of the first agent is marked."""
    draw = np.random.default_rng(0)
    ages, doses = np.round(draw.uniform(0, 70, 200), 1), np.round(draw.uniform(0, 1, 200), 3)
    ages[8] = MARKED
    rows = [f"{a},{d},{('no', 'yes')[n % 3 == 0]},s{n % 4}" for n, (a, d) in
            enumerate(zip(ages, doses, strict=True))]  # fmt: skip
    (tmp_path / "ill.csv").write_text("\n".join(["age,dose,ill,site", *rows]) + "\n")
    (tmp_path / "ill.toml").write_text(BOUNDS)
    source = Source(
        path=tmp_path / "ill.csv", target="ill", bounds=tmp_path / "ill.toml", agent_column="site"
    )
    files = read_files(source)
    request = Request(epsilon=1.0, delta=1e-5, rounds=5, **asked)
    proposal = proposal_ahead(files, request, StructureRequest(), agents=None)
    monkeypatch.setattr(accounts, "Devices", devices)
    monkeypatch.setattr(accounts, "check_devices", lambda *_, **__: None)
    processes = Processes(0, 2, Echo())
    monkeypatch.setattr(Processes, "blinded", lambda processes, digests: digests)
    monkeypatch.setattr(accounts, "shared_draw", lambda draw, processes: Draw(seed=0))
    records, _ = accounts.charged_records(files, proposal, request.methods, None, None, processes)
    return records


def arrays_in(thing, seen=None):
    """All arrays that something holds, however deep."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from arrays_in(value, seen)
    elif isinstance(thing, (tuple, list)):
        for value in thing:
            yield from arrays_in(value, seen)
    elif hasattr(thing, "__dict__"):
        yield from arrays_in(vars(thing), seen)


@pytest.mark.parametrize("asked", [{}, {"evaluate": 0.2}])
def test_a_row_of_another_process_is_in_nothing_that_a_process_keeps(tmp_path, monkeypatch, asked):
    held = {}
    for devices in (FirstOfTwo, SecondOfTwo):
        records = kept(tmp_path, monkeypatch, devices, **asked)
        parts = [part for part in arrays_in(records) if part.dtype.kind == "f"]
        assert parts
        held[devices] = any(marked(part) for part in parts)
        assert len(records.counts) == 4
        assert len(records.owners) == 2
    assert held == {FirstOfTwo: True, SecondOfTwo: False}


def marked(part):
    """Whether a cell is the marked age, as it is encoded for its bounds and two columns."""
    coded = 2 * MARKED / 100 - 1
    return bool(np.any(np.isclose(np.abs(part)[..., None], [coded, coded / np.sqrt(3)], rtol=1e-6)))


def test_the_fields_that_hold_rows_are_all_searched(tmp_path, monkeypatch):
    """Planted fault: a field that keeps all rows is seen by the same search."""
    records = kept(tmp_path, monkeypatch, SecondOfTwo)
    whole = kept(tmp_path, monkeypatch, FirstOfTwo)
    spoiled = dataclasses.replace(records, parts=whole.parts, owners=whole.owners)
    assert any(marked(part) for part in arrays_in(spoiled) if part.dtype.kind == "f")
