"""One road: what is planned is what is trained, and one function turns a name into a method."""

import json
import re
import sys

import numpy as np
import pytest

from conftest import published
from taciturn.cli.main import BUILT_IN, commands, main
from taciturn.cli.options import method_options
from taciturn.datasets import FACTS
from taciturn.errors import InputError
from taciturn.estimators import (
    PrivateLogisticRegression,
)

BUDGET = "--epsilon 2 --delta 1e-4"
ROADS = {
    "star": "--agents 5 --rounds 6",
    "gossip": "--agents 6 --rounds 8 --algorithm nids --network grid",
    "relay": "--agents 5 --rounds 12 --algorithm recal --walk random --cap 2 --split-seed 3",
    "edges": "--rounds 6 --structure fused-lasso --graph {edges} --regulariser elastic:1e-4,1e-2",
    "batches": "--agents 2 --rounds 4 --algorithm dp-sgd --sampling-rate 0.3 --batches fixed",
}
RUNS_DIFFER = {"seconds", "out"}


@pytest.fixture
def taciturn_(capsys):
    def call(command, code=0):
        assert main(command.split()) == code
        return capsys.readouterr()

    return call


@pytest.fixture
def files(tmp_path):
    rows = [[k % 7, (3 * k) % 11, "yes" if k % 3 else "no", f"clinic {k % 4}"] for k in range(60)]
    for name, columns in (("table.csv", 3), ("owned.csv", 4)):
        head = ["age", "dose", "ill", "clinic"][:columns]
        lines = [head, *(row[:columns] for row in rows)]
        (tmp_path / name).write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")
    (tmp_path / "bounds.toml").write_text(
        'source = "public"\n[target]\nname = "ill"\nvalues = ["no", "yes"]\n'
        "[columns.age]\nmin = 0\nmax = 7\n[columns.dose]\nmin = 0\nmax = 11\n"
    )
    (tmp_path / "edges.csv").write_text("0,1\n2,5\n")
    return tmp_path


def results(text):
    values = json.loads(text)
    return {name: value for name, value in values.items() if name not in RUNS_DIFFER}


def both_roads(taciturn_, files, planned, trained, options):
    """The results of a training by its options, and by the proposal that `plan` wrote of them."""
    file = files / "p.json"
    digest = json.loads(taciturn_(f"plan {planned} {BUDGET} {options} --out {file} --json").out)
    direct = results(taciturn_(f"train {trained[0]} {BUDGET} {options} --seed 1 --json").out)
    carried = results(taciturn_(f"train {trained[1]} --proposal {file} --seed 1 --json").out)
    assert carried["proposal"] == digest["proposal"]
    return direct, carried


@pytest.mark.slow
@pytest.mark.parametrize("road", ROADS)
def test_a_proposal_trains_as_its_options_do(road, taciturn_, files):
    options, name = ROADS[road].format(edges=files / "edges.csv"), "breast_cancer"
    direct, carried = both_roads(taciturn_, files, name, (name, name), options)
    assert direct == carried
    assert {"proposal", "plan", "test_error", "epsilon"} <= direct.keys()


@pytest.mark.slow
def test_the_proposal_of_a_table_with_owners_trains_as_its_options_do(taciturn_, files):
    bounds = f"--bounds {files / 'bounds.toml'}"
    owned = f"{files / 'owned.csv'} --agent-column clinic"
    direct, carried = both_roads(
        taciturn_, files,
        f"{bounds} --counts 15,15,15,15", (f"{owned} --target ill {bounds}", owned),
        "--rounds 5",
    )  # fmt: skip
    assert direct == carried


@pytest.mark.parametrize(
    "more",
    ["--rounds 3", "--algorithm pvp", "--rho 1", "--bounds b.toml"],
)  # fmt: skip
def test_a_proposal_comes_without_other_options(more, taciturn_, files):
    file = files / "p.json"
    taciturn_(f"plan breast_cancer {BUDGET} --rounds 2 --out {file}")
    printed = taciturn_(f"train breast_cancer --proposal {file} {more}", 2)
    assert more.split()[0] in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        (("counts",), lambda counts: [counts[0] + 1, counts[1] - 1, *counts[2:]], "share them"),
        (("data", "record_norm"), lambda norm: norm * (1 + 2**-52), "facts differ"),
        (("data", "name"), lambda name: "digits", "facts differ"),
        (("data", "table", "target", "name"), lambda name: "gone", "gone"),
    ],
)
def test_a_proposal_for_other_records_trains_nothing(path, change, words, taciturn_, files):
    file, bounds = files / "p.json", files / "bounds.toml"
    taciturn_(f"plan --bounds {bounds} --records 60 {BUDGET} --agents 4 --rounds 2 --out {file}")
    values = json.loads(file.read_text())
    *way, last = path
    node = values
    for key in way:
        node = node[key]
    node[last] = change(node[last])
    file.write_text(json.dumps(values))
    printed = taciturn_(f"train {files / 'table.csv'} --proposal {file}", 2)
    assert re.search(words, printed.err)
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_bounds_that_differ_in_the_last_place_are_other_facts(taciturn_, files):
    """A proposal carries its bounds, so a table is read by those: the certificate is theirs."""
    file, bounds = files / "p.json", files / "bounds.toml"
    taciturn_(f"plan --bounds {bounds} --records 60 {BUDGET} --agents 4 --rounds 2 --out {file}")
    values = json.loads(file.read_text())
    first = values["data"]["table"]["columns"][0]
    first["range"][1] += 2**-50
    file.write_text(json.dumps(values))
    changed = results(
        taciturn_(f"train {files / 'table.csv'} --proposal {file} --seed 1 --json").out
    )
    direct = f"train {files / 'table.csv'} --target ill --bounds {bounds} {BUDGET} --agents 4"
    other = results(taciturn_(f"{direct} --rounds 2 --seed 1 --json").out)
    assert changed["proposal"] != other["proposal"]
    assert changed["epsilon"] == other["epsilon"]


# one function turns a name into a method


# every option of a method is an option of the commands and of the estimators


@pytest.mark.parametrize("command", ["train", "plan", "audit"])
def test_every_option_of_a_method_is_one_of_the_command(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    for name in method_options():
        assert f"--{name.replace('_', '-')}" in text
    assert "no method" not in text
    said = "No method of this command has it." in " ".join(text.split())
    assert said == (command == "audit")
    assert command in {one.name for one in BUILT_IN}


def fitted_plan(**settings):
    rows = np.random.default_rng(0).uniform(0, 1, (60, 2))
    public = {"bounds": (0, 1), "classes": np.array([0, 1])}
    estimator = PrivateLogisticRegression(epsilon=2, delta=1e-3, rounds=8, **public, **settings)
    return estimator.fit(rows, (rows[:, 0] > 0.5).astype(int), agents=3).plan_


@pytest.mark.slow
def test_an_estimator_takes_any_option_of_its_method_by_name():
    named = fitted_plan(algorithm="linearised-admm", local_updates=2)
    by_options = fitted_plan(algorithm="linearised-admm", options={"local_updates": 2})
    assert by_options.digest == named.digest
    assert fitted_plan(algorithm="linearised-admm").digest != named.digest
    with pytest.raises(InputError, match="given twice"):
        fitted_plan(algorithm="linearised-admm", local_updates=2, options={"local_updates": 2})
    with pytest.raises(InputError, match="has no option"):
        fitted_plan(options={"nonsense": 2})


# a method of one's own

MINE = """
from taciturn.algorithms import NoisyGradient

class Mine(NoisyGradient):
    "A star method of one's own."

def number(problem):
    return 3

class Greedy(NoisyGradient):
    def __init__(self, problem, more):
        raise AssertionError

something = 3
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine_of_a_test.py").write_text(MINE)
    (tmp_path / "broken_of_a_test.py").write_text("raise RuntimeError('no\\nluck')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return "mine_of_a_test:Mine"


@pytest.mark.slow
def test_a_star_method_of_ones_own_is_planned_trained_and_audited(mine, taciturn_):
    data = f"breast_cancer {BUDGET} --agents 5 --rounds 4"
    taciturn_(f"plan {data} --algorithm {mine} --out p.json")
    direct = results(taciturn_(f"train {data} --algorithm {mine} --seed 1 --json").out)
    library = results(taciturn_(f"train {data} --seed 1 --json").out)
    assert direct["test_error"] == library["test_error"]
    assert direct["algorithm"] == mine
    carried = f"train breast_cancer --proposal p.json --algorithm {mine} --seed 1 --json"
    assert results(taciturn_(carried).out) == direct
    report = json.loads(taciturn_(f"audit {mine} --runs 100 --json").out)
    assert report["verdict"] == "consistent"
    planted = json.loads(taciturn_(f"audit {mine} --runs 100 --fault halved-noise --json").out)
    assert planted["verdict"] == "violated"


def test_a_proposal_imports_no_code_that_its_reader_does_not_name(mine, taciturn_, monkeypatch):
    taciturn_(f"plan breast_cancer {BUDGET} --rounds 2 --algorithm {mine} --out p.json")
    for name in ("", "--algorithm noisy-gradient", "--algorithm mine_of_a_test:number"):
        monkeypatch.setattr("taciturn.cli.options._imported", pytest.fail)
        printed = taciturn_(f"train breast_cancer --proposal p.json {name}", 2)
        assert f"--algorithm {mine}" in printed.err
        assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere_of_a_test:Mine", "no module 'nowhere_of_a_test'"),
        ("mine_of_a_test:Yours", "no class or function 'Yours'"),
        ("mine_of_a_test:number", "returns a int"),
        ("mine_of_a_test:Greedy", "failed (TypeError"),
        ("broken_of_a_test:Mine", "RuntimeError: no luck"),
        ("../mine:Mine", "not a module name"),
    ],
)
@pytest.mark.parametrize("command", ["train breast_cancer", "audit"])
def test_what_is_no_method_of_ones_own_is_one_line(mine, name, words, command, taciturn_):
    options = name if command == "audit" else f"{BUDGET} --algorithm {name}"
    printed = taciturn_(f"{command} {options}", 2)
    assert words in printed.err
    assert printed.err.count("\n") == 1


# public facts


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "adult" else pytest.mark.slow) for name in FACTS],
)
def test_the_facts_are_those_of_the_data_set(name):
    dataset = published(name)  # which refuses other facts
    assert FACTS[name].columns == len(dataset.feature_names)
    assert FACTS[name].train_rows in {None, dataset.train_rows}


@pytest.mark.parametrize("name", FACTS)
def test_planning_reads_no_record(name, taciturn_, monkeypatch):
    def refuse(*args, **kwargs):
        pytest.fail("planning reads a file")

    command = f"plan {name} --epsilon 1 --delta 1e-7 --rounds 3 --json"
    taciturn_(f"plan breast_cancer {BUDGET} --rounds 3")  # imports happen here
    known = commands()  # which look into the installed packages
    monkeypatch.setattr(sys.modules[main.__module__], "commands", lambda: known)
    for where in ("builtins.open", "io.open", "pathlib.Path.open", "pathlib.Path.read_text"):
        monkeypatch.setattr(where, refuse)
    monkeypatch.setattr("taciturn.cli.records.load", refuse)
    monkeypatch.setattr("taciturn.datasets.load", refuse)
    counts = " --counts 5,9" if FACTS[name].train_rows is None else ""
    assert json.loads(taciturn_(command + counts).out)["records"] > 0
