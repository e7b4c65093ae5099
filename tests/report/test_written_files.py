"""Files of several kinds of run: they fit their schemas, edited ones do not, and each is shown."""

import copy
import json
import random
import runpy
from pathlib import Path

import pytest
from tests.cli.test_grid import BUDGET, OWN

from taciturn.cli.main import main

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "reference" / "schemas"
BOUNDS = """
source = "public"
ignore = ["name"]
[target]
name = "ill"
values = ["no", "yes"]
[columns.age]
min = 0
max = 100
[columns.ward]
values = ["a", "b"]
"""
TOTAL = ["--epsilon", "2", "--delta", "1e-3", "--quiet"]
SAMPLED = ["--algorithm", "dp-sgd", "--sampling-rate", "0.3"]
PLAIN = {
    "charged": ["--agents", "3"],
    "gossip": ["--algorithm", "nids", "--network", "ring", "--agents", "4"],
    "evaluated sum": ["--evaluate", "0.2", "--agents", "3", "--observer", "sum"],
    "seeded persons": ["--person-column", "name", "--rows-per-person", "2", "--seed", "1"],
    "no privacy": ["--epsilon", "inf"],
}
# the accountant of batches takes long
BATCHES = {
    "charged": ["--agents", "3"],
    "fixed": [*SAMPLED, "--batches", "fixed"],
    "poisson": [*SAMPLED, "--relation", "zero_out"],
}
PARTS = {"plan.json": "plan-1", "model.json": "model-1", "certificate-1.json": "certificate-1"}


@pytest.fixture(scope="module")
def validators():
    """What validates a document, by the name of its schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="of the dev extra")
    referencing = pytest.importorskip("referencing", reason="comes with jsonschema")
    found = {file.stem: json.loads(file.read_text()) for file in SCHEMAS.glob("*.json")}
    named = [(f"{name}.json", referencing.Resource.from_contents(s)) for name, s in found.items()]
    registry = referencing.Registry().with_resources(named)
    of = jsonschema.Draft202012Validator
    return {
        name: of({**one, "$id": f"{name}.json"}, registry=registry) for name, one in found.items()
    }


@pytest.fixture(
    scope="module",
    params=[PLAIN, pytest.param(BATCHES, marks=pytest.mark.slow)],
    ids=["plain", "batches"],
)
def written(tmp_path_factory, request):
    """The folder of several kinds of run, the options of the account beside them, their names."""
    folder = tmp_path_factory.mktemp("runs")
    draw = random.Random(0)
    rows = [f"p{k},{draw.uniform(0, 100):.1f},{'ab'[k % 2]}" for k in range(60)]
    texts = [f"{row},{'yes' if k % 3 else 'no'}" for k, row in enumerate(rows)]
    for name, text in {
        "t.csv": "\n".join(["name,age,ward,ill", *texts]) + "\n",
        "b.toml": BOUNDS, "c.toml": "rounds = [2, 4]\n", "own.m": OWN,
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    accounts = ["--accounts", str(folder / "accounts")]
    table = [str(folder / "t.csv"), "--target", "ill", "--bounds", str(folder / "b.toml")]
    train = ["train", *table, *TOTAL, "--rounds", "3"]
    runs = {name: [*train, *options] for name, options in request.param.items()}
    runs["charged"] += ["--account", "mine", *accounts]
    candidates = ["--candidates", str(folder / "c.toml"), "--agents", "2"]
    if request.param is PLAIN:
        runs["tuned"] = ["tune", *table, *TOTAL, *candidates]
        runs["grid"] = ["grid", str(folder / "own.m"), *BUDGET, "--zones", "2", "--seed", "1"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TACITURN_STATE_DIR", str(folder / "state"))
        opened = ["budget", "open", "mine", "--epsilon", "9", "--delta", "0.01", *accounts]
        assert main(opened) == 0
        for name, words in runs.items():
            assert main([*words, "--out", str(folder / name)]) == 0, name
        yield folder, accounts, tuple(runs)


@pytest.fixture(scope="module")
def found(written):
    """Every document with the run that wrote it and the name of its schema."""
    documents, folder = [], written[0]
    for run in written[2]:
        for file, kind in PARTS.items():
            if (folder / run / file).exists():  # a dispatch has no model
                documents.append((run, kind, json.loads((folder / run / file).read_text())))
        proposal = json.loads((folder / run / "proposal.json").read_text())
        kind = proposal["format"].removeprefix("taciturn.")
        documents.append((run, f"{kind}-{proposal['version']}", proposal))
    return documents


def test_the_folder_of_every_kind_of_run_is_shown(written, capsys):
    for run in written[2]:
        stated = json.loads((written[0] / run / "certificate-1.json").read_text())["statement"]
        capsys.readouterr()
        assert main(["show", str(written[0] / run)]) == 0
        shown = capsys.readouterr().out
        assert all(line in shown for line in stated), run


def test_every_schema_is_one(validators):
    assert len(validators) >= 10
    for one in validators.values():
        one.check_schema(one.schema)


def test_the_schemas_of_proposals_are_those_of_their_classes():
    for name, text in runpy.run_path(str(ROOT / "docs" / "schemas.py"))["schemas"]().items():
        assert (SCHEMAS / name).read_text() == text, "run python docs/schemas.py"


def test_the_documents_of_several_kinds_of_run_fit(validators, written, found):
    assert len(found) >= 4 * len(written[2]) - 1
    for run, kind, document in found:
        assert [e.message for e in validators[kind].iter_errors(document)] == [], (run, kind)


def test_an_account_fits_with_and_without_the_events_of_its_runs(validators, written, capsys):
    for command in (["export"], ["show", "--json"]):
        capsys.readouterr()
        assert main(["budget", command[0], "mine", *written[1], *command[1:]]) == 0
        document = json.loads(capsys.readouterr().out)
        assert len(document["runs"]) == 1
        validators["account-1"].validate(document)
        for _, edited in edits(document):
            assert not validators["account-1"].is_valid(edited)


def edits(document):
    """The document without each part, with one more, in another format, or one within."""
    for name in document:
        yield name, {key: value for key, value in document.items() if key != name}
    yield "added", {**document, "approved": True}
    yield "format", {**document, "format": "taciturn something 9"}
    for name in ("spec", "preprocessing", "terms", "claim", "budget", "caps", "certificate"):
        if isinstance(document.get(name), dict):
            yield name, {**document, name: {**document[name], "approved": True}}


OPTIONAL = {"plan-1": {"network", "evaluation", "choice"}}
# of a certificate, what was run stands beside what is specified, under any name
CLOSED = {"format", "terms", "legs", "claim", "conditions", "statement"}


def test_no_edited_document_fits(validators, written, found):
    count = 0
    for run, kind, document in found:
        for name, edited in edits(document):
            if name in OPTIONAL.get(kind, ()) or (kind == "certificate-1" and name not in CLOSED):
                continue
            count += 1
            assert not validators[kind].is_valid(edited), (run, kind, name)
    assert count > 30 * len(written[2])


def test_a_number_of_another_kind_does_not_fit(validators, found):
    """Every number of a plan's facts and of the first leg, as a text."""
    for run, kind, document in found:
        part = {"plan-1": "spec", "certificate-1": "claim", "proposal-4": "budget"}.get(kind)
        for name, value in document[part].items() if part else ():
            edited = copy.deepcopy(document)
            edited[part][name] = f"{value} or so"
            assert not validators[kind].is_valid(edited) or name == "relation", (run, kind, name)
