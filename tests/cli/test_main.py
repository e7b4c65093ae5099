"""The command line, run as users run it: arguments in; exit code, output and files out."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import taciturn.audit
import taciturn.errors
from conftest import just_below
from taciturn.algorithms import METHODS
from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli import console
from taciturn.cli.console import bar
from taciturn.cli.main import BAD_INPUT, BROKEN_LAW, INTERRUPTED
from taciturn.training import training

PRIVATE = ["--epsilon", "1", "--delta", "1e-5"]
TRAIN = ["train", "breast_cancer", *PRIVATE, "--rounds", "5", "--agents", "4"]
COST = ["cost", "gaussian", "--rounds", "100", "--delta", "1e-6"]
KEYS = {
    "algorithm", "agents", "rounds", "epsilon", "delta", "mu", "relation", "unit", "observer",
    "trust", "test_error", "test_loss", "train_loss", "nonprivate_test_error", "seconds", "out",
}  # fmt: skip


def test_train_prints_one_json_object_of_the_budget_and_writes_it(taciturn_, refused, tmp_path):
    out = tmp_path / "report"
    done = taciturn_(*TRAIN, "--seed", "1", "--out", out, "--json", "--delta", "1e-3")
    values = done.json
    assert (done.code, done.out.count("\n"), values["out"]) == (0, 1, str(out))
    assert set(values) >= KEYS
    printed = [line.removeprefix("taciturn: warning: ") for line in done.err.splitlines()]
    assert printed == [" ".join(text.split()) for text in values["warnings"]]
    assert printed[0].startswith("delta 0.001 is above")
    assert "the model 0" in printed[1]
    # the (epsilon, delta) curve of the certified mu, evaluated another way
    mu, epsilon = values["mu"], values["epsilon"]
    assert just_below(epsilon, 1.0)
    tail = math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert norm.cdf(mu / 2 - epsilon / mu) - tail == pytest.approx(1e-3, rel=1e-6)
    assert 0 <= values["nonprivate_test_error"] <= values["test_error"] <= 1
    assert values["reproduction"] is True
    assert "reproduction, not private" in (out / "report.html").read_text()
    saved = json.loads((out / "results.json").read_text())
    assert {name: saved[name] for name in values} == values
    # a report is replaced only where that is asked for, and this is noticed before training
    assert "--force" in refused(*TRAIN, "--out", out)
    assert json.loads((out / "results.json").read_text()) == saved


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        (["--agents", "0"], "at least 1"),
        (["--agents", "456"], "456"),
        (["--agents", "2.5"], "valid integer"),
        (["--rounds", "0"], "at least 1"),
        (["--epsilon", "nan"], "above 0"),
        (["--epsilon", "many"], "valid number"),
        (["--delta", "1"], "above 0 and below 1"),
        (["--algorithm", "sgd"], "noisy-gradient, dp-admm"),
        (["--algorithm", "dp-sgd", "--sampling-rate", "1.5"], "sampling-rate"),
        (["--observer", "nobody"], "messages, sum"),
        (["--relation", "friends"], "replace_one, zero_out"),
        (["--rounds", "9" * 20], "fewer rounds"),
        (["--epsilon", "1e300"], "inf"),
        (["--seed", str(2**64)], "from 0 to"),
        (["--split-seed", "-1"], "from 0 to"),
        (["--colour"], "taciturn train --help"),
        (["more"], "taciturn train --help"),
    ],
)
def test_a_bad_option_is_one_line_that_names_the_fix(refused, tmp_path, changes, fix):
    out = tmp_path / "out"
    assert fix in refused(*TRAIN, *changes, "--out", out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (["train", "adlut", *PRIVATE], "adult"),
        (["train"], "taciturn train --help"),
        (["train", "digits", "--epsilon", "1"], "--delta"),
        (["fly"], "taciturn --help"),
        ([*COST], "either --multiplier or --epsilon"),
        ([*COST, "--multiplier", "0"], "above 0"),
        ([*COST, "--epsilon", "inf"], "finite"),
        ([*COST, "--epsilon", "1", "--sampling-rate", "1.5"], "at most 1"),
        ([*COST, "--epsilon", "1", "--relation", "x"], "replace_one, zero_out"),
        (["cost", "cauchy", *COST[2:], "--epsilon", "1"], "gaussian, laplace"),
        (["audit", "dp-admm", "--fault", "typo"], "halved-noise"),
        (["audit", "dp-admm", "--epsilon", "1"], "give --mu"),
        (["audit", "noisy-gradient", "--relation", "zero_out"], "replace_one"),
        (["audit", "noisy-gradient", "--fault", "full-batch"], "dp-sgd"),
        (["audit", "one-question", "--fault", "reused-noise"], "draws noise once"),
        (["audit", "dp-sgd", "--mu", "1.5"], "give --epsilon"),
        (["audit", "dp-sgd", "--sampling-rate", "2"], "at most 1"),
        (["train", "digits", *PRIVATE, "--algorithm", "one-question"], "squared loss"),
        (["audit", "dp-admm", "--runs", str(10**11)], "at most"),
        (["audit", "dp-admm", "--mu", "1e200"], "between"),
        ([*COST, "--multiplier", "1", "--sampling-rate", "1e-300"], "at least"),
        (["train", "digits", *PRIVATE, "--out", "/", "--force"], "root"),
    ],
)
def test_a_bad_command_is_one_line_that_names_the_fix(refused, arguments, fix):
    assert fix in refused(*arguments)


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_names_the_commands(taciturn_, arguments):
    done = taciturn_(*arguments)
    assert done.code == 0
    assert all(name in done.out for name in ("train", "budget", "cost", "audit", "plan"))


def test_large_data_gets_a_reference_only_when_asked(taciturn_, monkeypatch):
    seen = []

    def stop(*args, reference, **others):
        seen.append(reference)
        raise taciturn.errors.PrivacyError("stop")

    monkeypatch.setattr(training, "train", stop)
    monkeypatch.setattr("taciturn.cli.train._REFERENCE_CELLS", 455 * 30)
    taciturn_(*TRAIN)
    monkeypatch.setattr("taciturn.cli.train._REFERENCE_CELLS", 455 * 30 - 1)
    taciturn_(*TRAIN)
    taciturn_(*TRAIN, "--reference")
    assert seen == [True, False, True]


def test_a_broken_law_of_privacy_has_its_own_exit_code(taciturn_, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise taciturn.errors.PrivacyError("the ledgers\ndiffer")

    monkeypatch.setattr(training, "train", broken)
    done = taciturn_(*TRAIN, "--json", "--out", tmp_path / "out")
    assert done == (3, "", "taciturn: error: the ledgers differ\n")
    assert list(tmp_path.iterdir()) == []
    page = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
    for code in (BAD_INPUT, BROKEN_LAW, INTERRUPTED):
        assert f" {code} (" in page.read_text().replace("\n", " ")


def test_an_interrupt_leaves_no_partial_report(taciturn_, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "run", interrupted)
    done = taciturn_(*TRAIN, "--json", "--out", tmp_path / "deep" / "out")
    assert (done.code, done.out) == (130, "")
    # what is to be expected of the run was said before it began
    warned, last = done.err.splitlines()
    assert "the model 0" in warned
    assert last == "taciturn: interrupted; each file of a report is complete or absent"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_signal_ends_a_computation_that_does_not_listen(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    program = (
        "import signal, threading\n"
        # whoever runs the tests in the background has them ignore the signal
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from taciturn.cli.main import main\n"
        "from taciturn.training import training\n"
        "def deaf(*_, **__):\n"
        "    print('busy', flush=True)\n"
        "    threading.Event().wait()\n"
        "training.run = deaf\n"
        "raise SystemExit(main())\n"
    )
    account = open_account("one", Guarantee(9.0, 1e-4), AccountTerms(), folder=tmp_path)
    command = [sys.executable, "-c", program, *TRAIN, "--json", "--out", str(tmp_path / "out")]
    command += ["--account", "one", "--accounts", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"busy\n"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    told = b"taciturn: interrupted; each file of a report is complete or absent\n"
    assert err.endswith(told)
    assert time.monotonic() - began < 10
    assert not (tmp_path / "out").exists()
    state = account.state()
    assert [run.status for run in state.charged] == ["failed"]
    assert state.total.squares > 0  # the charge stays


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_standard_output_that_is_full_is_told_in_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "taciturn", "--help"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("taciturn: error: the system could not read or write")
    assert done.stderr.count("\n") == 1


def test_what_libraries_print_goes_into_no_file_where_standard_streams_are_closed(tmp_path):
    program = (
        "import os\n"
        "from taciturn.cli.main import main\n"
        "assert main(['--version']) == 0\n"
        "with open('account', 'w') as account:\n"
        "    os.write(1, b'a library prints')\n"
        "    os.write(2, b'and warns')\n"
        "    account.write('charged')\n"
    )
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, program],
        cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "account").read_text() == "charged"


def test_account_agrees_with_the_closed_form(taciturn_):
    # 100 answers of multiplier 10 compose to mu = 1; delta(epsilon) of that mu in closed form
    values = taciturn_(*COST, "--multiplier", "10", "--json").json
    epsilon = values["epsilon"]
    delta = norm.cdf(0.5 - epsilon) - math.exp(epsilon) * norm.cdf(-0.5 - epsilon)
    assert values["mu"] == pytest.approx(1)
    assert delta == pytest.approx(1e-6, rel=1e-6)
    assert (values["multiplier"], values["rounds"], values["delta"]) == (10, 100, 1e-6)


@pytest.mark.parametrize("mechanism", ["gaussian", pytest.param("laplace", marks=pytest.mark.slow)])
def test_account_finds_the_multiplier_that_it_would_price_at_the_budget(taciturn_, mechanism):
    command = ["cost", mechanism, *COST[2:], "--json"]
    there = taciturn_(*command, "--epsilon", "1.5").json
    back = taciturn_(*command, "--multiplier", there["multiplier"]).json
    assert 1.5 * (1 - 1e-4) <= back["epsilon"] <= 1.5 * (1 + 1e-12)
    assert (there["mu"] is None) == (mechanism == "laplace")


@pytest.fixture(scope="module")
def attacked():
    return taciturn.audit.audit("noisy-gradient", mu=1.5, runs=100, seed=0, fault="halved-noise")


def test_account_says_infinity_where_hardly_any_noise_is_added(taciturn_):
    command = [*COST, "--multiplier", "1e-200"]
    values = taciturn_(*command, "--json").json
    assert (values["epsilon"], values["mu"]) == ("infinity", "infinity")
    assert "epsilon     infinity" in taciturn_(*command).out


def test_audit_reports_what_every_layer_saw(taciturn_, attacked, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "taciturn.cli.audit.attacked", lambda *a, **k: asked.append((a, k)) or attacked
    )
    command = ["audit", "noisy-gradient", "--runs", "100", "--fault", "halved-noise"]
    values = taciturn_(*command, "--json").json
    options = {"mu": 1.5, "runs": 100, "seed": None, "fault": "halved-noise", "options": {}}
    options |= {"rows_per_person": None, "agents_per_person": 1, "centre": False}
    assert asked == [(("noisy-gradient",), options)]
    keys = {"claimed_mu", "mu_lower_bound", "confidence", "replay", "residuals", "verdict"}
    assert set(values) >= keys
    assert values["claimed_mu"] == pytest.approx(1.5, rel=1e-6)
    assert (values["verdict"], values["residuals"], values["fault"]) == (
        "violated", "violated", "halved-noise",
    )  # fmt: skip
    text = taciturn_(*command).out
    assert "realised by this pair" in text
    assert "Verdict: violated, as seen by: " in text


@pytest.mark.slow
def test_audit_of_batches_says_what_is_claimed_and_what_is_proved(taciturn_):
    command = ["audit", "dp-sgd", "--runs", "3000", "--epsilon", "2", "--sampling-rate", "0.2"]
    text = taciturn_(*command).out
    assert "claimed      epsilon 2 at delta 1e-05" in text
    assert "Verdict: consistent" in text
    values = taciturn_(*command, "--fault", "full-batch", "--json").json
    assert values["verdict"] == "violated"
    assert values["epsilon_lower_bound"] > values["claimed_epsilon"]
    assert (values["relation"], values["sampling_rate"]) == ("replace_one", 0.2)


def test_the_command_line_runs_as_a_module():
    command = [sys.executable, "-m", "taciturn", "--version"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout == f"taciturn {taciturn.__version__}\n"


@pytest.mark.parametrize("command", ["train", "plan"])
def test_help_prints_the_defaults_of_the_table_of_methods(command, taciturn_):
    text = " ".join(taciturn_(command, "--help").out.split())
    for method in METHODS.values():
        for option in method.options:
            default = "from public facts"
            if option.default is not None and not callable(option.default):
                default = option.default if option.kind is str else f"{option.default:g}"
            (words,) = re.findall(f"--{option.title} <.*?(?= --[a-z-]+ [</]|$)", text)
            (shown,) = re.findall(r"\[default: (.*)\]", words)
            assert default in shown


def test_where_standard_error_is_no_terminal_a_line_comes_now_and_then(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    with bar(10, shown=True) as report:
        assert report.by_block  # else no compiled program is kept
        for finished in range(1, 11):
            now += 12.0
            report(finished)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"taciturn: round {t} of 10" for t in (3, 6, 9)]


def test_the_bar_counts_rounds_that_come_in_any_order(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with bar(10, shown=True) as report:
        for finished in (3, 1, 7, np.int64(10), 9):
            report(finished)
    report(10)
    done = capsys.readouterr()
    assert done.out == ""
    assert "10/10" in done.err
    assert "elapsed" in done.err
    assert "remaining" in done.err
