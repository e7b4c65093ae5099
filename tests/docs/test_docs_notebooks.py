"""Every notebook runs from its first cell to its last, in plain Python and in an empty folder."""

import contextlib
import json
import os

import pytest
from docs_pages import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SEARCHED = [str(ROOT / part / "src") for part in (".", "federation", "power")]


def cells(notebook, kind="code"):
    """Return the texts of the cells of one kind."""
    every = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in every if cell["cell_type"] == kind]


def in_order(texts, name):
    """Run cells in their order, as one program."""
    names = {"__name__": "__main__"}
    for number, text in enumerate(texts, 1):
        exec(compile(text, f"{name}, code cell {number}", "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # a notebook may set folders of its own for accounts, keys and journals
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "TACITURN_STATE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*SEARCHED, os.environ.get("PYTHONPATH", "")]))
    with contextlib.redirect_stdout(None):
        in_order(cells(notebook), notebook.name)


def test_a_cell_that_fails_is_caught():
    with pytest.raises(AssertionError):
        in_order(["a = 1", "assert a == 2"], "planted")


def test_there_are_five_notebooks_which_their_page_names():
    page = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 5
    assert [file.name for file in NOTEBOOKS if f"({file.name})" not in page] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_short_and_plain_python_without_outputs(notebook):
    every = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert len(every) <= 12
    assert [cell for cell in every if cell.get("outputs")] == []
    for text in cells(notebook):
        compile(text, notebook.name, "exec")  # a magic is no Python
