"""The JSON of a proposal: one text for one proposal, and one error for anything else."""

import dataclasses
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants import mutated
from proposals import examples, proposed, table_facts

from taciturn.algorithms import METHODS
from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn.estimators import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateStructuredClassifier,
    PrivateSVC,
)
from taciturn.problems import Named
from taciturn.training import Proposal

# the accountants of batches and of noise inside an objective take seconds for each plan
QUICK = sorted(
    name
    for name, one in examples().items()
    if not (METHODS[one.method.name].sampled or METHODS[one.method.name].inside)
)
TEXTS = {name: one.to_json() for name, one in examples().items()}
PLAIN = TEXTS["noisy-gradient"]


def edited(name="noisy-gradient", **changes):
    """The JSON of an example with values replaced; `a__b` names b inside a."""
    values = json.loads(TEXTS[name])
    for path, value in changes.items():
        *way, last = path.split("__")
        node = values
        for key in way:
            node = node[key]
        node[last] = value
    return json.dumps(values)


def refused(text, words):
    with pytest.raises(InputError, match=words) as caught:
        Proposal.from_json(text).plan()
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 600
    return line


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_proposal_reads_back_as_itself_and_as_the_same_bytes(name):
    proposal = examples()[name]
    again = Proposal.from_json(TEXTS[name])
    assert again == proposal
    assert again.to_json() == TEXTS[name]
    assert again.digest == proposal.digest


NUMBERS = st.floats(min_value=1e-6, max_value=1e6)


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.floats(min_value=1e-300, max_value=1e6),
    delta=st.floats(min_value=1e-300, max_value=0.9999999),
    counts=st.lists(st.integers(1, 10**12), min_size=1, max_size=5),
    rounds=st.integers(1, 10**6),
    weights=st.tuples(NUMBERS, NUMBERS),
    clip=NUMBERS,
    seed=st.integers(0, 2**63 - 1),
)
def test_every_number_survives_the_way_through_json(
    epsilon, delta, counts, rounds, weights, clip, seed
):
    proposal = proposed(
        counts=tuple(counts), epsilon=epsilon, delta=delta, rounds=rounds, clip=clip,
        regulariser=Named(name="elastic", numbers=weights), split_seed=seed,
    )  # fmt: skip
    again = Proposal.from_json(proposal.to_json())
    assert again == proposal
    assert again.digest == proposal.digest


@pytest.mark.parametrize(
    ("estimator", "settings"),
    [
        (PrivateLogisticRegression, {"classes": [0, 1]}),
        (PrivateLogisticRegression, {"classes": [0, 1, 2]}),
        (PrivateSVC, {"classes": [0, 1]}),
        (PrivateLinearRegression, {"target_bounds": (0, 1)}),
        (PrivateStructuredClassifier, {"classes": [0, 1], "graph": "chain"}),
    ],
)
def test_the_proposal_of_an_estimator_reads_back_as_itself(estimator, settings, monkeypatch):
    seen = []

    def kept(proposal, *rest):
        seen.append(proposal)
        return original(proposal, *rest)

    original = Proposal.plan
    monkeypatch.setattr(Proposal, "plan", kept)
    rows = [[k / 40, 1 - k / 40] for k in range(40)]
    model = estimator(
        epsilon=5.0, delta=1e-3, bounds=(0, 1), rounds=3, random_state=0, **settings
    ).fit(rows, [k % 2 for k in range(40)])
    proposal = seen[-1]  # after those that defaults were found with
    again = Proposal.from_json(proposal.to_json())
    assert again == proposal
    # the plan that an estimator keeps has the certificate of the fit, with conditions and stamp
    carried_out = dataclasses.replace(original(again), certificate=model.certificate_)
    assert carried_out.digest == model.plan_.digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read as JSON"),
        ("[]", "expected a JSON object, found list"),
        ("[" * 100_000, "nested too deeply"),
        (PLAIN.replace('"rounds"', '"surplus":1,"rounds"'), "surplus: extra"),
        (PLAIN.replace('"rounds":200', '"rounds":200,"rounds":2'), "'rounds' is given twice"),
        (PLAIN.replace('"rounds":200,', ""), "rounds: field required"),
        (PLAIN.replace('"rounds":200', '"rounds":"200"'), "rounds: input should be a valid int"),
        (PLAIN.replace('"rounds":200', f'"rounds":1{"0" * 5000}'), "."),
        (PLAIN.replace('"epsilon":2.0', '"epsilon":NaN'), "NaN is no JSON number"),
        (PLAIN.replace('"epsilon":2.0', '"epsilon":1e400'), "cannot be read as JSON"),
        (PLAIN.replace('"delta":0.0001', '"delta":"infinity"'), "delta"),
        (PLAIN.replace('"clip":0.5', '"clip":1e-320'), "gradient_bound is 9.99.*at least 2"),
        (PLAIN.replace('"version":4', '"version":1'), "version is 1.*write the document again"),
        (PLAIN.replace('"taciturn.proposal"', '"taciturn.plan"'), "format is 'taciturn.plan'"),
        (PLAIN.replace('"name":"mine"', '"name":"\\ud800"'), "cannot be read as JSON"),
    ],
)  # fmt: skip
def test_what_is_no_proposal_is_one_error(text, words):
    assert text != PLAIN
    refused(text, words)


def in_one_line(error):
    assert "\n" not in str(error)
    return "refused"


def checked(name, number):
    """One mutant: the same proposal, another that keeps its own promise, or one InputError."""
    text = mutated(TEXTS[name], random.Random(number))
    try:
        proposal = Proposal.from_json(text)
    except InputError as error:
        return in_one_line(error)
    assert Proposal.from_json(proposal.to_json()).digest == proposal.digest
    if proposal.to_json() == TEXTS[name]:
        return "the same"
    assert proposal.digest != examples()[name].digest
    if name not in QUICK:
        return "another"
    try:
        plan = proposal.plan()
    except InputError as error:
        return in_one_line(error)
    assert plan.certificate.epsilon <= proposal.budget.epsilon * (1 + 1e-9)
    assert plan.certificate.delta == proposal.budget.delta
    if math.isfinite(proposal.budget.epsilon):
        asked = plan.ledger.asked
        assert (plan.ledger.scale[asked] > 0).all()
    return "another"


@pytest.mark.filterwarnings("error")
def test_a_document_with_a_fault_is_refused_or_keeps_what_it_promises():
    names = sorted(TEXTS)
    outcomes = [checked(names[number % len(names)], number) for number in range(300)]
    assert outcomes.count("refused") > 225
    assert outcomes.count("another") > 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(3))
def test_three_thousand_documents_with_a_fault_are_refused_or_keep_what_they_promise(block):
    names = sorted(TEXTS)
    for number in range(1000 * (block + 1), 1000 * (block + 2)):
        checked(names[number % len(names)], number)


@pytest.mark.parametrize("number", range(4))
def test_the_command_line_refuses_a_document_with_a_fault_in_one_line(number, tmp_path, capsys):
    path = tmp_path / "p.json"
    text = mutated(PLAIN, random.Random(number))
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert main(["train", "breast_cancer", "--proposal", str(path), "--quiet"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("taciturn: error: ")
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_a_file_that_is_no_proposal_is_one_line(tmp_path, capsys):
    path = tmp_path / "p.json"
    path.write_bytes(b"\x7fELF\xff\x01")
    for name in (path, tmp_path, tmp_path / "missing.json", Path("/dev/null")):
        assert main(["train", "breast_cancer", "--proposal", str(name)]) == 2
        printed = capsys.readouterr()
        assert printed.err.startswith("taciturn: error: ")
        assert (printed.out, printed.err.count("\n")) == ("", 1)


OTHER_PROCESS = """
import sys
from taciturn.training import Proposal
for text in sys.stdin.read().splitlines():
    proposal = Proposal.from_json(text)
    print(proposal.digest, proposal.plan().digest)
"""


@pytest.mark.slow
def test_digests_of_proposal_and_plan_are_the_same_in_another_process():
    names = ["noisy-gradient", "cap", "gossip", "matrix", "table", "sum"]
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        input="\n".join(TEXTS[name] for name in names),
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    here = [f"{examples()[n].digest} {examples()[n].plan().digest}" for n in names]
    assert done.stdout.split("\n")[:-1] == here


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("noisy-gradient", {"clip": "infinity", "loss__numbers": [1.0]}, "loss"),
        ("noisy-gradient", {"method__options": {"rho": 0.1}}, "no option rho"),
        ("noisy-gradient", {"method__name": "recal"}, "runs on a network"),
        ("noisy-gradient", {"method__name": "one-question"}, "CappedExponential"),
        ("noisy-gradient", {"counts": [0, 5]}, "record count of agent 0"),
        ("noisy-gradient", {"rounds": 10**9}, "fewer rounds"),
        ("noisy-gradient", {"budget__epsilon": 1e300}, "protects nothing"),
        ("noisy-gradient", {"budget__delta": 1}, "delta is 1"),
        ("noisy-gradient", {"budget__colluders": 2}, "colluders"),
        ("noisy-gradient", {"budget__relation": "friends"}, "relation"),
        ("noisy-gradient", {"data__record_norm": 1e300}, "record-norm"),
        ("noisy-gradient", {"data__columns": 10**9}, "columns"),
        ("noisy-gradient", {"data__classes": None}, "classes"),
        ("noisy-gradient", {"split_seed": -1}, "split-seed"),
        ("sum", {"budget__colluders": -1}, "colluders"),
        ("multinomial", {"data__classes": 2}, "classes is 2"),
        ("pvp", {"method__options__rho": 1e300}, "single precision"),
        ("pvp", {"method__options": {}}, "no value is given"),
        ("fused", {"structure__weight": 1e40}, "weight: input should be less"),
        ("matrix", {"structure__rows": [[1e30, 0.0, 0.0, 0.0]]}, "rows"),
        ("dp-sgd", {"method__options__sampling_rate": 2}, "sampling-rate is 2"),
        ("fixed", {"budget__relation": "zero_out"}, "replace_one only"),
        ("linearised-admm", {"method__options__local_updates": 10**9}, "fewer rounds"),
        ("sadmm", {"structure": None}, "solves problems with a structure"),
        ("fused", {"structure__edges": [[0, 4]]}, "nodes from 0 to 3"),
        ("fused", {"regulariser": {"name": "l1", "numbers": [0.1]}}, "leave regulariser"),
        ("fused", {"structure__name": "lasso"}, "edges or rows"),
        ("matrix", {"structure__rows": [[1.0, 2.0]]}, "4 numbers"),
        ("cap", {"network__cap": 0}, "cap"),
        ("cap", {"network__holders": [0] * 12}, "neighbours"),
        ("cap", {"network__holders": [0, 5] * 6}, "agents 0 to 2"),
        ("cap", {"network__holders": None, "network__walk": None, "network__cap": None}, "walk"),
        ("cap", {"network": None}, "runs on a network"),
        ("gossip", {"network__cap": 3}, "relay"),
        ("gossip", {"network__tree": True}, "nids runs on a network by gossip"),
        ("tree", {"network__holders": [0, 1, 2, 1, 0, 1]}, "the holders or the tree"),
        ("tree", {"network__tree": False}, "on a star, or on a network along a tree"),
        ("gossip", {"network__edges": [[0, 1]]}, "."),
    ],
)
def test_a_proposal_that_contradicts_itself_is_one_line(name, changes, words):
    refused(edited(name, **changes), words)


def test_a_clip_above_the_bound_of_the_loss_certifies_by_the_bound_of_the_loss():
    plan = Proposal.from_json(edited(clip=50.0)).plan()
    # |l'| <= 1/2 and |x| <= 1, so one record moves a mean over 12 by at most 1 / 12
    assert plan.ledger.sensitivity[0].max() == pytest.approx(1 / 12)
    assert plan.certificate.epsilon == pytest.approx(2.0)


def test_colluders_beyond_the_agents_get_no_credit_for_summation():
    noise, trust = {}, {}
    for colluders in (2, 3, 10**6):
        plan = Proposal.from_json(edited("sum", budget__colluders=colluders)).plan()
        noise[colluders], trust[colluders] = plan.ledger.scale[0, 0, 0], plan.certificate.trust
    alone = edited("sum", budget__observer="messages", budget__colluders=0)
    assert noise[3] == noise[10**6] >= noise[2]
    for colluders in (2, 3, 10**6):
        assert f"no honest peer (agents: 3, colluders: {colluders})" in trust[colluders]
        assert "secure aggregation" not in trust[colluders]
    assert noise[3] == pytest.approx(Proposal.from_json(alone).plan().ledger.scale[0, 0, 0])


def test_a_column_that_is_described_twice_is_refused():
    text = TEXTS["table"]
    values = json.loads(text)
    values["data"]["table"]["columns"] *= 2
    refused(json.dumps(values), "described twice")
    assert table_facts().table.bounds.columns.keys() == {"age", "smokes"}


def test_a_whole_number_is_the_number_that_an_option_takes():
    whole = Proposal.from_json(edited("pvp", method__options__rho=1))
    assert whole.digest == Proposal.from_json(edited("pvp", method__options__rho=1.0)).digest
