"""`--vault`: a method of somebody's own runs in a process that holds no records."""

import gc
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli.main import main
from taciturn.engine import elsewhere
from taciturn.engine.elsewhere import coded, decode_question
from taciturn.errors import InputError
from taciturn.kernel.door import pipe, read_message, write_message
from taciturn.kernel.questions import (
    Around,
    CentredGradient,
    Gradient,
    MinibatchGradient,
    Point,
    ProjectedStep,
    ProximalStep,
)
from taciturn.problems import L2, Ball, ClassWeighted, Logistic, Loss, Problem

METHODS = '''
import gc
import os
import signal
import time

import jax
import numpy as np

from taciturn.algorithms import Composition, NoisyGradient
from taciturn.kernel.door import Private
from taciturn.kernel.questions import Gradient, Point
from taciturn.kernel.records import Shards


class Peeks(NoisyGradient):
    """Gradient descent that looks for records among all objects of its interpreter."""

    def ask(self, state, inbox, turn):
        found = [
            one
            for one in gc.get_objects()
            if isinstance(one, (Private, Shards))
            for leaf in jax.tree.leaves(one)[:1]
            if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
        ]
        with open("peeked", "a") as file:
            file.write(f"{os.getpid()} {len(found)}\\n")
        print("a line of the method's own")
        os.write(1, b"and one past Python")
        return super().ask(state, inbox, turn)


class Fails(Peeks):
    def combine(self, public, mean_message, turn):
        raise RuntimeError("in the middle")


class Ends(Peeks):
    def combine(self, public, mean_message, turn):
        os._exit(3)


class Own(Gradient):
    """A question of somebody's own."""


def gives_the_librarys(problem):
    return NoisyGradient(problem)


class Stays(Peeks):
    """Does not end when it is told to, and prints what a terminal would obey."""

    def combine(self, public, mean_message, turn):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("\\x1b]0;mine\\x07 epsilon = 0.01")
        return super().combine(public, mean_message, turn)


class Forges(Peeks):
    """Writes a message of its own making into the pipe, which it finds among its descriptors."""

    def combine(self, public, mean_message, turn):
        head = b'["released", {"tree": {"model": 7}}]'
        for descriptor in range(3, 12):
            try:
                os.write(descriptor, len(head).to_bytes(8, "little") + head)
            except OSError:
                pass
        return super().combine(public, mean_message, turn)


class Misshapes(Peeks):
    """Asks for the gradient at a point for each record."""

    def ask(self, state, inbox, turn):
        return Point(np.zeros((len(inbox.query), 152)))


class Sleeps(Peeks):
    """Starts a process of its own, notes both, and does not come back."""

    def ask(self, state, inbox, turn):
        child = os.fork()
        if not child:
            time.sleep(600)
        with open("noting", "w") as file:
            file.write(f"{os.getpid()} {child}")
        os.rename("noting", "noted")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)


def asks_its_own(problem):
    return Composition(Peeks(problem), (Own(problem.loss, 0.5),))
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "spies.py").write_text(METHODS)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("spies", None)


def train(method, *more):
    budget = ["--epsilon", "4", "--delta", "1e-4", "--rounds", "5", "--agents", "3"]
    named = ["--algorithm", f"spies:{method}", "--out", "out", "--force"]
    return main(["train", "breast_cancer", *budget, "--quiet", *named, *more])


def written(name):
    with open(os.path.join("out", name), encoding="utf-8") as file:
        return json.load(file)


def peeked():
    """The processes that looked for records, and the most that each found."""
    with open("peeked", encoding="utf-8") as file:
        pairs = [tuple(map(int, line.split())) for line in file]
    os.remove("peeked")
    return {process: max(n for p, n in pairs if p == process) for process, _ in pairs}


def test_a_method_in_a_process_of_its_own_finds_no_records_and_learns_the_same(folder):
    assert train("Peeks", "--seed", "4") == 0
    beside, found = written("model.json"), peeked()
    assert found[os.getpid()] > 0  # what is looked for is there to be found
    assert train("Peeks", "--seed", "4", "--vault") == 0
    apart, found = written("model.json"), peeked()
    assert os.getpid() not in found
    assert set(found.values()) == {0}
    assert beside["terms"] == apart["terms"]
    assert beside["centre"] == apart["centre"]


def test_a_module_that_only_gives_out_a_method_of_the_library_shared_the_process_too(folder):
    assert train("gives_the_librarys", "--no-centre") == 0
    (word,) = (c for c in written("model.json")["certificate"]["conditions"] if "author" in c)
    assert word.startswith("spies:gives_the_librarys runs in the process")


def test_only_a_method_apart_is_certified_without_its_authors_word_and_charged(folder, capsys):
    open_account("mine", Guarantee(9.0, 1e-3), AccountTerms(), folder=folder / "accounts")
    charged = ("--account", "mine", "--accounts", str(folder / "accounts"))
    assert train("Peeks", "--no-centre") == 0
    word = "spies:Peeks runs in the process that holds the records"
    conditions = written("model.json")["certificate"]["conditions"]
    assert any(condition.startswith(word) for condition in conditions)
    assert train("Peeks", "--no-centre", *charged) == 2
    assert "--vault" in capsys.readouterr().err
    assert train("Peeks", "--no-centre", "--vault", *charged) == 0
    conditions = written("model.json")["certificate"]["conditions"]
    assert not any("author's word" in condition for condition in conditions)


@pytest.mark.slow
def test_a_method_that_stays_is_ended_and_what_it_prints_is_shown_as_its_own(folder, capfd):
    began = time.monotonic()
    assert train("Stays", "--no-centre", "--vault") == 0
    gc.collect()
    assert time.monotonic() - began < 30
    shown = [line for line in capfd.readouterr().err.splitlines() if "0.01" in line]
    assert shown
    assert all(line.startswith("the method: ") and "\x1b" not in line for line in shown)


def gone(numbers):
    """Whether processes are gone within some seconds; a zombie is."""
    patient = time.monotonic() + 10
    while time.monotonic() < patient:
        try:
            texts = [Path(f"/proc/{number}/stat").read_text() for number in numbers]
            states = [text.rpartition(")")[2].split()[0] for text in texts]
        except (FileNotFoundError, ProcessLookupError):
            numbers = [n for n in numbers if Path(f"/proc/{n}").exists()]
            states = ["there"] * len(numbers)
        if all(state == "Z" for state in states):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_no_process_of_a_method_is_left_however_the_command_ends(folder, number):
    words = ["train", "breast_cancer", "--epsilon", "4", "--delta", "1e-4", "--rounds", "5"]
    words += ["--agents", "3", "--no-centre", "--algorithm", "spies:Sleeps", "--vault"]
    command = subprocess.Popen(
        [sys.executable, "-m", "taciturn", *words], stdout=subprocess.DEVNULL, cwd=folder
    )
    patient = time.monotonic() + 120
    while not (folder / "noted").exists() and time.monotonic() < patient:
        time.sleep(0.1)
    numbers = list(map(int, (folder / "noted").read_text().split()))
    command.send_signal(number)
    command.wait(60)
    assert gone(numbers)


@pytest.mark.slow
def test_a_method_that_takes_too_long_is_ended_in_one_line(folder, capsys, monkeypatch):
    monkeypatch.setattr(elsewhere, "PATIENCE", 12.0)
    began = time.monotonic()
    assert train("Sleeps", "--no-centre", "--vault") == 2
    assert time.monotonic() - began < 100
    assert "took longer than 12 seconds for a message" in capsys.readouterr().err
    assert not os.path.exists("out/model.json")
    gc.collect()
    assert gone(list(map(int, (folder / "noted").read_text().split())))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        pytest.param("Fails", "in the middle", marks=pytest.mark.slow),
        pytest.param("Ends", "has ended", marks=pytest.mark.slow),
        ("asks_its_own", "Own is no class of"),
        ("Forges", "sent 'released' where"),
        pytest.param("Misshapes", "this question is asked with", marks=pytest.mark.slow),
    ],
)
def test_a_method_that_fails_apart_ends_the_run_in_one_line(folder, capsys, method, said):
    assert train(method, "--no-centre", "--vault") == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not os.path.exists("out/model.json")


@pytest.mark.parametrize(
    ("more", "said"),
    [(("--algorithm", "noisy-gradient"), "is the library's"), (("--observer", "sum"), "messages")],
)
def test_the_vault_refuses_what_it_is_not_for(folder, capsys, more, said):
    given = ["--no-centre", "--vault", *more]
    assert train("Peeks", *given) == 2
    assert said in capsys.readouterr().err


LOSS = ClassWeighted(Logistic(), (0.5, 1.0))


PROBLEM = Problem(Logistic(), L2(0.1), Ball(2.0))


@pytest.mark.parametrize(
    "oracle",
    [
        Gradient(LOSS, 0.5),
        MinibatchGradient(LOSS, 0.5, 0.1),
        MinibatchGradient(Logistic(), 0.5, 0.1, records=30),
        CentredGradient(Gradient(Logistic(), 0.5), 1.0, 0.3),
        ProjectedStep(PROBLEM, 1.0),
        ProximalStep(PROBLEM, 1.0, 0.5, 1.0),
    ],
)
def test_a_question_travels_as_text_and_is_what_it_was(oracle):
    assert decode_question(json.loads(json.dumps(coded(oracle)))) == oracle


class Own(Loss):
    pass


@pytest.mark.parametrize(
    "text",
    [
        {"class": ["os", "system"], "fields": {}},
        {"class": ["taciturn.kernel.questions.claims", "from_library"], "fields": {}},
        {"class": ["taciturn.kernel.questions.loss", "eqx"], "fields": {}},
        {"class": ["taciturn.cli.vault", "Peer"], "fields": {"module": "os"}},
        {"class": [__name__, "Own"], "fields": {}},
    ],
)
def test_no_text_makes_anything_but_a_class_of_the_library(text):
    with pytest.raises(InputError, match="no class of the library"):
        decode_question(text)


def test_a_message_arrives_as_it_was_sent():
    through = io.BytesIO()
    sent = {
        "query": Around(Point(np.arange(6.0).reshape(2, 3)), np.zeros(3, np.float32)),
        "no": None,
    }
    write_message(through, "ask", sent)
    through.seek(0)
    kind, found = read_message(through)
    assert kind == "ask"
    assert isinstance(found["query"], Around)
    np.testing.assert_array_equal(found["query"].inner.x, sent["query"].inner.x)
    assert found["query"].centre.dtype == np.float32


@pytest.mark.parametrize(
    "head",
    [
        '["ask"]',
        "{",
        '["ask", {"query": "Popen", "parts": []}]',
        '["ask", {"array": "object", "shape": [1]}]',
        '["ask", {"array": "float64", "shape": [99]}]',
    ],
)
def test_what_is_no_message_is_refused(head):
    data = head.encode()
    with pytest.raises(InputError, match=r"message|ended"):
        read_message(io.BytesIO(len(data).to_bytes(8, "little") + data))


def test_a_message_is_bounded_as_a_whole(monkeypatch):
    head = b"[" * (pipe.MOST_HEAD + 1)
    with pytest.raises(InputError, match="malformed message"):
        read_message(io.BytesIO(len(head).to_bytes(8, "little") + head))
    monkeypatch.setattr(pipe, "_MOST_BYTES", 100)
    for arrays, fits in ((1, True), (2, False)):
        sent = io.BytesIO()
        write_message(sent, "ask", [np.zeros(10)] * arrays)
        sent.seek(0)
        if fits:
            assert len(read_message(sent).values) == arrays
        else:
            with pytest.raises(InputError, match="malformed message"):
                read_message(sent)


def test_what_a_method_prints_without_end_is_shown_in_pieces(capsys):
    elsewhere._shown(io.BytesIO(b"x" * 10_000))
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= len("the method: ") + 500
    assert sum(line.count("x") for line in lines) == 10_000
