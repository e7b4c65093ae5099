"""Networks of pandapower: at its own optimum, refused part by part, the dispatch handed back.

pandapower needs an older pandas than the pinned one: `make test-pandapower` has an environment of
its own, and elsewhere these tests are skipped.
"""

import copy
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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
    read_case,
    solve_dc,
)
from taciturn_power.dispatch.study import OpfProposal, solve_opf

pp = pytest.importorskip("pandapower")
nets = pytest.importorskip("nets")


def case_of(net):
    return pandapower_case(net, name="five")


def dispatched(case):
    net = network(case)
    return solve_dc(dc_model(net, costs(case)), net.demand[:, 0])


VARIANTS = [nets.five, nets.opened, nets.pieces, nets.more, nets.shifting]
MATRICES = ("bus", "gen", "branch", "gencost")


@pytest.mark.parametrize("of", VARIANTS)
def test_the_cost_of_a_network_is_that_of_pandapower(of):
    theirs = of()
    pp.rundcopp(theirs)
    assert dispatched(case_of(of())).cost == pytest.approx(float(theirs.res_cost), rel=1e-6)
    if of is nets.five:  # whatever its base
        other = dispatched(case_of(nets.five(sn_mva=1.0)))
        assert other.cost == pytest.approx(float(theirs.res_cost), rel=1e-6)


def test_the_cost_of_what_is_out_of_service_is_nobodys():
    """pandapower 3.5.6 gives it to another generator."""
    case = case_of(nets.idle())
    assert dispatched(case).cost == dispatched(case_of(nets.five())).cost
    assert "costs of gen 8" in case.ignored
    net = third(nets.five())  # which may be anything
    net.trafo3w["in_service"] = False
    case = case_of(net)
    assert "the table trafo3w" in case.ignored
    np.testing.assert_array_equal(case.branch, case_of(nets.five()).branch)


def test_loads_less_static_generation_are_the_demand_of_joined_buses():
    before = nets.five()
    before.trafo.at[0, "i0_percent"] = 0.0  # its charging would stand with the shunts
    net = network(case_of(before))
    np.testing.assert_array_equal(net.numbers, [0, 1, 2, 3])  # 4 is one with 3, 6 is out
    expected = [0, 31.4159, 1.1 * 27.1828, 22.3607 - 0.5 * 4]
    np.testing.assert_allclose(net.demand[:, 0] * net.base_mva, expected)
    np.testing.assert_allclose(net.voltage[3], [0.9, 1.05])
    np.testing.assert_allclose(net.voltage[2], [0.9, 2.0])
    np.testing.assert_allclose(net.shunt[2] * 100, np.array([0.3, 6.0]) * 2 * (110 / 112) ** 2)
    # the charging of a transformer stands at its buses: 0.08 % of 40 MVA, less what is iron loss,
    # at ratio 0.97 on the high side
    charging = -np.sqrt((0.0008 * 40) ** 2 - 0.02**2) / 100
    moved = network(case_of(nets.five())).shunt[:, 1] - net.shunt[:, 1]
    np.testing.assert_allclose(moved, [0, 0, charging / 2 / 0.97**2, charging / 2], rtol=1e-3)


def test_rows_are_named_as_in_the_network_and_a_limit_that_is_not_given_is_none():
    case = case_of(nets.five())
    assert case.generators == (("ext_grid", "gen", "sgen"), (0, 2, 3))
    assert case.lines == (("line", "line", "line", "trafo", "trafo"), (4, 5, 7, 0, 1))
    assert case.ignored == ("conductances to ground",)
    net = nets.five()
    net.gen = net.gen.drop(columns=["max_q_mvar", "min_q_mvar"])
    net.ext_grid["max_p_mw"] = np.nan
    gen = case_of(net).gen
    np.testing.assert_array_equal(gen[1, 3:5], [np.inf, -np.inf])
    np.testing.assert_array_equal(gen[0, [8, 9]], [np.inf, 0.0])


def test_set_points_and_results_which_tell_the_demand_are_not_read():
    before, solved = nets.five(), nets.five()
    solved.gen[["p_mw", "vm_pu"]] = 26.5, 1.033
    solved.ext_grid[["vm_pu", "va_degree"]] = 0.97, 3.0
    solved.sgen.loc[3, ["p_mw", "q_mvar"]] = 7.0, 1.0
    solved.load["const_z_p_percent"] = 50.0  # would stand with the shunts, which are public
    pp.rundcopp(solved)
    ours, theirs = case_of(before), case_of(solved)
    for name in MATRICES:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert any("const_z" in text for text in theirs.ignored)


def test_a_file_is_the_network_that_was_saved_and_a_network_is_not_changed(tmp_path):
    net = nets.more()
    kept = copy.deepcopy(net)
    pp.to_json(nets.more(), str(tmp_path / "mine.json"))
    saved, case = read_case(tmp_path / "mine.json"), case_of(net)
    assert saved.name == "mine"
    for name in MATRICES:
        np.testing.assert_allclose(getattr(saved, name), getattr(case, name), rtol=1e-9)
    assert set(net) == set(kept)
    for name, table in kept.items():
        if isinstance(table, pd.DataFrame):
            pd.testing.assert_frame_equal(net[name], table)


SECRET = "31.4159"


@pytest.mark.parametrize(
    "text",
    [
        '{"_class": ' + SECRET,
        '{"demand": 31.4159}',
        "[31.4159]",
        '{"bus": {"0": 31.4159}}',
        '{"_module": "pandapower.auxiliary", "_class": "pandapowerNet", '
        '"_object": {"load": 31.4159}}',
    ],
)
def test_a_file_that_is_no_network_is_refused_in_one_line(tmp_path, text):
    file = tmp_path / "mine.json"
    file.write_text(text)
    with pytest.raises(DataError, match="cannot be read by pandapower") as caught:
        read_case(file)
    assert str(file) in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def changed(table, column, row, cell):
    net = nets.more()
    if column not in net[table]:
        net[table][column] = False
    if isinstance(cell, str):
        net[table][column] = net[table][column].astype(object)
    net[table].at[row, column] = cell
    return net


def third(net):
    pp.create_transformer3w(net, 0, 1, 3, "63/25/38 MVA 110/20/10 kV")
    return net


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (lambda: changed("load", "p_mw", 0, float("nan")), "a demand of bus 1 is missing"),
        (lambda: changed("load", "p_mw", 0, "31.4159 MW"), "cannot be converted by pandapower"),
        (lambda: changed("load", "bus", 0, 17), "load 0 names a bus that is not in the table bus"),
        (lambda: changed("load", "controllable", 0, True), "controllable load (row 0)"),
        (lambda: changed("gen", "controllable", 2, False), "gen that is not controllable (row 2)"),
        (lambda: changed("gen", "slack", 2, True), "2 reference buses"),
        (lambda: changed("ext_grid", "in_service", 0, False), "no reference bus"),
        (lambda: changed("switch", "z_ohm", 0, 0.1), "switch with an impedance (row 0)"),
        (lambda: changed("impedance", "xtf_pu", 3, 0.2), "differs by direction or side"),
        (lambda: third(nets.five()), "trafo3w (row 0)"),
        (pp.create_empty_network, "no reference bus"),
    ],
)
def test_a_part_that_cannot_be_used_is_named_and_no_cell_quoted(of, says):
    with pytest.raises(DataError) as caught:
        case_of(of())
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None


def test_reactive_power_with_a_cost_is_refused():
    case = case_of(changed("poly_cost", "cq1_eur_per_mvar", 1, 2.0))
    with pytest.raises(DataError, match="gives reactive power a cost"):
        costs(case)


def test_an_isolated_bus_is_named():
    net = nets.five()
    net.bus.at[6, "in_service"] = True
    net.line.at[9, "in_service"] = False
    with pytest.raises(DataError, match="bus 6 is in service and joined to no other"):
        case_of(net)
    pp.create_bus(net, 20.0, index=8)
    pp.create_line_from_parameters(net, 6, 8, 1.0, 0.06, 0.4, 9.0, 0.2, max_loading_percent=90.0)
    with pytest.raises(DataError, match="2 islands"):
        network(case_of(net))


def test_a_test_case_of_pandapower_is_named():
    assert len(chosen_case("pandapower:case9").bus) == 9
    for name in ("case15b", "../../secret", "", "os.system", "create_bus"):
        with pytest.raises(InputError, match="pandapower has no case"):
            chosen_case(f"pandapower:{name}")


def studied(case, **settings):
    net = network(case)
    budget = {"beta": 0.0001, "epsilon": 1.0, "delta": 1e-3, "eta": None}
    proposal = OpfProposal.of(
        net, costs(case), chosen_zones(net, "2"), hide="demand", **budget, **settings
    )
    return solve_opf(net, proposal, seed=3)


def answered(net, study):
    """The network with the answers as its demand."""
    told, network = copy.deepcopy(net), study.proposal.network.network
    for table in (told.load, told.storage):
        table["in_service"] = False
    told.sgen["in_service"] &= told.sgen.controllable.astype(bool)
    told.ward[["ps_mw", "qs_mvar"]] = 0.0
    for bus, p in zip(network.numbers, study.steps[0].served * network.base_mva, strict=True):
        pp.create_load(told, int(bus), p, controllable=False)
    return told


@pytest.mark.parametrize("of", VARIANTS)
def test_the_result_tables_are_those_of_pandapower_at_the_answers(of):
    net = of()
    case = case_of(net)
    study = studied(case, model="dc")
    theirs = answered(net, study)
    pp.rundcopp(theirs)
    tables = pandapower_results(study, case)
    assert tables.pop("res_cost") == pytest.approx(theirs.res_cost, rel=1e-6)
    assert {"res_bus", "res_ext_grid", "res_gen", "res_sgen", "res_line", "res_trafo"} <= set(
        tables
    )
    for name, table in tables.items():
        element = net[name.removeprefix("res_")]
        assert table.index.equals(element.index)
        for column in table:
            known = table[column].notna() & theirs[name][column].notna()
            assert known.any() or column == "q_mvar"  # of which DC knows nothing
            np.testing.assert_allclose(
                table[column][known], theirs[name][column][known], atol=1e-3, rtol=1e-6
            )
    assert tables["res_bus"].loc[6].isna().all()
    assert tables["res_line"].loc[9].isna().all()
    assert tables["res_sgen"].loc[0].isna().all()  # it is part of the demand
    net.update(tables)
    assert net.res_gen.p_mw.sum() > 0


def test_the_cone_relaxation_has_voltages_and_reactive_power_and_no_signed_flows():
    case = case_of(nets.five())
    study = studied(case, model="soc")
    tables = pandapower_results(study, case)
    assert "res_line" not in tables
    with pytest.raises(InputError, match="it is no network of pandapower"):
        pandapower_results(study, bundled_case("case14"))
    assert tables["res_gen"].q_mvar.notna().all()
    np.testing.assert_allclose(tables["res_bus"].vm_pu[:4], study.steps[0].dispatch.voltage)


def test_the_example_of_the_page_runs_as_printed(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "explanation" / "power-flow.md"
    (block,) = re.findall(r"```py\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    pp.to_json(nets.five(), "mine.json")
    names = {}
    exec(block, names)
    assert names["net"].res_gen.p_mw.notna().all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["case30", "case300", "GBnetwork"])
def test_a_network_that_pandapower_writes_has_its_cost_here(name, tmp_path):
    net = getattr(pytest.importorskip("pandapower.networks"), name)()
    pp.rundcopp(net)
    pp.to_json(net, str(tmp_path / "net.json"))
    ours = dispatched(read_case(tmp_path / "net.json"))
    assert ours.cost == pytest.approx(float(net.res_cost), rel=1e-4)
