"""`taciturn grid` as users run it for an optimal power flow."""

import json
import re

import pytest

from taciturn.budget import Account
from taciturn.cli.main import main
from taciturn_power import command as command_room
from taciturn_power import delivery as delivery_room
from taciturn_power import parse_case
from taciturn_power.dispatch import study as opf_room

BUDGET = ["--beta", "1MW", "--epsilon", "1", "--delta", "1e-3"]
OWN = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 40 10 0 0 1 1.031 -4.217 1 1 1.1 .9;
3 1 30 5 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 71.23 0 90 -90 1.047 1 1 200 0; 3 0 0 90 -90 1 1 1 50 0];
mpc.branch = [1 2 .01 .1 0 90 0 0 0 0 1; 2 3 .01 .1 0 90 0 0 0 0 1];
mpc.gencost = [2 0 0 3 0.1 10 5; 2 0 0 3 0.2 20 0];
"""


def called(capsys, *arguments):
    code = main(["grid", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("opf") / "report"
    file = out.parent / "own.m"
    file.write_text(OWN)
    words = [str(file), *BUDGET, "--zones", "2", "--seed", "1", "--out", str(out)]
    assert main(["grid", *words]) == 0
    return out


def test_a_case_with_costs_is_dispatched_and_the_folder_holds_its_files(folder):
    names = {"results.json", "proposal.json", "plan.json", "report.html", "certificate-1.json"}
    names |= {"dispatch.m", "buses.csv", "lines.csv", "generators.csv", "ties.csv"}
    assert {path.name for path in folder.iterdir()} == names
    values = json.loads((folder / "results.json").read_text())
    assert (values["problem"], values["model"], values["hide"]) == ("opf", "dc", "demand")
    assert (values["eta"], values["promised"]) == (0.05, True)
    assert values["noise_mw"] == pytest.approx(2.57, abs=0.01)
    assert values["price"]["tightening"] == pytest.approx(0, abs=0.01)  # there is room
    assert values["price"]["relaxation"] > 1
    assert values["true"] is None
    page = (folder / "report.html").read_text()
    assert "of all runs, at most 5 %" in page
    assert "noise scale of an answer" in page
    assert page.count("<svg") == 2
    assert not re.findall(r"(?:src|href)=.?https?:", page)
    rows = (folder / "lines.csv").read_text().splitlines()
    assert rows[0].split(",")[:4] == ["table", "row", "from", "to"]
    assert len(rows) == 3


def test_no_file_of_the_folder_holds_a_number_of_the_state_that_was_read(folder):
    for path in folder.iterdir():
        text = path.read_text()
        for leak in ("71.23", "4.217", "1.031", "1.047"):
            assert leak not in text, path.name
    demand = parse_case((folder / "dispatch.m").read_text(), name="x", source="x").bus[:, 2]
    assert 40 not in demand
    assert 30 not in demand


@pytest.mark.slow
def test_json_is_one_object_and_an_owner_may_see_what_is_true(capsys, folder):
    file = str(folder.parent / "own.m")
    code, out, err = called(capsys, file, *BUDGET, "--zones", "2", "--json")
    assert (code, err.count("\n")) == (0, 1)  # beta is little beside capacity
    assert json.loads(out)["true"] is None
    code, out, _ = called(capsys, file, *BUDGET, "--zones", "2", "--json", "--oracle-metrics")
    true = json.loads(out)["true"]
    assert true["optimum"] > 0
    assert {"cost", "imbalance_mw", "served", "beyond_mw"} < set(true)
    code, out, _ = called(capsys, file, *BUDGET, "--zones", "2")
    assert "--oracle-metrics" in out
    assert "2.57 MW (standard deviation; public)" in out


@pytest.mark.slow
def test_a_proposal_says_all_there_is_to_say(capsys, folder):
    file, proposal = str(folder.parent / "own.m"), str(folder / "proposal.json")
    code, out, _ = called(capsys, file, "--proposal", proposal, "--seed", "1", "--json")
    again, first = json.loads(out), json.loads((folder / "results.json").read_text())
    assert code == 0
    for name in ("cost", "plan", "proposal", "answered_mw"):
        assert again[name] == first[name]
    code, _, err = called(capsys, file, "--proposal", proposal, "--eta", "0.1")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("hide", ["bus", "zone"])
def test_the_relaxation_runs_with_every_unit(capsys, hide):
    # seeded: the noise of a whole zone can be too large for the network
    words = ["case14", *BUDGET, "--model", "soc", "--hide", hide, "--json", "--seed", "1"]
    code, out, _ = called(capsys, *words)
    values = json.loads(out)
    assert code == 0
    assert values["unit"] == {"bus": "person", "zone": "agent"}[hide]
    assert values["relaxation"]["cost"] == pytest.approx(values["cost"])
    assert values["eta"] is None


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--rounds", "5"], "--rounds belongs to the problem balance"),
        (["--problem", "balance"], "no rounds is given"),
        (["--problem", "balance", "--rounds", "5", "--eta", "0.1"], "belongs to the problem opf"),
        (["--problem", "ac"], "choose from opf, balance"),
        (["--model", "ac"], "choose from dc, soc"),
        (["--hide", "city"], "choose from demand, bus, zone"),
        (["--eta", "often"], "give a number, say 0.05, or none"),
        (["--eta", "0.7"], "at most 0.5"),
        (["--model", "soc", "--eta", "0.1"], "take --model dc"),
        (["--beta", "5%"], "add --largest-demand"),
        (["--beta", "ten"], "write 10MW"),
    ],
)
def test_a_bad_option_is_one_line_that_names_the_fix(capsys, words, fix):
    code, out, err = called(capsys, "case14", *BUDGET, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert fix in err


@pytest.mark.parametrize(
    ("old", "new", "fix"),
    [
        ("mpc.gencost = [2 0 0 3 0.1 10 5; 2 0 0 3 0.2 20 0];", "", "has no costs"),
        ("3 0.1 10 5", "3 -0.1 10 5", "is not convex"),
        ("1 2 .01 .1 0", "1 2 .01 0 0", "x = 0"),
        ("2 3 .01 .1 0", "2 3 .01 .1 0 90 0 0 0 0 1; 2 3 .01 -.1 0", "both signs cancel"),
        (
            "1 2 .01 .1 0 90 0 0 0 0 1; 2 3 .01 .1 0 90 0 0 0 0 1",
            "1 2 .01 .1 0 90 0 0 0 0 1 5 20; 2 1 .01 .1 0 90 0 0 0 0 1 5 20; "
            "2 3 .01 .1 0 90 0 0 0 0 1 0 0",
            "no dispatch meets all limits",
        ),
        ("mpc.gencost", "mpc.reserves = 1;\nmpc.gencost", "mpc.reserves cannot"),
    ],
)
def test_a_case_that_cannot_be_dispatched_is_one_line(capsys, tmp_path, old, new, fix):
    file = tmp_path / "own.m"
    assert old in OWN
    file.write_text(OWN.replace(old, new))
    words = [str(file), *BUDGET, "--problem", "opf", "--out", str(tmp_path / "out")]
    code, out, err = called(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert fix in err
    assert not (tmp_path / "out").exists()


def test_a_network_that_serves_nobody_is_refused_before_anything_is_asked(
    capsys, monkeypatch, tmp_path
):
    monkeypatch.setattr(opf_room, "run", _never)
    (tmp_path / "own.m").write_text(OWN.replace("1 2 .01 .1 0", "1 2 .01 0 0"))
    code, _, err = called(capsys, str(tmp_path / "own.m"), *BUDGET)
    assert code == 2
    assert "x = 0" in err


def _never(*_, **__):
    raise AssertionError("a zone was asked")


@pytest.mark.parametrize("fails", ["solved_at", "opf_warnings", "folder_texts"])
def test_what_a_grid_answered_outlives_whatever_is_computed_from_it(
    capsys, tmp_path, monkeypatch, fails
):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    where = ["--accounts", str(tmp_path)]
    opening = ["budget", "open", "grid", "--epsilon", "2", "--delta", "2e-3", *where]
    assert main([*opening, "--relation", "target_change:0.01"]) == 0
    rooms = {"solved_at": command_room, "opf_warnings": command_room, "folder_texts": delivery_room}

    def failing(*_):
        raise RuntimeError("40 MW")

    monkeypatch.setattr(rooms[fails], fails, failing)
    file = tmp_path / "own.m"
    file.write_text(OWN)
    out = tmp_path / "report"
    words = [str(file), *BUDGET, "--zones", "2", "--out", str(out), "--account", "grid", *where]
    code, _, err = called(capsys, *words)
    assert code == 2
    assert f"answers.json and the certificate stand in {out}" in err
    assert "40 MW" not in err
    names = {"answers.json", "certificate-1.json", "plan.json", "proposal.json"}
    assert {path.name for path in out.iterdir()} == names
    answers = json.loads((out / "answers.json").read_text())["answers"]
    assert len(answers) == 6
    assert [run.status for run in Account("grid", tmp_path).state().charged] == ["released"]
