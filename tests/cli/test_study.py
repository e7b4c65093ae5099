"""The commands of a study: what each says and refuses, in one line."""

import io
import json
import re
import sys

import pytest
from tests.federation.studies import BOUNDS, write_records

from taciturn.cli.main import main
from taciturn_federation import folders
from taciturn_federation.standing import Policy


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """A command in a folder of its own: exit code, what it said, and what it complained of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    write_records(tmp_path / "mercy.csv", 40, seed=1)

    def called(*words, answer=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        code = main(list(words))
        return code, *capsys.readouterr()

    return called


@pytest.fixture
def study(call):
    assert call("study", "new", "diabetes", "--bounds", "bounds.toml")[0] == 0
    return call


@pytest.fixture
def joined(study):
    words = ("site", "join", "diabetes.invitation", "--name", "mercy", "--data", "mercy.csv",
             "--no-account", "--out", "mercy.request")  # fmt: skip
    code, said, _ = study(*words, "--json")
    assert code == 0
    return study, json.loads(said)


def refused(done, *parts):
    code, said, complained = done
    assert (code, said) == (2, "")
    line = complained.splitlines()[-1]
    assert line.startswith("taciturn: error: ")
    assert all(part in line for part in parts), line


def test_a_site_is_admitted_only_if_its_owner_reads_the_same_fingerprint(joined):
    call, request = joined
    for answer in ("n\n", ""):  # no answer is no
        refused(call("study", "admit", "diabetes", "mercy.request", answer=answer), "not admitted")
    words = ("study", "admit", "diabetes", "mercy.request", "--agreed")
    for wrong in ("", request["invitation"], request["fingerprint"][:-1]):
        refused(call(*words, wrong, answer="y\n"), "not admitted")
    code, said, shown = call("study", "admit", "diabetes", "mercy.request", answer="y\n")
    assert code == 0
    assert request["fingerprint"] in shown
    assert "mercy is site 0 of diabetes" in said
    assert call(*words, request["fingerprint"].upper().replace(" ", "-"))[0] == 0  # once more


def test_a_proposal_is_checked_by_the_site_for_itself_and_nothing_is_spent(joined, tmp_path):
    call, _ = joined
    call("study", "admit", "diabetes", "mercy.request", answer="y\n")
    call("budget", "open", "mercy", "--epsilon", "2", "--delta", "1e-3")
    words = ("--epsilon", "1", "--delta", "1e-4", "--rounds", "5")
    assert call("study", "propose", "diabetes", *words)[0] == 0
    code, said, _ = call("site", "check", "diabetes.proposal", "--account", "mercy", "--json")
    values = json.loads(said)
    assert (code, values["rounds"], values["site"]) == (0, 5, "mercy")
    assert 0.99 < values["own_epsilon"] <= 1
    assert values["account"]["left_after"] < values["account"]["left"]
    state = json.loads(call("budget", "show", "mercy", "--json")[1])
    assert state["runs"] == []
    sums = ("--observer", "sum", "--colluders", "3", "--out", "sums.proposal")
    said = call("study", "propose", "diabetes", *words, *sums)[1]
    assert "an agent may have no honest peer (agents: 1, colluders: 3)" in said
    assert (
        json.loads((tmp_path / "sums.proposal").read_text())["proposal"]["budget"]["colluders"] == 3
    )
    said = call("site", "check", "sums.proposal")[1]
    assert "compare this code with the other owners by telephone" in said
    refused(call("site", "run", "sums.proposal", "--no-account"), "--agreed CODE")
    text = (tmp_path / "diabetes.proposal").read_text()
    (tmp_path / "diabetes.proposal").write_text(text.replace('"rounds":5', '"rounds":6'))
    code, _, complained = call("site", "check", "diabetes.proposal")
    assert code == 3
    assert "the signature of the proposal is invalid" in complained
    # another file than that of the request
    (tmp_path / "diabetes.proposal").write_text(text)
    write_records(tmp_path / "mercy.csv", 41, seed=1)
    refused(call("site", "check", "diabetes.proposal"), "has 41 records", "the proposal says 40")


def test_each_refusal_is_one_line_that_says_who_mends_it(joined, tmp_path):
    call, _ = joined
    budget = ("--epsilon", "1", "--delta", "1e-4", "--rounds", "5")
    refused(call("study", "new", "diabetes", "--bounds", "bounds.toml"), "exists")
    refused(
        call("study", "new", "diabetes", "--bounds", "bounds.toml", "--out", "other"),
        "keys that are not replaced",
    )
    refused(call("study", "new", "Big Study", "--bounds", "bounds.toml"), "is no name of a study")
    refused(call("study", "propose", "diabetes", *budget), "has no site yet")
    refused(call("study", "status", "other"), "there is no study")
    refused(call("site", "check", "bounds.toml"), "cannot be read as JSON")
    refused(call(*JOIN[:-1]), "mercy.request exists")
    (tmp_path / "wrong.csv").write_text("x0,ill\n1,yes\n")
    refused(call(*JOIN[:4], "guys", "--data", "wrong.csv", "--no-account"), "has no column 'x1'")
    call("study", "admit", "diabetes", "mercy.request", answer="y\n")
    refused(call("study", "propose", "diabetes", *budget, "--colluders", "2"), "--observer sum")
    refused(call("study", "propose", "diabetes", *budget, "--only", "guys"), "has no site 'guys'")
    call("study", "strike", "diabetes", "mercy")
    refused(call("study", "propose", "diabetes", *budget), "has no site yet")


def test_the_configuration_of_a_server_of_ones_own_names_public_nkeys_and_no_password(study):
    code, said, _ = study("study", "hub", "diabetes", "--print")
    assert code == 0
    assert re.findall(r'nkey: "(.)[A-Z2-7]{55}"', said) == ["U", "U"]  # coordinator and guests
    for wanted in ("handshake_first: true", 'min_version: "1.3"', 'publish: { deny: ">" }'):
        assert wanted in said
    assert not [
        word
        for word in ("password", "token", "http", "PRIVATE", "user:", "no_auth_user")
        if word in said
    ]


JOIN = ("site", "join", "diabetes.invitation", "--name", "mercy", "--data", "mercy.csv", "--out",
        "mercy.request", "--force")  # fmt: skip
TOTAL = ("--epsilon", "2", "--delta", "1e-3")


def test_a_site_opens_an_account_of_the_study_in_its_name_and_its_runs_charge_it(call):
    made = ("--bounds", "bounds.toml", "--observer", "sum", "--colluders", "2")
    assert call("study", "new", "diabetes", *made)[0] == 0
    refused(call(*JOIN), "state its total with --epsilon and --delta", "--no-account")
    refused(call(*JOIN, "--epsilon", "2"), "give both")
    refused(call(*JOIN, *TOTAL, "--no-account"), "goes without")
    assert json.loads(call("budget", "list", "--json")[1])["accounts"] == []
    for _ in range(2):  # an interrupted one is given again
        code, said, _ = call(*JOIN, *TOTAL, "--json")
        assert (code, json.loads(said)["account"]) == (0, "mercy")
    state = json.loads(call("budget", "show", "mercy", "--json")[1])
    assert (state["epsilon"], state["delta"]) == (2.0, 1e-3)
    assert (state["unit"], state["observer"], state["colluders"]) == ("record", "sum", 2)
    call("study", "admit", "diabetes", "mercy.request", answer="y\n")
    run = ("--epsilon", "1", "--delta", "1e-4", "--rounds", "5")
    assert call("study", "propose", "diabetes", *run)[0] == 0
    values = json.loads(call("site", "check", "diabetes.proposal", "--json")[1])
    assert values["account"]["account"] == "mercy"
    refused(
        call("site", "run", "diabetes.proposal", "--no-account", "--account", "mercy"),
        "leave one out",
    )


def test_an_account_that_does_not_suit_a_site_is_refused_with_the_reason(study):
    study("budget", "open", "mercy", *TOTAL, "--unit", "person")
    refused(study(*JOIN), "protects one person and the study one record")
    study("budget", "open", "others", "--epsilon", "1", "--delta", "1e-3")
    refused(study(*JOIN, *TOTAL, "--account", "others"), "'others' already, with epsilon 1")
    code, said, _ = study(*JOIN, "--account", "others")
    assert (code, "Account: others" in said) == (0, True)


def test_what_a_site_allows_in_one_run_is_its_policy_and_needs_an_account(study, tmp_path):
    refused(study(*JOIN, "--no-account", "--allow", "1"), "no account that limits")
    assert study(*JOIN[:4], "guys", *JOIN[5:], *TOTAL, "--allow", "0.5")[0] == 0
    place = folders.find_site("diabetes", "guys")
    policy = Policy.read(folders.open_site(place).policy)
    assert (policy.epsilon, policy.delta, policy.sites, dict(policy.agreed)) == (0.5, 1e-3, 2, {})
    assert "noisy-gradient" in policy.methods


def test_a_site_without_an_account_says_that_it_is_charged_nowhere(joined):
    call, request = joined
    assert request["account"] is None
    call("study", "admit", "diabetes", "mercy.request", answer="y\n")
    call("study", "propose", "diabetes", "--epsilon", "1", "--delta", "1e-4", "--rounds", "5")
    assert "Account: none" in call("site", "check", "diabetes.proposal")[1]
    refused(call("site", "run", "diabetes.proposal"), "has no account", "--no-account")
