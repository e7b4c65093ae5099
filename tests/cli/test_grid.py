"""`taciturn grid` as users run it: a dispatch, a day of dispatches, and the balance of a state."""

import json
import re

import numpy as np
import pytest

from conftest import just_below
from taciturn.budget import Account
from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn_power import command as command_room
from taciturn_power import delivery as delivery_room
from taciturn_power import parse_case
from taciturn_power.conic import solver as conic_solver
from taciturn_power.conic.solver import ConicSolver
from taciturn_power.dispatch import asking as asking_room
from taciturn_power.dispatch import study as opf_room

BUDGET = ["--beta", "1MW", "--epsilon", "1", "--delta", "1e-3"]


OWN = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 40 10 0 0 1 1.031 -4.217 1 1 1.1 .9;
3 1 30 5 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 71.23 0 90 -90 1.047 1 1 200 0; 3 0 0 90 -90 1 1 1 50 0];
mpc.branch = [1 2 .01 .1 0 90 0 0 0 0 1; 2 3 .01 .1 0 90 0 0 0 0 1];
mpc.gencost = [2 0 0 3 0.1 10 5; 2 0 0 3 0.2 20 0];
"""


DAY = ["--beta", "1MW", "--epsilon", "5", "--delta", "1e-3", "--zones", "2"]


DEMANDS = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 41.7 10 0 0 1 1.031 -4.217 1 1 1.1 .9;
3 1 30 5 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 71.23 0 90 -90 1.047 1 1 200 0; 3 0 0 90 -90 1 1 1 50 0];
mpc.branch = [1 2 .01 .1 0 90 0 0 0 0 1; 2 3 .01 .1 0 90 0 0 0 0 1];
mpc.gencost = [2 0 0 3 0.1 10 5; 2 0 0 3 0.2 20 0];
"""


LOADS = {1: [0, 0, 0, 0], 2: [38.25, 36.75, 41.25, 44.75], 3: [21.75, 25.25, 27.75, 30.25]}


SMALL = ["--beta", "0.01", "--epsilon", "1", "--delta", "1e-2"]


BALANCE = [*SMALL, "--problem", "balance"]


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
    code = main(["grid", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def no_run(*_, **__):
    raise AssertionError("a zone was asked")


@pytest.fixture(scope="module")
def dispatched(tmp_path_factory):
    """The folder of a dispatch of one moment."""
    out = tmp_path_factory.mktemp("opf") / "report"
    file = out.parent / "own.m"
    file.write_text(OWN)
    words = [file, *BUDGET, "--zones", "2", "--seed", "1", "--out", out]
    assert main(["grid", *map(str, words)]) == 0
    return out


@pytest.mark.slow
def test_json_is_one_object_and_an_owner_may_see_what_is_true(capsys, dispatched):
    file = dispatched.parent / "own.m"
    code, out, err = called(capsys, file, *BUDGET, "--zones", "2", "--json")
    assert (code, err.count("\n")) == (0, 1)  # beta is little beside capacity
    assert json.loads(out)["true"] is None
    # a proposal says all there is to say
    again = ["--proposal", dispatched / "proposal.json", "--seed", "1"]
    code, out, _ = called(capsys, file, *again, "--json", "--oracle-metrics")
    values, first = json.loads(out), json.loads((dispatched / "results.json").read_text())
    assert {"cost", "imbalance_mw", "served", "beyond_mw", "optimum"} <= set(values["true"])
    for name in ("cost", "plan", "proposal", "answered_mw"):
        assert values[name] == first[name]
    code, _, err = called(capsys, file, *again, "--eta", "0.1")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("hide", "unit"), [("bus", "person"), ("zone", "agent")])
def test_the_relaxation_runs_with_every_unit(capsys, hide, unit):
    # seeded: the noise of a whole zone can be too large for the network
    words = ["case14", *BUDGET, "--model", "soc", "--hide", hide, "--json", "--seed", "1"]
    code, out, _ = called(capsys, *words)
    assert (code, json.loads(out)["unit"]) == (0, unit)


def test_a_case_with_costs_is_dispatched_and_the_folder_holds_its_files(dispatched):
    names = {"results.json", "proposal.json", "plan.json", "report.html", "certificate-1.json"}
    names |= {"dispatch.m", "buses.csv", "lines.csv", "generators.csv", "ties.csv"}
    assert {path.name for path in dispatched.iterdir()} == names
    values = json.loads((dispatched / "results.json").read_text())
    assert (values["problem"], values["model"], values["hide"]) == ("opf", "dc", "demand")
    assert (values["eta"], values["promised"]) == (0.05, True)
    assert values["noise_mw"] == pytest.approx(2.57, abs=0.01)
    assert values["price"]["tightening"] == pytest.approx(0, abs=0.01)  # there is room
    assert values["price"]["relaxation"] > 1
    assert values["true"] is None
    page = (dispatched / "report.html").read_text()
    assert "at most 5 % of all runs" in page
    assert "noise scale of an answer" in page
    assert page.count("<svg") == 2
    assert not re.findall(r"(?:src|href)=.?https?:", page)
    rows = (dispatched / "lines.csv").read_text().splitlines()
    assert rows[0].split(",")[:4] == ["table", "row", "from", "to"]
    assert len(rows) == 3


def test_no_file_of_the_folder_holds_a_number_of_the_state_that_was_read(dispatched):
    for path in dispatched.iterdir():
        text = path.read_text()
        for leak in ("71.23", "4.217", "1.031", "1.047"):
            assert leak not in text, path.name
    demand = parse_case((dispatched / "dispatch.m").read_text(), name="x", source="x").bus[:, 2]
    assert 40 not in demand
    assert 30 not in demand


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--rounds", "5"], "--rounds belongs to the problem balance"),
        (["--problem", "balance", "--rounds", "5", "--eta", "0.1"], "belongs to the problem opf"),
        (["--model", "ac"], "choose from dc, soc"),
        (["--model", "soc", "--eta", "0.1"], "take --model dc"),
        (["--beta", "5%"], "add --largest-demand"),
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
        ("1 2 .01 .1 0", "1 2 .01 0 0", "x = 0"),
        (
            "1 2 .01 .1 0 90 0 0 0 0 1; 2 3 .01 .1 0 90 0 0 0 0 1",
            "1 2 .01 .1 0 90 0 0 0 0 1 5 20; 2 1 .01 .1 0 90 0 0 0 0 1 5 20; "
            "2 3 .01 .1 0 90 0 0 0 0 1 0 0",
            "no dispatch meets all limits",
        ),
    ],
)
def test_a_case_that_cannot_be_dispatched_is_one_line_and_nothing_is_asked(
    capsys, monkeypatch, tmp_path, old, new, fix
):
    monkeypatch.setattr(opf_room, "run", no_run)
    file = tmp_path / "own.m"
    assert old in OWN
    file.write_text(OWN.replace(old, new))
    words = [str(file), *BUDGET, "--problem", "opf", "--out", str(tmp_path / "out")]
    code, out, err = called(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert fix in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "fails", ["solve_at_answers", pytest.param("folder_texts", marks=pytest.mark.slow)]
)
def test_what_a_grid_answered_outlives_whatever_is_computed_from_it(
    capsys, tmp_path, monkeypatch, fails
):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    where = ["--accounts", str(tmp_path)]
    opening = ["budget", "open", "grid", "--epsilon", "2", "--delta", "2e-3", *where]
    assert main([*opening, "--relation", "target_change:0.01"]) == 0
    rooms = {"solve_at_answers": command_room, "folder_texts": delivery_room}

    def failing(*_):
        raise RuntimeError("40 MW")

    monkeypatch.setattr(rooms[fails], fails, failing)
    file = tmp_path / "own.m"
    file.write_text(OWN)
    out = tmp_path / "report"
    words = [str(file), *BUDGET, "--zones", "2", "--out", str(out), "--account", "grid", *where]
    code, _, err = called(capsys, *words)
    assert code == 2
    assert f"answers.json and the certificate are in {out}" in err
    assert "40 MW" not in err
    names = {"answers.json", "certificate-1.json", "plan.json", "proposal.json"}
    assert {path.name for path in out.iterdir()} == names
    answers = json.loads((out / "answers.json").read_text())["answers"]
    assert len(answers) == 6
    assert [run.status for run in Account("grid", tmp_path).state().charged] == ["released"]


def series(*buses):
    rows = [
        f"{bus},{6 * step:02d}:00,{mw},{mw / 4}"
        for bus in buses
        for step, mw in enumerate(LOADS[bus])
    ]
    return "\n".join(["bus,time,MW,MVAr", *rows]) + "\n"


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    where = tmp_path_factory.mktemp("day")
    (where / "own.m").write_text(DEMANDS)
    (where / "west.csv").write_text(series(1, 2))
    (where / "east.csv").write_text(series(3))
    (where / "weights.csv").write_text("time,weight\n0,1\n6,1\n12,4\n18,4\n")
    words = [where / "own.m", *DAY, "--series", where / "west.csv", "--series"]
    words += [where / "east.csv", "--weights", where / "weights.csv", "--smooth", "--seed", 1]
    assert main(["grid", *map(str, words), "--out", str(where / "out")]) == 0
    return where


def test_a_day_is_dispatched_and_the_folder_holds_its_files(room):
    names = {"results.json", "proposal.json", "plan.json", "report.html", "certificate-1.json"}
    names |= {"steps.csv", "buses.csv", "lines.csv", "generators.csv"}
    assert {path.name for path in (room / "out").iterdir()} == names
    values = json.loads((room / "out" / "results.json").read_text())
    shares = [step["budget_share"] for step in values["steps"]]
    assert shares == pytest.approx([0.1, 0.1, 0.4, 0.4], rel=1e-6)
    noise = [step["noise_mw"] for step in values["steps"]]
    assert noise[0] == pytest.approx(2 * noise[2], rel=1e-6)
    assert (values["step_hours"], values["smooth"], values["true"]) == (6, True, None)
    assert values["cost"] == pytest.approx(6 * sum(step["cost"] for step in values["steps"]))
    rows = (room / "out" / "generators.csv").read_text().splitlines()
    assert rows[0].startswith("time,bus,mw")
    assert len(rows) == 1 + 4 * 2
    assert rows[3].startswith("06:00,1,")
    page = (room / "out" / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "at every step of the day" in page
    assert not re.findall(r"(?:src|href)=.?https?:", page)


def test_no_file_of_the_folder_holds_a_number_of_the_series(room):
    for path in (room / "out").iterdir():
        text = path.read_text()
        for leak in ("38.25", "36.75", "41.25", "44.75", "0.3825", "71.23", "41.7", "4.217"):
            assert not re.search(rf"(?<![\d.]){re.escape(leak)}(?!\d)", text), path.name


def test_a_proposal_says_all_there_is_to_say_but_the_series(capsys, room):
    words = [room / "own.m", "--proposal", room / "out" / "proposal.json"]
    files = ["--series", room / "west.csv", "--series", room / "east.csv"]
    code, out, _ = called(capsys, *words, *files, "--seed", 1, "--json", "--oracle-metrics")
    again, first = (json.loads(text) for text in (out, (room / "out/results.json").read_text()))
    assert code == 0
    assert [again[name] for name in ("cost", "plan", "proposal")] == [
        first[name] for name in ("cost", "plan", "proposal")
    ]
    assert again["true"]["demand_mw"][0] == pytest.approx(60)
    for more, says in (([], "add --series"), (["--smooth", *files], "leave it out")):
        code, out, err = called(capsys, *words, *more)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert says in err


@pytest.fixture
def account(capsys, tmp_path):
    """An account of persons, and the words that charge a day of one demand to it."""
    words = ["open", "grid", "--epsilon", "40", "--delta", "1e-2", "--unit", "person"]
    words += ["--relation", "target_change:0.01", "--accounts", str(tmp_path)]
    assert main(["budget", *words]) == 0
    capsys.readouterr()
    return Account("grid", tmp_path), ["--account", "grid", "--accounts", tmp_path]


def files(room):
    return ["--series", room / "west.csv", "--series", room / "east.csv"]


def test_an_account_of_persons_holds_runs_that_mean_the_same_by_a_person(capsys, room, account):
    """A bus costs sqrt(2) times as much as one demand, and both are called a person."""
    held, words = account
    day = [room / "own.m", *DAY, *files(room), *words]
    code, out, _ = called(capsys, *day, "--hide", "bus", "--json")
    assert code == 0
    (charged,) = held.state().charged
    ((event, count),) = charged.charge.messages[0]
    assert count == 1  # a day is one event
    assert 1 / event.multiplier == pytest.approx(json.loads(out)["mu"], rel=1e-6)
    code, out, err = called(capsys, *day)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "in this run a person is one demand" in err
    assert called(capsys, room / "own.m", *DAY, *words, "--hide", "bus")[0] == 0
    assert len(held.state().charged) == 2


def test_what_is_refused_before_anything_is_asked_is_charged_nothing(capsys, room, account):
    """A series of other times than the proposal's, and lines of another case."""
    held, words = account
    given = ["--proposal", room / "out" / "proposal.json", *words]
    shifted = "\n".join(
        re.sub(r",(\d\d):00,", lambda hour: f",{int(hour[1]) + 1:02d}:00,", line)
        for line in series(1, 2, 3).splitlines()
    )
    (room / "later.csv").write_text(shifted + "\n")
    (room / "other.m").write_text(DEMANDS.replace(".01 .1 0 90", ".01 .1 0 80"))
    for case, days in (("own.m", ["--series", room / "later.csv"]), ("other.m", files(room))):
        code, out, err = called(capsys, room / case, *given, *days)
        assert (code, out) == (2, "")
        assert "propose again" in err
    assert held.state().charged == ()


@pytest.mark.parametrize(
    ("place", "status"), [("smoothed", "released"), ("demand_shards", "failed")]
)
def test_a_day_that_breaks_down_stays_charged_once(
    capsys, monkeypatch, room, account, place, status
):
    held, words = account

    def broken(*_, **__):
        raise InputError("the disk is full; make room")

    monkeypatch.setattr({"smoothed": opf_room, "demand_shards": asking_room}[place], place, broken)
    code, out, _ = called(
        capsys, room / "own.m", *DAY, *files(room), *words, "--smooth", "--out", room / place
    )
    assert (code, out) == (2, "")
    # what was answered is there, and nothing else
    assert (room / place / "answers.json").exists() == (status == "released")
    assert not (room / place / "results.json").exists()
    (charged,) = held.state().charged
    assert charged.status == status
    assert charged.purpose.mu == pytest.approx(held.state().cost(charged).squares ** 0.5, rel=1e-6)


@pytest.mark.slow
def test_with_force_no_file_of_an_earlier_report_stays_beside_those_of_a_day(capsys, room):
    """The earlier one was without noise, so its case holds the true demands."""
    out = room / "replaced"
    exact = ["--beta", "1MW", "--epsilon", "inf", "--delta", "1e-3", "--zones", "2"]
    assert called(capsys, room / "own.m", *exact, "--out", out)[0] == 0
    assert "41.7" in (out / "dispatch.m").read_text()
    (out / "notes.txt").write_text("mine")
    words = [room / "own.m", *DAY, *files(room), "--out", out, "--force"]
    assert called(capsys, *words)[0] == 0
    assert (out / "notes.txt").is_file()
    new = {"steps.csv", "buses.csv", "lines.csv", "generators.csv", "notes.txt"}
    new |= {"results.json", "proposal.json", "plan.json", "report.html"}
    assert {path.name for path in out.iterdir()} == new | {
        "certificate-1.json",
        "certificate-2.json",
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--smooth"], "--smooth is for a day; add --series"),
        (["--series", "west.csv"], "bus 3 of own has no row at step 1 of 4"),
        (["--series", "west.csv", "--problem", "balance"], "--series belongs to the problem opf"),
    ],
)
def test_what_is_no_day_is_one_line_and_nothing_is_asked(capsys, monkeypatch, room, words, says):
    monkeypatch.setattr(opf_room, "run", no_run)
    files = [room / word if "." in word else word for word in words]
    code, out, err = called(capsys, room / "own.m", *DAY, *files)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    for demand in ("38.25", "36.75", "21.75", "41.7"):
        assert demand not in err.replace(str(room), "")


@pytest.fixture(scope="module")
def balanced(tmp_path_factory):
    out = tmp_path_factory.mktemp("grid") / "report"
    code = main(["grid", "case14", *BALANCE, "--rounds", "6", "--seed", "1", "--out", str(out)])
    assert code == 0
    return out


def test_the_folder_holds_results_plan_state_and_a_page_that_draws_the_network(balanced):
    names = {"results.json", "proposal.json", "plan.json", "state.json", "report.html"}
    names |= {"certificate-1.json"}
    assert {path.name for path in balanced.iterdir()} == names
    values = json.loads((balanced / "results.json").read_text())
    assert set(values) >= KEYS
    assert (values["case"], values["zones"], values["ties"]) == ("case14", 3, 5)
    assert values["question"] == "demand"
    assert just_below(values["epsilon"], 1.0)
    assert len(values["curves"]["objective"]) == 6
    for name, part in (("plan.json", "certificate"), ("certificate-1.json", "claim")):
        assert json.loads((balanced / name).read_text())[part]["reproduction"] is True
    state = json.loads((balanced / "state.json").read_text())
    assert len(state["voltage_magnitude"]) == 14
    page = (balanced / "report.html").read_text()
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
    asked = [str(file), *SMALL, "--rounds", "4", "--zones", str(zones), "--json"]
    code, out, err = called(capsys, *asked, "--question", "residual", "--local-updates", "2")
    values = json.loads(out)
    assert code == 0
    assert set(values) >= KEYS
    assert values["objective"] is None
    assert values["central_objective"] is None
    assert values["question"] == "residual"
    assert "zone 1 are not connected by lines within the zone" in err
    code, out, _ = called(capsys, *asked, "--oracle-metrics")
    assert json.loads(out)["objective"] > 0
    code, out, _ = called(capsys, *(a if a != "1" else "inf" for a in asked))
    assert json.loads(out)["epsilon"] == "infinity"
    assert json.loads(out)["central_objective"] < 1e-9


@pytest.mark.parametrize(
    ("changed", "fix"),
    [
        ({"--beta": "nan"}, "beta is nan"),
        ({"--rounds": "0"}, "rounds is 0"),
        ({"--zones": "nowhere.txt"}, "nowhere.txt is neither a number nor a readable file"),
        ({"--beta": "1e6", "--epsilon": "0.01"}, "too large to compute with"),
    ],
)
def test_a_bad_option_of_a_balance_is_one_line_that_names_the_fix(capsys, changed, fix):
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
        ("1 1 1.1 .9];", "1 1 .4 .3];", "no state meets all limits in zone 2"),
    ],
)
def test_a_case_that_cannot_be_used_is_one_line_and_leaves_nothing(capsys, tmp_path, old, new, fix):
    assert old in THREE
    text = THREE.replace(old, new)
    if "limits" in fix:  # apart only where a line of little capacity keeps the two together
        text = text.replace("2 3 .01 .1 0 0", "2 3 .01 .1 0 1")
    (tmp_path / "broken.m").write_text(text)
    (tmp_path / "zones.txt").write_text("1\n2 3\n")
    asked = [str(tmp_path / "broken.m"), *SMALL, "--rounds", "2"]
    out = tmp_path / "out"
    code, _, err = called(capsys, *asked, "--zones", str(tmp_path / "zones.txt"), "--out", str(out))
    assert (code, err.count("\n")) == (2, 1)
    assert fix in err
    assert {path.name for path in tmp_path.iterdir()} == {"broken.m", "zones.txt"}


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
