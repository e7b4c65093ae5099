"""The pages of the papers state what the stored runs say."""

import csv
import importlib.util
import json
from pathlib import Path

import pytest

from taciturn_papers.claims import REGISTER

FOLDER = Path(__file__).parents[1] / "docs"
SPEC = importlib.util.spec_from_file_location("gallery", FOLDER / "gallery.py")
gallery = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gallery)


def stored(paper):
    return json.loads((FOLDER / paper / "run.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("paper", gallery.COMMANDS)
def test_a_page_has_the_verdicts_of_its_stored_run_and_no_others(paper):
    page, run = (FOLDER / f"{paper}.md").read_text(encoding="utf-8"), stored(paper)
    assert gallery.with_results(page, paper, run) == page
    of_paper = next(one for one in run["orderings"] if one["whose"] == "paper")
    others = {"comes out in part", "undecided"} - {of_paper["verdict"]}
    of_paper["verdict"] = others.pop()
    assert gallery.with_results(page, paper, run) != page


@pytest.mark.parametrize("paper", gallery.COMMANDS)
def test_a_page_shows_every_figure_of_its_paper(paper):
    page = (FOLDER / f"{paper}.md").read_text(encoding="utf-8")
    figures = [file.name for file in (FOLDER / paper).glob("*.svg")]
    assert figures
    assert [name for name in figures if f"({paper}/{name})" not in page] == []


@pytest.mark.parametrize("paper", gallery.COMMANDS)
def test_every_table_of_a_run_is_a_file_whose_rows_have_one_length(paper):
    for table in stored(paper)["tables"]:
        with (FOLDER / paper / table["file"]).open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        assert len(rows) > 1
        assert len({len(row) for row in rows}) == 1


def test_the_index_names_every_claim_of_the_register():
    page = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [claim.id for claim in REGISTER if f"| `{claim.id}` |" not in page] == []


def test_a_measured_column_is_followed_by_its_deviations(tmp_path):
    value = {"mean": 0.25, "spread": 0.125, "repetitions": 3}
    table = {"columns": ["method", "gap"], "rows": [["a", value], ["b", "none"]]}
    gallery.write_table(tmp_path / "table.csv", table)
    text = (tmp_path / "table.csv").read_text()
    assert text == "method,gap,gap: standard deviation\na,0.25,0.12\nb,none,\n"


def test_orderings_of_several_figures_share_a_row_and_say_where_they_differ():
    seen = {"whose": "paper", "claim": "a < b", "verdict": "comes out"}
    one = {**seen, "part": "Figure 3", "count": "6 of 7, 1 too close to tell"}
    two = {**seen, "part": "Figure 6", "count": "c = 1: 7 of 7; c = 2: 6 of 7, 1 reversed"}
    ours = {**one, "whose": "ours", "claim": "b < a"}
    row, _, legend = gallery.verdicts([one, two, ours]).splitlines()[-3:]
    assert row == "| a < b | yes | Figure 3: 6/7 (1 close); 6: (a) 7/7; (b) 6/7 (1 reversed) |"
    assert legend == "Readings: (a) c = 1; (b) c = 2."


def test_the_page_of_everything_is_made_from_the_inventories_and_no_cell_is_empty():
    assert (FOLDER / "everything.md").read_text(encoding="utf-8") == gallery.everything()
    rows = [row for paper in gallery.COMMANDS for row in gallery.inventory(paper)]
    assert [row for row in rows if not all(text and text.strip() for text in row.values())] == []


def test_a_run_of_the_gallery_says_first_how_long_each_paper_took(monkeypatch, tmp_path, capsys):
    calls = []
    monkeypatch.setattr(gallery.subprocess, "run", lambda call, **_: calls.append(call))
    assert list(gallery.reproduced(tmp_path)) == [tmp_path / paper for paper in gallery.COMMANDS]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == list(gallery.COMMANDS)
    assert all("--resume" in call for call in calls)
