"""From a request to a network, and a training on it."""

import numpy as np
import pytest

from conftest import trained_on
from taciturn.datasets import load
from taciturn.errors import InputError
from taciturn.network import Mixing, closed_route, grid, metropolis, spanning_tree, uniform_walk
from taciturn.report.training import settings
from taciturn.training import (
    DataFacts,
    NetworkRequest,
    Proposal,
    Request,
    StructureRequest,
    divide,
    network_values,
    proposal_for,
    propose,
    train,
)

ASKED = {"epsilon": 8.0, "delta": 1e-4, "algorithm": "recal", "rounds": 60}
FACTS = DataFacts(name="mine", task="binary", classes=2, columns=3, record_norm=1.0, table=None)
WANTED = ("network", "walk", "cap")


def network_of(agents=6, **changes):
    """The network of a proposal, rebuilt from its content."""
    wanted = NetworkRequest(**{k: v for k, v in changes.items() if k in WANTED})
    others = {k: v for k, v in changes.items() if k not in WANTED}
    proposal = propose(FACTS, [10] * agents, Request(**{**ASKED, **others}, network=wanted))
    return None if proposal.network is None else proposal.network.network(agents)


def test_a_request_names_its_network_and_its_walk():
    assert network_of(algorithm="noisy-gradient") is None
    default = network_of()
    assert default.holders.tolist() == list(range(6)) * 10
    walk = network_of(network="grid:2x3", walk="random", cap=9, split_seed=4)
    assert np.array_equal(walk.holders, uniform_walk(grid(2, 3), 60, seed=4).holders)
    assert walk.cap == 9
    gossip = network_of(algorithm="nids", network="grid")
    assert isinstance(gossip, Mixing)
    np.testing.assert_allclose(gossip.weights, metropolis(grid(2, 3)).weights)


def test_a_relay_makes_as_many_sweeps_as_other_methods_make_rounds():
    walk = network_of(rounds=None)
    assert len(walk.holders) == 200 * 6
    assert walk.privacy_leakage_frequency == 200


def test_a_network_from_a_file_is_used(tmp_path):
    file = tmp_path / "net.csv"
    file.write_text("a,b\nb,c\nc,d\nd,e\ne,f\n")
    walk = network_of(network=str(file))
    assert walk.holders[:10].tolist() == closed_route(walk.graph).tolist()
    with pytest.raises(InputError, match="6 agents, the data 7"):
        network_of(7, network=str(file))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm": "noisy-gradient", "network": "ring", "cap": 3}, "has no token.*recal, walk"),
        ({"algorithm": "noisy-gradient", "network": "path", "agents": 1}, "at least 2"),
        ({"algorithm": "nids", "centre": True}, "a separate centre"),
        ({"algorithm": "nids", "walk": "random"}, "asks all agents.*recal, walkman"),
        ({"walk": "drunken"}, "cyclic, random"),
        ({"cap": 0}, "cap is 0; it must be at least 1"),
    ],
)
def test_what_does_not_fit_the_algorithm_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        network_of(**changes)


def on_a_network(name, **others):
    request = Request(epsilon=1.0, delta=1e-4, network=NetworkRequest(network=name), **others)
    return propose(FACTS, [400] * 6, request)


def test_a_method_with_an_aggregator_runs_on_a_network_along_its_spanning_tree():
    proposal = on_a_network("grid:2x3", rounds=12)
    plan, tree = proposal.plan(), spanning_tree(grid(2, 3))
    assert proposal.method.name == "noisy-gradient"
    assert plan.network.parents.tolist() == tree.parents.tolist()
    assert Proposal.from_json(proposal.to_json()) == proposal
    rows = dict(settings(proposal, plan, plan.certificate))
    assert f"depth 2 from agent {tree.root}" in rows["sums along"]
    assert rows["messages sent"] == "120, one along one edge"
    assert rows["numbers sent"] == "360"
    values = network_values(proposal, plan)["network"]
    assert (values["messages_sent"], values["numbers_sent"], values["kind"]) == (120, 360, "tree")


@pytest.mark.slow
@pytest.mark.parametrize("centre", [False, True])
def test_a_training_along_a_tree_is_that_of_the_star(centre):
    asked = ASKED | {"algorithm": "noisy-gradient", "centre": centre, "evaluate": 0.2}
    asked |= {"epsilon": 60.0, "precision": "float64"}
    data = divide(load("breast_cancer"), 6, split_seed=0, evaluate=0.2)
    done = []
    for on in ({}, {"network": "grid"}):
        request = Request(**asked, network=NetworkRequest(**on))
        proposal = proposal_for(data, request, StructureRequest())
        done.append(train(data, proposal, reference=False, seed=0))
    np.testing.assert_allclose(done[0].model, done[1].model, rtol=1e-9)
    assert done[0].certificate.epsilon == done[1].certificate.epsilon
    assert done[0].private_score == done[1].private_score


@pytest.mark.slow
def test_a_training_without_aggregator_learns_within_its_budget():
    changes = {"algorithm": "recal", "network": NetworkRequest(network="grid"), "rounds": 600}
    done = trained_on(load("breast_cancer"), agents=6, seed=0, **ASKED | changes)
    assert done.certificate.epsilon <= 8.0 * (1 + 1e-9)
    assert done.metrics.test_error < 0.25  # 37 % say the same of everyone
    rows = dict(settings(done.proposal, done.plan, done.certificate))
    assert rows["network"] == "grid"
    assert rows["answers of an agent"] == "100"


def test_a_network_that_is_no_tree_is_written_as_before_there_were_trees():
    gossip = propose(FACTS, [10] * 6, Request(**{**ASKED, "algorithm": "nids"}))
    assert '"tree"' not in gossip.to_json()
    assert '"tree":true' in on_a_network("ring").to_json()
