"""`taciturn show` computes the epsilon of a certificate again, and says where the file differs."""

import json
import shutil

import numpy as np
import pytest

from taciturn.cli.main import main

BOUNDS = """
source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns.age]
min = 0
max = 100
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown")
    draw = np.random.default_rng(0)
    rows = [f"{age:.1f},{'yes' if age > 50 else 'no'}" for age in draw.uniform(0, 100, 60)]
    (folder / "t.csv").write_text("\n".join(["age,ill", *rows]) + "\n")
    (folder / "b.toml").write_text(BOUNDS)
    options = ["--epsilon", "2", "--delta", "1e-3", "--rounds", "3", "--evaluate", "0.2"]
    given = ["train", folder / "t.csv", "--target", "ill", "--bounds", folder / "b.toml"]
    assert main([*map(str, given), *options, "--quiet", "--out", str(folder / "out")]) == 0
    return folder / "out"


def shown(folder, capsys, **changes):
    """What is shown of a report with another certificate, as text and as values."""
    file = folder / "model.json"
    values = json.loads(file.read_text())
    statement = changes.pop("statement", values["statement"])
    changed = {**values, "statement": statement}
    changed["certificate"] = {**values["certificate"], **changes}
    file.write_text(json.dumps(changed))
    capsys.readouterr()
    assert main(["show", str(file)]) == 0
    text = capsys.readouterr().out
    assert main(["show", str(file), "--json"]) == 0
    return text, json.loads(capsys.readouterr().out)["recomputed"]


@pytest.fixture
def copied(report, tmp_path):
    return shutil.copytree(report, tmp_path / "copy")


def test_an_honest_file_is_recomputed_from_mu_and_from_the_ledger(copied, capsys):
    text, values = shown(copied, capsys)
    assert text.count("as stated") == 2
    assert "DIFFERS" not in text
    for one in values:
        assert one["epsilon"] == pytest.approx(2.0, rel=1e-5)
    (copied / "proposal.json").unlink()  # a model that stands alone has its mu
    assert shown(copied, capsys)[0].count("as stated") == 1


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({"epsilon": 0.2}, ["mu = ", "the values", "the ledger"]),
        ({"epsilon": 1.999}, ["mu = ", "the values", "the ledger"]),
        ({"mu": 0.01}, ["mu"]),
        ({"epsilon": 0.2, "mu": None, "per_agent_mu": None}, ["the values", "the ledger"]),
        ({"delta": 1e-6}, ["mu = ", "the ledger"]),
        ({"delta": "small"}, ["mu"]),
        ({"epsilon": 20.0}, ["mu = ", "the values"]),
        ({"statement": ["epsilon = 0.1000 at delta = 0.001"]}, ["the values"]),
    ],
)
def test_a_file_that_was_edited_is_told_of(copied, capsys, changes, differing):
    text, values = shown(copied, capsys, **changes)
    found = [one["what"] for one in values if one["differs"]]
    assert len(found) == len(differing)
    assert all(one.startswith(said) for one, said in zip(found, differing, strict=True))
    assert text.count("DIFFERS") == len(differing)


def test_no_privacy_is_recomputed_as_no_privacy(copied, capsys):
    said = {"epsilon": "infinity", "mu": "infinity", "per_agent_mu": ["infinity"]}
    text, _ = shown(copied, capsys, statement=["no privacy: epsilon is infinite"], **said)
    assert "epsilon = inf, as stated" in text
