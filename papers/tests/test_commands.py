"""Each command that this package adds answers; what it computes at length is tested beside it."""

import json

import pytest

from tacit.cli.main import main
from tacit_papers.commands import COMMANDS


def test_a_claim_is_decided_by_name(capsys):
    assert main(["claims", "huang2019/thm2", "--json"]) == 0
    decided = json.loads(capsys.readouterr().out)
    assert decided["verdict"] == "holds with conditions"


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["claims", "fermat/last"], "huang2019/thm2"),
        (["reproduce", "nobody1999"], "huang2019"),
        (["attack", "holiday"], "mnist, fashion_mnist"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(capsys, arguments, needed):
    assert main(arguments) == 2
    assert needed in capsys.readouterr().err


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_prints_its_help(capsys, name):
    assert main([name, "--help"]) == 0
    assert f"tacit {name}" in capsys.readouterr().out
