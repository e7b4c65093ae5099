"""`taciturn plan` as users run it: public facts in, a table or one JSON object out."""

import json

import numpy as np
import pytest

from taciturn.errors import InputError

PLAN = ["plan", "--records", "4000", "--epsilon", "1", "--delta", "1e-6", "--rounds", "10,200"]


BY_HAND = [*PLAN, "--columns", "5", "--loss", "logistic", "--agents", "10", "--no-centre"]


BOUNDS = """
source = "data"
[target]
name = "y"
min = 0
max = 10
[columns.age]
min = 0
max = 120
[columns.town]
values = ["a", "b", "c"]
"""


def test_the_table_names_methods_rounds_the_worst_case_and_a_recommendation(taciturn_):
    code, out, err = taciturn_(*BY_HAND)
    assert (code, err) == (0, "")
    for needed in (
        "4,000 records, 10 agents, 5 coefficients", "No record was read", "noisy-gradient  10 ",
        "dp-admm         200", "<- recommended",
    ):  # fmt: skip
        assert needed in out
    explained = taciturn_(*BY_HAND, "--explain")[1]
    assert "without its constant" in explained
    assert "multiplier  noise scale / sensitivity" in explained


def test_json_is_one_object_with_a_forecast_per_method_and_number_of_rounds(taciturn_):
    code, out, _ = taciturn_(*BY_HAND, "--observer", "sum", "--json")
    values = json.loads(out, parse_constant=pytest.fail)
    assert code == 0
    assert [(f["algorithm"], f["rounds"]) for f in values["forecasts"]] == [
        ("noisy-gradient", 10), ("noisy-gradient", 200), ("dp-admm", 10), ("dp-admm", 200),
    ]  # fmt: skip
    assert values["recommended"]["rounds"] == 200
    assert (values["records"], values["coordinates"], values["gradient_bound"]) == (4000, 5, 0.5)


def test_a_plan_says_whether_rows_are_taken_around_a_centre(taciturn_):
    by_hand = [*BY_HAND[:-1], "--algorithm", "noisy-gradient"]
    _, out, err = taciturn_(*by_hand)
    assert "6 coefficients" in out
    assert "Rows     around a private centre" in out
    assert err == ""
    few = [word.replace("4000", "100") for word in by_hand]
    assert "Rows:" not in taciturn_(*few)[1]


def test_a_bounds_file_stands_for_columns_norm_and_loss(taciturn_, tmp_path):
    file = tmp_path / "bounds.toml"
    file.write_text(BOUNDS)
    values = json.loads(taciturn_(*PLAN, "--bounds", file, "--json")[1])
    # age, three towns and the constant; two columns: norm sqrt(3)
    assert (values["coordinates"], values["loss"]) == (5, "squared")
    assert values["record_norm"] == pytest.approx(3**0.5)
    assert "one-question" in {f["algorithm"] for f in values["forecasts"]}
    assert any("filled in from the records" in line for line in values["warnings"])


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        (["--epsilon", "inf"], "finite"),
        (["--records", "5"], "at most 5"),
        (["--loss", "absolute"], "logistic, hinge:H"),
        (["--loss", "multinomial"], "--classes"),
        (["--classes", "3"], "--classes"),
        (["--loss", "multinomial", "--classes", "2"], "at least 3"),
        (["--record-norm", "nan"], "above 0"),
        (["--relation", "x"], "replace_one, zero_out"),
        (["--rounds", "10,x"], "with commas"),
        (["--rounds", "0"], "at least 1"),
        (["--rounds", "99999999999"], "fewer rounds"),
        (["--rounds", ",".join(map(str, range(1, 30)))], "at most 20"),
        (["--algorithm", "sgd"], "noisy-gradient"),
        (["--algorithm", "one-question"], "squared loss"),
        (["--algorithm", "dp-admm", "--sampling-rate", "0.1"], "no option sampling-rate"),
        (["--sampling-rate", "2"], "at most 1"),
        (["--bounds", "missing.toml"], "--columns follows from the bounds file"),
    ],
)
def test_a_bad_option_is_one_line_that_names_the_fix(taciturn_, changes, fix):
    code, out, err = taciturn_(*BY_HAND, *changes)
    assert (code, out) == (2, "")
    assert err.startswith("taciturn: error: ")
    assert err.count("\n") == 1
    assert fix in err


def test_the_earlier_name_of_the_columns_gives_a_hint(taciturn_):
    code, out, err = taciturn_(*PLAN, "--features", "5", "--loss", "logistic")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--columns" in err


WIDE = [
    *("plan", "--records", "4000", "--agents", "10", "--loss", "logistic"),
    *("--epsilon", "1", "--delta", "1e-6"),
]


def test_a_plan_that_promises_less_than_the_model_0_says_so_and_what_helps(taciturn_):
    command = [*WIDE, "--columns", "2000", "--rounds", "50,200"]
    out = taciturn_(*command, "--explain")[1]
    assert "Model 0, which uses no record: risk at most 0.693" in out
    (warning,) = [line for line in out.splitlines() if line.startswith("Warning: ")]
    assert "estimated at 6.68, and the model 0" in warning
    assert "fewer columns, more records, the observer sum or a larger epsilon" in warning
    values = json.loads(taciturn_(*command, "--json")[1])
    assert values["worse_than_zero"] is True
    assert values["risk_of_zero"] == pytest.approx(np.log(2))
    assert values["excess_of_zero"] == pytest.approx(1 / 8)
    assert f"Warning: {values['warnings'][0]}" == warning
    values = json.loads(taciturn_(*WIDE, "--columns", "20", "--rounds", "200", "--json")[1])
    assert (values["worse_than_zero"], values["warnings"]) == (False, [])


def test_a_published_rate_is_no_estimate_to_warn_by(taciturn_):
    more = ["--columns", "20", "--rounds", "200", "--algorithm", "dp-admm", "--json"]
    values = json.loads(taciturn_(*WIDE, *more)[1])
    assert values["forecasts"][0]["rule"] > values["risk_of_zero"]
    assert (values["worse_than_zero"], values["warnings"]) == (None, [])


SETTINGS = (
    ["--agents", "5"],
    ["--agents", "5", "--algorithm", "recal"],
    # the accountant of batches takes seconds for every number of rounds that is compared
    pytest.param(["--algorithm", "dp-sgd", "--sampling-rate", "0.07"], marks=pytest.mark.slow),
    pytest.param(
        ["--algorithm", "vradmm", "--structure", "lasso", "--sampling-rate", "0.03"],
        marks=pytest.mark.slow,
    ),
    pytest.param(["--structure", "lasso", "--algorithm", "noisy-gradient"], marks=pytest.mark.slow),
    ["--evaluate", "0.2", "--algorithm", "noisy-gradient", "--rounds", "7"],
)


@pytest.mark.parametrize("options", SETTINGS)
def test_plan_and_train_propose_the_same_run_of_the_same_rounds(
    taciturn_, tmp_path, monkeypatch, options
):
    given = ["breast_cancer", "--epsilon", "2", "--delta", "1e-3", *options]
    code, out, _ = taciturn_("plan", *given, "--out", tmp_path / "p.json", "--json")
    assert code == 0
    planned, seen = json.loads(out), []

    def stopped(prepared, *_, **__):
        seen.append(prepared.proposal)
        raise InputError("seen")

    monkeypatch.setattr("taciturn.cli.train._trained", stopped)
    assert taciturn_("train", *given)[0] == 2
    assert seen[0].rounds == planned["rounds"]
    assert seen[0].to_json() == (tmp_path / "p.json").read_text().strip()
    assert seen[0].rounds in [f["rounds"] for f in planned["forecasts"]]


def test_plan_recommends_what_train_runs_and_says_which_fewer_rounds_do_as_well(taciturn_):
    given = [option for option in BY_HAND if option not in {"--rounds", "10,200"}]
    _, out, _ = taciturn_(*given)
    assert "<- recommended: what taciturn train runs" in out
    assert "50 rounds are the fewest estimated within 5 % of the best" in out
    assert "taciturn train runs 200 with these options" in out
    assert json.loads(taciturn_(*given, "--json")[1])["recommended"]["rounds"] == 200
    _, out, _ = taciturn_(*given, "--rounds", "50,100")
    assert "<- recommended: the fewest rounds" in out
    _, out, _ = taciturn_(*given, "--rounds", "50")
    assert "with these options" not in out


def test_a_larger_budget_is_planned_and_trained_with_the_rounds_that_its_horizon_needs(taciturn_):
    facts = ["plan", "--columns", 5, "--loss", "logistic", "--delta", "1e-6", "--no-centre"]
    found = {}
    for records, epsilon in ((4_000, 1), (100_000, 3), (10_000_000, 3)):
        _, out, _ = taciturn_(*facts, "--records", records, "--epsilon", epsilon, "--json")
        found[records] = json.loads(out)
    rounds = [one["rounds"] for one in found.values()]
    assert rounds == [one["recommended"]["rounds"] for one in found.values()]
    assert rounds[0] == 200 < rounds[1] < rounds[2] == 1000


def test_a_proposal_is_of_one_number_of_rounds(taciturn_, tmp_path):
    code, _, err = taciturn_(*BY_HAND, "--rounds", "10,50", "--out", tmp_path / "p.json")
    assert code == 2
    assert "--rounds has 2" in err
    assert not (tmp_path / "p.json").exists()


def test_columns_and_loss_are_needed_without_a_bounds_file(taciturn_):
    for given, missing in ((["--loss", "logistic"], "columns"), (["--columns", "3"], "loss")):
        code, _, err = taciturn_(*PLAN, *given)
        assert code == 2
        assert f"add --{missing}, or --bounds FILE" in err


def test_several_epsilons_are_compared_in_one_table_and_as_a_list_in_json(taciturn_):
    ask = ["plan", "--records", "1629", "--columns", "20", "--loss", "logistic", "--delta", "1e-6"]
    ask += ["--rounds", "50"]
    listed = json.loads(taciturn_(*ask, "--epsilon", "3,0.5,3", "--json")[1])
    assert [one["epsilon"] for one in listed] == [0.5, 3]
    (alone,) = [json.loads(taciturn_(*ask, "--epsilon", "3", "--json")[1])]
    assert {**listed[1], "forecasts": 0, "out": None} == {**alone, "forecasts": 0}
    code, out, err = taciturn_(*ask, "--epsilon", "0.5,3", "--evaluate", "0.2")
    assert (code, err) == (0, "")
    head, few, many = [line.split() for line in out.splitlines() if line.split()[:1] in (
        ["epsilon"], ["0.5"], ["3"])]  # fmt: skip
    assert head[:6] == ["epsilon", "mu", "method", "rounds", "multiplier", "noise"]
    assert float(few[4]) > float(many[4])
    assert "the noise may exceed the signal" in " ".join(few)
    assert "signal" not in many
    assert "Where the noise may exceed the signal, what helps: fewer columns" in out
    assert out.count("error within") == 2


@pytest.mark.parametrize(
    ("more", "fix"),
    [
        (["--epsilon", "1,x"], "give numbers, as in 0.5,1,3"),
        (["--epsilon", "1,-2"], "epsilon"),
        (["--epsilon", "1,2", "--explain"], "--explain is for one epsilon"),
        (["--epsilon", "1,2", "--out", "p.json"], "--out is for one epsilon"),
        (["--epsilon", ",".join(map(str, range(1, 23)))], "give at most 20"),
    ],
)
def test_a_list_of_epsilons_that_cannot_be_compared_is_refused(more, fix, refused):
    ask = ["--records", "1629", "--columns", "20", "--loss", "logistic", "--delta", "1e-6"]
    assert fix in refused("plan", *ask, *more)
