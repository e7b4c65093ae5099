"""Generated exports through the command line: a model, or one line that says what to do."""

import re
from collections import Counter
from importlib import import_module

import pytest
from tests.cli.messy_tables import SECRET, messy_table

from taciturn.cli.main import main
from taciturn.errors import InputError

BUDGET = ["--epsilon", "2", "--delta", "1e-6", "--rounds", "1", "--agents", "1", "--quiet"]
# a message says what to do after a semicolon or a colon
CURE = re.compile(r"[;:] (?:drop|add|save|mend|leave|state|list|is the file|there m|name|give)")


def outcome(seed, folder, capsys):
    """Return "model", or the command that refused; everything that is said is looked through."""
    table = messy_table(seed)
    draft, later, out = folder / "draft.csv", folder / "later.csv", folder / "out"
    draft.write_bytes(table.draft)
    later.write_bytes(table.later)
    code = main(["bounds", str(draft), "--target", table.target, *table.options])
    printed, said = capsys.readouterr()
    assert SECRET not in said
    if code == 0:
        # what is listed as a value is written there by design, remarks and reasons are not
        comments = [line for line in printed.splitlines() if line.startswith("#")]
        assert SECRET not in "".join(comments)
        (folder / "bounds.toml").write_text(printed, encoding="utf-8")
        ask = ["train", str(later), "--target", table.target, "--bounds"]
        code = main([*ask, str(folder / "bounds.toml"), *BUDGET, "--out", str(out)])
        printed, said = capsys.readouterr()
        assert SECRET not in printed + said
        if code == 0:
            assert (out / "model.json").is_file()
            return "model"
    assert code == 2, (seed, table.fault, said)
    assert printed == ""
    assert not out.exists()
    assert said.startswith("taciturn: error: ")
    assert said.count("\n") == 1
    assert CURE.search(said), (seed, said)
    named = any(repr(name) in said for name in table.columns)
    assert named or "--delimiter" in said or "--encoding" in said or "row " in said, (seed, said)
    assert table.fault is not None, (seed, said)
    return "refused"


@pytest.mark.parametrize("seed", range(10))
def test_a_generated_table_ends_in_a_model_or_in_one_line(seed, tmp_path, capsys):
    assert outcome(seed, tmp_path, capsys) in {"model", "refused"}


def test_a_message_that_repeats_a_cell_is_caught(tmp_path, capsys, monkeypatch):
    seed = next(s for s in range(100) if messy_table(s).fault == "a cell that is no number")
    assert outcome(seed, tmp_path, capsys) == "refused"

    def telling(cells, name, *_):
        raise InputError(f"column {name!r} holds {cells.iloc[5]}; drop such rows")

    monkeypatch.setattr(import_module("taciturn.tables.encode"), "_numbers", telling)
    with pytest.raises(AssertionError):
        outcome(seed, tmp_path, capsys)


@pytest.mark.slow
def test_most_of_many_generated_tables_end_in_a_model(tmp_path, capsys):
    ends = Counter()
    for seed in range(10, 210):
        folder = tmp_path / str(seed)
        folder.mkdir()
        ends[outcome(seed, folder, capsys)] += 1
    assert ends["model"] >= 100
    assert ends["refused"] >= 20  # the faults are seen
