"""Sites, coordinator and server as processes that are killed: `make federation`, and worse."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.federation.engines import called, environment
from tests.federation.hubs import free_port
from tests.federation.leaks import leaked, needles
from tests.federation.studies import BOUNDS, write_records

from taciturn.kernel.records import Draw
from taciturn.regression import regression_table
from taciturn.tables import Source, load_table
from taciturn.training import divide, train
from taciturn_federation import SignedProposal
from taciturn_federation.accounts import NOWHERE

pytest.importorskip("nats")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
NAMES = ("mercy", "sinai")
# the log has progress once a second, in which a quick machine runs hundreds of rounds
ROUNDS = 2000


class Processes:
    """The processes of a study; each can be killed as kill -9 does, and started again."""

    def __init__(self, folder):
        self.folder, self.words, self.running = folder, {}, {}

    def start(self, name, *words):
        self.words.setdefault(name, words)
        with (self.folder / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "taciturn", *self.words[name]],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder,
                env=environment(self.folder),
            )  # fmt: skip

    def kill(self, name):
        self.running[name].kill()
        self.running[name].wait()

    def restart(self, *names):
        for name in names:
            self.kill(name)
        for name in names:
            self.start(name)

    def wait(self, *names, code=0):
        for name in names:
            assert self.running[name].wait(120) == code, self.output(name)

    def kill_server(self):
        """Kill the server that runs, and wait until its hub, which starts it again, has seen it."""
        self.until_servers(lambda started, died: started > died)
        started, died = self.servers()
        os.kill(started[-1]["pid"], signal.SIGKILL)
        self.until_servers(lambda _, now: now > len(died))

    def servers(self):
        """The events of servers that the hub started and of those that it saw dead."""
        events = self.events("hub")
        return [[e for e in events if e["event"] == f"hub_{what}"] for what in ("started", "died")]

    def until_servers(self, reached):
        until = time.monotonic() + 60
        while not reached(*map(len, self.servers())):
            assert self.running["hub"].poll() is None, self.output("hub")
            assert time.monotonic() < until, self.output("hub")
            time.sleep(0.01)

    def events(self, name):
        file = self.folder / f"{name}.log"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def round(self):
        return max((e.get("round", 0) for e in self.events("coordinator")), default=0)

    def go_on(self, rounds=50):
        """Wait until so many more rounds have passed."""
        until, reached = time.monotonic() + 120, self.round() + rounds
        while self.round() < reached:
            assert self.running["coordinator"].poll() is None, "ended too early: more ROUNDS"
            assert time.monotonic() < until, (self.round(), self.output("coordinator"))
            time.sleep(0.05)

    def output(self, name):
        return (self.folder / f"{name}.out").read_text()

    def stop(self):
        for one in self.running.values():
            if one.poll() is None:
                one.send_signal(signal.SIGINT)
        for one in self.running.values():
            try:
                one.wait(15)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def found(folder, rows, *, persons=False, study=(), proposal=(), account=("--no-account",)):
    """Make a study with its sites and a signed proposal, by command; the processes of its hub."""
    (folder / "bounds.toml").write_text(BOUNDS)
    hub = f"localhost:{free_port()}"
    called(folder, "study", "new", "diabetes", "--bounds", "bounds.toml", "--hub", hub, *study)
    column = ("--person-column", "who") if persons else ()
    for number, name in enumerate(NAMES):
        write_records(folder / f"{name}.csv", rows[number], seed=number, persons=persons)
        called(folder, "site", "join", "diabetes.invitation", "--name", name, "--data",
               f"{name}.csv", *column, *account, "--out", f"{name}.request")  # fmt: skip
        assert "who" not in (folder / f"{name}.request").read_text()
        called(folder, "study", "admit", "diabetes", f"{name}.request", answer="y\n")
    called(folder, "study", "propose", "diabetes", *proposal)
    processes = Processes(folder)
    processes.start("hub", "study", "hub", "diabetes", "--host", "127.0.0.1", "--log", "hub.log")
    return processes


@pytest.fixture
def processes(request, tmp_path):
    """Two sites with accounts, at work in separate processes."""
    observer = getattr(request, "param", ())
    for name in NAMES:
        called(tmp_path, "budget", "open", name, "--epsilon", "2", "--delta", "1e-3", *observer)
    terms = ("--epsilon", "1", "--delta", "1e-4", "--rounds", str(ROUNDS), *observer)
    processes = found(tmp_path, (100, 100), proposal=terms, account=())
    processes.start(
        "coordinator", "study", "run", "diabetes.proposal", "--out", "report", "--force",
        "--log", "coordinator.log",
    )  # fmt: skip
    signed = SignedProposal.from_json((tmp_path / "diabetes.proposal").read_text())
    agreed = ("--agreed", signed.code) if signed.proposal.budget.observer == "sum" else ()
    for name in NAMES:
        processes.start(
            name, "site", "run", "diabetes.proposal", "--name", name, "--out", f"report-{name}",
            "--force", "--log", f"{name}.log", *agreed,
        )  # fmt: skip
    yield processes
    processes.stop()


def check_finished(processes):
    """Every party ended with one model, and every account was charged for the plan and no more."""
    folder = processes.folder
    processes.wait("coordinator", *NAMES)
    reports = [folder / "report", *(folder / f"report-{name}" for name in NAMES)]
    models = {json.dumps(json.loads((r / "model.json").read_text())["terms"]) for r in reports}
    assert len(models) == 1
    for name in NAMES:
        state = json.loads(called(folder, "budget", "show", name, "--json"))
        assert [run["status"] for run in state["runs"]] == ["released"]
        results = json.loads((folder / f"report-{name}" / "results.json").read_text())
        assert state["charged"]["mu"] == pytest.approx(results["mu"], rel=1e-6)


def test_a_site_the_coordinator_the_server_and_all_at_once_are_killed_and_the_run_ends(processes):
    for name in ("mercy", "coordinator"):
        processes.go_on()
        processes.restart(name)
    processes.go_on()
    processes.kill_server()
    processes.go_on()
    for name in ("mercy", "sinai", "coordinator"):
        processes.kill(name)
    processes.kill_server()
    for name in ("mercy", "sinai", "coordinator"):
        processes.start(name)
    check_finished(processes)
    assert "hub_died" in [one["event"] for one in processes.events("hub")]


def stopped(processes, name):
    return [e for e in processes.events(name) if e["event"] == "run_stopped"]


def test_sites_that_stand_by_run_what_their_policies_allow_at_one_command(tmp_path):
    """Then the second run waits at one site for its owner, who approves it; and one is killed."""
    account = ("--epsilon", "3", "--delta", "1e-3")
    terms = ("--epsilon", "1", "--delta", "1e-4")
    processes = found(tmp_path, (60, 60), proposal=terms, account=account)
    for name, most in zip(NAMES, ("2.0", "0.6"), strict=True):
        (tmp_path / f"{name}.toml").write_text(
            f'epsilon = {most}\ndelta = 1e-4\nmethods = ["noisy-gradient"]\n'
            'observers = ["messages"]\n'
        )
        processes.start(
            name, "site", "serve", f"{name}.toml", "--study", "diabetes", "--name", name,
            "--log", f"{name}.log", "--metrics", f"{name}.prom",
        )  # fmt: skip

    def propose(number, epsilon):
        terms = ("--epsilon", epsilon, "--delta", "1e-4", "--rounds", "20")
        where = ("--out", f"{number}.proposal", "--run")
        processes.start(number, "study", "propose", "diabetes", *terms, *where)

    propose("first", "0.5")
    processes.wait("first")
    propose("second", "1")
    until = time.monotonic() + 120
    while "waits: it costs epsilon" not in processes.output("sinai"):
        assert time.monotonic() < until, processes.output("sinai")
        time.sleep(0.1)
    processes.restart("sinai")
    signed = SignedProposal.from_json((tmp_path / "second.proposal").read_text())
    where = ("--study", "diabetes", "--name", "sinai")
    called(tmp_path, "site", "approve", signed.subjects.run, *where)
    processes.wait("second")
    until = time.monotonic() + 120
    while not all(len(stopped(processes, name)) == 2 for name in NAMES):
        assert time.monotonic() < until, processes.output("mercy")
        time.sleep(0.1)
    processes.stop()
    for name in NAMES:
        state = json.loads(called(tmp_path, "budget", "show", name, "--json"))
        assert [run["status"] for run in state["runs"]] == ["released", "released"]
        reports = tmp_path / "data" / "taciturn" / "sites" / "diabetes" / name / "reports"
        assert len(list(reports.glob("*/model.json"))) == 2
        of_run = [e for e in processes.events(name) if e.get("run") == signed.subjects.run]
        steps = ["proposal", "decided", "approved", "run_started", "head", "spent", "run_stopped"]
        done = [one for one in steps if one != "approved" or name == "sinai"]
        assert [e["event"] for e in of_run if e["event"] in steps] == done
        assert f'party="{name}",event="run_stopped"}} ' in (tmp_path / f"{name}.prom").read_text()


SUMS = ("--observer", "sum", "--colluders", "0")


@pytest.mark.parametrize("processes", [SUMS], indirect=True)
def test_under_masks_sites_are_killed_and_the_run_ends_with_no_key_left(processes):
    processes.go_on()
    for name in ("mercy", "coordinator"):
        processes.restart(name)
    heads = processes.folder / "state" / "heads"
    assert len(list(heads.glob("*.masks"))) == len(NAMES)
    processes.go_on()
    processes.kill_server()
    check_finished(processes)
    assert not list(heads.glob("*.masks"))
    results = json.loads((processes.folder / "report-mercy" / "results.json").read_text())
    assert "the cipher of the masks" in results["trust"]


def test_ctrl_c_ends_a_site_cleanly_and_the_same_command_resumes_the_run(processes):
    processes.go_on()
    mercy = processes.running["mercy"]
    mercy.send_signal(signal.SIGINT)
    assert mercy.wait(20) == 130
    assert "the same command resumes the run" in processes.output("mercy")
    processes.start("mercy")
    check_finished(processes)
    assert "Traceback" not in "".join(processes.output(n) for n in ("coordinator", *NAMES))
    folder = processes.folder
    written = [f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.suffix != ".csv"]
    wanted = needles([folder / f"{name}.csv" for name in NAMES])
    assert leaked(wanted, written) == []
    assert wanted[5] in leaked(wanted, [*written, b"planted: " + wanted[5]])


def trained_together(folder):
    """The training of the signed proposal on one machine, from the same two files."""
    signed = SignedProposal.from_json((folder / "diabetes.proposal").read_text())
    proposal, place = signed.proposal, folder / "together"
    place.mkdir()
    for number, name in enumerate(NAMES):
        (place / f"{number}.csv").write_bytes((folder / f"{name}.csv").read_bytes())
    source = Source(path=place, target="ill", bounds=None, person_column="who")
    data = divide(
        load_table(source, proposal.data.table.bounds),
        None,
        split_seed=proposal.split_seed,
        draw=Draw(seed=proposal.split_seed),
        features=proposal.data.features,
        rows_per_person=proposal.budget.rows_per_person,
        evaluate=proposal.evaluation.share,
    )
    return train(data, proposal, reference=False, seed=11)


def test_persons_features_a_centre_and_an_evaluation_go_by_command_and_end_as_on_one_machine(
    tmp_path,
):
    terms = ("--epsilon", "3", "--delta", "1e-4", "--rounds", "30", "--features", "bins:10",
             "--centre", "--evaluate", "0.1")  # fmt: skip
    parties = found(
        tmp_path, (90, 120), persons=True, study=("--rows-per-person", "2"), proposal=terms
    )
    try:
        checked = called(tmp_path, "site", "check", "diabetes.proposal", "--name", "mercy")
        assert "on the held-out records, sent to all" in checked
        assert "(training, held out)" in checked
        parties.start("coordinator", "study", "run", "diabetes.proposal", "--out", "report")
        for name in NAMES:
            parties.start(name, "site", "run", "diabetes.proposal", "--name", name,
                          "--reproduction", "11", "--no-account", "--out",
                          f"report-{name}")  # fmt: skip
        parties.wait("coordinator", *NAMES)
    finally:
        parties.stop()
    training = trained_together(tmp_path)
    expected, certificate = training.private_score, training.certificate
    reports = [tmp_path / one for one in ("report", *(f"report-{name}" for name in NAMES))]
    for report in reports:
        results = json.loads((report / "results.json").read_text())
        score = results["private_score"]
        assert (score["records"], score["unit"]) == (14, "person")
        np.testing.assert_allclose(score["confusion"], expected.confusion, atol=1e-6)
        assert score["error"]["low"] == pytest.approx(expected.error.low, abs=1e-9)
        assert (results["epsilon"], results["unit"]) == (certificate.epsilon, "person")
        more = sorted(set(results["conditions"]) - set(certificate.conditions))
        assert "no more than one of the sites" in more[0]  # which one machine can see
        assert more[1:] == ([NOWHERE] if "site" in results else [])
        assert set(certificate.conditions) < set(results["conditions"])
        assert "persons held out" in (report / "report.html").read_text()
    assert "persons held out" in parties.output("mercy")
    weights = [json.loads((report / "model.json").read_text())["terms"] for report in reports]
    assert weights[0] == weights[1] == weights[2]
    write_records(tmp_path / "new.csv", 5, seed=9)
    assert "prediction" in called(tmp_path, "predict", "report-sinai/model.json", "new.csv")


def test_without_out_every_party_keeps_its_model_and_a_site_that_cannot_begin_stops_all(tmp_path):
    terms = ("--epsilon", "1", "--delta", "1e-4", "--rounds", "5")
    parties = found(tmp_path, (60, 60), proposal=terms)
    write_records(tmp_path / "wrong.csv", 61, seed=0)
    try:
        run = ("site", "run", "diabetes.proposal", "--quiet", "--no-account", "--name")
        parties.start("coordinator", "study", "run", "diabetes.proposal", "--quiet")
        parties.start("sinai", *run, "sinai")
        parties.until_servers(lambda started, _: started)
        time.sleep(5)
        parties.start("wrong", *run, "mercy", "--data", "wrong.csv")
        parties.wait("wrong", "sinai", "coordinator", code=2)
        assert "has 61 records" in parties.output("wrong")
        for name in ("sinai", "coordinator"):
            assert "mercy refused: it could not begin" in parties.output(name)
        parties.start("mercy", *run, "mercy")
        parties.start("sinai")
        parties.start("coordinator")
        parties.wait("coordinator", *NAMES)
    finally:
        parties.stop()
    models = list((tmp_path / "data").rglob("model.json"))
    assert len(models) == 3
    assert len({json.dumps(json.loads(one.read_text())["terms"]) for one in models}) == 1
    for name in ("coordinator", *NAMES):
        assert f"Model: {tmp_path / 'data'}" in parties.output(name)


def answered(journal):
    """The rounds in the journal of a site, in the order in which they were written."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as opened:
            entries = [json.loads(body) for (body,) in opened.execute("SELECT body FROM entries")]
    except sqlite3.Error:  # there is none yet
        return []
    return [entry["round"] for entry in entries if entry.get("kind") == "round"]


def until(found, seconds=120):
    """What is found, once it is."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.002)
    return value


def test_processes_over_tls_estimate_a_table_and_a_killed_site_answers_once(tmp_path):
    terms = ("--formula", "ill ~ x0 + x1 + C(town)", "--epsilon", "30", "--delta", "1e-4",
             "--family", "logistic")  # fmt: skip
    rounds = 30  # so many that the kill comes before the last one
    parties = found(tmp_path, (3000, 2500), proposal=(*terms, "--rounds", str(rounds)))
    try:
        parties.start("coordinator", "study", "run", "diabetes.proposal", "--out", "report")
        for name in NAMES:
            parties.start(name, "site", "run", "diabetes.proposal", "--name", name,
                          "--reproduction", "11", "--no-account", "--out",
                          f"report-{name}")  # fmt: skip
        (journal,) = until(lambda: list((tmp_path / "data").rglob("sites/*/mercy/journal")))
        until(lambda: len(answered(journal)) > 1)
        parties.kill("mercy")
        assert 1 < len(answered(journal)) < rounds
        parties.start("mercy")
        parties.wait("coordinator", *NAMES)
    finally:
        parties.stop()
    assert answered(journal) == [*range(rounds + 1)]  # the last one is the end
    place = tmp_path / "together"
    place.mkdir()
    for number, name in enumerate(NAMES):
        os.link(tmp_path / f"{name}.csv", place / f"{number}.csv")
    signed = SignedProposal.from_json((tmp_path / "diabetes.proposal").read_text())
    proposal = signed.proposal
    table = load_table(Source(path=place, target="ill", bounds=None), proposal.data.table.bounds)
    data = divide(table, None, split_seed=proposal.split_seed, features=proposal.data.features)
    training = train(data, proposal, seed=11, trace=False)
    expected = regression_table(proposal, training.plan, training.asked)
    assert expected.refused is None
    for report in ("report", *(f"report-{name}" for name in NAMES)):
        found_there = (tmp_path / report / "coefficients.json").read_text()
        assert found_there == expected.to_json(), report
    assert "std. error" in parties.output("mercy")
    assert "Table: report-sinai/coefficients.csv" in parties.output("sinai")
    checked = called(tmp_path, "verify", str(tmp_path / "report" / "certificate-1.json"))
    assert "follows" in checked


def test_five_sites_train_on_adult_and_one_of_them_is_killed(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "five_sites.py", "--folder", tmp_path / "five",
         "--records", "3000"],
        text=True, capture_output=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "guys was killed in round" in done.stdout
    assert "every site has the same model: True" in done.stdout
