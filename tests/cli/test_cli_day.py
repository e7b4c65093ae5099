"""`taciturn grid --series` as users run it for a day."""

import json
import re

import pytest

from taciturn.budget import Account
from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn_power.dispatch import asking as asking_room
from taciturn_power.dispatch import study as opf_room

BUDGET = ["--beta", "1MW", "--epsilon", "5", "--delta", "1e-3", "--zones", "2"]
OWN = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 41.7 10 0 0 1 1.031 -4.217 1 1 1.1 .9;
3 1 30 5 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 71.23 0 90 -90 1.047 1 1 200 0; 3 0 0 90 -90 1 1 1 50 0];
mpc.branch = [1 2 .01 .1 0 90 0 0 0 0 1; 2 3 .01 .1 0 90 0 0 0 0 1];
mpc.gencost = [2 0 0 3 0.1 10 5; 2 0 0 3 0.2 20 0];
"""
LOADS = {1: [0, 0, 0, 0], 2: [38.25, 36.75, 41.25, 44.75], 3: [21.75, 25.25, 27.75, 30.25]}


def series(*buses):
    rows = [
        f"{bus},{6 * step:02d}:00,{mw},{mw / 4}"
        for bus in buses
        for step, mw in enumerate(LOADS[bus])
    ]
    return "\n".join(["bus,time,MW,MVAr", *rows]) + "\n"


def called(capsys, *arguments):
    code = main(["grid", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    where = tmp_path_factory.mktemp("day")
    (where / "own.m").write_text(OWN)
    (where / "west.csv").write_text(series(1, 2))
    (where / "east.csv").write_text(series(3))
    (where / "weights.csv").write_text("time,weight\n0,1\n6,1\n12,4\n18,4\n")
    words = [where / "own.m", *BUDGET, "--series", where / "west.csv", "--series"]
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


def test_a_day_is_charged_to_an_account_once_and_whole(capsys, room, tmp_path):
    assert main(["budget", "open", "grid", "--epsilon", "6", "--delta", "1e-2",
                 "--relation", "target_change:0.01", "--unit", "person",
                 "--accounts", str(tmp_path)]) == 0  # fmt: skip
    capsys.readouterr()
    words = [room / "own.m", *BUDGET, "--series", room / "west.csv", "--series", room / "east.csv"]
    words += ["--account", "grid", "--accounts", tmp_path, "--json"]
    code, out, _ = called(capsys, *words)
    assert code == 0
    (charged,) = Account("grid", tmp_path).state().charged
    ((event, count),) = charged.charge.messages[0]
    assert count == 1
    assert 1 / event.multiplier == pytest.approx(json.loads(out)["mu"], rel=1e-6)
    code, _, err = called(capsys, *words)
    assert (code, err.count("\n")) == (2, 1)


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
    day = [room / "own.m", *BUDGET, *files(room), *words]
    assert called(capsys, *day, "--hide", "bus")[0] == 0
    code, out, err = called(capsys, *day)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "in this run a person is one demand" in err
    assert called(capsys, room / "own.m", *BUDGET, *words, "--hide", "bus")[0] == 0
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
    (room / "other.m").write_text(OWN.replace(".01 .1 0 90", ".01 .1 0 80"))
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
        capsys, room / "own.m", *BUDGET, *files(room), *words, "--smooth", "--out", room / place
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
    words = [room / "own.m", *BUDGET, *files(room), "--out", out, "--force"]
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
        (["--weights", "west.csv"], "--weights is for a day; add --series"),
        (["--series", "west.csv"], "bus 3 of own has no row at step 1 of 4"),
        (["--series", "west.csv", "--series", "west.csv"], "second one of that bus and time"),
        (["--series", "none.csv"], "cannot be read"),
        (["--series", "own.m"], "does not name the columns"),
        (["--series", "west.csv", "--problem", "balance"], "--series belongs to the problem opf"),
        (
            ["--series", "west.csv", "--series", "east.csv", "--weights", "east.csv"],
            "does not name the columns time, weight",
        ),
    ],
)
def test_what_is_no_day_is_one_line_and_nothing_is_asked(capsys, monkeypatch, room, words, says):
    monkeypatch.setattr(opf_room, "run", None)
    files = [room / word if "." in word else word for word in words]
    code, out, err = called(capsys, room / "own.m", *BUDGET, *files)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    for demand in ("38.25", "36.75", "21.75", "41.7"):
        assert demand not in err.replace(str(room), "")
