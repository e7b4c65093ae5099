"""Work on networks grows no faster than the agents: steps and places are counted, not time."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.linalg

from taciturn.engine.network import OnTree
from taciturn.network import (
    Graph,
    Mixing,
    Tree,
    erdos_renyi,
    metropolis,
    path,
    random_regular,
    ring,
    spanning_tree,
    star,
)
from taciturn.network import tree as tree_module
from taciturn.network import walk as walk_module

SIZES = (100, 1_000)


class Counted(list):
    """Lists of neighbours that count how often one is looked up."""

    looked_up = 0

    def __getitem__(self, agent):
        self.looked_up += 1
        return super().__getitem__(agent)


@pytest.mark.parametrize("graph", [ring, path, star, lambda n: random_regular(n, 4, seed=0)])
def test_a_route_through_all_agents_is_found_in_steps_in_proportion_to_them(graph):
    """Planted fault: a search of the whole network for every next agent, A lists for each of A."""
    steps = []
    for agents in SIZES:
        lists = Counted(others.tolist() for others in graph(agents).neighbours())
        walk_module._greedy(lists, 0)
        steps.append(lists.looked_up / agents)
    assert max(steps) < 20
    assert steps[1] < 2 * steps[0]


def test_a_centre_of_many_agents_is_looked_for_in_so_many_distances(monkeypatch):
    """On a ring all are alike, so that without an end every agent would be looked at."""
    looked_at = []

    def shortest(matrix, **given):
        looked_at.append(given["indices"])
        return shortest_path(matrix, **given)

    shortest_path = tree_module.shortest_path
    monkeypatch.setattr(tree_module, "shortest_path", shortest)
    monkeypatch.setattr(tree_module, "_MOST_DISTANCES", 40 * 300)
    tree = spanning_tree(ring(300))
    assert len(looked_at) == 40 + 1
    assert (tree.root, tree.depth) == (0, 150)
    looked_at.clear()
    assert spanning_tree(path(301)).root == 150  # found long before that
    assert len(looked_at) < 20


def broom(agents):
    """A path of half of the agents from the root, 0, which ends in a star of the others."""
    half = agents // 2
    parents = np.minimum(np.maximum(np.arange(agents) - 1, 0), half - 1)
    return Tree(Graph(agents, np.stack([np.arange(1, agents), parents[1:]], axis=1)), parents)


@pytest.mark.parametrize("agents", SIZES)
def test_the_rows_of_a_tree_take_places_in_proportion_to_its_agents(agents):
    """Planted fault: rows as wide as the widest level, half of the agents times half of them."""
    tree = broom(agents)
    levels = tree.levels()
    assert len(levels) * max(map(len, levels)) > agents**2 / 5
    connected = OnTree.connect(tree, agents, 1)
    assert connected.senders.size <= 9 * agents
    messages = np.random.default_rng(0).integers(0, 100, agents)
    sums = np.asarray(connected.sent(jnp.asarray(messages)))
    assert sums[0] == messages.sum()
    assert sums[agents // 2 - 1] == messages[agents // 2 - 1 :].sum()


def test_depths_are_how_many_edges_lead_to_the_root():
    tree = broom(50)
    assert tree.depths.tolist() == [*range(25), *[25] * 25]
    assert [level.tolist() for level in tree.levels()] == [
        list(range(25, 50)), *([depth] for depth in range(24, 0, -1))
    ]  # fmt: skip


@pytest.mark.parametrize("agents", [1_001, 2_000])
def test_the_least_eigenvalue_of_a_ring_takes_so_many_products_and_is_never_above_it(
    agents, monkeypatch
):
    """Planted fault: Lanczos' method to its end, in ever more products for ever more agents."""
    products, matrix = [0], Mixing.matrix

    def counting(mixing):
        sparse = matrix(mixing)

        def product(vector):
            products[0] += 1
            return sparse @ vector

        return scipy.sparse.linalg.LinearOperator(sparse.shape, product, dtype=np.float64)

    monkeypatch.setattr(Mixing, "matrix", counting)
    least = metropolis(ring(agents)).least_eigenvalue
    true = 1 / 3 + 2 / 3 * np.cos(2 * np.pi * (agents // 2) / agents)
    assert true - 1e-5 < least < true + 1e-12
    assert products[0] < 3_000


def test_edges_drawn_agent_by_agent_are_those_of_all_pairs_at_once():
    i, j = np.triu_indices(40, k=1)
    drawn = np.random.default_rng(5).random(len(i)) < 0.3
    assert erdos_renyi(40, 0.3, seed=5).edges.tolist() == np.stack([i, j], axis=1)[drawn].tolist()
