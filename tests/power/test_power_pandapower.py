"""Networks of pandapower: read as data, at its own optimum, refused part by part."""

import importlib
import json
import os
from pathlib import Path

import nets
import numpy as np
import pytest

from tacit.errors import DataError, InputError, MissingPackageError
from tacit_power import chosen_case, costs, dc_model, network, read_case, solve_dc
from tacit_power.cases import reading
from tacit_power.cases.pandapower_case import case_of_net
from tacit_power.cases.tables import parse_net

RUNDCOPP = {  # of pandapower 3.5.6 on the same file, euros an hour
    nets.tables: 2636.8787245301837,
    nets.opened: 2618.8948108601307,
    nets.pieces: 1911.821298697668,
    nets.more: 2958.858062765876,
    nets.shifting: 2598.173077581422,
    nets.older: 2636.8787245301837,
}


def case_of(tables=nets.TABLES, **settings):
    return case_of_net(parse_net(nets.written(tables, **settings), source="five"), name="five")


def dispatched(case):
    net = network(case)
    return solve_dc(dc_model(net, costs(case)), net.demand[:, 0])


def changed(table, column, row, cell):
    of = nets.tables()
    of[table].setdefault(column, [None] * len(of[table]["index"]))[row] = cell
    return of


@pytest.mark.parametrize(("of", "theirs"), list(RUNDCOPP.items()))
def test_the_cost_of_a_network_is_that_of_pandapower(of, theirs):
    assert dispatched(case_of(of())).cost == pytest.approx(theirs, rel=1e-6)


def test_the_base_of_a_network_does_not_change_its_cost():
    assert dispatched(case_of(sn_mva=1.0)).cost == pytest.approx(RUNDCOPP[nets.tables], rel=1e-6)


def test_loads_less_static_generation_are_the_demand_of_joined_buses():
    of = changed("trafo", "i0_percent", 0, 0.0)  # its charging would stand with the shunts
    net = network(case_of(of))
    np.testing.assert_array_equal(net.numbers, [0, 1, 2, 3])  # 4 is one with 3, 6 is out
    expected = [0, 31.4159, 1.1 * 27.1828, 22.3607 - 0.5 * 4]
    np.testing.assert_allclose(net.demand[:, 0] * net.base_mva, expected)
    np.testing.assert_allclose(net.voltage[3], [0.9, 1.05])
    np.testing.assert_allclose(net.voltage[2], [0.9, 2.0])
    np.testing.assert_allclose(net.shunt[2] * 100, np.array([0.3, 6.0]) * 2 * (110 / 112) ** 2)


def test_the_charging_of_a_transformer_stands_at_its_buses():
    """0.08 % of 40 MVA, less what is iron loss; at ratio 0.97 on the high side."""
    less = network(case_of(changed("trafo", "i0_percent", 0, 0.0))).shunt[:, 1]
    charging = -np.sqrt((0.0008 * 40) ** 2 - 0.02**2) / 100
    moved = network(case_of()).shunt[:, 1] - less
    np.testing.assert_allclose(moved, [0, 0, charging / 2 / 0.97**2, charging / 2], rtol=1e-3)


def test_rows_are_named_as_in_the_file():
    case = case_of()
    assert case.generators == (("ext_grid", "gen", "sgen"), (0, 2, 3))
    assert case.lines == (("line", "line", "line", "trafo", "trafo"), (4, 5, 7, 0, 1))
    assert case.ignored == ("conductances to ground of trafo",)


def test_set_points_and_results_which_tell_the_demand_are_not_read():
    of = nets.tables()
    of["gen"] |= {"p_mw": [26.5], "vm_pu": [1.033]}
    of["ext_grid"] |= {"vm_pu": [0.97], "va_degree": [3.0]}
    of["res_bus"] = {"index": [0, 1], "p_mw": [1.0, 2.0], "vm_pu": [1.0, 1.0]}
    ours, theirs = case_of(), case_of(of)
    for name in ("bus", "gen", "branch", "gencost"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


EVIL = {"_module": "os", "_class": "system"}


def planted(canary):
    """A file whose objects write a canary where they are restored."""
    text = json.loads(nets.written())
    parts = text["_object"]
    parts["controller"] = {**EVIL, "_object": f"touch {canary}-net"}
    cell = json.dumps({**EVIL, "_object": f"touch {canary}-cell"})
    of = nets.tables()
    of["bus"]["name"] = [cell, {**EVIL, "_object": f"touch {canary}-dict"}] + [None] * 4
    parts["bus"] = nets.frame(of["bus"])
    return json.dumps(text)


def test_objects_in_a_file_are_never_restored(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(planted(tmp_path / "canary"))
    read_case(file)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]


def test_the_canary_sings_where_objects_are_restored(tmp_path):
    """Planted: a reader that does as pandapower 3.3.2 did, imports and calls what it is told.

    pandapower 3.5.6 itself refuses such a file: it has a list of what may be restored.
    """

    def restored(entry):
        if {"_module", "_class", "_object"} <= set(entry) and entry["_module"] == "os":
            return getattr(importlib.import_module(entry["_module"]), entry["_class"])(
                entry["_object"]
            )
        return entry

    outer = json.loads(planted(tmp_path / "canary"), object_hook=restored)
    json.loads(outer["_object"]["bus"]["_object"], object_hook=restored)
    assert {path.name for path in tmp_path.iterdir()} == {"canary-net", "canary-dict"}


SECRET = "31.4159"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"_class": ' + SECRET, "is not JSON (line 1)"),
        ("[" * 100_000 + "]" * 100_000, "is not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "is not JSON"),
        ('{"p": 31.4159, "p": 31.4159}', "names a table or column twice"),
        ('{"demand": 31.4159}', "no pandapower network"),
        ("[31.4159]", "no pandapower network"),
        ('{"bus": {"0": 31.4159}}', "a pandapower network of version 1"),
        (nets.written(format_version="1.4.3"), "of pandapower's format 1.4.3"),
        (nets.written(format_version="4.0.0"), "of pandapower's format 4.0.0"),
        (nets.written(format_version=None, version=None), "formats 2 and 3 are read"),
        (nets.written(sn_mva=0), "sn_mva is missing or not a number above 0"),
        (nets.written(f_hz="50"), "f_hz is missing"),
        (nets.written(load={**nets.FRAME, "_object": "31.4159"}), "no frame in split form"),
        (nets.written({}), "has no buses"),
    ],
)
def test_a_file_that_is_no_network_is_refused_in_one_line(tmp_path, text, says):
    file = tmp_path / "mine.json"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        read_case(file)
    said = str(caught.value)
    assert says in said
    assert str(file) in said
    assert SECRET not in said
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (changed("load", "p_mw", 0, None), "load: p_mw of row 0 is missing"),
        (changed("load", "p_mw", 0, float("nan")), "load: p_mw of row 0 is missing"),
        (changed("load", "p_mw", 0, "31.4159 MW"), "load: p_mw of row 0 is not a number"),
        (changed("load", "p_mw", 0, [31.4159]), "load: p_mw of row 0 is not a number"),
        (changed("load", "in_service", 1, "31.4159"), "load: in_service of row 1 is not true or"),
        (changed("load", "bus", 0, 17), "row 0 names bus 17, which is not in the table bus"),
        (changed("load", "bus", 0, 1.5), "load: bus of row 0 is no index"),
        (changed("load", "controllable", 0, True), "load (controllable; row 0)"),
        (changed("gen", "controllable", 0, False), "row 2 is not controllable, so its output"),
        (changed("gen", "slack", 0, True), "angles held at several buses"),
        (changed("ext_grid", "in_service", 0, False), "no ext_grid and no gen with slack"),
        (changed("bus", "vn_kv", 0, 0.0), "vn_kv of row 0 is not above 0"),
        (changed("line", "index", 1, 4), "names a row twice"),
        (changed("line", "index", 1, "a"), "has rows that are named by no index"),
        (changed("switch", "z_ohm", 0, 0.1), "row 0 has an impedance (z_ohm above 0)"),
        (changed("switch", "et", 0, "x"), "row 0 is at no bus, line or transformer"),
        (changed("trafo", "tap_dependency_table", 0, True), "a tap changer given by a table"),
        (changed("trafo", "leakage_reactance_ratio_hv", 1, 0.4), "of row 1 is not 0.5"),
        (changed("trafo", "vkr_percent", 0, 13.0), "vkr_percent of row 0 exceeds vk_percent"),
        (changed("shunt", "step_dependency_table", 0, True), "steps given by a table"),
        (changed("poly_cost", "cq1_eur_per_mvar", 1, 2.0), "row 1 gives reactive power a cost"),
        (changed("poly_cost", "element", 1, 0) | {}, "rows of"),
        (changed("poly_cost", "et", 1, "wind"), "row 1 is of no kind known"),
    ],
)
def test_a_cell_that_cannot_be_used_is_named_and_not_quoted(of, says):
    if says == "rows of":  # a second cost of the same generator
        of["poly_cost"]["et"][1] = "ext_grid"
        says = "ext_grid 0 has a second cost in row 1"
    with pytest.raises(DataError) as caught:
        case_of(of)
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_column_says_that_the_file_is_of_another_version():
    of = nets.tables()
    of["load"]["p_kw"] = of["load"].pop("p_mw")
    with pytest.raises(DataError, match=r"load has no column p_mw, so it is of another version"):
        case_of(of)


def test_an_isolated_bus_is_named():
    of = changed("bus", "in_service", 5, True)
    of["line"]["in_service"][3] = False
    with pytest.raises(DataError, match=r"2 islands \(bus 6"):
        network(case_of(of))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("trafo3w", "trafo3w (three-winding transformers; rows 8)"),
        ("dcline", "dcline (HVDC lines; rows 8)"),
        ("asymmetric_load", "asymmetric_load (loads of three unequal phases; rows 8)"),
        ("motor", "motor (motors; rows 8)"),
        ("flywheel", "flywheel (rows 8)"),
    ],
)
def test_parts_that_are_not_read_are_named_unless_they_are_out_of_service(name, says):
    of = nets.tables() | {name: {"index": [8, 9], "in_service": [True, False]}}
    of["xward"] = {"index": [0], "in_service": [True]}
    with pytest.raises(DataError) as caught:
        case_of(of)
    assert says in str(caught.value)
    assert "xward (extended wards; rows 0)" in str(caught.value)
    of[name]["in_service"][0] = of["xward"]["in_service"][0] = False
    case_of(of)


def test_what_is_left_out_is_said():
    of = nets.tables()
    of["measurement"] = {"index": [0], "value": [1.0]}
    of["load"]["const_z_percent"] = [100.0, 0.0, 0.0, 0.0]
    of["poly_cost"]["et"][2], of["poly_cost"]["element"][2] = "load", 1
    told = case_of(of).ignored
    assert "the table measurement" in told
    assert "how loads depend on the voltage (const_z, const_i)" in told
    assert "costs of load 1" in told


def test_a_named_network_needs_pandapower_and_a_name_that_it_knows(monkeypatch, tmp_path):
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install -e '\.\[pandapower\]'"):
        chosen_case("pandapower:case9")
    folder = tmp_path.joinpath("networks", "power_system_test_case_jsons")
    folder.mkdir(parents=True)
    (folder / "five.json").write_text(nets.written())

    class Found:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(reading, "find_spec", lambda name: Found)
    assert len(chosen_case("pandapower:five").bus) == 4
    for name in ("case15", "../../secret", ""):
        with pytest.raises(InputError, match="choose from five"):
            chosen_case(f"pandapower:{name}")


FILES = Path(os.environ.get("TACIT_DATA_DIR", "")) / "power"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["case14", "case30", "case39", "case118", "case300", "GBnetwork"])
def test_a_network_that_pandapower_writes_has_its_cost_here(name, tmp_path):
    pandapower = pytest.importorskip("pandapower")
    net = getattr(pytest.importorskip("pandapower.networks"), name)()
    pandapower.rundcopp(net)
    pandapower.to_json(net, str(tmp_path / "net.json"))
    ours = dispatched(read_case(tmp_path / "net.json"))
    assert ours.cost == pytest.approx(float(net.res_cost), rel=1e-4)
