"""Structures by name, graphs from files and from data, and the command that trains on them."""

import json

import numpy as np
import pytest

from conftest import published
from taciturn.algorithms import METHODS
from taciturn.cli.main import main
from taciturn.datasets import load
from taciturn.errors import InputError
from taciturn.problems import Logistic
from taciturn.problems.graphs import learned_edges
from taciturn.proposal import (
    DataFacts,
    Named,
    Request,
    StructureRequest,
    graph_conditions,
    graph_warning,
    propose,
)
from taciturn.proposal.request import read_edges, read_matrix

NAMES = ("a", "b", "c")
NOTHING = np.zeros((0, 3))
FACTS = DataFacts(name="mine", task="binary", classes=2, columns=3, record_norm=1.0, table=None)


def structure_of(rows=None, **wanted):
    return StructureRequest(**wanted).structure(NAMES, rows)


def structured(rows=None, **wanted):
    return structure_of(rows, **wanted).structured(Logistic(), len(NAMES))


def test_the_weights_come_from_the_regulariser_and_the_chain_is_the_default_graph():
    weights = Named.parse("regulariser", "elastic:0.1,0.2")
    made = structured(name="fused-lasso", weights=weights)
    assert (made.regulariser.weight, made.ridge) == (0.1, 0.2)
    rows = made.forward.sparse().toarray()
    np.testing.assert_array_equal(rows, [[1, -1, 0], [0, 1, -1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


def test_graphs_and_matrices_are_read_by_name_or_number(tmp_path):
    edges, matrix = tmp_path / "edges.csv", tmp_path / "rows.csv"
    edges.write_text("a,c\n1,2\n")
    matrix.write_text("1,-2,1\n")
    np.testing.assert_array_equal(read_edges(str(edges), NAMES), [[0, 2], [1, 2]])
    np.testing.assert_array_equal(read_matrix(str(matrix), 3), [[1, -2, 1]])
    wanted = {"name": "generalized-lasso", "graph": str(matrix)}
    made = structured(**wanted)
    np.testing.assert_array_equal(made.forward.sparse().toarray(), [[1, -2, 1]])
    assert "taken as public" in graph_conditions(structure_of(**wanted))[0]


@pytest.mark.parametrize("text", ["a,d\n", "a\n", "0,3\n", "a,b,c\n"])
def test_a_graph_of_other_columns_is_refused_with_its_line(tmp_path, text):
    file = tmp_path / "edges.csv"
    file.write_text("a,b\n" + text)
    with pytest.raises(InputError, match="line 2"):
        read_edges(str(file), NAMES)


def test_bad_requests_name_the_fix(tmp_path):
    for algorithm, options, words in (
        ("sadmm", {}, "--structure"),
        ("dp-admm", {"name": "lasso"}, "noisy-gradient, dp-sgd, sadmm, vradmm"),
        ("sadmm", {"name": "lasso", "graph": "x"}, "fused-lasso and generalized-lasso"),
        ("sadmm", {"name": "fused-lasso", "graph_from": "web"}, "choose from test, private"),
        ("sadmm", {"name": "fused-lasso", "graph": "x", "graph_from": "test"}, "or the file out"),
        ("sadmm", {"name": "lasso", "graph_from": "test"}, "for the structure fused-lasso"),
        ("sadmm", {"name": "ring"}, "choose from lasso"),
        ("sadmm", {"name": "lasso", "weights": Named(name="l2", numbers=(1.0,))}, "l1:W"),
    ):
        with pytest.raises(InputError, match=words):
            StructureRequest(**options).check(algorithm, METHODS[algorithm])
    for options, words in (
        ({"name": "generalized-lasso"}, "--graph FILE"),
        ({"name": "lasso", "weights": Named(name="l2", numbers=(1.0,))}, "l1:W"),
        ({"name": "fused-lasso", "graph": str(tmp_path / "none")}, "cannot be read"),
    ):
        with pytest.raises(InputError, match=words):
            structure_of(**options)


def test_requests_that_contradict_a_structure_name_the_fix():
    lasso = structure_of(name="lasso")
    for options, words in (
        ({"algorithm": "sadmm", "options": {"smoothing": -1.0}}, "smoothing is -1"),
        ({"algorithm": "dp-sgd", "options": {"smoothing": 1.0}}, "smoothing.*sadmm, vradmm"),
        ({"constraint": Named(name="box", numbers=(1.0,))}, "without a constraint"),
    ):
        with pytest.raises(InputError, match=words):
            propose(FACTS, [20], Request(epsilon=1.0, delta=1e-5, **options), lasso)


def test_the_default_rounds_of_vradmm_are_whole_epochs():
    for rate in (0.1, 0.03, 1.0):
        asked = Request(
            epsilon=1.0, delta=1e-5, algorithm="vradmm", options={"sampling_rate": rate}
        )
        assert asked.rounds_among(1) % (max(1, round(2 / rate)) + 1) == 0


def test_the_graphical_lasso_finds_the_neighbours_of_a_chain():
    draw = np.random.default_rng(0)
    precision = 1.5 * np.eye(5) + sum(0.7 * np.eye(5, k=k) for k in (-1, 1))
    rows = draw.multivariate_normal(np.zeros(5), np.linalg.inv(precision), 4000)
    edges = learned_edges(rows, weight=0.1)
    assert {(0, 1), (1, 2), (2, 3), (3, 4)} <= {tuple(edge) for edge in edges}
    assert max(j - i for i, j in edges) <= 2  # the l1 norm joins some second neighbours too
    with pytest.raises(InputError, match="joins no columns"):
        learned_edges(rows, weight=10.0)


def test_a_graph_is_learned_from_the_records_that_are_named():
    draw = np.random.default_rng(0)
    first, second = np.repeat(draw.standard_normal((2, 200, 1)), 3, axis=2)
    first[:, 2], second[:, 0] = draw.standard_normal((2, 200))
    for source, rows, edge in (("private", first, (0, 1)), ("test", second, (1, 2))):
        structure = structure_of(rows, name="fused-lasso", graph_from=source)
        assert (structure.source, structure.edges) == (source, (edge,))
    for rows in (None, NOTHING):
        with pytest.raises(InputError, match="no test records"):
            structure_of(rows, name="fused-lasso", graph_from="test")


def test_only_a_graph_from_private_records_makes_a_certificate_conditional():
    draw = np.random.default_rng(0)
    rows = np.repeat(draw.standard_normal((200, 1)), 3, axis=1)
    rows[:, 2] = draw.standard_normal(200)
    assert graph_conditions(structure_of(name="fused-lasso")) == ()
    words = {"test": "which are public", "private": "holds only if the graph would be the same"}
    for source, text in words.items():
        structure = structure_of(rows, name="fused-lasso", graph_from=source)
        assert text in graph_conditions(structure)[0]
        assert bool(graph_warning(structure)) == (source == "private")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["noisy-gradient", "vradmm"])
def test_the_command_trains_on_a_structure_with_one_agent(algorithm, tmp_path, capsys):
    names = load("breast_cancer").feature_names
    graph = tmp_path / "edges.csv"
    graph.write_text(f"0,1\n{names[2]},3\n")
    own = "--smoothing 1 --sampling-rate 0.5 " if algorithm != "noisy-gradient" else ""
    command = (
        f"train breast_cancer --epsilon 1 --delta 1e-4 --structure fused-lasso --graph {graph} "
        f"--algorithm {algorithm} {own}--rounds 20 --seed 0 --json"
    )
    assert main(command.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["epsilon"] <= 1.0
    assert any("graph" in line for line in found["conditions"])
    assert found["agents"] == 1


def test_the_libsvm_sets_have_the_published_sizes():
    data = published("mushrooms")
    assert data.features.shape == (8124, 112)
    assert sorted(np.unique(data.targets, return_counts=True)[1]) == [3916, 4208]
