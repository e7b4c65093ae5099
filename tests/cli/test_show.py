"""`taciturn show` computes a certificate again, and shows nothing of a file that differs."""

import json
import shutil

import pytest
from tests.cli.conftest import training

from taciturn.cli.main import main


@pytest.fixture
def copied(report, tmp_path):
    return shutil.copytree(report / "out", tmp_path / "copy")


def shown(capsys, *given):
    """The exit code of the command, what it prints, and its error."""
    capsys.readouterr()
    code = main(["show", *map(str, given)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize("name", ["", "model.json", "certificate-1.json"])
def test_a_file_as_it_was_written_is_shown_with_the_sentences_of_its_legs(copied, capsys, name):
    code, text, _ = shown(capsys, copied / name)
    assert code == 0
    assert "epsilon = 2.0000 at delta = 0.001" in text
    assert "On the word of the file" in text
    assert ("Coefficients" in text) == (name != "certificate-1.json")
    code, text, _ = shown(capsys, copied / name, "--json")
    assert code == 0
    stated = json.loads((copied / "certificate-1.json").read_text())["statement"]
    found = json.loads(text)["recomputed"]
    assert sorted([*found["lines"], *found["stated"]]) == sorted(stated)


def edited(file, edit):
    values = json.loads(file.read_text())
    edit(values, values.get("claim") or values["certificate"])
    file.write_text(json.dumps(values))


def _halve(values, claim):
    """Every figure, and the sentence that people read, at half of what it was."""
    claim["epsilon"] /= 2
    claim["per_agent_epsilon"] = [one / 2 for one in claim["per_agent_epsilon"]]
    values["statement"][0] = values["statement"][0].replace("2.0000", "1.0000")


def legs_of(values):
    return values["legs"] if "legs" in values else values["certificate"]["legs"]


def conditions_of(values, claim):
    return values["conditions"] if "conditions" in values else claim["conditions"]


EDITS = {
    "epsilon lowered": lambda values, claim: claim.update(epsilon=0.2),
    "every figure lowered": _halve,
    "the noise raised": lambda values, claim: legs_of(values)[0]["slots"][0]["answers"][0].update(
        scale=9.0
    ),
    "a leg removed": lambda values, claim: legs_of(values).pop(),
    "a condition removed": lambda values, claim: conditions_of(values, claim).pop(),
    "every condition removed": lambda values, claim: (
        conditions_of(values, claim).clear(),
        values.update(statement=[one for one in values["statement"] if "Condition: " not in one]),
    ),
    "no number": lambda values, claim: claim.update(epsilon="small"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ["", "model.json", "certificate-1.json"])
def test_an_edited_file_is_refused_in_one_sentence_without_a_promise(copied, capsys, name, edit):
    edited(copied / (name or "certificate-1.json"), EDITS[edit])
    code, text, error = shown(capsys, copied / name, *(["--json"] if name else []))
    assert code == 2
    assert text == ""
    assert error.count("\n") == 1
    assert "0.1000" not in error


def test_a_model_with_the_certificate_of_another_run_is_refused_in_a_folder(copied, capsys):
    edited(copied / "model.json", lambda values, claim: claim.update(epsilon=1.9))
    assert shown(capsys, copied / "certificate-1.json")[0] == 0
    assert "model and certificate differ" in shown(capsys, copied)[2]


def test_a_certificate_that_states_less_than_its_proposal_is_refused_in_a_folder(copied, capsys):
    """Both files were edited in step: without a leg, and what speaks of it."""

    def edit(values, claim):
        legs_of(values).pop()
        conditions_of(values, claim).pop()
        values["statement"].pop()

    edited(copied / "certificate-1.json", edit)
    edited(copied / "model.json", edit)
    assert "are less than those that" in shown(capsys, copied)[2]


def test_a_certificate_of_another_run_than_its_proposal_is_refused_in_a_folder(copied, capsys):
    """It is that of other neighbours, at the same budget."""
    proposal = json.loads((copied / "proposal.json").read_text())
    proposal["budget"]["relation"] = "zero_out"
    (copied / "proposal.json").write_text(json.dumps(proposal))
    assert "are not those that" in shown(capsys, copied)[2]


def test_a_name_that_stands_twice_is_refused(copied, capsys):
    """Every reader would decide by itself which of the two is meant."""
    file = copied / "certificate-1.json"
    text = file.read_text()
    assert text.count('"epsilon": ') == 1
    file.write_text(text.replace('"epsilon": ', '"epsilon": 0.1, "epsilon": '))
    code, text, error = shown(capsys, file)
    assert (code, text, error.count("\n")) == (2, "", 1)


def test_a_reproduction_is_no_promise_whatever_the_file_says(report, tmp_path, capsys):
    out = tmp_path / "seeded"
    given = training(report, "--agents", "2", "--seed", "1", "--quiet", "--out", out)
    assert main([*map(str, given)]) == 0
    code, text, _ = shown(capsys, out)
    assert (code, "reproduction, not private" in text) == (0, True)
    edited(out / "certificate-1.json", lambda values, claim: claim.update(reproduction=False))
    assert shown(capsys, out / "certificate-1.json")[0] == 2


def test_the_newest_certificate_of_a_folder_is_shown(copied, capsys):
    shutil.copy(copied / "certificate-1.json", copied / "certificate-2.json")
    edited(copied / "certificate-1.json", EDITS["epsilon lowered"])
    assert shown(capsys, copied)[0] == 0
    edited(copied / "certificate-2.json", EDITS["epsilon lowered"])
    assert shown(capsys, copied)[0] == 2


def test_a_model_without_legs_promises_nothing_by_itself(copied, capsys):
    """As written by earlier versions; the folder has a certificate, from which it is computed."""
    edited(copied / "model.json", lambda values, claim: (claim.pop("legs"), claim.pop("terms")))
    code, text, _ = shown(capsys, copied / "model.json")
    assert code == 0
    assert "epsilon" not in text
    assert "no guarantee is shown" in text
    assert "epsilon = 2.0000" in shown(capsys, copied)[1]


def test_a_certificate_is_written_for_others_and_an_edited_one_is_not(copied, capsys):
    code, text, _ = shown(capsys, copied, "--as", "registry")
    loss = json.loads(text)["deployment"]["privacy_loss"]
    assert (code, loss["privacy_parameters"]["delta"]) == (0, 1e-3)
    code, text, _ = shown(capsys, copied / "model.json", "--as", "nist")
    assert (code, text.startswith("# Answers to NIST SP 800-226")) == (0, True)
    assert shown(capsys, copied, "--as", "poem")[0] == 2
    edited(copied / "certificate-1.json", EDITS["epsilon lowered"])
    assert shown(capsys, copied, "--as", "nist")[:2] == (2, "")


def test_a_folder_without_a_certificate_is_refused(tmp_path, capsys):
    code, _, error = shown(capsys, tmp_path)
    assert (code, "holds no certificate" in error) == (2, True)
