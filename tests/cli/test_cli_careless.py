"""Careless and hostile input that a review found to get through."""

import importlib
import json
import shutil
import tempfile
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from conftest import bounds_of_ill
from taciturn.cli.main import main
from taciturn.report import check_out
from taciturn.tables import Bounds, Categories, Numeric, encode

# the package hands on a function of that name
saving = importlib.import_module("taciturn.report.save")

BOUNDS = bounds_of_ill("data", age="min = 20\nmax = 70")


@pytest.fixture
def taciturn_(capsys):
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a table, its bounds and the report of a training."""
    folder = tmp_path_factory.mktemp("small")
    rows = [f"{20 + k},{('no', 'yes')[k % 2]}" for k in range(40)]
    (folder / "t.csv").write_text("\n".join(["age,ill", *rows]) + "\n")
    (folder / "b.toml").write_text(BOUNDS)
    assert main([*map(str, command(folder, "--out", folder / "out", "--seed", 1))]) == 0
    return folder


def command(folder, *more, data="t.csv"):
    return [
        "train", folder / data, "--target", "ill", "--bounds", folder / "b.toml", "--epsilon", 2,
        "--delta", 1e-3, "--rounds", 3, "--agents", 2, *more,
    ]  # fmt: skip


def one_line(done, *words):
    code, out, err = done
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize("option", ["--out", "--bounds", "--test"])
@pytest.mark.parametrize(("text", "words"), [("", "it is empty"), ("\udcff", "UTF-8"), ("\0", "")])
def test_a_path_that_names_nothing_is_refused(trained, taciturn_, option, text, words):
    one_line(taciturn_(*command(trained, option, text, "--force")), words, option)


def test_empty_data_is_not_the_current_folder(trained, taciturn_, monkeypatch):
    monkeypatch.chdir(trained)
    one_line(taciturn_("train", "", *command(trained)[2:]), "it is empty")
    one_line(taciturn_("bounds", "", "--target", "ill"), "it is empty")


def test_a_place_that_cannot_be_written_to_is_noticed_before_training(
    trained, taciturn_, monkeypatch, tmp_path
):
    # permissions alone do not say so: the file system may be read-only
    def refuse(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    one_line(taciturn_(*command(trained, "--out", tmp_path / "new")), "Read-only file system")
    monkeypatch.undo()
    check_out(tmp_path / "new", force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_written_from_inside(trained, taciturn_, tmp_path, monkeypatch):
    # its parent may belong to another file system, or to somebody else
    places, move = [], saving._move

    def spy(part, target, gone):
        places.append(part.parent)
        move(part, target, gone)

    monkeypatch.setattr(saving, "_move", spy)
    assert taciturn_(*command(trained, "--out", tmp_path))[0] == 0
    assert set(places) == {tmp_path.resolve()}
    files = [*saving.FILES, "certificate-1.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(files)


def test_a_file_that_is_trained_on_is_no_test_file(trained, taciturn_, tmp_path):
    one_line(taciturn_(*command(trained, "--test", trained / "t.csv")), "is trained on")
    (tmp_path / "link.csv").symlink_to(trained / "t.csv")
    one_line(taciturn_(*command(trained, "--test", tmp_path / "link.csv")), "is trained on")
    agents = tmp_path / "agents"
    agents.mkdir()
    shutil.copy(trained / "t.csv", agents / "a.csv")
    inside = [*command(trained, "--test", agents / "a.csv", data=agents)]
    at = inside.index("--agents")
    one_line(taciturn_(*inside[:at], *inside[at + 2 :]), "is trained on")
    shutil.copy(trained / "t.csv", tmp_path / "other.csv")
    assert taciturn_(*command(trained, "--test", tmp_path / "other.csv"))[0] == 0


def test_every_certificate_in_a_report_has_its_conditions_and_its_stamp(trained):
    out = trained / "out"
    plan, model = (json.loads((out / name).read_text()) for name in ("plan.json", "model.json"))
    answers = {name: model["certificate"].pop(name) for name in ("terms", "legs")}
    assert plan["certificate"] == model["certificate"]
    assert answers["legs"]
    assert any("filled in from the records" in one for one in plan["certificate"]["conditions"])
    assert plan["certificate"]["reproduction"] is True


@pytest.mark.parametrize("rate", ["1e-10", "1e-300"])
def test_a_rate_below_the_accountants_least_is_refused_before_anything_is_said(
    trained, taciturn_, rate
):
    options = ["--algorithm", "dp-sgd", "--sampling-rate", rate]
    one_line(taciturn_(*command(trained, *options)), "sampling-rate", "1e-09")


def test_numbers_that_single_precision_cannot_hold_are_refused(trained, taciturn_):
    one_line(taciturn_(*command(trained, "--regulariser", "l2:1e308")), "single precision")


def test_a_long_list_of_categories_costs_no_more_than_its_rows():
    values = tuple(map(str, range(30_000)))
    began = time.perf_counter()
    bounds = Bounds("public", "y", Numeric(0, 1), {"c": Categories(values)})
    frame = pd.DataFrame({"c": ["7", "29999"], "y": ["0", "1"]}, dtype=object)
    tracemalloc.start()
    rows = encode(frame, bounds, with_target=True).features
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.flatnonzero(rows[1]).tolist() == [29_999, 30_000]
    assert peak < 100e6  # an identity matrix would take 7.2 GB
    assert time.perf_counter() - began < 5  # counting each value in the list takes a minute


# hostile model files


def hostile(trained, folder, change):
    values = json.loads((trained / "out" / "model.json").read_text())
    change(values)
    path = folder / "m.json"
    path.write_text(json.dumps(values))
    return path


def three_labels(values):
    values["labels"] = values["preprocessing"]["target"]["values"] = ["a", "b", "c"]


def half_a_character(values):
    values["statement"] = ["\ud800"]


@pytest.mark.parametrize("change", [three_labels, half_a_character])
def test_a_model_that_contradicts_itself_or_cannot_be_printed_is_refused(
    trained, taciturn_, tmp_path, change
):
    path = hostile(trained, tmp_path, change)
    one_line(taciturn_("show", path), "m.json")
    one_line(taciturn_("predict", path, trained / "t.csv"), "m.json")


def test_a_model_cannot_steer_the_terminal(trained, taciturn_, tmp_path):
    steers = "\x1b[2J\repsilon = 0"

    def stated(values):
        values["certificate"]["conditions"].append(steers)
        values["statement"].append(f"Condition: {steers}")

    code, out, err = taciturn_("show", hostile(trained, tmp_path, stated))
    assert (code, err) == (0, "")
    assert "epsilon = 0" in out
    refused = hostile(trained, tmp_path, lambda v: v.update(statement=[steers]))
    code, nothing, err = taciturn_("show", refused)
    assert (code, nothing) == (2, "")
    assert not {"\x1b", "\r"} & set(out + err)
    (tmp_path / "c.csv").write_text("a\x1b[31m,ill\n1,no\n2,yes\n")
    assert "\x1b" not in taciturn_("bounds", tmp_path / "c.csv", "--target", "\x1b[0m")[2]


def test_a_score_that_overflows_is_no_prediction(trained, taciturn_, tmp_path):
    def huge(values):
        values["terms"][1]["coefficient"] = [1e308]

    one_line(taciturn_("predict", hostile(trained, tmp_path, huge), trained / "t.csv"), "finite")
