"""Spanning trees against brute force: depth, edges, order of the sums, and what is refused."""

import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn.network import (
    Graph,
    Tree,
    complete,
    erdos_renyi,
    grid,
    path,
    random_regular,
    ring,
    spanning_tree,
    star,
)

GRAPHS = [
    ring(7), ring(8), path(5), path(2), star(6), complete(5), grid(3, 4),
    *(erdos_renyi(agents, 0.3, seed=seed) for agents in (9, 14) for seed in range(4)),
    random_regular(10, 3, seed=2),
]  # fmt: skip


def distances(graph):
    """Floyd and Warshall: the number of edges between any two agents."""
    far = np.full((graph.agents, graph.agents), np.inf)
    np.fill_diagonal(far, 0)
    for a, b in graph.edges.tolist():
        far[a, b] = far[b, a] = 1
    for k in range(graph.agents):
        far = np.minimum(far, far[:, k : k + 1] + far[k])
    return far


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{graph.agents}-{len(graph.edges)}")
def test_paths_to_the_root_are_shortest_and_the_root_is_the_first_centre(graph):
    tree, far = spanning_tree(graph), distances(graph)
    farthest = far.max(axis=1)
    assert tree.root == np.flatnonzero(farthest == farthest.min())[0]
    assert tree.depth == farthest.min()
    assert tree.depths.tolist() == far[tree.root].tolist()
    edges = {frozenset((a, p)) for a, p in enumerate(tree.parents.tolist()) if a != p}
    assert len(edges) == graph.agents - 1
    assert edges <= {frozenset(edge) for edge in graph.edges.tolist()}
    for agent, parent in enumerate(tree.parents.tolist()):
        nearer = [b for b in range(graph.agents) if far[agent, b] == 1]
        nearer = [b for b in nearer if far[tree.root, b] == far[tree.root, agent] - 1]
        assert parent == (agent if agent == tree.root else min(nearer))


@pytest.mark.parametrize(
    ("graph", "parents", "words"),
    [
        (path(4), [0, 0, 1], "3 parents for 4 agents"),
        (path(4), [1, 0, 1, 2], "one root"),
        (path(4), [0, 1, 1, 2], "one root"),
        (path(4), [0, 0, 0, 2], "parent of agent 2 is 0, who is no neighbour"),
        (ring(5), [0, 2, 3, 2, 0], "form a cycle"),
    ],
)
def test_what_is_no_tree_is_refused(graph, parents, words):
    with pytest.raises(InputError, match=words):
        Tree(graph, np.array(parents))


def test_a_network_in_two_parts_has_no_tree_and_is_refused_in_one_line():
    with pytest.raises(InputError, match="falls into 2 parts") as refused:
        spanning_tree(Graph(4, np.array([[0, 1], [2, 3]])))
    assert "\n" not in str(refused.value)


def test_among_some_agents_each_has_the_nearest_of_them_above_it_as_its_parent():
    tree = spanning_tree(path(7))  # 3 is the root
    assert tree.among(range(7)).parents.tolist() == tree.parents.tolist()
    assert tree.among([0, 1, 3, 6]).parents.tolist() == [1, 2, 2, 2]
    # without the root, the one nearest to it takes its place
    left = tree.among([0, 2, 5, 6])
    assert left.parents.tolist() == [1, 1, 1, 2]
    assert left.graph.edges.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert tree.along.edges.tolist() == path(7).edges.tolist()
    assert spanning_tree(ring(5)).along.edges.tolist() == [[0, 1], [0, 4], [1, 2], [3, 4]]
