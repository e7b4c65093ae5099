"""What is written of a dispatch: read again by either tool, rows as in the file, no true demand."""

import csv
import dataclasses
import importlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

from taciturn.cli.main import main
from taciturn.errors import DataError, InputError
from taciturn_power import (
    bundled_case,
    chosen_case,
    chosen_zones,
    costs,
    dc_model,
    network,
    pandapower_case,
    pandapower_results,
    parse_case,
    solve_dc,
)
from taciturn_power import command as command_room
from taciturn_power.command import opf_report, proposed
from taciturn_power.delivery import Execution, Keeper, folder_texts
from taciturn_power.dispatch import export as export_room
from taciturn_power.dispatch import results as results_room
from taciturn_power.dispatch.results import OpfReport, narrow, opf_warnings
from taciturn_power.dispatch.study import OpfProposal, solve_opf
from taciturn_power.models.dispatch import binding, binding_lines

BUDGET = {"beta": 0.001, "epsilon": 1.0, "delta": 1e-3}
SETTINGS = {"hide": "demand", "model": "dc", "eta": None, **BUDGET}


def five():
    """The small network of pandapower."""
    pytest.importorskip("pandapower")
    return pandapower_case(importlib.import_module("nets").five(), name="five")


CASES = {"pandapower": five, "matpower": lambda: bundled_case("case14")}


@pytest.fixture(scope="module", params=list(CASES))
def run(request):
    case = CASES[request.param]()
    net = network(case)
    proposal = OpfProposal.of(net, costs(case), chosen_zones(net, "2"), **SETTINGS)
    return case, solve_opf(net, proposal, seed=3)


def texts_of(run, page=""):
    case, study = run
    texts, certificate = folder_texts(OpfReport(study, (), case), page, Path("o"))
    return {**texts, "certificate": certificate}


NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")


def leaks(texts, case):
    """The files in which a demand of a bus, or the sum of all, stands in MW or per unit."""
    demand = network(case).demand
    values = np.abs(np.concatenate([demand[demand != 0], demand.sum(axis=0)]))
    values = np.concatenate([values, values * case.base_mva])
    found = set()
    for name, text in texts.items():
        words = [*NUMBER.findall(text), "0", "1e300"]
        seen = np.unique(np.abs([float(word) for word in words]))
        near = np.searchsorted(seen, values).clip(1, len(seen) - 1)
        close = np.minimum(np.abs(seen[near] - values), np.abs(seen[near - 1] - values))
        # as a number to the six digits of a table, and as text however it is embedded
        if np.any(close <= 1e-6 * values) or any(f"{v:.9g}" in text for v in values if v % 1):
            found.add(name)
    return found


def odd(case):
    """The same case with demands that no rounded number equals by chance."""
    bus = case.bus.copy()
    bus[:, 2:4] *= 1 + np.sqrt(2) / 100
    return dataclasses.replace(case, bus=bus)


@pytest.mark.parametrize("kind", list(CASES))
def test_no_file_holds_a_true_demand_and_one_that_is_planted_is_found(kind, monkeypatch):
    case = odd(CASES[kind]())
    net = network(case)
    proposal = OpfProposal.of(net, costs(case), chosen_zones(net, "2"), **SETTINGS)
    study = solve_opf(net, proposal, seed=3)
    assert leaks(texts_of((case, study)), case) == set()
    honest = export_room.matpower
    for column, factor in ((2, 1.0), (3, 1 / case.base_mva)):
        worst = np.abs(case.bus[:, column]).max() * factor
        leaking = lambda s, c, v=worst: honest(s, c) + f"% kept {v!r}"  # noqa: E731
        monkeypatch.setattr(export_room, "matpower", leaking)
        assert leaks(texts_of((case, study)), case) == {"dispatch.m"}


@pytest.mark.slow
def test_no_file_of_the_command_holds_a_demand_unless_it_is_asked_for(tmp_path):
    net = five().net
    net.load["p_mw"] = [31.41592653, 27.18281828, 22.36067977, 99.0]
    file = tmp_path / "mine.json"
    importlib.import_module("pandapower").to_json(net, str(file))
    case = chosen_case(str(file))
    asked = ["grid", str(file), "--beta", "0.1MW", "--epsilon", "1", "--delta", "1e-3"]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 0
    written = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert {"dispatch.json", "dispatch.m", "report.html", "lines.csv"} <= set(written)
    assert leaks(written, case) == set()


def test_what_was_written_is_read_again_and_has_the_same_cost(run):
    case, study = run
    again = parse_case(texts_of(run)["dispatch.m"], name="again", source="dispatch.m")
    net, shift = network(again), 0 if case.net is None else 1
    np.testing.assert_array_equal(net.numbers - shift, network(case).numbers)
    np.testing.assert_allclose(net.demand, study.answers[0], rtol=1e-9)
    cost = solve_dc(dc_model(net, costs(again)), net.demand[:, 0]).cost
    assert cost == pytest.approx(study.steps[0].dispatch.cost, rel=1e-6)


@pytest.mark.slow
def test_pandapower_reads_what_was_written_and_finds_the_same_cost(run, tmp_path):
    pandapower = pytest.importorskip("pandapower")
    converter = pytest.importorskip("pandapower.converter.matpower.from_mpc")
    texts = texts_of(run)
    (tmp_path / "dispatch.m").write_text(texts["dispatch.m"])
    net = converter.from_mpc(str(tmp_path / "dispatch.m"))
    pandapower.rundcopp(net)
    assert float(net.res_cost) == pytest.approx(run[1].steps[0].dispatch.cost, rel=1e-6)
    assert ("dispatch.json" in texts) == (run[0].net is not None)


def test_the_results_in_the_folder_are_those_of_the_network(run, tmp_path):
    case, study = run
    if case.net is None:
        pytest.skip("a MATPOWER case has no tables of pandapower")
    (tmp_path / "dispatch.json").write_text(texts_of(run)["dispatch.json"])
    read = importlib.import_module("pandapower").from_json(str(tmp_path / "dispatch.json"))
    assert not len(read.bus) + len(read.load)
    for name, table in pandapower_results(study, case).items():
        np.testing.assert_allclose(read[name], table, rtol=1e-9)


def test_rows_of_the_tables_are_those_of_the_file(run):
    case, _ = run
    texts = texts_of(run)
    lines = list(csv.DictReader(io.StringIO(texts["lines.csv"])))
    generators = list(csv.DictReader(io.StringIO(texts["generators.csv"])))
    named = [(row["table"], int(row["row"])) for row in lines]
    if case.net is None:
        assert named == [("branch", k) for k in range(1, 21)]
        assert [row["row"] for row in generators] == list("12345")
    else:
        rows = [("line", 4), ("line", 5), ("line", 7), ("trafo", 0), ("trafo", 1)]
        assert named == rows
        assert [row["table"] for row in generators] == ["ext_grid", "gen", "sgen"]
    ties = list(csv.DictReader(io.StringIO(texts["ties.csv"])))
    assert all(tie in lines for tie in ties)


BOUND = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 40 10 0 0 1 1 0 1 1 1.1 .9;
3 1 30 5 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 0 0 90 -90 1 1 1 200 0; 3 0 0 90 -90 1 1 1 50 0];
mpc.branch = [1 2 .01 .1 0 0 0 0 0 0 1 -60 60; 2 3 .01 .1 0 0 0 0 0 0 1 -60 60];
mpc.gencost = [2 0 0 3 0 10 0; 2 0 0 3 0 20 0];
"""


def test_a_line_that_is_limited_by_its_angle_is_among_what_binds():
    """50 MW over x = 0.1 are 0.05 rad, 2.8648 degrees."""

    def dispatched(text):
        case = parse_case(text, name="three", source="three.m")
        net = network(case)
        return solve_dc(dc_model(net, costs(case)), net.demand[:, 0]), net

    text = BOUND.replace("0 1 -60 60; 2", "0 1 -60 2.8648; 2")
    found = dispatched(text)
    assert found[0].flow[0, 0] == pytest.approx(50, rel=1e-4)
    assert [bound and bound.kind for bound in binding_lines(*found)] == ["angle", None]
    assert "line 1–2: 2.865° between its ends" in binding(*found)
    assert binding_lines(*dispatched(BOUND)) == [None, None]
    rated = dispatched(text.replace("1 2 .01 .1 0 0", "1 2 .01 .1 0 40"))
    assert binding_lines(*rated)[0] == ("rating", 40.0)


def test_the_warning_about_repeating_runs_comes_where_the_room_is_narrow(monkeypatch):
    case = bundled_case("case14")
    net = network(case)
    settings = {**SETTINGS, "eta": 0.05}
    proposal = OpfProposal.of(net, costs(case), chosen_zones(net, None), **settings)
    wide = solve_opf(net, proposal, seed=1)
    assert wide.promised == (True,)
    assert not narrow(wide)
    assert opf_warnings(wide) == ()
    for share, warned in ((2.1, False), (1.9, True)):
        monkeypatch.setattr(results_room, "widest", lambda *_, r=share: r * wide.needed)
        assert any("do not repeat" in text for text in opf_warnings(wide)) is warned


def test_a_proposal_with_other_costs_than_the_case_is_refused(monkeypatch):
    case = parse_case(BOUND, name="three", source="three.m")
    net = network(case)
    given = {"beta": "0.1MW", "epsilon": 1.0, "delta": 1e-3, "zones": None, "largest-demand": None}
    proposal = proposed(case, net, {**given, "model": None, "eta": None, "hide": None})
    dearer = parse_case(BOUND.replace("0 20 0]", "0 21 0]"), name="three", source="three.m")

    def nothing(*_):
        raise AssertionError("nothing may be reserved for it")

    monkeypatch.setattr(command_room, "reserved", nothing)
    execution = Execution(
        seed=1, oracle=False, account=None, files=(), keeper=Keeper(None, force=False)
    )
    with pytest.raises(InputError, match="other costs than those of three"):
        opf_report("three", dearer, proposal, execution)


def test_what_a_case_file_says_and_nothing_reads_is_told():
    with pytest.raises(DataError, match=r"mpc\.baseMVA is assigned twice"):
        parse_case(BOUND + "mpc.baseMVA = 10;\n", name="three", source="three.m")
    text = BOUND.replace("1 2 .01 .1 0 0 0", "1 2 .01 .1 0 50 90").replace("[2 0 0", "[2 5 0")
    case = parse_case(text + "mpc.areas = [1 1];\n", name="three", source="three.m")
    rated, started = "emergency ratings (rateB, rateC)", "costs of starting and stopping"
    assert case.ignored == ("mpc.areas", rated, started)
    assert parse_case(BOUND, name="three", source="three.m").ignored == ()


def test_built_in_zones_are_for_the_numbers_of_the_built_in_case_alone():
    case = bundled_case("case14")
    bus, gen, branch = case.bus.copy(), case.gen.copy(), case.branch.copy()
    bus[:, 0] -= 1
    gen[:, 0] -= 1
    branch[:, :2] -= 1
    other = dataclasses.replace(case, bus=bus, gen=gen, branch=branch)
    assert chosen_zones(network(other), None).count == 3
