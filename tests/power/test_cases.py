"""Case files: published counts, odd layouts, and errors that name the fix."""

import numpy as np
import pytest

from taciturn.cli.main import main
from taciturn.errors import DataError, InputError, MissingPackageError
from taciturn_power import (
    bundled_case,
    chosen_case,
    chosen_zones,
    grown_zones,
    network,
    parse_case,
    parse_zones,
    read_case,
    ties,
)
from taciturn_power import cases as reading

TWO = """function mpc = two  % a comment with mpc.bus = [9 9];
mpc.version = '2'; mpc.baseMVA = 50.0; % 100% of it
mpc.bus = [   % header
\t10, 3, 5, 1, 0, 0, 1, 1, 0, 138, 1, 1.1, 0.9
  20 1 20.5 ...  % continued
     -3e0 0 19 1 1 0 138 1 1.06 .94 ; % next
];
mpc.bus_name = { 'bus % one'; 'two' };
mpc.gen=[10 0 0 Inf -Inf 1 100 1 80 0];
mpc.branch = [10 20 0.01 0.1 0.02 0 0 0 0.98 30 1 -360 360;];
"""


@pytest.mark.parametrize(
    ("name", "counts", "load", "crossing"),
    [("case14", (14, 20, 5), 259.0, 5), ("case118", (118, 186, 54), 4242.0, 8)],
)
def test_the_bundled_cases_have_the_published_counts_and_loads_and_zones(
    name, counts, load, crossing
):
    net = network(bundled_case(name))
    assert (net.buses, net.lines, len(net.generator_bus)) == counts
    assert net.demand[:, 0].sum() * net.base_mva == pytest.approx(load)
    zones = chosen_zones(net, None)
    assert (zones.count, len(ties(net, zones)), zones.split) == (3, crossing, ())


def test_comments_commas_continuations_and_white_space_are_understood():
    net = network(parse_case(TWO, name="two", source="two.m"))
    np.testing.assert_array_equal(net.numbers, [10, 20])
    np.testing.assert_allclose(net.demand, [[0.1, 0.02], [0.41, -0.06]])
    np.testing.assert_allclose(net.shunt[1], [0, 0.38])
    np.testing.assert_allclose(net.generator_range, [[0, 1.6, -np.inf, np.inf]])
    assert net.tap[0] == 0.98
    assert net.shift[0] == pytest.approx(np.pi / 6)
    assert np.isinf(net.limit[0])
    assert np.all(np.isinf(net.angle))
    # what is out of service is left out
    text = TWO.replace("30 1 -360 360;", "30 1 -360 360; 10 20 0 .3 0 0 0 0 0 0 0 0 0")
    text = text.replace("mpc.gen=[", "mpc.gen=[20 1 1 1 0 1 1 0 1 0;")
    net = network(parse_case(text, name="two", source="two.m"))
    assert (net.lines, len(net.generator_bus)) == (1, 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("mpc.bus = [", "mpc.nothing = [", "there is no mpc.bus"),
        ("mpc.gen=[10 0 0 Inf -Inf 1 100 1 80 0]", "mpc.gen=[]", "mpc.gen is empty"),
        ("20.5", "20.5 7", "row 2 of mpc.bus has 14 entries"),
        ("20.5", "load", "a demand in row 2 of mpc.bus is no number"),
        ("20.5", "NaN", "a demand in row 2"),
        ("20.5", "94.2*7", "a demand in row 2"),
        ("];\nmpc.bus_name", "] * 2;\nmpc.bus_name", "followed by"),
        ("];\nmpc.bus_name", "]';\nmpc.bus_name", "followed by"),
        ("];\nmpc.bus_name", "];\nmpc.bus = [1];\nmpc.bus_name", "assigned twice"),
        ("];\nmpc.bus_name", "30 1 0 0 0 0 1 1 0 1 1 1.1 .9];\nmpc.bus_name", "2 islands (bus 30"),
        ("mpc.baseMVA = 50.0", "mpc.baseMVA = 0", "baseMVA is missing or not above 0"),
        ("mpc.branch = [10 20", "mpc.branch = [10 21", "bus 21 is named"),
        ("  20 1 20.5", "  10 1 20.5", "bus 10 twice"),
        ("0.01 0.1 0.02", "0 0 0.02", "r or x above 0"),
        ("1.06 .94", ".94 1.06", "swap the two"),
        ("30 1 -360", "30 0 -360", "correct mpc.branch"),
    ],
)
def test_a_broken_file_is_named_with_the_fix(tmp_path, old, new, says):
    assert old in TWO
    file = tmp_path / "broken.m"
    file.write_text(TWO.replace(old, new))
    with pytest.raises(DataError, match="broken") as caught:
        network(read_case(file))
    assert says in str(caught.value)
    assert "94.2" not in str(caught.value)  # a malformed demand is not quoted
    file.write_text("")
    with pytest.raises(DataError, match=r"broken\.m: there is no mpc.bus"):
        read_case(file)
    with pytest.raises(DataError, match="neither a bundled case"):
        chosen_case(str(tmp_path / "none.m"))


@pytest.fixture(scope="module")
def fourteen():
    return network(bundled_case("case14"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1-5\n6-13", "1 buses are in no zone, for example bus 14"),
        ("1-7\n7-14", "bus 7 is named twice"),
        ("1-14\n15", "bus 15 is not in case14"),
        ("1-14\nx", "'x' is no bus number"),
        ("14-1", "'14-1' is no bus number"),
        ("", "14 buses are in no zone"),
    ],
)
def test_zones_that_are_no_partition_are_refused(fourteen, text, says):
    with pytest.raises(DataError) as caught:
        parse_zones(fourteen, text, source="z.txt")
    assert "z.txt" in str(caught.value)
    assert says in str(caught.value)


def test_zones_come_from_a_file_and_a_split_zone_is_noticed(fourteen, tmp_path):
    file = tmp_path / "z.txt"
    file.write_text("# two zones\n1-5, 14  # 14 is far from the others\n\n6 7-13\n")
    zones = chosen_zones(fourteen, str(file))
    np.testing.assert_array_equal(zones.of_bus, [0] * 5 + [1] * 8 + [0])
    assert zones.split == (0,)


@pytest.mark.parametrize("count", [1, 3, 14])
def test_grown_zones_are_connected_and_all_there(fourteen, count):
    zones = grown_zones(fourteen, count)
    assert sorted(set(zones.of_bus.tolist())) == list(range(count))
    for wrong in ("0", "-1", "15"):
        with pytest.raises(InputError, match="zones"):
            chosen_zones(fourteen, wrong)
    # connected by an independent walk: every bus reaches its zone's first bus inside the zone
    for zone in range(count):
        members = set(np.flatnonzero(zones.of_bus == zone).tolist())
        reached, front = set(), {min(members)}
        while front:
            reached |= front
            step = {
                int(b)
                for pair in fourteen.ends
                for a, b in (pair, pair[::-1])
                if a in front and b in members
            }
            front = step - reached
        assert reached == members


def test_without_pandapower_its_networks_are_refused_by_naming_the_package(
    monkeypatch, tmp_path, capsys
):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(reading, "import_module", missing)
    (tmp_path / "mine.json").write_text("{}")
    for choice in ("pandapower:case9", str(tmp_path / "mine.json")):
        with pytest.raises(MissingPackageError, match=r"pip install -e '\./power\[pandapower\]'"):
            chosen_case(choice)
    asked = ["--beta", "1MW", "--epsilon", "1", "--delta", "1e-3"]
    assert main(["grid", str(tmp_path / "mine.json"), *asked]) != 0
    assert "pandapower" in capsys.readouterr().err
