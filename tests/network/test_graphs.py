"""Graphs, mixing matrices and walks against brute force and closed forms."""

import itertools
import math

import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn.network import (
    Graph,
    Mixing,
    Walk,
    closed_route,
    complete,
    cyclic_walk,
    erdos_renyi,
    grid,
    metropolis,
    network_named,
    path,
    random_regular,
    read_network,
    ring,
    star,
    uniform_walk,
)

GRAPHS = {
    "ring": ring(7),
    "path": path(5),
    "star": star(6),
    "complete": complete(5),
    "grid": grid(3, 4),
    "erdos-renyi": erdos_renyi(12, 0.3, seed=1),
    "regular": random_regular(10, 3, seed=2),
}


def reached(graph):
    """All agents that a search from agent 0 finds, by sets alone."""
    seen, front = {0}, {0}
    while front:
        front = {b for a, b in graph.edges.tolist() if a in front} | {
            a for a, b in graph.edges.tolist() if b in front
        }
        front -= seen
        seen |= front
    return seen


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_every_family_is_connected_and_simple(name):
    graph = GRAPHS[name]
    assert reached(graph) == set(range(graph.agents))
    pairs = [tuple(edge) for edge in graph.edges.tolist()]
    assert len(set(pairs)) == len(pairs)
    assert all(a < b for a, b in pairs)
    for agent, own in enumerate(graph.neighbours()):
        expected = {b for a, b in pairs if a == agent} | {a for a, b in pairs if b == agent}
        assert set(own.tolist()) == expected
        assert graph.degrees[agent] == len(expected)


def test_the_families_have_their_number_of_edges():
    counts = {name: len(graph.edges) for name, graph in GRAPHS.items()}
    assert counts["ring"] == 7
    assert counts["path"] == 4
    assert counts["star"] == 5
    assert counts["complete"] == 10
    assert counts["grid"] == 3 * 3 + 2 * 4
    assert set(GRAPHS["regular"].degrees.tolist()) == {3}
    assert set(random_regular(1000, 4, seed=0).degrees.tolist()) == {4}


def test_random_graphs_follow_their_seed_and_differ_between_seeds():
    first, again, other = (erdos_renyi(15, 0.4, seed=s).edges for s in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    one, two = (random_regular(12, 4, seed=s).edges for s in (0, 1))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Graph(4, np.array([(0, 1), (2, 3)])), "2 parts.*agent 0 to agent 2"),
        (lambda: Graph(3, np.array([(0, 1)])), "agent 2 has no neighbour"),
        (lambda: Graph(2, np.array([(0, 1), (1, 1)])), "agent 1 is joined to itself"),
        (lambda: Graph(2, np.array([(0, 2)])), "agents are 0 to 1"),
        (lambda: Graph(1, np.array([(0, 0)])), "at least 2"),
        (lambda: Graph(2, np.array([0, 1])), "pairs"),
        (lambda: erdos_renyi(50, 0.001, seed=0), "at least ln"),
        (lambda: random_regular(5, 3, seed=0), "product even"),
        (lambda: network_named("torus", 4), "choose from ring"),
        (lambda: network_named("grid:2x3", 5), "6 nodes for 5"),
        (lambda: network_named("regular", 5), "choose from ring"),
    ],
)
@pytest.mark.unchecked
def test_what_is_not_a_network_is_refused_with_the_fix(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_networks_are_made_by_name():
    assert np.array_equal(network_named("ring", 6).edges, ring(6).edges)
    assert np.array_equal(network_named("grid", 12).edges, grid(3, 4).edges)
    assert np.array_equal(network_named("grid:4x3", 12).edges, grid(4, 3).edges)
    named = network_named("erdos-renyi:0.5,3", 9)
    assert np.array_equal(named.edges, erdos_renyi(9, 0.5, seed=3).edges)
    assert np.array_equal(network_named("regular:3", 8).edges, random_regular(8, 3, seed=0).edges)


GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <graph id="G" edgedefault="{kind}">
    <node id="a"/><node id="b"/><node id="c"/>
    <edge source="a" target="c"/><edge source="c" target="b"{more}/>
  </graph>
</graphml>"""


def test_files_are_read_in_both_formats(tmp_path):
    edges = tmp_path / "net.txt"
    edges.write_text("# comment\n10 9\n9;2 # back\n2,10\n")
    assert read_network(edges).edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    drawn = tmp_path / "net.graphml"
    drawn.write_text(GRAPHML.format(kind="undirected", more=""))
    assert read_network(drawn).edges.tolist() == [[0, 2], [1, 2]]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("n.txt", "1 2 3\n", "line 1.*two names"),
        ("n.txt", "\n", "has no edge"),
        ("n.graphml", GRAPHML.format(kind="directed", more=""), "undirected"),
        ("n.graphml", GRAPHML.format(kind="undirected", more=' directed="true"'), "undirected"),
        ("n.graphml", "<graphml>", "well-formed"),
        ("n.graphml", "<!DOCTYPE x><graphml/>", "document type"),
        ("n.graphml", "<graphml/>", "0 graphs"),
    ],
)
def test_files_that_are_no_network_are_refused(name, text, words, tmp_path):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        read_network(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_network(tmp_path / "absent.txt")


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_metropolis_matrices_are_doubly_stochastic_on_the_edges(name):
    graph = GRAPHS[name]
    mixing = metropolis(graph)
    matrix = mixing.matrix().toarray()
    np.testing.assert_allclose(matrix.sum(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(matrix, matrix.T)
    for a, b in graph.edges.tolist():
        assert matrix[a, b] == pytest.approx(1 / (1 + max(graph.degrees[a], graph.degrees[b])))
    values = np.sort(np.linalg.eigvals(matrix).real)
    assert mixing.spectral_gap == pytest.approx(1 - max(abs(values[0]), abs(values[-2])))
    lazy = np.linalg.eigvalsh(mixing.lazy.matrix().toarray())
    np.testing.assert_allclose(np.sort(lazy), (1 + values) / 2, atol=1e-12)


def test_the_gap_of_a_ring_is_the_known_one_for_few_and_for_many_agents():
    """Circulant: eigenvalues 1/3 + 2/3 cos(2 pi k / n)."""
    for agents in (8, 700):
        gap = metropolis(ring(agents)).spectral_gap
        assert gap == pytest.approx(2 / 3 * (1 - math.cos(2 * math.pi / agents)), rel=1e-6)


def test_weights_that_do_not_mix_are_refused():
    with pytest.raises(InputError, match="exceed 1"):
        Mixing(star(5), np.full(4, 0.4))
    with pytest.raises(InputError, match="above 0"):
        Mixing(path(3), np.array([0.5, 0.0]))
    with pytest.raises(InputError, match="give as many"):
        Mixing(path(3), np.full(3, 0.1))


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_a_closed_route_visits_all_along_edges(name):
    graph = GRAPHS[name]
    route = closed_route(graph).tolist()
    pairs = {frozenset(edge) for edge in graph.edges.tolist()}
    assert set(route) == set(range(graph.agents))
    assert all(frozenset(step) in pairs for step in itertools.pairwise([*route, route[0]]))
    assert len(route) <= 2 * (graph.agents - 1)
    assert len(closed_route(ring(9))) == 9
    assert len(closed_route(path(5))) == 8


def test_a_uniform_walk_visits_agents_in_proportion_to_their_degrees():
    graph = star(4)
    walk = uniform_walk(graph, 4001, seed=3)
    shares = walk.counts / 4001
    np.testing.assert_allclose(shares, [1 / 2, 1 / 6, 1 / 6, 1 / 6], atol=0.03)
    chained = uniform_walk(ring(5), 20_000, seed=0).holders.astype(int)
    right = np.mean((np.diff(chained) % 5) == 1)
    assert abs(right - 0.5) < 4 * 0.5 / math.sqrt(20_000)


def test_a_walk_knows_who_is_asked_how_often():
    walk = Walk(ring(3), np.array([0, 1, 0, 2, 0, 1]))
    assert walk.visits.tolist() == [0, 0, 1, 0, 2, 1]
    assert walk.counts.tolist() == [3, 2, 1]
    assert walk.privacy_leakage_frequency == 3
    short = walk.capped(2)
    assert short.awake.tolist() == [True, True, True, True, False, True]
    assert short.counts.tolist() == [2, 2, 1]
    assert cyclic_walk(ring(4), 10).counts.tolist() == [3, 3, 2, 2]


@pytest.mark.parametrize(
    ("holders", "cap", "words"),
    [
        ([0, 2], None, "not neighbours"),
        ([], None, "no hop"),
        ([0, 4], None, "0 to 3"),
        ([0, 1], 0, "no agent may answer"),
        ([0, 1], -1, "at least"),
    ],
)
def test_walks_that_leave_the_network_or_the_budget_are_refused(holders, cap, words):
    with pytest.raises(InputError, match=words):
        Walk(ring(4), np.array(holders, int), cap)
