"""A paper's names and parameters, typed as users type them."""

import json

from tests.cli.conftest import FIELDS, patients, table_in, training, write

from taciturn_verify.judging import verify

BARE = ("plan", "--delta", "1e-6", "--columns", "3", "--loss", "logistic", "--no-centre")
PLAN = (*BARE, "--records", "400", "--agents", "4")
OWNED = (*BARE, "--counts", "100,100,100,100")


def test_a_plan_of_a_relay_states_each_budget_and_the_leakage_frequency(taciturn_):
    relay = (*OWNED, "--agent-epsilons", "2,1,0.5,0.25", "--rounds", "20")
    line = (*relay, "--algorithm", "RECAL", "--network", "ring", "--json")
    code, out, _ = taciturn_(*line, "--agent-step-sizes", "0.1,0.2,0.3,0.4")
    values = json.loads(out)
    assert (code, values["epsilon"]) == (0, 2.0)
    assert [round(one, 4) for one in values["per_agent_epsilon"]] == [2.0, 1.0, 0.5, 0.25]
    assert values["network"]["privacy_leakage_frequency"] == 5
    text = taciturn_(*line[:-1])[1]
    assert "2.0000, 1.0000, 0.5000, 0.2500" in text
    assert "5 answers of the busiest agent" in text


def test_a_step_size_is_in_the_proposal_of_the_default_method(taciturn_, tmp_path):
    line = (*PLAN, "--epsilon", "1", "--rounds", "20", "--step-size", "0.25")
    assert taciturn_(*line, "--out", tmp_path / "p.json").code == 0
    method = json.loads((tmp_path / "p.json").read_text())["method"]
    assert method == {"name": "noisy-gradient", "options": {"step_size": 0.25}}


def test_what_does_not_go_together_is_one_line(refused):
    dealt = (*PLAN, "--agent-epsilons", "1,1,1,1", "--algorithm", "recal")
    assert "have no owners" in refused(*dealt)
    smaller = (*OWNED, "--agent-epsilons", "1,1,1,1", "--epsilon", "2", "--algorithm", "recal")
    assert "make them equal" in refused(*smaller)
    epochs = (*PLAN, "--epsilon", "1", "--algorithm", "dp-sgd", "--epochs", "2", "--rounds", "20")
    assert "give one" in refused(*epochs)
    assert "give one" in refused(*epochs[:-1], "20,40")
    assert "sound form" in refused(*PLAN, "--epsilon", "1", "--algorithm", "DP-RECAL")


def test_an_option_that_no_compared_method_takes_is_refused(refused):
    for option, value in (("--step-decay", "sqrt"), ("--gamma", "1"), ("--law", "laplace")):
        line = refused(*PLAN, "--epsilon", "1", "--rounds", "4", option, value)
        assert "name a method that has it" in line


def test_a_training_with_a_budget_of_each_agent_shows_and_verifies(taciturn_, tmp_path):
    table_in(tmp_path)
    write(tmp_path / "t.csv", (*FIELDS, "clinic"), patients())
    by_clinic = ("--agent-column", "clinic", "--agent-epsilons", "2,1,0.5,0.25")
    line = training(tmp_path, *by_clinic, "--quiet", "--out", tmp_path / "out")
    code, out, _ = taciturn_(*line)
    assert code == 0
    assert "Epsilon of each agent: 2.0000, 1.0000, 0.5000, 0.2500" in out
    assert "Epsilon of each agent: 2.0000, 1.0" in taciturn_("show", tmp_path / "out").out
    document = json.loads((tmp_path / "out" / "certificate-1.json").read_text())
    assert verify(document).verdict == "follows"
    document["claim"]["per_agent_epsilon"][3] /= 2
    assert verify(document).verdict == "does not follow"
