"""One secret draw divides the records of a command; a public seed only those of a reproduction."""

import dataclasses
import json

import numpy as np
import pytest
from tests.conftest import make_plan

from taciturn.cli.main import main
from taciturn.engine import charge_of
from taciturn.errors import InputError
from taciturn.kernel.records import Draw, pack, random_partition
from taciturn.problems import L2, Logistic, Problem, WholeSpace, public_facts
from taciturn.training import DividedData

BOUNDS = """source = "public"
ignore = ["who"]
[target]
name = "ill"
values = ["no", "yes"]
[columns]
age = { min = 0.0, max = 120.0 }
"""


OPTIONS = ("--target", "ill", "--epsilon", "5", "--delta", "1e-4", "--rounds", "3", "--json")


@pytest.fixture
def table(tmp_path):
    """An export that is sorted by age, with two rows of each person."""
    file = tmp_path / "visits.csv"
    rows = [f"{18 + n // 4},{'yes' if n % 3 else 'no'},p{n // 2}" for n in range(240)]
    file.write_text("\n".join(["age,ill,who", *rows]) + "\n")
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    (tmp_path / "candidates.toml").write_text("clip = [0.25, 0.5]\n")
    return file


@pytest.fixture
def draws(monkeypatch):
    """The divisions of a command, and how often a secret draw was made."""
    seen = {"divided": [], "secret": 0}
    secret, checked = Draw.secret.__func__, DividedData.__post_init__

    def counted(cls):
        seen["secret"] += 1
        return secret(cls)

    def noted(data):
        checked(data)
        parts = [
            tuple(np.concatenate(list(side)).tolist())
            for side in (data.owners, data.held_out)
            if side
        ]
        if any(parts):  # there are none once the run is over
            seen["divided"].append(tuple(parts))

    monkeypatch.setattr(Draw, "secret", classmethod(counted))
    monkeypatch.setattr(DividedData, "__post_init__", noted)
    return seen


COMMANDS = {
    "evaluate": ("train", "--agents", "1", "--evaluate", "0.25"),
    "persons": (
        *("train", "--agents", "4", "--evaluate", "0.25"),
        *("--person-column", "who", "--rows-per-person", "2"),
    ),
    "tune": ("tune", "--agents", "3", "--candidates", "candidates.toml"),
}


def run(table, name, *more):
    command, *options = COMMANDS[name]
    options = [str(table.parent / o) if o.endswith(".toml") else o for o in options]
    bounds = ("--bounds", table.parent / "bounds.toml")
    return main([str(one) for one in (command, table, *bounds, *OPTIONS, *options, *more)])


@pytest.mark.parametrize(
    "name", ["evaluate", "persons", pytest.param("tune", marks=pytest.mark.slow)]
)
def test_a_command_draws_once_and_in_secret(table, draws, name, capsys):
    assert run(table, name) == 0
    first = set(draws["divided"])
    assert (len(first), draws["secret"]) == (1, 1)
    certificate = json.loads(capsys.readouterr().out)
    assert not certificate["reproduction"]
    dealt = "records were dealt to the agents by a secret draw"
    assert any(dealt in text for text in certificate["conditions"]) == (name != "evaluate")
    draws["divided"].clear()
    assert run(table, name) == 0
    assert set(draws["divided"]).isdisjoint(first)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_reproduction_divides_by_the_public_seed_and_says_so(table, draws, name, capsys):
    for _ in range(2):
        assert run(table, name, "--seed", "3") == 0
        assert json.loads(capsys.readouterr().out)["reproduction"]
    assert (len(set(draws["divided"])), draws["secret"]) == (1, 0)


def test_one_file_is_one_agent_s_and_summation_is_then_credited_nothing(table, capsys):
    bounds = table.parent / "bounds.toml"
    train, plan = ("train", table, "--bounds", bounds), ("plan", "--bounds", bounds)
    found = {}
    for name, words in (
        ("messages", (*train, *OPTIONS)),
        ("sum", (*train, *OPTIONS, "--observer", "sum")),
        ("asked for", (*train, *OPTIONS, "--agents", "4")),
        ("planned", (*plan, "--records", "240", *OPTIONS[2:])),
        ("published", ("plan", "adult", *OPTIONS[2:])),
    ):
        assert main([str(word) for word in words]) == 0
        found[name] = json.loads(capsys.readouterr().out)
    assert {name: one["agents"] for name, one in found.items()} == {
        **dict.fromkeys(("messages", "sum", "planned"), 1), "asked for": 4, "published": 10
    }  # fmt: skip
    assert not any("dealt" in text for text in found["sum"]["conditions"])
    assert "no honest peer (agents: 1" in found["sum"]["trust"]
    assert found["sum"]["mu"] == found["messages"]["mu"]


def test_an_account_takes_no_name_for_a_division_that_is_drawn(table, tmp_path, capsys):
    rows = np.eye(12)
    problem = Problem(Logistic(), L2(0.1), WholeSpace())
    shards = pack(
        *(rows, np.ones(12), random_partition(12, 3)),
        record_norm=1.0,
        precision="float64",
    )
    assert public_facts(problem, shards, clip=0.5).dealt
    charge = charge_of(make_plan("noisy-gradient", shards))
    assert charge.dealt
    with pytest.raises(InputError, match="deals the records to the agents by a new draw"):
        dataclasses.replace(charge, partition="wards")
