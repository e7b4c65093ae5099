"""Certificates as files: a verifier that shares no line with us accepts them, and no others."""

import copy
import json
import math
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conftest import make_algorithm, make_plan, make_shards, make_terms
from tests.proposal.proposals import examples

from taciturn.certificates import document_of
from taciturn.engine.planning import plan
from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    Laplace,
    Messages,
    ReplaceOne,
    Sum,
    Terms,
    ZeroOut,
)
from taciturn.kernel.questions import Gradient, MinibatchGradient
from taciturn.problems import (
    Logistic,
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
    public_facts,
)
from taciturn.training import DataFacts, Request, propose
from taciturn.training.evaluation import evaluation_plan, with_evaluation
from taciturn_verify import verify

pytestmark = pytest.mark.slow  # plans of every method

PROBLEM = Problem(Logistic(), NoRegulariser(), WholeSpace())
MUTATIONS = 1000


class Own(Gradient):
    """A question of somebody's own, whose bound is a claim."""

    def bound(self, spec, adjacency, *, norm):
        return super().bound(spec, adjacency, norm=norm)


def unbounded():
    """The certificate of a run without noise whose question nothing bounds."""
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    terms = make_terms(math.inf)
    return make_plan("noisy-gradient", make_shards(), problem=problem, terms=terms, clip=math.inf)


def planned(oracle=None, *, terms=None, mechanism=None, rounds=6):
    """The certificate of a gradient method that asks one question."""
    facts = public_facts(PROBLEM, make_shards(), clip=1.0)
    method, oracles = (
        make_algorithm("noisy-gradient", PROBLEM),
        (oracle or Gradient(Logistic(), 1.0),),
    )
    made = plan(
        facts, method, oracles, terms or make_terms(), rounds=rounds, precision="float64",
        mechanism=mechanism or Gaussian(),
    )  # fmt: skip
    return made.certificate


def on_terms(relation=None, unit="record", observer=None, **of_persons):
    adjacency = Adjacency(relation or ReplaceOne(), unit, **of_persons)
    return Terms(2.0, 1e-5, adjacency, observer or Messages())


def of_proposal(proposal):
    """The certificate of a proposal, with that of its evaluation."""
    made = proposal.plan()
    if not proposal.asks:
        return made.certificate
    last = evaluation_plan(proposal, made, record_norm=1.0)
    return with_evaluation(proposal, made.certificate, last.certificate)


PAGE = Path(__file__).parents[2] / "verify" / "src" / "taciturn_verify" / "page.html"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
VERDICTS = "%s.map((text) => verifyCertificate(text).verdict)"
ASK = f"<script>document.body.textContent = JSON.stringify({VERDICTS})</script>"
PERSONS = {"unit": "person", "rows_per_person": 3}
PLANNED = {
    "laplace": lambda: planned(mechanism=Laplace()),
    "laplace zero_out": lambda: planned(mechanism=Laplace(), terms=on_terms(ZeroOut())),
    "agents": lambda: planned(terms=on_terms(unit="agent")),
    "persons": lambda: planned(terms=on_terms(**PERSONS)),
    "persons across": lambda: planned(terms=on_terms(**PERSONS, agents_per_person=2)),
    "persons across, sum":
        lambda: planned(terms=on_terms(**PERSONS, agents_per_person=2, observer=Sum(1))),
    "sum of two": lambda: planned(terms=on_terms(observer=Sum(2))),
    "sum of all": lambda: planned(terms=on_terms(observer=Sum(0))),
    "poisson": lambda: planned(MinibatchGradient(Logistic(), 1.0, 0.3)),
    "poisson zero_out":
        lambda: planned(MinibatchGradient(Logistic(), 1.0, 0.3), terms=on_terms(ZeroOut())),
    "fixed sizes": lambda: planned(MinibatchGradient(Logistic(), 1.0, 0.25, records=12)),
    "claimed": lambda: planned(Own(Logistic(), 1.0)),
    "unbounded": lambda: unbounded().certificate,
    "many rounds": lambda: planned(rounds=500),
}  # fmt: skip


@pytest.fixture(scope="module")
def files():
    """The files of certificates of every kind, as they are read back, by what is special."""
    made = {name: of_proposal(one) for name, one in examples().items()}
    made |= {name: make() for name, make in PLANNED.items()}
    return {name: file_of(one) for name, one in made.items()}


def file_of(certificate):
    text = json.dumps(document_of(certificate), allow_nan=False)
    return {**json.loads(text), "conditions": [], "statement": []}


@pytest.fixture(scope="module")
def little():
    """The files of batches of a fixed size at a small epsilon, where high orders decide."""
    facts = DataFacts(
        name="numbers", task="binary", classes=2, columns=5, record_norm=1.0, table=None
    )
    asked = Request(
        epsilon=0.0666, delta=1e-7, algorithm="dp-sgd", rounds=10,
        options={"sampling_rate": 0.001, "batches": "fixed"},
    )  # fmt: skip
    return {"small epsilon": file_of(of_proposal(propose(facts, [20_000], asked)))}


def test_batches_of_a_fixed_size_follow_at_a_small_epsilon(little):
    for file in little.values():
        found = verify(file)
        assert found.verdict == "follows", found.reason
        lowered = copy.deepcopy(file)
        lowered["claim"]["epsilon"] *= 0.99
        assert verify(lowered).verdict == "does not follow"


def test_every_true_certificate_follows(files):
    assert len(files) >= 40
    for name, file in files.items():
        found = verify(file)
        expected = "follows under conditions" if file["claim"]["conditional"] else "follows"
        if file["claim"]["epsilon"] == "infinity":
            expected = "no guarantee"
        assert found.verdict == expected, (name, found.reason)


def test_the_epsilon_of_gaussian_certificates_is_the_verifiers_to_twelve_digits(files):
    exact = {name: file for name, file in files.items() if file["claim"]["mu"] is not None}
    assert len(exact) >= 25
    for name, file in exact.items():
        claimed = file["claim"]["epsilon"]
        if claimed != "infinity":
            assert verify(file).figures["epsilon"][1] == pytest.approx(claimed, rel=1e-12), name


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_page_for_a_browser_comes_to_the_same_verdicts(files, little, tmp_path):
    files = files | little
    texts = json.dumps([json.dumps(file) for file in files.values()])
    page = tmp_path / "page.html"
    page.write_text(PAGE.read_text() + ASK % texts)
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'kept'}",
    )
    command = [BROWSER, *options, "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r"<body[^>]*>(\[.*?\])", shown, re.DOTALL)
    verdicts = dict(zip(files, json.loads(found.group(1)), strict=True))
    assert verdicts == {name: verify(file).verdict for name, file in files.items()}


def leaves(value, path=()):
    """Every number in a file, but those that people alone read, with the way to it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from leaves(part, (*path, place))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


LITTLE = {"scale", "step", "widened", "values", "rho", "smoothness", "residual", "output_noise"}


def derived(file):
    """Whether the figures of a file are finite, and its sensitivities not its own word."""
    claimed = file["legs"][0]["questions"][0]["kind"] == "claimed"
    return not claimed and file["claim"]["epsilon"] != "infinity"


def unseen(file, path):
    """Whether a number may be another and the file stay true, or within what can be told.

    The noise of a part that costs less than the other; and what moves a cost that has no closed
    form by less than the hundredth within which it is told.
    """
    cheaper = path[:2] == ("legs", 1) and path[-1] == "scale"
    small = path[-1] in LITTLE and file["claim"]["mu"] is None
    if {"records", "rate"} & {*path} and "batch" in file["legs"][0]["slots"][0]["answers"][0]:
        return True  # out of more records a batch costs no more, and its rate is rounded
    return cheaper or small


def changed(file, path, change):
    copied = copy.deepcopy(file)
    at = copied
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = change(at[path[-1]])
    return copied


def mutations(files, count):
    """Files of which one number, name or field is another, of every kind in turn."""
    draw = random.Random(7)
    names = sorted(name for name in files if derived(files[name]))
    numbers = (
        lambda x: x * 1.5,
        lambda x: x / 1000,
        lambda x: x * 0.99,
        lambda x: x + 1,
        lambda x: -x - 1,
        str,
        lambda _: None,
        lambda _: True,
    )
    for turn in range(count):
        name = names[turn % len(names)]
        file = files[name]
        path = draw.choice([path for path in leaves(file) if not unseen(file, path)])
        yield name, path, changed(file, path, draw.choice(numbers))


def test_no_certificate_with_another_number_follows(files):
    """What one number more or less makes false, or inconsistent with the rest, is refused."""
    accepted = []
    for name, path, file in mutations(files, MUTATIONS):
        if verify(file).verdict != "does not follow":
            accepted.append((name, path))
    assert accepted == []
