"""What the processes of a training compare before a charge, and which rows each of them keeps."""

import dataclasses
import json
import os

import numpy as np
import pytest
from tests.cli.test_cli_cluster import BOUNDS

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli.cluster import check_among
from taciturn.cli.outcome import Output
from taciturn.engine.processes import Processes
from taciturn.errors import InputError
from taciturn.kernel.records import Devices, Draw
from taciturn.tables import Source, read_files
from taciturn.training import Division, Request, StructureRequest, count_files, proposal_for
from taciturn.training.training import agree, read, train

OUTPUT = Output(None, force=False, reference=False, oracle_metrics=False, json=False)


class Echo(Processes):
    """One of two processes; the other has the same facts, but for some."""

    def gather(self, content):
        facts = json.loads(content)
        return [content, json.dumps({**facts, **OTHERS}).encode()]


OTHERS = {}


@pytest.fixture
def others():
    """Facts in which the other process differs."""
    yield OTHERS
    OTHERS.clear()


def among(options):
    check_among(Echo(0, 2), OUTPUT, options)


def test_processes_with_different_options_are_refused_with_the_name_of_one(tmp_path, others):
    options = {"agent_column": "here", "seed": None, "bounds": tmp_path / "a.toml"}
    among(options)
    for name, value, message in (
        ("--agent-column", "there", r"differ in --agent-column \(here and there\)"),
        ("--seed", 3, r"differ in --seed \(None and 3\)"),
        ("--bounds", None, "differ in --bounds"),
        ("numpy", "1.0", "differ in numpy"),
    ):
        others.clear()
        others[name] = value
        with pytest.raises(InputError, match=message):
            among(options)


def test_digests_are_compared_and_not_shown(others):
    others["files"] = ["b" * 64]
    with pytest.raises(InputError) as refused:
        Echo(0, 2).agree({"files": ["a" * 64]})
    assert "differ in files;" in str(refused.value)
    assert "aaa" not in str(refused.value)


def test_what_processes_cannot_do_is_refused_before_they_are_compared(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="read once only"):
        among({"data": tmp_path / "pipe.csv"})
    alone = Processes()
    check_among(alone, OUTPUT, {"data": tmp_path / "pipe.csv"})


MARKED = 77.125  # an age that one row has, of the first agent


class SecondOfTwo(Devices):
    """Devices of two processes, seen from the second one."""

    def local(self, agents):
        return range(agents // 2, agents)


class FirstOfTwo(Devices):
    """The same, seen from the first one."""

    def local(self, agents):
        return range(agents // 2)


def pretend(monkeypatch, devices):
    """Let a process believe that it is one of two with these devices."""
    monkeypatch.setattr(accounts, "Devices", devices)
    monkeypatch.setattr(accounts, "check_devices", lambda *_, **__: None)
    monkeypatch.setattr(Echo, "agree_on_records", lambda *_: None)
    monkeypatch.setattr(Echo, "share_draw", lambda self, draw: Draw(seed=0))


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
    data = count_files(Division.of_request(request, None), files)
    proposal = proposal_for(data, request, StructureRequest())
    pretend(monkeypatch, devices)
    agree(data, proposal, Echo(0, 2))
    return read(data, proposal, None, Echo(0, 2), None)


def test_an_agent_that_holds_nothing_out_is_refused_before_the_charge(tmp_path, monkeypatch):
    """Of several processes all agents answer the evaluation: counts are public, so nothing is paid.

    Before, the first process had its mark on the disk when the division was refused.
    """
    (tmp_path / "ill.toml").write_text(BOUNDS)
    sites = ["few"] * 2 + ["many"] * 198
    rows = [f"{n % 70},0.5,{('no', 'yes')[n % 3 == 0]},{site}" for n, site in enumerate(sites)]
    (tmp_path / "ill.csv").write_text("\n".join(["age,dose,ill,site", *rows]) + "\n")
    source = Source(
        path=tmp_path / "ill.csv", target="ill", bounds=tmp_path / "ill.toml", agent_column="site"
    )
    files = read_files(source)
    request = Request(epsilon=1.0, delta=1e-5, rounds=50, evaluate=0.2)
    data = count_files(Division.of_request(request, None), files)
    proposal = proposal_for(data, request, StructureRequest())
    assert proposal.evaluation.counts[0] == 0
    pretend(monkeypatch, FirstOfTwo)
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account(
        "ward", Guarantee(10.0, 1e-4), AccountTerms(), folder=tmp_path / "accounts"
    )
    with pytest.raises(InputError, match="too few records to hold some out"):
        train(data, proposal, account=account, processes=Echo(0, 2))
    assert account.state().runs == ()


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
