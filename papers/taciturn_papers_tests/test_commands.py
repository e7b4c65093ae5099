"""The commands that this package adds to taciturn."""

import dataclasses
import json

import pytest

import taciturn_papers.claims
from taciturn_papers import reproductions
from taciturn_papers.commands import COMMANDS
from taciturn_papers_tests.reproductions.test_frame import made


def test_the_commands_are_there_once_the_package_is_installed(taciturn_):
    done = taciturn_("--help")
    assert done.code == 0
    assert all(name in done.out for name in ("attack", "claims", "published", "reproduce"))


def at_once():
    raise AssertionError("a list needs no computation")


def test_claims_are_listed_at_once_and_decided_by_name_or_by_paper(taciturn_, monkeypatch):
    first, *others = taciturn_papers.claims.REGISTER
    never = [dataclasses.replace(claim, decide=at_once) for claim in others]
    register = "taciturn_papers.claims.register.REGISTER"
    monkeypatch.setattr(register, (first, *never))  # each claim takes its time
    listed = taciturn_("claims", "--json").json["claims"]
    assert [row["id"] for row in listed] == [claim.id for claim in (first, *never)]
    assert listed[0]["verdict"] == first.verdict
    monkeypatch.setattr(register, (first, never[-1]))
    one = taciturn_("claims", first.id, "--json").json
    assert one.items() >= listed[0].items()
    assert len(one["rows"][0]) == len(one["columns"])
    assert taciturn_("claims", "huang2019", "--json").json == {"claims": [one]}
    assert first.id in taciturn_("claims").out
    text = taciturn_("claims", first.id).out
    assert all(column in text for column in one["columns"])


def test_a_claim_that_is_not_there_is_one_line_with_those_that_are(refused):
    assert "huang2019/thm2" in refused("claims", "fermat/last")


def test_reproduce_says_first_what_run_it_was_and_by_what_rule_it_judges(taciturn_, monkeypatch):
    monkeypatch.setattr(reproductions, "reproduce", lambda *given, **options: made())
    lines = taciturn_("reproduce", "huang2019", "--quick").out.splitlines()
    assert lines[0] == "Someone 2020, run again: a quick run on 2,000 records"
    assert made().outcome in lines
    assert reproductions.RULE in lines


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_attack_refuses_a_seed_that_fits_no_generator(refused, seed):
    assert "--seed" in refused("attack", "mnist", "--seed", seed)


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_prints_its_help(taciturn_, name):
    done = taciturn_(name, "--help")
    assert done.code == 0
    assert f"taciturn {name}" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("method", ["RWADMM", "mr_admm", "gossip_admm", "fixed_point_admm"])
def test_baselines_are_trained_by_their_module_and_name(taciturn_, tmp_path, method):
    done = taciturn_(
        *("train", "breast_cancer", "--epsilon", "3", "--delta", "1e-4", "--agents", "3"),
        *("--network", "path", "--rounds", "4", "--algorithm", f"taciturn_papers.methods:{method}"),
        *("--out", tmp_path / "run", "--json"),
    )
    assert done.code == 0, done.err
    certificate = json.loads((tmp_path / "run" / "certificate-1.json").read_text())
    assert certificate["claim"]["epsilon"] == pytest.approx(3.0, abs=1e-6)
    assert certificate["observer"] == "messages"


@pytest.mark.slow
def test_dp_recal_as_printed_says_first_that_it_is_not_private(taciturn_):
    call = ("published", "dp-recal", "breast_cancer", "--hops", "80", "--l1", "0", "--l2", "0")
    call += ("--start", "0", "--noise", "5", "--reading", "C", "--steps", "local")
    assert "no privacy" in taciturn_(*call).out.splitlines()[0]
    found = taciturn_(*call, "--json").json
    assert "no privacy" in found["stamp"]
    assert found["noise"] == 5.0
    assert found["gradients_read"] == pytest.approx(72 / 80)
    assert found["worst_error"] < 1e-9


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--bound", "most"),
        ("--bound", "-1"),
        ("--reading", "D"),
        ("--decay", "0"),
        ("--delta", "1"),
    ],
)
def test_dp_recal_refuses_what_is_no_number_of_the_paper(refused, option, value):
    assert option in refused("published", "dp-recal", "breast_cancer", option, value)
