"""`taciturn grid` as users run it."""

import json
import re

import numpy as np
import pytest

from conftest import just_below
from taciturn.cli.main import main
from taciturn_power.conic import solver as conic_solver
from taciturn_power.conic.solver import ConicSolver

BUDGET = ["--beta", "0.01", "--epsilon", "1", "--delta", "1e-2"]
BALANCE = [*BUDGET, "--problem", "balance"]
KEYS = {
    "case", "zones", "objective", "central_objective", "consensus_residual", "max_violation",
    "epsilon", "delta", "mu", "question", "seconds",
}  # fmt: skip


THREE = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 40 10 0 0 1 1 0 1 1 1.1 .9;
3 1 30 5 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 0 0 90 -90 1 1 1 200 0];
mpc.branch = [1 2 .01 .1 0 0 0 0 0 0 1; 2 3 .01 .1 0 0 0 0 0 0 1];
"""


def called(capsys, *arguments):
    code = main(["grid", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("grid") / "report"
    code = main(["grid", "case14", *BALANCE, "--rounds", "6", "--seed", "1", "--out", str(out)])
    assert code == 0
    return out


def test_the_folder_holds_results_plan_state_and_a_page_that_draws_the_network(folder):
    names = {"results.json", "proposal.json", "plan.json", "state.json", "report.html"}
    names |= {"certificate-1.json"}
    assert {path.name for path in folder.iterdir()} == names
    values = json.loads((folder / "results.json").read_text())
    assert set(values) >= KEYS
    assert (values["case"], values["zones"], values["ties"]) == ("case14", 3, 5)
    assert values["question"] == "demand"
    assert just_below(values["epsilon"], 1.0)
    assert len(values["curves"]["objective"]) == 6
    for name, part in (("plan.json", "certificate"), ("certificate-1.json", "claim")):
        assert json.loads((folder / name).read_text())[part]["reproduction"] is True
    state = json.loads((folder / "state.json").read_text())
    assert len(state["voltage_magnitude"]) == 14
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "14 buses in 3 zones with 5 ties" in page
    assert "buses 7-10, 14; 58 variables; ties 7\u20134, 9\u20134, 10\u201311, 14\u201313" in page
    assert "0.01 per unit (1 MW or MVAr)" in page
    assert "epsilon = 1.0000, delta = 0.01" in page
    assert "reproduction, not private" in page
    assert not re.findall(r"(?:src|href)=.?https?:", page)


@pytest.mark.slow
def test_json_is_one_object_and_the_objective_of_a_private_file_is_withheld(capsys, tmp_path):
    file = tmp_path / "mine.m"
    file.write_text(THREE)
    zones = tmp_path / "zones.txt"
    zones.write_text("1, 3\n2\n")
    asked = [str(file), *BUDGET, "--rounds", "4", "--zones", str(zones), "--json"]
    code, out, err = called(capsys, *asked, "--question", "residual", "--local-updates", "2")
    values = json.loads(out)
    assert code == 0
    assert set(values) >= KEYS
    assert values["objective"] is None
    assert values["central_objective"] is None
    assert values["question"] == "residual"
    assert "zone 1 are not connected" in err
    code, out, _ = called(capsys, *asked, "--oracle-metrics")
    assert json.loads(out)["objective"] > 0
    code, out, _ = called(capsys, *(a if a != "1" else "inf" for a in asked))
    assert json.loads(out)["epsilon"] == "infinity"
    assert json.loads(out)["central_objective"] < 1e-9


@pytest.mark.parametrize(
    ("changed", "fix"),
    [
        ({"--beta": "-1"}, "beta is -1; it must be above 0"),
        ({"--beta": "nan"}, "beta is nan"),
        ({"--epsilon": "0"}, "epsilon is 0"),
        ({"--delta": "1"}, "delta is 1"),
        ({"--rounds": "0"}, "rounds is 0"),
        ({"--question": "load"}, "choose from gradient, residual, demand"),
        ({"--local-updates": "0"}, "local-updates is 0"),
        ({"--zones": "99"}, "99 zones for 14 buses"),
        ({"--zones": "nowhere.txt"}, "nowhere.txt is no number and no file"),
        ({"--seed": "-1"}, "seed is -1"),
        ({"--beta": "1e308"}, "beta is 1e+308 per unit, beyond any demand"),
        ({"--beta": "1e6", "--epsilon": "0.01"}, "too large to compute with"),
    ],
)
def test_a_bad_option_is_one_line_that_names_the_fix(capsys, changed, fix):
    asked = dict(zip(BALANCE[::2], BALANCE[1::2], strict=True)) | {"--rounds": "2"} | changed
    code, out, err = called(capsys, "case14", *(word for pair in asked.items() for word in pair))
    assert code == 2
    assert out == ""
    assert fix in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "fix"),
    [
        (THREE, "Dear Sir or Madam,\n", "there is no mpc.bus"),
        ("; 2 3 .01 .1 0 0 0 0 0 0 1", "", "falls into 2 islands (bus 3"),
        ("2 3 .01 .1", "2 3 0 0", "r or x above 0"),
        ("2 3 .01 .1", "2 3 0 1e-300", "a value of admittance (1/impedance)"),
        ("2 3 .01 .1", "2 3 Inf .1", "a value of impedance is infinite"),
        ("40 10 0 0", "40 10 0 Inf", "a value of shunt"),
        ("2 3 .01 .1 0 0", "2 3 .01 .1 0 -5", "a rating or a tap ratio is below 0"),
        ("1 1 1.1 .9];", "1 1 .4 .3];", "no state meets all limits in zone 2"),
        ("2 3 .01 .1", "2 4 .01 .1", "bus 4 is named by a generator or a line"),
    ],
)
def test_a_case_that_cannot_be_used_is_one_line_and_leaves_nothing(capsys, tmp_path, old, new, fix):
    assert old in THREE
    text = THREE.replace(old, new)
    if "limits" in fix:  # apart only where a line of little capacity keeps the two together
        text = text.replace("2 3 .01 .1 0 0", "2 3 .01 .1 0 1")
    (tmp_path / "broken.m").write_text(text)
    (tmp_path / "zones.txt").write_text("1\n2 3\n")
    asked = [str(tmp_path / "broken.m"), *BUDGET, "--rounds", "2"]
    out = tmp_path / "out"
    code, _, err = called(capsys, *asked, "--zones", str(tmp_path / "zones.txt"), "--out", str(out))
    assert (code, err.count("\n")) == (2, 1)
    assert fix in err
    assert {path.name for path in tmp_path.iterdir()} == {"broken.m", "zones.txt"}


def test_zones_that_name_an_unknown_bus_are_one_line(capsys, tmp_path):
    (tmp_path / "zones.txt").write_text("1-14\n15\n")
    zones = str(tmp_path / "zones.txt")
    code, _, err = called(capsys, "case14", *BALANCE, "--rounds", "2", "--zones", zones)
    assert (code, err.count("\n")) == (2, 1)
    assert "bus 15 is not in case14" in err


def test_what_beta_means_is_in_the_help(capsys):
    _, out, _ = called(capsys, "--help")
    assert "per unit, so 0.01 is 1 MW where baseMVA is 100" in " ".join(
        out.replace("│", " ").split()
    )


def test_a_step_that_fails_within_a_run_is_one_line(capsys, monkeypatch):
    """Planted: no step of the run is found to be feasible, and none can be refined."""
    monkeypatch.setattr(conic_solver, "NEWTON_STEPS", 0)
    monkeypatch.setattr(ConicSolver, "_interior_point", _early(ConicSolver._interior_point))
    code, out, err = called(capsys, "case14", *BALANCE, "--rounds", "6")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the cone solver failed in a zone" in err


def _early(honest):
    def stopped(self, linear, metric):
        point, solved = honest(self, linear, metric)
        return point, solved and np.ptp(metric) == 0  # that of a zone has two values

    return stopped


def test_a_case_that_is_none_is_one_line(capsys, tmp_path):
    code, _, err = called(capsys, "case15", *BALANCE, "--rounds", "2")
    assert (code, err.count("\n")) == (2, 1)
    assert "neither a bundled case (case14, case118) nor a file" in err
