"""Nothing after the answers loses them: each later step of a command is made to fail."""

import errno
import importlib
import io
import json
import sys
import tempfile

import jax
import numpy as np
import pytest
from tests.cli.conftest import FIELDS, patients, table_in, write

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn.models import load_model
from taciturn.training import Attempts, DividedData

SECRET = "cell 'smoker' of row 7"  # what the message of another library may quote


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    table_in(tmp_path, 160)
    write(tmp_path / "u.csv", FIELDS, (row[:3] for row in patients(30)))
    (tmp_path / "c.toml").write_text("rounds = [2, 3]\n")
    return tmp_path


def command(folder, name, *more):
    return [
        *(name, str(folder / "t.csv"), "--target", "ill", "--bounds", str(folder / "b.toml")),
        *("--epsilon", "3", "--delta", "1e-4", "--agents", "2", "--test", str(folder / "u.csv")),
        *("--account", "books", "--accounts", str(folder), "--out", str(folder / "out")),
        *("--quiet", *more),
    ]


def fails(*_, **__):
    raise KeyError(SECRET)


def broken(monkeypatch, step):
    module, _, name = step.rpartition(".")
    importlib.import_module(module)
    monkeypatch.setattr(sys.modules[module], name, fails)


def account_of(folder):
    return open_account("books", Guarantee(9.0, 1e-3), AccountTerms(), folder=folder)


def assert_released(folder, out):
    """Model, trace and certificate are there, of one run."""
    model = load_model(out / "model.json")
    with np.load(out / "trace.npz") as trace:
        last = trace["models"][-1]
    assert np.isfinite(last).all()
    assert len(model.terms) >= len(last) - 1
    stated = json.loads((out / "certificate-1.json").read_text())["claim"]
    assert stated["epsilon"] <= 3.0
    assert model.certificate["epsilon"] == stated["epsilon"]
    assert not list(folder.glob("*.part"))


# what is computed or written once a run has ended, in the order in which it comes
LATER = (
    "taciturn.training.training.give_back",
    "taciturn.training.training.ask_held_out",
    "taciturn.training.training.score_of_totals",
    "taciturn.training.training.measure",
    "taciturn.training.training.curves_on_test",
    "taciturn.training.training.on_training",
    "taciturn.training.training.optimum",
    "taciturn.report.save.curves_text",
    "taciturn.report.save._plan",
    "taciturn.report.save.training_page",
    "taciturn.report.save.oracle_metrics",
    "taciturn.report.save.results",
    "taciturn.cli.outcome.save",
    "taciturn.cli.outcome.charged_line",
    "taciturn.cli.outcome._measured",
)


ON_PRIVATE_RECORDS = {f"taciturn.training.training.{step}" for step in ("on_training", "optimum")}


CALCULATED = set(LATER[1:10]) - ON_PRIVATE_RECORDS


# the quick suite has one of each kind: of what is answered, calculated, written and printed
SLOW = ("measure", "curves_on_test", "optimum", "curves_text", "_plan", "oracle_metrics", "results")


@pytest.mark.parametrize(
    "step",
    [pytest.param(s, marks=[pytest.mark.slow] * s.endswith(SLOW)) for s in LATER],
)
def test_a_step_after_the_run_that_fails_loses_no_model_trace_certificate_or_charge(
    step, table, monkeypatch, capsys
):
    account = account_of(table)
    broken(monkeypatch, step)
    evaluated = ["--evaluate", "0.2", "--oracle-metrics", "--reference", "--no-centre"]
    code = main(command(table, "train", "--rounds", "30", *evaluated))
    said = capsys.readouterr()
    assert code == (2 if step.endswith("outcome.save") else 0)
    assert_released(table, table / "out")
    (run,) = account.state().charged
    assert run.status == "released"
    # in one line, with the kind of the error and nothing that it quotes
    (line,) = [line for line in said.err.splitlines() if "failed: KeyError" in line]
    assert "The model and its certificate stand" in line
    for text in (said.out, said.err, *(p.read_text("latin-1") for p in (table / "out").iterdir())):
        assert SECRET not in text
    assert "epsilon = " in said.out
    if step in CALCULATED | ON_PRIVATE_RECORDS:
        results = json.loads((table / "out" / "results.json").read_text())
        failures = results["failures"]
        if step in ON_PRIVATE_RECORDS:  # which is for the eyes of their holder
            assert failures == []
            assert "failed" not in (table / "out" / "report.html").read_text()
            failures = json.loads((table / "out" / "oracle_metrics.json").read_text())["failures"]
        assert any("failed: KeyError" in line for line in failures)
    if step.endswith("score_of_totals"):  # the answers of the evaluation stay
        assert results["private_score"] is None
        assert len(results["private_totals"]) > 1
        assert any("held out" in text for text in results["conditions"])


def test_rows_around_a_centre_that_cannot_be_placed_lose_nothing(table, monkeypatch, capsys):
    monkeypatch.setattr(DividedData, "around", fails)
    account = account_of(table)
    assert main(command(table, "train", "--evaluate", "0.2", "--centre")) == 0
    assert_released(table, table / "out")
    assert account.state().charged[0].status == "released"
    assert "failed: KeyError" in capsys.readouterr().err


def test_a_model_that_could_not_be_written_at_first_is_written_with_the_rest(
    table, monkeypatch, capsys
):
    saving = sys.modules["taciturn.report.save"]
    original, calls = saving.write_folder, []

    def full_once(*given, **named):
        calls.append(given)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        return original(*given, **named)

    monkeypatch.setattr(saving, "write_folder", full_once)
    account_of(table)
    assert main(command(table, "train", "--no-centre")) == 0
    assert "writing what was released failed" in capsys.readouterr().err
    assert_released(table, table / "out")


@pytest.mark.parametrize("step", ["kernel.door.choice.errors_of", "tuning.choose", "tuning.picked"])
def test_a_choice_that_fails_leaves_the_models_of_all_candidates(step, table, monkeypatch, capsys):
    room = "" if step.startswith("kernel") else "training."
    broken(monkeypatch, f"taciturn.{room}{step}")
    account = account_of(table)
    given = command(table, "tune", "--candidates", str(table / "c.toml"), "--no-centre")
    assert main(given) == 2
    said = capsys.readouterr().err
    assert "no candidate was picked: KeyError" in said
    assert SECRET not in said
    for number in (1, 2):
        assert_released(table, table / "out" / "candidates" / str(number))
    (run,) = account.state().charged
    assert run.status == "failed"


def test_a_report_of_a_choice_that_fails_leaves_what_was_released(table, monkeypatch, capsys):
    broken(monkeypatch, "taciturn.report.save.results")
    account = account_of(table)
    given = command(table, "tune", "--candidates", str(table / "c.toml"), "--no-centre")
    assert main(given) == 0
    assert_released(table, table / "out")
    assert account.state().charged[0].status == "released"
    assert "failed: KeyError" in capsys.readouterr().err


@pytest.fixture
def sealed(monkeypatch):
    """Once the run has ended, its shards can be read by nobody, and no others are packed."""
    module = sys.modules["taciturn.training.training"]
    original, ended = module.run, []

    def run_and_seal(plan, shards, **how):
        finished = original(plan, shards, **how)
        for leaf in jax.tree.leaves(shards.stacked):
            leaf.delete()
        ended.append(True)
        return finished

    def packed(data, *given, **how):
        if ended:
            raise AssertionError("training rows are packed after the run")
        return pack(data, *given, **how)

    pack = DividedData.shards
    monkeypatch.setattr(module, "run", run_and_seal)
    monkeypatch.setattr(DividedData, "shards", packed)
    return ended


@pytest.mark.parametrize("how", [("--centre", "--evaluate", "0.2"), ("--no-centre",)])
def test_after_a_private_run_no_function_of_the_training_rows_is_computed(
    how, table, sealed, capsys
):
    account_of(table)
    assert main(command(table, "train", *how)) == 0
    assert sealed
    assert "failed" not in capsys.readouterr().err
    results = json.loads((table / "out" / "results.json").read_text())
    assert results["failures"] == []
    assert results["test_error"] is not None


def test_the_seal_on_training_rows_sees_oracle_metrics(table, sealed, capsys):
    account_of(table)
    assert main(command(table, "train", "--no-centre", "--oracle-metrics")) == 0
    assert sealed
    assert "measuring on the training records failed" in capsys.readouterr().err


class Full(io.StringIO):
    """A stream on a disk that is full."""

    def write(self, text):
        del text
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_takes_nothing_loses_no_run(stream, table, monkeypatch, capsys):
    account = account_of(table)
    # at this delta there is a warning beside the heading, both after the charge
    given = [*command(table, "train", "--no-centre"), "--delta", "2e-3"]
    monkeypatch.setattr(sys, stream, Full())
    assert main(given) == (2 if stream == "stdout" else 0)
    assert_released(table, table / "out")
    assert account.state().charged[0].status == "released"
    if stream == "stdout":
        assert (
            "standard output cannot be written (No space left on device)" in capsys.readouterr().err
        )


def test_a_result_that_could_not_be_printed_as_json_is_no_success(table, monkeypatch, capsys):
    broken(monkeypatch, "taciturn.cli.outcome.results")
    account_of(table)
    assert main(command(table, "train", "--no-centre", "--json")) == 2
    assert_released(table, table / "out")
    said = capsys.readouterr()
    assert said.out == ""
    assert "printing the results failed: KeyError" in said.err


@pytest.mark.parametrize("name", ["train", "tune"])
def test_a_folder_that_takes_nothing_sends_what_was_released_elsewhere(
    name, table, monkeypatch, capsys
):
    saving = importlib.import_module("taciturn.report.save")
    original = saving.write_folder
    (table / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(table / "elsewhere"))

    def full(texts, out, **how):
        if out == table / "out":
            raise InputError(f"{out} cannot be written (No space left on device)")
        return original(texts, out, **how)

    monkeypatch.setattr(saving, "write_folder", full)
    account = account_of(table)
    more = ["--candidates", str(table / "c.toml")] if name == "tune" else []
    assert main(command(table, name, "--no-centre", *more)) == 2
    said = capsys.readouterr()
    (folder,) = (table / "elsewhere").iterdir()
    assert_released(table, folder)
    assert str(folder / "model.json") in said.out
    assert "goes into another folder" in said.err
    assert account.state().charged[0].status == "released"


def test_a_certificate_is_printed_where_no_folder_takes_what_was_released(
    table, monkeypatch, capsys
):
    broken(monkeypatch, "taciturn.report.save.write_folder")
    account_of(table)
    assert main(command(table, "train", "--no-centre")) == 2
    assert "epsilon = 3.0000" in capsys.readouterr().out


def test_a_model_that_overflowed_leaves_its_certificate_and_trace(table, monkeypatch, capsys):
    # settings that a plan refuses: whatever it overlooks must not lose what was spent
    monkeypatch.setattr("taciturn.algorithms.admm.check_growth", lambda *_, **__: None)
    account = account_of(table)
    printed = ("--algorithm", "dp-admm", "--rho", "1", "--step-rule", "constant", "--step-size")
    ridge = ("--regulariser", "l2:0.9", "--regulariser-at", "agents", "--features", "columns")
    wild = (*printed, "1e6", *ridge, "--rounds", "400", "--no-centre")
    assert main(command(table, "train", *wild)) == 2
    said = capsys.readouterr()
    assert "coefficient is not finite" in said.err
    assert not (table / "out" / "model.json").exists()
    document = json.loads((table / "out" / "certificate-1.json").read_text())
    assert 2.9 < document["claim"]["epsilon"] <= 3.0
    with np.load(table / "out" / "trace.npz") as trace:
        assert not np.all(np.isfinite(trace["models"][-1]))
    assert str(table / "out" / "certificate-1.json") in said.out
    assert account.state().charged[0].status == "released"


def test_nothing_is_lost_where_nobody_could_be_told_of_a_failure():
    attempts = Attempts(fails)
    assert attempts.attempt("a step", fails, 3) == 3
    assert "a step failed: KeyError" in attempts.failures[0]
