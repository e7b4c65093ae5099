"""Structures by name, graphs from files and from data, and the command that trains on them."""

import json

import numpy as np
import pytest

from taciturn.algorithms import METHODS
from taciturn.cli.main import main
from taciturn.datasets import load
from taciturn.errors import InputError
from taciturn.problems import Logistic, Named
from taciturn.training import DataFacts, Request, Structure, StructureRequest, propose
from taciturn.training.request import read_edges, read_matrix

NAMES = ("a", "b", "c")
FACTS = DataFacts(name="mine", task="binary", classes=2, columns=3, record_norm=1.0, table=None)


def structure_of(**wanted):
    return StructureRequest(**wanted).of_columns(NAMES)


def structured(**wanted):
    return structure_of(**wanted).structured(Logistic(), len(NAMES))


def test_the_weights_come_from_the_regulariser_and_the_chain_is_the_default_graph():
    weights = Named.parse("regulariser", "elastic:0.1,0.2")
    made = structured(structure="fused-lasso", weights=weights)
    assert (made.regulariser.weight, made.ridge) == (0.1, 0.2)
    rows = made.forward.sparse().toarray()
    np.testing.assert_array_equal(rows, [[1, -1, 0], [0, 1, -1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


def test_graphs_and_matrices_are_read_by_name_or_number(tmp_path):
    edges, matrix = tmp_path / "edges.csv", tmp_path / "rows.csv"
    edges.write_text("a,c\n1,2\n")
    matrix.write_text("1,-2,1\n")
    np.testing.assert_array_equal(read_edges(str(edges), NAMES), [[0, 2], [1, 2]])
    np.testing.assert_array_equal(read_matrix(str(matrix), 3), [[1, -2, 1]])
    wanted = {"structure": "generalized-lasso", "graph": str(matrix)}
    made = structured(**wanted)
    np.testing.assert_array_equal(made.forward.sparse().toarray(), [[1, -2, 1]])
    assert "taken as public" in structure_of(**wanted).conditions[0]


@pytest.mark.parametrize("text", ["a,d\n", "0,3\n", "a,b,c\n"])
def test_a_graph_of_other_columns_is_refused_with_its_line(tmp_path, text):
    file = tmp_path / "edges.csv"
    file.write_text("a,b\n" + text)
    with pytest.raises(InputError, match="line 2"):
        read_edges(str(file), NAMES)


def test_bad_requests_name_the_fix(tmp_path):
    for algorithm, options, words in (
        ("sadmm", {}, "--structure"),
        ("dp-admm", {"structure": "lasso"}, "noisy-gradient, dp-sgd, sadmm, vradmm"),
        ("sadmm", {"structure": "lasso", "graph": "x"}, "fused-lasso and generalized-lasso"),
        ("sadmm", {"structure": "ring"}, "choose from lasso"),
    ):
        with pytest.raises(InputError, match=words):
            StructureRequest(**options).check(algorithm, METHODS[algorithm])
    for options, words in (
        ({"structure": "generalized-lasso"}, "--graph FILE"),
        ({"structure": "lasso", "weights": Named(name="l2", numbers=(1.0,))}, "l1:W"),
        ({"structure": "fused-lasso", "graph": str(tmp_path / "none")}, "cannot be read"),
    ):
        with pytest.raises(InputError, match=words):
            structure_of(**options)


def test_requests_that_contradict_a_structure_name_the_fix():
    lasso = structure_of(structure="lasso")
    for options, words in (
        ({"algorithm": "sadmm", "options": {"smoothing": -1.0}}, "smoothing is -1"),
        ({"algorithm": "dp-sgd", "options": {"smoothing": 1.0}}, "smoothing.*sadmm, vradmm"),
        ({"constraint": Named(name="box", numbers=(1.0,))}, "without a constraint"),
    ):
        with pytest.raises(InputError, match=words):
            propose(FACTS, [20], Request(epsilon=1.0, delta=1e-5, **options), lasso)


def test_a_proposal_whose_graph_was_learned_from_records_is_refused():
    chain = structure_of(structure="fused-lasso")
    for source in ("test", "private"):
        with pytest.raises(InputError, match="source"):
            Structure(**{**chain.model_dump(), "source": source})


@pytest.mark.slow
def test_the_command_trains_on_a_structure_with_one_agent(tmp_path, capsys):
    names = load("breast_cancer").feature_names
    graph = tmp_path / "edges.csv"
    graph.write_text(f"0,1\n{names[2]},3\n")
    command = (
        f"train breast_cancer --epsilon 1 --delta 1e-4 --structure fused-lasso --graph {graph} "
        f"--algorithm vradmm --smoothing 1 --sampling-rate 0.5 --rounds 20 --seed 0 --json"
    )
    assert main(command.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["epsilon"] <= 1.0
    assert any("graph" in line for line in found["conditions"])
    assert found["agents"] == 1


def test_a_certificate_states_only_a_graph_that_was_given():
    assert structure_of(structure="fused-lasso").conditions == ()
    given = structure_of(structure="fused-lasso").model_copy(update={"source": "given"})
    assert "taken as public" in given.conditions[0]


def test_the_default_rounds_of_vradmm_are_whole_epochs():
    lasso = structure_of(structure="lasso")
    for rate in (0.1, 0.03, 1.0):
        asked = Request(
            epsilon=1.0, delta=1e-5, algorithm="vradmm", options={"sampling_rate": rate}
        )
        found = propose(FACTS, [40], asked, lasso)
        assert found.rounds % (max(1, round(2 / rate)) + 1) == 0
